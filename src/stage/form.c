/* Forming a stage: the kinds are tried from the most special; a single statement is a nest at worst. */
#include "stage/form.h"

#include <string.h>

/* ---- what a stage reads and writes ---- */

typedef struct census {
    const md_st_maker *maker;
    md_st_stage *stage;
} census;

static void note_tensor(md_st_stage *s, int32_t tensor, bool is_stored)
{
    int32_t i = 0;
    while (i < s->n_tensors && s->tensor[i] != tensor)
        i++;
    if (i == s->n_tensors) {
        s->tensor[s->n_tensors++] = tensor;
        s->is_stored[i] = false;
    }
    s->is_stored[i] |= is_stored;
}

static bool note_load(void *user, const md_fx_node *node)
{
    census *c = user;
    md_fx_affine affine;
    if (node->kind != MD_FX_LOAD)
        return true;
    note_tensor(c->stage, node->id, false);
    for (int32_t i = 0; i < node->n_args; i++)
        if (!md_fx_affine_of(&affine, c->maker->formula, node->arg[i]))
            c->stage->has_gather = true;
    return true;
}

static void note_store(census *c, const md_st_store *store)
{
    bool is_affine = true;
    md_fx_affine affine;
    note_tensor(c->stage, store->tensor, true);
    for (int32_t i = 0; i < store->n_subscripts; i++)
        is_affine &= md_fx_affine_of(&affine, c->maker->formula, store->subscript[i]);
    /* two points that add to one element need care, however the element is found */
    if (store->assign != MD_FX_SET && !md_st_are_plain(store->n_subscripts, store->subscript))
        c->stage->has_duplicates = true;
    c->stage->has_scatter |= !is_affine || c->stage->has_duplicates;
}

void md_st_take_census(const md_st_maker *m, md_st_stage *s)
{
    census c = {.maker = m, .stage = s};
    s->n_tensors = 0;
    s->has_gather = s->has_scatter = s->has_duplicates = s->row.has_elements = false;
    for (int32_t i = 0; i < s->row.n_reductions; i++)
        (void)md_fx_visit(s->row.reduction[i].body, note_load, &c);
    for (int32_t i = 0; i < s->product.n_products; i++) {
        (void)md_fx_visit(s->product.a[i], note_load, &c);
        (void)md_fx_visit(s->product.b[i], note_load, &c);
    }
    if (s->product.guard)
        (void)md_fx_visit(s->product.guard, note_load, &c);
    if (s->kind == MD_ST_SCAN)
        (void)md_fx_visit(s->scan.body, note_load, &c);
    if (s->kind == MD_ST_CHAIN)
        (void)md_st_visit_chain(s->chain, note_load, &c);
    for (int32_t i = 0; i < s->n_stores; i++) {
        (void)md_fx_visit(s->store[i].value, note_load, &c);
        for (int32_t k = 0; k < s->store[i].n_subscripts; k++)
            (void)md_fx_visit(s->store[i].subscript[k], note_load, &c);
    }
    for (int32_t i = 0; i < s->n_stores; i++) {
        note_store(&c, &s->store[i]);
        s->row.has_elements |= s->kind == MD_ST_ROW && !s->store[i].per_row;
    }
}

/* ---- pointwise and nest ---- */

typedef struct largest {
    const md_st_item *item;
    int32_t rank, index;
} largest;

static bool note_largest(void *user, const md_fx_node *node)
{
    largest *l = user;
    if (node->kind != MD_FX_LOAD || node->n_args <= l->rank)
        return true;
    const md_fx_node *last = node->arg[node->n_args - 1];
    if (last->kind == MD_FX_INDEX && md_st_is_free(l->item, last->id)) {
        l->rank = node->n_args;
        l->index = last->id;
    }
    return true;
}

