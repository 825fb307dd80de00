/* Constants of the cost model of chain_split.
 * `tools/fit chain_split --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_split
 * Source: an H200, November 2026 (data/results/attention.md)
 * Runs: data/results/2026-11-29-h200.tar.xz
 * Fit: 29 November 2026, H200: seed 3, 89703 steps: 17.7% root mean square of log(model / recorded), picks lose
 *   3.0%, 601 times. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_SPLIT_FIT_H

#include "family/fit.h"

/* us: of a launch; of combining the parts of a split through memory, as a cluster, and of each part. */
MD_FIT(START_US, 0.7106)
MD_FIT(MEMORY_MEET_US, 2.135)
MD_FIT(CLUSTER_MEET_US, 0.355)
MD_FIT(PART_US, 0.04695)

/* us: of a block's start and end; of the sums that meet there (2048 row tiles times columns of all warps of an SM);
 * of a step, and of a row tile in it with 256 elements of keys and values. */
MD_FIT(BLOCK_US, 0.4241)
MD_FIT(SUMS_US, 3.009)
MD_FIT(STEP_US, 0.05662)
MD_FIT(STEP_TILE_US, 0.4406)

/* KB in flight on an SM with which it has its share of the memory rate; how much faster than other kernels these read
 * keys and values again from the L2. */
MD_FIT(FULL_FLIGHT_KB, 37.62)
MD_FIT(CACHE_GAIN, 2.103)

#endif
