/* Which reductions of nothing a call needs: the max of nothing is an error only where an element takes its value. */
#ifndef MD_EXPR_NEEDED_H
#define MD_EXPR_NEEDED_H

#include "expr/formula.h"

/** Refuses sizes (by dim id) at which an element of an output needs the max, min, argmax or argmin of nothing. Nothing
 * is needed by outputs without elements, by lets that no needed statement reads, inside of a reduction over nothing,
 * and in an arm of a `where` that a condition on sizes does not take. */
md_status md_fx_check_needed(const md_fx_formula *formula, const int64_t *size);

#endif
