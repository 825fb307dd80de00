/* Constants of the cost model of cells, and of what the families that move vectors lose on its stages.
 * `tools/fit cells --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: cells
 * Source: an H200, 30 November 2026: ten operations on images in bf16 and f32, 37 to 43 configs each (images-2, -4,
 *   -5, -6).
 * Error: of the picks 2.5% over the best of them, on average over the 20 operations, 5.5% at worst */
#ifndef MD_FAMILY_CUDA_POINT_CELLS_FIT_H
#define MD_FAMILY_CUDA_POINT_CELLS_FIT_H

#include "family/fit.h"

/* Instructions of a thread, to find its place; of a point of the planes around; of an element, its reads and its
 * operations; of a plane's addresses. _ROW: of vectors that end with rows. */
MD_FIT(PLACE, 35.1)
MD_FIT(POINT, 59)
MD_FIT(CELL, 1.82)
MD_FIT(READ, 9.47)
MD_FIT(OPERATION, 0.071)
MD_FIT(PLACE_ROW, 205)
MD_FIT(POINT_ROW, 7.61)
MD_FIT(READ_ROW, 1.99)
MD_FIT(OPERATION_ROW, 0.131)
MD_FIT(PLANE_ROW, 6.62)

/* The part of the reads that a thread makes where neighbours read the same elements: of long vectors, and what is more
 * of each vector; the part of the operations that falls with them. */
MD_FIT(SHARED, 0.064)
MD_FIT(SHARED_END, 1.054)
MD_FIT(SHARED_OPERATIONS, 0.001)

/* The part of a copy's rate that memory gives; what runs of points take longer, where a reduction does not hide it;
 * lines of the L1, relative to one a cycle, and of stores of single elements and of pieces of rows, relative to a
 * read's; us of the first and last blocks. */
MD_FIT(MEMORY, 1)
MD_FIT(RUNS, 1.1)
MD_FIT(LINES, 0.619)
MD_FIT(SINGLE_LINES, 6.27)
MD_FIT(PIECE_LINES, 3.62)
MD_FIT(START, 0.3)

/* us: of each instruction of a thread, of which the last ones wait. */
MD_FIT(LENGTH, 0.002)

#endif
