/* The cuda device: shared by the files of this folder, which are built only with CUDA. */
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

typedef struct md_dev_cuda_arena md_dev_cuda_arena; /* workspace.c */
typedef struct md_dev_cuda_slab md_dev_cuda_slab; /* report.c */
typedef struct md_dev_cuda_table md_dev_cuda_table; /* table.c */

typedef struct md_dev_cuda {
    md_dev base; /* first: a md_dev * of this device is a md_dev_cuda * */
    /* the error that made the device unusable; 0: none. A launch reads this and the next two */
    _Atomic int32_t lost;
    bool is_only; /* no other device can be current, and the driver may launch */
    void (*launcher)(void); /* the driver's cuLaunchKernelEx, if it can replace the runtime's launch; else NULL */
    md_dev_nvrtc nvrtc; /* version 0 if there is none */
    char no_nvrtc[400]; /* why there is none */
    pid_t owner; /* the process that opened it: a child after fork cannot use a GPU */
    bool has_pools; /* cudaMallocAsync works */
    cudaStream_t inner; /* non-blocking, for first launches and reports */
    pthread_mutex_t lock; /* guards all below */
    md_dev_cuda_arena *arena[MD_DEV_CUDA_BUCKETS];
    md_dev_cuda_slab *slabs;
    md_dev_cuda_table *tables; /* that are no longer used, or only by graphs */
    int32_t n_waiting; /* tables that can be freed once all work is done */
    md_dev_kernel *copier, *gate; /* made on first use */
    cudaEvent_t begin, end; /* of time(); guarded by clock_lock */
    int32_t *gate_flag; /* pinned */
    float empty_ms; /* what time() measures without work; 0: not measured yet */
    pthread_mutex_t clock_lock;
    cudaStream_t capturing; /* for capturing and uploading graphs; guarded by graph_lock, NULL until first use */
    pthread_mutex_t graph_lock;
    pthread_mutex_t blas_lock; /* held while cuBLASLt or cuDNN starts */
    _Atomic(void *) blas; /* struct md_dev_cuda_blas of device/blas; NULL until first use */
    _Atomic(void *) dnn; /* struct md_dev_cuda_dnn of device/dnn; NULL until first use */
    pthread_mutex_t nvml_lock;
    struct md_dev_cuda_nvml *nvml; /* clock.c; NULL until first use */
    bool has_no_nvml;
    void (*stop_blas)(void *blas), (*stop_dnn)(void *dnn); /* NULL until they start */
} md_dev_cuda;

/* open.c */
/** True for a device of md_dev_cuda_open; false for one that only has a GPU's facts. */
bool md_dev_cuda_is(const md_dev *dev);

/* error.c */
/** Turns an error of the runtime into a status: OUT_OF_MEMORY, INVALID_ARGUMENT (a foreign stream or pointer),
 * UNSUPPORTED (a launch that does not fit the device) or DEVICE. An error that makes the device unusable is remembered;
 * others are cleared. `format` says what was being done. */
md_status md_dev_cuda_result(md_dev_cuda *dev, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define MD_CUDA_TRY(dev, call, ...)                                                                                    \
    do {                                                                                                               \
        cudaError_t md_error_ = (call);                                                                                \
        if (md_error_ != cudaSuccess)                                                                                  \
            return md_dev_cuda_result(dev, md_error_, __VA_ARGS__);                                                    \
    } while (0)

/* Between enter and leave the device is current, and nothing that this thread does ends a capture. */
typedef struct md_dev_cuda_scope {
    int previous; /* the caller's device; -1 if it is this one */
    enum cudaStreamCaptureMode mode;
} md_dev_cuda_scope;
/** Fails if the device is lost, or after a fork. Then do not leave. */
md_status md_dev_cuda_enter(md_dev_cuda_scope *out, md_dev_cuda *dev);
void md_dev_cuda_leave(const md_dev_cuda_scope *scope);

/* facts.c */
/** All facts except the compiler's. DEVICE if they cannot be. */
md_status md_dev_cuda_facts(md_dev_facts *out, int32_t index);
/** DEVICE for facts that no GPU has: a driver that is broken or virtual. */
md_status md_dev_cuda_check_facts(const md_dev_facts *facts);

/* load.c */
md_status md_dev_cuda_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);
md_status md_dev_cuda_load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                           const md_kn_launch_source *source);
void md_dev_cuda_unload(md_dev *dev, md_dev_kernel *kernel);
/** Makes one of the device's own kernels: md_NAME of the embedded text cuda/NAME.cu. */
md_status md_dev_cuda_make(md_dev_kernel **out, md_dev_cuda *dev, const char *name);

/* launch.c */
typedef struct md_dev_cuda_kernel { /* what md_dev_kernel * points to here */
    cudaKernel_t kernel; /* a launch reads this and the next */
    md_kn_host_function function;
    int32_t least_words; /* fewest parameter words that it accepts */
    int32_t n_maps;
    bool waits; /* it waits for earlier kernels by itself, so a geometry may let it overlap them */
    cudaLibrary_t library; /* NULL for a host function */
    md_dev_cubin facts;
    md_kn_map map[MD_KN_MAX_MAPS];
    void (*encode_map)(void), (*move_map)(void); /* functions of the driver */
} md_dev_cuda_kernel;
md_status md_dev_cuda_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                             md_dev_params params, const md_kn_call *call);
/** Fills the attributes of a launch; returns their number. */
unsigned md_dev_cuda_attributes(cudaLaunchAttribute attribute[3], const md_dev_cuda_kernel *kernel,
                                const md_kn_geometry *geometry);
