/* Constants of the cost model of gather and scatter on GPUs.
 * `tools/fit gather_scatter --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: gather scatter
 * Source: an H200, November 2026 (data/results/sweeps.md) */
#ifndef MD_FAMILY_CUDA_POINT_GATHER_SCATTER_FIT_H
#define MD_FAMILY_CUDA_POINT_GATHER_SCATTER_FIT_H

#include "family/fit.h"

/* The part of the memory rate that rows without alignment reach; the bytes that an element moves in vain if it is
 * loaded alone. */
MD_FIT(UNALIGNED_RATE, 0.93)
MD_FIT(STRIDED_BYTES, 16)

/* Operations: of a lane for each item, for each vector, of an access that is no vector, and of an atomic
 * addition. */
MD_FIT(ITEM_OPS, 400)
MD_FIT(VECTOR_OPS, 100)
MD_FIT(SCATTERED_OPS, 6)
MD_FIT(ATOMIC_OPS, 24)

/* Parts of the memory rate: groups of 4 lanes, which read half lines; 4 vectors a lane; what each vector of a thread
 * beyond the fourth costs, since fewer threads fit an SM. */
MD_FIT(FEW_LANES, 0.55)
MD_FIT(MANY_ITEMS, 0.95)
MD_FIT(VECTOR_PART, 0.02)

/* us: latency of an index and then of the data. */
MD_FIT(LATENCY_US, 0.8)

/* Where blocks own ranges of the target: the part of the memory rate; us of the launch, and of each row, whose index
 * every block reads. */
MD_FIT(OWNED_RATE, 0.5)
MD_FIT(OWNED_US, 2)
MD_FIT(OWNED_ROW_US, 4e-3)

/* What is lost where places are computed: in 16 bits and less, in rows of other types whose vectors are not whole, and
 * in whole ones (resizing and pads of an H200, 30 November 2026). */
MD_FIT(MOVED_NARROW, 2.5)
MD_FIT(MOVED_RAGGED, 2.2)
MD_FIT(MOVED_WHOLE, 1.3)

/* Of that, by each read of several (bilinear resizing, four reads: 98 us of an H200 where one read takes 42). */
MD_FIT(MOVED_LOADS, 0.6)

#endif
