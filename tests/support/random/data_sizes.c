/* Sizes for any formula, and which tensors hold indices of which axes. */
#include "support/random/data_internal.h"

#include "base/status.h"
#include "expr/node.h"

#include <math.h>

/* ---- index tensors ---- */

typedef struct index_search {
    data_maker *m;
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
    data_maker *m = user;
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++) {
        index_search s = {.m = m, .tensor = node->id, .axis = i};
        (void)md_fx_visit(node->arg[i], note_index, &s);
    }
    return true;
}

void data_find_index_tensors(data_maker *m)
{
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        m->extent_tensor[t] = m->length_dim[t] = -1;
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

static int64_t pick_size(data_maker *m)
{
    static const int16_t sizes[] = {1,   1,   2,   3,   4,   5,   7,   8,   9,    13,   15,   16,   17,
                                    24,  31,  32,  33,  37,  63,  64,  65,  67,   96,   100,  127,  128,
                                    129, 150, 255, 256, 257, 301, 512, 513, 1000, 1024, 1031, 2049, 4099};
    return data_below(m, 40) == 0 ? 0 : sizes[data_below(m, MD_COUNT(sizes))];
}

/* Reductions are kept while the indices that they use stay, or they are not (stmt: NULL). */
typedef struct work {
    const md_fx_formula *f;
    const int64_t *size;
    const md_fx_stmt *stmt;
    const md_fx_node *outer; /* the reduction that is being looked at */
    double kept, once; /* steps of kept ones: of the statement; of one computation of `outer` */
} work;

static double size_of(const work *w, int32_t index)
{
    return (double)MD_MAX(w->size[w->f->index[index].dim], 1);
}

static bool stays_in(const md_fx_node *node, const md_fx_node *outer)
{
    bool stays = true;
    for (int32_t i = 0; i < outer->n_bound; i++)
        stays &= !md_fx_uses_index(node, outer->bound[i]);
    return stays;
}

/* How often a statement computes a reduction that is kept. 0: an index that it does not use moves inside of one that it
 * uses, so that nothing is won. */
static double times_of(const work *w, const md_fx_node *node)
{
    double times = 1.0;
    int32_t n_used = 0, n_first = 0;
    for (int32_t id = 0; id < w->f->n_indices; id++)
        n_used += md_fx_uses_index(node, id);
    while (n_first < w->stmt->n_free && md_fx_uses_index(node, w->stmt->free[n_first]))
        times *= size_of(w, w->stmt->free[n_first++]);
    return n_first == n_used ? times : 0.0;
}

/* Steps of an expression, from below; nested reductions multiply unless they are kept. */
static double steps_of(work *w, const md_fx_node *node)
{
    const work before = *w;
    double steps = 1.0;
    if (node->kind == MD_FX_REDUCE) {
        w->outer = node;
        w->once = 0.0;
    }
    for (int32_t i = 0; i < node->n_args; i++)
        steps += steps_of(w, node->arg[i]);
    if (node->kind != MD_FX_REDUCE)
        return steps;
    for (int32_t i = 0; i < node->n_bound; i++)
        steps *= size_of(w, node->bound[i]);
    steps += w->once;
    w->outer = before.outer;
    w->once = before.once;
    const bool is_inside = w->outer != NULL;
    const double times = !w->stmt ? 0.0 : is_inside ? stays_in(node, w->outer) : times_of(w, node);
    *(is_inside ? &w->once : &w->kept) += steps * times;
    return times > 0.0 ? 1.0 : steps;
}

static double work_of(const data_maker *m)
{
    const md_fx_formula *f = m->f;
    const int64_t *size = m->d->size;
    double most = 0.0;
    for (int32_t i = 0; i < f->n_stmts; i++) {
        work w = {.f = f, .size = size, .stmt = m->options.keeps_reductions ? &f->stmt[i] : NULL};
        double steps = steps_of(&w, f->stmt[i].value);
        for (int32_t k = 0; k < f->stmt[i].n_free; k++)
            steps *= size_of(&w, f->stmt[i].free[k]);
        most = fmax(most, steps + w.kept);
    }
    for (int32_t t = 0; t < f->n_tensors; t++) {
        double n = 1.0;
        for (int32_t k = 0; k < f->tensor[t].rank; k++)
            n *= (double)MD_MAX(size[f->tensor[t].dim[k]], 1);
        most = fmax(most, n);
    }
    return most;
}

static bool is_free(const data_maker *m, int32_t dim)
{
    return m->f->dim[dim].size < 0 && !(m->options.size && m->options.size[dim] >= 0);
}

/* Halves the largest dims until the work is in reach. */
static bool shrink(data_maker *m)
{
    const double limit = (double)(m->options.max_work > 0 ? m->options.max_work : 200000);
    while (work_of(m) > limit) {
        int32_t largest = -1;
        for (int32_t k = 0; k < m->f->n_dims; k++)
            if (is_free(m, k) && m->d->size[k] > MD_MAX(m->f->dim[k].lo, 1) &&
                (largest < 0 || m->d->size[k] > m->d->size[largest]))
                largest = k;
        if (largest < 0)
            return false;
        m->d->size[largest] = MD_MAX(MD_MAX(m->f->dim[largest].lo, 1), m->d->size[largest] / 2 + data_below(m, 2));
        if (m->d->size[largest] > 1 && data_below(m, 8) == 0)
            m->d->size[largest]--;
    }
    return true;
}

/* Axes that are only reached are made as long as they must be, or longer. False where a subscript leaves its axis
 * still, as a reflection does whose axis is shorter than what it pads. */
static bool stretch(data_maker *m)
{
    bool is_inside = true;
    for (int32_t i = 0; i < m->f->n_reaches; i++) {
        const md_fx_reach *r = &m->f->reach[i];
        int64_t lo, hi, *size = &m->d->size[m->f->tensor[r->tensor].dim[r->axis]];
        if (!md_fx_range(&lo, &hi, m->f, m->d->size, r))
            continue;
        if (m->f->tensor[r->tensor].at_least[r->axis])
            *size = MD_MAX(*size, hi + 1);
        is_inside &= lo >= 0 && hi < *size;
    }
    return is_inside;
}

/* Scatters of several statements get a place at least: an output without elements reports no index, unless it shares a
 * kernel with another one. */
static void fill_targets(data_maker *m)
{
    for (int32_t i = 0; i < m->f->n_stmts && m->f->n_stmts > 1; i++) {
        const md_fx_stmt *s = &m->f->stmt[i];
        for (int32_t k = 0; k < m->f->tensor[s->tensor].rank; k++)
            if (s->subscript[k]->kind != MD_FX_INDEX)
                m->d->size[m->f->tensor[s->tensor].dim[k]] = MD_MAX(m->d->size[m->f->tensor[s->tensor].dim[k]], 1);
    }
}

/* A scatter with '=' gets a place for each writer. */
static void make_room(data_maker *m)
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
    const data_maker *m = user;
    const md_fx_op op = node->op;
    for (int32_t i = 0; node->kind == MD_FX_REDUCE && i < node->n_bound; i++) {
        int64_t *size = &m->d->size[m->f->index[node->bound[i]].dim];
        if (op == MD_FX_R_MAX || op == MD_FX_R_MIN || op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN)
            *size = MD_MAX(*size, 1);
    }
    return true;
}

bool data_pick_sizes(data_maker *m)
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
    fill_targets(m);
    return stretch(m) && work_of(m) <= fmax(1e8, (double)m->options.max_work);
}
