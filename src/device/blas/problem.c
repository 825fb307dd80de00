/* Products as cuBLASLt is told about them, and their launch. */
#include "device/blas/internal.h"

#if MD_HAVE_CUDA

enum {
    COMPUTE_F32 = 68,
    COMPUTE_F64 = 70,
    COMPUTE_TF32 = 77,
    REAL_F32 = 0,
    REAL_F64 = 1,
    REAL_F16 = 2,
    REAL_BF16 = 14
};
enum { LAYOUT_BATCH = 5, LAYOUT_STRIDE = 6 };
enum { EPILOGUE_NONE = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 }; /* bits except the first */

static int real_of(int32_t dtype)
{
    return dtype == MD_F32 ? REAL_F32 : dtype == MD_F64 ? REAL_F64 : dtype == MD_F16 ? REAL_F16 : REAL_BF16;
}

/* Matrix `which` (A, B, C) of a product; with columns first it is inner by outer elements. */
static void *make_layout(const md_blas_functions *f, const md_dev_cuda_gemm *gemm, int32_t which, int64_t inner,
                         int64_t outer)
{
    void *layout = NULL;
    int32_t batch = (int32_t)gemm->batch;
    const int32_t dtype = which == 2 ? gemm->out : gemm->in;
    if (f->layout_create(&layout, real_of(dtype), (uint64_t)inner, (uint64_t)outer, gemm->leading[which]))
        return NULL;
    if (batch > 1) {
        (void)f->layout_set(layout, LAYOUT_BATCH, &batch, sizeof batch);
        (void)f->layout_set(layout, LAYOUT_STRIDE, &gemm->stride[which], sizeof gemm->stride[which]);
    }
    return layout;
}

/* An address for the bias until a call has one. The heuristic looks at its alignment: at 8 bytes its answers take up to
 * 28 times as long. Variants with a bias promise 16 bytes (the envelope of gemm_lib). */
enum { ANY_ADDRESS = 16 };

/* Transposes and the epilogue. */
static void describe(const md_blas_functions *f, md_blas_problem *p, const md_dev_cuda_gemm *gemm)
{
    const int32_t transposed = 1;
    const uint32_t epilogue = gemm->epilogue ? (gemm->epilogue & MD_DEV_CUDA_GEMM_BIAS ? EPILOGUE_BIAS : 0) |
                                                   (gemm->epilogue & MD_DEV_CUDA_GEMM_GELU ? EPILOGUE_GELU : 0) |
                                                   (gemm->epilogue & MD_DEV_CUDA_GEMM_RELU ? EPILOGUE_RELU : 0)
                                             : EPILOGUE_NONE;
    const void *const any = (const void *)(uintptr_t)ANY_ADDRESS;
    if (!gemm->along_rows[1])
        (void)f->desc_set(p->desc, MD_BLAS_DESC_TRANSA, &transposed, sizeof transposed);
    if (gemm->along_rows[0])
        (void)f->desc_set(p->desc, MD_BLAS_DESC_TRANSB, &transposed, sizeof transposed);
    if (gemm->epilogue)
        (void)f->desc_set(p->desc, MD_BLAS_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (gemm->epilogue & MD_DEV_CUDA_GEMM_BIAS)
        (void)f->desc_set(p->desc, MD_BLAS_DESC_BIAS, &any, sizeof any);
}

bool md_blas_problem_make(md_blas_problem *out, const md_blas_functions *f, const md_dev_cuda_gemm *gemm)
{
    const bool is_f64 = gemm->in == MD_F64;
    *out = (md_blas_problem){.is_f64 = is_f64};
    if (f->desc_create(&out->desc,
                       is_f64          ? COMPUTE_F64
                       : gemm->is_tf32 ? COMPUTE_TF32
                                       : COMPUTE_F32,
                       is_f64 ? REAL_F64 : REAL_F32)) {
        out->desc = NULL;
        return false;
    }
    describe(f, out, gemm);
    out->layout[0] = gemm->along_rows[1] ? make_layout(f, gemm, 1, gemm->columns, gemm->depth)
                                         : make_layout(f, gemm, 1, gemm->depth, gemm->columns);
    out->layout[1] = gemm->along_rows[0] ? make_layout(f, gemm, 0, gemm->rows, gemm->depth)
                                         : make_layout(f, gemm, 0, gemm->depth, gemm->rows);
    out->layout[2] = make_layout(f, gemm, 2, gemm->columns, gemm->rows);
    if (out->layout[0] && out->layout[1] && out->layout[2])
        return true;
    md_blas_problem_free(out, f);
    return false;
}

void md_blas_problem_free(md_blas_problem *p, const md_blas_functions *f)
{
    for (int i = 0; i < 3; i++)
        if (p->layout[i])
            (void)f->layout_destroy(p->layout[i]);
    if (p->desc)
        (void)f->desc_destroy(p->desc);
    *p = (md_blas_problem){0};
}

int md_blas_multiply(const struct md_dev_cuda_blas *blas, const md_blas_problem *p, const md_blas_result *result,
                     const md_dev_cuda_gemm_data *data, md_stream stream)
{
    static const float one = 1, zero = 0;
    static const double one_d = 1, zero_d = 0;
    if (data->bias && blas->f.desc_set(p->desc, MD_BLAS_DESC_BIAS, &data->bias, sizeof data->bias))
        return -1;
    return blas->f.matmul(blas->handle, p->desc, p->is_f64 ? (const void *)&one_d : &one, data->b, p->layout[0],
                          data->a, p->layout[1], p->is_f64 ? (const void *)&zero_d : &zero, data->c, p->layout[2],
                          data->c, p->layout[2], result->algo, data->workspace, (size_t)data->workspace_bytes,
                          (cudaStream_t)stream);
}

#endif
