/* Constants of the cost model of chains on a CPU.
 * `tools/fit host_chain --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: chain
 * Source: estimates for a Xeon with 512-bit registers */
#ifndef MD_FAMILY_HOST_CHAIN_HOST_CHAIN_FIT_H
#define MD_FAMILY_HOST_CHAIN_HOST_CHAIN_FIT_H

#include "family/fit.h"

/* Cycles of a vector of scores beside the products: of all, of an operation, of an exponential or its like. */
MD_FIT(SCORE_CYCLES, 4)
MD_FIT(OP_CYCLES, 0.6)
MD_FIT(EXP_CYCLES, 9)

/* Where keys are packed, cycles: of a vector of products for a third of the rows that registers hold; of packing a
 * vector of keys, and one of values; of a vector of queries. */
MD_FIT(PRODUCT_CYCLES, 0.56)
MD_FIT(KEY_PACK_CYCLES, 9)
MD_FIT(VALUE_PACK_CYCLES, 4)
MD_FIT(QUERY_CYCLES, 4)
/* Of a block of keys, and of each of its rows; of a row of the result, and of each of its vectors. */
MD_FIT(BLOCK_CYCLES, 100)
MD_FIT(BLOCK_ROW_CYCLES, 30)
MD_FIT(RESULT_CYCLES, 60)
MD_FIT(RESULT_VECTOR_CYCLES, 8)
/* Keys that a tile packs in vain where bounds cut it, over its rows. */
MD_FIT(CUT_PART, 0.25)

/* Keys where they lie, cycles. Of a vector of a score's product, and of a score; of a vector of values, and for each
 * row; of a key in each run of columns. */
MD_FIT(FEW_SCORE_VECTOR_CYCLES, 0.9)
MD_FIT(FEW_SCORE_CYCLES, 5.5)
MD_FIT(FEW_VALUE_CYCLES, 0.7)
MD_FIT(FEW_VALUE_ROW_CYCLES, 0.55)
MD_FIT(FEW_RUN_CYCLES, 3)
/* Of a split, and of each column of its results; of a vector where splits meet. */
MD_FIT(SPLIT_CYCLES, 300)
MD_FIT(SPLIT_COLUMN_CYCLES, 0.25)
MD_FIT(MEET_CYCLES, 4)

#endif
