/* A DLPack tensor as an md_tensor, without copying. Include <dlpack/dlpack.h> first, or any header that defines
 * DLTensor and its enumerators (DLPack 0.2 and later: https://github.com/dmlc/dlpack); this header defines nothing
 * of DLPack itself. SPDX-License-Identifier: MIT */
#ifndef MD_DLPACK_H
#define MD_DLPACK_H

#include <md/md.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The dtype of DLPack's (code, bits, lanes), or MD_DTYPE_DEFAULT where there is none. Codes as DLPack numbers them:
 * int 0, uint 1, float 2, bfloat 4, bool 6, float8_e4m3fn 10, float8_e5m2 12. */
static inline md_dtype md_dtype_from_dlpack(int code, int bits, int lanes)
{
    static const struct {
        int code, bits;
        md_dtype dtype;
    } row[] = {{2, 32, MD_F32}, {2, 64, MD_F64}, {2, 16, MD_F16}, {4, 16, MD_BF16},   {0, 32, MD_I32},
               {0, 64, MD_I64}, {1, 8, MD_U8},   {6, 8, MD_BOOL}, {0, 8, MD_I8},      {0, 16, MD_I16},
               {1, 16, MD_U16}, {1, 32, MD_U32}, {1, 64, MD_U64}, {10, 8, MD_F8E4M3}, {12, 8, MD_F8E5M2}};
    size_t i;
    for (i = 0; lanes == 1 && i < sizeof row / sizeof *row; i++)
        if (row[i].code == code && row[i].bits == bits)
            return row[i].dtype;
    return MD_DTYPE_DEFAULT;
}

/** Fills a tensor from the parts of a DLTensor. `strides` in elements, NULL where the tensor is contiguous. @return
 * MD_UNSUPPORTED for a dtype or rank that has no counterpart; *out is written only on success. No message is left. */
static inline md_status md_tensor_from_parts(md_tensor *out, void *data, uint64_t byte_offset, int rank, int code,
                                             int bits, int lanes, const int64_t *shape, const int64_t *strides)
{
    md_dtype dtype = md_dtype_from_dlpack(code, bits, lanes);
    int a;
    if (dtype == MD_DTYPE_DEFAULT || rank < 0 || rank > MD_MAX_RANK)
        return MD_UNSUPPORTED;
    *out = md_tensor_make(data ? (char *)data + byte_offset : NULL, dtype, rank, shape);
    for (a = 0; strides && a < rank; a++)
        out->stride[a] = strides[a];
    return MD_OK;
}

/** `t` is a const DLTensor *; borrowed: the md_tensor is valid as long as its memory is. */
#define md_tensor_from_dlpack(out, t)                                                                                  \
    md_tensor_from_parts((out), (t)->data, (t)->byte_offset, (int)(t)->ndim, (int)(t)->dtype.code,                     \
                         (int)(t)->dtype.bits, (int)(t)->dtype.lanes, (t)->shape, (t)->strides)

#ifdef __cplusplus
}
#endif
#endif
