/* Copies of one call's tensors in private memory of the same layout. */
#include "tune/bench/copies.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = MD_TN_COPIES_ALIGNMENT, BOUNDARY = 64 /* offsets from it are kept */ };

/* A tensor as runs of `run` contiguous elements, one at each position of the outer axes (positive strides). */
typedef struct layout {
    int64_t item, lowest; /* bytes; element offset of the first in memory, <= 0 */
    int64_t n_bytes; /* from the first to the last in memory; 0: empty */
    int64_t run;
    int32_t n_outer;
    int64_t extent[MD_MAX_RANK], stride[MD_MAX_RANK];
} layout;

static void add_outer(layout *l, int64_t extent, int64_t stride)
{
    int32_t at = l->n_outer++;
    for (; at > 0 && l->stride[at - 1] > stride; at--) {
        l->extent[at] = l->extent[at - 1];
        l->stride[at] = l->stride[at - 1];
    }
    l->extent[at] = extent;
    l->stride[at] = stride;
}

/* Merges axes that continue the run: a dense tensor is one run, in any order of its axes. */
static void join_axes(layout *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n_outer; i++) {
        if (l->stride[i] == l->run) {
            l->run *= l->extent[i];
            continue;
        }
        l->extent[n] = l->extent[i];
        l->stride[n++] = l->stride[i];
    }
    l->n_outer = n;
}

static layout layout_of(const md_fx_tensor *tensor, const md_kn_shape *shape, int32_t t)
{
    layout l = {.item = (int64_t)md_dtype_size(tensor->dtype), .run = 1};
    int64_t highest = 0;
    for (int32_t a = 0; a < tensor->rank; a++) {
        int64_t extent = shape->extent[t][a], stride = shape->stride[t][a];
        if (extent == 0)
            return (layout){.item = l.item};
        if (extent == 1 || stride == 0)
            continue;
        int64_t last = (extent - 1) * stride;
        l.lowest += MD_MIN(last, 0);
        highest += MD_MAX(last, 0);
        add_outer(&l, extent, llabs(stride));
    }
    join_axes(&l);
    l.n_bytes = (highest - l.lowest + 1) * l.item;
    if (md_dtype_is_packed(tensor->dtype)) { /* all bytes from the first to the last; strides are not negative */
        const int64_t n_bytes = md_dtype_span(tensor->dtype, highest + 1);
        return (layout){.item = 1, .run = n_bytes, .n_bytes = n_bytes};
    }
    return l;
}

static md_status copy_runs(md_dev *dev, char *to, const char *from, const layout *l)
{
    int64_t at[MD_MAX_RANK] = {0};
    for (;;) {
        int64_t offset = 0;
        for (int32_t i = 0; i < l->n_outer; i++)
            offset += at[i] * l->stride[i] * l->item;
        MD_TRY(dev->ops->copy(dev, to + offset, from + offset, (size_t)(l->run * l->item)));
        int32_t i = 0;
        while (i < l->n_outer && ++at[i] == l->extent[i])
            at[i++] = 0;
        if (i == l->n_outer)
            return MD_OK;
    }
}

/* Temporaries that no stage has computed yet are zeros. */
static md_status fill_zeros(md_dev *dev, char *to, int64_t n_bytes)
{
    const int64_t piece = MD_MIN(n_bytes, (int64_t)1 << 20);
    char *zeros = calloc(1, (size_t)piece);
    md_status s = zeros ? MD_OK : md_fail_memory();
    for (int64_t done = 0; done < n_bytes && s == MD_OK; done += piece)
        s = dev->ops->copy(dev, to + done, zeros, (size_t)MD_MIN(piece, n_bytes - done));
    free(zeros);
    return s;
}

