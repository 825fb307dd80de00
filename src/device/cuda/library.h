/* What libraries that are loaded on first use share: finding their functions, two locks, one start a device. Only where
 * CUDA is. */
#ifndef MD_DEVICE_CUDA_LIBRARY_H
#define MD_DEVICE_CUDA_LIBRARY_H

#include "device/cuda/internal.h"

#if MD_HAVE_CUDA

typedef struct md_dev_library_function {
    void *to; /* a pointer to a function */
    const char *name;
} md_dev_library_function;

/** Maps the first library of the list that is there, for the life of the process, and finds its functions. False if
 * there is none, or it lacks one. */
bool md_dev_library_open(const char *const *soname, int32_t n_sonames, const md_dev_library_function *list, int32_t n);

/** For while a library allocates memory and loads kernels, which must not end the capture of another stream. Gives the
 * mode of before. */
static inline enum cudaStreamCaptureMode md_dev_library_set_mode(enum cudaStreamCaptureMode mode)
{
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

/** Two locks or none. */
bool md_dev_two_locks(pthread_mutex_t *first, pthread_mutex_t *second);

/* How a library is started, and stopped with the device. */
typedef struct md_dev_library {
    void *(*create)(void); /* threads that it starts take no signals */
    void (*stop)(void *started);
} md_dev_library;

/** What `place` holds; at the first call what `create` makes, and *stop is set. NULL: it failed; the next call tries
 * again. Thread-safe. */
void *md_dev_library_start(md_dev_cuda *dev, _Atomic(void *) *place, void (**stop)(void *started),
                           const md_dev_library *library);

#endif

#endif
