/* Constants of the cost model of cells, and of what the families that move vectors lose on its stages.
 * `tools/fit cells --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: cells
 * Source: an H200, 30 November 2026: ten operations on images in bf16 and f32, 20 configs each (images-2).
 * Error: of the picks 4% over the best of the 20, on average over the 20 operations */
#ifndef MD_FAMILY_CUDA_POINT_CELLS_FIT_H
#define MD_FAMILY_CUDA_POINT_CELLS_FIT_H

#include "family/fit.h"

/* Instructions of a thread, to find its place; of a point of the planes around; of an element, its reads and its
 * operations. */
MD_FIT(PLACE, 70)
MD_FIT(POINT, 60)
MD_FIT(CELL, 2)
MD_FIT(READ, 7)
MD_FIT(OPERATION, 0.5)

/* The part of a copy's rate that memory gives; lines of the L1, relative to one a cycle, and of stores of single
 * elements, relative to a read's; us of the first and last blocks. */
MD_FIT(MEMORY, 0.8)
MD_FIT(LINES, 1)
MD_FIT(SINGLE_LINES, 3)
MD_FIT(START, 0.5)

#endif
