/* cuDNN itself: mapped and started at first use, stopped with the device. */
#include "device/dnn/internal.h"

#include "base/status.h"
#include "base/task/jobs.h"
#include "base/task/thread.h"

#if MD_HAVE_CUDA

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_VERSION = 90000, NEXT_VERSION = 100000 };

/* Maps the library and finds its functions. False if it is missing or of another version. */
static bool open_library(md_dnn_functions *f)
{
    void *lib = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    md_jobs_rest_at_exit();
    const struct {
        void *to;
        const char *name;
    } list[] = {{&f->version, "cudnnGetVersion"},
                {&f->create, "cudnnCreate"},
                {&f->destroy, "cudnnDestroy"},
                {&f->set_stream, "cudnnSetStream"},
                {&f->desc_create, "cudnnBackendCreateDescriptor"},
                {&f->desc_set, "cudnnBackendSetAttribute"},
                {&f->desc_get, "cudnnBackendGetAttribute"},
                {&f->desc_finalize, "cudnnBackendFinalize"},
                {&f->desc_destroy, "cudnnBackendDestroyDescriptor"},
                {&f->execute, "cudnnBackendExecute"}};
    for (int i = 0; i < MD_COUNT(list); i++) {
        void *symbol = dlsym(lib, list[i].name);
        if (!symbol)
            return false;
        memcpy(list[i].to, &symbol, sizeof symbol);
    }
    const size_t version = f->version();
    return version >= LEAST_VERSION && version < NEXT_VERSION; /* dlclose is not called: the library stays mapped */
}

bool md_dev_cuda_has_conv(void)
{
    md_dnn_functions f;
    return open_library(&f);
}

static void free_locks(struct md_dev_cuda_dnn *dnn)
{
    (void)pthread_mutex_destroy(&dnn->lock_of_making);
    (void)pthread_mutex_destroy(&dnn->lock);
}

static bool make_handles(struct md_dev_cuda_dnn *dnn)
{
    if (!open_library(&dnn->f) || dnn->f.create(&dnn->handle))
        return false;
    if (!dnn->f.create(&dnn->maker))
        return true;
    (void)dnn->f.destroy(dnn->handle);
    return false;
}

static struct md_dev_cuda_dnn *create(void)
{
    struct md_dev_cuda_dnn *dnn = calloc(1, sizeof *dnn);
    if (!dnn)
        return NULL;
    if (pthread_mutex_init(&dnn->lock, NULL)) {
        free(dnn);
        return NULL;
    }
    if (pthread_mutex_init(&dnn->lock_of_making, NULL)) {
        (void)pthread_mutex_destroy(&dnn->lock);
        free(dnn);
        return NULL;
    }
    if (!make_handles(dnn)) {
        free_locks(dnn);
        free(dnn);
        return NULL;
    }
    return dnn;
}

static void free_dnn(md_dev_cuda *dev)
{
    struct md_dev_cuda_dnn *dnn = atomic_load_explicit(&dev->dnn, memory_order_relaxed);
    if (!dnn)
        return;
    for (int32_t i = 0; i < MD_DNN_BUCKETS; i++)
        for (md_dnn_plans *next; dnn->plans[i]; dnn->plans[i] = next) {
            next = dnn->plans[i]->next;
            md_dnn_plans_free(dnn->plans[i], &dnn->f);
        }
    (void)dnn->f.destroy(dnn->maker);
    (void)dnn->f.destroy(dnn->handle);
    free_locks(dnn);
    free(dnn);
    atomic_store_explicit(&dev->dnn, NULL, memory_order_relaxed);
}

/* Under the lock that cuBLASLt starts under, too. */
struct md_dev_cuda_dnn *md_dnn_start(md_dev_cuda *dev)
{
    struct md_dev_cuda_dnn *dnn = atomic_load_explicit(&dev->dnn, memory_order_acquire);
    if (dnn)
        return dnn;
    pthread_mutex_lock(&dev->blas_lock);
    dnn = atomic_load_explicit(&dev->dnn, memory_order_acquire);
    if (!dnn) {
        sigset_t before;
        md_thread_block(&before); /* threads that cuDNN starts take no signals */
        dnn = create();
        md_thread_unblock(&before);
        dev->free_dnn = free_dnn;
        atomic_store_explicit(&dev->dnn, dnn, memory_order_release);
    }
    pthread_mutex_unlock(&dev->blas_lock);
    return dnn;
}

#else

bool md_dev_cuda_has_conv(void)
{
    return false;
}

#endif
