/* Constants of the cost model of sweeps on a CPU: pointwise, gather, scatter, transpose.
 * `tools/fit sweep --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: pointwise gather scatter scatter_bins transpose nest_lanes
 * Source: a Xeon with two cores, November 2025 and 2026 (data/results/sweeps.md) */
#ifndef MD_FAMILY_HOST_POINT_SWEEP_FIT_H
#define MD_FAMILY_HOST_POINT_SWEEP_FIT_H

#include "family/fit.h"

/* Cycles: of a row, its start and its end; of an access of a row, and of one of its tail; of a vector besides its
 * accesses and operations. */
MD_FIT(ROW_CYCLES, 12)
MD_FIT(ACCESS_CYCLES, 2)
MD_FIT(TAIL_CYCLES, 12)
MD_FIT(VECTOR_CYCLES, 2)

/* Cycles of a vector's step in a loop over reduced indices: its guard, its loads, what they are multiplied by. */
MD_FIT(STEP_CYCLES, 3)

/* Cycles of a vector that is put together as planned, and of planning it. */
MD_FIT(PLACED_CYCLES, 4)
MD_FIT(PLACING_CYCLES, 300)

/* Cycles of a row whose ends are parts of lines, which nontemporal stores leave to the caches (9 to 13 ns for rows of
 * 28 to 58 f32 on an EPYC, 30 November 2026). */
MD_FIT(PART_CYCLES, 30)

/* Bytes that move besides, relative to the stored ones: lines that are read before they are written; results that
 * would have fitted the cache, but were stored around it. */
MD_FIT(READ_PART, 0.6)
MD_FIT(AROUND_PART, 1.2)

/* Cycles of an element of a tile: of f32, which is transposed in registers, and of other types, which are transposed
 * in memory. */
MD_FIT(TILE_CYCLES, 1)
MD_FIT(TILE_MEMORY_CYCLES, 2.5)

/* Cycles of an element that is read from a line of its own; and where the lines share a few sets of the caches,
 * since their distance is a power of two (0.4 and 7 ns for f32). */
MD_FIT(LINE_CYCLES, 1)
MD_FIT(COLLISION_CYCLES, 20)

/* Scatters: cycles of an element that asks the mask of its lane; us in which a block reads an index; us of a page of
 * bins, which is new in each call. */
MD_FIT(MASK_CYCLES, 1.5)
MD_FIT(INDEX_US, 2e-3)
MD_FIT(PAGE_US, 0.25)

#endif
