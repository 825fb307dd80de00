/* Cells: what the family and its text share. */
#ifndef MD_FAMILY_CUDA_POINT_CELLS_H
#define MD_FAMILY_CUDA_POINT_CELLS_H

#include "codegen/codegen.h"
#include "family/family.h"

/* Fields of a config. Rows: vectors end with them, and a thread has a run of the points around; whole: rows are so many
 * vectors. */
enum {
    MD_FA_CELLS_LANES,
    MD_FA_CELLS_STEPS,
    MD_FA_CELLS_PLANE,
    MD_FA_CELLS_THREADS,
    MD_FA_CELLS_STRIDED,
    MD_FA_CELLS_ROWS,
    MD_FA_CELLS_WHOLE
};

/* The indices, slowest first, as the kernel has them: those of blocks, that of the planes, those of a plane. */
typedef struct md_fa_cells_form {
    int32_t n, all[MD_MAX_RANK * 2 + 1];
    int32_t n_outer, step, n_inner; /* step: -1 where there is none */
} md_fa_cells_form;

md_fa_cells_form md_fa_cells_form_of(const md_fa_target *target, const md_fa_config *config);
/** The plane's indices. */
const int32_t *md_fa_cells_inner(const md_fa_cells_form *f);
/** The tensors that are read. */
uint32_t md_fa_cells_loaded(const md_st_stage *st);
/** The largest of some sizes up to which all integers of the stage have 32 bits; 0: none. */
int64_t md_fa_cells_narrow_size(const md_fa_target *target);
md_status md_fa_cells_emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config);

#endif