/* The index whose neighbours lie side by side: in what is stored, else in what is read most. */
static int32_t lane_of(const md_st_item *item)
{
    const md_fx_node *last = item->n_subscripts > 0 ? item->subscript[item->n_subscripts - 1] : NULL;
    if (last && last->kind == MD_FX_INDEX && md_st_is_free(item, last->id))
        return last->id;
    largest l = {.item = item, .index = -1};
    (void)md_st_visit(item, note_largest, &l);
    if (l.index < 0 && item->n_free > 0)
        return item->free[item->n_free - 1];
    return l.index;
}

static bool form_pointwise(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    if (!md_st_unify(m, n, item))
        return false;
    out->kind = MD_ST_POINTWISE;
    out->axis = lane_of(&item[0]);
    for (int32_t i = 0; i < item[0].n_free; i++)
        if (item[0].free[i] != out->axis)
            out->outer[out->n_outer++] = item[0].free[i];
    md_st_put_stores(out, n, item);
    return true;
}

static bool form_nest(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    (void)m;
    if (n != 1)
        return false;
    out->kind = MD_ST_NEST;
    const int32_t lane = lane_of(&item[0]), last = item[0].n_free - 1;
    out->axis = last >= 0 && item[0].free[last] == lane ? lane : -1;
    for (int32_t i = 0; i < item[0].n_free; i++)
        if (item[0].free[i] != out->axis)
            out->outer[out->n_outer++] = item[0].free[i];
    md_st_put_stores(out, n, item);
    return true;
}

/* ---- choosing ---- */

typedef bool (*form_fn)(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);

/* Which kinds may hold items with reductions, with scans, and with subscripts on the left that are no plain indices. */
static const struct {
    form_fn form;
    bool with_reductions, with_scans, with_scatter;
} kinds[] = {
    {form_pointwise, false, false, true},  {md_st_form_product, true, false, true},
    {md_st_form_scan, false, true, false}, {md_st_form_row, true, false, false},
    {form_nest, true, true, true},
};

/* True if a reduction or scan must stay in the arm of a where that it stands in: only a nest leaves it there. */
static bool has_guarded(const md_st_item *item)
{
    enum { MAX_SEEN = 64 };
    static const md_fx_kind kind[] = {MD_FX_REDUCE, MD_FX_SCAN};
    const md_fx_node *node[MAX_SEEN];
    for (int32_t k = 0; k < 2; k++) {
        int32_t n = md_st_collect(node, MAX_SEEN, kind[k], item);
        if (n > MAX_SEEN)
            return true;
        for (int32_t i = 0; i < n; i++)
            if (!md_st_is_safe(item->value, node[i]))
                return true;
    }
    return false;
}

bool md_st_form(md_st_maker *m, md_st_stage *out, int32_t n, const md_st_item *item)
{
    bool has_reductions = false, has_scans = false, has_scatter = false, has_guards = false;
    md_st_item copy[MD_ST_MAX_STORES];
    if (n > MD_ST_MAX_STORES)
        return false;
    for (int32_t i = 0; i < n; i++) {
        has_reductions |= md_st_item_has(&item[i], MD_FX_REDUCE);
        has_scans |= md_st_item_has(&item[i], MD_FX_SCAN);
        has_scatter |= !md_st_is_plain(&item[i]);
        has_guards |= has_guarded(&item[i]);
    }
    for (int32_t k = 0; k < MD_COUNT(kinds) && !m->no_memory; k++) {
        bool is_nest = kinds[k].form == form_nest;
        if ((has_reductions && !kinds[k].with_reductions) || (has_scans && !kinds[k].with_scans) ||
            (has_scatter && !kinds[k].with_scatter) || (has_guards && !is_nest) ||
            (!has_reductions && !has_scans && !is_nest && k > 0))
            continue;
        memcpy(copy, item, (size_t)n * sizeof *copy);
        *out = (md_st_stage){.axis = -1};
        if (kinds[k].form(m, out, n, copy) && !m->no_memory) {
            md_st_take_census(m, out);
            return true;
        }
    }
    return false;
}
