/* Product stages: sum over k of A(batch,m,k) * B(batch,n,k). The factors of the body are dealt to two sides by the
 * indices that they depend on.
 *
 * Factors that do not depend on k move out of the sum, to the epilogue: n roundings become one, so the result is as
 * accurate or better; it differs from the sum as written only where a partial sum overflows, or where an infinite
 * factor meets terms of both signs. A side keeps the order of its factors. */
#include "stage/form.h"

typedef struct split {
    md_st_factors list;
    md_st_set used[MD_ST_MAX_FACTORS]; /* free indices and k, by factor */
    bool has_k[MD_ST_MAX_FACTORS];
    int8_t side[MD_ST_MAX_FACTORS]; /* 0, 1; -1: either; -2: moved out of the sum */
    md_st_set of_side[2]; /* free indices */
    md_st_product groups;
    const md_fx_node *expr[2]; /* a and b */
    const md_fx_node *look_up; /* an index of its own stands for it; NULL: none */
    int32_t group; /* that index */
} split;

/* What each factor depends on; whether some do on k. */
static bool examine(md_st_maker *m, split *s, const md_fx_node *reduce, const md_st_item *item)
{
    md_st_set k = md_st_set_of(reduce->n_bound, reduce->bound), known = md_st_set_of(item->n_free, item->free);
    md_st_set_unite(&known, &k);
    md_st_factors_of(&s->list, reduce->arg[0]);
    if (s->look_up) {
        md_st_set_add(&known, s->group);
        if (!md_st_name_groups(m, &s->list, &k, s->look_up, s->group))
            return false;
    }
    int32_t n_inside = 0;
    for (int32_t i = 0; i < s->list.n; i++) {
        md_st_set used = md_st_indices(s->list.factor[i].node);
        if (!md_st_set_is_within(&used, &known))
            return false;
        s->has_k[i] = !md_st_set_is_disjoint(&used, &k);
        s->used[i] = md_st_set_without(&used, &k);
        n_inside += s->has_k[i];
    }
    /* A factor that left a guarded sum would be there for a batch without steps, too. */
    return n_inside >= 2 && (!s->groups.guard || n_inside == s->list.n);
}

/* Deals the factors to two sides, given one of each. A factor that depends on what only one seed depends on joins
 * it. */
static bool deal(split *s, int32_t a, int32_t b)
{
    const md_st_set only[2] = {md_st_set_without(&s->used[a], &s->used[b]),
                               md_st_set_without(&s->used[b], &s->used[a])};
    s->of_side[0] = s->used[a];
    s->of_side[1] = s->used[b];
    if (md_st_set_is_within(&s->used[a], &s->used[b]) || md_st_set_is_within(&s->used[b], &s->used[a]))
        return false;
    for (int32_t i = 0; i < s->list.n; i++) {
        bool first = !md_st_set_is_disjoint(&s->used[i], &only[0]),
             second = !md_st_set_is_disjoint(&s->used[i], &only[1]);
        if (s->has_k[i] && first && second)
            return false;
        s->side[i] = !s->has_k[i] ? -2 : first ? 0 : second ? 1 : -1;
        if (s->side[i] >= 0)
            md_st_set_unite(&s->of_side[(int)s->side[i]], &s->used[i]);
    }
    return !md_st_set_is_within(&s->of_side[0], &s->of_side[1]) && !md_st_set_is_within(&s->of_side[1], &s->of_side[0]);
}

static void exchange(split *s)
{
    md_st_set first = s->of_side[0];
    s->of_side[0] = s->of_side[1];
    s->of_side[1] = first;
    for (int32_t k = 0; k < s->list.n; k++)
        if (s->side[k] >= 0)
            s->side[k] = (int8_t)(1 - s->side[k]);
}

/* B is the side with groups, else the one that the last plain subscript of the store belongs to: its neighbours then
 * lie side by side. */
static void orient(split *s, const md_st_item *item)
{
    md_st_set n = md_st_set_without(&s->of_side[1], &s->of_side[0]),
              m = md_st_set_without(&s->of_side[0], &s->of_side[1]);
    if (s->look_up) {
        if (md_st_set_has(&m, s->group))
            exchange(s);
        return;
    }
    for (int32_t i = item->n_subscripts - 1; i >= 0; i--) {
        int32_t id = item->subscript[i]->kind == MD_FX_INDEX ? item->subscript[i]->id : -1;
        if (id >= 0 && md_st_set_has(&n, id))
            return;
        if (id < 0 || !md_st_set_has(&m, id))
            continue;
        exchange(s);
        return;
    }
}

