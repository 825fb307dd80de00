/* Runs variants on the same inputs and compares samples of their results by majority. */
#include "tune/verify/verify.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/additions.h"
#include "tune/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* RUNS runs of RUN neighbouring elements of each output are compared, spread over it. */
enum { ALIGNMENT = 256, RUNS = 4, RUN = 256, PIECE = 1 << 18, PAUSE_NS = 200000 };

typedef struct place {
    int32_t tensor;
    bool is_read, is_stored;
    size_t at, n_bytes;
    md_dtype dtype;
    int64_t first; /* of its samples among all */
} place;

typedef struct agree {
    md_dev *dev;
    const md_st_stage *stage;
    const md_kn_shape *shape;
    bool allows_tf32;
    double additions, moved; /* of the stage's sums; md_fa_moved_rounding */
    md_kn_call call;
    md_kn_report report;
    char *memory;
    void *own; /* to be freed; NULL: the stream's */
    void *piece; /* on the host */
    md_dtype pattern; /* what it holds; MD_DTYPE_DEFAULT: something else */
    int32_t n_places;
    place place[MD_FX_MAX_TENSORS];
    int64_t n_samples; /* of all places */
    double *value; /* [variant][sample] */
    size_t n_bytes, workspace_bytes; /* of all tensors; the most that one variant wants */
} agree;

static size_t span_of(const md_st_program *program, int32_t t, const md_kn_shape *shape)
{
    const md_fx_tensor *x = &program->formula->tensor[t];
    int64_t last = 0;
    for (int32_t a = 0; a < x->rank; a++) {
        if (shape->extent[t][a] == 0)
            return 0;
        last += (shape->extent[t][a] - 1) * shape->stride[t][a];
    }
    return (size_t)md_dtype_span(x->dtype, last + 1);
}

