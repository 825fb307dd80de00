/* What row_split.c and its cost share. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SPLIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SPLIT_H

#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

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

md_fa_cuda_cut md_fa_cuda_split_cut_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size);
/** Registers of a thread that holds epilogue operands of `early` vectors. */
int32_t md_fa_cuda_split_registers(const md_fa_target *target, const md_fa_config *config, int32_t early);
/** Registers that a thread may have with as many blocks an SM as the config says. */
int32_t md_fa_cuda_split_register_limit(const md_fa_target *target, const md_fa_config *config);
void md_fa_cuda_split_features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                               const int64_t *size);

#endif
