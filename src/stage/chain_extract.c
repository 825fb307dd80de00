/* Takes the reductions over a chain's axis out of its statements: they are the product, the maximum, the sums and the
 * weights times the values. */
#include "stage/cascade.h"
#include "stage/chains.h"

typedef struct extractor {
    md_st_maker *maker;
    const md_st_frame *frame;
    md_st_chain *chain;
    md_st_guards *guards; /* around the score */
    const md_fx_node *sum; /* the product's sum, as it stands in bodies; NULL: none met yet */
    const md_fx_node *x; /* what it becomes: REF(X), and the factors that have left it */
    bool has_failed;
} extractor;

static const md_fx_node *fail(extractor *e, const md_fx_node *node)
{
    e->has_failed = true;
    return node;
}

/* ---- the product ---- */

bool md_st_deal(const md_fx_node *side[2], md_st_factors *left, md_st_maker *m, int32_t axis, const md_fx_node *sum)
{
    md_st_factors f;
    side[0] = side[1] = NULL;
    md_st_factors_of(&f, sum->arg[0]);
    *left = (md_st_factors){.type = f.type, .is_negative = f.is_negative};
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f.n; i++) {
            bool is_inside = md_fx_uses_any_index(f.factor[i].node, sum->n_bound, sum->bound);
            if (f.factor[i].is_divisor != (pass == 1))
                continue;
            if (!is_inside)
                left->factor[left->n++] = f.factor[i];
            int k = md_fx_uses_index(f.factor[i].node, axis);
            if (is_inside)
                side[k] = md_st_times(m, side[k], &f.factor[i], f.type);
        }
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < sum->n_bound; i++)
            if (!side[k] || !md_fx_uses_index(side[k], sum->bound[i]))
                return false;
    return true;
}

const md_fx_node *md_st_times_all(md_st_maker *m, const md_fx_node *node, const md_st_factors *f)
{
    for (int32_t i = 0; i < f->n && node; i++)
        node = md_st_times(m, node, &f->factor[i], f->type);
    node = f->is_negative && node ? md_fx_op1(m->arena, MD_FX_NEG, node) : node;
    (void)md_st_made(m, node);
    return node;
}

/* True if an expression depends on nothing but rows, the axis and these indices. */
static bool is_over(const extractor *e, const md_fx_node *node, int32_t n, const int32_t *index)
{
    const md_st_set used = md_st_indices(node), rows = md_st_set_of(e->frame->n_rows, e->frame->rows);
    md_st_set all = md_st_set_of(n, index);
    md_st_set_unite(&all, &rows);
    md_st_set_add(&all, e->frame->axis);
    return md_st_set_is_within(&used, &all);
}

static bool set_product(extractor *e, const md_fx_node *sum)
{
    md_st_factors left;
    const md_fx_node *side[2];
    md_arena *a = e->maker->arena;
    if (sum->op != MD_FX_R_SUM || sum->type != MD_F32 || sum->arg[0]->type != MD_F32 ||
        md_fx_has_kind(sum->arg[0], MD_FX_REF) || !is_over(e, sum->arg[0], sum->n_bound, sum->bound) ||
        !md_st_deal(side, &left, e->maker, e->frame->axis, sum))
        return false;
    e->chain->side[MD_ST_Q].value = side[0];
    e->chain->side[MD_ST_K].value = side[1];
    e->sum = sum;
    e->chain->n_depth = sum->n_bound;
    for (int32_t i = 0; i < sum->n_bound; i++)
        e->chain->depth[i] = sum->bound[i];
    e->x = md_st_times_all(e->maker, md_fx_ref(a, MD_ST_REF_X, MD_F32), &left);
    return md_st_made(e->maker, e->x);
}

/* The sums over depth in a body over the axis are all the same one. */
static const md_fx_node *replace_sum(void *user, const md_fx_node *node)
{
    extractor *e = user;
    if (node->kind != MD_FX_REDUCE || e->has_failed)
        return node;
    if (!e->sum ? !set_product(e, node) : !md_fx_equal(e->maker->formula, e->sum, node))
        return fail(e, node);
    return e->x;
}

