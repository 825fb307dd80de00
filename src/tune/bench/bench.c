/* Sets of tensors on the device, timed runs on them, and guards around outputs. */
#include "tune/bench/bench.h"

#include "base/clock.h"
#include "base/status.h"
#include "tune/bench/copies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Guards follow each output. Blocks of a ragged point start one element after a boundary. */
enum { ALIGNMENT = 64, GUARD = 256, POISON = 0xff, PACKED_ALIGNMENT = 256 };

uint64_t md_tn_now_ns(const md_dev *dev)
{
    return dev->ops->now_ns ? dev->ops->now_ns(dev) : md_clock_ns();
}

int64_t md_tn_bench_limit(md_dev *dev)
{
    return MD_MIN(md_tn_copies_limit(dev), (int64_t)256 << 20);
}

/* Sets every byte: a small copy from the host, which the device then doubles. */
static md_status fill(md_dev *dev, void *to, int64_t n_bytes)
{
    enum { FIRST = 64 << 10 };
    if (dev->ops->is_simulated)
        return MD_OK;
    int64_t done = MD_MIN(n_bytes, FIRST);
    void *first = malloc(FIRST);
    if (!first)
        return md_fail_memory();
    memset(first, POISON, FIRST);
    md_status s = dev->ops->copy(dev, to, first, (size_t)done);
    free(first);
    while (s == MD_OK && done < n_bytes) {
        int64_t n = MD_MIN(done, n_bytes - done);
        s = dev->ops->copy(dev, (char *)to + done, to, (size_t)n);
        done += n;
    }
    return s;
}

static md_status take(void **out, md_tn_bench *b, int64_t n_bytes)
{
    if (n_bytes > b->left)
        return md_fail(MD_OUT_OF_MEMORY, "measuring would take more than %lld bytes",
                       (long long)md_tn_bench_limit(b->dev));
    MD_TRY(b->dev->ops->alloc(out, b->dev, (size_t)n_bytes));
    b->left -= n_bytes;
    return MD_OK;
}

static int64_t offset_of(const md_tn_data *d, int32_t t)
{
    const bool is_ragged = !(d->shape.aligned >> t & 1) && !(d->shape.aligned16 >> t & 1);
    return is_ragged ? (int64_t)md_dtype_size(d->program->formula->tensor[t].dtype) : 0;
}

static md_status make_tensor(md_tn_bench *b, md_tn_set *set, int32_t i, const md_tn_set *first)
{
    const md_tn_data *d = b->data;
    const int32_t t = d->program->stage[d->stage].tensor[i];
    const int64_t offset = offset_of(d, t);
    MD_TRY(take(&set->block[t], b, d->bytes[t] + ALIGNMENT + GUARD));
    char *to = (char *)set->block[t] + offset;
    set->call.data[t] = to;
    if (d->bytes[t] == 0 || b->dev->ops->is_simulated)
        return MD_OK;
    if (d->program->stage[d->stage].is_stored[i])
        MD_TRY(fill(b->dev, set->block[t], d->bytes[t] + ALIGNMENT + GUARD));
    if (!d->image[t])
        return MD_OK;
    return b->dev->ops->copy(b->dev, to, first ? first->call.data[t] : d->image[t], (size_t)d->bytes[t]);
}

static void free_set(md_tn_bench *b, md_tn_set *set)
{
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
        if (set->block[t])
            b->dev->ops->free(b->dev, set->block[t]);
    memset(set, 0, sizeof *set);
}

static md_status make_set(md_tn_bench *b, md_kn_report *report)
{
    const md_tn_data *d = b->data;
    md_tn_set *set = &b->set[b->n_sets];
    md_kn_call *call = &set->call;
    memset(set, 0, sizeof *set);
    call->shape = &d->shape;
    call->report = report ? report : &b->report;
    call->stream = b->dev->tuning;
    call->device = b->dev;
    call->threads = b->dev->facts.threads;
    call->program = d->program;
    call->stage = &d->program->stage[d->stage];
    md_tn_data_scalars(call->scalar, d->program->formula);
    md_status s = MD_OK;
    for (int32_t i = 0; i < d->program->stage[d->stage].n_tensors && s == MD_OK; i++)
        s = make_tensor(b, set, i, b->n_sets ? &b->set[0] : NULL);
    if (s == MD_OK)
        b->n_sets++;
    else
        free_set(b, set);
    return s;
}

md_status md_tn_bench_make(md_tn_bench *out, md_dev *dev, const md_tn_data *data, md_kn_report *report, int64_t limit)
{
    memset(out, 0, sizeof *out);
    out->dev = dev;
    out->data = data;
    out->left = limit;
    out->set = calloc(MD_TN_MAX_SETS, sizeof *out->set);
    if (!out->set)
        return md_fail_memory();
    md_status s = make_set(out, report);
    if (s != MD_OK) {
        md_tn_bench_finish(out);
        return s;
    }
    const int32_t wanted = md_tn_cold_sets(dev, (double)MD_MAX(data->total_bytes, 1), MD_TN_MAX_SETS);
    while (out->n_sets < wanted && make_set(out, report) == MD_OK)
        ;
    return MD_OK;
}

