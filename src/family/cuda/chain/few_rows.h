/* What chain_split and chain_dot share: items of few rows, whose keys are split among blocks. The blocks combine their
 * parts through memory or as a cluster (kernels/cuda/chain_meet.h). */
#ifndef MD_FAMILY_CUDA_CHAIN_FEW_ROWS_H
#define MD_FAMILY_CUDA_CHAIN_FEW_ROWS_H

#include "family/cuda/chain/cuda_chain.h"

/* What follows from a config. */
typedef struct md_fa_few_rows {
    int32_t rows; /* of an item */
    int32_t threads; /* of a block */
    int32_t meet; /* blocks of a cluster, of every split; 0: blocks meet through memory */
    int32_t length; /* keys of a split; 0: as many splits as fill the device */
    int32_t resident; /* blocks on an SM at a time */
    int64_t unit; /* least keys of a split */
    int64_t part; /* floats of a block's part */
    int64_t shared; /* bytes */
} md_fa_few_rows;

/** Bytes of shared memory where blocks of a cluster send `rows` rows of `width` columns. */
int64_t md_fa_few_rows_mail(int32_t rows, int32_t width);
/** Splits of the keys of each item. A cluster has all its blocks at every length: a launch of one block is no cluster,
 * and could not send. */
int64_t md_fa_few_rows_splits(const md_fa_target *target, const md_fa_chain *sized, const md_fa_few_rows *few);
/** The launch of a chain that has rows. */
void md_fa_few_rows_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_chain *sized,
                             const md_fa_few_rows *few);

#endif
