/* Pairs (chain.h): products of rows and keys whose results are weights of sums in both directions. One statement gives
 * the names of the indices, and the others are renamed to them. */
#include "stage/chains.h"

#include "base/dtype.h"

#include <string.h>

/* ---- operands and products ---- */

static const md_fx_node *load_of(const md_fx_node *node)
{
    if (node->kind == MD_FX_CAST && node->to == MD_F32)
        node = node->arg[0];
    return node->kind == MD_FX_LOAD ? node : NULL;
}

/* True if kernels may read all of it: nothing is looked up, no subscript may lie outside. */
static bool is_readable(const md_st_pairing *g, const md_fx_node *value)
{
    const md_fx_node *load = load_of(value);
    for (int32_t i = 0; load && i < load->n_args; i++)
        if (md_fx_is_checked(load->arg[i]))
            return false;
    return load && md_dtype_compute(g->maker->formula->tensor[load->id].dtype) == MD_F32 && value->type == MD_F32;
}

/* The number of an operand; -1: it is none. */
static int32_t operand_of(md_st_pairing *g, const md_fx_node *value, bool is_of_keys, int32_t inner)
{
    md_st_pairs *p = g->pairs;
    const md_fx_node *const own = md_fx_index_node(g->maker->arena, inner);
    const bool strays =
        is_of_keys ? md_fx_uses_any_index(value, g->chain->n_rows, g->chain->rows) : md_fx_uses_index(value, g->axis);
    if (strays || !is_readable(g, value) || !md_st_made(g->maker, own))
        return -1;
    for (int32_t i = 0; i < p->n_operands; i++) {
        const md_st_pair_operand *o = &p->operand[i];
        const md_fx_node *renamed = md_fx_substitute(g->maker->arena, o->value, 1, &o->inner, &own);
        if (!md_st_made(g->maker, renamed))
            return -1;
        if (o->is_of_keys == is_of_keys && md_fx_equal(g->maker->formula, renamed, value))
            return i;
    }
    if (p->n_operands == MD_ST_MAX_PAIR_OPERANDS)
        return -1;
    p->operand[p->n_operands] = (md_st_pair_operand){is_of_keys, inner, value, load_of(value)};
    return p->n_operands++;
}

static bool add_product(md_st_pairing *g, const md_fx_node *sum)
{
    md_st_pairs *p = g->pairs;
    md_arena *a = g->maker->arena;
    md_st_factors left;
    const md_fx_node *side[2];
    const int32_t n = p->n_products;
    if (n == MD_ST_MAX_PAIR_PRODUCTS || sum->op != MD_FX_R_SUM || sum->type != MD_F32 || sum->n_bound != 1 ||
        sum->arg[0]->type != MD_F32 || !md_st_deal(side, &left, g->maker, g->axis, sum))
        return false;
    const int32_t rows = operand_of(g, side[0], false, sum->bound[0]),
                  keys = operand_of(g, side[1], true, sum->bound[0]);
    p->product[n] = (md_st_pair_product){rows, keys, sum->bound[0]};
    g->sum[n] = sum;
    g->x[n] = md_st_times_all(g->maker, md_fx_ref(a, n == 0 ? MD_ST_REF_X : MD_ST_REF_X2, MD_F32), &left);
    p->n_products++;
    return rows >= 0 && keys >= 0 && md_st_made(g->maker, g->x[n]);
}

static const md_fx_node *replace_product(void *user, const md_fx_node *node)
{
    md_st_pairing *g = user;
    if (node->kind != MD_FX_REDUCE || g->has_failed)
        return node;
    for (int32_t i = 0; i < g->pairs->n_products; i++)
        if (md_fx_equal(g->maker->formula, g->sum[i], node))
            return g->x[i];
    g->has_failed = !add_product(g, node);
    return g->has_failed ? node : g->x[g->pairs->n_products - 1];
}

/* ---- sums ---- */

typedef struct replacing {
    const md_fx_node *from, *to;
} replacing;

static const md_fx_node *replace(void *user, const md_fx_node *node)
{
    const replacing *r = user;
    return node == r->from ? r->to : node;
}

