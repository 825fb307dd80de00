#include "support/devices/async_device.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t PAGE = 4096;

struct md_dev_mark {
    md_stream stream;
    int32_t n_put;
    bool is_passed;
    double us;
};

/* A launch, a mark, or a copy of a tensor (kernel NULL). All that it refers to is its own. */
struct async_work {
    async_work *next;
    md_dev_mark *mark;
    int32_t n_put; /* of the mark: what was put since counts instead */
    const md_dev_kernel *kernel;
    md_kn_geometry geometry;
    md_kn_call call;
    md_kn_shape shape;
    md_tensor to, from;
    int32_t n;
    md_kn_word word[];
};

bool async_device_owns(const async_device *dev, const void *p)
{
    return (const char *)p >= dev->there && (const char *)p < dev->there + dev->space;
}

static void *see(const async_device *dev, const void *p)
{
    return async_device_owns(dev, p) ? dev->here + ((const char *)p - dev->there) : (void *)(uintptr_t)p;
}

/* ---- Work */

static async_stream *stream_of(async_device *dev, md_stream stream)
{
    for (int i = 0; i < ASYNC_STREAMS; i++)
        if (dev->stream[i].is_used && dev->stream[i].stream == stream)
            return &dev->stream[i];
    for (int i = 0; i < ASYNC_STREAMS; i++)
        if (!dev->stream[i].is_used) {
            dev->stream[i] = (async_stream){.stream = stream, .is_used = true};
            return &dev->stream[i];
        }
    return &dev->stream[0];
}

static void copy_elements(const md_tensor *to, const md_tensor *from)
{
    size_t item = md_dtype_size(from->dtype);
    int64_t n = 1;
    for (int32_t a = 0; a < from->rank; a++)
        n *= from->size[a];
    for (int64_t i = 0; i < n; i++) {
        int64_t x = 0, y = 0, rest = i;
        for (int32_t a = from->rank - 1; a >= 0; a--) {
            x += rest % from->size[a] * from->stride[a];
            y += rest % from->size[a] * to->stride[a];
            rest /= from->size[a];
        }
        memcpy((char *)to->data + y * (int64_t)item, (const char *)from->data + x * (int64_t)item, item);
    }
}

static md_status run_launch(async_device *dev, async_work *w)
{
    w->call.shape = &w->shape;
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
        w->call.data[t] = see(dev, w->call.data[t]);
    w->call.workspace = see(dev, w->call.workspace);
    w->call.report = see(dev, w->call.report);
    w->call.counters = see(dev, w->call.counters);
    for (int32_t i = 0; i < w->n; i++)
        w->word[i].p = see(dev, w->word[i].p);
    return dev->inner->ops->launch(dev->inner, NULL, w->kernel, &w->geometry, (md_dev_params){w->word, w->n}, &w->call);
}

static md_status run_all(async_device *dev, async_stream *s)
{
    md_status status = MD_OK;
    if (s->is_stuck)
        return MD_TIMEOUT;
    while (s->first) {
        async_work *w = s->first;
        s->first = w->next;
        if (w->mark) {
            if (w->n_put == w->mark->n_put)
                *w->mark = (md_dev_mark){w->mark->stream, w->n_put, true,
                                         dev->clock ? dev->clock(dev->clock_user) : (double)md_clock_ns() / 1e3};
        } else if (w->kernel) {
            md_status one = run_launch(dev, w);
            if (one == MD_TIMEOUT) { /* it does not end: nor does anything behind it */
                s->first = w;
                s->is_stuck = true;
                return one;
            }
            status = status == MD_OK ? one : status;
        } else {
            copy_elements(&w->to, &w->from);
        }
        free(w);
    }
    s->last = NULL;
    for (int32_t i = 0; i < dev->n_reports; i++) {
        md_kn_report *from = see(dev, dev->report[i].kernel), *to = dev->report[i].host;
        if (atomic_load(&from->is_set) && !atomic_load(&to->is_set)) {
            to->tensor = from->tensor;
            to->axis = from->axis;
            to->value = from->value;
            atomic_store(&to->is_set, 1);
        }
    }
    return status;
}

static md_status run_streams(async_device *dev)
{
    md_status status = MD_OK;
    for (int i = 0; i < ASYNC_STREAMS; i++) {
        md_status one = dev->stream[i].is_used ? run_all(dev, &dev->stream[i]) : MD_OK;
        status = status == MD_OK ? one : status;
    }
    return status;
}

static bool captures(const async_device *dev)
{
    for (int i = 0; i < ASYNC_STREAMS; i++)
        if (dev->stream[i].is_used && dev->stream[i].is_capturing)
            return true;
    return false;
}

/* As a capture in the global mode: whoever does it, it fails. The lock is held. */
static md_status refuse_in_capture(async_device *dev, const char *what)
{
    if (!captures(dev))
        return MD_OK;
    atomic_fetch_add(&dev->n_violations, 1);
    return md_fail(MD_DEVICE, "%s while a stream is captured", what);
}

