/* The cuda device for other folders. In builds without CUDA, opening it is UNSUPPORTED. */
#ifndef MD_DEVICE_CUDA_CUDA_H
#define MD_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* A report in device memory: md_dev_report.kernel points to it, and the prelude of kernels has the same layout. The
 * first thread that finds an index out of range wins atomicExch on `is_set`, writes tensor, axis and value to `host`,
 * fences (__threadfence_system), and sets host->is_set to 1. So no atomic goes over PCIe. */
typedef struct md_dev_cuda_report {
    md_kn_report device; /* only is_set is used: unsigned, 0 or 1 */
    md_kn_report *host; /* pinned host memory that kernels may write */
} md_dev_cuda_report;
_Static_assert(sizeof(md_kn_report) == 24 && sizeof(md_dev_cuda_report) == 32, "kernels count on this layout");

/** Opens device `index` as the runtime counts; -1: the current one, else the first that is supported. UNSUPPORTED if
 * the build has no CUDA, if there is no driver or device, or if it is too old; DEVICE if it fails. */
md_status md_dev_cuda_open(md_dev **out, const md_dev_options *options, int32_t index);

#endif
