/* cuDNN itself: mapped and started at first use, stopped with the device. */
#include "device/dnn/internal.h"

#include "device/cuda/library.h"

#if MD_HAVE_CUDA

#include <stdlib.h>

enum { LEAST_VERSION = 90000, NEXT_VERSION = 100000 };

/* False if it is missing or of another version. */
static bool open_library(md_dnn_functions *f)
{
    static const char *const sonames[] = {"libcudnn.so.9"};
    const md_dev_library_function list[] = {{&f->version, "cudnnGetVersion"},
                                            {&f->create, "cudnnCreate"},
                                            {&f->destroy, "cudnnDestroy"},
                                            {&f->set_stream, "cudnnSetStream"},
                                            {&f->desc_create, "cudnnBackendCreateDescriptor"},
                                            {&f->desc_set, "cudnnBackendSetAttribute"},
                                            {&f->desc_get, "cudnnBackendGetAttribute"},
                                            {&f->desc_finalize, "cudnnBackendFinalize"},
                                            {&f->desc_destroy, "cudnnBackendDestroyDescriptor"},
                                            {&f->execute, "cudnnBackendExecute"}};
    return md_dev_library_open(sonames, MD_COUNT(sonames), list, MD_COUNT(list)) && f->version() >= LEAST_VERSION &&
           f->version() < NEXT_VERSION;
}

bool md_dev_cuda_has_conv(void)
{
    md_dnn_functions f;
    return open_library(&f);
}

static void release(struct md_dev_cuda_dnn *dnn)
{
    (void)pthread_mutex_destroy(&dnn->lock_of_making);
    (void)pthread_mutex_destroy(&dnn->lock);
    free(dnn);
}

static bool make_handles(struct md_dev_cuda_dnn *dnn)
{
    if (!open_library(&dnn->f))
        return false;
    const enum cudaStreamCaptureMode before = md_dev_library_set_mode(cudaStreamCaptureModeRelaxed);
    const bool has_handle = !dnn->f.create(&dnn->handle), has_maker = has_handle && !dnn->f.create(&dnn->maker);
    if (has_handle && !has_maker)
        (void)dnn->f.destroy(dnn->handle);
    (void)md_dev_library_set_mode(before);
    return has_maker;
}

static void *create(void)
{
    struct md_dev_cuda_dnn *dnn = calloc(1, sizeof *dnn);
    if (dnn && !md_dev_two_locks(&dnn->lock, &dnn->lock_of_making)) {
        free(dnn);
        dnn = NULL;
    }
    if (!dnn || make_handles(dnn))
        return dnn;
    release(dnn);
    return NULL;
}

static void free_list(md_dnn_answers *first, const md_dnn_functions *f)
{
    while (first) {
        md_dnn_answers *next = first->next;
        md_dnn_answers_free(first, f);
        first = next;
    }
}

static void stop(void *started)
{
    struct md_dev_cuda_dnn *dnn = started;
    for (int32_t i = 0; i < MD_DNN_BUCKETS; i++)
        free_list(dnn->plans[i], &dnn->f);
    (void)dnn->f.destroy(dnn->maker);
    (void)dnn->f.destroy(dnn->handle);
    release(dnn);
}

struct md_dev_cuda_dnn *md_dnn_start(md_dev_cuda *dev)
{
    static const md_dev_library library = {create, stop};
    return md_dev_library_start(dev, &dev->dnn, &dev->stop_dnn, &library);
}

#else

bool md_dev_cuda_has_conv(void)
{
    return false;
}

#endif