static md_status enqueue(async_device *dev, md_stream stream, async_work *w)
{
    async_stream *s = stream_of(dev, stream);
    if (s->is_capturing) {
        if (s->last_captured)
            s->last_captured->next = w;
        else
            s->captured = w;
        s->last_captured = w;
        return MD_OK;
    }
    if (s->last)
        s->last->next = w;
    else
        s->first = w;
    s->last = w;
    return MD_OK;
}

/* ---- Memory: every block on pages of its own, never used again, with a page behind it that nobody has */

static md_status take(void **out, async_device *dev, size_t n_bytes)
{
    size_t n = (n_bytes + PAGE - 1) / PAGE * PAGE;
    if (dev->used + n + PAGE > dev->space)
        return md_fail(MD_OUT_OF_MEMORY, "the device's memory is used up");
    *out = dev->there + dev->used;
    dev->used += n + PAGE;
    return MD_OK;
}

static md_status async_alloc(void **out, md_dev *base, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_allocs, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = refuse_in_capture(dev, "memory was asked for");
    if (s == MD_OK)
        s = take(out, dev, n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* As cudaFree: waits for everything. The pages stay, since their size is not known. */
static void async_free(md_dev *base, void *p)
{
    async_device *dev = (async_device *)base;
    if (!p)
        return;
    pthread_mutex_lock(&dev->lock);
    (void)refuse_in_capture(dev, "memory was freed");
    (void)run_streams(dev);
    pthread_mutex_unlock(&dev->lock);
}

static md_status async_copy(md_dev *base, void *to, const void *from, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_copies, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = refuse_in_capture(dev, "memory was copied");
    if (s == MD_OK)
        s = run_streams(dev);
    if (s == MD_OK && n_bytes)
        memmove(see(dev, to), see(dev, from), n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* Allowed while another stream is captured. */
static md_status async_copy_beside(md_dev *base, md_stream stream, void *to, const void *from, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    async_stream *x = stream_of(dev, stream);
    md_status s = x->is_capturing ? refuse_in_capture(dev, "memory was copied") : run_all(dev, x);
    if (s == MD_OK && n_bytes)
        memmove(see(dev, to), see(dev, from), n_bytes);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_sync(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_syncs, 1);
    pthread_mutex_lock(&dev->lock);
    md_status s = refuse_in_capture(dev, "a stream was waited for");
    if (s == MD_OK)
        s = stream ? run_all(dev, stream_of(dev, stream)) : run_streams(dev);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_workspace(void **out, md_dev *base, md_stream stream, size_t n_bytes)
{
    async_device *dev = (async_device *)base;
    md_status status = MD_OK;
    pthread_mutex_lock(&dev->lock);
    async_stream *s = stream_of(dev, stream);
    if (s->is_capturing) {
        status = take(out, dev, n_bytes);
    } else {
        if (s->n_bytes < n_bytes) {
            status = take(&s->workspace, dev, n_bytes); /* work under way keeps the old one */
            s->n_bytes = status == MD_OK ? n_bytes : 0;
        }
        *out = s->workspace;
    }
    pthread_mutex_unlock(&dev->lock);
    return status;
}

static md_status async_counters(void **out, md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    async_stream *s = stream_of(dev, stream);
    md_status status = s->counters ? MD_OK : take(&s->counters, dev, MD_KN_COUNTER_BYTES);
    *out = s->counters;
    pthread_mutex_unlock(&dev->lock);
    return status;
}

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
    w->to.data = see(dev, to->data);
    w->from.data = see(dev, from->data);
    pthread_mutex_lock(&dev->lock);
    md_status s = enqueue(dev, stream, w);
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
    md_status s = enqueue(dev, stream, w);
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_time(double *us, md_dev *base, md_stream stream, md_status (*body)(void *user), void *user)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_times, 1);
    MD_TRY(async_sync(base, stream));
    MD_TRY(body(user));
    uint64_t start = md_clock_ns();
    double from = dev->clock ? dev->clock(dev->clock_user) : 0.0;
    md_status s = async_sync(base, stream);
    *us = dev->clock ? dev->clock(dev->clock_user) - from : (double)(md_clock_ns() - start + 1) / 1e3;
    return s;
}

static md_status async_mark_create(md_dev_mark **out, md_dev *base)
{
    (void)base;
    *out = calloc(1, sizeof **out);
    return *out ? MD_OK : md_fail_memory();
}

/* What is still under way is finished first, so that nothing writes to it. */
static void async_mark_destroy(md_dev *base, md_dev_mark *mark)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    (void)run_streams(dev);
    pthread_mutex_unlock(&dev->lock);
    free(mark);
}

static md_status async_mark_put(md_dev *base, md_dev_mark *mark, md_stream stream)
{
    async_device *dev = (async_device *)base;
    async_work *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    atomic_fetch_add(&dev->n_marks, 1);
    w->mark = mark;
    pthread_mutex_lock(&dev->lock);
    *mark = (md_dev_mark){.stream = stream, .n_put = mark->n_put + 1};
    w->n_put = mark->n_put;
    md_status s = enqueue(dev, stream, w);
    if (stream_of(dev, stream)->is_capturing)
        s = refuse_in_capture(dev, "a mark was put");
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_mark_time(double *us, md_dev *base, md_dev_mark *from, md_dev_mark *to)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    bool runs = dev->runs_at_marks || to->stream == base->tuning; /* work beside the caller's goes on by itself */
    md_status s = runs ? run_all(dev, stream_of(dev, to->stream)) : MD_OK;
    s = s == MD_TIMEOUT ? MD_OK : s;
    *us = to->is_passed ? to->us - from->us : -1.0;
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static bool async_is_idle(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    const bool is = !stream_of(dev, stream)->first;
    pthread_mutex_unlock(&dev->lock);
    return is;
}

/* The test's clock, where it has one. */
static uint64_t async_now_ns(const md_dev *base)
{
    const async_device *dev = (const async_device *)base;
    return dev->clock ? (uint64_t)(dev->clock(dev->clock_user) * 1e3) : md_clock_ns();
}

/* ---- Reports and questions */

static md_status async_report_create(md_dev_report *out, md_dev *base)
{
    async_device *dev = (async_device *)base;
    void *p = NULL;
    pthread_mutex_lock(&dev->lock);
    md_status s = refuse_in_capture(dev, "a report was made");
    if (s == MD_OK && dev->n_reports == ASYNC_REPORTS)
        dev->n_reports = 0; /* ops come and go in tests: the oldest reports are nobody's */
    if (s == MD_OK)
        s = take(&p, dev, sizeof(md_kn_report));
    if (s == MD_OK) {
        md_dev_report *r = &dev->report[dev->n_reports];
        free(r->host);
        *r = (md_dev_report){p, calloc(1, sizeof *r->host)};
        *out = *r;
        dev->n_reports += r->host != NULL;
        s = r->host ? MD_OK : md_fail_memory();
    }
    pthread_mutex_unlock(&dev->lock);
    return s;
}

static md_status async_report_clear(md_dev *base, const md_dev_report *report)
{
    async_device *dev = (async_device *)base;
    md_kn_report *r = see(dev, report->kernel);
    pthread_mutex_lock(&dev->lock);
    atomic_store(&r->is_set, 0);
    atomic_store(&report->host->is_set, 0);
    pthread_mutex_unlock(&dev->lock);
    return MD_OK;
}

static md_status async_check_pointer(md_dev *base, const void *p)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_checks, 1);
    return async_device_owns(dev, p) ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "points to host memory");
}

