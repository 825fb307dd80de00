/* An asynchronous device around another one: its table of functions, launches and kernels. */
#include "support/devices/async_internal.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- What is enqueued */

static md_status async_copy_tensor(md_dev *base, md_stream stream, const md_tensor *to, const md_tensor *from)
{
    async_device *dev = (async_device *)base;
    async_work *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    atomic_fetch_add(&dev->n_tensor_copies, 1);
    w->to = *to;
    w->from = *from;
    w->to.data = async_see(dev, to->data);
    w->from.data = async_see(dev, from->data);
    pthread_mutex_lock(&dev->lock);
    md_status s = async_enqueue(dev, stream, w);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_launch(md_dev *base, md_stream stream, const md_dev_kernel *kernel,
                              const md_kn_geometry *geometry, md_dev_params params, const md_kn_call *call)
{
    async_device *dev = (async_device *)base;
    if (geometry->blocks <= 0)
        return MD_OK;
    async_work *w = calloc(1, sizeof *w + (size_t)params.n * sizeof *w->word);
    if (!w)
        return md_fail_memory();
    atomic_fetch_add(&dev->n_launches, 1);
    w->kernel = kernel;
    w->geometry = *geometry;
    w->n = params.n;
    if (params.n)
        memcpy(w->word, params.word, (size_t)params.n * sizeof *w->word);
    if (call) {
        w->call = *call;
        w->shape = *call->shape;
    }
    pthread_mutex_lock(&dev->lock);
    md_status s = async_enqueue(dev, stream, w);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* ---- Kernels are the inner device's */

static md_status async_compile(void **binary, size_t *n_bytes, md_dev *base, const md_kn_launch_source *source)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    md_status s = async_refuse_in_capture(dev, "a kernel was compiled");
    pthread_mutex_unlock(&dev->lock);
    return s == MD_OK ? dev->inner->ops->compile(binary, n_bytes, dev->inner, source) : s;
}

static md_status async_load(md_dev_kernel **out, md_dev *base, const void *binary, size_t n_bytes,
                            const md_kn_launch_source *source)
{
    async_device *dev = (async_device *)base;
    return dev->inner->ops->load(out, dev->inner, binary, n_bytes, source);
}

static void async_unload(md_dev *base, md_dev_kernel *kernel)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    (void)async_run_all(dev);
    pthread_mutex_unlock(&dev->lock);
    dev->inner->ops->unload(dev->inner, kernel);
}

static void async_destroy(md_dev *base)
{
    async_device *dev = (async_device *)base;
    (void)async_run_all(dev);
    for (int32_t i = 0; i < ASYNC_STREAMS; i++)
        async_drop_graph(&dev->stream[i]);
    for (int32_t i = 0; i < ASYNC_REPORTS; i++)
        free(dev->report[i].host);
    for (int i = 0; i < ASYNC_STREAMS; i++) /* what never ends */
        for (async_work *w = dev->stream[i].first, *next; w; w = next) {
            next = w->next;
            if (dev->stream[i].is_stuck) /* nobody else may free what is behind it */
                free(w->mark);
            free(w);
        }
    munmap(dev->there, dev->space);
    munmap(dev->here, dev->space);
    close(dev->file);
    pthread_mutex_destroy(&dev->lock);
    dev->inner->ops->destroy(dev->inner);
}

static const md_dev_ops async_ops = {
    .name = "async",
    .destroy = async_destroy,
    .alloc = async_alloc,
    .free = async_free,
    .copy = async_copy,
    .sync = async_sync,
    .compile = async_compile,
    .load = async_load,
    .unload = async_unload,
    .launch = async_launch,
    .workspace = async_workspace,
    .counters = async_counters,
    .copy_background = async_copy_beside,
    .copy_tensor = async_copy_tensor,
    .report_create = async_report_create,
    .report_clear = async_report_clear,
    .time = async_time,
    .mark_create = async_mark_create,
    .mark_destroy = async_mark_destroy,
    .mark_put = async_mark_put,
    .mark_time = async_mark_time,
    .mark_wait = async_mark_wait,
    .graph_make = async_graph_make,
    .graph_facts = async_graph_facts,
    .graph_change = async_graph_change,
    .graph_launch = async_graph_launch,
    .graph_destroy = async_graph_destroy,
    .is_idle = async_is_idle,
    .now_ns = async_now_ns,
    .check_pointer = async_check_pointer,
    .is_capturing = async_is_capturing,
    .graph_kernels = async_graph_kernels,
    .kernel_handle = async_handle,
    .range_push = async_range_push,
    .range_pop = async_range_pop,
};

bool async_device_init(async_device *out, md_dev *inner)
{
    memset(out, 0, sizeof *out);
    out->base = *inner;
    out->base.ops = &async_ops;
    out->base.tuning = (md_stream)(uintptr_t)0x77;
    out->inner = inner;
    /* Valgrind has less to give */
    out->space = (size_t)1 << (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload") ? 34 : 36);
    out->file = memfd_create("device memory", MFD_CLOEXEC);
    if (out->file < 0 || ftruncate(out->file, (off_t)out->space) != 0)
        return false;
    out->here = mmap(NULL, out->space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, out->file, 0);
    out->there = mmap(NULL, out->space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutex_init(&out->lock, NULL);
    return out->here != MAP_FAILED && out->there != MAP_FAILED;
}
