/* Constants of the cost model of chain_split.
 * `tools/fit chain_split --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_split
 * Source: an H200, November 2026 (data/results/attention.md) */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H

#include "family/fit.h"

/* us: of a launch; of combining the parts of a split through memory, as a cluster, and of each part. */
MD_FIT(START_US, 1.5)
MD_FIT(MEMORY_MEET_US, 1.4)
MD_FIT(CLUSTER_MEET_US, 0.7)
MD_FIT(PART_US, 0.04)

/* us: of a block's start and end, of the sums of 32 row tiles times columns of all warps that meet there; of a step, and
 * of a row tile in it with 256 elements of keys and values. */
MD_FIT(BLOCK_US, 1)
MD_FIT(SUMS_US, 1)
MD_FIT(STEP_US, 0.3)
MD_FIT(STEP_TILE_US, 0.2)

/* KB in flight on an SM with which it has its share of the memory rate; the part of that which a wave of few blocks
 * reaches. */
MD_FIT(FULL_FLIGHT_KB, 96)
MD_FIT(LEAST_USE, 0.25)

#endif
