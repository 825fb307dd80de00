/* Chain stages: from statements that have all temporaries between in their values to the parts of chain.h. */
#include "stage/chains.h"

enum { MAX_REDUCTIONS_SEEN = 64 };

/* ---- indices ---- */

static int32_t dim_of(const md_st_chain_builder *b, int32_t index)
{
    return b->maker->formula->index[index].dim;
}

/* The reductions of the value: those around others run over the axis. *inner: what the others depend on. */
static bool find_axis(md_st_chain_builder *b, md_st_set *inner, const md_st_item *item)
{
    const md_fx_node *reduce[MAX_REDUCTIONS_SEEN];
    int32_t n = md_st_collect(reduce, MAX_REDUCTIONS_SEEN, MD_FX_REDUCE, item);
    b->frame.axis_dim = -1;
    for (int32_t i = 0; i < n && n <= MAX_REDUCTIONS_SEEN; i++) {
        if (!md_fx_has_kind(reduce[i]->arg[0], MD_FX_REDUCE))
            continue;
        int32_t dim = reduce[i]->n_bound == 1 ? dim_of(b, reduce[i]->bound[0]) : -1;
        if (dim < 0 || (b->frame.axis_dim >= 0 && b->frame.axis_dim != dim))
            return false;
        b->frame.axis_dim = dim;
        b->frame.axis = reduce[i]->bound[0];
        for (int32_t k = 0; k < n; k++) {
            const md_st_set used = md_st_indices(reduce[k]);
            if (md_st_contains(reduce[i]->arg[0], reduce[k]))
                md_st_set_unite(inner, &used);
        }
    }
    return b->frame.axis_dim >= 0;
}

static bool find_frame(md_st_chain_builder *b, const md_st_item *item)
{
    md_st_frame *f = &b->frame;
    md_st_set inner = {{0}};
    if (!find_axis(b, &inner, item))
        return false;
    for (int32_t i = 0; i < item->n_free; i++) {
        bool is_row = md_st_set_has(&inner, item->free[i]);
        if (!is_row && f->n_columns == MD_MAX_RANK)
            return false;
        *(is_row ? &f->rows[f->n_rows++] : &f->columns[f->n_columns++]) = item->free[i];
    }
    return f->n_columns > 0;
}

/* The other items run over the rows, with the columns or without them, in any order: an index is the first of its dim
 * that is left. Where several have one dim the bodies tell whether that was right. */
static bool place(md_st_chain_builder *b, const md_st_item *first, md_st_item *item)
{
    const int32_t *all = item->n_free == b->frame.n_rows ? b->frame.rows : first->free;
    int32_t n = 0, from[MD_MAX_RANK * 2], to[MD_MAX_RANK * 2];
    md_st_set taken = {{0}};
    if (all == first->free && item->n_free != first->n_free)
        return false;
    for (int32_t i = 0; i < item->n_free && n == i; i++) {
        from[i] = item->free[i];
        for (int32_t k = 0; k < item->n_free && n == i; k++)
            if (!md_st_set_has(&taken, all[k]) && dim_of(b, from[i]) == dim_of(b, all[k])) {
                to[n++] = all[k];
                md_st_set_add(&taken, all[k]);
            }
    }
    return n == item->n_free && md_st_rename(b->maker, item, n, from, to);
}

/* ---- operands ---- */

static const md_fx_node *load_of(const md_fx_node *node)
{
    if (node->kind == MD_FX_CAST && node->to == MD_F32)
        node = node->arg[0];
    return node->kind == MD_FX_LOAD ? node : NULL;
}

