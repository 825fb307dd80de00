/* Products on Hopper's tensor cores whose rows of operand A lie anywhere: windows of a tensor, as in a convolution;
 * rows of groups, each multiplied by the group's own matrix; rows that a look-up finds. As gemm_wgmma.cu, but a
 * warpgroup copies operand A, piece by piece, and the copy engine the operands over the columns only. Rows of groups
 * were sorted before (group_rows.cu) or are sorted here; the tiles are those of the units that the device counted.
 *
 * md_config.h: as gemm_wgmma.cu, with MD_SWAPPED 0, MD_CLUSTER 1, operand A along K and MD_RESULT 0 or 1; with
 * MD_GROUPED, groups are batches; MD_SORTS_HERE: as group_here.h. MD_PICKS: there are two tiles, of which the device
 * picks one when rows are counted (pick_tile.h, gemm_wgmma_second.h); MD_SECOND_* are the second one's values.
 * md_expr.h: src/codegen/product/product.h; md_params begins with md_tensor_map of B, the second B where there is one,
 * and the results with MD_RESULT; with MD_PICKS, of B and the second B for each tile. */
#include "md_config.h"
#define MD_GATHERS 1
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#ifdef MD_GROUPED
#include "grouped.h"
#ifdef MD_PICKS
#include "pick_tile.h"
#endif
#include "group_here.h"
#endif
#include "gemm_epilogue.h"
#include "rows_apart.h"
#include "wgmma.h"

#ifdef MD_PICKS
enum { MOST_THREADS = 128 * (MD_CONSUMERS + 1) };
namespace md_first
{
#endif
#include "gemm_wgmma_gathered.h"
#ifdef MD_PICKS
}
#include "gemm_wgmma_second.h"
namespace md_second
{
#include "gemm_wgmma_gathered.h"
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    md_wait_for_launches(); /* they count the tiles */
    const int units = md_units_of(p);
    if (md_picked(p, units))
        md_second::md_make_tiles(p, md_memory, units);
    else
        md_first::md_make_tiles(p, md_memory, units);
}
#endif
