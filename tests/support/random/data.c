#include "support/random/data.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/node.h"
#include "support/check.h"

#include <math.h>

enum { GUARD = 192, POISON = 0xA5 };

typedef struct maker {
    data_set *d;
    const md_fx_formula *f;
    data_options options;
    uint64_t seed;
    int32_t extent_tensor[MD_FX_MAX_TENSORS],
        extent_axis[MD_FX_MAX_TENSORS]; /* of index tensors: what they index; -1 */
    bool is_scatter[MD_FX_MAX_TENSORS]; /* of index tensors: with '=' */
} maker;

static int64_t below(maker *m, int64_t n)
{
    return (int64_t)(check_random(&m->seed) % (uint64_t)n);
}

/* ---- index tensors ---- */

typedef struct index_search {
    maker *m;
    int32_t tensor, axis;
    bool is_scatter;
} index_search;

static bool note_index(void *user, const md_fx_node *node)
{
    index_search *s = user;
    if (node->kind == MD_FX_LOAD && s->m->extent_tensor[node->id] < 0) {
        s->m->extent_tensor[node->id] = s->tensor;
        s->m->extent_axis[node->id] = s->axis;
        s->m->is_scatter[node->id] = s->is_scatter;
    }
    return true;
}

static bool note_subscripts(void *user, const md_fx_node *node)
{
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++) {
        index_search s = {.m = user, .tensor = node->id, .axis = i};
        (void)md_fx_visit(node->arg[i], note_index, &s);
    }
    return true;
}

static void find_index_tensors(maker *m)
{
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        m->extent_tensor[t] = -1;
    for (int32_t i = 0; i < m->f->n_stmts; i++) {
        const md_fx_stmt *s = &m->f->stmt[i];
        for (int32_t k = 0; k < m->f->tensor[s->tensor].rank; k++) {
            index_search search = {.m = m, .tensor = s->tensor, .axis = k, .is_scatter = s->assign == MD_FX_SET};
            (void)md_fx_visit(s->subscript[k], note_index, &search);
            (void)md_fx_visit(s->subscript[k], note_subscripts, m);
        }
        (void)md_fx_visit(s->value, note_subscripts, m);
    }
}

/* ---- sizes ---- */

static int64_t pick_size(maker *m)
{
    static const int16_t sizes[] = {1,   1,   2,   3,   4,   5,   7,   8,   9,    13,   15,   16,   17,
                                    24,  31,  32,  33,  37,  63,  64,  65,  67,   96,   100,  127,  128,
                                    129, 150, 255, 256, 257, 301, 512, 513, 1000, 1024, 1031, 2049, 4099};
    return below(m, 40) == 0 ? 0 : sizes[below(m, MD_COUNT(sizes))];
}

typedef struct work {
    const md_fx_formula *f;
    const int64_t *size;
    double most;
} work;

static double size_of(const work *w, int32_t index)
{
    return (double)MD_MAX(w->size[w->f->index[index].dim], 1);
}

/* Steps of an expression, from below; nested reductions multiply. */
static double steps_of(const work *w, const md_fx_node *node)
{
    double steps = 1.0;
    for (int32_t i = 0; i < node->n_args; i++)
        steps += steps_of(w, node->arg[i]);
    for (int32_t i = 0; node->kind == MD_FX_REDUCE && i < node->n_bound; i++)
        steps *= size_of(w, node->bound[i]);
    return steps;
}

static double work_of(const md_fx_formula *f, const int64_t *size)
{
    work w = {.f = f, .size = size};
    double most = 0.0;
    for (int32_t i = 0; i < f->n_stmts; i++) {
        double steps = steps_of(&w, f->stmt[i].value);
        for (int32_t k = 0; k < f->stmt[i].n_free; k++)
            steps *= size_of(&w, f->stmt[i].free[k]);
        most = fmax(most, steps);
    }
    for (int32_t t = 0; t < f->n_tensors; t++) {
        double n = 1.0;
        for (int32_t k = 0; k < f->tensor[t].rank; k++)
            n *= (double)MD_MAX(size[f->tensor[t].dim[k]], 1);
        most = fmax(most, n);
    }
    return most;
}

static bool is_free(const maker *m, int32_t dim)
{
    return m->f->dim[dim].size < 0 && !(m->options.size && m->options.size[dim] >= 0);
}

