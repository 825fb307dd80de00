/* Error bounds of single operations on values that have error bounds themselves. */
#include "support/tolerance/bound_value.h"

#include "base/dtype.h"
#include "base/number/sum.h"
#include "base/status.h"
#include "expr/scalar.h"

#include <float.h>

bound_type bound_type_of(md_dtype type)
{
    if (type == MD_F64)
        return (bound_type){.u = 0x1p-52, .tiny = 0x1p-1000, .max = DBL_MAX}; /* 2u: the reference rounds as well */
    return (bound_type){.u = 0x1p-24, .tiny = 0x1p-120, .max = FLT_MAX};
}

double bound_sum_factor(double n)
{
    return fmin(md_sum_additions(n), 16.0 + 8.0 * sqrt(n));
}

bound_value bound_rounded(bound_type t, double v, double e, bool exact)
{
    if (!isfinite(v))
        return bound_real(v, exact && !isnan(e) ? 0.0 : (double)INFINITY);
    if (isnan(e) || fabs(v) + e > t.max * (1.0 - 4.0 * t.u))
        return bound_real(v, (double)INFINITY);
    return bound_real(v, v == 0.0 && e == 0.0 ? 0.0 : e + t.u * (fabs(v) + e) + t.tiny);
}

/* ---- functions of one operand ---- */

/* The distance to the values at both ends: enough for a monotone function. */
static double ends(double v, md_scalar_real_fn f, bound_value a)
{
    if (a.e == 0.0)
        return 0.0;
    double lo = f(a.v - a.e, 0.0, 0.0), hi = f(a.v + a.e, 0.0, 0.0);
    if (lo == v && hi == v)
        return 0.0; /* both infinite, too */
    double e = fmax(fabs(v - lo), fabs(hi - v));
    return isnan(v - lo) || isnan(hi - v) ? (double)INFINITY : e;
}

/* What the function itself gets wrong at x, in absolute terms. */
static double own_error(const md_fx_op_row *op, double x, double v, double u, const bound_options *o)
{
    double e = (o->function_ulps > 0.0 ? o->function_ulps : 4.0) * 2.0 * u * fabs(v);
    if (!isfinite(x))
        return e;
    if (op->cancels)
        e += 4.0 * u * fmin(fabs(x), 16.0);
    return e;
}

static bound_value op1(const md_fx_node *node, bound_value a, const bound_options *o)
{
    const md_fx_op_row *op = md_fx_op_info(node->op);
    bound_type t = bound_type_of(node->type);
    md_scalar_real_fn f = md_scalar_real(node->op);
    double v = f(a.v, 0.0, 0.0);
    if (!isfinite(a.e))
        return bound_real(v, isnan(a.v) ? 0.0 : (double)INFINITY);
    double e = op->slope > 0.0 ? op->slope * a.e : ends(v, f, a);
    if (op->has_poles && a.e > 0.0 && (a.e > 0.5 || f(a.v - a.e, 0.0, 0.0) > f(a.v + a.e, 0.0, 0.0)))
        e = (double)INFINITY;
    if (!isfinite(v))
        return bound_real(v, a.e == 0.0 || e == 0.0 ? 0.0 : (double)INFINITY);
    if (op->rounding == MD_FX_EXACT)
        return bound_real(v, e);
    return bound_rounded(t, v, e + own_error(op, a.v, v, t.u, o), true);
}

/* ---- two and three operands ---- */

static bound_value divide(bound_type t, bound_value a, bound_value b)
{
    double v = a.v / b.v;
    if (b.e > 0.0 && fabs(b.v) <= b.e)
        return bound_real(v, (double)INFINITY);
    if (b.v == 0.0)
        return bound_real(v, a.e == 0.0 || fabs(a.v) > a.e ? 0.0 : (double)INFINITY);
    if (!isfinite(v))
        return bound_rounded(t, v, 0.0, true);
    double e = isfinite(b.v) ? (a.e + fabs(v) * b.e) / (fabs(b.v) - b.e) : 0.0;
    return bound_rounded(t, v, e + t.u * fabs(v), true);
}