/** Launches by the runtime, without checks. */
cudaError_t md_dev_cuda_start(cudaStream_t stream, const md_dev_cuda_kernel *kernel, const md_kn_geometry *geometry,
                              const md_kn_word *params);

/* map.c */
enum { MD_DEV_CUDA_MAP_PARAMS = 192 }; /* words of parameters that a kernel with tensor maps may have */
/** A function of the driver by name, in its version of CUDA 12.0; NULL if the driver has none. */
void (*md_dev_cuda_driver_function(const char *name))(void);
/** The driver's functions that make tensor maps and change their address. */
void (*md_dev_cuda_map_encoder(void))(void);
void (*md_dev_cuda_map_mover(void))(void);
md_status md_dev_cuda_map_make(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i,
                               const md_kn_call *call);
md_status md_dev_cuda_map_move(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev, const md_dev_kernel *kernel,
                               uint64_t address);
/** Copies the parameters of a kernel and fills in its tensor maps. */
md_status md_dev_cuda_fill_maps(md_kn_word out[MD_DEV_CUDA_MAP_PARAMS], const md_dev_cuda_kernel *kernel,
                                md_dev_params params, const md_kn_call *call);

/* memory.c */
/** OUT_OF_MEMORY; the message has the requested and the free bytes. */
md_status md_dev_cuda_fail_short(md_dev_cuda *dev, size_t n_bytes);
md_status md_dev_cuda_alloc(void **out, md_dev *dev, size_t n_bytes);
int64_t md_dev_cuda_free_bytes(md_dev *dev);
void md_dev_cuda_free(md_dev *dev, void *p);
md_status md_dev_cuda_copy(md_dev *dev, void *to, const void *from, size_t n_bytes);
md_status md_dev_cuda_copy_background(md_dev *dev, md_stream stream, void *to, const void *from, size_t n_bytes);
md_status md_dev_cuda_sync(md_dev *dev, md_stream stream);
md_status md_dev_cuda_check_pointer(md_dev *dev, const void *p);
md_status md_dev_cuda_check_stream(md_dev *dev, md_stream stream);

/* workspace.c */
md_status md_dev_cuda_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
md_status md_dev_cuda_counters(void **out, md_dev *dev, md_stream stream);
bool md_dev_cuda_is_capturing(md_dev *dev, md_stream stream);
void md_dev_cuda_free_arenas(md_dev_cuda *dev);

/* table.c */
md_status md_dev_cuda_table_make(void **out, md_dev *dev, const void *from, size_t n_bytes, bool may_wait);
void md_dev_cuda_table_free(md_dev *dev, void *table, md_dev_table_end end, md_stream stream);
void md_dev_cuda_free_tables(md_dev_cuda *dev);

/* graph.c */
md_status md_dev_cuda_graph_kernels(md_dev *dev, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user);
const void *md_dev_cuda_handle(const md_dev_kernel *kernel);
md_status md_dev_cuda_graph_make(md_dev_graph **out, bool *is_updated, md_dev *base,
                                 md_status (*body)(void *user, md_stream stream), void *user);
void md_dev_cuda_graph_facts(md_dev_graph_facts *out, const md_dev_graph *graph);
md_status md_dev_cuda_graph_change(md_dev *base, md_dev_graph *made, const md_dev_graph_change *change, int32_t n,
                                   bool uploads);
md_status md_dev_cuda_graph_launch(md_dev *base, md_dev_graph *graph, md_stream stream);
void md_dev_cuda_graph_destroy(md_dev *base, md_dev_graph *graph);

/* copy.c */
md_status md_dev_cuda_copy_tensor(md_dev *dev, md_stream stream, const md_tensor *to, const md_tensor *from);

/* report.c */
md_status md_dev_cuda_report_create(md_dev_report *out, md_dev *dev);
md_status md_dev_cuda_report_clear(md_dev *dev, const md_dev_report *report);
void md_dev_cuda_free_reports(md_dev_cuda *dev);

/* time.c */
md_status md_dev_cuda_time(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user);

md_status md_dev_cuda_mark_create(md_dev_mark **out, md_dev *dev);
void md_dev_cuda_mark_destroy(md_dev *dev, md_dev_mark *mark);
md_status md_dev_cuda_mark_put(md_dev *dev, md_dev_mark *mark, md_stream stream);
md_status md_dev_cuda_mark_time(double *us, md_dev *dev, md_dev_mark *from, md_dev_mark *to);
md_status md_dev_cuda_mark_wait(md_dev *dev, md_dev_mark *mark, md_stream stream);
bool md_dev_cuda_is_idle(md_dev *dev, md_stream stream);

/* clock.c */
md_status md_dev_cuda_clock_rate(md_dev_clock *out, md_dev *dev);

/* range.c */
void md_dev_cuda_range_push(md_dev *dev, const char *name);
void md_dev_cuda_range_pop(md_dev *dev);
#endif

#endif
