/* The cuda device inside: shared by cuda_*.c, which are built only where CUDA is. */
#ifndef MD_DEVICE_CUDA_INTERNAL_H
#define MD_DEVICE_CUDA_INTERNAL_H

#include "device/cuda/cuda.h"
#include "device/nvrtc/nvrtc.h"
#include "md_build_config.h"

#if MD_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/types.h>

enum { MD_DEV_CUDA_BUCKETS = 64 };

typedef struct md_dev_cuda_arena md_dev_cuda_arena; /* cuda_workspace.c */
typedef struct md_dev_cuda_slab md_dev_cuda_slab; /* cuda_report.c */

typedef struct md_dev_cuda {
    md_dev base; /* first: a md_dev * of this device is a md_dev_cuda * */
    /* the error after which nothing works any more; 0: none. This and the next two are what a launch reads */
    _Atomic int32_t lost;
    bool is_only; /* there is no other device that could be current */
    void (*launcher)(void); /* the driver's cuLaunchKernelEx, where it can stand for the runtime's; NULL */
    md_dev_nvrtc nvrtc; /* version 0 where there is none */
    char no_nvrtc[400]; /* and why */
    pid_t owner; /* a child after fork has no GPU */
    bool has_pools; /* cudaMallocAsync works */
    cudaStream_t inner; /* waits for nobody and nobody for it: first launches, reports */
    pthread_mutex_t lock; /* of all below */
    md_dev_cuda_arena *arena[MD_DEV_CUDA_BUCKETS];
    md_dev_cuda_slab *slabs;
    md_dev_kernel *copier, *gate; /* made on first use */
    cudaEvent_t begin, end; /* of time(), which takes turns */
    int32_t *gate_flag; /* pinned */
    float empty_ms; /* what time() measures of nothing; 0: not known yet */
    pthread_mutex_t clock_lock;
    struct md_dev_cuda_blas *blas; /* cuda_blas.c; made on first use */
} md_dev_cuda;

/* cuda_error.c */
/** What an error of the runtime means: OUT_OF_MEMORY, INVALID_ARGUMENT (a stream or pointer of somebody else),
 * UNSUPPORTED (a launch that does not fit the device) or DEVICE. An error after which nothing works any more is
 * remembered; others are cleared. `format` says what was being done. MD_OK where error is cudaSuccess. */
md_status md_dev_cuda_result(md_dev_cuda *dev, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define MD_CUDA_TRY(dev, call, ...)                                                                                    \
    do {                                                                                                               \
        cudaError_t md_error_ = (call);                                                                                \
        if (md_error_ != cudaSuccess)                                                                                  \
            return md_dev_cuda_result(dev, md_error_, __VA_ARGS__);                                                    \
    } while (0)

/* The device is current, and nothing that this thread does ends somebody's capture, between enter and leave. */
typedef struct md_dev_cuda_scope {
    int previous; /* the caller's device, or -1 where it is ours */
    enum cudaStreamCaptureMode mode;
} md_dev_cuda_scope;
/** Fails where the device is lost, or the process is a fork of the one that opened it. Then there is nothing to
 * leave. */
md_status md_dev_cuda_enter(md_dev_cuda_scope *out, md_dev_cuda *dev);
void md_dev_cuda_leave(const md_dev_cuda_scope *scope);

/* cuda_facts.c */
/** All facts but the compiler's. */
md_status md_dev_cuda_facts(md_dev_facts *out, int32_t index);

/* cuda_load.c */
md_status md_dev_cuda_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);
md_status md_dev_cuda_load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                           const md_kn_launch_source *source);
void md_dev_cuda_unload(md_dev *dev, md_dev_kernel *kernel);
/** A kernel of the device's own, from an embedded text; entry md_kernel. */
md_status md_dev_cuda_make(md_dev_kernel **out, md_dev_cuda *dev, const char *name);

/* cuda_launch.c */
typedef struct md_dev_cuda_kernel { /* what md_dev_kernel * points to here */
    cudaKernel_t kernel; /* this and the next are what a launch reads */
    md_kn_host_function function;
    int32_t least_words; /* of parameters that it takes */
    int32_t n_maps;
    bool waits; /* for what is ahead in the stream, by itself: a geometry may let it overlap */
    cudaLibrary_t library; /* NULL for a function */
    md_dev_cubin facts;
    md_kn_map map[MD_KN_MAX_MAPS];
    void (*encode_map)(void), (*move_map)(void); /* the driver's */
} md_dev_cuda_kernel;
md_status md_dev_cuda_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                             md_dev_params params, const md_kn_call *call);
/** What a launch asks for beside its numbers; how many. */
unsigned md_dev_cuda_attributes(cudaLaunchAttribute attribute[3], const md_dev_cuda_kernel *kernel,
                                const md_kn_geometry *geometry);
