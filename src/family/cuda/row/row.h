/* What the row families of GPUs share: text, envelope, geometry and cost of a row program whose rows belong to
 * groups of threads. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_H
#define MD_FAMILY_CUDA_ROW_ROW_H

#include "codegen/row/row.h"
#include "family/family.h"

/* How lanes move through memory: vectors that the envelope promises to be aligned; vectors whose place is found at
 * run time; any strides. */
typedef enum md_fa_cuda_align { MD_FA_CUDA_ALIGNED, MD_FA_CUDA_ANY, MD_FA_CUDA_STRIDED } md_fa_cuda_align;

typedef struct md_fa_cuda_row {
    const char *source; /* the template: "cuda/row_looped.cu" */
    int32_t lanes; /* threads of a row: up to 32 a power of 2, above that warps */
    int32_t vectors; /* 16-byte vectors of a thread on their way at once */
    int32_t rows; /* of a block */
    md_fa_cuda_align align;
    bool keeps; /* dear values stay in registers between passes */
    bool merges; /* chunks are merged where the program allows it */
    bool is_resident; /* a row is read once: it must fit its threads */
    /* how many blocks of an SM the compiler makes room for: 0 as many as fit; 1 half of them, so that a thread may
     * have more registers; 2 one */
    int32_t occupancy;
} md_fa_cuda_row;

/** Whether the stage is a row program that these families can run at all. */
bool md_fa_cuda_row_applies(const md_fa_target *target);
/** Whether contiguous tensors of these sizes are aligned as an envelope can promise. */
bool md_fa_cuda_row_is_aligned(const md_fa_target *target, const int64_t *size);
/** Whether tensors of these sizes are aligned as the configuration asks, and a block finds the registers that it
 * needs: a family asks last, since counting takes long. */
bool md_fa_cuda_row_fits(const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size);
/** True if `occupancy` changes the kernel: it names another number of blocks than smaller values do. */
bool md_fa_cuda_row_has_occupancy(const md_fa_target *target, const md_fa_cuda_row *row);
/** Registers of a thread, about. */
int32_t md_fa_cuda_row_registers(const md_fa_target *target, const md_fa_cuda_row *row);
/** What the printer is told. */
md_cg_row_options md_fa_cuda_row_options(const md_fa_target *target, const md_fa_cuda_row *row);
int64_t md_fa_cuda_row_blocks(const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size);
/** Whether nothing of f32 or wider is stored: exponentials then need fewer bits. */
bool md_fa_cuda_row_is_short(const md_fa_target *target);
/** Whether some value is dear enough to be kept. */
bool md_fa_cuda_row_can_keep(const md_fa_target *target);
/** Whether there are loads that all rows share and that only stores want. */
bool md_fa_cuda_row_has_epilogue_loads(const md_fa_target *target);
md_status md_fa_cuda_row_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_row *row);
void md_fa_cuda_row_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_row *row);
void md_fa_cuda_row_geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_cuda_row *row,
                             const md_kn_shape *shape);
/** The numeric class: with merged chunks or without, of vectors whose place is found at run time or not. */
md_fa_class md_fa_cuda_row_class(bool has_chunks, bool is_placed);
/** How many times their bytes loads along the axis cost: 1 where neighbours along it are neighbours in memory. */
double md_fa_cuda_row_apart(const md_fa_target *target);
void md_fa_cuda_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row *row,
                             const int64_t *size);

#endif
