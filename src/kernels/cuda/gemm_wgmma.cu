/* Products on Hopper's tensor cores. TMA brings tiles into a ring of stages; one warpgroup issues the copies, one or
 * two compute. Cooperative: the computing warpgroups share a tile by rows. Ping-pong: they take tiles alternately, so
 * that the epilogue of one overlaps the products of the other. The grid is persistent. A cluster of two shares an
 * operand by multicast; or the blocks of a cluster split K and add their sums through each other's shared memory.
 * Swapped: the tile is one of the transposed product, so its rows are columns of the result.
 *
 * md_config.h:
 *   MD_BM, MD_BN                the tile
 *   MD_SWAPPED                  1: the tile's rows are columns of the result, and its columns are rows
 *   MD_STAGES, MD_DEEP          stages of the ring; 128-byte steps of K in a stage
 *   MD_CONSUMERS, MD_PINGPONG   computing warpgroups (1 or 2); whether they take tiles alternately
 *   MD_CLUSTER, MD_SHARE_A      blocks that share an operand (1, 2); whether they run along the columns and share A,
 *                               else along the rows and share B
 *   MD_ALONG_0, MD_ALONG_1      1: the operand is contiguous along K, 2: along its rows
 *   MD_BATCH_0, MD_BATCH_1      0: the operand has no batch
 *   MD_RASTER                   rows of tiles walked together
 *   MD_OPERAND_BYTES            2, or 4: tf32, along K
 *   MD_EARLY                    bytes of B that a block asks for before it waits for earlier launches
 *   MD_SHRINKS                  no more rows are copied than exist, if they are fewer than a tile has
 *   MD_READS                    the epilogue in registers reads tensors along the columns
 *   MD_LOW, MD_HIGH             registers of copying and computing threads
 *   MD_PANEL, MD_PANELS         columns of a buffer of results; buffers of a warp
 *   MD_RESULT                   epilogue: 1 in registers, results by TMA; 2 in registers, results by words at any even
 *                               address; 0 by md_store_tile
 *   MD_ROLLED_PANELS            a loop over panels instead of a text for each
 *   MD_SPLIT                    slices of K
 *   MD_CLUSTER_REDUCE           1: the slices of a tile are a cluster; 0: they go to the workspace
 *   md_wgmma(acc, a, b)         the instruction for the tile's columns
 * md_expr.h: src/codegen/product/product.h; md_params begins with md_tensor_map of A, B, the second B where there is
 * one, and the results with MD_RESULT. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"

#include "gemm_wgmma_copy.h"

#include "gemm_wgmma_multiply.h"

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map3
#else
#define MD_MAP_OF_RESULT map2
#endif

#include "gemm_wgmma_epilogue.h"

#include "gemm_wgmma_produce.h"
#include "gemm_wgmma_run.h"
