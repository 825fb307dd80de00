/* Chain stages: from statements that have all temporaries between in their values to the parts of chain.h. */
#include "stage/chains.h"

#include "base/dtype.h"
#include "stage/cascade.h"

enum { MAX_REDUCTIONS_SEEN = 64 };

typedef struct builder {
    md_st_maker *maker;
    md_st_frame frame;
    md_st_chain *chain;
    const md_fx_node *sum; /* the product's sum, as it stands in bodies; NULL: none met yet */
    const md_fx_node *x; /* what it becomes: REF(X), and the factors that have left it */
    const md_fx_node *score; /* the body of the maximum */
    const md_fx_node *maximum; /* the same where all guards hold */
    md_st_guards guards;
    bool has_failed;
} builder;

static const md_fx_node *fail(builder *b, const md_fx_node *node)
{
    b->has_failed = true;
    return node;
}

/* ---- indices ---- */

static int32_t dim_of(const builder *b, int32_t index)
{
    return b->maker->formula->index[index].dim;
}

static bool is_among(int32_t n, const int32_t *list, int32_t id)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == id)
            return true;
    return false;
}

/* The reductions of the value: those around others run over the axis. *inner: what the others depend on. */
static bool find_axis(builder *b, md_st_set *inner, const md_st_item *item)
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
            md_st_set used = md_st_indices(reduce[k]);
            for (int32_t w = 0; w < MD_COUNT(used.word) && md_st_contains(reduce[i]->arg[0], reduce[k]); w++)
                inner->word[w] |= used.word[w];
        }
    }
    return b->frame.axis_dim >= 0;
}

static bool find_frame(builder *b, const md_st_item *item)
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
static bool place(builder *b, const md_st_item *first, md_st_item *item)
{
    const int32_t *all = item->n_free == b->frame.n_rows ? b->frame.rows : first->free;
    int32_t n = 0, from[MD_MAX_RANK * 2], to[MD_MAX_RANK * 2];
    if (all == first->free && item->n_free != first->n_free)
        return false;
    for (int32_t i = 0; i < item->n_free && n == i; i++) {
        from[i] = item->free[i];
        for (int32_t k = 0; k < item->n_free && n == i; k++)
            if (!is_among(n, to, all[k]) && dim_of(b, from[i]) == dim_of(b, all[k]))
                to[n++] = all[k];
    }
    return n == item->n_free && md_st_rename(b->maker, item, n, from, to);
}

/* ---- the product ---- */

static bool is_plain_load(const md_fx_node *node)
{
    return md_st_are_plain(node->n_args, node->arg);
}

static const md_fx_node *load_of(const md_fx_node *node)
{
    if (node->kind == MD_FX_CAST && node->to == MD_F32)
        node = node->arg[0];
    return node->kind == MD_FX_LOAD ? node : NULL;
}

static bool is_even(const builder *b, const md_fx_node *load, int32_t n, const int32_t *index)
{
    int64_t coef[MD_MAX_RANK];
    for (int32_t i = 0; i < n; i++)
        if (!md_st_step(coef, b->maker->program, load->id, load->arg, index[i]))
            return false;
    return true;
}

static bool is_linear(const builder *b, md_st_side side, const md_fx_node *load)
{
    const md_st_chain *c = b->chain;
    const md_st_frame *f = &b->frame;
    if (side == MD_ST_Q)
        return is_even(b, load, f->n_rows, f->rows) && is_even(b, load, c->n_depth, c->depth);
    return is_even(b, load, 1, &f->axis) &&
           (side == MD_ST_K ? is_even(b, load, c->n_depth, c->depth) : is_even(b, load, f->n_columns, f->columns));
}

static void set_side(builder *b, md_st_side side, const md_fx_node *value)
{
    md_st_operand *o = &b->chain->side[side];
    *o = (md_st_operand){.value = value, .load = load_of(value)};
    o->is_plain = o->load != NULL && is_plain_load(o->load);
    o->is_linear = o->load != NULL && is_linear(b, side, o->load);
}

