/* Verifies all outputs on a small shape: the first of a few that the variant fits: ragged sizes, multiples of 32,
 * few long rows. */
#include "tune/verify/internal.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/additions.h"
#include "tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SHAPES = 3 };
static const double MOST_WORK = 6e6;

/* Dynamic dims in turn. */
static const int64_t sizes_of_shape[N_SHAPES][3] = {{37, 53, 29}, {96, 64, 128}, {3, 640, 7}};

typedef struct small_shape {
    bool is_made, is_usable;
    md_tn_data data;
    void *right[MD_KN_MAX_TENSORS]; /* the outputs by the reference; NULL: not compared */
} small_shape;

struct md_tn_small {
    md_tn_patterns patterns;
    small_shape shape[N_SHAPES];
};

static void finish_shape(small_shape *s)
{
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
        free(s->right[t]);
    if (s->is_usable)
        md_tn_data_finish(&s->data);
    memset(s, 0, sizeof *s);
}

void md_tn_verify_finish(md_tn_work *w)
{
    if (!w->small)
        return;
    for (int32_t i = 0; i < N_SHAPES; i++)
        finish_shape(&w->small->shape[i]);
    md_tn_patterns_finish(&w->small->patterns);
    free(w->small);
    w->small = NULL;
}

static void set_sizes(int64_t size[MD_FX_MAX_DIMS], const md_fx_formula *f, const md_tn_tuning_point *tuning_point,
                      int32_t which)
{
    int32_t k = 0;
    for (int32_t d = 0; d < f->n_dims; d++) {
        size[d] = f->dim[d].size;
        if (f->dim[d].size >= 0)
            continue;
        size[d] = 0; /* a table's length, unless an index runs over it */
        if (tuning_point->point->size[d] <= 0)
            continue;
        const int64_t small = sizes_of_shape[which][k++ % 3];
        size[d] = MD_MAX(f->dim[d].lo, MD_MIN(f->dim[d].hi, small));
    }
}

/* The reference runs the whole formula; only single stages are compared with it. */
static md_status evaluate(small_shape *s, const md_fx_formula *f)
{
    const md_st_stage *stage = &s->data.program->stage[s->data.stage];
    md_fx_fault fault = {0};
    md_fx_binding *b = malloc(sizeof *b);
    if (!b)
        return md_fail_memory();
    md_tn_bind(b, f, &s->data);
    md_status status = MD_OK;
    for (int32_t i = 0; i < stage->n_tensors && status == MD_OK; i++) {
        const int32_t t = stage->tensor[i];
        if (!stage->is_stored[i])
            continue;
        s->right[t] = calloc(1, (size_t)s->data.bytes[t] + 1);
        if (!s->right[t])
            status = md_fail_memory();
        else if (s->data.image[t])
            memcpy(s->right[t], s->data.image[t], (size_t)s->data.bytes[t]);
        b->tensor[t].data = s->right[t];
    }
    if (status == MD_OK)
        status = md_fx_evaluate(f, b, &fault);
    free(b);
    return status;
}

static bool make_shape(small_shape *s, md_tn_work *w, int32_t which)
{
    const md_fa_target *target = &w->job->target;
    const md_fx_formula *f = target->program->formula;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    double flops = 0.0, bytes = 0.0;
    s->is_made = true;
    w->small->patterns.for_tf32 = target->allows_tf32;
    set_sizes(size, f, &w->tuning_point[0], which);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    if (target->program->n_stages > 1 || flops + bytes > MOST_WORK)
        return false;
    if (md_tn_data_make(&s->data, &w->small->patterns, target, size, which == 0, (int64_t)64 << 20) != MD_OK)
        return false;
    s->is_usable = true;
    if (evaluate(s, f) == MD_OK)
        return true;
    finish_shape(s);
    s->is_made = true;
    return false;
}

static bool compare_tensor(char *why, size_t n_why, md_tn_work *w, const md_tn_bench *b, const small_shape *s,
                           int32_t t)
{
    const md_fx_tensor *x = &s->data.program->formula->tensor[t];
    const int64_t n = s->data.bytes[t] / (int64_t)md_dtype_size(x->dtype);
    const bool is_real = md_dtype_is_real(x->dtype);
    const double additions = md_fa_additions(&w->job->target, s->data.shape.size);
    int64_t n_off = 0;
    void *got = malloc((size_t)s->data.bytes[t] + 1);
    md_status status =
        got ? w->dev->ops->copy(w->dev, got, b->set[0].call.data[t], (size_t)s->data.bytes[t]) : md_fail_memory();
    for (int64_t i = 0; i < n && status == MD_OK; i++) {
        const double a = is_real ? md_dtype_load(x->dtype, got, i) : (double)md_dtype_load_int(x->dtype, got, i);
        const double want =
            is_real ? md_dtype_load(x->dtype, s->right[t], i) : (double)md_dtype_load_int(x->dtype, s->right[t], i);
        if (md_tn_is_close(x->dtype, additions, 0.0, a, want))
            continue;
        snprintf(why, n_why, "element %lld of %s is %.9g, not %.9g, on a small shape", (long long)i, x->name, a, want);
        n_off++;
        if (is_real)
            break;
    }
    free(got);
    return n_off == 0 ||
           (!is_real && n_off * 16 <= n); /* positions of maxima may differ where two values differ by rounding only */
}

static bool compare(char *why, size_t n_why, md_tn_work *w, const md_tn_trial *trial, small_shape *s)
{
    const md_st_stage *stage = &s->data.program->stage[s->data.stage];
    md_tn_bench b;
    md_kn_geometries geometry = {0};
    md_kn_report *report = w->dev->ops->report_create ? w->report.kernel : NULL;
    if (md_tn_bench_make(&b, w->dev, &s->data, report, md_tn_bench_limit(w->dev)) != MD_OK)
        return true;
    md_fa_geometry_of(&geometry, trial->family, &w->job->target, &trial->config, &s->data.shape);
    bool is_right = md_tn_bench_run(&b, trial->variant, &geometry) == MD_OK;
    if (!is_right)
        snprintf(why, n_why, "%s", md_last_error());
    for (int32_t i = 0; i < stage->n_tensors && is_right; i++)
        if (stage->is_stored[i])
            is_right = compare_tensor(why, n_why, w, &b, s, stage->tensor[i]);
    if (is_right && !md_tn_bench_is_intact(&b)) {
        snprintf(why, n_why, "it writes beside its outputs, on a small shape");
        is_right = false;
    }
    md_tn_bench_finish(&b);
    return is_right;
}

bool md_tn_check_small(char *why, size_t n_why, md_tn_work *w, const md_tn_trial *trial)
{
    if (!w->small && !(w->small = calloc(1, sizeof *w->small)))
        return true;
    for (int32_t i = 0; i < N_SHAPES; i++) {
        small_shape *s = &w->small->shape[i];
        if (!s->is_made)
            (void)make_shape(s, w, i);
        if (!s->is_usable || md_kn_envelope_miss(&trial->variant->envelope, &s->data.shape))
            continue;
        return compare(why, n_why, w, trial, s);
    }
    return true;
}
