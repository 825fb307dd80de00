/* Products on Hopper's tensor cores whose rows of operand A lie anywhere: windows of a tensor, as in a convolution;
 * rows of groups, each multiplied by the group's own matrix; rows that a look-up finds. As gemm_wgmma.cu, but a
 * warpgroup copies operand A, piece by piece, and the copy engine the operands over the columns only. Rows of groups
 * were sorted before (group_rows.cu) or are sorted here; the tiles are those of the units that the device counted.
 *
 * md_config.h: as gemm_wgmma.cu, with MD_SWAPPED 0, MD_CLUSTER 1, operand A along K and MD_RESULT 0 or 1; with
 * MD_GROUPED, groups are batches; MD_SORTS_HERE: as group_here.h. md_expr.h: src/codegen/product/product.h; md_params
 * begins with md_tensor_map of B, the second B where there is one, and the results with MD_RESULT. */
#include "md_config.h"
#define MD_GATHERS 1
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#ifdef MD_GROUPED
#include "grouped.h"
#ifdef MD_SORTS_HERE
#include "group_here.h"
#endif
#endif
#include "gemm_epilogue.h"
#include "rows_apart.h"
#include "wgmma.h"

#include "gemm_wgmma_copy.h"

#include "gemm_wgmma_multiply.h"

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map2
#else
#define MD_MAP_OF_RESULT map1
#endif

#include "gemm_wgmma_epilogue.h"

#include "gemm_wgmma_gather.h"
#include "gemm_wgmma_run.h"
