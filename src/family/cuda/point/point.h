/* Pointwise kernels on GPUs, and those that transpose tiles in shared memory. */
#ifndef MD_FAMILY_CUDA_POINT_POINT_H
#define MD_FAMILY_CUDA_POINT_POINT_H

#include "codegen/codegen.h"
#include "family/family.h"
#include "family/point/point.h"

/* ---- point.c */

/* Elementwise stages on a GPU: text, envelope and geometry. */

typedef struct md_fa_cuda_point {
    const char *source; /* the template: "cuda/pointwise.cu" */
    bool is_flat; /* the last indices run as one axis where tensors are contiguous */
    bool is_strided; /* any strides; otherwise those along the lanes must be 1 */
    int32_t unroll, threads;
} md_fa_cuda_point;

/** Prints md_expr.h of cuda/pointwise.cu. */
md_status md_fa_cuda_point_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_point *point);
void md_fa_cuda_point_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_point *point);
/** True if computing its functions keeps an SM as busy as its memory accesses. */
bool md_fa_cuda_point_is_busy(const md_fa_target *target);
void md_fa_cuda_point_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_cuda_point *point,
                               const int64_t *size);
/** True if merging indices changes anything. */
bool md_fa_cuda_point_can_flatten(const md_fa_target *target);
/** 0: all subscripts are indices or come from memory. Else some are computed from indices, and this is the longest step
 * of such reads along the last axis with the lanes' index, at least 1. */
int32_t md_fa_cuda_moved_reads(const md_fa_target *target);
/** True if neighbours along the last axis read the same elements, as where an image is resized. */
bool md_fa_cuda_halved_reads(const md_fa_target *target);
/** Prints "MD_INLINE bool md_has_vectors(const md_params *p) {...}": true if the vectors of these tensors are aligned.
 * The last n_flat axes count as one. */
void md_fa_cuda_print_aligned(md_strbuf *out, const md_st_program *program, uint32_t tensors, int32_t n_flat);
/** Prints an int64 function of the parameters: the product of the sizes of indices. */
void md_fa_cuda_print_count(md_strbuf *out, const char *name, const md_st_program *program, int32_t n,
                            const int32_t *index);
/** Prints `int64_t x<id> = ...;` for each index, from a linear number in the C variable `point`, which is
 * overwritten. */
void md_fa_cuda_print_decode(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index,
                             const char *point);

/* ---- transpose.c */

/* Transposing sweeps on a GPU: tiles in shared memory. */

typedef struct md_fa_cuda_tiling {
    bool is_unaligned; /* for tensors whose rows are not aligned */
    bool is_merged; /* of contiguous tensors: indices before that of lanes or lines run as one with it */
} md_fa_cuda_tiling;

md_status md_fa_cuda_transpose_emit(md_kn_source *out, const md_fa_target *target, md_fa_cuda_tiling tiling);
void md_fa_cuda_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, md_fa_cuda_tiling tiling,
                                   const int64_t *size);

/* ---- slabs.c */

/* Transposes of matrices with a short side: a run of memory of one tensor in shared memory. */

md_status md_fa_cuda_slabs_emit(md_kn_source *out, const md_fa_target *target);
void md_fa_cuda_slabs_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size);
void md_fa_cuda_slabs_envelope(md_kn_envelope *out, const md_fa_target *target);
/** True if the stage is such a copy, and its shorter side short enough; `size` NULL: at some sizes. */
bool md_fa_cuda_slabs_fit(const md_fa_target *target, const int64_t *size);

#endif
