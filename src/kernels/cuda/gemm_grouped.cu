/* Grouped products of any type: rows of one group are multiplied by the group's own matrix B. group_rows.cu has
 * sorted rows by group and cut them into units before. Each block makes a tile of one unit (simt_tile.h); blocks
 * beyond the last unit have nothing to do. Blocks of neighbouring units run at once, so that those of one group
 * share B in the L2.
 *
 * md_config.h: as simt_tile.h, with groups as batches. md_expr.h: src/codegen/product/product.h and as
 * group_rows.cu. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "grouped.h"
#include "gemm_epilogue.h"
#include "gemm_step.h"
#include "grouped_place.h"
#include "simt_tile.h"

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(128) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    md_place at;
    int64_t depth;
    if (md_grouped_place(&p, &at, &depth))
        md_make_tile(&p, (md_acc *)md_memory, at, 0, depth);
}
