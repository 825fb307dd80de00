/* Times, marks and reports of an asynchronous device, and questions about it. */
#include "support/devices/async_internal.h"

#include "base/status.h"

#include "base/clock.h"

#include <stdlib.h>

md_status async_time(double *us, md_dev *base, md_stream stream, md_status (*body)(void *user), void *user)
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

md_status async_mark_create(md_dev_mark **out, md_dev *base)
{
    (void)base;
    *out = calloc(1, sizeof **out);
    return *out ? MD_OK : md_fail_memory();
}

/* What is still under way is finished first, so that nothing writes to it. */
void async_mark_destroy(md_dev *base, md_dev_mark *mark)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    (void)async_run_all(dev);
    pthread_mutex_unlock(&dev->lock);
    free(mark);
}

md_status async_mark_put(md_dev *base, md_dev_mark *mark, md_stream stream)
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
    md_status s = async_enqueue(dev, stream, w);
    if (async_stream_of(dev, stream)->is_capturing)
        s = async_refuse_in_capture(dev, "a mark was put");
    pthread_mutex_unlock(&dev->lock);
    return s;
}

/* The work before the mark is done now: then what comes later on any stream comes after it. */
md_status async_mark_wait(md_dev *base, md_dev_mark *mark, md_stream stream)
{
    async_device *dev = (async_device *)base;
    (void)stream;
    pthread_mutex_lock(&dev->lock);
    md_status s = async_refuse_in_capture(dev, "a mark was waited for");
    if (s == MD_OK)
        s = async_run(dev, async_stream_of(dev, mark->stream));
    pthread_mutex_unlock(&dev->lock);
    return s;
}

md_status async_mark_time(double *us, md_dev *base, md_dev_mark *from, md_dev_mark *to)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    bool runs = dev->runs_at_marks || to->stream == base->tuning; /* work beside the caller's goes on by itself */
    md_status s = runs ? async_run(dev, async_stream_of(dev, to->stream)) : MD_OK;
    s = s == MD_TIMEOUT ? MD_OK : s;
    *us = to->is_passed ? to->us - from->us : -1.0;
    pthread_mutex_unlock(&dev->lock);
    return s;
}

bool async_is_idle(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    const bool is = !async_stream_of(dev, stream)->first;
    pthread_mutex_unlock(&dev->lock);
    return is;
}

/* The test's clock, where it has one. */
uint64_t async_now_ns(const md_dev *base)
{
    const async_device *dev = (const async_device *)base;
    return dev->clock ? (uint64_t)(dev->clock(dev->clock_user) * 1e3) : md_clock_ns();
}

/* ---- Reports and questions */

md_status async_report_create(md_dev_report *out, md_dev *base)
{
    async_device *dev = (async_device *)base;
    void *p = NULL;
    pthread_mutex_lock(&dev->lock);
    md_status s = async_refuse_in_capture(dev, "a report was made");
    if (s == MD_OK && dev->n_reports == ASYNC_REPORTS)
        dev->n_reports = 0; /* ops come and go in tests: the oldest reports are nobody's */
    if (s == MD_OK)
        s = async_take(&p, dev, sizeof(md_kn_report));
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

md_status async_report_clear(md_dev *base, const md_dev_report *report)
{
    async_device *dev = (async_device *)base;
    md_kn_report *r = async_see(dev, report->kernel);
    pthread_mutex_lock(&dev->lock);
    atomic_store(&r->is_set, 0);
    atomic_store(&report->host->is_set, 0);
    pthread_mutex_unlock(&dev->lock);
    return MD_OK;
}

md_status async_check_pointer(md_dev *base, const void *p)
{
    async_device *dev = (async_device *)base;
    atomic_fetch_add(&dev->n_checks, 1);
    return async_device_owns(dev, p) ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "points to host memory");
}

bool async_is_capturing(md_dev *base, md_stream stream)
{
    async_device *dev = (async_device *)base;
    pthread_mutex_lock(&dev->lock);
    bool is = async_stream_of(dev, stream)->is_capturing;
    pthread_mutex_unlock(&dev->lock);
    return is;
}

void async_range_push(md_dev *base, const char *name)
{
    atomic_fetch_add(&((async_device *)base)->n_pushed, name != NULL);
}

void async_range_pop(md_dev *base)
{
    atomic_fetch_add(&((async_device *)base)->n_popped, 1);
}
