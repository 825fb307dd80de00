/* Inside md_fx_range: linear forms over atoms.
 *
 * An atom is an index, or a subexpression that is not linear (h // 4, y % 2, max(i, 0)) and has a range of its own. The
 * range of a linear form follows term by term: exact for distinct indices, too wide at most where atoms depend on each
 * other. A guard g >= 0 gives e <= e + m*g and e >= e - m*g for every m >= 0 (Farkas); the multipliers that cancel an
 * atom are tried. */
#ifndef MD_EXPR_RANGE_RANGE_H
#define MD_EXPR_RANGE_RANGE_H

#include "base/status.h"
#include "expr/node.h"

enum { MD_RANGE_ATOMS = 24, MD_RANGE_GUARDS = 16 };

typedef struct md_range_interval {
    int64_t lo, hi;
} md_range_interval;

typedef struct md_range_atom {
    const md_fx_node *node; /* NULL: an index */
    int32_t index;
    md_range_interval range;
} md_range_atom;

typedef struct md_range_linear {
    int64_t constant;
    int64_t coef[MD_RANGE_ATOMS]; /* of the ranger's atoms; those added later count as 0 */
} md_range_linear;

typedef struct md_range {
    const md_fx_formula *formula;
    const int64_t *size;
    int32_t n_atoms, n_guards;
    md_range_atom atom[MD_RANGE_ATOMS];
    md_range_linear guard[MD_RANGE_GUARDS]; /* each >= 0 */
    int steps; /* left; against expressions that share operands */
    bool is_empty; /* some index runs over nothing, or the guards contradict each other */
} md_range;

/* range.c: a linear form and the range of an integer expression; false where there is none. */
bool md_range_linear_of(md_range *r, md_range_linear *out, const md_fx_node *node);
bool md_range_of(md_range *r, md_range_interval *out, const md_fx_node *node);
/** sum += factor * term */
bool md_range_add(md_range_linear *sum, const md_range_linear *term, int64_t factor);
/** The lowest upper bound found, guards used. */
bool md_range_upper(const md_range *r, int64_t *out, const md_range_linear *form);

/* range_atom.c: the range of a subexpression that is not linear. */
bool md_range_of_atom(md_range *r, md_range_interval *out, const md_fx_node *node);

/* range_guard.c: takes in that a condition holds, or that it does not. What cannot be used is left out: ranges only get
 * wider. */
void md_range_hold(md_range *r, const md_fx_node *condition, bool holds);

#endif
