/* What the files of family row_split share. */
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
/* How the blocks of a row exchange their partial results: through memory, while all of them run; through the shared
 * memory of a cluster; the last block to arrive combines them; or a second launch does. */
enum { MD_FA_SPLIT_BY_GRID, MD_FA_SPLIT_BY_CLUSTER, MD_FA_SPLIT_BY_TICKET, MD_FA_SPLIT_BY_LAUNCH };

/* How rows are divided among blocks. */
typedef struct md_fa_cuda_cut {
    int64_t rows;
    int32_t blocks; /* blocks of a group, which works on one row at a time */
    int64_t groups;
} md_fa_cuda_cut;

/* MOST_BLOCKS is the number of blocks of all groups: the layout of the counters in kernels/cuda/exchange.h depends on
 * it. */
enum { MOST_BLOCKS = 512, MOST_STATE_BYTES = 64, OTHER_REGISTERS = 24, MOST_ROWS_OF_GRID = 65535, SHORT_ROW = 512 };
enum { OTHER_SHARED = 3072 }; /* most shared memory of a block without weights, bytes */

md_cg_row_options md_fa_cuda_split_options(const md_fa_target *target, const md_fa_config *config);
/** Elements of a row that a block holds at a time. */
int64_t md_fa_cuda_split_elements(const md_fa_target *target, const md_fa_config *config);
/** Registers of a thread for one vector: what all passes use, and what only the stores do. */
void md_fa_cuda_split_count_registers(int32_t *all, int32_t *epilogue, const md_fa_target *target,
                                      const md_fa_config *config);
/** Most blocks of a group, so that all blocks of a group run at once. */
int32_t md_fa_cuda_split_most_blocks(const md_fa_target *target, const md_fa_config *config);
md_fa_cuda_cut md_fa_cuda_split_cut_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
/** Estimated registers of a thread that loads the epilogue operands of `early` vectors before it needs them. */
int32_t md_fa_cuda_split_registers(const md_fa_target *target, const md_fa_config *config, int32_t early);
/** Registers that a thread may have with as many blocks an SM as the config says. */
int32_t md_fa_cuda_split_register_limit(const md_fa_target *target, const md_fa_config *config);
void md_fa_cuda_split_fix(md_fa_fixed *out, const md_fa_target *target, const md_fa_config *config);
void md_fa_cuda_split_features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                               const int64_t *size);

#endif
