/* Error bounds of sums, products, maxima and minima while elements are added. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/scalar.h"
#include "support/tolerance/bound_value.h"

bound_running bound_run_start(md_fx_op op, md_dtype type)
{
    bound_running r = {.op = op, .type = type};
    r.v = op == MD_FX_R_PROD ? 1.0 : op == MD_FX_R_MAX ? (double)-INFINITY : op == MD_FX_R_MIN ? (double)INFINITY : 0.0;
    r.i = op == MD_FX_R_PROD  ? 1
          : op == MD_FX_R_MAX ? (type == MD_BOOL ? 0 : INT64_MIN)
          : op == MD_FX_R_MIN ? (type == MD_BOOL ? 1 : INT64_MAX)
                              : 0;
    r.highest = r.lowest = r.v;
    return r;
}

static void run_sum(bound_running *r, bound_value a)
{
    double t = r->v + a.v, b = t - r->v;
    double lost = (r->v - (t - b)) + (a.v - b);
    r->v = t;
    r->low += isfinite(lost) ? lost : 0.0;
    r->e += a.e;
    r->magnitude += fabs(a.v) + a.e;
    r->i = (int64_t)((uint64_t)r->i + (uint64_t)a.i);
}

static void run_product(bound_running *r, bound_value a)
{
    double size = fabs(a.v) + a.e;
    r->e = fabs(r->v) * a.e + (fabs(a.v) + a.e) * r->e;
    r->v *= a.v;
    r->i = (int64_t)((uint64_t)r->i * (uint64_t)a.i);
    r->magnitude += size > 1.0 && isfinite(size) ? log2(size) : 0.0;
    r->shrink += size < 1.0 && size > 0.0 ? -log2(size) : 0.0;
}

static void run_extreme(bound_running *r, bound_value a, bool is_max)
{
    md_scalar_real_fn pick = md_scalar_real(is_max ? MD_FX_MAX : MD_FX_MIN);
    bool is_real = md_dtype_is_real(r->type);
    double v = is_real ? a.v : (double)a.i;
    r->highest = pick(r->highest, v + a.e, 0.0);
    r->lowest = pick(r->lowest, v - a.e, 0.0);
    r->v = pick(r->v, v, 0.0);
    r->i = is_max ? MD_MAX(r->i, a.i) : MD_MIN(r->i, a.i);
    r->e = isinf(a.e) ? (double)INFINITY : r->e;
}

void bound_run_add(bound_running *r, bound_value a)
{
    r->n += 1.0;
    r->has_nan |= isnan(a.v) && a.e == 0.0;
    if (r->op == MD_FX_R_PROD)
        run_product(r, a);
    else if (r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN)
        run_extreme(r, a, r->op == MD_FX_R_MAX);
    else
        run_sum(r, a);
}

bound_value bound_run_result(const bound_running *r)
{
    bound_type t = bound_type_of(r->type);
    bool is_real = md_dtype_is_real(r->type);
    double v = r->op == MD_FX_R_SUM ? r->v + r->low : r->v; /* -0 + 0 would be 0 */
    if (is_real && r->has_nan)
        return bound_real((double)NAN, 0.0);
    if (r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN) {
        double above = r->highest == r->v ? 0.0 : r->highest - r->v, below = r->lowest == r->v ? 0.0 : r->v - r->lowest;
        double e = isinf(r->e) || isnan(above) || isnan(below) ? (double)INFINITY : fmax(above, below);
        return is_real ? bound_real(r->v, e) : bound_int(r->i, e);
    }
    if (!is_real)
        return bound_int(r->i, r->e);
    if (!isfinite(v))
        return bound_real(r->v, isfinite(r->e) ? 0.0 : (double)INFINITY);
    if (r->op == MD_FX_R_PROD) {
        double e = r->e + bound_sum_factor(r->n) * t.u * (fabs(v) + r->e);
        bool certain = r->magnitude < log2(t.max) && (r->shrink < -log2(t.tiny) || v == 0.0);
        return bound_rounded(t, v, certain || r->n <= 1.0 ? e : (double)INFINITY, true);
    }
    if (r->magnitude > t.max)
        return bound_real(v, (double)INFINITY);
    if (r->n <= 1.0)
        return bound_real(v, r->e);
    return bound_rounded(t, v, r->e + bound_sum_factor(r->n - 1.0) * t.u * r->magnitude, true);
}
