/* What data.c and data_sizes.c share. */
#ifndef MD_TESTS_SUPPORT_RANDOM_DATA_INTERNAL_H
#define MD_TESTS_SUPPORT_RANDOM_DATA_INTERNAL_H

#include "support/random/data.h"

#include "support/check.h"

typedef struct data_maker {
    data_set *d;
    const md_fx_formula *f;
    data_options options;
    uint64_t seed;
    int32_t extent_tensor[MD_FX_MAX_TENSORS],
        extent_axis[MD_FX_MAX_TENSORS]; /* of index tensors: what they index; -1 */
    bool is_scatter[MD_FX_MAX_TENSORS]; /* of index tensors: with '=' */
    int32_t length_dim[MD_FX_MAX_TENSORS]; /* of tensors of lengths: the dim that none may exceed; -1 */
} data_maker;

static inline int64_t data_below(data_maker *m, int64_t n)
{
    return (int64_t)(check_random(&m->seed) % (uint64_t)n);
}

/** Notes which tensors hold indices, and of which axis. */
void data_find_index_tensors(data_maker *m);
/** Picks the sizes of all dims; false where none fit. */
bool data_pick_sizes(data_maker *m);

#endif
