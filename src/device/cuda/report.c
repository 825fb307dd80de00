/* Reports of indices out of range, written by kernels and read by the host. */
#include "device/cuda/internal.h"

#include "base/status.h"

#include <stdlib.h>

/* Reports are allocated in slabs, because there is one for each op; slabs are freed with the device. */
enum { SLAB_REPORTS = 128 };

struct md_dev_cuda_slab {
    md_dev_cuda_slab *next;
    md_dev_cuda_report *device; /* [SLAB_REPORTS], device memory */
    md_kn_report *host; /* [SLAB_REPORTS], pinned */
    int32_t n_used;
};

static md_status fill_slab(md_dev_cuda *dev, md_dev_cuda_slab *slab)
{
    enum { N = SLAB_REPORTS };
    void *device = NULL, *host = NULL, *mapped = NULL;
    md_dev_cuda_report image[N];
    MD_CUDA_TRY(dev, cudaHostAlloc(&host, N * sizeof(md_kn_report), cudaHostAllocMapped | cudaHostAllocPortable),
                "pinning memory for reports");
    slab->host = host;
    MD_CUDA_TRY(dev, cudaHostGetDevicePointer(&mapped, host, 0), "mapping memory for reports");
    MD_CUDA_TRY(dev, cudaMalloc(&device, N * sizeof(md_dev_cuda_report)), "allocating reports");
    slab->device = device;
    for (int32_t i = 0; i < N; i++) {
        slab->host[i] = (md_kn_report){0};
        image[i] = (md_dev_cuda_report){.host = (md_kn_report *)mapped + i};
    }
    MD_CUDA_TRY(dev, cudaMemcpyAsync(device, image, sizeof image, cudaMemcpyHostToDevice, dev->inner),
                "writing reports");
    MD_CUDA_TRY(dev, cudaStreamSynchronize(dev->inner), "writing reports");
    return MD_OK;
}

static void free_slab(md_dev_cuda *dev, md_dev_cuda_slab *slab)
{
    if (slab->device)
        (void)md_dev_cuda_result(dev, cudaFree(slab->device), "freeing reports");
    if (slab->host)
        (void)md_dev_cuda_result(dev, cudaFreeHost(slab->host), "freeing reports");
    free(slab);
}

static md_status add_slab(md_dev_cuda *dev)
{
    md_dev_cuda_slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        return md_fail_memory();
    md_status status = fill_slab(dev, slab);
    if (status != MD_OK) {
        free_slab(dev, slab);
        return status;
    }
    slab->next = dev->slabs;
    dev->slabs = slab;
    return MD_OK;
}

md_status md_dev_cuda_report_create(md_dev_report *out, md_dev *base)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    pthread_mutex_lock(&dev->lock);
    md_status status = dev->slabs && dev->slabs->n_used < SLAB_REPORTS ? MD_OK : add_slab(dev);
    if (status == MD_OK) {
        int32_t i = dev->slabs->n_used++;
        *out = (md_dev_report){.kernel = &dev->slabs->device[i].device, .host = &dev->slabs->host[i]};
    }
    pthread_mutex_unlock(&dev->lock);
    md_dev_cuda_leave(&scope);
    return status;
}

/* Clears the host's side first: while the device's side is set, no kernel writes. */
md_status md_dev_cuda_report_clear(md_dev *base, const md_dev_report *report)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    atomic_store_explicit(&report->host->is_set, 0, memory_order_seq_cst);
    cudaError_t error = cudaMemsetAsync(report->kernel, 0, sizeof(uint32_t), dev->inner);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(dev->inner);
    md_status status = md_dev_cuda_result(dev, error, "clearing a report");
    md_dev_cuda_leave(&scope);
    return status;
}

void md_dev_cuda_free_reports(md_dev_cuda *dev)
{
    while (dev->slabs) {
        md_dev_cuda_slab *next = dev->slabs->next;
        free_slab(dev, dev->slabs);
        dev->slabs = next;
    }
}