static bound_value multiply(bound_type t, bound_value a, bound_value b)
{
    double v = a.v * b.v;
    if (!isfinite(v)) { /* infinite times something that may be 0, or of either sign, is uncertain */
        bool certain = (a.e == 0.0 || fabs(a.v) > a.e) && (b.e == 0.0 || fabs(b.v) > b.e);
        return bound_rounded(t, v, 0.0, certain);
    }
    return bound_rounded(t, v, fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e, true);
}

static bool is_whole(double x)
{
    return isfinite(x) && x == floor(x);
}

static bound_value floor_division(const md_fx_node *node, bound_value a, bound_value b)
{
    bound_type t = bound_type_of(node->type);
    bound_value q = divide(t, a, b);
    double v = md_scalar_real(node->op)(a.v, b.v, 0.0);
    bool exact = a.e == 0.0 && b.e == 0.0 && (!isfinite(q.v) || (is_whole(q.v) && fabs(q.v) < 0.5 / t.u));
    bool same = exact || (isfinite(q.e) && floor(q.v - q.e) == floor(q.v + q.e) && isfinite(q.v));
    if (!isfinite(v))
        return bound_real(v, a.e == 0.0 && b.e == 0.0 ? 0.0 : (double)INFINITY);
    if (!isfinite(q.v) || !isfinite(b.v))
        return bound_real(v, (double)INFINITY); /* quotients of infinities: kernels differ in how they floor them */
    if (node->op == MD_FX_FLOORDIV)
        return bound_rounded(t, v, same ? 0.0 : floor(q.v + q.e) - floor(q.v - q.e), true);
    double e = a.e + fabs(floor(q.v)) * b.e + 2.0 * t.u * (fabs(a.v) + fabs(floor(q.v) * b.v));
    return bound_rounded(t, v, same ? e : e + fabs(b.v) + b.e, true);
}

static bound_value power(bound_type t, bound_value a, bound_value b)
{
    double v = pow(a.v, b.v), e = 0.0;
    if (a.e > 0.0 && a.v - a.e <= 0.0 && !(isfinite(b.v) && b.v == 1.0))
        return bound_real(v, (double)INFINITY);
    if (a.v <= 0.0 && b.e > 0.0)
        return bound_real(v, (double)INFINITY);
    for (int i = 0; i < 4 && (a.e > 0.0 || b.e > 0.0); i++) {
        double corner = pow(a.v + (i & 1 ? a.e : -a.e), b.v + (i & 2 ? b.e : -b.e));
        e = fmax(e, corner == v ? 0.0 : fabs(corner - v));
        if (isnan(corner) != isnan(v))
            e = (double)INFINITY;
    }
    if (!isfinite(v))
        return bound_real(v, e == 0.0 ? 0.0 : (double)INFINITY);
    double steep = a.v == 0.0 ? 0.0 : fabs(b.v * log(fabs(a.v)));
    return bound_rounded(t, v, e + (16.0 + 2.0 * steep) * t.u * fabs(v), true);
}

/* The remainder with the dividend's sign. */
static bound_value remainder_of(bound_type t, bound_value a, bound_value b)
{
    double v = fmod(a.v, b.v), q = trunc(a.v / b.v);
    if (a.e == 0.0 && b.e == 0.0)
        return bound_real(v, 0.0);
    if (!isfinite(v) || !isfinite(b.v) || trunc((a.v - a.e) / b.v) != q || trunc((a.v + a.e) / b.v) != q || b.e > 0.0)
        return bound_real(v, (double)INFINITY);
    return bound_rounded(t, v, a.e, true);
}

/* The angle moves by the error of the point over its distance; it jumps at the left half of the x axis. */
static bound_value angle(bound_type t, bound_value y, bound_value x)
{
    double v = atan2(y.v, x.v), e = hypot(y.e, x.e), r = hypot(y.v, x.v);
    if (e == 0.0)
        return isnan(v) ? bound_real(v, 0.0) : bound_rounded(t, v, 8.0 * t.u * fabs(v), true);
    if (!isfinite(r) || e >= r || (x.v - x.e <= 0.0 && fabs(y.v) <= y.e))
        return bound_real(v, (double)INFINITY);
    return bound_rounded(t, v, asin(e / r) + 8.0 * t.u * fabs(v), true);
}

