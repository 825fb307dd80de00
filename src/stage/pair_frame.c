/* The indices of pairs: one statement gives their names, and the others are renamed to them. */
#include "stage/chains.h"

enum { MOST_REDUCTIONS = 24 };

/* ---- the frame ---- */

const md_fx_node *md_st_outer_sum(const md_st_item *item, md_st_set *inner, int32_t *n_inner)
{
    const md_fx_node *reduce[MOST_REDUCTIONS], *outer = NULL;
    const int32_t n = md_st_collect(reduce, MOST_REDUCTIONS, MD_FX_REDUCE, item);
    *inner = (md_st_set){{0}};
    for (int32_t i = 0; i < n && n <= MOST_REDUCTIONS; i++) {
        if (!md_fx_has_kind(reduce[i]->arg[0], MD_FX_REDUCE))
            continue;
        if (outer)
            return NULL;
        outer = reduce[i];
    }
    if (!outer || outer->op != MD_FX_R_SUM || outer->type != MD_F32 || outer->arg[0]->type != MD_F32)
        return NULL;
    for (int32_t i = 0; i < n; i++) {
        const md_st_set used = md_st_indices(reduce[i]);
        if (reduce[i] == outer)
            continue;
        if (!md_st_contains(outer, reduce[i]))
            return NULL;
        md_st_set_unite(inner, &used);
    }
    *n_inner = n - 1;
    return outer;
}

/* True if a factor of an inner sum that runs over the axis uses the index: then rows of different such indices have
 * different keys. */
static bool is_of_keys(const md_st_pairing *g, const md_st_item *item, int32_t index)
{
    const md_fx_node *reduce[MOST_REDUCTIONS], *side[2];
    const int32_t n = md_st_collect(reduce, MOST_REDUCTIONS, MD_FX_REDUCE, item);
    bool is = false;
    for (int32_t i = 0; i < n; i++) {
        md_st_factors left;
        if (!md_fx_has_kind(reduce[i]->arg[0], MD_FX_REDUCE) && md_st_deal(side, &left, g->maker, g->axis, reduce[i]))
            is |= md_fx_uses_index(side[1], index);
    }
    return is;
}

bool md_st_set_pair_frame(md_st_pairing *g, const md_st_item *item)
{
    md_st_chain *c = g->chain;
    md_st_set inner;
    int32_t n_inner = 0;
    const md_fx_node *outer = md_st_outer_sum(item, &inner, &n_inner);
    if (!outer || outer->n_bound != 1)
        return false;
    g->axis = outer->bound[0];
    c->n_batch = c->n_rows = c->n_columns = 0;
    for (int32_t i = 0; i < item->n_free; i++) {
        const int32_t index = item->free[i];
        if (!md_st_set_has(&inner, index) && c->n_columns == 1)
            return false;
        if (!md_st_set_has(&inner, index))
            c->columns[c->n_columns++] = index;
        else if (is_of_keys(g, item, index))
            c->batch[c->n_batch++] = index;
        else
            c->rows[c->n_rows++] = index;
    }
    return c->n_columns == 1 && c->n_rows > 0 && md_st_set_has(&inner, g->axis);
}

/* ---- other statements by these names ---- */

static int32_t dim_of(const md_st_pairing *g, int32_t index)
{
    return g->maker->formula->index[index].dim;
}

typedef struct indices {
    int32_t n;
    const int32_t *id;
} indices;

/* to[i] is the wanted index that from.id[i] stands for: of equal dims, in order. *rest is the one that is left over;
 * NULL: none may be. */
static bool match(const md_st_pairing *g, indices wanted, indices from, int32_t *to, int32_t *rest)
{
    int32_t n_left = from.n;
    for (int32_t i = 0; i < from.n; i++)
        to[i] = -1;
    for (int32_t w = 0; w < wanted.n; w++) {
        int32_t i = 0;
        while (i < from.n && (to[i] >= 0 || dim_of(g, from.id[i]) != dim_of(g, wanted.id[w])))
            i++;
        if (i == from.n)
            return false;
        to[i] = wanted.id[w];
        n_left--;
    }
    for (int32_t i = 0; i < from.n && n_left == 1 && rest; i++)
        if (to[i] < 0)
            to[i] = *rest = from.id[i];
    return n_left == (rest != NULL);
}

const md_fx_node *md_st_named_body(const md_st_pairing *g, md_st_item *item, bool is_towards_keys, int32_t *column,
                                   const md_fx_node **outer)
{
    const md_st_chain *c = g->chain;
    const md_fx_node *node[MD_MAX_RANK * 2];
    int32_t wanted[MD_MAX_RANK * 4], n = 0, to[MD_MAX_RANK * 2], n_inner = 0;
    md_st_set inner;
    for (int32_t i = 0; i < c->n_batch; i++)
        wanted[n++] = c->batch[i];
    for (int32_t i = 0; i < (is_towards_keys ? 1 : c->n_rows); i++)
        wanted[n++] = is_towards_keys ? g->axis : c->rows[i];
    if (n + 1 != item->n_free || !match(g, (indices){n, wanted}, (indices){item->n_free, item->free}, to, column) ||
        !md_st_rename(g->maker, item, item->n_free, item->free, to))
        return NULL;
    *outer = md_st_outer_sum(item, &inner, &n_inner);
    n = is_towards_keys ? c->n_rows : 1;
    if (!*outer || (*outer)->n_bound != n ||
        !match(g, (indices){n, is_towards_keys ? c->rows : &g->axis}, (indices){n, (*outer)->bound}, to, NULL))
        return NULL;
    for (int32_t i = 0; i < n; i++) {
        node[i] = md_fx_index_node(g->maker->arena, to[i]);
        if (!md_st_made(g->maker, node[i]))
            return NULL;
    }
    const md_fx_node *body = md_fx_substitute(g->maker->arena, (*outer)->arg[0], n, (*outer)->bound, node);
    return md_st_made(g->maker, body) ? body : NULL;
}
