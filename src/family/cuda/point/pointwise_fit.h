/* Constants of the cost model of pointwise on GPUs.
 * `tools/fit pointwise` judges them by recorded times, and fits them.
 *
 * Families: pointwise
 * Source: tiles, and loads without vectors: an H200, November 2026
 * Runs: data/boards/recorded/add_bf16.jsonl data/boards/recorded/gelu_f32.jsonl
 * Fit: 29 November 2026, H200: seed 1, 73630 steps: 10.6% root mean square of log(model / recorded), picks lose
 *   1.8%, 584 times. */
#ifndef MD_FAMILY_CUDA_POINT_POINTWISE_FIT_H
#define MD_FAMILY_CUDA_POINT_POINTWISE_FIT_H

#include "family/fit.h"

/* Bytes that move in vain, relative to the elements of a transposed load without tiles, each lane of which fetches a
 * sector: of 16-bit and of 32-bit elements (4.2 and 8.6 times a copy's time). */
MD_FIT(TRANSPOSED_NARROW, 7.6)
MD_FIT(TRANSPOSED, 3.2)

/* The same for elements that are loaded one by one: 16-bit ones keep the L1 busy (3.6 times a copy's time; 1.1 times
 * for 32 bits). */
MD_FIT(SINGLE_NARROW, 1.302)
MD_FIT(SINGLE, 0.1556)

/* The rate of tiles relative to a copy, for contiguous tensors: all rows aligned; rows of the transposed tensor not;
 * rows of the output not. Of 32-bit and of 16-bit elements, by the variant for aligned rows and by the other one. */
MD_FIT_LIST(TILE_ALIGNED, 0.93, 0.74, 0.70)
MD_FIT_LIST(TILE_ANY, 0.84, 0.80, 0.84)
MD_FIT_LIST(TILE_NARROW_ALIGNED, 0.88, 0.66, 0.58)
MD_FIT_LIST(TILE_NARROW_ANY, 0.80, 0.63, 0.72)

/* The rate of slabs, which falls with the elements of the short side (H200, 30 November: a filter of 512 x 512 x 3 x 3
 * some 4 us; with 196 elements half as fast as tiles); the part of a tile's time that goes with the elements in it, a
 * guess. */
MD_FIT(SLAB_RATE, 0.7)
MD_FIT(SLAB_SIDE, 64.0)
MD_FIT(TILE_USED, 0.25)

/* us: beyond a launch. */
MD_FIT(START, 0.6432)

/* us: of blocks that divide to find their row, though they need not. */
MD_FIT(DIVIDE, 0.4041)

/* Blocks that an SM begins in a us: small ones with one vector a thread are over sooner (f32, 128 threads). */
MD_FIT(BLOCKS, 6.209)

/* The part of the memory rate that is reached, and that each doubling of the vectors of a thread costs, since blocks
 * end later. */
MD_FIT(RATE, 0.8968)
MD_FIT(DOUBLING_PART, 0.02146)

/* Where bodies keep the SM busy (bias and gelu of bf16): the part of the rate with one vector a thread, and with
 * blocks that have not 128 threads. */
MD_FIT(BUSY_ONE, 0.87)
MD_FIT(BUSY_LARGE, 0.97)

/* What rows lose whose reads are at computed places: where their vectors are not whole, where elements lie apart
 * (pads and pools of an H200, 30 November 2026: 2 to 2.6, 1.3). */
MD_FIT(MOVED_RAGGED, 2.5)
MD_FIT(MOVED_STEPS, 1.3)

#endif
