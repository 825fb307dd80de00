/* What libraries that are loaded on first use share. */
#include "device/cuda/library.h"

#include "base/task/jobs.h"
#include "base/task/thread.h"
#include "device/nvrtc/nvrtc.h"

#if MD_HAVE_CUDA

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* Libraries are opened again and again, to find out whether they are there. */
static void keep_objects(void *library)
{
    enum { LIBRARIES = 4 };
    static _Atomic(void *) kept[LIBRARIES];
    for (int i = 0; i < LIBRARIES; i++) {
        void *seen = NULL;
        if (atomic_compare_exchange_strong(&kept[i], &seen, library)) {
            (void)md_dev_keep_objects(library);
            return;
        }
        if (seen == library)
            return;
    }
}

bool md_dev_library_open(const char *const *soname, int32_t n_sonames, const md_dev_library_function *list, int32_t n)
{
    void *lib = NULL;
    for (int32_t i = 0; i < n_sonames && !lib; i++)
        lib = dlopen(soname[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    md_jobs_rest_at_exit();
    keep_objects(lib);
    for (int32_t i = 0; i < n; i++) {
        void *symbol = dlsym(lib, list[i].name);
        if (!symbol)
            return false;
        memcpy(list[i].to, &symbol, sizeof symbol);
    }
    return true; /* dlclose is not called: the library stays mapped */
}

bool md_dev_two_locks(pthread_mutex_t *first, pthread_mutex_t *second)
{
    if (pthread_mutex_init(first, NULL))
        return false;
    if (!pthread_mutex_init(second, NULL))
        return true;
    (void)pthread_mutex_destroy(first);
    return false;
}

/* Under a lock of its own: others hold the device's lock for microseconds only. */
void *md_dev_library_start(md_dev_cuda *dev, _Atomic(void *) *place, void (**stop)(void *started),
                           const md_dev_library *library)
{
    void *started = atomic_load_explicit(place, memory_order_acquire);
    if (started)
        return started;
    pthread_mutex_lock(&dev->blas_lock);
    started = atomic_load_explicit(place, memory_order_acquire);
    if (!started) {
        sigset_t before;
        md_thread_block(&before);
        started = library->create();
        md_thread_unblock(&before);
        *stop = started ? library->stop : NULL;
        atomic_store_explicit(place, started, memory_order_release);
    }
    pthread_mutex_unlock(&dev->blas_lock);
    return started;
}

#endif
