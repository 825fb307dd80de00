/* Some outputs at the tuned shape. */
#include "tune/verify/internal.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/additions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool md_tn_is_close(md_dtype t, double additions, double got, double want)
{
    if (isnan(got) || isnan(want) || isinf(got) || isinf(want))
        return (isnan(got) && isnan(want)) || got == want;
    return fabs(got - want) <= md_fa_allowed_error(t, additions) * fmax(1.0, fabs(want));
}

enum { SAMPLES = 64 };
/* The reference takes some ten nanoseconds an operation: what all samples of a spot may take. */
static const double MOST_WORK = 4e6;
/* One sample may take more: errors of long sums are seen nowhere else. */
static const double MOST_WORK_OF_ONE = 4e7;

typedef struct expected_one {
    int32_t tensor;
    int64_t at; /* element, counted row by row */
    double value;
} expected_one;

struct md_tn_expected {
    int32_t n;
    double additions; /* of the stage's sums */
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

static md_status expect(struct md_tn_expected *x, const md_tn_data *d, int32_t t, int32_t n)
{
    const md_fx_formula *f = d->program->formula;
    const int64_t total = elements(d, t);
    md_fx_binding *b = malloc(sizeof *b);
    md_status s = b ? MD_OK : md_fail_memory();
    if (b)
        md_tn_bind(b, f, d);
    for (int32_t i = 0; i < n && s == MD_OK && x->n < SAMPLES && total > 0; i++) {
        expected_one *one = &x->one[x->n];
        /* the last, which ends the longest scan, the first, and places between, spread by the golden ratio */
        one->at = i == 0 ? total - 1 : i == 1 ? 0 : (int64_t)((double)total * fmod(i * 0.6180339887498949, 1.0));
        one->tensor = t;
        int64_t at[MD_MAX_RANK], rest = one->at, integer = 0;
        for (int32_t a = f->tensor[t].rank; a-- > 0;) {
            at[a] = rest % d->shape.extent[t][a];
            rest /= d->shape.extent[t][a];
        }
        if (md_dtype_is_real(f->tensor[t].dtype)) {
            s = md_fx_evaluate_at(&one->value, f, b, t, at);
        } else {
            s = md_fx_evaluate_int_at(&integer, f, b, t, at);
            one->value = (double)integer;
        }
        x->n += s == MD_OK;
    }
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
    if (!can_sample(d->program, d->stage))
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
    if (md_tn_is_close(t->dtype, tuning_point->expected->additions, got, one->value))
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
