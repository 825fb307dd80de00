/* Elementwise stages on a GPU: the text and geometry that pointwise, gather and scatter share. */
#ifndef MD_FAMILY_CUDA_POINT_POINT_H
#define MD_FAMILY_CUDA_POINT_POINT_H

#include "codegen/codegen.h"
#include "family/family.h"

typedef struct md_fa_cuda_point {
    const char *source; /* the template: "cuda/pointwise.cu" */
    bool is_flat; /* merge the last indices into one axis: contiguous tensors */
    bool is_strided; /* any strides; else those of vectors must be 1 */
    int32_t unroll, threads;
} md_fa_cuda_point;

/** The printed functions of md_expr.h of cuda/pointwise.cu. */
md_status md_fa_cuda_point_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_point *point);
void md_fa_cuda_point_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_point *point);
/** Whether its functions keep an SM as busy as its memory. */
bool md_fa_cuda_point_is_busy(const md_fa_target *target);
void md_fa_cuda_point_geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_cuda_point *point,
                               const int64_t *size);
/** Whether merging changes anything. */
bool md_fa_cuda_point_can_flatten(const md_fa_target *target);
/** Prints that the vectors of these tensors are aligned: "MD_INLINE bool md_has_vectors(const md_params *p) {...}".
 * `n_flat` axes at the end are one. */
void md_fa_cuda_print_aligned(md_strbuf *out, const md_st_program *program, uint32_t tensors, int32_t n_flat);
/** Prints an int64 function of the parameters: the product of the sizes of indices. */
void md_fa_cuda_print_count(md_strbuf *out, const char *name, const md_st_program *program, int32_t n,
                            const int32_t *index);
/** `int64_t x<id> = ...;` from a linear number in the C variable `point`, which this uses up; divisions are short
 * where the numbers are. */
void md_fa_cuda_print_decode(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *index,
                             const char *point);

#endif