/* Halves the largest dims until the work is in reach. */
static bool shrink(maker *m)
{
    const double limit = (double)(m->options.max_work > 0 ? m->options.max_work : 200000);
    while (work_of(m->f, m->d->size) > limit) {
        int32_t largest = -1;
        for (int32_t k = 0; k < m->f->n_dims; k++)
            if (is_free(m, k) && m->d->size[k] > MD_MAX(m->f->dim[k].lo, 1) &&
                (largest < 0 || m->d->size[k] > m->d->size[largest]))
                largest = k;
        if (largest < 0)
            return false;
        m->d->size[largest] = MD_MAX(MD_MAX(m->f->dim[largest].lo, 1), m->d->size[largest] / 2 + below(m, 2));
        if (m->d->size[largest] > 1 && below(m, 8) == 0)
            m->d->size[largest]--;
    }
    return true;
}

/* Axes that are only reached are made as long as they must be, or longer. */
static void stretch(maker *m)
{
    for (int32_t i = 0; i < m->f->n_reaches; i++) {
        const md_fx_reach *r = &m->f->reach[i];
        int32_t dim = m->f->tensor[r->tensor].dim[r->axis];
        int64_t lo, hi;
        if (m->f->tensor[r->tensor].at_least[r->axis] && md_fx_range(&lo, &hi, m->f, m->d->size, r))
            m->d->size[dim] = MD_MAX(m->d->size[dim], hi + 1);
    }
}

/* A scatter with '=' gets a place for each writer. */
static void make_room(maker *m)
{
    for (int32_t t = 0; t < m->f->n_tensors; t++) {
        int64_t n = 1;
        if (m->extent_tensor[t] < 0 || !m->is_scatter[t])
            continue;
        for (int32_t k = 0; k < m->f->tensor[t].rank; k++)
            n *= m->d->size[m->f->tensor[t].dim[k]];
        int32_t dim = m->f->tensor[m->extent_tensor[t]].dim[m->extent_axis[t]];
        m->d->size[dim] = MD_MAX(m->d->size[dim], n);
    }
}

static bool needs_one(void *user, const md_fx_node *node)
{
    const maker *m = user;
    const md_fx_op op = node->op;
    for (int32_t i = 0; node->kind == MD_FX_REDUCE && i < node->n_bound; i++) {
        int64_t *size = &m->d->size[m->f->index[node->bound[i]].dim];
        if (op == MD_FX_R_MAX || op == MD_FX_R_MIN || op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN)
            *size = MD_MAX(*size, 1);
    }
    return true;
}

static bool pick_sizes(maker *m)
{
    for (int32_t k = 0; k < m->f->n_dims; k++) {
        const md_fx_dim *dim = &m->f->dim[k];
        int64_t given = m->options.size ? m->options.size[k] : -1;
        m->d->size[k] = dim->size >= 0 ? dim->size
                        : given >= 0   ? given
                                       : MD_MIN(MD_MAX(pick_size(m), dim->lo), dim->hi);
    }
    for (int32_t i = 0; i < m->f->n_stmts; i++)
        (void)md_fx_visit(m->f->stmt[i].value, needs_one, m);
    if (!shrink(m))
        return false;
    make_room(m);
    stretch(m);
    return work_of(m->f, m->d->size) <= 1e8;
}

/* ---- memory ---- */

