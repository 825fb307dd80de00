/* Tables in device memory: written once, before work that reads them is enqueued. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <stdlib.h>

/* Tables that are freed behind all work: so many, then all are waited for. */
enum { MOST_WAITING = 64 };

/* A table that waits for being freed. */
struct md_dev_cuda_table {
    md_dev_cuda_table *next;
    void *p;
    bool is_kept; /* a graph may read it, so it is kept until the device is closed */
};

/* ---- Old tables */

static void put(md_dev_cuda *dev, md_dev_cuda_table *t)
{
    pthread_mutex_lock(&dev->lock);
    t->next = dev->tables;
    dev->tables = t;
    dev->n_waiting += !t->is_kept;
    pthread_mutex_unlock(&dev->lock);
}

/* Without room for the note it is never freed. */
static void note(md_dev_cuda *dev, void *p, bool is_kept)
{
    md_dev_cuda_table *t = malloc(sizeof *t);
    if (!t)
        return;
    *t = (md_dev_cuda_table){.p = p, .is_kept = is_kept};
    put(dev, t);
}

/* The tables that wait, which leave the list; all: those that are kept, too. */
static md_dev_cuda_table *take_out(md_dev_cuda *dev, bool all)
{
    md_dev_cuda_table *out = NULL;
    pthread_mutex_lock(&dev->lock);
    for (md_dev_cuda_table **at = &dev->tables; *at;) {
        md_dev_cuda_table *t = *at;
        if (t->is_kept && !all) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->next = out;
        out = t;
    }
    dev->n_waiting = 0;
    pthread_mutex_unlock(&dev->lock);
    return out;
}

static void free_list(md_dev_cuda *dev, md_dev_cuda_table *t)
{
    while (t) {
        md_dev_cuda_table *next = t->next;
        (void)md_dev_cuda_result(dev, cudaFree(t->p), "freeing a table");
        free(t);
        t = next;
    }
}

/* Only what was in the list before the wait is freed: other threads add tables meanwhile. If the device cannot be
 * waited for, as while another thread captures, they stay in the list. */
static void free_old(md_dev_cuda *dev)
{
    md_dev_cuda_table *old = take_out(dev, false);
    if (cudaDeviceSynchronize() == cudaSuccess) {
        free_list(dev, old);
        return;
    }
    (void)cudaGetLastError();
    while (old) {
        md_dev_cuda_table *next = old->next;
        put(dev, old);
        old = next;
    }
}

void md_dev_cuda_free_tables(md_dev_cuda *dev)
{
    free_list(dev, take_out(dev, true));
}

/* ---- New ones */

static md_status make(void **out, md_dev_cuda *dev, const void *from, size_t n_bytes, bool may_wait)
{
    void *p = NULL;
    cudaStream_t stream = dev->inner;
    cudaError_t error = may_wait && dev->has_pools ? cudaMallocAsync(&p, n_bytes, stream) : cudaMalloc(&p, n_bytes);
    if (error == cudaErrorMemoryAllocation)
        return md_dev_cuda_fail_short(dev, n_bytes);
    MD_CUDA_TRY(dev, error, "allocating a table of %zu bytes", n_bytes);
    error = cudaMemcpyAsync(p, from, n_bytes, cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) {
        (void)cudaFree(p);
        return md_dev_cuda_result(dev, error, "copying a table");
    }
    *out = p;
    return MD_OK;
}

md_status md_dev_cuda_table_make(void **out, md_dev *base, const void *from, size_t n_bytes, bool may_wait)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    pthread_mutex_lock(&dev->lock);
    const bool is_full = dev->n_waiting >= MOST_WAITING;
    pthread_mutex_unlock(&dev->lock);
    if (may_wait && is_full)
        free_old(dev);
    const md_status status = make(out, dev, from, n_bytes, may_wait);
    md_dev_cuda_leave(&scope);
    return status;
}

/* Never waits: a wait would end captures. A table of a capture is kept, so what is freed in order is of the pool. */
void md_dev_cuda_table_free(md_dev *base, void *table, md_dev_table_end end, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    if (end == MD_DEV_TABLE_KEEP || end == MD_DEV_TABLE_AFTER_ALL || !dev->has_pools) {
        note(dev, table, end == MD_DEV_TABLE_KEEP);
        return;
    }
    if (md_dev_cuda_enter(&scope, dev) != MD_OK)
        return;
    (void)md_dev_cuda_result(
        dev, end == MD_DEV_TABLE_AFTER_STREAM ? cudaFreeAsync(table, (cudaStream_t)stream) : cudaFree(table),
        "freeing a table");
    md_dev_cuda_leave(&scope);
}
