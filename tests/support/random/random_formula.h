/* Random formulas that are legal by construction, for property tests: printing and parsing again, generated kernels
 * against the reference. Rows are i, columns j; bound indices are r0, r1, .. over rows and c0, c1, .. over columns.
 * Inputs: A[i,j] B[i,j] T[j,i] U[i] V[j], N:i32[i,j], M:bool[i,j], D:f64[i,j], E[ids[i],j], and G[i,j], H[j] by
 * guarded subscripts; scalars s and q:i64. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_FORMULA_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_FORMULA_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct random_formula_options {
    int max_depth; /* of an expression; 0: 4 */
    bool without_reductions, without_scans, without_ints, without_doubles, without_gathers, without_shifts,
        without_casts;
    bool without_specials; /* inf, nan and functions with poles or overflow */
} random_formula_options;

/** Writes a formula of one to three statements; the same state gives the same formula. */
void random_formula(md_strbuf *out, uint64_t *state, const random_formula_options *options);

#endif