static bool is_plain_load(const md_fx_node *node)
{
    return node->kind == MD_FX_LOAD && md_st_are_plain(node->n_args, node->arg);
}

/* True if a side is nothing but a load so far: such a side is copied fastest. */
static bool is_lone_load(const split *s, int side)
{
    int32_t n = 0;
    bool is_load = false;
    for (int32_t i = 0; i < s->list.n; i++)
        if (s->side[i] == side) {
            n++;
            is_load = is_plain_load(s->list.factor[i].node) && !s->list.factor[i].is_divisor;
        }
    return n == 1 && is_load;
}

/* Factors of k alone (or of k and what both sides share) go where they cost least. */
static void settle(split *s)
{
    int side = is_lone_load(s, 0) && !is_lone_load(s, 1) ? 1 : 0;
    for (int32_t i = 0; i < s->list.n; i++)
        if (s->side[i] == -1) {
            s->side[i] = (int8_t)side;
            md_st_set_unite(&s->of_side[side], &s->used[i]);
        }
}

/* True if rows alone say which group they belong to. */
static bool finds_groups(const split *s)
{
    const md_st_set rows = md_st_set_of(s->groups.n_m, s->groups.m), used = md_st_indices(s->look_up);
    return s->groups.n_batch == 0 && md_st_set_is_within(&used, &rows) && !md_st_set_has(&s->of_side[0], s->group) &&
           md_st_set_has(&s->of_side[1], s->group);
}

/* True if the bounds of K depend on the index: each of its values is a batch. */
static bool bounds_depth(const split *s, int32_t index)
{
    return s->groups.guard != NULL && md_fx_uses_index(s->groups.guard, index);
}

/* Sorts the free indices into groups, in the order of the store. */
static bool group(const md_st_maker *m, split *s, const md_fx_node *reduce, const md_st_item *item)
{
    md_st_product *product = &s->groups;
    for (int32_t i = 0; i < item->n_free; i++) {
        int32_t id = item->free[i];
        bool a = md_st_set_has(&s->of_side[0], id), b = md_st_set_has(&s->of_side[1], id);
        a |= !b && s->look_up != NULL && md_fx_uses_index(s->look_up, id);
        if (!a && !b && bounds_depth(s, id))
            product->sharing[product->n_sharing++] = id;
        if ((a && b) || bounds_depth(s, id) || md_st_is_in_front(m, &s->list, reduce, id))
            product->batch[product->n_batch++] = id;
        else if (a)
            product->m[product->n_m++] = id;
        else if (b)
            product->n[product->n_n++] = id;
        else
            return false;
    }
    for (int32_t i = 0; i < reduce->n_bound; i++) {
        bool is_used = false;
        for (int32_t k = 0; k < s->list.n; k++)
            is_used |= s->side[k] >= 0 && md_fx_uses_index(s->list.factor[k].node, reduce->bound[i]);
        if (!is_used)
            return false;
        product->k[product->n_k++] = reduce->bound[i];
    }
    return product->n_m > 0 && product->n_n > 0 && (!s->look_up || finds_groups(s)) &&
           (!product->guard || product->n_sharing > 0);
}

static bool build_side(md_st_maker *m, split *s, int side)
{
    const md_fx_node *acc = NULL;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < s->list.n; i++) {
            if (s->side[i] != side || s->list.factor[i].is_divisor != (pass == 1))
                continue;
            acc = md_st_times(m, acc, &s->list.factor[i], s->list.type);
            if (!acc)
                return false;
        }
    s->expr[side] = acc;
    return true;
}

static bool split_factors(md_st_maker *m, split *s, const md_fx_node *reduce, const md_st_item *item)
{
    if (!examine(m, s, reduce, item))
        return false;
    for (int32_t a = 0; a < s->list.n; a++)
        for (int32_t b = a + 1; b < s->list.n; b++) {
            if (!s->has_k[a] || !s->has_k[b] || s->list.factor[a].is_divisor || s->list.factor[b].is_divisor ||
                !deal(s, a, b))
                continue;
            orient(s, item);
            settle(s);
            return group(m, s, reduce, item) && build_side(m, s, 0) && build_side(m, s, 1);
        }
    return false;
}

