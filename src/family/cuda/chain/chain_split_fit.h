/* Constants of the cost model of chain_split.
 * `tools/fit chain_split --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_split
 * Source: an H200, November 2026 (data/results/attention.md)
 * Runs: data/results/2026-11-29-h200.tar.xz
 *   data/results/2026-11-29-h200-attention.tar.xz:2026-11-29-h200-attention/regret.jsonl
 * Fit: 30 November 2026, H200: 16.2% root mean square of log(model / recorded), picks lose 1.8%, 1638 times. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H

#include "family/fit.h"

/* us: of a launch; of combining the parts of a split through memory, as a cluster, and of each part. */
MD_FIT(START_US, 0.1237)
MD_FIT(MEMORY_MEET_US, 2.713)
MD_FIT(CLUSTER_MEET_US, 1.201)
MD_FIT(PART_US, 0.07847)

/* us: of a block's start and end; of the sums that meet there (4096 rows times columns of all warps of an SM);
 * of a step, and of a row tile in it with 256 elements of keys and values. */
MD_FIT(BLOCK_US, 1.212)
MD_FIT(SUMS_US, 0.7334)
MD_FIT(STEP_US, 0.1907)
MD_FIT(STEP_TILE_US, 0.3097)

/* us: what a step of a warp, and a row tile in it, takes of the SM, which warps share. */
MD_FIT(TURN_US, 0.009899)
MD_FIT(TURN_TILE_US, 0.03258)

/* The part of the memory rate that clusters reach, and to the part of SMs that they are on (by hand, by one shape); KB
 * in flight on an SM with which it has its share of the memory rate; how much faster than other kernels these read keys
 * and values again from the L2. */
MD_FIT(CLUSTER_RATE, 0.88)
MD_FIT(CLUSTER_SHARE, 1.3)
MD_FIT(FULL_FLIGHT_KB, 6.135)
MD_FIT(CACHE_GAIN, 2.043)

#endif
