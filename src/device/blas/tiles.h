/* The tiles of cuBLASLt's kernels. */
#ifndef MD_DEVICE_BLAS_TILES_H
#define MD_DEVICE_BLAS_TILES_H

#include <stdbool.h>
#include <stdint.h>

/** Rows and columns (column-major, as the library counts) of a tile by its number; false for a number that is none. */
bool md_blas_tile(int32_t *rows, int32_t *columns, uint32_t number);

#endif
