/* How far a correct kernel may be from the reference: every element of every output with a bound on the error.
 *
 * A kernel computes what the formula says in f32 (f64 where the type says so): each operation rounds, functions are off
 * by a few ulps, sums and products go in any order, stores round to their dtype. The evaluator here computes each value
 * v in f64 together with e, so that the kernel's value lies in v +- e:
 *   + - * / fma         operands' errors by the product and quotient rules, plus u * |result|          (u: unit
 * roundoff) monotone functions  the larger distance to the values at v - e and v + e, plus function_ulps * 2u * |v|
 *   others              their Lipschitz constant times e, plus the same; gelu also u * |x|: 1 + erf cancels
 *   sums of n terms     the terms' errors, plus c(n) * u * sum|terms|, with c(n) = min(n, 16 + 8 sqrt(n),
 *                       512 + log2(n)): n is the worst case in any order, 8 sqrt(n) holds but for a chance of e^-32 for
 *                       roundings of either sign (Higham and Mary 2019), and long sums are cut: multidispatch(3),
 *                       "Accuracy"
 *   comparisons         if the operands' intervals overlap and are not exact, either answer: a where then covers
 *                       both arms
 *   stores              one rounding to the dtype Results below 2^-120 (f32) may be flushed to 0. Where
 * anything may come out (a value near overflow, argmax of candidates closer than their errors, a domain that an error
 * leaves), the bound is infinite and the element counts as unchecked. NaN must meet NaN. */
#ifndef MD_TESTS_SUPPORT_TOLERANCE_BOUND_H
#define MD_TESTS_SUPPORT_TOLERANCE_BOUND_H

#include "expr/eval/eval.h"

typedef struct bound_options {
    double function_ulps; /* 0: 4 */
    /* Conversions to 16 bits may round another multiple of the value, as chains do, which round powers before they are
     * divided by their sum: two roundings of that type more */
    bool moves_rounding;
} bound_options;

typedef struct bound_result {
    int64_t n; /* elements; 0 for inputs and empty tensors */
    double *value; /* of real outputs, row-major, before the rounding of the store */
    int64_t *whole; /* of integer ones */
    double *error; /* of the store too; infinite: not checked */
} bound_result;

/** Evaluates all statements; result[t] for every output t. Nothing is stored into the binding's tensors. */
md_status bound_evaluate(bound_result *result, const md_fx_formula *formula, const md_fx_binding *binding,
                         const bound_options *options);
void bound_finish(bound_result *result, const md_fx_formula *formula);
/** Compares a tensor in host memory. False, with a line about the worst element in `text`. Adds to *n_unchecked. */
bool bound_check(const bound_result *result, const md_tensor *got, int64_t *n_unchecked, char *text, size_t n_text);

#endif
