/* Inside bound.c: the values of expressions where the indices stand. */
#ifndef MD_TESTS_SUPPORT_TOLERANCE_BOUND_WALK_H
#define MD_TESTS_SUPPORT_TOLERANCE_BOUND_WALK_H

#include "expr/memo.h"
#include "support/tolerance/bound_value.h"

typedef struct bound_axes {
    int32_t rank;
    int64_t size[MD_MAX_RANK];
} bound_axes;

typedef struct bound_walker {
    const md_fx_formula *f;
    const md_fx_binding *b;
    bound_options options;
    int64_t at[MD_FX_MAX_INDICES];
    bound_value *array[MD_FX_MAX_TENSORS]; /* temps and outputs, as a later statement reads them */
    md_memo kept; /* reduction or scan -> kept */
} bound_walker;

bound_value bound_value_of(bound_walker *walker, const md_fx_node *node);
int64_t bound_size_of(const bound_walker *walker, int32_t index);
bound_axes bound_axes_of(const bound_walker *walker, int32_t tensor);
/** Position in row-major order, perhaps clamped; -1 where an index lies outside. */
int64_t bound_position_of(const bound_walker *walker, const bound_axes *a, int64_t *at);
/** bound_cast, and what the options say of it. */
bound_value bound_convert(const bound_walker *walker, md_dtype to, bool from_real, bound_value a);
bound_value bound_read_memory(const md_tensor *t, const int64_t *at);
/** Frees what reductions and scans left behind. */
void bound_walk_finish(bound_walker *walker);

#endif
