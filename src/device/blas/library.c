/* cuBLASLt itself: mapped and started at first use, stopped with the device. */
#include "device/blas/internal.h"

#include "device/cuda/library.h"

#if MD_HAVE_CUDA

#include <stdlib.h>

/* False if it is missing or too old. */
static bool open_library(md_blas_functions *f)
{
    static const char *const sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                          "/usr/local/cuda/lib64/libcublasLt.so"};
    const md_dev_library_function list[] = {{&f->create, "cublasLtCreate"},
                                            {&f->destroy, "cublasLtDestroy"},
                                            {&f->desc_create, "cublasLtMatmulDescCreate"},
                                            {&f->desc_set, "cublasLtMatmulDescSetAttribute"},
                                            {&f->desc_destroy, "cublasLtMatmulDescDestroy"},
                                            {&f->layout_create, "cublasLtMatrixLayoutCreate"},
                                            {&f->layout_set, "cublasLtMatrixLayoutSetAttribute"},
                                            {&f->layout_destroy, "cublasLtMatrixLayoutDestroy"},
                                            {&f->pref_create, "cublasLtMatmulPreferenceCreate"},
                                            {&f->pref_set, "cublasLtMatmulPreferenceSetAttribute"},
                                            {&f->pref_destroy, "cublasLtMatmulPreferenceDestroy"},
                                            {&f->heuristic, "cublasLtMatmulAlgoGetHeuristic"},
                                            {&f->algo_get, "cublasLtMatmulAlgoConfigGetAttribute"},
                                            {&f->matmul, "cublasLtMatmul"}};
    return md_dev_library_open(sonames, MD_COUNT(sonames), list, MD_COUNT(list));
}

bool md_dev_cuda_has_gemm(void)
{
    md_blas_functions f;
    return open_library(&f);
}

static void free_locks(struct md_dev_cuda_blas *blas)
{
    (void)pthread_mutex_destroy(&blas->lock_of_asking);
    (void)pthread_mutex_destroy(&blas->lock);
}

static bool make_handle(struct md_dev_cuda_blas *blas)
{
    if (!open_library(&blas->f))
        return false;
    const enum cudaStreamCaptureMode before = md_dev_library_set_mode(cudaStreamCaptureModeRelaxed);
    const int error = blas->f.create(&blas->handle);
    (void)md_dev_library_set_mode(before);
    return error == 0;
}

static void *create(void)
{
    struct md_dev_cuda_blas *blas = calloc(1, sizeof *blas);
    if (!blas || !md_dev_two_locks(&blas->lock, &blas->lock_of_asking)) {
        free(blas);
        return NULL;
    }
    if (make_handle(blas))
        return blas;
    free_locks(blas);
    free(blas);
    return NULL;
}

static void stop(void *started)
{
    struct md_dev_cuda_blas *blas = started;
    for (int32_t i = 0; i < MD_BLAS_BUCKETS; i++) {
        for (md_blas_answers *next; blas->answers[i]; blas->answers[i] = next) {
            next = blas->answers[i]->next;
            md_blas_answers_free(blas->answers[i], &blas->f);
        }
        for (md_blas_loaded *next; blas->loaded[i]; blas->loaded[i] = next) {
            next = blas->loaded[i]->next;
            free(blas->loaded[i]);
        }
    }
    (void)blas->f.destroy(blas->handle);
    free_locks(blas);
    free(blas);
}

struct md_dev_cuda_blas *md_blas_start(md_dev_cuda *dev)
{
    static const md_dev_library library = {create, stop};
    return md_dev_library_start(dev, &dev->blas, &dev->stop_blas, &library);
}

#else

bool md_dev_cuda_has_gemm(void)
{
    return false;
}

#endif
