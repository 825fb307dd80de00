/* The memory of an asynchronous device: every block has pages of its own, which are never used again, and an
 * inaccessible page after them. */
#include "support/devices/async_internal.h"

#include "base/status.h"
#include "device/temporary.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

md_status async_take(void **out, async_device *dev, size_t n_bytes)
{
    size_t n = (n_bytes + PAGE - 1) / PAGE * PAGE;
    if (dev->used + n + PAGE > dev->space)
        return md_fail(MD_OUT_OF_MEMORY, "the device's memory is used up");
    *out = dev->there + dev->used;
    dev->used += n + PAGE;
    (void)mprotect(dev->here + dev->used - PAGE, PAGE, PROT_NONE); /* fails where a process has too many of these */
    return MD_OK;
}

/* As cudaMalloc in the relaxed mode: allowed in captures. */
md_status async_alloc(void **out, md_dev *base, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_allocs, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = async_take(out, dev, n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* As cudaFree: waits for everything. The pages stay, since their size is not known. */
void async_free(md_dev *base, void *p)
{
    async_device *dev = (async_device *)base;
    if (!p)
        return;
    pthread_mutex_lock(&dev->lock);
    (void)async_refuse_in_capture(dev, "memory was freed");
    (void)async_run_all(dev);
    pthread_mutex_unlock(&dev->lock);
}

md_status async_copy(md_dev *base, void *to, const void *from, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_copies, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = async_refuse_in_capture(dev, "memory was copied");
    if (s == MD_OK)
        s = async_run_all(dev);
    if (s == MD_OK && n_bytes)
        memmove(async_see(dev, to), async_see(dev, from), n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* Allowed while another stream is captured. */
md_status async_copy_beside(md_dev *base, md_stream stream, void *to, const void *from, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    async_stream *x = async_stream_of(dev, stream);
    md_status s = x->is_capturing ? async_refuse_in_capture(dev, "memory was copied") : async_run(dev, x);
    if (s == MD_OK && n_bytes)
        memmove(async_see(dev, to), async_see(dev, from), n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

md_status async_sync(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_syncs, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = async_refuse_in_capture(dev, "a stream was waited for");
    if (s == MD_OK)
        s = stream ? async_run(dev, async_stream_of(dev, stream)) : async_run_all(dev);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

md_status async_workspace(void **out, md_dev *base, md_stream stream, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    md_status status = MD_OK;
    pthread_mutex_lock(&dev->lock);
    async_stream *s = async_stream_of(dev, stream);
    if (s->is_capturing) {
        status = async_take(out, dev, n_bytes);
    } else {
        if (s->n_bytes < n_bytes) {
            /* work under way keeps the old one */
            if (dev->base.memory.alloc) {
                md_dev_give_temporary(base, stream, s->workspace, s->n_bytes);
                s->workspace = NULL;
                status = md_dev_take_temporary(&s->workspace, base, stream, n_bytes);
            } else {
                status = async_take(&s->workspace, dev, n_bytes);
            }
            s->n_bytes = status == MD_OK ? n_bytes : 0;
        }
        *out = s->workspace;
    }
    pthread_mutex_unlock(&dev->lock);
    return status;
}

md_status async_counters(void **out, md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    async_stream *s = async_stream_of(dev, stream);
    md_status status = s->counters ? MD_OK : async_take(&s->counters, dev, MD_KN_COUNTER_BYTES);
    *out = s->counters;
    pthread_mutex_unlock(&dev->lock);
    return status;
}