/** The launch itself: no checks. */
cudaError_t md_dev_cuda_start(cudaStream_t stream, const md_dev_cuda_kernel *kernel, const md_kn_geometry *geometry,
                              const md_kn_word *params);

/* cuda_blas.c */
void md_dev_cuda_free_blas(md_dev_cuda *dev);

/* cuda_map.c */
enum { MD_DEV_CUDA_MAP_PARAMS = 192 }; /* words of parameters that a kernel with tensor maps may have */
/** A function of the driver as CUDA 12.0 has it, by its name; NULL where the driver has none. */
void (*md_dev_cuda_driver_function(const char *name))(void);
/** The ones that make tensor maps and move them. */
void (*md_dev_cuda_map_encoder(void))(void);
void (*md_dev_cuda_map_mover(void))(void);
md_status md_dev_cuda_map_make(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i,
                               const md_kn_call *call);
md_status md_dev_cuda_map_move(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev, const md_dev_kernel *kernel,
                               uint64_t address);
/** Fills the kernel's tensor maps into a copy of its parameters. */
md_status md_dev_cuda_fill_maps(md_kn_word out[MD_DEV_CUDA_MAP_PARAMS], const md_dev_cuda_kernel *kernel,
                                md_dev_params params, const md_kn_call *call);

/* cuda_memory.c */
/** OUT_OF_MEMORY with what was asked for and what is free. */
md_status md_dev_cuda_fail_short(md_dev_cuda *dev, size_t n_bytes);
md_status md_dev_cuda_alloc(void **out, md_dev *dev, size_t n_bytes);
int64_t md_dev_cuda_free_bytes(md_dev *dev);
void md_dev_cuda_free(md_dev *dev, void *p);
md_status md_dev_cuda_copy(md_dev *dev, void *to, const void *from, size_t n_bytes);
md_status md_dev_cuda_copy_background(md_dev *dev, md_stream stream, void *to, const void *from, size_t n_bytes);
md_status md_dev_cuda_sync(md_dev *dev, md_stream stream);
md_status md_dev_cuda_check_pointer(md_dev *dev, const void *p);
md_status md_dev_cuda_check_stream(md_dev *dev, md_stream stream);

/* cuda_workspace.c */
md_status md_dev_cuda_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
md_status md_dev_cuda_counters(void **out, md_dev *dev, md_stream stream);
bool md_dev_cuda_is_capturing(md_dev *dev, md_stream stream);
void md_dev_cuda_free_arenas(md_dev_cuda *dev);

/* cuda_graph.c */
md_status md_dev_cuda_graph_kernels(md_dev *dev, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user);
const void *md_dev_cuda_handle(const md_dev_kernel *kernel);

/* cuda_copy.c */
md_status md_dev_cuda_copy_tensor(md_dev *dev, md_stream stream, const md_tensor *to, const md_tensor *from);

/* cuda_report.c */
md_status md_dev_cuda_report_create(md_dev_report *out, md_dev *dev);
md_status md_dev_cuda_report_clear(md_dev *dev, const md_dev_report *report);
void md_dev_cuda_free_reports(md_dev_cuda *dev);

/* cuda_time.c */
md_status md_dev_cuda_time(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user);

md_status md_dev_cuda_mark_create(md_dev_mark **out, md_dev *dev);
void md_dev_cuda_mark_destroy(md_dev *dev, md_dev_mark *mark);
md_status md_dev_cuda_mark_put(md_dev *dev, md_dev_mark *mark, md_stream stream);
md_status md_dev_cuda_mark_time(double *us, md_dev *dev, md_dev_mark *from, md_dev_mark *to);
bool md_dev_cuda_is_idle(md_dev *dev, md_stream stream);

/* cuda_range.c */
void md_dev_cuda_range_push(md_dev *dev, const char *name);
void md_dev_cuda_range_pop(md_dev *dev);
#endif

#endif