static bool async_is_capturing(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    bool is = stream_of(dev, stream)->is_capturing;
    pthread_mutex_unlock(&dev->lock);
    return is;
}

static void async_range_push(md_dev *base, const char *name)
{
    atomic_fetch_add(&((async_device *)base)->n_pushed, name != NULL);
}

static void async_range_pop(md_dev *base)
{
    atomic_fetch_add(&((async_device *)base)->n_popped, 1);
}

static void drop_graph(async_stream *s)
{
    while (s->captured) {
        async_work *w = s->captured;
        s->captured = w->next;
        free(w);
    }
    s->last_captured = NULL;
}

void async_device_replay(async_device *dev, md_stream stream)
{
    pthread_mutex_lock(&dev->lock);
    for (const async_work *w = stream_of(dev, stream)->captured; w; w = w->next) {
        size_t n_bytes = sizeof *w + (size_t)w->n * sizeof *w->word;
        async_work *copy = malloc(n_bytes);
        if (!copy)
            break;
        memcpy(copy, w, n_bytes);
        copy->next = NULL;
        (void)enqueue(dev, stream, copy);
    }
    pthread_mutex_unlock(&dev->lock);
}

/* The inner device's kernels are told apart by their addresses. */
static const void *async_handle(const md_dev_kernel *kernel)
{
    return kernel;
}

static md_status async_graph_kernels(md_dev *base, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    const async_stream *s = stream_of(dev, graph ? graph : stream);
    bool is = graph || s->is_capturing;
    for (const async_work *w = is ? s->captured : NULL; w; w = w->next)
        if (w->kernel)
            visit(user, w->kernel, w->n ? w->word : NULL);
    pthread_mutex_unlock(&dev->lock);
    return is ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "the stream is not being captured, and no graph was given");
}

void async_device_capture(async_device *dev, md_stream stream, bool begin)
{
    pthread_mutex_lock(&dev->lock);
    if (begin)
        drop_graph(stream_of(dev, stream));
    stream_of(dev, stream)->is_capturing = begin;
    pthread_mutex_unlock(&dev->lock);
}

/* ---- Kernels are the inner device's */

static md_status async_compile(void **binary, size_t *n_bytes, md_dev *base, const md_kn_launch_source *source)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    md_status s = refuse_in_capture(dev, "a kernel was compiled");
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
    (void)run_streams(dev);
    pthread_mutex_unlock(&dev->lock);
    dev->inner->ops->unload(dev->inner, kernel);
}

static void async_destroy(md_dev *base)
{
    async_device *dev = (async_device *)base;
    (void)run_streams(dev);
    for (int32_t i = 0; i < ASYNC_STREAMS; i++)
        drop_graph(&dev->stream[i]);
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