static void choose_strides(maker *m, md_tensor *t, bool is_output)
{
    int32_t order[MD_MAX_RANK];
    int64_t stride = m->options.view >= DATA_STRIDED ? 1 + below(m, 3) % 2 : 1;
    for (int32_t i = 0; i < t->rank; i++)
        order[i] = t->rank - 1 - i;
    for (int32_t i = t->rank - 1; i > 0 && m->options.view >= DATA_STRIDED; i--) {
        const int32_t k = (int32_t)below(m, i + 1), other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    for (int32_t i = 0; i < t->rank; i++) {
        const int32_t axis = order[i];
        t->stride[axis] = stride;
        stride *= MD_MAX(t->size[axis], 1);
        if (m->options.view >= DATA_STRIDED)
            stride += below(m, 4);
        if (m->options.view == DATA_REPEATED && !is_output && below(m, 3) == 0)
            t->stride[axis] = 0;
    }
}

static bool allocate(maker *m, int32_t id)
{
    const md_fx_tensor *t = &m->f->tensor[id];
    data_tensor *x = &m->d->tensor[id];
    const size_t element = md_dtype_size(t->dtype);
    int64_t span = 1;
    x->host = (md_tensor){.dtype = t->dtype, .rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        x->host.size[i] = m->d->size[t->dim[i]];
    choose_strides(m, &x->host, t->role == MD_FX_OUTPUT);
    for (int32_t i = 0; i < t->rank; i++)
        span += MD_MAX(x->host.size[i] - 1, 0) * x->host.stride[i];
    x->offset = GUARD + (m->options.view == DATA_CONTIGUOUS  ? 0
                         : m->options.view == DATA_UNALIGNED ? element
                                                             : element * (size_t)below(m, 17));
    x->n_bytes = (x->offset + (size_t)span * element + GUARD + 63) / 64 * 64;
    x->memory = aligned_alloc(64, x->n_bytes);
    x->before = malloc(x->n_bytes);
    if (!x->memory || !x->before)
        return false;
    memset(x->memory, POISON, x->n_bytes);
    x->host.data = x->memory + x->offset;
    x->device = x->host;
    return true;
}

/* ---- values ---- */

static double random_real(maker *m)
{
    static const double special[] = {
        (double)NAN, (double)INFINITY, (double)-INFINITY, 0.0, -0.0, 1e30, -1e30, 1e-30, 60000.0, 1.0};
    if (m->options.specials && below(m, 24) == 0)
        return special[below(m, MD_COUNT(special))];
    const double x = (double)(int64_t)check_random(&m->seed) * 0x1p-63;
    return below(m, 16) == 0 ? (double)(below(m, 9) - 4) * 0.5 : 2.0 * x; /* some ties and zeros */
}

static int64_t random_int(maker *m, md_dtype dtype)
{
    return dtype == MD_BOOL ? below(m, 2) : dtype == MD_U8 ? below(m, 12) : below(m, 19) - 9;
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
static int64_t random_index(maker *m, int32_t id, int64_t number)
{
    const data_tensor *over = &m->d->tensor[m->extent_tensor[id]];
    const md_fx_tensor *t = &m->f->tensor[m->extent_tensor[id]];
    const int64_t n =
        t->role == MD_FX_TEMP ? m->d->size[t->dim[m->extent_axis[id]]] : over->host.size[m->extent_axis[id]];
    if (m->options.bad_indices && below(m, 8) == 0)
        return below(m, 2) && m->f->tensor[id].dtype != MD_U8 ? -1 - below(m, 3) : n + below(m, 3);
    if (n == 0)
        return 0;
    return m->is_scatter[id] ? (number * 7919 + 13) % n : below(m, n);
}

static void fill(maker *m, int32_t id)
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
            md_dtype_store_int(t->dtype, x->data, offset,
                               m->extent_tensor[id] >= 0 ? random_index(m, id, number++) : random_int(m, t->dtype));
    } while (next(x, at));
}

bool data_make(data_set *out, const md_fx_formula *formula, uint64_t seed, const data_options *options)
{
    maker m = {.d = out, .f = formula, .seed = seed};
    memset(out, 0, sizeof(*out));
    out->formula = formula;
    if (options)
        m.options = *options;
    find_index_tensors(&m);
    if (!pick_sizes(&m))
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
        out->integer[s] = below(&m, 7) - 3;
        out->real[s] =
            formula->scalar[s].type == MD_I64 ? (double)out->integer[s] : (double)below(&m, 200) / 64.0 - 1.5;
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
static void hide_elements(const data_tensor *x, unsigned char *copy)
{
    const size_t element = md_dtype_size(x->host.dtype);
    int64_t at[MD_MAX_RANK] = {0};
    if (is_empty(&x->host))
        return;
    do {
        const size_t start = x->offset + (size_t)offset_of(&x->host, at) * element;
        memcpy(copy + start, x->before + start, element);
    } while (next(&x->host, at));
}

bool data_is_intact(const data_set *d, char *text, size_t n_text)
{
    bool intact = true;
    for (int32_t t = 0; t < d->formula->n_tensors && intact; t++) {
        const data_tensor *x = &d->tensor[t];
        unsigned char *copy = x->memory ? malloc(x->n_bytes) : NULL;
        if (!copy)
            continue;
        const bool is_output = d->formula->tensor[t].role == MD_FX_OUTPUT;
        memcpy(copy, x->memory, x->n_bytes);
        if (is_output)
            hide_elements(x, copy);
        for (size_t i = 0; i < x->n_bytes && intact; i++) {
            if (copy[i] == x->before[i])
                continue;
            intact = false;
            (void)snprintf(text, n_text, "'%s' was written %s, at byte %lld of its data", d->formula->tensor[t].name,
                           is_output ? "outside of its elements" : "though it is an input",
                           (long long)i - (long long)x->offset);
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