void md_tn_bench_finish(md_tn_bench *b)
{
    for (int32_t i = 0; b->set && i < b->n_sets; i++)
        free_set(b, &b->set[i]);
    if (b->workspace)
        b->dev->ops->free(b->dev, b->workspace);
    free(b->set);
    memset(b, 0, sizeof *b);
}

/* Makes the workspace, which all sets and variants share, large enough. Behind it each set has its packed operands, so
 * that variants pack them once and read them from a cold cache. */
static md_status reserve(md_tn_bench *b, const md_kn_geometries *geometry)
{
    const int64_t own_bytes = (geometry->workspace_bytes + PACKED_ALIGNMENT - 1) / PACKED_ALIGNMENT * PACKED_ALIGNMENT,
                  packed_bytes = (geometry->packed_bytes + PACKED_ALIGNMENT - 1) / PACKED_ALIGNMENT * PACKED_ALIGNMENT,
                  n_bytes = own_bytes + b->n_sets * packed_bytes;
    if (n_bytes > b->workspace_bytes) {
        if (b->workspace)
            b->dev->ops->free(b->dev, b->workspace);
        b->workspace = NULL;
        b->left += b->workspace_bytes;
        b->workspace_bytes = 0;
        MD_TRY(take(&b->workspace, b, n_bytes));
        b->workspace_bytes = n_bytes;
    }
    for (int32_t i = 0; i < b->n_sets; i++) {
        md_kn_call *call = &b->set[i].call;
        char *packed = packed_bytes > 0 ? (char *)b->workspace + own_bytes + i * packed_bytes : NULL;
        call->workspace = b->workspace;
        if (call->packed != packed || !packed)
            call->packed_by = NULL;
        call->packed = packed;
    }
    return MD_OK;
}

md_status md_tn_run_all(void *user)
{
    const md_tn_runs *runs = user;
    for (int32_t i = 0; i < runs->n; i++)
        MD_TRY(md_bd_variant_run(runs->variant, runs->geometry, runs->dev->tuning, runs->next(runs->user)));
    return MD_OK;
}

md_status md_tn_time(double *us, md_dev *dev, md_stream stream, md_status (*run)(void *user), void *user)
{
    if (dev->ops->time)
        return dev->ops->time(us, dev, stream, run, user);
    const uint64_t start = md_tn_now_ns(dev);
    MD_TRY(run(user));
    MD_TRY(dev->ops->sync(dev, stream));
    *us = (double)(md_tn_now_ns(dev) - start) * 1e-3;
    return MD_OK;
}

md_status md_tn_time_runs(double *us, md_tn_runs *runs)
{
    MD_TRY(md_tn_time(us, runs->dev, runs->dev->tuning, md_tn_run_all, runs));
    *us /= runs->n;
    return MD_OK;
}

static md_kn_call *next_set(void *user)
{
    md_tn_bench *b = user;
    md_kn_call *call = &b->set[b->next].call;
    b->next = (b->next + 1) % b->n_sets;
    return call;
}

md_status md_tn_bench_time(double *us, md_tn_bench *bench, const md_bd_variant *variant,
                           const md_kn_geometries *geometry, int32_t repeats)
{
    md_tn_runs runs = {bench->dev, variant, geometry, next_set, bench, repeats};
    double spent = 0.0;
    MD_TRY(reserve(bench, geometry));
    MD_TRY(md_tn_time_runs(&spent, &runs));
    if (!isfinite(spent) || spent <= 0.0)
        return md_fail(MD_DEVICE, "a time of %g us is none", spent);
    *us = spent;
    return MD_OK;
}

md_status md_tn_bench_run(md_tn_bench *b, const md_bd_variant *variant, const md_kn_geometries *geometry)
{
    const md_tn_data *d = b->data;
    const md_st_stage *s = &d->program->stage[d->stage];
    md_tn_set *set = &b->set[0];
    MD_TRY(reserve(b, geometry));
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const int32_t t = s->tensor[i];
        if (!s->is_stored[i] || d->bytes[t] == 0)
            continue;
        MD_TRY(fill(b->dev, set->block[t], d->bytes[t] + ALIGNMENT + GUARD));
        if (d->image[t])
            MD_TRY(b->dev->ops->copy(b->dev, set->call.data[t], d->image[t], (size_t)d->bytes[t]));
    }
    MD_TRY(md_bd_variant_run(variant, geometry, b->dev->tuning, &set->call));
    return b->dev->ops->sync(b->dev, b->dev->tuning);
}

bool md_tn_bench_is_intact(const md_tn_bench *b)
{
    const md_tn_data *d = b->data;
    const md_st_stage *s = &d->program->stage[d->stage];
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const int32_t t = s->tensor[i];
        unsigned char after[GUARD], before[MD_MAX_RANK];
        const int64_t offset = offset_of(d, t);
        if (!s->is_stored[i] || d->bytes[t] == 0)
            continue;
        const char *block = b->set[0].block[t];
        if (b->dev->ops->copy(b->dev, after, block + offset + d->bytes[t], GUARD) != MD_OK ||
            b->dev->ops->copy(b->dev, before, block, (size_t)offset) != MD_OK)
            return false;
        for (int32_t k = 0; k < GUARD; k++)
            if (after[k] != POISON || (k < offset && before[k] != POISON))
                return false;
    }
    return true;
}