/* min, max and clamp take one of their operands: never further off than the furthest. */
static bound_value select_one(const md_fx_node *node, const bound_value *a)
{
    double v = md_scalar_real(node->op)(a[0].v, a[1].v, node->n_args > 2 ? a[2].v : 0.0), e = 0.0;
    for (int32_t i = 0; i < node->n_args; i++)
        e = fmax(e, a[i].e);
    if (isinf(v) && isfinite(e) && e > 0.0) { /* the infinite operand wins, and has no error */
        e = 0.0;
    }
    return bound_real(v, isnan(v) && isfinite(e) ? 0.0 : e);
}

static bound_value add(const md_fx_node *node, bound_value a, bound_value b)
{
    double v = node->op == MD_FX_ADD ? a.v + b.v : a.v - b.v;
    return bound_rounded(bound_type_of(node->type), v, a.e + b.e, true);
}

static bound_value real_op(const md_fx_node *node, const bound_value *a, const bound_options *o)
{
    bound_type t = bound_type_of(node->type);
    bool uncertain = false, has_nan = false;
    for (int32_t i = 0; i < node->n_args; i++) {
        uncertain |= !isfinite(a[i].e);
        has_nan |= isnan(a[i].v) && a[i].e == 0.0;
    }
    if (node->n_args == 1)
        return op1(node, a[0], o);
    if (uncertain)
        return bound_real(md_scalar_real(node->op)(a[0].v, a[1].v, node->n_args > 2 ? a[2].v : 0.0),
                          has_nan && node->op != MD_FX_POW ? 0.0 : (double)INFINITY);
    switch ((int)node->op) {
    case MD_FX_ADD:
    case MD_FX_SUB:
        return add(node, a[0], a[1]);
    case MD_FX_MUL:
        return multiply(t, a[0], a[1]);
    case MD_FX_DIV:
        return divide(t, a[0], a[1]);
    case MD_FX_FLOORDIV:
    case MD_FX_MOD:
        return floor_division(node, a[0], a[1]);
    case MD_FX_POW:
        return power(t, a[0], a[1]);
    case MD_FX_FMOD:
        return remainder_of(t, a[0], a[1]);
    case MD_FX_ATAN2:
        return angle(t, a[0], a[1]);
    case MD_FX_FMA: {
        bound_value product = multiply(t, a[0], a[1]);
        bool certain = isfinite(product.e);
        return bound_rounded(t, a[0].v * a[1].v + a[2].v, certain ? product.e + a[2].e : (double)INFINITY, certain);
    }
    default:
        return select_one(node, a);
    }
}

/* ---- integers and truth values ---- */

static bound_value test_op(const md_fx_node *node, const bound_value *a)
{
    md_scalar_test_fn f = md_scalar_test(node->op);
    double e = a[0].e + (node->n_args > 1 ? a[1].e : 0.0);
    bool result = f(a[0].v, node->n_args > 1 ? a[1].v : 0.0);
    if (node->n_args == 1)
        return bound_int(result, isfinite(e) ? 0.0 : (double)INFINITY);
    bool clear = e == 0.0 || fabs(a[0].v - a[1].v) > e || (isfinite(e) && (isnan(a[0].v) || isnan(a[1].v)));
    return bound_int(result, clear ? 0.0 : (double)INFINITY);
}

static bound_value logic_op(const md_fx_node *node, const bound_value *a)
{
    bool x = a[0].i != 0, y = node->n_args > 1 && a[1].i != 0;
    bool settles = node->op == MD_FX_OR; /* this operand, if certain, settles the result */
    if (node->op == MD_FX_NOT)
        return bound_int(!x, a[0].e);
    if ((a[0].e == 0.0 && x == settles) || (a[1].e == 0.0 && y == settles))
        return bound_int(settles, 0.0);
    return bound_int(settles ? x || y : x && y, fmax(a[0].e, a[1].e));
}

