/* Products of 16-bit operands on tensor cores by mma.sync, from sm_80 on: any layout, any size, any alignment. Each
 * block makes a tile of one product of the batch (mma_tile.h).
 *
 * md_config.h: as mma_tile.h, and MD_SPLIT, MD_RASTER. md_expr.h: src/codegen/product.h. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "mma_tile.h"

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(128) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_RASTER);
    int64_t from, to;
    md_span_of(&p, at.batch, &from, &to);
    const int64_t blocks = (to - from + BK - 1) / BK;
    md_make_tile(&p, md_memory, at, from + blocks * at.slice / MD_SPLIT * BK,
                 md_least(from + blocks * (at.slice + 1) / MD_SPLIT * BK, to));
}
