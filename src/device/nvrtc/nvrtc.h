/* NVRTC, the compiler of GPU kernels, loaded when it is first asked for. Needs no GPU and no CUDA to build: in every
 * build. */
#ifndef MD_DEVICE_NVRTC_NVRTC_H
#define MD_DEVICE_NVRTC_NVRTC_H

#include "base/strbuf.h"
#include "device/nvrtc/cubin.h"

typedef struct md_dev_nvrtc_program md_dev_nvrtc_program; /* NVRTC's own */

typedef struct md_dev_nvrtc {
    int32_t version; /* 13000 for 13.0 */
    char path[512]; /* of the library that was found */
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
    int (*log_size)(md_dev_nvrtc_program *program, size_t *n);
    int (*log)(md_dev_nvrtc_program *program, char *text);
} md_dev_nvrtc;

/** Finds NVRTC: one that the process has loaded already, the loader's own folders, CUDA_HOME, /usr/local/cuda, the
 * wheels of a Python environment (VIRTUAL_ENV, CONDA_PREFIX). NOT_FOUND says where it looked; UNSUPPORTED for one
 * older than 12.0. Cheap once it is loaded, and it stays loaded. */
md_status md_dev_nvrtc_open(md_dev_nvrtc *out);

/** The architecture to compile for: "sm_90a" for 90, "sm_100a" for 100, else "sm_XY"; where this NVRTC does not know
 * the capability, the highest that it knows below, without 'a'. UNSUPPORTED where there is none from 80 on. */
md_status md_dev_nvrtc_arch(char out[16], const md_dev_nvrtc *nvrtc, int32_t capability);

/** All options but the architecture; they are part of what tells kernels apart. */
const char *md_dev_nvrtc_flags(void);

/** Compiles a text to a cubin (malloc'ed, the caller frees). `log` (may be NULL) gets all that the compiler said,
 * registers and spills of ptxas among it, also where it fails. COMPILE names the first error and quotes its line.
 * Thread-safe, and parallel. */
md_status md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text, const char *arch);

/** What a kernel of ours must keep to: no stack frame, no spills, nothing that ptxas calls a potential performance
 * loss. A text that holds the word MD_ALLOW_STACK may have a frame and spills. Fills `out` (may be NULL). COMPILE
 * names the kernel and the numbers. */
md_status md_dev_nvrtc_check(md_dev_cubin *out, const void *binary, size_t n_bytes, const char *log, const char *text,
                             const char *entry);

#endif
