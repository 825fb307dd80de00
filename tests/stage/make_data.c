/* Arguments for the tests of programs: sizes, tensors with random values, two copies of each output. */
#include "make_data.h"

#include "base/dtype.h"
#include "support/check.h"

#include <math.h>

enum { LONG_ENOUGH = 48 }; /* for axes that only subscripts like 2*i+r reach */

static double random_unit(uint64_t *random)
{
    return (double)(int64_t)check_random(random) * 0x1p-63;
}

static double random_real(uint64_t *random, bool with_specials)
{
    static const double special[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 300.0, -300.0, 10000.0};
    uint64_t kind = check_random(random) % 40;
    if (with_specials && kind < 4)
        return special[check_random(random) % 8];
    /* a coarse grid: most sums and products are exact, so that no rounding can tip a comparison over */
    return (double)((int64_t)(check_random(random) % 33) - 16) * (kind < 8 ? 1.0 : 0.125);
}

static void fill(md_tensor *t, int64_t n, uint64_t *random, bool with_specials)
{
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == MD_BOOL)
            md_dtype_store_int(t->dtype, t->data, i, (int64_t)(check_random(random) % 2));
        else if (!md_dtype_is_real(t->dtype)) /* may be an index */
            md_dtype_store_int(t->dtype, t->data, i, (int64_t)(check_random(random) % 4));
        else
            md_dtype_store(t->dtype, t->data, i, random_real(random, with_specials));
}

static void make_tensor(data_set *d, const md_fx_formula *f, int32_t t, const int64_t *size, uint64_t *random,
                        bool with_specials)
{
    const md_fx_tensor *tensor = &f->tensor[t];
    int64_t sizes[MD_MAX_RANK], n = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        sizes[i] = size[tensor->dim[i]];
        n *= sizes[i];
    }
    d->n[t] = n;
    size_t n_bytes = (size_t)(n + 1) * md_dtype_size(tensor->dtype);
    d->tensor[t] = md_tensor_make(calloc(1, n_bytes), tensor->dtype, tensor->rank, sizes);
    assert_non_null(d->tensor[t].data);
    fill(&d->tensor[t], n, random, with_specials);
    if (tensor->role != MD_FX_OUTPUT)
        return;
    d->other[t] = malloc(n_bytes);
    assert_non_null(d->other[t]);
    memcpy(d->other[t], d->tensor[t].data, n_bytes);
}

bool data_make(data_set *out, const md_fx_formula *f, uint64_t *random, const data_options *options)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_arg arg[MD_FX_MAX_ARGS];
    memset(out, 0, sizeof(*out));
    for (int32_t i = 0; i < f->n_dims; i++)
        size[i] = f->dim[i].size >= 0 ? f->dim[i].size : LONG_ENOUGH;
    for (int32_t i = 0; i < f->n_indices; i++) {
        int64_t *s = &size[f->index[i].dim];
        if (f->dim[f->index[i].dim].size < 0 && *s == LONG_ENOUGH)
            *s = (int64_t)(check_random(random) % (uint64_t)(options->most + 1));
    }
    for (int32_t t = 0; t < f->n_tensors; t++)
        if (f->tensor[t].role != MD_FX_TEMP)
            make_tensor(out, f, t, size, random, options->with_specials);
    for (int32_t i = 0; i < f->n_args; i++)
        if (!f->args[i].is_scalar)
            arg[i] = md_t(&out->tensor[f->args[i].id]);
        else if (f->scalar[f->args[i].id].type == MD_I64)
            arg[i] = md_i((int64_t)(check_random(random) % 5));
        else
            arg[i] = md_s(random_unit(random));
    return md_fx_bind(&out->binding, f, arg, f->n_args) == MD_OK;
}

void data_free(data_set *d)
{
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++) {
        free(d->tensor[t].data);
        free(d->other[t]);
    }
}

static bool is_close(double got, double want, md_dtype type, bool is_sum)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (got == want)
        return true;
    double unit = fmax(md_dtype_roundoff(type) * (is_sum ? 64 : 2), 1e-9);
    return fabs(got - want) <= 2 * unit * fmax(fabs(want), is_sum ? 1 : 1e-3);
}

bool data_compare(const data_set *d, const md_fx_formula *f, char text[256])
{
    for (int32_t t = 0; t < f->n_tensors; t++) {
        md_dtype type = f->tensor[t].dtype;
        for (int64_t i = 0; i < d->n[t] && d->other[t] != NULL; i++) {
            double want = md_dtype_load(type, d->tensor[t].data, i), got = md_dtype_load(type, d->other[t], i);
            bool is_same = md_dtype_is_real(type) ? is_close(got, want, type, f->tensor[t].is_updated)
                                                  : md_dtype_load_int(type, d->tensor[t].data, i) ==
                                                        md_dtype_load_int(type, d->other[t], i);
            if (is_same)
                continue;
            snprintf(text, 256, "%s at %lld of %lld: %.17g, expected %.17g", f->tensor[t].name, (long long)i,
                     (long long)d->n[t], got, want);
            return false;
        }
    }
    return true;
}
