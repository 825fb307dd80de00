/* Row stages: every reduction runs over one axis. Bound indices, and the free index over the same dim where the left
 * side has one, become that axis; equal reductions become one, and a body refers to the results that it depends on. */
#include "stage/form.h"

#include "base/dtype.h"

enum { MAX_REDUCTIONS_SEEN = 64 };

/* ---- the axis ---- */

static int32_t dim_of(const md_st_maker *m, int32_t index)
{
    return m->formula->index[index].dim;
}

/* The one dim of all reductions; -1 where there are several or one runs over several indices. */
static int32_t common_dim(const md_st_maker *m, int32_t n, const md_st_item *item, int32_t *first_bound)
{
    const md_fx_node *reduce[MAX_REDUCTIONS_SEEN];
    int32_t dim = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t count = md_st_collect(reduce, MAX_REDUCTIONS_SEEN, MD_FX_REDUCE, &item[i]);
        if (count > MAX_REDUCTIONS_SEEN)
            return -1;
        for (int32_t r = 0; r < count; r++) {
            int32_t d = reduce[r]->n_bound == 1 ? dim_of(m, reduce[r]->bound[0]) : -1;
            if (d < 0 || (dim >= 0 && d != dim))
                return -1;
            if (dim < 0)
                *first_bound = reduce[r]->bound[0];
            dim = d;
        }
    }
    return dim;
}

/* True if a reduction of the item depends on its free index: then that index is no axis. */
static bool reductions_use(const md_st_item *item, int32_t index)
{
    const md_fx_node *reduce[MAX_REDUCTIONS_SEEN];
    int32_t count = md_st_collect(reduce, MAX_REDUCTIONS_SEEN, MD_FX_REDUCE, item);
    for (int32_t r = 0; r < count; r++)
        if (md_fx_uses_index(reduce[r], index))
            return true;
    return false;
}

/* Position of the free index that can be the axis, searched from the last one before `end`; -1 where there is none. */
static int32_t axis_position(const md_st_maker *m, const md_st_item *item, int32_t dim, int32_t end)
{
    for (int32_t i = end - 1; i >= 0; i--)
        if (dim_of(m, item->free[i]) == dim && !reductions_use(item, item->free[i]))
            return i;
    return -1;
}

/* The dims of an item's free indices without the one at `axis` must be those of outer[]. */
static bool fits(const md_st_maker *m, const md_st_item *item, int32_t axis, int32_t n_outer, const int32_t *outer)
{
    if (item->n_free - (axis >= 0) != n_outer)
        return false;
    for (int32_t i = 0, o = 0; i < item->n_free; i++)
        if (i != axis && dim_of(m, item->free[i]) != dim_of(m, outer[o++]))
            return false;
    return true;
}

typedef struct frame {
    int32_t dim, axis, first_bound;
    int32_t n_outer, outer[MD_MAX_RANK * 2];
    int32_t position[MD_ST_MAX_STORES]; /* of the axis among an item's free indices; -1: per row */
} frame;

/* Every other item must run over the rows of the reference, with the axis or without it. */
static bool place_items(const md_st_maker *m, frame *f, int32_t n, const md_st_item *item, int32_t reference)
{
    for (int32_t i = 0; i < n; i++) {
        if (i == reference)
            continue;
        int32_t p = item[i].n_free;
        do {
            p = axis_position(m, &item[i], f->dim, p);
        } while (p >= 0 && !fits(m, &item[i], p, f->n_outer, f->outer));
        if (p < 0 && !fits(m, &item[i], -1, f->n_outer, f->outer))
            return false;
        f->position[i] = p;
    }
    return true;
}

static bool find_frame(const md_st_maker *m, frame *f, int32_t n, const md_st_item *item)
{
    int32_t reference = 0;
    f->dim = common_dim(m, n, item, &f->first_bound);
    if (f->dim < 0)
        return false;
    while (!md_st_item_has(&item[reference], MD_FX_REDUCE))
        reference++;
    const md_st_item *r = &item[reference];
    int32_t p = axis_position(m, r, f->dim, r->n_free);
    f->position[reference] = p;
    for (int32_t i = 0; i < r->n_free; i++)
        if (i != p)
            f->outer[f->n_outer++] = r->free[i];
    if (!place_items(m, f, n, item, reference))
        return false;
    f->axis = p >= 0 ? r->free[p] : -1;
    for (int32_t i = 0; i < n && f->axis < 0; i++)
        if (f->position[i] >= 0)
            f->axis = item[i].free[f->position[i]];
    if (f->axis < 0)
        f->axis = f->first_bound;
    return true;
}

static bool rename_items(md_st_maker *m, const frame *f, int32_t n, md_st_item *item)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t to[MD_MAX_RANK * 2], from[MD_MAX_RANK * 2];
        for (int32_t k = 0, o = 0; k < item[i].n_free; k++) {
            from[k] = item[i].free[k];
            to[k] = k == f->position[i] ? f->axis : f->outer[o++];
        }
        if (!md_st_rename(m, &item[i], item[i].n_free, from, to))
            return false;
    }
    return md_st_replace_own_loads(m, n, item, f->axis);
}

/* ---- reductions ---- */

typedef struct extractor {
    md_st_maker *maker;
    const frame *frame;
    md_st_row *row;
    bool is_impossible;
} extractor;

