/* Rows of which a condition leaves a part: where(P[i] <= k and k < P[i+1], a, 0) in a sum over k. On the host such a
 * row runs from its first element that counts to its last, without the condition. */
#ifndef MD_CODEGEN_ROW_RANGE_H
#define MD_CODEGEN_ROW_RANGE_H

#include "stage/stage.h"

enum { MD_CG_MAX_BOUNDS = 4 };

/* axis OP limit, or with a shift: axis + shift OP limit, axis - shift OP limit. All but the axis is the same for a row
 * (in columns: for a tile). */
typedef struct md_cg_bound {
    md_fx_op op; /* LT LE GT GE */
    const md_fx_node *limit, *shift; /* shift: NULL where there is none */
    bool is_minus;
} md_cg_bound;

typedef struct md_cg_range {
    int32_t n; /* 0: all of the row counts */
    md_cg_bound bound[MD_CG_MAX_BOUNDS];
    bool is_all; /* the bounds are the whole condition: inside them it need not be asked */
} md_cg_range;

/** What the reductions of a row stage run over. A stage with stores along the axis runs over all of it. */
void md_cg_range_of(md_cg_range *out, const md_st_program *program, int32_t stage, bool is_column);
/** The body of a reduction inside the range. */
const md_fx_node *md_cg_range_body(const md_cg_range *range, const md_st_reduction *reduction);
/** Elements of a row that a cost counts on, of n: pointers on both sides divide n among the rows that they tell apart,
 * one bound leaves half. */
double md_cg_range_length(const md_cg_range *range, const md_st_program *program, int32_t stage, const int64_t *size);

#endif
