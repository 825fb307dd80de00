/* NVRTC: compiling, binaries, and what must be done before and after the first use in a process. */
#ifndef MD_DEVICE_NVRTC_NVRTC_H
#define MD_DEVICE_NVRTC_NVRTC_H

#include "base/strbuf.h"
#include "device/device.h"

#include <md/md.h>
#include <stdbool.h>

/* ---- cubin.c */

/* Facts of a compiled GPU kernel, read from its cubin. Needs neither CUDA nor a GPU. */

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

/* ---- nvrtc.c */

/* NVRTC, the compiler of GPU kernels, loaded on first use. In every build: it needs neither a GPU nor CUDA to build. */

typedef struct md_dev_nvrtc_program md_dev_nvrtc_program; /* a type of NVRTC */

typedef struct md_dev_nvrtc {
    int32_t version; /* 13000 for 13.0 */
    char path[512]; /* of the library */
    int (*get_version)(int *major, int *minor);
    const char *(*error_text)(int result);
    int (*n_archs)(int *n);
    int (*archs)(int *list); /* 80, 86, 90, ... ascending */
    int (*create)(md_dev_nvrtc_program **out, const char *text, const char *name, int n_headers,
                  const char *const *header, const char *const *header_name);
    int (*destroy)(md_dev_nvrtc_program **program);
    int (*compile)(md_dev_nvrtc_program *program, int n_options, const char *const *option);
    int (*cubin_size)(md_dev_nvrtc_program *program, size_t *n);
    int (*cubin)(md_dev_nvrtc_program *program, char *bytes);
    int (*ptx_size)(md_dev_nvrtc_program *program, size_t *n);
    int (*ptx)(md_dev_nvrtc_program *program, char *text);
    int (*log_size)(md_dev_nvrtc_program *program, size_t *n);
    int (*log)(md_dev_nvrtc_program *program, char *text);
} md_dev_nvrtc;

/** Finds NVRTC: already loaded in the process, in the loader's folders, below CUDA_HOME, /usr/local/cuda, or among the
 * packages of a Python environment (VIRTUAL_ENV, CONDA_PREFIX). NOT_FOUND says where it looked; UNSUPPORTED if it is
 * older than 12.0. It stays loaded; calling again is cheap. */
md_status md_dev_nvrtc_open(md_dev_nvrtc *out);

/** The architecture to compile for: "sm_90a" for 90, "sm_100a" for 100, else "sm_XY". If NVRTC does not know the
 * capability, the highest one below that it knows, without 'a'. UNSUPPORTED if there is none from 80 on. */
md_status md_dev_nvrtc_arch(char out[16], const md_dev_nvrtc *nvrtc, int32_t capability);

/** All options except the architecture. They are part of the digest of kernels. */
const char *md_dev_nvrtc_flags(void);

/** Compiles a text to a cubin, or for a virtual architecture ("compute_80") to PTX (malloc'ed, the caller frees).
 * `log` (may be NULL) gets the compiler's whole output, with ptxas's registers and spills, also after a failure.
 * COMPILE has the first error and its source line. Thread-safe; threads compile in parallel. */
md_status md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text, const char *arch);

/** Checks that a kernel has no stack frame, no spills, and no "potential performance loss" reported by ptxas. A text
 * that holds the word MD_ALLOW_STACK may have a frame and spills. Fills `out` (may be NULL). COMPILE names the kernel
 * and the numbers. */
md_status md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log, const char *text,
                             const char *entry);

/* ---- ahead.c */

/* A device that builds GPU kernels for elsewhere: it has the facts of a typical board, and NVRTC, and no GPU. */

/** `name`: "sm_80", "sm_90a", "sm_100a" or "ptx", perhaps with ":N", the number of the board. Its memory is the
 * host's, and launches are UNSUPPORTED. NOT_FOUND beyond the last board, UNSUPPORTED without NVRTC. In every build. */
md_status md_dev_ahead_open(md_dev **out, const md_dev_options *options, const char *name);

/* ---- keep_process.c */

/* Keeps a loaded library from changing signals, limits and the end of the process. */

/** From now on the library (a handle of dlopen) cannot change signal handlers and resource limits: its imports of
 * `signal`, `sigaction`, `setrlimit`, `setrlimit64` and `__cxa_atexit` are replaced by functions that report success
 * and change nothing. This affects all users of the library in the process and cannot be undone; the caller's object
 * stays loaded, too. exit() waits for jobs before it takes the library down (md_jobs_rest_at_exit). False if the object
 * has an unexpected format: then nothing is changed. Thread-safe; cheap if repeated.
 *
 * Why: while it compiles, NVRTC 13.0 handles SIGINT and SIGTERM of the whole process and calls exit() in the handler.
 * Threads that compile at the same time, and its second copy, each restore the handler that they found, so that NVRTC's
 * handler can stay for ever. Then the handler of a server is never called, and the process ends with "double free or
 * corruption". It also removes the limit of the stack, which threads and children that are made later inherit. And
 * exit() destroyed what NVRTC makes while it compiles, in front of all that was registered before. */
bool md_dev_keep_process(void *library);
/** The same for `__cxa_atexit` alone: what the library makes while it works stays until the process is gone. cuBLASLt
 * makes tables at the first product of a kind, which exit() destroyed in front of all that was registered before, under
 * background jobs that asked for answers. */
bool md_dev_keep_objects(void *library);

#endif
