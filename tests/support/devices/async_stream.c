/* The streams of an asynchronous device: work is queued, and runs when something waits for it. */
#include "support/devices/async_internal.h"

#include "base/status.h"

#include "base/clock.h"
#include "base/dtype.h"

#include <stdlib.h>
#include <string.h>

bool async_device_owns(const async_device *dev, const void *p)
{
    return (const char *)p >= dev->there && (const char *)p < dev->there + dev->space;
}

void *async_see(const async_device *dev, const void *p)
{
    return async_device_owns(dev, p) ? dev->here + ((const char *)p - dev->there) : (void *)(uintptr_t)p;
}

async_stream *async_stream_of(async_device *dev, md_stream stream)
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
        w->call.data[t] = async_see(dev, w->call.data[t]);
    w->call.workspace = async_see(dev, w->call.workspace);
    w->call.report = async_see(dev, w->call.report);
    w->call.counters = async_see(dev, w->call.counters);
    for (int32_t i = 0; i < w->n; i++)
        w->word[i].p = async_see(dev, w->word[i].p);
    return dev->inner->ops->launch(dev->inner, NULL, w->kernel, &w->geometry, (md_dev_params){w->word, w->n}, &w->call);
}

md_status async_run(async_device *dev, async_stream *s)
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
            if (one == MD_TIMEOUT) { /* it does not end, nor does the work queued after it */
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
        md_kn_report *from = async_see(dev, dev->report[i].kernel), *to = dev->report[i].host;
        if (atomic_load(&from->is_set) && !atomic_load(&to->is_set)) {
            to->tensor = from->tensor;
            to->axis = from->axis;
            to->value = from->value;
            atomic_store(&to->is_set, 1);
        }
    }
    return status;
}

md_status async_run_all(async_device *dev)
{
    md_status status = MD_OK;
    for (int i = 0; i < ASYNC_STREAMS; i++) {
        md_status one = dev->stream[i].is_used ? async_run(dev, &dev->stream[i]) : MD_OK;
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

/* As during a capture in the global mode: the call fails, on any stream and thread. The lock is held. */
md_status async_refuse_in_capture(async_device *dev, const char *what)
{
    if (!captures(dev))
        return MD_OK;
    atomic_fetch_add(&dev->n_violations, 1);
    return md_fail(MD_DEVICE, "%s while a stream is captured", what);
}

md_status async_enqueue(async_device *dev, md_stream stream, async_work *w)
{
    async_stream *s = async_stream_of(dev, stream);
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

void async_drop_graph(async_stream *s)
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
    for (const async_work *w = async_stream_of(dev, stream)->captured; w; w = w->next) {
        size_t n_bytes = sizeof *w + (size_t)w->n * sizeof *w->word;
        async_work *copy = malloc(n_bytes);
        if (!copy)
            break;
        memcpy(copy, w, n_bytes);
        copy->next = NULL;
        (void)async_enqueue(dev, stream, copy);
    }
    pthread_mutex_unlock(&dev->lock);
}

/* The inner device's kernels are told apart by their addresses. */
const void *async_handle(const md_dev_kernel *kernel)
{
    return kernel;
}

md_status async_graph_kernels(md_dev *base, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    const async_stream *s = async_stream_of(dev, graph ? graph : stream);
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
        async_drop_graph(async_stream_of(dev, stream));
    async_stream_of(dev, stream)->is_capturing = begin;
    pthread_mutex_unlock(&dev->lock);
}

/* ---- Graphs of a caller of the device: lists of work */

struct md_dev_graph {
    async_work *first;
    int32_t n;
};

static void free_works(async_work *w)
{
    while (w) {
        async_work *next = w->next;
        free(w);
        w = next;
    }
}

/* A graph is updated if the new one has as many launches. */
md_status async_graph_make(md_dev_graph **graph, bool *is_updated, md_dev *base,
                           md_status (*body)(void *user, md_stream stream), void *user)
{
    async_device *dev = (async_device *)base;
    md_stream stream = (md_stream)(uintptr_t)0x99;
    if (atomic_load(&dev->refuses_graphs))
        return md_fail(MD_OUT_OF_MEMORY, "no memory for a graph");
    async_device_capture(dev, stream, true);
    const md_status s = body(user, stream);
    async_device_capture(dev, stream, false);
    pthread_mutex_lock(&dev->lock);
    async_stream *x = async_stream_of(dev, stream);
    async_work *first = x->captured;
    x->captured = x->last_captured = NULL;
    pthread_mutex_unlock(&dev->lock);
    md_dev_graph *g = s == MD_OK ? (*graph ? *graph : calloc(1, sizeof *g)) : NULL;
    if (!g) {
        free_works(first);
        return s == MD_OK ? md_fail_memory() : s;
    }
    int32_t n = 0;
    for (const async_work *w = first; w; w = w->next)
        n++;
    *is_updated = *graph && g->n == n;
    free_works(g->first);
    *g = (md_dev_graph){first, n};
    *graph = g;
    return MD_OK;
}

void async_graph_facts(md_dev_graph_facts *out, const md_dev_graph *graph)
{
    *out = (md_dev_graph_facts){graph->n, graph->n - 1, true};
}

/* Other kernels, and other numbers of words, are refused. */
md_status async_graph_change(md_dev *base, md_dev_graph *graph, const md_dev_graph_change *change, int32_t n,
                             bool uploads)
{
    async_device *dev = (async_device *)base;
    (void)uploads;
    for (int32_t i = 0; i < n; i++) {
        async_work *w = graph->first;
        for (int32_t k = 0; k < change[i].at && w; k++)
            w = w->next;
        if (!w || w->kernel != change[i].kernel || w->n != change[i].params.n || change[i].geometry->blocks <= 0 ||
            atomic_load(&dev->refuses_changes))
            return md_fail(MD_UNSUPPORTED, "kernel %d of the graph cannot be changed", (int)change[i].at);
        w->geometry = *change[i].geometry;
        memcpy(w->word, change[i].params.word, (size_t)w->n * sizeof *w->word);
        atomic_fetch_add(&dev->n_graph_changes, 1);
    }
    return MD_OK;
}

md_status async_graph_launch(md_dev *base, md_dev_graph *graph, md_stream stream)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_graph_launches, 1);
    pthread_mutex_lock(&dev->lock);
    for (const async_work *w = graph->first; w; w = w->next) {
        const size_t n_bytes = sizeof *w + (size_t)w->n * sizeof *w->word;
        async_work *copy = malloc(n_bytes);
        if (!copy)
            break;
        memcpy(copy, w, n_bytes);
        copy->next = NULL;
        (void)async_enqueue(dev, stream, copy);
    }
    pthread_mutex_unlock(&dev->lock);
    return MD_OK;
}

void async_graph_destroy(md_dev *base, md_dev_graph *graph)
{
    (void)base;
    free_works(graph->first);
    free(graph);
}
