/* Runs a product by cuBLASLt. */
#include "device/blas/internal.h"

#include "base/status.h"

#if MD_HAVE_CUDA

md_status md_dev_cuda_gemm_run(md_dev *base, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data)
{
    struct md_dev_cuda_blas *blas = md_blas_start((md_dev_cuda *)base);
    md_blas_answers *answers = blas ? md_blas_find(blas, what, (size_t)data->workspace_bytes) : NULL;
    if (!answers || answers->n == 0)
        return md_fail(MD_UNSUPPORTED, "cuBLASLt has no product for [%lld,%lld] over %lld", (long long)what->rows,
                       (long long)what->columns, (long long)what->depth);
    if (data->bias)
        pthread_mutex_lock(&answers->lock);
    const int error = md_blas_multiply(blas, &answers->problem, md_blas_result_of(answers, what->rank), data, stream);
    if (data->bias)
        pthread_mutex_unlock(&answers->lock);
    return error ? md_fail(MD_DEVICE, "cuBLASLt fails with status %d", error) : MD_OK;
}

#else

md_status md_dev_cuda_gemm_run(md_dev *dev, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data)
{
    (void)dev, (void)stream, (void)what, (void)data;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}

#endif