/* One copy by the device; of an axis of stride 0 one element is copied. */
static md_status copy_there(md_dev *dev, void *to, const void *from, const md_fx_tensor *tensor,
                            const md_kn_shape *shape, int32_t t)
{
    md_tensor a = {.data = to, .dtype = tensor->dtype, .rank = tensor->rank};
    for (int32_t i = 0; i < a.rank; i++) {
        a.stride[i] = shape->stride[t][i];
        a.size[i] = a.stride[i] ? shape->extent[t][i] : 1;
    }
    md_tensor b = a;
    if (md_dtype_is_packed(tensor->dtype)) {
        const int64_t n_bytes = layout_of(tensor, shape, t).n_bytes;
        a = md_tensor_make(to, MD_U8, 1, &n_bytes);
        b = a;
    }
    b.data = (void *)(uintptr_t)from;
    return dev->ops->copy_tensor(dev, dev->tuning, &a, &b);
}

static int64_t bytes_of(const layout *l)
{
    return l->n_bytes ? (l->n_bytes + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
}

int64_t md_tn_copies_bytes(const md_fa_target *target, const md_kn_call *call, int64_t workspace_bytes)
{
    const md_st_stage *s = &target->program->stage[target->stage];
    int64_t n = MD_MAX(workspace_bytes, 0);
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const layout l = layout_of(&target->program->formula->tensor[s->tensor[i]], call->shape, s->tensor[i]);
        if (__builtin_add_overflow(n, bytes_of(&l), &n))
            return INT64_MAX;
    }
    return n;
}

/* Copies to *memory, and moves *memory behind the copy. */
static md_status copy_tensor(md_tn_copies *c, char **memory, const md_fx_tensor *tensor, int32_t t, bool is_read)
{
    const layout l = layout_of(tensor, c->call.shape, t);
    const char *from = c->call.data[t], *first = from;
    if (l.n_bytes == 0)
        return MD_OK; /* never read nor written: the caller's pointer will do */
    if (from)
        from += l.lowest * l.item;
    char *to = *memory + (uintptr_t)from % BOUNDARY;
    *memory += bytes_of(&l);
    c->call.data[t] = to - l.lowest * l.item;
    if (!is_read)
        return MD_OK;
    if (from && c->dev->ops->copy_tensor)
        return copy_there(c->dev, c->call.data[t], first, tensor, c->call.shape, t);
    return from ? copy_runs(c->dev, to, from, &l) : fill_zeros(c->dev, to, l.n_bytes);
}

md_status md_tn_copies_make(md_tn_copies *out, md_dev *dev, const md_fa_target *target, const md_kn_call *call,
                            void *memory)
{
    char *at = memory;
    memset(out, 0, sizeof *out);
    out->dev = dev;
    out->call = *call;
    /* the CPU is the device: its kernels report here, and the real call will report the same again */
    if (!dev->ops->report_create)
        out->call.report = &out->report;
    out->call.stream = dev->tuning;
    out->call.counters = NULL; /* the tuning stream has its own counters */
    out->call.program = target->program;
    out->call.stage = &target->program->stage[target->stage];
    const md_st_stage *s = out->call.stage;
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const md_fx_tensor *tensor = &target->program->formula->tensor[s->tensor[i]];
        bool is_read = !s->is_stored[i] || tensor->is_updated;
        MD_TRY(copy_tensor(out, &at, tensor, s->tensor[i], is_read));
    }
    out->call.workspace = at;
    return MD_OK;
}

int64_t md_tn_copies_limit(md_dev *dev)
{
    enum { MOST = 256 << 20, SHARE = 20 };
    const int64_t n_free = dev->ops->free_bytes          ? dev->ops->free_bytes(dev)
                           : dev->facts.global_bytes > 0 ? dev->facts.global_bytes
                                                         : -1;
    if (dev->facts.global_bytes > 0)
        return MD_MAX(n_free, 0) / SHARE;
    long long kib = 0;
    char *text = NULL;
    if (md_file_read(&text, NULL, "/proc/meminfo") == MD_OK) {
        const char *line = strstr(text, "MemAvailable:");
        if (line)
            sscanf(line, "MemAvailable: %lld", &kib);
        free(text);
    }
    if (kib <= 0) /* Linux before 3.14 does not say what is available: only free pages are counted */
        kib = (long long)sysconf(_SC_AVPHYS_PAGES) * (sysconf(_SC_PAGESIZE) / 1024);
    return MD_MIN((int64_t)MOST, MD_MAX((int64_t)kib, 0) * 1024 / SHARE);
}
