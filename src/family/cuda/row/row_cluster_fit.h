/* Constants of the cost model of row_cluster.
 * `tools/fit row_cluster` judges them by recorded times, and fits them.
 *
 * Families: row_cluster
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 28 November 2026, H100 and H200: 15.5% root mean square of log(model / recorded), picks lose 0.7%, 50 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_CLUSTER_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_CLUSTER_FIT_H

#include "family/fit.h"

/* What a ring adds to the time of memory if it lacks room for one row more than the row at work, for the whole of
 * that row. */
MD_FIT(SHORT_RING, 0.25)

/* The exponent of the p-norm of memory, instructions and waiting. */
MD_FIT(NORM, 2.3)

/* How many times its share of the memory rate an SM can take if others are idle. */
MD_FIT(BURST, 3)

/* The launch, us. Of a row on its way through its cluster, us: each exchange, and the stores. A turn's memory,
 * instructions and waiting overlap with those of others; in the first turn and the last one they add up. */
MD_FIT(START_US, 1.05)
MD_FIT(EXCHANGE_US, 0.7)
MD_FIT(STORE_US, 1)
MD_FIT(LONE_TURNS, 2)

/* Instructions: of a pass over a chunk, besides those of elements; an exponential, and one for 16-bit results. They
 * were counted in what the compiler made. */
MD_FIT(CHUNK_SLOTS, 2)
MD_FIT(EXP_SLOTS, 6.5)
MD_FIT(SHORT_EXP_SLOTS, 2)

/* A row waits for its own instructions, which so many threads issue as fast as an SM can. */
MD_FIT(FULL_LANES, 256)

#endif