/* Deals the factors of sum[depth](Q * K): those of the axis are K's; those without depth leave the sum. */
static bool deal(builder *b, md_st_factors *left, const md_fx_node *sum)
{
    md_arena *a = b->maker->arena;
    md_st_factors f;
    const md_fx_node *side[2] = {NULL, NULL};
    md_st_factors_of(&f, sum->arg[0]);
    *left = (md_st_factors){.type = f.type, .is_negative = f.is_negative};
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f.n; i++) {
            bool is_inside = md_fx_uses_any_index(f.factor[i].node, sum->n_bound, sum->bound);
            if (f.factor[i].is_divisor != (pass == 1))
                continue;
            if (!is_inside)
                left->factor[left->n++] = f.factor[i];
            int k = md_fx_uses_index(f.factor[i].node, b->frame.axis);
            if (is_inside)
                side[k] = md_st_times(a, side[k], &f.factor[i], f.type);
        }
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < sum->n_bound; i++)
            if (side[k] == NULL || !md_fx_uses_index(side[k], sum->bound[i]))
                return false;
    b->chain->side[MD_ST_Q].value = side[0];
    b->chain->side[MD_ST_K].value = side[1];
    return true;
}

/* True if an expression depends on nothing but rows, the axis and these indices. */
static bool is_over(const builder *b, const md_fx_node *node, int32_t n, const int32_t *index)
{
    md_st_set used = md_st_indices(node);
    for (int32_t id = 0; id < b->maker->program->n_indices; id++)
        if (md_st_set_has(&used, id) && id != b->frame.axis && !is_among(b->frame.n_rows, b->frame.rows, id) &&
            !is_among(n, index, id))
            return false;
    return true;
}

static bool set_product(builder *b, const md_fx_node *sum)
{
    md_st_factors left;
    md_arena *a = b->maker->arena;
    if (sum->op != MD_FX_R_SUM || sum->type != MD_F32 || sum->arg[0]->type != MD_F32 ||
        md_fx_has_kind(sum->arg[0], MD_FX_REF) || !is_over(b, sum->arg[0], sum->n_bound, sum->bound) ||
        !deal(b, &left, sum))
        return false;
    b->sum = sum;
    b->chain->n_depth = sum->n_bound;
    for (int32_t i = 0; i < sum->n_bound; i++)
        b->chain->depth[i] = sum->bound[i];
    b->x = md_fx_ref(a, MD_ST_REF_X, MD_F32);
    for (int32_t i = 0; i < left.n; i++)
        b->x = md_st_times(a, b->x, &left.factor[i], left.type);
    if (left.is_negative && b->x != NULL)
        b->x = md_fx_op1(a, MD_FX_NEG, b->x);
    return md_st_made(b->maker, b->x);
}

/* The sums over depth in a body over the axis are all the same one. */
static const md_fx_node *replace_sum(void *user, const md_fx_node *node)
{
    builder *b = user;
    if (node->kind != MD_FX_REDUCE || b->has_failed)
        return node;
    if (b->sum == NULL ? !set_product(b, node) : !md_fx_equal(b->maker->formula, b->sum, node))
        return fail(b, node);
    return b->x;
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
    const builder *b = user;
    return b->maximum != NULL && md_fx_equal(b->maker->formula, a, b->maximum) &&
           (b->chain->reference == NULL || md_fx_equal(b->maker->formula, b->chain->reference, reference));
}

