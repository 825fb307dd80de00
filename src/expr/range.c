/* Ranges of integer expressions: linear forms over atoms, with guards that are known to hold.
 *
 * An atom is an index, or a subexpression that is not linear (h // 4, y % 2, max(i, 0)) and has a range of its own. The range of
 * a linear form follows term by term: exact for distinct indices, too wide at most where atoms depend on each other. A guard
 * g >= 0 gives e <= e + m*g and e >= e - m*g for every m >= 0 (Farkas); the multipliers that cancel an atom are tried. */
#include "base/status.h"
#include "expr/node.h"

enum { MAX_ATOMS = 24, MAX_GUARDS = 16, MAX_STEPS = 2048 };

typedef struct interval {
    int64_t lo, hi;
} interval;

typedef struct atom {
    const md_fx_node *node; /* NULL: an index */
    int32_t index;
    interval range;
} atom;

typedef struct linear {
    int64_t constant;
    int64_t coef[MAX_ATOMS]; /* of the ranger's atoms; those added later count as 0 */
} linear;

typedef struct ranger {
    const md_fx_formula *formula;
    const int64_t *size;
    int32_t n_atoms, n_guards;
    atom atom[MAX_ATOMS];
    linear guard[MAX_GUARDS]; /* each >= 0 */
    int steps; /* left; against expressions that share operands */
    bool is_empty; /* some index runs over nothing, or the guards contradict each other */
} ranger;

static bool range_of(ranger *r, interval *out, const md_fx_node *node);
static bool linear_of(ranger *r, linear *out, const md_fx_node *node);

static int64_t floor_div(int64_t a, int64_t d)
{
    return a / d - (a % d != 0 && (a < 0) != (d < 0));
}

static bool add_scaled(linear *sum, const linear *term, int64_t factor)
{
    int64_t c;
    if (__builtin_mul_overflow(term->constant, factor, &c) || __builtin_add_overflow(sum->constant, c, &sum->constant))
        return false;
    for (int i = 0; i < MAX_ATOMS; i++)
        if (__builtin_mul_overflow(term->coef[i], factor, &c) || __builtin_add_overflow(sum->coef[i], c, &sum->coef[i]))
            return false;
    return true;
}

/* The highest (or lowest) value, every atom taken by itself. */
static bool extreme(const ranger *r, int64_t *out, const linear *e, bool highest)
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
static bool try_multiplier(const ranger *r, linear *e, int64_t *best, const linear *g, int64_t m)
{
    linear sum = *e;
    int64_t value;
    if (!add_scaled(&sum, g, m) || !extreme(r, &value, &sum, true) || value >= *best)
        return false;
    *best = value;
    *e = sum;
    return true;
}