static bound_value int_op(const md_fx_node *node, const bound_value *a)
{
    int64_t i = md_scalar_int(node->op)(a[0].i, node->n_args > 1 ? a[1].i : 0, node->n_args > 2 ? a[2].i : 0);
    double e0 = a[0].e, e1 = node->n_args > 1 ? a[1].e : 0.0, e2 = node->n_args > 2 ? a[2].e : 0.0;
    if (e0 == 0.0 && e1 == 0.0 && e2 == 0.0)
        return bound_int(i, 0.0);
    switch ((int)node->op) {
    case MD_FX_NEG:
    case MD_FX_ABS:
    case MD_FX_RELU:
    case MD_FX_ADD:
    case MD_FX_SUB:
        return bound_int(i, e0 + e1);
    case MD_FX_MIN:
    case MD_FX_MAX:
    case MD_FX_CLAMP:
        return bound_int(i, fmax(e0, fmax(e1, e2)));
    case MD_FX_MUL:
        return bound_int(i, fabs(a[0].v) * e1 + fabs(a[1].v) * e0 + e0 * e1);
    default:
        return bound_int(i, (double)INFINITY);
    }
}

bound_value bound_op(const md_fx_node *node, const bound_value *arg, const bound_options *options)
{
    if (md_dtype_is_real(node->type))
        return real_op(node, arg, options);
    if (node->op == MD_FX_AND || node->op == MD_FX_OR || node->op == MD_FX_NOT)
        return logic_op(node, arg);
    return node->type == MD_BOOL && md_dtype_is_real(node->arg[0]->type) ? test_op(node, arg) : int_op(node, arg);
}

bound_value bound_either(bound_value a, bound_value b, bool is_real)
{
    double gap = is_real ? fabs(a.v - b.v) : fabs((double)a.i - (double)b.i);
    if (is_real && (a.v == b.v || (isnan(a.v) && isnan(b.v))))
        gap = 0.0;
    a.e = isnan(gap) ? (double)INFINITY : gap + fmax(a.e, b.e);
    return a;
}

/* ---- conversions ---- */

static int64_t through(md_dtype to, double v)
{
    int64_t cell = 0;
    md_dtype_store(to, &cell, 0, v);
    return md_dtype_load_int(to, &cell, 0);
}

static bound_value cast_to_real(md_dtype to, bound_value a)
{
    double v = md_dtype_round(to, a.v), lo = md_dtype_round(to, a.v - a.e), hi = md_dtype_round(to, a.v + a.e);
    if (a.e == 0.0 || (isnan(v) && isfinite(a.e)))
        return bound_real(v, 0.0);
    if (lo == v && hi == v)
        return bound_real(v, 0.0);
    double e = fmax(v - lo, hi - v);
    return bound_real(v, isnan(e) ? (double)INFINITY : e);
}

bound_value bound_cast(md_dtype to, bool from_real, bound_value a)
{
    if (md_dtype_is_real(to))
        return cast_to_real(to, from_real ? a : bound_real((double)a.i, a.e));
    if (!from_real) {
        int64_t cell = 0;
        md_dtype_store_int(to, &cell, 0, a.i);
        return bound_int(md_dtype_load_int(to, &cell, 0), to == MD_BOOL || a.e == 0.0 ? a.e : (double)INFINITY);
    }
    int64_t i = through(to, a.v);
    if (a.e == 0.0 || (isnan(a.v) && isfinite(a.e)))
        return bound_int(i, 0.0);
    if (!isfinite(a.e))
        return bound_int(i, (double)INFINITY);
    double lo = (double)through(to, a.v - a.e), hi = (double)through(to, a.v + a.e);
    if (to == MD_BOOL && fabs(a.v) <= a.e)
        return bound_int(i, (double)INFINITY);
    return bound_int(i, fmax((double)i - lo, hi - (double)i));
}
