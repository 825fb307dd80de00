/* What the files of the asynchronous device share. */
#ifndef MD_TESTS_SUPPORT_DEVICES_ASYNC_INTERNAL_H
#define MD_TESTS_SUPPORT_DEVICES_ASYNC_INTERNAL_H

#include "support/devices/async_device.h"

struct md_dev_mark {
    md_stream stream;
    int32_t n_put;
    bool is_passed;
    double us;
};

/* A launch, a mark, or a copy of a tensor (kernel NULL). It owns everything that it refers to. */
struct async_work {
    async_work *next;
    md_dev_mark *mark;
    int32_t n_put; /* of the mark: ignored if the mark was put again since */
    const md_dev_kernel *kernel;
    md_kn_geometry geometry;
    md_kn_call call;
    md_kn_shape shape;
    md_tensor to, from;
    int32_t n;
    md_kn_word word[];
};

/* ---- async_stream.c; the lock is held, except by async_see and the functions of the device. */

void *async_see(const async_device *dev, const void *p);
async_stream *async_stream_of(async_device *dev, md_stream stream);
md_status async_run(async_device *dev, async_stream *s);
md_status async_run_all(async_device *dev);
md_status async_refuse_in_capture(async_device *dev, const char *what);
md_status async_enqueue(async_device *dev, md_stream stream, async_work *w);
void async_drop_graph(async_stream *s);
const void *async_handle(const md_dev_kernel *kernel);
md_status async_graph_make(md_dev_graph **graph, bool *is_updated, md_dev *base,
                           md_status (*body)(void *user, md_stream stream), void *user);
void async_graph_facts(md_dev_graph_facts *out, const md_dev_graph *graph);
md_status async_graph_change(md_dev *base, md_dev_graph *graph, const md_dev_graph_change *change, int32_t n,
                             bool uploads);
md_status async_graph_launch(md_dev *base, md_dev_graph *graph, md_stream stream);
void async_graph_destroy(md_dev *base, md_dev_graph *graph);
md_status async_graph_kernels(md_dev *base, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user);

/* ---- async_memory.c */

md_status async_take(void **out, async_device *dev, size_t n_bytes);
md_status async_alloc(void **out, md_dev *base, size_t n_bytes);
void async_free(md_dev *base, void *p);
md_status async_copy(md_dev *base, void *to, const void *from, size_t n_bytes);
md_status async_copy_beside(md_dev *base, md_stream stream, void *to, const void *from, size_t n_bytes);
md_status async_sync(md_dev *base, md_stream stream);
md_status async_workspace(void **out, md_dev *base, md_stream stream, size_t n_bytes);
md_status async_counters(void **out, md_dev *base, md_stream stream);

/* ---- async_events.c */

md_status async_time(double *us, md_dev *base, md_stream stream, md_status (*body)(void *user), void *user);
md_status async_mark_create(md_dev_mark **out, md_dev *base);
void async_mark_destroy(md_dev *base, md_dev_mark *mark);
md_status async_mark_put(md_dev *base, md_dev_mark *mark, md_stream stream);
md_status async_mark_wait(md_dev *base, md_dev_mark *mark, md_stream stream);
md_status async_mark_time(double *us, md_dev *base, md_dev_mark *from, md_dev_mark *to);
bool async_is_idle(md_dev *base, md_stream stream);
uint64_t async_now_ns(const md_dev *base);
md_status async_report_create(md_dev_report *out, md_dev *base);
md_status async_report_clear(md_dev *base, const md_dev_report *report);
md_status async_check_pointer(md_dev *base, const void *p);
bool async_is_capturing(md_dev *base, md_stream stream);
void async_range_push(md_dev *base, const char *name);
void async_range_pop(md_dev *base);

#endif
