/* Ranges of integer expressions: linear forms over atoms, tightened by guards. */
#include "expr/range/range.h"

enum { MAX_STEPS = 2048 };

bool md_range_add(md_range_linear *sum, const md_range_linear *term, int64_t factor)
{
    int64_t c;
    if (__builtin_mul_overflow(term->constant, factor, &c) || __builtin_add_overflow(sum->constant, c, &sum->constant))
        return false;
    for (int i = 0; i < MD_RANGE_ATOMS; i++)
        if (__builtin_mul_overflow(term->coef[i], factor, &c) || __builtin_add_overflow(sum->coef[i], c, &sum->coef[i]))
            return false;
    return true;
}

/* The highest (or lowest) value, every atom taken by itself. */
static bool extreme(const md_range *r, int64_t *out, const md_range_linear *e, bool highest)
{
    int64_t sum = e->constant, c;
    for (int32_t i = 0; i < r->n_atoms; i++) {
        if (e->coef[i] == 0)
            continue;
        int64_t at = (e->coef[i] > 0) == highest ? r->atom[i].range.hi : r->atom[i].range.lo;
        if (__builtin_mul_overflow(e->coef[i], at, &c) || __builtin_add_overflow(sum, c, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* Tries e + m*g as a better upper bound of e; keeps the form that gave it. */
static bool try_multiplier(const md_range *r, md_range_linear *e, int64_t *best, const md_range_linear *g, int64_t m)
{
    md_range_linear sum = *e;
    int64_t value;
    if (!md_range_add(&sum, g, m) || !extreme(r, &value, &sum, true) || value >= *best)
        return false;
    *best = value;
    *e = sum;
    return true;
}

static bool tighten_once(const md_range *r, md_range_linear *e, int64_t *best)
{
    bool better = false;
    for (int32_t k = 0; k < r->n_guards; k++) {
        const md_range_linear *g = &r->guard[k];
        better |= try_multiplier(r, e, best, g, 1);
        for (int32_t i = 0; i < r->n_atoms; i++) {
            int64_t a = e->coef[i], b = g->coef[i];
            if (b == 0 || a == 0 || (a > 0) == (b > 0) || a == INT64_MIN || b == -1 || a % b != 0)
                continue;
            better |= try_multiplier(r, e, best, g, -(a / b));
        }
    }
    return better;
}

bool md_range_upper(const md_range *r, int64_t *out, const md_range_linear *form)
{
    md_range_linear e = *form;
    int64_t best;
    if (!extreme(r, &best, &e, true))
        return false;
    for (int round = 0; round < 4 && tighten_once(r, &e, &best); round++)
        ;
    *out = best;
    return true;
}

static bool bounds_of(const md_range *r, md_range_interval *out, const md_range_linear *e)
{
    md_range_linear negated = {0};
    int64_t below;
    if (!md_range_upper(r, &out->hi, e) || !md_range_add(&negated, e, -1) || !md_range_upper(r, &below, &negated) ||
        below == INT64_MIN)
        return false;
    out->lo = -below;
    return true;
}

/* ---- linear forms ---- */

static bool new_atom(md_range *r, md_range_linear *out, md_range_atom a)
{
    if (r->n_atoms == MD_RANGE_ATOMS)
        return false;
    out->coef[r->n_atoms] = 1;
    r->atom[r->n_atoms++] = a;
    return true;
}

static bool linear_index(md_range *r, md_range_linear *out, int32_t index)
{
    *out = (md_range_linear){0};
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (r->atom[i].node == NULL && r->atom[i].index == index) {
            out->coef[i] = 1;
            return true;
        }
    int64_t size = r->size[r->formula->index[index].dim];
    r->is_empty |= size <= 0;
    return new_atom(r, out, (md_range_atom){.index = index, .range = {0, size - 1}});
}

static bool linear_atom(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    *out = (md_range_linear){0};
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (r->atom[i].node != NULL && md_fx_equal(r->formula, r->atom[i].node, node)) {
            out->coef[i] = 1;
            return true;
        }
    md_range_interval range;
    return md_range_of_atom(r, &range, node) && new_atom(r, out, (md_range_atom){.node = node, .range = range});
}

static bool linear_is_constant(const md_range_linear *e)
{
    for (int i = 0; i < MD_RANGE_ATOMS; i++)
        if (e->coef[i] != 0)
            return false;
    return true;
}

static bool linear_op(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    md_range_linear a, b = {0};
    if (node->op != MD_FX_NEG && node->op != MD_FX_ADD && node->op != MD_FX_SUB && node->op != MD_FX_MUL)
        return linear_atom(r, out, node);
    if (!md_range_linear_of(r, &a, node->arg[0]) || (node->n_args > 1 && !md_range_linear_of(r, &b, node->arg[1])))
        return false;
    *out = (md_range_linear){0};
    if (node->op != MD_FX_MUL)
        return md_range_add(out, &a, node->op == MD_FX_NEG ? -1 : 1) &&
               md_range_add(out, &b, node->op == MD_FX_SUB ? -1 : 1);
    if (linear_is_constant(&b))
        return md_range_add(out, &a, b.constant);
    return linear_is_constant(&a) ? md_range_add(out, &b, a.constant) : linear_atom(r, out, node);
}

static bool linear_affine(md_range *r, md_range_linear *out, const md_fx_affine *a)
{
    *out = (md_range_linear){.constant = a->constant};
    for (int32_t i = 0; i < a->n_sizes; i++) {
        md_range_linear size = {.constant = r->size[a->dim[i]]};
        if (!md_range_add(out, &size, a->size_coef[i]))
            return false;
    }
    for (int32_t i = 0; i < a->n; i++) {
        md_range_linear index;
        if (!linear_index(r, &index, a->index[i]) || !md_range_add(out, &index, a->coef[i]))
            return false;
    }
    return true;
}

bool md_range_linear_of(md_range *r, md_range_linear *out, const md_fx_node *node)
{
    md_fx_affine a;
    if (--r->steps < 0 || (node->type != MD_I64 && node->type != MD_BOOL))
        return false;
    if (md_fx_affine_of(&a, r->formula, node))
        return linear_affine(r, out, &a);
    if (node->kind == MD_FX_CAST && node->to == MD_I64)
        return md_range_linear_of(r, out, node->arg[0]);
    return node->kind == MD_FX_OP ? linear_op(r, out, node) : linear_atom(r, out, node);
}

static bool is_division(const md_range_atom *a, md_fx_op op)
{
    return a->node != NULL && a->node->kind == MD_FX_OP && a->node->op == op && a->node->arg[1]->kind == MD_FX_CONST;
}

/* c*d * (x // d) + c * (x % d) is c*x. */
static bool fold_division(md_range *r, md_range_linear *e)
{
    for (int32_t i = 0; i < r->n_atoms; i++)
        for (int32_t k = 0; k < r->n_atoms; k++) {
            const md_range_atom *q = &r->atom[i], *m = &r->atom[k];
            int64_t cd;
            md_range_linear x;
            if (e->coef[k] == 0 || !is_division(q, MD_FX_FLOORDIV) || !is_division(m, MD_FX_MOD) ||
                __builtin_mul_overflow(e->coef[k], q->node->arg[1]->integer, &cd) || e->coef[i] != cd ||
                !md_fx_equal(r->formula, q->node->arg[1], m->node->arg[1]) ||
                !md_fx_equal(r->formula, q->node->arg[0], m->node->arg[0]))
                continue;
            int64_t c = e->coef[k];
            if (!md_range_linear_of(r, &x, q->node->arg[0]))
                return false;
            e->coef[i] = e->coef[k] = 0;
            if (!md_range_add(e, &x, c))
                return false;
        }
    return true;
}

bool md_range_of(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    md_range_linear e;
    if (!md_range_linear_of(r, &e, node) || !fold_division(r, &e) || !bounds_of(r, out, &e))
        return false;
    if (out->lo > out->hi) { /* the guards contradict each other */
        r->is_empty = true;
        out->hi = out->lo;
    }
    return true;
}

bool md_fx_range(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const md_fx_node *node, const int64_t *size,
                 int32_t n_guards, const md_fx_node *const *guard)
{
    md_range r = {.formula = formula, .size = size, .steps = MAX_STEPS};
    md_range_interval range;
    for (int32_t i = 0; i < n_guards; i++)
        md_range_hold(&r, guard[i], true);
    if (!md_range_of(&r, &range, node) && !r.is_empty)
        return false;
    if (r.is_empty)
        range = (md_range_interval){0, -1};
    *lo = range.lo;
    *hi = range.hi;
    return true;
}