static bool split_span(md_st_maker *m, split *s, const md_fx_node *reduce, const md_st_item *item)
{
    *s = (split){.groups = {0}};
    const md_fx_node *inside = md_st_take_span(m, &s->groups, reduce);
    return inside && split_factors(m, s, inside, item);
}

/* `like`: the first of two sums; the second has its groups. NULL: it is the first. */
static bool split_sum(md_st_maker *m, split *s, const md_fx_node *reduce, const md_st_item *item, const split *like)
{
    const md_fx_node *found[MD_ST_MAX_LOOK_UPS];
    *s = (split){.groups = {0}};
    if (split_factors(m, s, reduce, item))
        return true;
    if (!like && split_span(m, s, reduce, item))
        return true;
    const int32_t n = md_st_find_look_ups(found, m, reduce);
    for (int32_t i = 0; i < n; i++) {
        if (like && (!like->look_up || !md_fx_equal(m->formula, like->look_up, found[i])))
            continue;
        *s = (split){.look_up = found[i], .group = like != NULL ? like->group : md_st_group_index(m, reduce, found[i])};
        if (s->group >= 0 && split_factors(m, s, reduce, item))
            return true;
    }
    return false;
}

/* ---- the stage ---- */

typedef struct extractor {
    md_st_maker *maker;
    int32_t n;
    const md_fx_node *reduce[MD_ST_MAX_PRODUCTS]; /* as they stand in the values */
    const md_fx_node *result[MD_ST_MAX_PRODUCTS];
} extractor;

static bool find_sums(md_st_maker *m, extractor *e, int32_t n, const md_st_item *item)
{
    const md_fx_node *reduce[8];
    for (int32_t i = 0; i < n; i++) {
        int32_t count = md_st_collect(reduce, MD_COUNT(reduce), MD_FX_REDUCE, &item[i]);
        if (count > MD_COUNT(reduce))
            return false;
        for (int32_t r = 0; r < count; r++) {
            int32_t same = 0;
            while (same < e->n && !md_fx_equal(m->formula, e->reduce[same], reduce[r]))
                same++;
            if (same < e->n)
                continue;
            if (e->n == MD_ST_MAX_PRODUCTS || reduce[r]->op != MD_FX_R_SUM ||
                md_fx_has_kind(reduce[r]->arg[0], MD_FX_REDUCE))
                return false;
            e->reduce[e->n++] = reduce[r];
        }
    }
    return e->n > 0;
}

/* The sum with its bound indices named as those of another over the same dims; NULL where the dims differ. */
static const md_fx_node *with_bounds(md_st_maker *m, const md_fx_node *reduce, const md_fx_node *like)
{
    const md_fx_node *index[MD_MAX_RANK], **arg = md_arena_alloc(m->arena, sizeof *arg);
    md_fx_node *copy = md_fx_node_new(m->arena, MD_FX_REDUCE, reduce->type);
    if (reduce->n_bound != like->n_bound || reduce->type != like->type)
        return NULL;
    for (int32_t i = 0; i < like->n_bound; i++) {
        if (m->formula->index[reduce->bound[i]].dim != m->formula->index[like->bound[i]].dim)
            return NULL;
        index[i] = md_fx_index_node(m->arena, like->bound[i]);
        if (!md_st_made(m, index[i]))
            return NULL;
    }
    if (!md_st_made(m, copy) || !md_st_made(m, arg ? copy : NULL))
        return NULL;
    *copy = *reduce;
    arg[0] = md_fx_substitute(m->arena, reduce->arg[0], reduce->n_bound, reduce->bound, index);
    if (!md_st_made(m, arg[0]))
        return NULL;
    copy->arg = arg;
    for (int32_t i = 0; i < like->n_bound; i++)
        copy->bound[i] = like->bound[i];
    return copy;
}

static bool same_ids(int32_t n, const int32_t *a, int32_t n_b, const int32_t *b)
{
    const md_st_set x = md_st_set_of(n, a), y = md_st_set_of(n_b, b);
    return n == n_b && md_st_set_is_within(&x, &y);
}

/* Two sums share the walk over memory only if they share their groups and one operand. */
static bool go_together(const md_st_maker *m, const split *p, const split *q)
{
    const md_st_product *a = &p->groups, *b = &q->groups;
    return (!p->look_up) == (!q->look_up) && same_ids(a->n_batch, a->batch, b->n_batch, b->batch) &&
           same_ids(a->n_m, a->m, b->n_m, b->m) && same_ids(a->n_n, a->n, b->n_n, b->n) &&
           (md_fx_equal(m->formula, p->expr[0], q->expr[0]) || md_fx_equal(m->formula, p->expr[1], q->expr[1]));
}