/* Weights know rows and keys, and refer to the products. */
static bool is_weight(const md_st_pairing *g, const md_fx_node *weight)
{
    const md_st_chain *c = g->chain;
    const md_st_set used = md_st_indices(weight), rows = md_st_set_of(c->n_rows, c->rows);
    md_st_set all = md_st_set_of(c->n_batch, c->batch);
    md_st_set_unite(&all, &rows);
    md_st_set_add(&all, g->axis);
    return md_fx_has_kind(weight, MD_FX_REF) && md_st_set_is_within(&used, &all) && weight->type == MD_F32;
}

static bool add_sum(md_st_pairing *g, md_st_item *item, bool is_towards_keys)
{
    int32_t column = -1;
    md_arena *a = g->maker->arena;
    const md_fx_node *outer = NULL, *weight, *value;
    const md_fx_node *body = md_st_named_body(g, item, is_towards_keys, &column, &outer);
    if (!body)
        return false;
    body = md_fx_rewrite(a, body, replace_product, g);
    if (!md_st_made(g->maker, body) || g->has_failed)
        return false;
    md_st_part_value(&weight, &value, g->maker, body, 1, &column);
    if (!weight || !value || md_fx_has_kind(value, MD_FX_REF) || !is_weight(g, weight))
        return false;
    const int32_t operand = operand_of(g, value, !is_towards_keys, column);
    g->pairs->sum[g->pairs->n_sums++] = (md_st_pair_sum){is_towards_keys, operand, column, weight, weight};
    replacing r = {outer, md_fx_ref(a, MD_ST_REF_VALUE, MD_F32)};
    item->value = md_st_made(g->maker, r.to) ? md_fx_rewrite(a, item->value, replace, &r) : NULL;
    return operand >= 0 && md_st_made(g->maker, item->value) && !md_st_item_has(item, MD_FX_REDUCE) &&
           !md_fx_uses_any_index(item->value, is_towards_keys ? g->chain->n_rows : 1,
                                 is_towards_keys ? g->chain->rows : &g->axis);
}

/* In the direction that fits. What a wrong one has added goes again. */
static bool place(md_st_pairing *g, md_st_item *item)
{
    for (int k = 0; k < 2; k++) {
        const md_st_pairs before = *g->pairs;
        md_st_item tried = *item;
        g->has_failed = false;
        if (add_sum(g, &tried, k == 1)) {
            *item = tried;
            return true;
        }
        *g->pairs = before;
    }
    return false;
}

/* ---- guards ---- */

/* Conditions that all weights need become bounds of the keys. */
static void set_bounds(md_st_pairing *g)
{
    md_st_chain *c = g->chain;
    for (int32_t i = 0; i < g->pairs->n_sums; i++) {
        md_st_guards here = {.n = 0};
        md_st_take_zero_guards(g->maker, &here, g->pairs->sum[i].weight);
        int32_t kept = 0;
        for (int32_t k = 0; k < (i == 0 ? here.n : c->n_guards); k++) {
            const md_fx_node *guard = i == 0 ? here.guard[k] : c->guard[k];
            bool is_common = i == 0;
            for (int32_t l = 0; l < here.n; l++)
                is_common |= md_fx_equal(g->maker->formula, here.guard[l], guard);
            if (is_common)
                c->guard[kept++] = guard;
        }
        c->n_guards = kept;
    }
    md_st_guards all = {.n = c->n_guards};
    for (int32_t i = 0; i < c->n_guards; i++) {
        all.guard[i] = c->guard[i];
        c->n_bounds += md_st_bound_of(&c->bound[c->n_bounds], c, g->axis, c->guard[i]);
    }
    c->is_bounded = c->n_bounds == c->n_guards;
    for (int32_t i = 0; i < g->pairs->n_sums && c->is_bounded; i++)
        g->pairs->sum[i].open = md_st_drop_guards(g->maker, &all, g->pairs->sum[i].weight);
    c->n_guards = 0; /* weights have them still */
}

/* ---- the stage ---- */

static md_st_operand side_of(const md_st_pairing *g, int32_t operand)
{
    const md_st_pair_operand *o = &g->pairs->operand[operand];
    return (md_st_operand){
        .value = o->value, .load = o->load, .is_plain = md_st_are_plain(o->load->n_args, o->load->arg)};
}

