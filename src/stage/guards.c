/* Guards of a chain's score, and those of them that are limits of the keys. */
#include "stage/chains.h"

#include "base/dtype.h"

#include <math.h>

/* ---- where(guard, s, -inf) ---- */

static bool is_minus_infinity(const md_fx_node *node)
{
    return node->kind == MD_FX_CONST && md_dtype_is_real(node->type) && node->num == -INFINITY;
}

static bool add_guard(md_st_guards *g, const md_fx_node *guard)
{
    if (g->n == MD_ST_MAX_GUARDS)
        return false;
    g->guard[g->n++] = guard;
    return true;
}

static bool is_op(const md_fx_node *node, md_fx_op op)
{
    return node->kind == MD_FX_OP && node->op == op;
}

/* The comparison that holds where this one does not; NO_OP: there is none. NaN makes both false. */
static md_fx_op opposite_of(const md_fx_node *node)
{
    static const struct {
        md_fx_op op, opposite;
    } pair[] = {{MD_FX_LT, MD_FX_GE}, {MD_FX_GE, MD_FX_LT}, {MD_FX_LE, MD_FX_GT},
                {MD_FX_GT, MD_FX_LE}, {MD_FX_EQ, MD_FX_NE}, {MD_FX_NE, MD_FX_EQ}};
    for (int32_t i = 0; i < MD_COUNT(pair) && node->kind == MD_FX_OP; i++)
        if (node->op == pair[i].op && !md_dtype_is_real(node->arg[0]->type) && !md_dtype_is_real(node->arg[1]->type))
            return pair[i].opposite;
    return MD_FX_NO_OP;
}

/* Adds the conditions that hold together where `node` does, or does not. */
static bool add_condition(md_st_maker *m, md_st_guards *g, const md_fx_node *node, bool holds)
{
    if (is_op(node, MD_FX_NOT))
        return add_condition(m, g, node->arg[0], !holds);
    if (is_op(node, holds ? MD_FX_AND : MD_FX_OR))
        return add_condition(m, g, node->arg[0], holds) && add_condition(m, g, node->arg[1], holds);
    if (holds)
        return add_guard(g, node);
    md_fx_op opposite = opposite_of(node);
    const md_fx_node *negated = opposite != MD_FX_NO_OP ? md_fx_op2(m->arena, opposite, node->arg[0], node->arg[1])
                                                        : md_fx_op1(m->arena, MD_FX_NOT, node);
    return md_st_made(m, negated) && add_guard(g, negated);
}

const md_fx_node *md_st_take_guards(md_st_maker *m, md_st_guards *g, const md_fx_node *score)
{
    if (score->kind == MD_FX_CAST && md_dtype_is_real(score->to)) {
        const md_fx_node *inside = md_st_take_guards(m, g, score->arg[0]);
        if (inside == score->arg[0])
            return score;
        inside = md_fx_cast(m->arena, inside, score->to);
        return md_st_made(m, inside) ? inside : score;
    }
    if (!is_op(score, MD_FX_WHERE))
        return score;
    const md_st_guards before = *g;
    for (int32_t arm = 1; arm < 3; arm++)
        if (is_minus_infinity(score->arg[3 - arm])) {
            if (add_condition(m, g, score->arg[0], arm == 1))
                return md_st_take_guards(m, g, score->arg[arm]);
            *g = before;
        }
    return score;
}

static bool is_guard(const md_st_maker *m, const md_st_guards *g, const md_fx_node *node)
{
    for (int32_t i = 0; i < g->n; i++)
        if (md_fx_equal(m->formula, g->guard[i], node))
            return true;
    return false;
}

typedef struct dropping {
    md_st_maker *maker;
    const md_st_guards *guards;
} dropping;

static const md_fx_node *drop_guard(void *user, const md_fx_node *node)
{
    const dropping *d = user;
    for (int32_t arm = 1; arm < 3 && is_op(node, MD_FX_WHERE); arm++) {
        md_st_guards here = {.n = 0};
        bool is_known = add_condition(d->maker, &here, node->arg[0], arm == 1);
        for (int32_t i = 0; i < here.n; i++)
            is_known &= is_guard(d->maker, d->guards, here.guard[i]);
        if (is_known)
            return node->arg[arm];
    }
    return node;
}

const md_fx_node *md_st_drop_guards(md_st_maker *m, const md_st_guards *g, const md_fx_node *node)
{
    dropping d = {m, g};
    const md_fx_node *result = g->n > 0 ? md_fx_rewrite(m->arena, node, drop_guard, &d) : node;
    (void)md_st_made(m, result);
    return result;
}

/* ---- weights of 0 ---- */

static bool is_zero(const md_fx_node *node)
{
    return node->kind == MD_FX_CONST && md_dtype_is_real(node->type) && node->num == 0.0;
}

/* exp(where(guard, s, -inf) - m) is 0 where the guard does not hold, but for an m of -inf: then it is NaN. */
static void take_exponential(md_st_maker *m, md_st_guards *g, const md_fx_node *node, const md_fx_node *finite)
{
    if (!is_op(node, MD_FX_EXP) || !is_op(node->arg[0], MD_FX_SUB))
        return;
    const md_fx_node *const *arg = node->arg[0]->arg;
    if (md_fx_equal(m->formula, arg[1], finite))
        (void)md_st_take_guards(m, g, arg[0]);
}

