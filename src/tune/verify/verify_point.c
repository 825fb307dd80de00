/* Some outputs at the tuned shape. */
#include "tune/verify/internal.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/additions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a value that may be one too large for the dtype is stored as: infinity, or for some their largest value. */
static bool is_too_large_for(md_dtype t, double got, double want, double allowed)
{
    const double stored = md_dtype_round(t, want + copysign(allowed, want));
    return md_dtype_is_real(t) && got == stored && (isinf(stored) || fabs(stored) < fabs(want));
}

bool md_tn_is_close(md_dtype t, double additions, double moved, double got, double want)
{
    if (isnan(got) || isnan(want) || isinf(want))
        return (isnan(got) && isnan(want)) || got == want;
    const double allowed = md_fa_allowed_error(t, additions) * fmax(1.0, fabs(want)) + moved;
    return fabs(got - want) <= allowed || is_too_large_for(t, got, want, allowed);
}

enum { SAMPLES = 64 };
/* The reference takes some ten nanoseconds an operation: what all samples of a spot may take. */
static const double MOST_WORK = 4e6;
/* One sample may take this much work: errors of long sums are seen nowhere else. */
static const double MOST_WORK_OF_ONE = 4e7;

typedef struct expected_one {
    int32_t tensor;
    int64_t at; /* element, counted row by row */
    double value;
    double moved; /* error that may come of weights that are rounded at another place */
} expected_one;

struct md_tn_expected {
    int32_t n;
    double additions; /* of the stage's sums */
    double moved; /* md_fa_moved_rounding */
    int32_t values; /* the tensor whose magnitudes bound that error; -1: none */
    expected_one one[SAMPLES];
};

void md_tn_bind(md_fx_binding *b, const md_fx_formula *f, const md_tn_data *data)
{
    memset(b, 0, sizeof *b);
    memcpy(b->size, data->shape.size, (size_t)f->n_dims * sizeof *b->size);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        md_tensor *x = &b->tensor[t];
        *x = (md_tensor){.data = data->image[t], .dtype = f->tensor[t].dtype, .rank = f->tensor[t].rank};
        for (int32_t a = 0; a < x->rank; a++) {
            x->size[a] = data->shape.extent[t][a];
            x->stride[a] = data->shape.stride[t][a];
        }
    }
    md_kn_word scalar[16] = {{0}};
    md_tn_data_scalars(scalar, f);
    for (int32_t s = 0; s < f->n_scalars; s++)
        if (f->scalar[s].type == MD_I64)
            b->integer[s] = scalar[s].i;
        else
            b->real[s] = scalar[s].d;
}

static int64_t elements(const md_tn_data *d, int32_t t)
{
    return d->bytes[t] / (int64_t)md_dtype_size(d->program->formula->tensor[t].dtype);
}

/* Not sampled: stages that read temporaries, which another stage writes, and stages that update their output. */
static bool can_sample(const md_st_program *program, int32_t stage)
{
    const md_st_stage *s = &program->stage[stage];
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const md_fx_tensor *t = &program->formula->tensor[s->tensor[i]];
        if (t->is_updated || (!s->is_stored[i] && t->role == MD_FX_TEMP))
            return false;
    }
    return true;
}

static int32_t samples_of(const md_tn_data *d, int32_t n_stored)
{
    double flops = 0.0, bytes = 0.0, outputs = 1.0;
    md_st_work(&flops, &bytes, d->program, d->stage, d->shape.size);
    for (int32_t i = 0; i < d->program->stage[d->stage].n_tensors; i++)
        if (d->program->stage[d->stage].is_stored[i])
            outputs = fmax(outputs, (double)elements(d, d->program->stage[d->stage].tensor[i]));
    double each = fmax(1.0, (flops + 0.1 * bytes) / outputs);
    const md_st_stage *s = &d->program->stage[d->stage];
    if (s->kind == MD_ST_SCAN || s->row.has_elements) /* the evaluator computes the whole row for one element */
        each *= (double)md_st_size(d->program, s->axis, d->shape.size);
    const int32_t n = (int32_t)fmin(SAMPLES, MOST_WORK / each) / MD_MAX(n_stored, 1);
    return MD_MAX(n, each <= MOST_WORK_OF_ONE);
}

