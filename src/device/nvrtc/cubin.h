/* Facts of a compiled GPU kernel, read from its cubin. Needs neither CUDA nor a GPU. */
#ifndef MD_DEVICE_NVRTC_CUBIN_H
#define MD_DEVICE_NVRTC_CUBIN_H

#include <md/md.h>

typedef struct md_dev_cubin {
    char kernel[160]; /* name of the entry point */
    int32_t capability; /* that it was compiled for: 90 for sm_90 and sm_90a */
    int32_t registers; /* of a thread, at launch */
    int32_t frame_bytes; /* stack of a thread; 0 in kernels of the library */
    int32_t max_threads; /* of a block, from __launch_bounds__; 0 if not given */
    int32_t param_bytes;
    /* static shared memory of a block, without the part reserved by the system (1 KB from sm_90 on) */
    int64_t shared_bytes;
    int64_t code_bytes;
    int32_t cluster; /* blocks of a cluster, if fixed in the source (__cluster_dims__); 0: chosen at launch */
} md_dev_cubin;

/** Reads the facts of an entry point; `kernel` NULL: the first. CORRUPT if the bytes are no complete cubin, NOT_FOUND
 * if it has no such kernel. */
md_status md_dev_cubin_read(md_dev_cubin *out, const void *bytes, size_t n_bytes, const char *kernel);
/** The same of PTX, with the 0 that ends it among its bytes; without what only machine code has. */
md_status md_dev_ptx_read(md_dev_cubin *out, const void *bytes, size_t n_bytes, const char *kernel);

#endif