/* Splits a body, in which the exponential then is REF(E). */
static bool split_body(builder *b, md_st_cascade *c, const md_fx_node *body)
{
    md_st_cascade_rules rules = {.axis = b->frame.axis, .user = b, .is_result = is_result, .is_shifted = is_shifted};
    return md_st_cascade_of(c, b->maker, body, &rules);
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
static const md_fx_node *over_e(builder *b, const md_st_cascade *c)
{
    md_arena *a = b->maker->arena;
    replacing r = {c->exponential, md_fx_ref(a, MD_ST_REF_E, MD_F32)};
    if (c->part == NULL || (c->exponential == NULL) != (b->maximum == NULL) || !md_st_made(b->maker, r.to))
        return NULL;
    const md_fx_node *part = md_fx_rewrite(a, c->part, replace, &r);
    if (!md_st_made(b->maker, part) || !md_fx_visit(part, is_not_x, NULL))
        return NULL;
    b->chain->reference = c->reference;
    return part;
}

/* Of no elements the sum is 0, whatever the factors are that have left it. */
static const md_fx_node *with_outer(builder *b, const md_fx_node *ref, const md_st_cascade *c)
{
    md_arena *a = b->maker->arena;
    const md_fx_node *result = ref;
    const int32_t dim = b->frame.axis_dim;
    for (int32_t i = 0; i < c->outer.n; i++)
        result = md_st_times(a, result, &c->outer.factor[i], c->outer.type);
    md_fx_node *size = md_fx_node_new(a, MD_FX_SIZE, MD_I64);
    if (c->outer.n == 0 || b->maker->formula->dim[dim].lo > 0 || size == NULL || result == NULL)
        return size == NULL ? NULL : result;
    size->id = dim;
    return md_fx_op3(a, MD_FX_WHERE, md_fx_op2(a, MD_FX_EQ, size, md_fx_integer(a, 0)),
                     md_fx_real(a, 0.0, result->type), result);
}

static const md_fx_node *maximum_of(builder *b, const md_fx_node *node, const md_fx_node *body)
{
    if (!md_fx_has_kind(body, MD_FX_REF) || md_fx_uses_any_index(body, b->frame.n_columns, b->frame.columns) ||
        (b->maximum != NULL && !md_fx_equal(b->maker->formula, b->maximum, body)))
        return fail(b, node);
    if (b->maximum == NULL) {
        b->score = body;
        (void)md_st_take_guards(b->maker, &b->guards, body);
        b->maximum = md_st_drop_guards(b->maker, &b->guards, body);
    }
    return md_fx_ref(b->maker->arena, MD_ST_REF_MAXIMUM, MD_F32);
}

static const md_fx_node *term_of(builder *b, const md_fx_node *node, const md_fx_node *body)
{
    md_st_cascade c;
    md_st_chain *chain = b->chain;
    const md_fx_node *term = split_body(b, &c, body) ? over_e(b, &c) : NULL;
    int32_t i = 0;
    if (term == NULL)
        return fail(b, node);
    while (i < chain->n_terms && !md_fx_equal(b->maker->formula, chain->term[i], term))
        i++;
    if (i == MD_ST_MAX_TERMS)
        return fail(b, node);
    chain->term[i] = term;
    chain->n_terms = MD_MAX(chain->n_terms, i + 1);
    return with_outer(b, md_fx_ref(b->maker->arena, MD_ST_REF_TERM + i, MD_F32), &c);
}

/* The weights times the values: factors with columns are the value. */
static const md_fx_node *value_of(builder *b, const md_fx_node *node, const md_fx_node *body)
{
    md_arena *a = b->maker->arena;
    md_st_factors f;
    md_st_cascade c;
    const md_fx_node *weight = NULL, *value = NULL;
    md_st_factors_of(&f, body);
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < f.n; i++) {
            bool is_value = md_fx_uses_any_index(f.factor[i].node, b->frame.n_columns, b->frame.columns);
            if (f.factor[i].is_divisor == (pass == 1))
                *(is_value ? &value : &weight) = md_st_times(a, is_value ? value : weight, &f.factor[i], f.type);
        }
    if (f.is_negative && weight != NULL)
        weight = md_fx_op1(a, MD_FX_NEG, weight);
    if (weight == NULL || value == NULL || md_fx_has_kind(value, MD_FX_REF) || !split_body(b, &c, weight))
        return fail(b, node);
    weight = over_e(b, &c);
    bool is_same =
        b->chain->weight == NULL || (weight != NULL && md_fx_equal(b->maker->formula, b->chain->weight, weight) &&
                                     md_fx_equal(b->maker->formula, b->chain->side[MD_ST_V].value, value));
    if (weight == NULL || !is_same)
        return fail(b, node);
    b->chain->weight = weight;
    b->chain->side[MD_ST_V].value = value;
    return with_outer(b, md_fx_ref(a, MD_ST_REF_VALUE, MD_F32), &c);
}

/* Bottom up: reductions over the axis inside a body are REFs already. */
static const md_fx_node *extract(void *user, const md_fx_node *node)
{
    builder *b = user;
    md_arena *a = b->maker->arena;
    if (node->kind != MD_FX_REDUCE || b->has_failed || node->n_bound != 1 ||
        dim_of(b, node->bound[0]) != b->frame.axis_dim)
        return node;
    const md_fx_node *axis = md_fx_index_node(a, b->frame.axis);
    const md_fx_node *body = axis != NULL ? md_fx_substitute(a, node->arg[0], 1, node->bound, &axis) : NULL;
    body = body != NULL ? md_fx_rewrite(a, body, replace_sum, b) : NULL;
    if (body == NULL || b->has_failed)
        return body == NULL ? NULL : node;
    body = md_st_drop_guards(b->maker, &b->guards, body);
    if (body == NULL || !is_over(b, body, b->frame.n_columns, b->frame.columns) || body->type != MD_F32)
        return body == NULL ? NULL : fail(b, node);
    if (node->op == MD_FX_R_MAX)
        return maximum_of(b, node, body);
    if (node->op != MD_FX_R_SUM)
        return fail(b, node);
    return md_fx_uses_any_index(body, b->frame.n_columns, b->frame.columns) ? value_of(b, node, body)
                                                                            : term_of(b, node, body);
}