/* ---- Chains whose weights p are rounded at another place than the formula says. A result, the sum of p v over the
 * keys or something made of it and of the weights' sum, is off by the moved rounding of p times the sum of p |v|, and
 * of the weights' sum times the result: the first is the formula's value for |v|. */

enum { MOST_MAGNITUDES = 1 << 28 }; /* bytes of values */

static bool count_loads(void *user, const md_fx_node *node)
{
    int32_t *n = user; /* the tensor, and how often it is loaded */
    n[1] += node->kind == MD_FX_LOAD && node->id == n[0];
    return true;
}

/* The chain's values, if their magnitudes can be put in their place: an own tensor of reals, not too large; else -1. */
static int32_t values_of(const md_tn_data *d)
{
    const md_fx_formula *f = d->program->formula;
    const md_fx_node *load = d->program->stage[d->stage].chain->side[MD_ST_V].load;
    int32_t n[2] = {load ? load->id : -1, 0};
    for (int32_t i = 0; i < f->n_stmts; i++)
        (void)md_fx_visit(f->stmt[i].value, count_loads, n);
    return n[0] >= 0 && n[1] == 1 && md_dtype_is_real(f->tensor[n[0]].dtype) && d->image[n[0]] &&
                   d->bytes[n[0]] <= MOST_MAGNITUDES
               ? n[0]
               : -1;
}

static md_status make_magnitudes(void **out, const md_tn_data *d, int32_t t)
{
    const md_dtype dtype = d->program->formula->tensor[t].dtype;
    *out = malloc((size_t)d->bytes[t] + 1);
    if (!*out)
        return md_fail_memory();
    for (int64_t i = 0; i < elements(d, t); i++)
        md_dtype_store(dtype, *out, i, fabs(md_dtype_load(dtype, d->image[t], i)));
    return MD_OK;
}

/* ---- */

static md_status expect_one(expected_one *one, const struct md_tn_expected *x, const md_tn_data *d, md_fx_binding *b,
                            void *magnitudes)
{
    const md_fx_formula *f = d->program->formula;
    const int32_t t = one->tensor;
    int64_t at[MD_MAX_RANK], rest = one->at, integer = 0;
    for (int32_t a = f->tensor[t].rank; a-- > 0;) {
        at[a] = rest % d->shape.extent[t][a];
        rest /= d->shape.extent[t][a];
    }
    if (!md_dtype_is_real(f->tensor[t].dtype)) {
        MD_TRY(md_fx_evaluate_int_at(&integer, f, b, t, at));
        one->value = (double)integer;
        return MD_OK;
    }
    MD_TRY(md_fx_evaluate_at(&one->value, f, b, t, at));
    if (!magnitudes)
        return MD_OK;
    md_tensor *v = &b->tensor[x->values];
    void *own = v->data;
    double sum = 0.0;
    v->data = magnitudes;
    const md_status s = md_fx_evaluate_at(&sum, f, b, t, at);
    v->data = own;
    one->moved = x->moved * (fabs(sum) + fmax(1.0, fabs(one->value)));
    return s;
}

static md_status expect(struct md_tn_expected *x, const md_tn_data *d, int32_t t, int32_t n)
{
    const int64_t total = elements(d, t);
    void *magnitudes = NULL;
    md_fx_binding *b = malloc(sizeof *b);
    md_status s = b ? MD_OK : md_fail_memory();
    if (s == MD_OK && x->values >= 0)
        s = make_magnitudes(&magnitudes, d, x->values);
    if (b)
        md_tn_bind(b, d->program->formula, d);
    for (int32_t i = 0; i < n && s == MD_OK && x->n < SAMPLES && total > 0; i++) {
        expected_one *one = &x->one[x->n];
        /* the last, which ends the longest scan, the first, and places between, spread by the golden ratio */
        one->at = i == 0 ? total - 1 : i == 1 ? 0 : (int64_t)((double)total * fmod(i * 0.6180339887498949, 1.0));
        one->tensor = t;
        s = expect_one(one, x, d, b, magnitudes);
        x->n += s == MD_OK;
    }
    free(magnitudes);
    free(b);
    return s;
}

