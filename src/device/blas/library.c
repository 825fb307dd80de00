/* cuBLASLt itself: mapped and started at first use, stopped with the device. */
#include "device/blas/internal.h"

#include "base/status.h"
#include "base/task/jobs.h"
#include "base/task/thread.h"

#if MD_HAVE_CUDA

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Maps the library and finds its functions. False if it is missing or too old. */
static bool open_library(md_blas_functions *f)
{
    static const char *const sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                          "/usr/local/cuda/lib64/libcublasLt.so"};
    void *lib = NULL;
    for (int i = 0; i < 3 && !lib; i++)
        lib = dlopen(sonames[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    md_jobs_rest_at_exit();
    const struct {
        void *to;
        const char *name;
    } list[] = {{&f->create, "cublasLtCreate"},
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
    for (int i = 0; i < MD_COUNT(list); i++) {
        void *symbol = dlsym(lib, list[i].name);
        if (!symbol)
            return false;
        memcpy(list[i].to, &symbol, sizeof symbol);
    }
    return true; /* dlclose is not called: the library stays mapped */
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
    const enum cudaStreamCaptureMode before = md_blas_set_mode(cudaStreamCaptureModeRelaxed);
    const int error = blas->f.create(&blas->handle);
    (void)md_blas_set_mode(before);
    return error == 0;
}

static struct md_dev_cuda_blas *create(void)
{
    struct md_dev_cuda_blas *blas = calloc(1, sizeof *blas);
    if (!blas)
        return NULL;
    if (pthread_mutex_init(&blas->lock, NULL)) {
        free(blas);
        return NULL;
    }
    if (pthread_mutex_init(&blas->lock_of_asking, NULL)) {
        (void)pthread_mutex_destroy(&blas->lock);
        free(blas);
        return NULL;
    }
    if (!make_handle(blas)) {
        free_locks(blas);
        free(blas);
        return NULL;
    }
    return blas;
}

static void free_blas(md_dev_cuda *dev)
{
    struct md_dev_cuda_blas *blas = atomic_load_explicit(&dev->blas, memory_order_relaxed);
    if (!blas)
        return;
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
    atomic_store_explicit(&dev->blas, NULL, memory_order_relaxed);
}

/* Under a lock of its own: others hold the device's lock for microseconds only. */
struct md_dev_cuda_blas *md_blas_start(md_dev_cuda *dev)
{
    struct md_dev_cuda_blas *blas = atomic_load_explicit(&dev->blas, memory_order_acquire);
    if (blas)
        return blas;
    pthread_mutex_lock(&dev->blas_lock);
    blas = atomic_load_explicit(&dev->blas, memory_order_acquire);
    if (!blas) {
        sigset_t before;
        md_thread_block(&before); /* threads that cuBLASLt starts take no signals */
        blas = create();
        md_thread_unblock(&before);
        dev->free_blas = free_blas;
        atomic_store_explicit(&dev->blas, blas, memory_order_release);
    }
    pthread_mutex_unlock(&dev->blas_lock);
    return blas;
}

#else

bool md_dev_cuda_has_gemm(void)
{
    return false;
}

#endif
