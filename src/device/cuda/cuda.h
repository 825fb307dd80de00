/* The cuda device, as others see it. In every build: without CUDA, opening it is UNSUPPORTED. */
#ifndef MD_DEVICE_CUDA_CUDA_H
#define MD_DEVICE_CUDA_CUDA_H

#include "device/device.h"

/* A report as GPU kernels see it: what md_dev_report.kernel points to, in device memory. The same layout stands in
 * the kernels' prelude. The first kernel thread that finds an index out of range takes it by atomicExch on `is_set`
 * (an atomic in device memory: none goes over PCIe), then writes tensor, axis and value to `host`, fences
 * (__threadfence_system), and sets host->is_set to 1. */
typedef struct md_dev_cuda_report {
    md_kn_report device; /* only is_set is used: unsigned, 0 or 1 */
    md_kn_report *host; /* pinned host memory that kernels may write */
} md_dev_cuda_report;
_Static_assert(sizeof(md_kn_report) == 24 && sizeof(md_dev_cuda_report) == 32, "kernels count on this layout");

/** Opens device `index` of those that the runtime shows; -1: the first that will do. UNSUPPORTED where this build has
 * no CUDA, where there is no driver or no device, or where it is too old; DEVICE where one fails. */
md_status md_dev_cuda_open(md_dev **out, const md_dev_options *options, int32_t index);

#endif