/* REF(p) with the factors that left the sum. */
static const md_fx_node *result_of(md_st_maker *m, const split *s, int32_t p, md_dtype type)
{
    const md_fx_node *result = md_st_convert(m->arena, md_fx_ref(m->arena, p, type), s->list.type);
    for (int32_t i = 0; i < s->list.n && md_st_made(m, result); i++)
        if (s->side[i] == -2)
            result = md_st_times(m, result, &s->list.factor[i], s->list.type);
    if (s->list.is_negative)
        result = md_fx_op1(m->arena, MD_FX_NEG, result);
    (void)md_st_made(m, result);
    return result;
}

static const md_fx_node *extract(void *user, const md_fx_node *node)
{
    const extractor *e = user;
    for (int32_t p = 0; p < e->n && node->kind == MD_FX_REDUCE; p++)
        if (md_fx_equal(e->maker->formula, e->reduce[p], node))
            return e->result[p];
    return node;
}

/* Computes integers as reals where no sum can be too large to be exact. */
static bool use_exact_type(md_st_maker *m, md_st_product *product)
{
    for (int32_t p = 0; p < product->n_products && product->type == MD_I64; p++) {
        product->a[p] = md_st_without_wide_casts(m->formula, product->a[p]);
        product->b[p] = md_st_without_wide_casts(m->formula, product->b[p]);
    }
    product->type = md_st_exact_type(m->formula, product);
    for (int32_t p = 0; p < product->n_products; p++) {
        product->a[p] = product->type != MD_I64 ? md_st_convert(m->arena, product->a[p], product->type) : product->a[p];
        product->b[p] = product->type != MD_I64 ? md_st_convert(m->arena, product->b[p], product->type) : product->b[p];
        if (!md_st_made(m, product->a[p]) || !md_st_made(m, product->b[p]))
            return false;
    }
    return true;
}

/* Operands B are kept both ways: by group, and as they were written. */
static bool keep_groups(md_st_maker *m, md_st_product *product, const split *s)
{
    product->look_up = s->look_up;
    product->group = s->group;
    for (int32_t p = 0; p < product->n_products; p++) {
        product->of_group[p] = product->b[p];
        product->b[p] = md_fx_substitute(m->arena, product->b[p], 1, &s->group, &s->look_up);
        if (!md_st_made(m, product->b[p]))
            return false;
    }
    return true;
}

static bool split_all(md_st_maker *m, md_st_stage *out, extractor *e, const md_st_item *item)
{
    split first, second;
    if (!split_sum(m, &first, e->reduce[0], item, NULL))
        return false;
    out->product = first.groups;
    out->product.type = e->reduce[0]->type;
    out->product.n_products = e->n;
    if (e->n == 2) {
        const md_fx_node *other = with_bounds(m, e->reduce[1], e->reduce[0]);
        if (first.groups.guard || !other || !split_sum(m, &second, other, item, &first) ||
            !go_together(m, &first, &second))
            return false;
    }
    for (int32_t p = 0; p < e->n; p++) {
        out->product.a[p] = (p == 0 ? &first : &second)->expr[0];
        out->product.b[p] = (p == 0 ? &first : &second)->expr[1];
    }
    if (!use_exact_type(m, &out->product) || (first.look_up && !keep_groups(m, &out->product, &first)))
        return false;
    for (int32_t p = 0; p < e->n; p++) {
        e->result[p] = result_of(m, p == 0 ? &first : &second, p, out->product.type);
        if (!e->result[p])
            return false;
    }
    return true;
}

bool md_st_form_product(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    extractor e = {.maker = m};
    if (!md_st_unify(m, n, item) || !find_sums(m, &e, n, item) || !split_all(m, out, &e, &item[0]) ||
        !md_st_suits_stores(&out->product, n, item)) {
        *out = (md_st_stage){.axis = -1};
        return false;
    }
    if (!md_st_rewrite_all(m, n, item, extract, &e))
        return false;
    out->kind = MD_ST_PRODUCT;
    out->n_outer = item[0].n_free;
    for (int32_t i = 0; i < item[0].n_free; i++)
        out->outer[i] = item[0].free[i];
    md_st_put_stores(out, n, item);
    return true;
}