static bool note_level(void *user, const md_fx_node *node)
{
    extractor *e = ((void **)user)[0];
    int32_t *level = ((void **)user)[1];
    if (node->kind == MD_FX_REF)
        *level = MD_MAX(*level, e->row->reduction[node->id].level + 1);
    return true;
}

static int32_t level_of(extractor *e, const md_fx_node *body)
{
    int32_t level = 0;
    void *user[2] = {e, &level};
    (void)md_fx_visit(body, note_level, user);
    return level;
}

/* A REF to the reduction, which is added where no equal one is there. */
static const md_fx_node *reference_to(extractor *e, const md_fx_node *reduce, const md_fx_node *body)
{
    md_st_row *row = e->row;
    md_dtype type = reduce->type;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *r = &row->reduction[i];
        if (r->op == reduce->op && r->type == type && md_fx_equal(e->maker->formula, r->body, body))
            return md_fx_ref(e->maker->arena, i, r->type);
    }
    if (row->n_reductions == MD_ST_MAX_REDUCTIONS) {
        e->is_impossible = true;
        return reduce;
    }
    row->reduction[row->n_reductions] = (md_st_reduction){
        .op = reduce->op, .type = type, .body_type = body->type, .body = body, .level = level_of(e, body), .shift = -1};
    return md_fx_ref(e->maker->arena, row->n_reductions++, type);
}

/* A factor of a sum that is the same for the whole row and known only from another reduction: outside, the sum needs
 * one level less, and one rounding takes the place of many. Other factors stay where they were written. */
static bool is_hoisted(const extractor *e, const md_fx_node *factor)
{
    return md_fx_has_kind(factor, MD_FX_REF) && !md_fx_uses_index(factor, e->frame->axis);
}

static const md_fx_node *sum_reference(extractor *e, const md_fx_node *reduce, const md_fx_node *body)
{
    md_st_factors f;
    const md_fx_node *inside = NULL;
    int32_t n_hoisted = 0;
    md_st_factors_of(&f, body);
    for (int32_t i = 0; i < f.n; i++)
        n_hoisted += is_hoisted(e, f.factor[i].node);
    if (n_hoisted == 0 || n_hoisted == f.n || !md_dtype_is_real(body->type))
        return reference_to(e, reduce, body);
    for (int32_t i = 0; i < f.n; i++)
        if (!is_hoisted(e, f.factor[i].node))
            inside = md_st_times(e->maker, inside, &f.factor[i], f.type);
    if (f.is_negative && inside)
        inside = md_fx_op1(e->maker->arena, MD_FX_NEG, inside);
    if (!inside)
        return NULL;
    const md_fx_node *result = reference_to(e, reduce, inside);
    for (int32_t i = 0; i < f.n && md_st_made(e->maker, result); i++)
        if (is_hoisted(e, f.factor[i].node))
            result = md_st_times(e->maker, result, &f.factor[i], f.type);
    return md_st_unless_empty(e->maker, e->maker->formula->index[e->frame->axis].dim, result);
}

/* True if a body depends on nothing but the rows' indices and its own. */
static bool is_closed(const extractor *e, const md_fx_node *body, int32_t bound)
{
    md_st_set allowed = md_st_set_of(e->frame->n_outer, e->frame->outer);
    const md_st_set used = md_st_indices(body);
    md_st_set_add(&allowed, bound);
    return md_st_set_is_within(&used, &allowed);
}

/* Bottom up: what is inside a body is a REF already. */
static const md_fx_node *extract(void *user, const md_fx_node *node)
{
    extractor *e = user;
    if (node->kind != MD_FX_REDUCE || e->is_impossible)
        return node;
    if (!is_closed(e, node->arg[0], node->bound[0])) {
        e->is_impossible = true;
        return node;
    }
    const md_fx_node *axis = md_fx_index_node(e->maker->arena, e->frame->axis);
    const md_fx_node *body = axis ? md_fx_substitute(e->maker->arena, node->arg[0], 1, node->bound, &axis) : NULL;
    if (!body)
        return NULL;
    return node->op == MD_FX_R_SUM ? sum_reference(e, node, body) : reference_to(e, node, body);
}

static bool extract_all(md_st_maker *m, const frame *f, md_st_row *row, int32_t n, md_st_item *item)
{
    extractor e = {.maker = m, .frame = f, .row = row};
    if (!md_st_rewrite_all(m, n, item, extract, &e) || e.is_impossible)
        return false;
    for (int32_t i = 0; i < row->n_reductions; i++)
        row->n_levels = MD_MAX(row->n_levels, row->reduction[i].level + 1);
    return true;
}

bool md_st_form_row(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    frame f = {.axis = -1};
    if (!find_frame(m, &f, n, item) || !rename_items(m, &f, n, item) || !extract_all(m, &f, &out->row, n, item))
        return false;
    md_st_set_merge_rules(m, &out->row, f.axis);
    out->kind = MD_ST_ROW;
    out->axis = f.axis;
    out->n_outer = f.n_outer;
    for (int32_t i = 0; i < f.n_outer; i++)
        out->outer[i] = f.outer[i];
    md_st_put_stores(out, n, item);
    for (int32_t i = 0; i < n; i++)
        out->store[i].per_row = f.position[i] < 0;
    return true;
}
