/* Products of any type without tensor cores. Each block makes a tile of one product of the batch (simt_tile.h).
 * md_config.h: as simt_tile.h, and MD_SPLIT, MD_RASTER. md_expr.h: src/codegen/product/product.h. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "gemm_step.h"
#include "simt_tile.h"

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    extern __shared__ __align__(16) unsigned char md_memory[];
    const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_RASTER);
    int64_t from, to;
    md_span_of(&p, at.batch, &from, &to);
    const int64_t blocks = (to - from + MD_BK - 1) / MD_BK;
    md_make_tile(&p, (md_acc *)md_memory, at, from + blocks * at.slice / MD_SPLIT * MD_BK,
                 md_least(from + blocks * (at.slice + 1) / MD_SPLIT * MD_BK, to));
}