static bool is_even(const md_st_chain_builder *b, const md_fx_node *load, int32_t n, const int32_t *index)
{
    int64_t coef[MD_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        if (!md_st_step(coef, b->maker->program, load->id, load->arg, index[i]))
            return false;
    return true;
}

static bool is_linear(const md_st_chain_builder *b, md_st_side side, const md_fx_node *load)
{
    const md_st_chain *c = b->chain;
    if (side == MD_ST_Q)
        return is_even(b, load, c->n_rows, c->rows) && is_even(b, load, c->n_depth, c->depth);
    return is_even(b, load, 1, &b->frame.axis) &&
           (side == MD_ST_K ? is_even(b, load, c->n_depth, c->depth) : is_even(b, load, c->n_columns, c->columns));
}

/* Sets what follows from an operand's value. */
static void set_side(md_st_chain_builder *b, md_st_side side)
{
    md_st_operand *o = &b->chain->side[side];
    o->load = load_of(o->value);
    o->is_plain = o->load != NULL && md_st_are_plain(o->load->n_args, o->load->arg);
    o->is_linear = o->load != NULL && is_linear(b, side, o->load);
}

/* ---- groups ---- */

/* Divides the indices of the rows: those that K and V do not depend on are rows of the chain, the others its batch. */
static void group(md_st_chain_builder *b)
{
    const md_st_frame *f = &b->frame;
    md_st_chain *c = b->chain;
    c->share = 1;
    for (int32_t i = 0; i < f->n_rows; i++) {
        const int64_t share = md_st_share_of(c, f->rows[i]);
        *(share == 0 ? &c->rows[c->n_rows++] : &c->batch[c->n_batch++]) = f->rows[i];
        if (share > 1 && c->share == 1) {
            c->share = share;
            c->share_index = f->rows[i];
        }
    }
    c->n_columns = f->n_columns;
    for (int32_t i = 0; i < f->n_columns; i++)
        c->columns[i] = f->columns[i];
}

static void set_score(md_st_chain_builder *b)
{
    md_st_chain *c = b->chain;
    if (!c->has_maximum) {
        c->score = c->open = md_fx_ref(b->maker->arena, MD_ST_REF_X, MD_F32);
        (void)md_st_made(b->maker, c->score);
    }
    c->n_guards = b->guards.n;
    c->is_bounded = true;
    for (int32_t i = 0; i < b->guards.n; i++) {
        c->guard[i] = b->guards.guard[i];
        if (md_st_bound_of(&c->bound[c->n_bounds], c, b->frame.axis, c->guard[i]))
            c->n_bounds++;
        else
            c->is_bounded = false;
    }
}

/* What lies outside its tensor where a guard does not hold is read only for keys between bounds, so guards must all be
 * bounds; and no arm of a where may keep the product from being made. */
static bool is_readable(const md_st_chain_builder *b)
{
    const md_st_chain *c = b->chain;
    const md_fx_node *ref = NULL;
    md_st_item item = {.value = c->open};
    (void)md_st_collect(&ref, 1, MD_FX_REF, &item);
    for (int32_t side = 0; side < MD_ST_SIDES; side++) {
        if (c->side[side].is_plain)
            continue;
        if (!c->is_bounded || (side != MD_ST_V && ref && md_st_is_conditional(c->open, ref)))
            return false;
    }
    return true;
}

/* Two products with nothing but factors between them are better off one after the other. */
static bool is_worth_it(const md_st_chain *c)
{
    return c->has_maximum || c->n_terms > 0 || md_st_is_heavy(c->weight);
}

static bool make(md_st_chain_builder *b, md_st_stage *out, int32_t n, md_st_item *item)
{
    if (!find_frame(b, &item[0]))
        return false;
    for (int32_t i = 1; i < n; i++)
        if (!place(b, &item[0], &item[i]))
            return false;
    out->n_outer = item[0].n_free;
    for (int32_t i = 0; i < item[0].n_free; i++)
        out->outer[i] = item[0].free[i];
    if (!md_st_extract_chain(b, n, item))
        return false;
    group(b);
    set_score(b);
    for (int32_t side = 0; side < MD_ST_SIDES; side++)
        set_side(b, (md_st_side)side);
    return !b->maker->no_memory && b->chain->score != NULL && is_worth_it(b->chain) && is_readable(b);
}

bool md_st_form_chain(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    md_st_chain *chain = md_arena_alloc(m->arena, sizeof *chain);
    *out = (md_st_stage){.axis = -1};
    if (!chain) {
        m->no_memory = true;
        return false;
    }
    *chain = (md_st_chain){.share_index = -1};
    md_st_chain_builder b = {.maker = m, .chain = chain};
    if (!make(&b, out, n, item))
        return false;
    out->kind = MD_ST_CHAIN;
    out->axis = b.frame.axis;
    out->chain = chain;
    md_st_put_stores(out, n, item);
    for (int32_t i = 0; i < n; i++)
        out->store[i].per_row = item[i].n_free < out->n_outer;
    md_st_take_census(m, out);
    return true;
}
