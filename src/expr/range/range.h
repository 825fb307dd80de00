/* Inside md_fx_range: linear forms over atoms.
 *
 * An atom is an index, or a subexpression that is not linear (h // 4, y % 2, max(i, 0)) and has a range of its own. The
 * range of a linear form follows term by term: exact for distinct indices, too wide at most where atoms depend on each
 * other. Atoms are one where their operands have equal linear forms: (h + 0) // 2 is h // 2. What ties an atom to its
 * operands (d * (x // d) <= x, x <= max(x, y)) is kept like a guard.
 *
 * A guard g >= 0 gives e <= e + m*g and e >= e - m*g for every m >= 0 (Farkas); the multipliers that cancel an atom are
 * tried. */
#ifndef MD_EXPR_RANGE_RANGE_H
#define MD_EXPR_RANGE_RANGE_H

#include "base/status.h"
#include "expr/node.h"

enum { MD_RANGE_ATOMS = 24, MD_RANGE_GUARDS = 24 };

typedef struct md_range_interval {
    int64_t lo, hi;
} md_range_interval;

typedef struct md_range_atom {
    const md_fx_node *node; /* NULL: an index */
    md_fx_op op; /* that is applied to the node's operands: its own, or // where x % d brought x // d along */
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
    int steps; /* steps that are left; bounds the time for expressions with shared operands */
    bool is_empty; /* some index runs over nothing, or the guards contradict each other */
} md_range;

/** sum += factor * term. False where it overflows. */
bool md_range_add(md_range_linear *sum, const md_range_linear *term, int64_t factor);
bool md_range_is_constant(const md_range_linear *form);
/** The lowest upper bound found, guards used. False where it overflows, here and below. */
bool md_range_upper(const md_range *r, int64_t *out, const md_range_linear *form);
bool md_range_bounds(const md_range *r, md_range_interval *out, const md_range_linear *form);

/** Adds the guard factor * term + atom_factor * atom + constant >= 0, which always holds. */
void md_range_tie(md_range *r, const md_range_linear *term, int64_t factor, int32_t atom, int64_t atom_factor,
                  int64_t constant);
/** Adds what `a op b` says where it holds. */
void md_range_compare(md_range *r, md_fx_op op, const md_range_linear *a, const md_range_linear *b);

/** Operations on intervals; false where one overflows, a divisor may be 0 (of %: <= 0), or nothing is known. */
bool md_interval_op(md_range_interval *out, md_fx_op op, md_range_interval a, md_range_interval b, md_range_interval c);
bool md_interval_floordiv(md_range_interval *out, md_range_interval a, md_range_interval b);

#endif
