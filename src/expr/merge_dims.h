/* Dims that always stand side by side, joined into one: sum[j,k](X[i,j,k]) as sum[j](X[i,j]). What that computes is
 * the same wherever the tensors lie contiguously in these dims. */
#ifndef MD_EXPR_MERGE_DIMS_H
#define MD_EXPR_MERGE_DIMS_H

#include "base/status.h"
#include "expr/formula.h"

/* How tensors of the joined formula lie in those of the formula, by tensor id: axis g of the joined tensor is
 * `count[g]` axes of the other, in order. */
typedef struct md_fx_merged_dims {
    int32_t n_pairs; /* joined; 0: the formula is unchanged */
    int32_t root[MD_FX_MAX_DIMS]; /* the dim that a dim became a part of; its own id where it is whole */
    int32_t rank[MD_FX_MAX_TENSORS];
    int32_t count[MD_FX_MAX_TENSORS][MD_MAX_RANK];
} md_fx_merged_dims;

/** False for most formulas, quickly: no reduction has several indices, and so nothing is to be joined. */
bool md_fx_may_merge_dims(const md_fx_formula *formula);
/** Joins dims that only ever stand side by side in plain subscripts, and that a reduction runs over together. Formulas
 * with scatters, checked subscripts or declared ranges of these dims stay as they are. Changes the formula, which may
 * then be printed and read again, nothing else: its reaches are those of before. OUT_OF_MEMORY. */
md_status md_fx_merge_dims(md_fx_merged_dims *out, md_fx_formula *formula);

#endif
