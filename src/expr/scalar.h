/* What each elementwise operation computes: the language's semantics for one element, in double and in int64. */
#ifndef MD_EXPR_SCALAR_H
#define MD_EXPR_SCALAR_H

#include "expr/ops.h"

#include <stdbool.h>
#include <stdint.h>

typedef double (*md_scalar_real_fn)(double a, double b, double c);
typedef int64_t (*md_scalar_int_fn)(int64_t a, int64_t b, int64_t c);
typedef bool (*md_scalar_test_fn)(double a, double b);

/** The operation on reals (results of type f32 or f64); NULL for comparisons, logic and WHERE. Unused operands are
 * ignored. */
md_scalar_real_fn md_scalar_real(md_fx_op op);
/** The operation on integers and truth values (results of type i64 or bool); NULL where the result is always real. */
md_scalar_int_fn md_scalar_int(md_fx_op op);
/** Comparisons, ISNAN and ISINF of reals; NULL for all others. */
md_scalar_test_fn md_scalar_test(md_fx_op op);

/** Larger and smaller; a NaN on either side gives NaN. */
double md_scalar_max(double a, double b);
double md_scalar_min(double a, double b);

/** The first 64 of the 128 bits of Philox4x32-10: a block of random bits that a key and a counter of 128 bits, its low
 * and its high half, determine (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011). */
int64_t md_scalar_philox(int64_t key, int64_t low, int64_t high);

#endif