static md_status make_expected(md_tn_tuning_point *tuning_point, const md_fa_target *target)
{
    const md_tn_data *d = &tuning_point->data;
    const md_st_stage *s = &d->program->stage[d->stage];
    int32_t n_stored = 0;
    struct md_tn_expected *x = calloc(1, sizeof *x);
    if (!x)
        return md_fail_memory();
    tuning_point->expected = x;
    x->additions = md_fa_additions(target, d->shape.size);
    x->moved = md_fa_moved_rounding(target);
    x->values = x->moved > 0.0 ? values_of(d) : -1;
    if (!can_sample(d->program, d->stage) || (x->moved > 0.0 && x->values < 0))
        return MD_OK;
    for (int32_t i = 0; i < s->n_tensors; i++)
        n_stored += s->is_stored[i];
    for (int32_t i = 0; i < s->n_tensors; i++)
        if (s->is_stored[i])
            MD_TRY(expect(x, d, s->tensor[i], samples_of(d, n_stored)));
    return MD_OK;
}

static bool is_right(char *why, size_t n_why, md_tn_work *w, const md_tn_tuning_point *tuning_point,
                     const expected_one *one, int32_t *n_off)
{
    const md_fx_tensor *t = &tuning_point->data.program->formula->tensor[one->tensor];
    const size_t item = md_dtype_size(t->dtype);
    char bytes[8];
    const bool is_packed = md_dtype_is_packed(t->dtype);
    const int64_t at = is_packed ? one->at / 2 : one->at * (int64_t)item, in = is_packed ? one->at % 2 : 0;
    const char *from = (const char *)tuning_point->bench.set[0].call.data[one->tensor] + at;
    if (w->dev->ops->copy(w->dev, bytes, from, item) != MD_OK) {
        snprintf(why, n_why, "%s", md_last_error());
        return false;
    }
    const bool is_real = md_dtype_is_real(t->dtype);
    const double got = is_real ? md_dtype_load(t->dtype, bytes, in) : (double)md_dtype_load_int(t->dtype, bytes, in);
    if (md_tn_is_close(t->dtype, tuning_point->expected->additions, one->moved, got, one->value))
        return true;
    snprintf(why, n_why, "element %lld of %s is %.9g, not %.9g", (long long)one->at, t->name, got, one->value);
    *n_off += 1;
    return !is_real &&
           *n_off <= SAMPLES / 8; /* positions of maxima may differ where two values differ by rounding only */
}

bool md_tn_check_samples(char *why, size_t n_why, md_tn_work *w, md_tn_tuning_point *tuning_point,
                         const md_tn_trial *trial, const md_tn_entry *entry)
{
    int32_t n_off = 0;
    if (!tuning_point->expected && make_expected(tuning_point, &w->job->target) != MD_OK)
        return true; /* nothing to compare with: memory is short */
    if (md_tn_bench_run(&tuning_point->bench, trial->variant, &entry->geometry) != MD_OK) {
        snprintf(why, n_why, "%s", md_last_error());
        return false;
    }
    for (int32_t i = 0; i < tuning_point->expected->n; i++)
        if (!is_right(why, n_why, w, tuning_point, &tuning_point->expected->one[i], &n_off))
            return false;
    if (md_tn_bench_is_intact(&tuning_point->bench))
        return true;
    snprintf(why, n_why, "it writes beside its outputs");
    return false;
}

void md_tn_verify_leave(md_tn_tuning_point *tuning_point)
{
    free(tuning_point->expected);
    tuning_point->expected = NULL;
}
