/* A launch of CUDA with all its parameters, as a program without this library makes it. */
#ifndef MD_TESTS_DISPATCH_BARE_H
#define MD_TESTS_DISPATCH_BARE_H

#include "base/clock.h"
#include "device/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct bare {
    const void *kernel;
    const md_dev_kernel *own; /* the device's */
    md_kn_geometry geometry;
    cudaLaunchConfig_t config;
    cudaLaunchAttribute attribute[3];
    int n_params;
    _Alignas(64) md_kn_word params[MD_DEV_CUDA_MAP_PARAMS];
} bare;

/** Launches, or ends the program. */
static inline void start_bare(const bare *b)
{
    void *args[1] = {(void *)(uintptr_t)b->params};
    if (cudaLaunchKernelExC(&b->config, b->kernel, args) != cudaSuccess)
        exit(2);
}

/** The time of the launch in ns. */
static inline uint64_t launch_bare(const bare *b)
{
    uint64_t start = md_clock_ns();
    start_bare(b);
    return md_clock_ns() - start;
}

static inline void copy_bare(bare *to, const bare *from)
{
    to->kernel = from->kernel;
    to->own = from->own;
    to->geometry = from->geometry;
    to->config = from->config;
    to->config.attrs = to->attribute;
    memcpy(to->attribute, from->attribute, sizeof to->attribute);
    to->n_params = from->n_params;
    memcpy(to->params, from->params, (size_t)from->n_params * sizeof *to->params);
}

#endif
