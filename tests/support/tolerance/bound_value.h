/* Inside bound.c: values with error bounds, and what operations do to them. */
#ifndef MD_TESTS_SUPPORT_TOLERANCE_BOUND_VALUE_H
#define MD_TESTS_SUPPORT_TOLERANCE_BOUND_VALUE_H

#include "expr/node.h"
#include "support/tolerance/bound.h"

#include <math.h>

/* A real value v +- e, or an integer: i exactly where e is 0, else i +- e. */
typedef struct bound_value {
    double v, e;
    int64_t i;
} bound_value;

/* What one type's arithmetic does. */
typedef struct bound_type {
    double u, tiny, max; /* unit roundoff, flushed below, largest finite */
} bound_type;

bound_type bound_type_of(md_dtype type);
static inline bound_value bound_real(double v, double e)
{
    return (bound_value){.v = v, .e = isnan(e) ? (double)INFINITY : e}; /* 0 times an unknown error */
}
static inline bound_value bound_int(int64_t i, double e)
{
    return (bound_value){.v = (double)i, .e = isnan(e) ? (double)INFINITY : e, .i = i};
}
/** v with error `e`, after one rounding: overflow and NaN settled. `exact` says that v, where not finite, is certain.
 */
bound_value bound_rounded(bound_type t, double v, double e, bool exact);
/** An elementwise operation other than WHERE. */
bound_value bound_op(const md_fx_node *node, const bound_value *arg, const bound_options *options);
/** Either of two values. */
bound_value bound_either(bound_value a, bound_value b, bool is_real);
/** A conversion to a storage dtype and back. */
bound_value bound_cast(md_dtype to, bool from_real, bound_value a);
double bound_sum_factor(double n);

/* A running sum, product, maximum or minimum. */
typedef struct bound_running {
    md_fx_op op; /* of the reduction or the scan, as a reduction */
    md_dtype type;
    double n, v, low, e, magnitude; /* magnitude: of the terms together; of a product, log2 of the factors beyond 1 */
    double shrink; /* log2 of the factors below 1 */
    double highest, lowest; /* of max and min: bounds of the result */
    int64_t i;
    bool has_nan; /* a certain one */
} bound_running;

/** Of nothing yet; type: of the result. */
bound_running bound_run_start(md_fx_op op, md_dtype type);
void bound_run_add(bound_running *r, bound_value a);
bound_value bound_run_result(const bound_running *r);

#endif