/* What everything else asks a chain for. */
static bool describe(md_st_pairing *g)
{
    md_st_chain *c = g->chain;
    const md_st_pairs *p = g->pairs;
    const md_st_pair_sum *s = &p->sum[0];
    c->score = c->open = md_fx_ref(g->maker->arena, MD_ST_REF_X, MD_F32);
    for (int32_t i = p->n_sums - 1; i >= 0; i--)
        if (!p->sum[i].is_towards_keys)
            s = &p->sum[i];
    c->share = 1;
    c->share_index = -1;
    c->n_depth = 1;
    c->depth[0] = p->product[0].depth;
    c->side[MD_ST_Q] = side_of(g, p->product[0].of_rows);
    c->side[MD_ST_K] = side_of(g, p->product[0].of_keys);
    c->side[MD_ST_V] = side_of(g, s->operand);
    c->columns[0] = s->column;
    c->weight = s->weight;
    c->pairs = p;
    return md_st_made(g->maker, c->score);
}

static bool is_worth_it(const md_st_pairs *p)
{
    bool is_heavy = false;
    for (int32_t i = 0; i < p->n_sums; i++)
        is_heavy |= md_st_is_heavy(p->sum[i].weight);
    return p->n_sums > 1 && p->n_products > 0 && (is_heavy || p->n_products > 1);
}

/* The products in a sum over one index; 0: it is none. */
static int32_t products_of(const md_st_item *item)
{
    md_st_set inner;
    int32_t n = 0;
    const md_fx_node *outer = md_st_outer_sum(item, &inner, &n);
    return outer && outer->n_bound == 1 ? n : 0;
}

static bool form_by(md_st_pairing *g, int32_t n, md_st_item *item, int32_t base)
{
    *g->chain = (md_st_chain){0};
    *g->pairs = (md_st_pairs){0};
    if (!md_st_set_pair_frame(g, &item[base]))
        return false;
    for (int32_t i = 0; i < n; i++)
        if (!place(g, &item[i]))
            return false;
    return is_worth_it(g->pairs) && describe(g);
}

static bool has_few_row_sums(const md_st_pairs *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_sums; i++)
        n += !p->sum[i].is_towards_keys;
    return 2 * n <= p->n_sums;
}

/* By the names of a sum with as many products as any; of two directions that in which fewer sums are towards rows,
 * since kernels keep these for all rows. */
static bool make(md_st_pairing *g, int32_t n, md_st_item *item)
{
    md_st_item tried[MD_ST_MAX_PAIR_SUMS];
    int32_t most = 1;
    for (int32_t i = 0; i < n && n <= MD_ST_MAX_PAIR_SUMS; i++)
        most = MD_MAX(most, products_of(&item[i]));
    for (int32_t k = 0; k < 2 * n && n <= MD_ST_MAX_PAIR_SUMS; k++) {
        memcpy(tried, item, (size_t)n * sizeof *item);
        if (products_of(&item[k % n]) != most || !form_by(g, n, tried, k % n) || (k < n && !has_few_row_sums(g->pairs)))
            continue;
        memcpy(item, tried, (size_t)n * sizeof *item);
        set_bounds(g);
        return !g->maker->no_memory;
    }
    return false;
}

bool md_st_form_pairs(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    md_st_chain *chain = md_arena_alloc(m->arena, sizeof *chain);
    md_st_pairs *pairs = md_arena_alloc(m->arena, sizeof *pairs);
    *out = (md_st_stage){.axis = -1};
    m->no_memory |= !chain || !pairs;
    if (m->no_memory)
        return false;
    md_st_pairing g = {.maker = m, .chain = chain, .pairs = pairs};
    if (!make(&g, n, item))
        return false;
    out->kind = MD_ST_CHAIN;
    out->axis = g.axis;
    for (int32_t i = 0; i < chain->n_batch; i++)
        out->outer[out->n_outer++] = chain->batch[i];
    for (int32_t i = 0; i < chain->n_rows; i++)
        out->outer[out->n_outer++] = chain->rows[i];
    out->outer[out->n_outer++] = chain->columns[0];
    out->chain = chain;
    md_st_put_stores(out, n, item);
    md_st_take_census(m, out);
    return true;
}
