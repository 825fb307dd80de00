/* Tables in device memory: written once, before work that reads them is enqueued. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <stdlib.h>

/* A table that graphs may read until the device is closed. */
struct md_dev_cuda_table {
    md_dev_cuda_table *next;
    void *p;
};

static md_status make(void **out, md_dev_cuda *dev, const void *from, size_t n_bytes)
{
    void *p = NULL;
    const cudaStream_t stream = dev->inner;
    cudaError_t error = dev->has_pools ? cudaMallocAsync(&p, n_bytes, stream) : cudaMalloc(&p, n_bytes);
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

md_status md_dev_cuda_table_make(void **out, md_dev *base, const void *from, size_t n_bytes)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    const md_status status = make(out, dev, from, n_bytes);
    md_dev_cuda_leave(&scope);
    return status;
}

/* Without room for the note it is never freed. */
static void keep(md_dev_cuda *dev, void *p)
{
    md_dev_cuda_table *t = malloc(sizeof *t);
    if (!t)
        return;
    pthread_mutex_lock(&dev->lock);
    *t = (md_dev_cuda_table){dev->tables, p};
    dev->tables = t;
    pthread_mutex_unlock(&dev->lock);
}

static cudaError_t give(const md_dev_cuda *dev, void *p, cudaStream_t stream)
{
    return dev->has_pools ? cudaFreeAsync(p, stream) : cudaFree(p);
}

/* While another thread captures, nothing can wait for all work: then the table stays, too. */
void md_dev_cuda_table_free(md_dev *base, void *table, md_dev_table_end end, md_stream stream)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    cudaError_t error = cudaSuccess;
    if (md_dev_cuda_enter(&scope, dev) != MD_OK)
        return;
    if (end == MD_DEV_TABLE_AFTER_ALL)
        error = cudaDeviceSynchronize();
    if (end == MD_DEV_TABLE_KEEP || error != cudaSuccess)
        keep(dev, table);
    else
        error = give(dev, table, end == MD_DEV_TABLE_AFTER_STREAM ? (cudaStream_t)stream : dev->inner);
    if (error != cudaSuccess)
        (void)md_dev_cuda_result(dev, error, "freeing a table");
    md_dev_cuda_leave(&scope);
}

void md_dev_cuda_free_tables(md_dev_cuda *dev)
{
    while (dev->tables) {
        md_dev_cuda_table *t = dev->tables;
        dev->tables = t->next;
        (void)md_dev_cuda_result(dev, cudaFree(t->p), "freeing a table");
        free(t);
    }
}
