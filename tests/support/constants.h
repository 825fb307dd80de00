/* All inputs of a formula as constants: so that families that pack operands serve, too. */
#ifndef MD_TESTS_SUPPORT_CONSTANTS_H
#define MD_TESTS_SUPPORT_CONSTANTS_H

#include "expr/formula.h"

#include <stdio.h>

/** As bits, for md_fa_target. */
static inline uint32_t all_inputs(const md_fx_formula *formula)
{
    uint32_t tensors = 0;
    for (int32_t t = 0; t < formula->n_tensors; t++)
        if (formula->tensor[t].role == MD_FX_INPUT)
            tensors |= UINT32_C(1) << t;
    return tensors;
}

/** As names, for md_op_options. */
static inline void name_inputs(char *out, size_t n, const md_fx_formula *formula)
{
    size_t used = 0;
    out[0] = 0;
    for (int32_t t = 0; t < formula->n_tensors && used < n; t++)
        if (formula->tensor[t].role == MD_FX_INPUT)
            used += (size_t)snprintf(out + used, n - used, "%s,", formula->tensor[t].name);
}

#endif
