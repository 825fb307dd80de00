/* Who competes at a shape: ops, all their variants, a copy of the same bytes, and the sets of tensors they run on. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HOST_SETS = 8 };
static const double cold_bytes = 192e6; /* all sets together are larger than the caches */
/* about the length of a sample, and the most memory of all sets */
static const double gpu_us = 300, gpu_bytes_per_us = 4e6, gpu_bytes = 6e9;

static md_status make_op(md_op **out, bench *b, const char *formula, md_dtype dtype, const char *pin)
{
    md_op_options o = b->o->op;
    o.dtype = dtype;
    if (pin)
        o.pin = pin;
    cli_progress("building %s", pin ? pin : formula);
    return md_op_create(out, b->context, formula, &o);
}

md_status bench_op_of(md_op **out, bool *is_own, bench *b, const char *formula, md_dtype dtype)
{
    *is_own = false;
    for (int i = 0; i < b->n_ops; i++)
        if (b->op[i].dtype == dtype && !strcmp(b->op[i].formula, formula)) {
            *out = b->op[i].op;
            return MD_OK;
        }
    md_status s = make_op(out, b, formula, dtype, NULL);
    if (s != MD_OK)
        return s;
    char *copy = b->n_ops < BENCH_OPS ? strdup(formula) : NULL;
    *is_own = copy == NULL;
    if (copy)
        b->op[b->n_ops++] = (bench_op){copy, dtype, *out};
    return MD_OK;
}

md_status bench_add(bench_case *c, md_op *op, bool is_own)
{
    contender *rival = &c->who[c->n];
    *rival = (contender){.peer = "md", .op = op, .is_own = is_own};
    for (int k = 0; k < c->n_sets; k++) {
        md_status s = md_resolve(&rival->launch[k], op, c->set[k].arg, c->set[k].n);
        if (s != MD_OK) {
            for (int i = 0; i < k; i++)
                md_launch_destroy(&rival->launch[i]);
            return s;
        }
    }
    c->n++;
    return md_launch_choice(&rival->choice, rival->launch[0]);
}

/* With several stages all combinations would be needed, so only ops of one stage are taken apart. */
md_status bench_add_variants(bench *b, bench_case *c, const char *formula, md_op *op)
{
    if (b->o->quick || md_op_n_stages(op) != 1 || b->o->op.pin)
        return MD_OK;
    for (int32_t i = 0; i < md_op_n_variants(op, 0) && c->n + 1 < BENCH_CONTENDERS; i++) {
        md_op *pinned = NULL;
        md_status s = make_op(&pinned, b, formula, c->dtype, md_op_variant(op, 0, i));
        if (s == MD_COMPILE) /* a variant that cannot be built is never picked */
            continue;
        if (s != MD_OK)
            return s;
        s = bench_add(c, pinned, true);
        if (s == MD_OK)
            continue;
        md_op_destroy(&pinned);
        if (s != MD_UNSUPPORTED)
            return s;
    }
    return MD_OK;
}

/* A copy of as many bytes by an op. It does not get the options of the other contenders, for example their pins. */
static md_status add_gpu_copy(bench *b, bench_case *c)
{
    char sizes[64];
    contender *rival = &c->who[c->n];
    md_status s =
        b->copy ? MD_OK
                : md_op_create(&b->copy, b->context, "Y[n] = X[n]", &(md_op_options){.name = "copy", .dtype = MD_F32});
    *rival = (contender){.peer = "copy", .op = b->copy};
    snprintf(sizes, sizeof sizes, "n=%.0f", c->bytes / 8 > 1 ? c->bytes / 8 : 1);
    if (s == MD_OK)
        s = data_make(&c->copy[0], b->context, b->copy, sizes, 1);
    for (int k = 1; k < c->n_sets && s == MD_OK; k++)
        s = data_clone(&c->copy[k], &c->copy[0]);
    for (int k = 0; k < c->n_sets && s == MD_OK; k++)
        s = md_resolve(&rival->launch[k], b->copy, c->copy[k].arg, c->copy[k].n);
    c->n++;
    return s;
}

md_status bench_add_copy(bench *b, bench_case *c)
{
    if (b->device.is_gpu)
        return add_gpu_copy(b, c);
    size_t half = (size_t)(c->bytes / 2);
    c->copier = copier_create(b->device.threads);
    if (!c->copier)
        return MD_OUT_OF_MEMORY;
    md_status s = md_alloc(&c->from, b->context, half + 64);
    if (s == MD_OK)
        s = md_alloc(&c->to, b->context, half + 64);
    if (s != MD_OK)
        return s;
    memset(c->from, 1, half);
    memset(c->to, 0, half);
    c->who[c->n++] = (contender){.peer = "copy"};
    return MD_OK;
}

void bench_free(bench *b, bench_case *c)
{
    for (int i = 0; i < c->n; i++) {
        for (int k = 0; k < c->n_sets; k++)
            md_launch_destroy(&c->who[i].launch[k]);
        if (c->who[i].is_own)
            md_op_destroy(&c->who[i].op);
    }
    for (int k = 0; k < BENCH_SETS; k++) {
        data_free(&c->set[k]);
        data_free(&c->copy[k]);
    }
    copier_destroy(c->copier);
    json_decref(c->explained);
    md_free(b->context, c->from);
    md_free(b->context, c->to);
}

static int count_sets(const bench *b, double bytes)
{
    double sets = cold_bytes / (bytes + 1.0), most = MAX_HOST_SETS;
    if (b->device.is_gpu) {
        sets = gpu_us / (bytes / gpu_bytes_per_us + 2.0) + 1.0;
        most = gpu_bytes / (bytes + 1.0);
        most = most > BENCH_SETS ? BENCH_SETS : most < 3.0 ? 3.0 : most;
        sets = sets < 3.0 ? 3.0 : sets;
    }
    sets = sets > most ? most : sets;
    return sets < 1.0 ? 1 : (int)sets;
}

md_status bench_fill(bench *b, bench_case *c, md_op *op)
{
    md_status s = md_op_work(&c->flops, &c->bytes, op, c->sizes);
    int sets = s == MD_OK ? count_sets(b, c->bytes) : 0;
    c->sweep = &b->sweep;
    for (; s == MD_OK && c->n_sets < sets; c->n_sets++) {
        int k = c->n_sets;
        s = k && b->device.is_gpu ? data_clone(&c->set[k], &c->set[0])
                                  : data_make(&c->set[k], b->context, op, c->sizes, b->o->seed + (uint64_t)k);
    }
    return s;
}
