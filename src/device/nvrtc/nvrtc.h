/* NVRTC, the compiler of GPU kernels, loaded on first use. In every build: it needs neither a GPU nor CUDA to build. */
#ifndef MD_DEVICE_NVRTC_NVRTC_H
#define MD_DEVICE_NVRTC_NVRTC_H

#include "base/strbuf.h"
#include "device/nvrtc/cubin.h"

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

#endif