static bool tighten_once(const ranger *r, linear *e, int64_t *best)
{
    bool better = false;
    for (int32_t k = 0; k < r->n_guards; k++) {
        const linear *g = &r->guard[k];
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

static bool upper(const ranger *r, int64_t *out, const linear *form)
{
    linear e = *form;
    int64_t best;
    if (!extreme(r, &best, &e, true))
        return false;
    for (int round = 0; round < 4 && tighten_once(r, &e, &best); round++)
        ;
    *out = best;
    return true;
}

static bool bounds_of(const ranger *r, interval *out, const linear *e)
{
    linear negated = {0};
    int64_t below;
    if (!upper(r, &out->hi, e) || !add_scaled(&negated, e, -1) || !upper(r, &below, &negated) || below == INT64_MIN)
        return false;
    out->lo = -below;
    return true;
}

/* ---- atoms that are not linear ---- */

static interval hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (interval){MD_MIN(MD_MIN(a, b), MD_MIN(c, d)), MD_MAX(MD_MAX(a, b), MD_MAX(c, d))};
}

static bool range_mul(interval *out, interval a, interval b)
{
    int64_t p[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
        return false;
    *out = hull4(p[0], p[1], p[2], p[3]);
    return true;
}

static bool range_floordiv(interval *out, interval a, interval b)
{
    if ((b.lo <= 0 && b.hi >= 0) || (a.lo == INT64_MIN && b.hi < 0))
        return false; /* by zero, or the quotient that overflows */
    *out = hull4(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi), floor_div(a.hi, b.lo), floor_div(a.hi, b.hi));
    return true;
}

static bool range_mod(interval *out, interval a, interval b)
{
    if (b.lo <= 0)
        return false;
    if (b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {
        int64_t base = floor_div(a.lo, b.lo) * b.lo;
        *out = (interval){a.lo - base, a.hi - base};
    } else if (a.lo >= 0 && a.hi < b.lo) {
        *out = a;
    } else {
        *out = (interval){0, a.lo >= 0 ? MD_MIN(a.hi, b.hi - 1) : b.hi - 1};
    }
    return true;
}

static void add_guard(ranger *r, const md_fx_node *condition, bool holds);

/* The arms of a where, each under its condition, in a copy: atoms made there may be narrow because of the condition. */
static bool range_where(ranger *r, interval *out, const md_fx_node *node)
{
    interval arm[2] = {{0, -1}, {0, -1}};
    bool is_dead[2];
    for (int i = 0; i < 2; i++) {
        ranger inner = *r;
        add_guard(&inner, node->arg[0], i == 0);
        if (!range_of(&inner, &arm[i], node->arg[i + 1]) && !inner.is_empty)
            return false;
        is_dead[i] = inner.is_empty;
        r->steps = inner.steps;
    }
    if (is_dead[0] || is_dead[1]) {
        *out = is_dead[0] ? arm[1] : arm[0];
        return true;
    }
    *out = (interval){MD_MIN(arm[0].lo, arm[1].lo), MD_MAX(arm[0].hi, arm[1].hi)};
    return true;
}

static interval range_abs(interval a)
{
    return (interval){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, MD_MAX(a.hi, -a.lo)};
}

static bool range_op(ranger *r, interval *out, const md_fx_node *node)
{
    if (node->type == MD_BOOL && node->op != MD_FX_WHERE && node->op != MD_FX_MIN && node->op != MD_FX_MAX) {
        *out = (interval){0, 1};
        return true;
    }
    if (node->op == MD_FX_WHERE)
        return range_where(r, out, node);
    interval a = {0, 0}, b = {0, 0}, c = {0, 0};
    if (!range_of(r, &a, node->arg[0]) || (node->n_args > 1 && !range_of(r, &b, node->arg[1])) ||
        (node->n_args > 2 && !range_of(r, &c, node->arg[2])))
        return false;
    switch ((int)node->op) {
    case MD_FX_MUL:
        return range_mul(out, a, b);
    case MD_FX_FLOORDIV:
        return range_floordiv(out, a, b);
    case MD_FX_MOD:
        return range_mod(out, a, b);
    case MD_FX_MIN:
        *out = (interval){MD_MIN(a.lo, b.lo), MD_MIN(a.hi, b.hi)};
        return true;
    case MD_FX_MAX:
        *out = (interval){MD_MAX(a.lo, b.lo), MD_MAX(a.hi, b.hi)};
        return true;
    case MD_FX_CLAMP: /* min(max(x, lo), hi) */
        *out = (interval){MD_MIN(MD_MAX(a.lo, b.lo), c.lo), MD_MIN(MD_MAX(a.hi, b.hi), c.hi)};
        return true;
    case MD_FX_ABS:
        if (a.lo == INT64_MIN)
            return false;
        *out = range_abs(a);
        return true;
    case MD_FX_RELU:
        *out = (interval){MD_MAX(a.lo, 0), MD_MAX(a.hi, 0)};
        return true;
    case MD_FX_SIGN:
        *out = (interval){a.lo > 0 ? 1 : a.lo < 0 ? -1 : 0, a.hi > 0 ? 1 : a.hi < 0 ? -1 : 0};
        return true;
    case MD_FX_FLOOR:
    case MD_FX_CEIL:
    case MD_FX_ROUND:
    case MD_FX_TRUNC:
        *out = a;
        return true;
    default:
        return false;
    }
}

static bool range_cast(ranger *r, interval *out, const md_fx_node *node)
{
    static const interval full[] = {
        [MD_I32] = {INT32_MIN, INT32_MAX}, [MD_I64] = {INT64_MIN, INT64_MAX}, [MD_U8] = {0, 255}, [MD_BOOL] = {0, 1}};
    interval a;
    if (node->to < MD_I32 || node->to > MD_BOOL)
        return false;
    interval whole = full[node->to];
    bool is_known = range_of(r, &a, node->arg[0]);
    *out = is_known && a.lo >= whole.lo && a.hi <= whole.hi ? a : whole;
    return is_known || node->to != MD_I64;
}

/* The position that argmax gives, counted over all its indices. */
static bool range_arg_reduction(ranger *r, interval *out, const md_fx_node *node)
{
    int64_t n = 1;
    for (int32_t i = 0; i < node->n_bound; i++)
        if (__builtin_mul_overflow(n, r->size[r->formula->index[node->bound[i]].dim], &n))
            return false;
    *out = (interval){0, n - 1};
    r->is_empty |= n <= 0;
    return true;
}

static bool range_atom(ranger *r, interval *out, const md_fx_node *node)
{
    switch (node->kind) {
    case MD_FX_OP:
        return range_op(r, out, node);
    case MD_FX_CAST:
        return range_cast(r, out, node);
    case MD_FX_REDUCE:
        if (node->op == MD_FX_R_ARGMAX || node->op == MD_FX_R_ARGMIN)
            return range_arg_reduction(r, out, node);
        return (node->op == MD_FX_R_MAX || node->op == MD_FX_R_MIN) && range_of(r, out, node->arg[0]);
    default:
        return false;
    }
}

/* ---- linear forms ---- */

static bool new_atom(ranger *r, linear *out, atom a)
{
    if (r->n_atoms == MAX_ATOMS)
        return false;
    out->coef[r->n_atoms] = 1;
    r->atom[r->n_atoms++] = a;
    return true;
}

static bool linear_index(ranger *r, linear *out, int32_t index)
{
    *out = (linear){0};
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (r->atom[i].node == NULL && r->atom[i].index == index) {
            out->coef[i] = 1;
            return true;
        }
    int64_t size = r->size[r->formula->index[index].dim];
    r->is_empty |= size <= 0;
    return new_atom(r, out, (atom){.index = index, .range = {0, size - 1}});
}

static bool linear_atom(ranger *r, linear *out, const md_fx_node *node)
{
    *out = (linear){0};
    for (int32_t i = 0; i < r->n_atoms; i++)
        if (r->atom[i].node != NULL && md_fx_equal(r->formula, r->atom[i].node, node)) {
            out->coef[i] = 1;
            return true;
        }
    interval range;
    return range_atom(r, &range, node) && new_atom(r, out, (atom){.node = node, .range = range});
}

static bool linear_is_constant(const linear *e)
{
    for (int i = 0; i < MAX_ATOMS; i++)
        if (e->coef[i] != 0)
            return false;
    return true;
}

static bool linear_op(ranger *r, linear *out, const md_fx_node *node)
{
    linear a, b = {0};
    if (node->op != MD_FX_NEG && node->op != MD_FX_ADD && node->op != MD_FX_SUB && node->op != MD_FX_MUL)
        return linear_atom(r, out, node);
    if (!linear_of(r, &a, node->arg[0]) || (node->n_args > 1 && !linear_of(r, &b, node->arg[1])))
        return false;
    *out = (linear){0};
    if (node->op != MD_FX_MUL)
        return add_scaled(out, &a, node->op == MD_FX_NEG ? -1 : 1) && add_scaled(out, &b, node->op == MD_FX_SUB ? -1 : 1);
    if (linear_is_constant(&b))
        return add_scaled(out, &a, b.constant);
    return linear_is_constant(&a) ? add_scaled(out, &b, a.constant) : linear_atom(r, out, node);
}

static bool linear_affine(ranger *r, linear *out, const md_fx_affine *a)
{
    *out = (linear){.constant = a->constant};
    for (int32_t i = 0; i < a->n_sizes; i++) {
        linear size = {.constant = r->size[a->dim[i]]};
        if (!add_scaled(out, &size, a->size_coef[i]))
            return false;
    }
    for (int32_t i = 0; i < a->n; i++) {
        linear index;
        if (!linear_index(r, &index, a->index[i]) || !add_scaled(out, &index, a->coef[i]))
            return false;
    }
    return true;
}

static bool linear_of(ranger *r, linear *out, const md_fx_node *node)
{
    md_fx_affine a;
    if (--r->steps < 0 || (node->type != MD_I64 && node->type != MD_BOOL))
        return false;
    if (md_fx_affine_of(&a, r->formula, node))
        return linear_affine(r, out, &a);
    if (node->kind == MD_FX_CAST && node->to == MD_I64)
        return linear_of(r, out, node->arg[0]);
    return node->kind == MD_FX_OP ? linear_op(r, out, node) : linear_atom(r, out, node);
}

static bool is_division(const atom *a, md_fx_op op)
{
    return a->node != NULL && a->node->kind == MD_FX_OP && a->node->op == op && a->node->arg[1]->kind == MD_FX_CONST;
}

/* c*d * (x // d) + c * (x % d) is c*x. */
static bool fold_division(ranger *r, linear *e)
{
    for (int32_t i = 0; i < r->n_atoms; i++)
        for (int32_t k = 0; k < r->n_atoms; k++) {
            const atom *q = &r->atom[i], *m = &r->atom[k];
            int64_t cd;
            linear x;
            if (e->coef[k] == 0 || !is_division(q, MD_FX_FLOORDIV) || !is_division(m, MD_FX_MOD) ||
                __builtin_mul_overflow(e->coef[k], q->node->arg[1]->integer, &cd) || e->coef[i] != cd ||
                !md_fx_equal(r->formula, q->node->arg[1], m->node->arg[1]) ||
                !md_fx_equal(r->formula, q->node->arg[0], m->node->arg[0]))
                continue;
            int64_t c = e->coef[k];
            if (!linear_of(r, &x, q->node->arg[0]))
                return false;
            e->coef[i] = e->coef[k] = 0;
            if (!add_scaled(e, &x, c))
                return false;
        }
    return true;
}

static bool range_of(ranger *r, interval *out, const md_fx_node *node)
{
    linear e;
    if (!linear_of(r, &e, node) || !fold_division(r, &e) || !bounds_of(r, out, &e))
        return false;
    if (out->lo > out->hi) { /* the guards contradict each other */
        r->is_empty = true;
        out->hi = out->lo;
    }
    return true;
}

/* ---- guards ---- */

static void add_form(ranger *r, const linear *g)
{
    int64_t highest;
    if (r->n_guards == MAX_GUARDS)
        return;
    if (upper(r, &highest, g) && highest < 0)
        r->is_empty = true;
    r->guard[r->n_guards++] = *g;
}

/* a - b - margin >= 0 */
static void add_difference(ranger *r, const linear *a, const linear *b, int64_t margin)
{
    linear g = {.constant = -margin};
    if (add_scaled(&g, a, 1) && add_scaled(&g, b, -1))
        add_form(r, &g);
}

static void add_comparison(ranger *r, md_fx_op op, const linear *a, const linear *b)
{
    switch ((int)op) {
    case MD_FX_LT:
        add_difference(r, b, a, 1);
        return;
    case MD_FX_LE:
        add_difference(r, b, a, 0);
        return;
    case MD_FX_GT:
        add_difference(r, a, b, 1);
        return;
    case MD_FX_GE:
        add_difference(r, a, b, 0);
        return;
    case MD_FX_EQ:
        add_difference(r, a, b, 0);
        add_difference(r, b, a, 0);
        return;
    default:
        return; /* != says nothing linear */
    }
}

/* Takes in that a condition holds, or that it does not. What cannot be used is left out: ranges only get wider. */
static void add_guard(ranger *r, const md_fx_node *condition, bool holds)
{
    static const md_fx_op negated[MD_FX_N_OPS] = {
        [MD_FX_LT] = MD_FX_GE, [MD_FX_LE] = MD_FX_GT, [MD_FX_GT] = MD_FX_LE,
        [MD_FX_GE] = MD_FX_LT, [MD_FX_EQ] = MD_FX_NE, [MD_FX_NE] = MD_FX_EQ,
    };
    if (condition->kind == MD_FX_CONST && condition->type == MD_BOOL)
        r->is_empty |= (condition->integer != 0) != holds;
    if (condition->kind != MD_FX_OP || --r->steps < 0)
        return;
    if (condition->op == MD_FX_NOT) {
        add_guard(r, condition->arg[0], !holds);
    } else if (condition->op == (holds ? MD_FX_AND : MD_FX_OR)) {
        add_guard(r, condition->arg[0], holds);
        add_guard(r, condition->arg[1], holds);
    } else if (negated[condition->op] != MD_FX_NO_OP) {
        ranger saved = *r; /* an atom that was made for a form not used after all is no harm, a half made one would be */
        linear a, b;
        if (linear_of(r, &a, condition->arg[0]) && linear_of(r, &b, condition->arg[1]))
            add_comparison(r, holds ? condition->op : negated[condition->op], &a, &b);
        else
            *r = saved;
    }
}

bool md_fx_range(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const md_fx_node *node, const int64_t *size,
                 int32_t n_guards, const md_fx_node *const *guard)
{
    ranger r = {.formula = formula, .size = size, .steps = MAX_STEPS};
    interval range;
    for (int32_t i = 0; i < n_guards; i++)
        add_guard(&r, guard[i], true);
    if (!range_of(&r, &range, node) && !r.is_empty)
        return false;
    if (r.is_empty)
        range = (interval){0, -1};
    *lo = range.lo;
    *hi = range.hi;
    return true;
}
