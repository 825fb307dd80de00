/* Ranges of what is not linear: // and % by anything positive, products, min, max, clamp, where, argmax. */
#include "expr/range/range.h"

static int64_t floor_div(int64_t a, int64_t d)
{
    return a / d - (a % d != 0 && (a < 0) != (d < 0));
}

static md_range_interval hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (md_range_interval){MD_MIN(MD_MIN(a, b), MD_MIN(c, d)), MD_MAX(MD_MAX(a, b), MD_MAX(c, d))};
}

static bool range_mul(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    int64_t p[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
        return false;
    *out = hull4(p[0], p[1], p[2], p[3]);
    return true;
}

static bool range_floordiv(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    if ((b.lo <= 0 && b.hi >= 0) || (a.lo == INT64_MIN && b.hi < 0))
        return false; /* by zero, or the quotient that overflows */
    *out = hull4(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi), floor_div(a.hi, b.lo), floor_div(a.hi, b.hi));
    return true;
}

static bool range_mod(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    if (b.lo <= 0)
        return false;
    if (b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {
        int64_t base = floor_div(a.lo, b.lo) * b.lo;
        *out = (md_range_interval){a.lo - base, a.hi - base};
    } else if (a.lo >= 0 && a.hi < b.lo) {
        *out = a;
    } else {
        *out = (md_range_interval){0, a.lo >= 0 ? MD_MIN(a.hi, b.hi - 1) : b.hi - 1};
    }
    return true;
}

/* The arms of a where, each under its condition, in a copy: atoms made there may be narrow because of the condition. */
static bool range_where(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    md_range_interval arm[2] = {{0, -1}, {0, -1}};
    bool is_dead[2];
    for (int i = 0; i < 2; i++) {
        md_range inner = *r;
        md_range_hold(&inner, node->arg[0], i == 0);
        if (!md_range_of(&inner, &arm[i], node->arg[i + 1]) && !inner.is_empty)
            return false;
        is_dead[i] = inner.is_empty;
        r->steps = inner.steps;
    }
    if (is_dead[0] || is_dead[1]) {
        *out = is_dead[0] ? arm[1] : arm[0];
        return true;
    }
    *out = (md_range_interval){MD_MIN(arm[0].lo, arm[1].lo), MD_MAX(arm[0].hi, arm[1].hi)};
    return true;
}

static md_range_interval range_abs(md_range_interval a)
{
    return (md_range_interval){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, MD_MAX(a.hi, -a.lo)};
}

static bool range_op(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    if (node->type == MD_BOOL && node->op != MD_FX_WHERE && node->op != MD_FX_MIN && node->op != MD_FX_MAX) {
        *out = (md_range_interval){0, 1};
        return true;
    }
    if (node->op == MD_FX_WHERE)
        return range_where(r, out, node);
    md_range_interval a = {0, 0}, b = {0, 0}, c = {0, 0};
    if (!md_range_of(r, &a, node->arg[0]) || (node->n_args > 1 && !md_range_of(r, &b, node->arg[1])) ||
        (node->n_args > 2 && !md_range_of(r, &c, node->arg[2])))
        return false;
    switch ((int)node->op) {
    case MD_FX_MUL:
        return range_mul(out, a, b);
    case MD_FX_FLOORDIV:
        return range_floordiv(out, a, b);
    case MD_FX_MOD:
        return range_mod(out, a, b);
    case MD_FX_MIN:
        *out = (md_range_interval){MD_MIN(a.lo, b.lo), MD_MIN(a.hi, b.hi)};
        return true;
    case MD_FX_MAX:
        *out = (md_range_interval){MD_MAX(a.lo, b.lo), MD_MAX(a.hi, b.hi)};
        return true;
    case MD_FX_CLAMP: /* min(max(x, lo), hi) */
        *out = (md_range_interval){MD_MIN(MD_MAX(a.lo, b.lo), c.lo), MD_MIN(MD_MAX(a.hi, b.hi), c.hi)};
        return true;
    case MD_FX_ABS:
        if (a.lo == INT64_MIN)
            return false;
        *out = range_abs(a);
        return true;
    case MD_FX_RELU:
        *out = (md_range_interval){MD_MAX(a.lo, 0), MD_MAX(a.hi, 0)};
        return true;
    case MD_FX_SIGN:
        *out = (md_range_interval){a.lo > 0 ? 1 : a.lo < 0 ? -1 : 0, a.hi > 0 ? 1 : a.hi < 0 ? -1 : 0};
        return true;
    default:
        *out = a;
        return md_fx_op_info(node->op)->is_whole;
    }
}

static bool range_cast(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    static const md_range_interval full[] = {
        [MD_I32] = {INT32_MIN, INT32_MAX}, [MD_I64] = {INT64_MIN, INT64_MAX}, [MD_U8] = {0, 255}, [MD_BOOL] = {0, 1}};
    md_range_interval a;
    if (node->to < MD_I32 || node->to > MD_BOOL)
        return false;
    md_range_interval whole = full[node->to];
    bool is_known = md_range_of(r, &a, node->arg[0]);
    *out = is_known && a.lo >= whole.lo && a.hi <= whole.hi ? a : whole;
    return is_known || node->to != MD_I64;
}

/* The position that argmax gives, counted over all its indices. */
static bool range_arg_reduction(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    int64_t n = 1;
    for (int32_t i = 0; i < node->n_bound; i++)
        if (__builtin_mul_overflow(n, r->size[r->formula->index[node->bound[i]].dim], &n))
            return false;
    *out = (md_range_interval){0, n - 1};
    r->is_empty |= n <= 0;
    return true;
}

bool md_range_of_atom(md_range *r, md_range_interval *out, const md_fx_node *node)
{
    switch (node->kind) {
    case MD_FX_OP:
        return range_op(r, out, node);
    case MD_FX_CAST:
        return range_cast(r, out, node);
    case MD_FX_REDUCE:
        if (node->op == MD_FX_R_ARGMAX || node->op == MD_FX_R_ARGMIN)
            return range_arg_reduction(r, out, node);
        return (node->op == MD_FX_R_MAX || node->op == MD_FX_R_MIN) && md_range_of(r, out, node->arg[0]);
    default:
        return false;
    }
}