/* ---- reductions over the axis ---- */

static bool is_result(void *user, const md_fx_node *ref)
{
    (void)user;
    return ref->id != MD_ST_REF_X;
}

/* The reference may be anything made of the maximum: exp(maximum - reference) comes on top at the end. */
static bool is_shifted(void *user, const md_fx_node *a, const md_fx_node *reference)
{
    const extractor *e = user;
    return e->chain->has_maximum && md_fx_equal(e->maker->formula, a, e->chain->open) &&
           (!e->chain->reference || md_fx_equal(e->maker->formula, e->chain->reference, reference));
}

/* Splits a body, in which the exponential then is REF(E). */
static bool split_body(extractor *e, md_st_cascade *c, const md_fx_node *body)
{
    md_st_cascade_rules rules = {.axis = e->frame->axis, .user = e, .is_result = is_result, .is_shifted = is_shifted};
    return md_st_cascade_of(c, e->maker, body, &rules);
}

typedef struct replacing {
    const md_fx_node *from, *to; /* from NULL: REF(X) */
} replacing;

static const md_fx_node *replace(void *user, const md_fx_node *node)
{
    const replacing *r = user;
    bool is_it = r->from != NULL ? node == r->from : node->kind == MD_FX_REF && node->id == MD_ST_REF_X;
    return is_it ? r->to : node;
}

static bool is_not_x(void *user, const md_fx_node *node)
{
    (void)user;
    return node->kind != MD_FX_REF || node->id != MD_ST_REF_X;
}

/* The part of a split body over REF(E). A chain with a maximum sums nothing that does not scale with it. */
static const md_fx_node *over_e(extractor *e, const md_st_cascade *c)
{
    md_arena *a = e->maker->arena;
    replacing r = {c->exponential, md_fx_ref(a, MD_ST_REF_E, MD_F32)};
    if (!c->part || (c->exponential != NULL) != e->chain->has_maximum || !md_st_made(e->maker, r.to))
        return NULL;
    const md_fx_node *part = md_fx_rewrite(a, c->part, replace, &r);
    if (!md_st_made(e->maker, part) || !md_fx_visit(part, is_not_x, NULL))
        return NULL;
    e->chain->reference = c->reference;
    return part;
}

/* A sum times the factors that have left it. */
static const md_fx_node *with_outer(extractor *e, int32_t ref, const md_st_cascade *c)
{
    const md_fx_node *result = md_fx_ref(e->maker->arena, ref, MD_F32);
    if (c->outer.n == 0)
        return result;
    for (int32_t i = 0; i < c->outer.n && result != NULL; i++)
        result = md_st_times(e->maker, result, &c->outer.factor[i], c->outer.type);
    return md_st_unless_empty(e->maker, e->frame->axis_dim, result);
}

static const md_fx_node *maximum_of(extractor *e, const md_fx_node *node, const md_fx_node *body)
{
    md_st_chain *chain = e->chain;
    if (!md_fx_has_kind(body, MD_FX_REF) || md_fx_uses_any_index(body, e->frame->n_columns, e->frame->columns) ||
        (chain->has_maximum && !md_fx_equal(e->maker->formula, chain->open, body)))
        return fail(e, node);
    if (!chain->has_maximum) {
        (void)md_st_take_guards(e->maker, e->guards, body);
        chain->score = body;
        chain->open = md_st_drop_guards(e->maker, e->guards, body);
        chain->has_maximum = md_st_made(e->maker, chain->open);
    }
    return md_fx_ref(e->maker->arena, MD_ST_REF_MAXIMUM, MD_F32);
}

static const md_fx_node *term_of(extractor *e, const md_fx_node *node, const md_fx_node *body)
{
    md_st_cascade c;
    md_st_chain *chain = e->chain;
    const md_fx_node *term = split_body(e, &c, body) ? over_e(e, &c) : NULL;
    int32_t i = 0;
    if (!term)
        return fail(e, node);
    while (i < chain->n_terms && !md_fx_equal(e->maker->formula, chain->term[i], term))
        i++;
    if (i == MD_ST_MAX_TERMS)
        return fail(e, node);
    chain->term[i] = term;
    chain->n_terms = MD_MAX(chain->n_terms, i + 1);
    return with_outer(e, MD_ST_REF_TERM + i, &c);
}