static void take_where(md_st_maker *m, md_st_guards *g, const md_fx_node *node)
{
    for (int32_t arm = 1; arm < 3; arm++) {
        const md_fx_node *condition = node->arg[0];
        if (!is_zero(node->arg[3 - arm]))
            continue;
        const bool tests = arm == 2 && is_op(condition, MD_FX_EQ);
        for (int32_t i = 0; i < 2 && tests; i++)
            if (is_minus_infinity(condition->arg[i]))
                take_exponential(m, g, node->arg[2], condition->arg[1 - i]);
        const int32_t before = g->n;
        if (!tests && !add_condition(m, g, condition, arm == 1))
            g->n = before;
        md_st_take_zero_guards(m, g, node->arg[arm]);
    }
}

void md_st_take_zero_guards(md_st_maker *m, md_st_guards *g, const md_fx_node *weight)
{
    md_st_factors f;
    md_st_factors_of(&f, weight);
    for (int32_t i = 0; i < f.n; i++) {
        const md_fx_node *node = f.factor[i].node;
        if (f.factor[i].is_divisor)
            continue;
        if (node->kind == MD_FX_CAST && md_dtype_is_real(node->to))
            md_st_take_zero_guards(m, g, node->arg[0]);
        else if (is_op(node, MD_FX_WHERE))
            take_where(m, g, node);
    }
}

/* ---- limits ---- */

typedef struct linear {
    int32_t index; /* the axis */
    int64_t axis; /* its coefficient */
    md_st_bound sum; /* the sum of all else */
} linear;

static bool add_term(linear *l, const md_fx_node *term, int64_t coef)
{
    md_st_bound *b = &l->sum;
    for (int32_t i = 0; i < b->n; i++)
        if (b->term[i].term == term ||
            (term && b->term[i].term && term->kind == MD_FX_INDEX && md_fx_is_index(b->term[i].term, term->id)))
            return !__builtin_add_overflow(b->term[i].coef, coef, &b->term[i].coef);
    if (b->n == MD_ST_MAX_BOUND_TERMS)
        return false;
    b->term[b->n++] = (md_st_bound_term){coef, term};
    return true;
}

/* True if the value is the same for all keys of a row. */
static bool is_of_row(int32_t axis, const md_fx_node *node)
{
    return !md_fx_uses_index(node, axis) && !md_fx_has_kind(node, MD_FX_REF);
}

static bool add_linear(linear *l, const md_fx_node *node, int64_t coef)
{
    int64_t product;
    if (md_fx_is_index(node, l->index))
        return !__builtin_add_overflow(l->axis, coef, &l->axis);
    if (node->kind == MD_FX_CONST && node->type == MD_I64)
        return !__builtin_mul_overflow(node->integer, coef, &product) && add_term(l, NULL, product);
    if (node->kind == MD_FX_INDEX)
        return add_term(l, node, coef);
    if (is_op(node, MD_FX_NEG))
        return coef != INT64_MIN && add_linear(l, node->arg[0], -coef);
    if (is_op(node, MD_FX_ADD) || is_op(node, MD_FX_SUB))
        return coef != INT64_MIN && add_linear(l, node->arg[0], coef) &&
               add_linear(l, node->arg[1], node->op == MD_FX_ADD ? coef : -coef);
    for (int32_t i = 0; i < 2 && is_op(node, MD_FX_MUL); i++)
        if (node->arg[i]->kind == MD_FX_CONST && node->arg[i]->type == MD_I64)
            return !__builtin_mul_overflow(node->arg[i]->integer, coef, &product) &&
                   add_linear(l, node->arg[1 - i], product);
    return is_of_row(l->index, node) && add_term(l, node, coef);
}

/* True if rows differ in the sum by their indices alone, so that nothing is looked up for each of them. */
static bool is_affine_in_rows(const md_st_chain *c, const md_st_bound *b)
{
    bool r = true;
    for (int32_t i = 0; i < b->n; i++) {
        const md_fx_node *term = b->term[i].term;
        r &= !term || term->kind == MD_FX_INDEX ||
             (!md_fx_uses_any_index(term, c->n_rows, c->rows) &&
              (c->share <= 1 || !md_fx_uses_index(term, c->share_index)));
    }
    return r;
}

bool md_st_bound_of(md_st_bound *out, const md_st_chain *c, int32_t axis, const md_fx_node *guard)
{
    static const md_fx_op ops[] = {MD_FX_LT, MD_FX_LE, MD_FX_GT, MD_FX_GE};
    int32_t which = 0;
    while (which < MD_COUNT(ops) && !is_op(guard, ops[which]))
        which++;
    if (which == MD_COUNT(ops) || guard->arg[0]->type != MD_I64 || guard->arg[1]->type != MD_I64)
        return false;
    /* rest + axis < 0, or <= 0 */
    int64_t sign = which < 2 ? 1 : -1;
    bool is_strict = which % 2 == 0;
    linear l = {.index = axis};
    if (!add_linear(&l, guard->arg[0], sign) || !add_linear(&l, guard->arg[1], -sign) || l.axis < -1 || l.axis > 1 ||
        (l.axis == 0 && !is_affine_in_rows(c, &l.sum)))
        return false;
    /* axis < -rest + (strict ? 0 : 1), or axis >= rest + (strict ? 1 : 0) */
    l.sum.is_whole = l.axis == 0;
    l.sum.is_end = l.axis >= 0;
    for (int32_t i = 0; i < l.sum.n && l.sum.is_end; i++)
        if (__builtin_sub_overflow(0, l.sum.term[i].coef, &l.sum.term[i].coef))
            return false;
    if (is_strict != l.sum.is_end && !add_term(&l, NULL, 1))
        return false;
    *out = l.sum;
    return true;
}
