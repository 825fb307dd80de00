/* Loads that need transposing: of tensors whose last axis runs with another index than the lanes. They are read in
 * vectors along that axis, and tiles are transposed in registers or in shared memory. */
#ifndef MD_FAMILY_POINT_TRANSPOSE_H
#define MD_FAMILY_POINT_TRANSPOSE_H

#include "family/family.h"

enum { MD_FA_MAX_TRANSPOSED = 3 };

typedef struct md_fa_transpose {
    int32_t index; /* the outer index along which the transposed loads are contiguous */
    int32_t n;
    const md_fx_node *load[MD_FA_MAX_TRANSPOSED];
} md_fa_transpose;

/** Finds the loads that need transposing: the lanes run along one index, but the tensor's last axis along another.
 * False if there is none. */
bool md_fa_transpose_find(md_fa_transpose *out, const md_fa_target *target);
void md_fa_transpose_envelope(md_kn_envelope *out, const md_fa_target *target);

#endif
