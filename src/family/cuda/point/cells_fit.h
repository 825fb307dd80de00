/* Constants of the cost model of cells, and of what the families that move vectors lose on its stages.
 * `tools/fit cells --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: cells
 * Source: an H200, 30 November 2026: ten operations on images in bf16 and f32, 37 to 43 configs each (images-2, -4,
 *   -5).
 * Error: of the picks 2.7% over the best of them, on average over the 20 operations, 12% at worst (fold of bf16) */
#ifndef MD_FAMILY_CUDA_POINT_CELLS_FIT_H
#define MD_FAMILY_CUDA_POINT_CELLS_FIT_H

#include "family/fit.h"

/* Instructions of a thread, to find its place; of a point of the planes around; of an element, its reads and its
 * operations. _ROW: of vectors that end with rows. */
MD_FIT(PLACE, 29.1)
MD_FIT(POINT, 73.1)
MD_FIT(CELL, 3.39)
MD_FIT(READ, 7.42)
MD_FIT(OPERATION, 0.254)
MD_FIT(PLACE_ROW, 85)
MD_FIT(POINT_ROW, 42.8)
MD_FIT(READ_ROW, 4.92)
MD_FIT(OPERATION_ROW, 0.128)

/* The part of the reads that a thread makes where neighbours read the same elements: of long vectors, and what is more
 * of each vector; the part of the operations that falls with them. */
MD_FIT(SHARED, 0.146)
MD_FIT(SHARED_END, 0.873)
MD_FIT(SHARED_OPERATIONS, 0.019)

/* The part of a copy's rate that memory gives; what runs of points take longer, where a reduction does not hide it;
 * lines of the L1, relative to one a cycle, and of stores of single elements and of pieces of rows, relative to a
 * read's; us of the first and last blocks. */
MD_FIT(MEMORY, 1)
MD_FIT(RUNS, 1.076)
MD_FIT(LINES, 0.811)
MD_FIT(SINGLE_LINES, 4.69)
MD_FIT(PIECE_LINES, 1.13)
MD_FIT(START, 0.3)

#endif