static size_t align(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

double md_tn_agree_bytes(const md_fa_target *target, const md_kn_shape *shape)
{
    const md_st_stage *s = &target->program->stage[target->stage];
    double sum = 0.0;
    for (int32_t i = 0; i < s->n_tensors; i++)
        sum += (double)span_of(target->program, s->tensor[i], shape);
    return sum;
}

static void lay_out(agree *a, const md_fa_target *target)
{
    size_t at = 0;
    for (int32_t i = 0; i < a->stage->n_tensors; i++) {
        int32_t t = a->stage->tensor[i];
        const md_fx_tensor *x = &target->program->formula->tensor[t];
        place *p = &a->place[a->n_places++];
        *p = (place){
            t,           !a->stage->is_stored[i] || x->is_updated, a->stage->is_stored[i],
            at,          span_of(target->program, t, a->shape),    md_dtype_is_packed(x->dtype) ? MD_U8 : x->dtype,
            a->n_samples};
        at += align(p->n_bytes);
        if (p->is_stored)
            a->n_samples += (int64_t)MD_MIN(p->n_bytes / md_dtype_size(p->dtype), (size_t)RUNS * RUN);
    }
    a->n_bytes = at;
}

static md_status copy(agree *a, void *to, const void *from, size_t n)
{
    const md_dev_ops *ops = a->dev->ops;
    return ops->copy_background ? ops->copy_background(a->dev, a->dev->tuning, to, from, n)
                                : ops->copy(a->dev, to, from, n);
}

/* In [-1, 1), half of them close to 0.31: a long sum that loses bits is seen. Where operands may be rounded to tf32,
 * values have so few bits that rounding changes none: variants of f32 and tf32 must agree. */
static double value_of(const agree *a, int64_t i)
{
    const uint64_t mixed = (uint64_t)i * 2654435761u % 1021;
    const double step = (double)mixed;
    if (mixed % 2)
        return a->allows_tf32 ? 0.3125 : 0.31 + step * 0x1p-20;
    return a->allows_tf32 ? (step - 510.0) / 512.0 : step / 510.5 - 1.0;
}

/* Fills a tensor with values, or with zeros if it holds integers, which may be indices; or with poison. */
static md_status fill(agree *a, const place *p, bool is_poison)
{
    const size_t item = md_dtype_size(p->dtype);
    const int64_t n = (int64_t)(PIECE / item);
    md_status s = MD_OK;
    for (int64_t i = 0; i < n && !is_poison && a->pattern != p->dtype; i++) {
        if (md_dtype_is_real(p->dtype))
            md_dtype_store(p->dtype, a->piece, i, value_of(a, i));
        else
            md_dtype_store_int(p->dtype, a->piece, i, 0);
    }
    a->pattern = is_poison ? MD_DTYPE_DEFAULT : p->dtype;
    if (is_poison)
        memset(a->piece, 0xff, MD_MIN(p->n_bytes, (size_t)PIECE));
    for (size_t done = 0; done < p->n_bytes && s == MD_OK; done += PIECE)
        s = copy(a, a->memory + p->at + done, a->piece, MD_MIN(p->n_bytes - done, (size_t)PIECE));
    return s;
}

/* Copies the samples of all outputs back, as doubles. */
static md_status fetch(double *out, agree *a)
{
    for (int32_t i = 0; i < a->n_places; i++) {
        const place *p = &a->place[i];
        a->pattern = MD_DTYPE_DEFAULT;
        const size_t item = md_dtype_size(p->dtype);
        const int64_t n = (int64_t)(p->n_bytes / item), runs = n <= RUNS * RUN ? 1 : RUNS, length = runs == 1 ? n : RUN;
        for (int64_t r = 0; p->is_stored && r < runs; r++) {
            int64_t from = runs == 1 ? 0 : (n - length) / (runs - 1) * r;
            MD_TRY(copy(a, a->piece, a->memory + p->at + (size_t)from * item, (size_t)length * item));
            for (int64_t k = 0; k < length; k++)
                out[p->first + r * length + k] = md_dtype_is_real(p->dtype)
                                                     ? md_dtype_load(p->dtype, a->piece, k)
                                                     : (double)md_dtype_load_int(p->dtype, a->piece, k);
        }
    }
    return MD_OK;
}

static md_status run(double *out, agree *a, const md_bd_variant *v)
{
    md_kn_geometries geometry;
    md_fa_geometry_of(&geometry, v->family, &v->target, &v->config, a->shape);
    for (int32_t i = 0; i < a->n_places; i++)
        if (a->place[i].is_stored)
            MD_TRY(fill(a, &a->place[i], !a->place[i].is_read));
    MD_TRY(md_bd_variant_run(v, &geometry, a->dev->tuning, &a->call));
    MD_TRY(md_tn_drain(a->dev));
    MD_TRY(fetch(out, a));
    if (a->dev->ops->copy_background) /* let other threads use the driver */
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return MD_OK;
}

/* What two right kernels may differ by, in parts of a tensor's largest value: either may be off. Rounding an
 * operand to tf32 costs up to 2^-10 of it where it is computed first, and 2^-9 of a product's terms. */
static double tolerance_of(const agree *a, md_dtype t)
{
    const double tf32 = t == MD_F32 && a->allows_tf32 ? 0x1p-8 : 0.0;
    return MD_MAX(2.0 * md_fa_allowed_error(t, a->additions), tf32);
}

/* What weights that either rounds at another place come to: that of the sum of weight * |value|. The values of fill are
 * at most 1, and their magnitudes 2.6 times their mean: the sum is at most 1 where weights add up to 1, and else some
 * three times the largest result. */
static double moved_of(const agree *a, double most)
{
    return 2.0 * a->moved * MD_MAX(1.0, 4.0 * most);
}

static bool same(const agree *a, const double *x, const double *y)
{
    for (int32_t i = 0; i < a->n_places; i++) {
        const place *p = &a->place[i];
        const int64_t n = p->is_stored ? (int64_t)MD_MIN(p->n_bytes / md_dtype_size(p->dtype), (size_t)RUNS * RUN) : 0;
        double most = 0.0;
        for (int64_t k = p->first; k < p->first + n; k++)
            most = isfinite(x[k]) ? MD_MAX(most, fabs(x[k])) : most;
        for (int64_t k = p->first; k < p->first + n; k++)
            if (x[k] != y[k] && !(isnan(x[k]) && isnan(y[k])) &&
                !(fabs(x[k] - y[k]) <= tolerance_of(a, p->dtype) * most + moved_of(a, most)))
                return false;
    }
    return true;
}

static bool have_same_results(const agree *a, int32_t one, int32_t other)
{
    return same(a, a->value + one * a->n_samples, a->value + other * a->n_samples);
}

static void vote(md_tn_agreement *out, const agree *a, int32_t n)
{
    int32_t right = -1, n_right = 0, n_run = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t count = 0;
        n_run += out[i] != MD_TN_FAILS;
        for (int32_t k = 0; k < n && out[i] != MD_TN_FAILS; k++)
            count += out[k] != MD_TN_FAILS && have_same_results(a, i, k);
        if (count > n_right) {
            right = i;
            n_right = count;
        }
    }
    const bool is_clear = n_right > 1 && 2 * n_right > n_run;
    for (int32_t i = 0; i < n; i++)
        if (out[i] != MD_TN_FAILS)
            out[i] = !is_clear ? MD_TN_UNDECIDED : have_same_results(a, right, i) ? MD_TN_AGREES : MD_TN_DIFFERS;
}

