/* What the files of row_split share. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SPLIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SPLIT_H

#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

#include "codegen/row/reduce.h"

/* Fields of a config. */
enum {
    MD_FA_SPLIT_EXCHANGE,
    MD_FA_SPLIT_THREADS,
    MD_FA_SPLIT_VECTORS,
    MD_FA_SPLIT_BLOCKS_PER_SM,
    MD_FA_SPLIT_BLOCKS,
    MD_FA_SPLIT_KEEP,
    MD_FA_SPLIT_ALIGN
};
/* How the blocks of a row exchange their parts: through memory, all running at once; through the shared memory of a
 * cluster; the last block to arrive combines them; or a second launch does. */
enum { MD_FA_SPLIT_BY_GRID, MD_FA_SPLIT_BY_CLUSTER, MD_FA_SPLIT_BY_TICKET, MD_FA_SPLIT_BY_LAUNCH };

/* Into how many blocks rows are cut. */
typedef struct md_fa_cuda_cut {
    int64_t rows;
    int32_t blocks; /* of a group, which has one row at a time */
    int64_t groups;
} md_fa_cuda_cut;

/* The layout of the counters is that of kernels/cuda/exchange.h: so many blocks in all groups of one size. */
enum { MOST_BLOCKS = 512, MOST_STATE_BYTES = 64, OTHER_REGISTERS = 24, MOST_ROWS_OF_GRID = 65535, SHORT_ROW = 512 };
enum { OTHER_SHARED = 3072 }; /* bytes that a block has besides weights, at most */

md_cg_row_options md_fa_cuda_split_options(const md_fa_target *target, const md_fa_config *config);
/** Elements of a row that a block holds at a time. */
int64_t md_fa_cuda_split_elements(const md_fa_target *target, const md_fa_config *config);
/** Registers of a thread for one vector: what all passes use, and what only the stores do. */
void md_fa_cuda_split_count_registers(int32_t *all, int32_t *epilogue, const md_fa_target *target,
                                      const md_fa_config *config);
/** Blocks of a group at most, so that groups of them run at once. */
int32_t md_fa_cuda_split_most_blocks(const md_fa_target *target, const md_fa_config *config);
md_fa_cuda_cut md_fa_cuda_split_cut_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
/** Registers of a thread that holds epilogue operands of `early` vectors. */
int32_t md_fa_cuda_split_registers(const md_fa_target *target, const md_fa_config *config, int32_t early);
/** Registers that a thread may have with as many blocks an SM as the config says. */
int32_t md_fa_cuda_split_register_limit(const md_fa_target *target, const md_fa_config *config);
void md_fa_cuda_split_features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                               const int64_t *size);

#endif