void md_st_part_value(const md_fx_node **weight, const md_fx_node **value, md_st_maker *m, const md_fx_node *body,
                      int32_t n, const int32_t *column)
{
    md_st_factors f;
    *weight = *value = NULL;
    md_st_factors_of(&f, body);
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f.n; i++) {
            bool is_value = md_fx_uses_any_index(f.factor[i].node, n, column);
            if (f.factor[i].is_divisor == (pass == 1))
                *(is_value ? value : weight) = md_st_times(m, is_value ? *value : *weight, &f.factor[i], f.type);
        }
    if (f.is_negative && *weight) {
        *weight = md_fx_op1(m->arena, MD_FX_NEG, *weight);
        (void)md_st_made(m, *weight);
    }
}

/* The weights times the values. */
static const md_fx_node *value_of(extractor *e, const md_fx_node *node, const md_fx_node *body)
{
    md_st_cascade c;
    const md_fx_node *weight = NULL, *value = NULL;
    md_st_part_value(&weight, &value, e->maker, body, e->frame->n_columns, e->frame->columns);
    if (!weight || !value || md_fx_has_kind(value, MD_FX_REF) || !split_body(e, &c, weight))
        return fail(e, node);
    weight = over_e(e, &c);
    bool is_same = !e->chain->weight || (weight && md_fx_equal(e->maker->formula, e->chain->weight, weight) &&
                                         md_fx_equal(e->maker->formula, e->chain->side[MD_ST_V].value, value));
    if (!weight || !is_same)
        return fail(e, node);
    e->chain->weight = weight;
    e->chain->side[MD_ST_V].value = value;
    return with_outer(e, MD_ST_REF_VALUE, &c);
}

/* Bottom up: reductions over the axis inside a body are REFs already. */
static const md_fx_node *extract(void *user, const md_fx_node *node)
{
    extractor *e = user;
    md_arena *a = e->maker->arena;
    if (node->kind != MD_FX_REDUCE || e->has_failed || node->n_bound != 1 ||
        e->maker->formula->index[node->bound[0]].dim != e->frame->axis_dim)
        return node;
    const md_fx_node *axis = md_fx_index_node(a, e->frame->axis);
    const md_fx_node *body = axis != NULL ? md_fx_substitute(a, node->arg[0], 1, node->bound, &axis) : NULL;
    body = body != NULL ? md_fx_rewrite(a, body, replace_sum, e) : NULL;
    if (!body || e->has_failed)
        return !body ? NULL : node;
    body = md_st_drop_guards(e->maker, e->guards, body);
    if (!body || !is_over(e, body, e->frame->n_columns, e->frame->columns) || body->type != MD_F32)
        return !body ? NULL : fail(e, node);
    if (node->op == MD_FX_R_MAX)
        return maximum_of(e, node, body);
    if (node->op != MD_FX_R_SUM)
        return fail(e, node);
    return md_fx_uses_any_index(body, e->frame->n_columns, e->frame->columns) ? value_of(e, node, body)
                                                                              : term_of(e, node, body);
}

bool md_st_extract_chain(md_st_chain_builder *b, int32_t n, md_st_item *item)
{
    extractor e = {.maker = b->maker, .frame = &b->frame, .chain = b->chain, .guards = &b->guards};
    for (int32_t i = 0; i < n; i++) {
        item[i].value = md_fx_rewrite(b->maker->arena, item[i].value, extract, &e);
        if (!md_st_made(b->maker, item[i].value) || e.has_failed || md_st_item_has(&item[i], MD_FX_REDUCE) ||
            md_fx_uses_index(item[i].value, b->frame.axis))
            return false;
    }
    return e.sum != NULL && b->chain->weight != NULL;
}
