/* Arithmetic of ranges: linear forms and their highest values, and intervals under the operations that are not
 * linear. */
#include "expr/range/range.h"

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
static bool extreme(const md_range *r, int64_t *out, const md_range_linear *linear, bool highest)
{
    int64_t sum = linear->constant, c;
    for (int32_t i = 0; i < r->n_atoms; i++) {
        if (linear->coef[i] == 0)
            continue;
        int64_t at = (linear->coef[i] > 0) == highest ? r->atom[i].range.hi : r->atom[i].range.lo;
        if (__builtin_mul_overflow(linear->coef[i], at, &c) || __builtin_add_overflow(sum, c, &sum))
            return false;
    }
    *out = sum;
    return true;
}

/* Tries e + m*g as a better upper bound of e; keeps the form that gave it. */
static bool try_multiplier(const md_range *r, md_range_linear *linear, int64_t *best, const md_range_linear *g,
                           int64_t m)
{
    md_range_linear sum = *linear;
    int64_t value;
    if (!md_range_add(&sum, g, m) || !extreme(r, &value, &sum, true) || value >= *best)
        return false;
    *best = value;
    *linear = sum;
    return true;
}

static bool tighten_once(const md_range *r, md_range_linear *linear, int64_t *best)
{
    bool better = false;
    for (int32_t k = 0; k < r->n_guards; k++) {
        const md_range_linear *g = &r->guard[k];
        better |= try_multiplier(r, linear, best, g, 1);
        for (int32_t i = 0; i < r->n_atoms; i++) {
            int64_t a = linear->coef[i], b = g->coef[i];
            if (b == 0 || a == 0 || (a > 0) == (b > 0) || a == INT64_MIN || b == -1 || a % b != 0)
                continue;
            better |= try_multiplier(r, linear, best, g, -(a / b));
        }
    }
    return better;
}

bool md_range_upper(const md_range *r, int64_t *out, const md_range_linear *form)
{
    md_range_linear linear = *form;
    int64_t best;
    if (!extreme(r, &best, &linear, true))
        return false;
    for (int round = 0; round < 4 && tighten_once(r, &linear, &best); round++)
        ;
    *out = best;
    return true;
}

bool md_range_bounds(const md_range *r, md_range_interval *out, const md_range_linear *linear)
{
    md_range_linear negated = {0};
    int64_t below;
    if (!md_range_upper(r, &out->hi, linear) || !md_range_add(&negated, linear, -1) ||
        !md_range_upper(r, &below, &negated) || below == INT64_MIN)
        return false;
    out->lo = -below;
    return true;
}

bool md_range_is_constant(const md_range_linear *linear)
{
    for (int i = 0; i < MD_RANGE_ATOMS; i++)
        if (linear->coef[i] != 0)
            return false;
    return true;
}

/* ---- intervals ---- */

static int64_t floor_div(int64_t a, int64_t d)
{
    return a / d - (a % d != 0 && (a < 0) != (d < 0));
}

static md_range_interval hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (md_range_interval){MD_MIN(MD_MIN(a, b), MD_MIN(c, d)), MD_MAX(MD_MAX(a, b), MD_MAX(c, d))};
}

static bool interval_mul(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    int64_t p[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
        return false;
    *out = hull4(p[0], p[1], p[2], p[3]);
    return true;
}

bool md_interval_floordiv(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    if ((b.lo <= 0 && b.hi >= 0) || (a.lo == INT64_MIN && b.hi < 0))
        return false; /* by zero, or the quotient that overflows */
    *out = hull4(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi), floor_div(a.hi, b.lo), floor_div(a.hi, b.hi));
    return true;
}

static bool interval_mod(md_range_interval *out, md_range_interval a, md_range_interval b)
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

static md_range_interval interval_abs(md_range_interval a)
{
    return (md_range_interval){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, MD_MAX(a.hi, -a.lo)};
}

/* Bounds of a | b and a ^ b for a, b >= 0: from 0 to 2^n - 1, where n bits hold the larger one. */
static bool interval_bits(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    if (a.lo < 0 || b.lo < 0)
        return false;
    const int64_t most = MD_MAX(a.hi, b.hi);
    *out = (md_range_interval){0, most == 0 ? 0 : INT64_MAX >> (__builtin_clzll((unsigned long long)most) - 1)};
    return true;
}

static bool interval_bit_and(md_range_interval *out, md_range_interval a, md_range_interval b)
{
    if (a.lo < 0 && b.lo < 0)
        return false;
    *out = (md_range_interval){0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : MD_MIN(a.hi, b.hi)};
    return true;
}

static bool interval_shift(md_range_interval *out, md_fx_op op, md_range_interval a, md_range_interval count)
{
    const int64_t n = count.lo;
    if (n != count.hi || n < 0 || n > 62)
        return false;
    *out = (md_range_interval){a.lo >> n, a.hi >> n};
    return op == MD_FX_SHR || interval_mul(out, a, (md_range_interval){INT64_C(1) << n, INT64_C(1) << n});
}

bool md_interval_op(md_range_interval *out, md_fx_op op, md_range_interval a, md_range_interval b, md_range_interval c)
{
    switch ((int)op) {
    case MD_FX_MUL:
        return interval_mul(out, a, b);
    case MD_FX_FLOORDIV:
        return md_interval_floordiv(out, a, b);
    case MD_FX_MOD:
        return interval_mod(out, a, b);
    case MD_FX_BIT_AND:
        return interval_bit_and(out, a, b);
    case MD_FX_BIT_OR:
    case MD_FX_BIT_XOR:
        return interval_bits(out, a, b);
    case MD_FX_SHL:
    case MD_FX_SHR:
        return interval_shift(out, op, a, b);
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
        *out = interval_abs(a);
        return true;
    case MD_FX_RELU:
        *out = (md_range_interval){MD_MAX(a.lo, 0), MD_MAX(a.hi, 0)};
        return true;
    case MD_FX_SIGN:
        *out = (md_range_interval){a.lo > 0 ? 1 : a.lo < 0 ? -1 : 0, a.hi > 0 ? 1 : a.hi < 0 ? -1 : 0};
        return true;
    default:
        *out = a;
        return md_fx_op_info(op)->is_whole;
    }
}