/* Memory for all tensors and behind them the workspace. */
static md_status get_memory(agree *a)
{
    const size_t n_bytes = a->n_bytes + a->workspace_bytes + 2 * ALIGNMENT;
    void *p = NULL;
    if (a->dev->ops->workspace)
        MD_TRY(a->dev->ops->workspace(&p, a->dev, a->dev->tuning, n_bytes));
    else
        MD_TRY(a->dev->ops->alloc(&p, a->dev, n_bytes));
    a->own = a->dev->ops->workspace ? NULL : p;
    a->memory = (char *)(((uintptr_t)p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    a->call.workspace = a->memory + a->n_bytes;
    for (int32_t i = 0; i < a->n_places; i++)
        a->call.data[a->place[i].tensor] = a->memory + a->place[i].at;
    return MD_OK;
}

/* OK if the variant is to blame for its failure: memory is not short, and the device still works. */
static md_status check_blame(agree *a, md_status s)
{
    a->pattern = MD_DTYPE_DEFAULT;
    return s == MD_OUT_OF_MEMORY ? s : copy(a, a->piece, a->memory, ALIGNMENT);
}

static md_status run_all(md_tn_agreement *out, agree *a, md_bd_variant *const *variants, int32_t n)
{
    MD_TRY(get_memory(a));
    for (int32_t i = 0; i < a->n_places; i++)
        if (!a->place[i].is_stored)
            MD_TRY(fill(a, &a->place[i], false));
    for (int32_t i = 0; i < n && !md_tn_is_stuck(a->dev); i++) {
        const md_status s = run(a->value + i * a->n_samples, a, variants[i]);
        out[i] = s == MD_OK ? MD_TN_UNSURE : MD_TN_FAILS;
        if (s != MD_OK && !md_tn_is_stuck(a->dev))
            MD_TRY(check_blame(a, s));
    }
    int32_t n_run = 0;
    for (int32_t i = 0; i < n; i++)
        n_run += out[i] != MD_TN_FAILS;
    if (n_run == 0 && !md_tn_is_stuck(a->dev))
        return md_fail(MD_DEVICE, "none of %d variants runs", n); /* the device is to blame */
    if (md_tn_is_stuck(a->dev))
        return MD_OK; /* a variant that hangs fails; some of the others were not run */
    vote(out, a, n);
    return MD_OK;
}

/* What all runs share. */
static md_status prepare(agree *a, md_bd_variant *const *variants, int32_t n, const md_kn_shape *shape)
{
    const md_fa_target *target = &variants[0]->target;
    *a = (agree){.dev = md_bd_device(variants[0]->builder),
                 .stage = &target->program->stage[target->stage],
                 .shape = shape,
                 .allows_tf32 = target->allows_tf32,
                 .additions = md_fa_additions(target, shape->size),
                 .moved = md_fa_moved_rounding(target)};
    if (md_tn_is_stuck(a->dev))
        return md_fail(MD_TIMEOUT, "a kernel that was measured before still runs: nothing more is measured");
    a->call = (md_kn_call){.shape = shape,
                           .program = target->program,
                           .stage = a->stage,
                           .stream = a->dev->tuning,
                           .device = a->dev,
                           .report = &a->report,
                           .threads = a->dev->facts.threads};
    for (int32_t i = 0; i < target->program->formula->n_scalars; i++) {
        if (target->program->formula->scalar[i].type == MD_I64)
            a->call.scalar[i].i = 1;
        else
            a->call.scalar[i].d = 0.5;
    }
    for (int32_t i = 0; i < n; i++) {
        md_kn_geometries g;
        md_fa_geometry_of(&g, variants[i]->family, target, &variants[i]->config, shape);
        a->workspace_bytes = MD_MAX(a->workspace_bytes, (size_t)g.workspace_bytes);
    }
    lay_out(a, target);
    return MD_OK;
}

md_status md_tn_agree(md_tn_agreement *out, md_bd_variant *const *variants, int32_t n, const md_kn_shape *shape)
{
    agree a;
    for (int32_t i = 0; i < n; i++)
        out[i] = MD_TN_UNSURE;
    MD_TRY(prepare(&a, variants, n, shape));
    if (a.stage->has_scatter || n > MD_TN_AGREE_MOST)
        return md_fail(MD_UNSUPPORTED, "variants of a stage that scatters may differ");
    a.value = calloc((size_t)MD_MAX(a.n_samples, 1) * (size_t)n, sizeof *a.value);
    a.piece = malloc(PIECE);
    md_status s = a.value && a.piece ? run_all(out, &a, variants, n) : md_fail_memory();
    if (a.own && !md_tn_is_stuck(a.dev))
        a.dev->ops->free(a.dev, a.own);
    free(a.value);
    free(a.piece);
    return s;
}
