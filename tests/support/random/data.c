/* Arguments for any formula: memory, values and views; sizes are picked in data_sizes.c. */
#include "support/random/data_internal.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/node.h"
#include "support/check.h"

#include <math.h>

enum { GUARD = 192, POISON = 0xA5, MAX_DRAWS = 20 };

/* ---- memory ---- */

static void choose_strides(data_maker *m, md_tensor *t, bool is_output)
{
    int32_t order[MD_MAX_RANK];
    int64_t stride = m->options.view >= DATA_STRIDED ? 1 + data_below(m, 3) % 2 : 1;
    for (int32_t i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    for (int32_t i = t->rank - 1; i > 0 && m->options.view >= DATA_STRIDED; i--) {
        const int32_t k = (int32_t)data_below(m, i + 1), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    for (int32_t i = 0; i < t->rank; i++) {
        const int32_t axis = order[i];
        t->stride[axis] = stride;
        stride *= MD_MAX(t->size[axis], 1);
        if (m->options.view >= DATA_STRIDED)
            stride += data_below(m, 4);
        if (m->options.view == DATA_REPEATED && !is_output && data_below(m, 3) == 0)
            t->stride[axis] = 0;
    }
}

static bool allocate(data_maker *m, int32_t id)
{
    const md_fx_tensor *t = &m->f->tensor[id];
    data_tensor *tensor = &m->d->tensor[id];
    const size_t element = md_dtype_size(t->dtype);
    int64_t span = 1;
    tensor->host = (md_tensor){.dtype = t->dtype, .rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        tensor->host.size[i] = m->d->size[t->dim[i]];
    choose_strides(m, &tensor->host, t->role == MD_FX_OUTPUT);
    for (int32_t i = 0; i < t->rank; i++)
        span += MD_MAX(tensor->host.size[i] - 1, 0) * tensor->host.stride[i];
    tensor->offset = GUARD + (m->options.view == DATA_CONTIGUOUS  ? 0
                              : m->options.view == DATA_UNALIGNED ? element
                                                                  : element * (size_t)data_below(m, 17));
    tensor->n_bytes = (tensor->offset + (size_t)span * element + GUARD + 63) / 64 * 64;
    tensor->memory = aligned_alloc(64, tensor->n_bytes);
    tensor->before = malloc(tensor->n_bytes);
    if (!tensor->memory || !tensor->before)
        return false;
    memset(tensor->memory, POISON, tensor->n_bytes);
    tensor->host.data = tensor->memory + tensor->offset;
    tensor->device = tensor->host;
    return true;
}

/* ---- values ---- */

static double random_real(data_maker *m)
{
    static const double special[] = {
        (double)NAN, (double)INFINITY, (double)-INFINITY, 0.0, -0.0, 1e30, -1e30, 1e-30, 60000.0, 1.0};
    if (m->options.specials && data_below(m, 24) == 0)
        return special[data_below(m, MD_COUNT(special))];
    const double x = (double)(int64_t)check_random(&m->seed) * 0x1p-63;
    return data_below(m, 16) == 0 ? (double)(data_below(m, 9) - 4) * 0.5 : 2.0 * x; /* some ties and zeros */
}

static int64_t random_int(data_maker *m, md_dtype dtype)
{
    return dtype == MD_BOOL              ? data_below(m, 2)
           : md_dtype_is_unsigned(dtype) ? data_below(m, 12)
                                         : data_below(m, 19) - 9;
}

static bool next(const md_tensor *t, int64_t *at)
{
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        if (++at[i] < t->size[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static int64_t offset_of(const md_tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int32_t i = 0; i < t->rank; i++)
        offset += at[i] * t->stride[i];
    return offset;
}

static bool is_empty(const md_tensor *t)
{
    for (int32_t i = 0; i < t->rank; i++)
        if (t->size[i] == 0)
            return true;
    return false;
}

/* The step through the extent visits all of it before it repeats: distinct places for scatters. */
static int64_t random_index(data_maker *m, int32_t id, int64_t number)
{
    const data_tensor *over = &m->d->tensor[m->extent_tensor[id]];
    const md_fx_tensor *t = &m->f->tensor[m->extent_tensor[id]];
    const int64_t n =
        t->role == MD_FX_TEMP ? m->d->size[t->dim[m->extent_axis[id]]] : over->host.size[m->extent_axis[id]];
    if (m->options.bad_indices && data_below(m, 8) == 0)
        return data_below(m, 2) && !md_dtype_is_unsigned(m->f->tensor[id].dtype) ? -1 - data_below(m, 3)
                                                                                 : n + data_below(m, 3);
    if (n == 0)
        return 0;
    return m->is_scatter[id] ? (number * 7919 + 13) % n : data_below(m, n);
}

/* From -2 to the dim's size, and above it where bad ones are asked for. */
static int64_t random_length(data_maker *m, int32_t id)
{
    const int64_t size = m->d->size[m->length_dim[id]];
    const bool is_signed = !md_dtype_is_unsigned(m->f->tensor[id].dtype);
    if (m->options.bad_indices && data_below(m, 8) == 0)
        return size + 1 + data_below(m, 3);
    return is_signed ? data_below(m, size + 3) - 2 : data_below(m, size + 1);
}

static int64_t random_whole(data_maker *m, int32_t id, int64_t number)
{
    return m->extent_tensor[id] >= 0 ? random_index(m, id, number)
           : m->length_dim[id] >= 0  ? random_length(m, id)
                                     : random_int(m, m->f->tensor[id].dtype);
}

static void fill(data_maker *m, int32_t id)
{
    const md_fx_tensor *t = &m->f->tensor[id];
    md_tensor *x = &m->d->tensor[id].host;
    int64_t at[MD_MAX_RANK] = {0}, number = 0;
    if (is_empty(x) || (t->role == MD_FX_OUTPUT && !t->is_updated))
        return;
    do {
        const int64_t offset = offset_of(x, at);
        if (md_dtype_is_real(t->dtype))
            md_dtype_store(t->dtype, x->data, offset, random_real(m));
        else
            md_dtype_store_int(t->dtype, x->data, offset, random_whole(m, id, number++));
    } while (next(x, at));
}

bool data_make(data_set *out, const md_fx_formula *formula, uint64_t seed, const data_options *options)
{
    data_maker m = {.d = out, .f = formula, .seed = seed};
    bool fits = false;
    memset(out, 0, sizeof(*out));
    out->formula = formula;
    if (options)
        m.options = *options;
    data_find_index_tensors(&m);
    for (int k = 0; k < MAX_DRAWS && !fits; k++)
        fits = data_pick_sizes(&m);
    if (!fits)
        return false;
    for (int32_t t = 0; t < formula->n_tensors; t++)
        if (formula->tensor[t].role != MD_FX_TEMP && !allocate(&m, t)) {
            data_finish(out);
            return false;
        }
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        if (formula->tensor[t].role == MD_FX_TEMP)
            continue;
        fill(&m, t);
        memcpy(out->tensor[t].before, out->tensor[t].memory, out->tensor[t].n_bytes);
    }
    for (int32_t s = 0; s < formula->n_scalars; s++) {
        const int64_t drawn = data_below(&m, 7) - 3;
        out->integer[s] = formula->scalar[s].is_size ? out->size[formula->scalar[s].dim] : drawn;
        out->real[s] =
            formula->scalar[s].type == MD_I64 ? (double)out->integer[s] : (double)data_below(&m, 200) / 64.0 - 1.5;
    }
    return true;
}

void data_finish(data_set *d)
{
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++) {
        free(d->tensor[t].memory);
        free(d->tensor[t].before);
        d->tensor[t] = (data_tensor){0};
    }
}

int32_t data_args(md_arg *out, data_set *d, bool on_device)
{
    const md_fx_formula *f = d->formula;
    for (int32_t i = 0; i < f->n_args; i++) {
        const int32_t id = f->args[i].id;
        if (!f->args[i].is_scalar)
            out[i] = md_t(on_device ? &d->tensor[id].device : &d->tensor[id].host);
        else
            out[i] = f->scalar[id].type == MD_I64 ? md_i(d->integer[id]) : md_s(d->real[id]);
    }
    return f->n_args;
}

md_status data_bind(md_fx_binding *out, data_set *d)
{
    md_arg arg[MD_FX_MAX_ARGS];
    const int32_t n = data_args(arg, d, false);
    return md_fx_bind(out, d->formula, arg, n);
}

void data_reset(data_set *d)
{
    for (int32_t t = 0; t < d->formula->n_tensors; t++)
        if (d->tensor[t].memory)
            memcpy(d->tensor[t].memory, d->tensor[t].before, d->tensor[t].n_bytes);
}

/* A copy of the image in which an output's elements are as they were: what is left to compare is what nobody may write.
 */
static void hide_elements(const data_tensor *tensor, unsigned char *copy)
{
    const size_t element = md_dtype_size(tensor->host.dtype);
    int64_t at[MD_MAX_RANK] = {0};
    if (is_empty(&tensor->host))
        return;
    do {
        const size_t start = tensor->offset + (size_t)offset_of(&tensor->host, at) * element;
        memcpy(copy + start, tensor->before + start, element);
    } while (next(&tensor->host, at));
}

bool data_is_intact(const data_set *d, char *text, size_t n_text)
{
    bool intact = true;
    for (int32_t t = 0; t < d->formula->n_tensors && intact; t++) {
        const data_tensor *tensor = &d->tensor[t];
        unsigned char *copy = tensor->memory ? malloc(tensor->n_bytes) : NULL;
        if (!copy)
            continue;
        const bool is_output = d->formula->tensor[t].role == MD_FX_OUTPUT;
        memcpy(copy, tensor->memory, tensor->n_bytes);
        if (is_output)
            hide_elements(tensor, copy);
        for (size_t i = 0; i < tensor->n_bytes && intact; i++) {
            if (copy[i] == tensor->before[i])
                continue;
            intact = false;
            (void)snprintf(text, n_text, "'%s' was written %s, at byte %lld of its data", d->formula->tensor[t].name,
                           is_output ? "outside of its elements" : "though it is an input",
                           (long long)i - (long long)tensor->offset);
        }
        free(copy);
    }
    return intact;
}

void data_sizes(char *text, size_t n_text, const data_set *d)
{
    int n = 0;
    text[0] = 0;
    for (int32_t k = 0; k < d->formula->n_dims && n >= 0 && (size_t)n < n_text; k++)
        if (d->formula->dim[k].size < 0)
            n += snprintf(text + n, n_text - (size_t)n, "%s%s=%lld", n ? ", " : "", d->formula->dim[k].name,
                          (long long)d->size[k]);
}
