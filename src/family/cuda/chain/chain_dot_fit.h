/* Constants of the cost model of chain_dot.
 * `tools/fit chain_dot --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain_dot
 * Source: an H200, November 2026 (data/results/attention.md). With four rows it was slower than chain_split at the
 *   shapes timed; with one row of 8 heads faster at 1 x 8,192, slower at 1 x 1,024 and 64 x 4,096. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_DOT_FIT_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_DOT_FIT_H

#include "family/fit.h"

/* us: of a launch, of a wave of blocks beside its bytes and operations; of combining the parts of a split through
 * memory, as a cluster, and of each part. */
MD_FIT(START_US, 0.5)
MD_FIT(BLOCK_US, 2)
MD_FIT(MEMORY_MEET_US, 1.8)
MD_FIT(CLUSTER_MEET_US, 1.1)
MD_FIT(PART_US, 0.05)

/* Most of the memory rate; KB in flight on an SM with which it has its share; loads of a thread in flight, to those of
 * its keys; the part of the rate that a wave of few blocks reaches. */
MD_FIT(MEMORY_RATE, 0.8)
MD_FIT(FULL_FLIGHT_KB, 96)
MD_FIT(LOADS_AHEAD, 1.5)
MD_FIT(LEAST_USE, 0.25)

/* A key and a value of a row are two operations an element. Unpacking and exchanging take those of so many rows. */
MD_FIT(UNPACKING_ROWS, 1.5)
MD_FIT(OPS_RATE, 0.6)

#endif