static bool extract_all(builder *b, int32_t n, md_st_item *item)
{
    for (int32_t i = 0; i < n; i++) {
        item[i].value = md_fx_rewrite(b->maker->arena, item[i].value, extract, b);
        if (!md_st_made(b->maker, item[i].value) || b->has_failed || md_st_item_has(&item[i], MD_FX_REDUCE) ||
            md_fx_uses_index(item[i].value, b->frame.axis))
            return false;
    }
    return b->sum != NULL && b->chain->weight != NULL;
}

/* ---- groups ---- */

/* Rows that K and V share are rows; what tells K or V apart is the batch. */
static void group(builder *b)
{
    md_st_frame *f = &b->frame;
    int32_t n = f->n_rows;
    f->n_rows = 0;
    f->share = 1;
    f->share_index = -1;
    for (int32_t i = 0; i < n; i++) {
        const int64_t share = md_st_share_of(b->chain, f->rows[i]);
        if (share == 0) {
            f->rows[f->n_rows++] = f->rows[i];
            continue;
        }
        f->batch[f->n_batch++] = f->rows[i];
        if (share > 1 && f->share == 1) {
            f->share = share;
            f->share_index = f->rows[i];
        }
    }
}

static void set_indices(builder *b)
{
    const md_st_frame *f = &b->frame;
    md_st_chain *c = b->chain;
    c->n_batch = f->n_batch;
    c->n_rows = f->n_rows;
    c->n_columns = f->n_columns;
    c->share = f->share;
    c->share_index = f->share_index;
    for (int32_t i = 0; i < f->n_batch; i++)
        c->batch[i] = f->batch[i];
    for (int32_t i = 0; i < f->n_rows; i++)
        c->rows[i] = f->rows[i];
    for (int32_t i = 0; i < f->n_columns; i++)
        c->columns[i] = f->columns[i];
}

static void set_score(builder *b)
{
    md_st_chain *c = b->chain;
    c->has_maximum = b->maximum != NULL;
    c->score = c->has_maximum ? b->score : md_fx_ref(b->maker->arena, MD_ST_REF_X, MD_F32);
    c->open = c->has_maximum ? b->maximum : c->score;
    c->n_guards = b->guards.n;
    c->is_bounded = true;
    for (int32_t i = 0; i < b->guards.n; i++) {
        c->guard[i] = b->guards.guard[i];
        if (md_st_bound_of(&c->bound[c->n_bounds], &b->frame, c->guard[i]))
            c->n_bounds++;
        else
            c->is_bounded = false;
    }
}

/* What lies outside its tensor where a guard does not hold is read only for keys between bounds, so guards must all be
 * bounds; and no arm of a where may keep the product from being made. */
static bool is_readable(const builder *b)
{
    const md_st_chain *c = b->chain;
    const md_fx_node *ref = NULL;
    md_st_item item = {.value = c->open};
    (void)md_st_collect(&ref, 1, MD_FX_REF, &item);
    for (int32_t side = 0; side < MD_ST_SIDES; side++) {
        if (c->side[side].is_plain)
            continue;
        if (!c->is_bounded || (side != MD_ST_V && ref != NULL && md_st_is_conditional(c->open, ref)))
            return false;
    }
    return true;
}

/* Two products with nothing but factors between them are better off one after the other. */
static bool is_worth_it(const md_st_chain *c)
{
    return c->has_maximum || c->n_terms > 0 || md_st_is_heavy(c->weight);
}

static bool make(builder *b, md_st_stage *out, int32_t n, md_st_item *item)
{
    if (!find_frame(b, &item[0]))
        return false;
    for (int32_t i = 1; i < n; i++)
        if (!place(b, &item[0], &item[i]))
            return false;
    out->n_outer = item[0].n_free;
    for (int32_t i = 0; i < item[0].n_free; i++)
        out->outer[i] = item[0].free[i];
    if (!extract_all(b, n, item))
        return false;
    group(b);
    set_indices(b);
    set_score(b);
    for (int32_t side = 0; side < MD_ST_SIDES; side++)
        set_side(b, (md_st_side)side, b->chain->side[side].value);
    return !b->maker->no_memory && b->chain->score != NULL && is_worth_it(b->chain) && is_readable(b);
}

bool md_st_form_chain(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item)
{
    md_st_chain *chain = md_arena_alloc(m->arena, sizeof(*chain));
    *out = (md_st_stage){.axis = -1};
    if (chain == NULL) {
        m->no_memory = true;
        return false;
    }
    *chain = (md_st_chain){.share_index = -1};
    builder b = {.maker = m, .chain = chain};
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
