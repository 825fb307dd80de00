/* A device: memory, compiling, loading, launching. It never sees a formula. */
#ifndef MD_DEVICE_DEVICE_H
#define MD_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/task/pool.h"
#include "base/trace.h"
#include "device/map_address.h"
#include "kernel/kernel.h"

typedef enum md_dev_kind { MD_DEV_HOST, MD_DEV_CUDA, MD_DEV_SIM } md_dev_kind;

/* What models and families ask. Rates are measured when the device is opened (a few ms), and rounded to quarter
 * octaves. */
typedef struct md_dev_facts {
    md_dev_kind kind;
    char name[64];
    char compiler[128]; /* "gcc 12.2.0", "" where there is none */
    char flags[512]; /* of the kernel compiler */
    int32_t threads; /* lanes that run blocks at once (host), SMs (cuda) */
    int32_t vector_bytes; /* 64, 32, 16 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* per lane, per lane, shared */
    double memory_gbps; /* copy speed counted as read + write bytes, all lanes, beyond the private caches */
    double lane_gbps; /* the same of one lane alone; <= memory_gbps */
    double cache_gbps; /* per lane, from L2 */
    double gflops; /* f32 fma, all lanes */
    double launch_us; /* fixed cost of a launch that uses more than one lane; a single block costs a call */
    bool can_compile;
    bool has_blas; /* host: CBLAS; cuda: cuBLASLt was found */
    /* cuda; 0 elsewhere */
    int32_t capability; /* 90 for 9.0 */
    char arch[16]; /* what kernels are compiled for: "sm_90a" */
    int32_t index; /* of the device among those that the runtime shows */
    uint64_t board; /* of its UUID: the same in all processes, whatever they show */
    int32_t driver, runtime, nvrtc; /* 13000 for 13.0; nvrtc 0 until it is loaded */
    int64_t shared_per_block, shared_per_sm; /* bytes, opt-in limit of a block's dynamic shared memory; of an SM */
    int32_t registers_per_sm, threads_per_sm, blocks_per_sm;
    int64_t global_bytes;
} md_dev_facts;

/* Bits of a report seen from both sides: kernels get `kernel` (device memory), the host reads `host`. Equal on the
 * host device. */
typedef struct md_dev_report {
    md_kn_report *kernel, *host;
} md_dev_report;

typedef struct md_dev_mark md_dev_mark; /* a point of time on a stream */
/* A tensor map of a launch, as its parameters hold it. */
typedef struct md_dev_map {
    md_kn_word word[MD_KN_MAP_WORDS];
    uint64_t address; /* where it points */
    uint64_t offset; /* into the tensor, or into the workspace of the stage */
    int32_t tensor; /* of the formula; -1: a copy in the workspace */
    int16_t plus; /* whoever keeps it may say here what the address is counted from */
    int16_t at; /* the word that is the address, counted from 1; 0: the device must move it */
} md_dev_map;

typedef struct md_dev_kernel md_dev_kernel; /* one loaded launch; immutable */
typedef struct md_dev md_dev;

/* `handle` as kernel_handle gives it; NULL where the device cannot say. `params`: the words of its parameters; NULL
 * where it has none. */
typedef void (*md_dev_visit_kernel)(void *user, const void *handle, const md_kn_word *params);

typedef struct md_dev_ops {
    const char *name;
    void (*destroy)(md_dev *dev);
    md_status (*alloc)(void **out, md_dev *dev, size_t n_bytes);
    void (*free)(md_dev *dev, void *p);
    /* that could be allocated now; negative: not known. NULL: host memory, or none at all */
    int64_t (*free_bytes)(md_dev *dev);
    md_status (*copy)(md_dev *dev, void *to, const void *from, size_t n_bytes);
    md_status (*sync)(md_dev *dev, md_stream stream);
    /* Compiles one launch's text to a loadable binary (malloc'ed, the caller frees). May take seconds; thread-safe. */
    md_status (*compile)(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);
    /* Loads a binary, or wraps a function (binary NULL). */
    md_status (*load)(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                      const md_kn_launch_source *source);
    void (*unload)(md_dev *dev, md_dev_kernel *kernel);
    /* Launches: params packed by the caller (n words; none for a function, which reads `call`). No blocks launch
     * nothing. `call` may be NULL where the kernel is no function and its tensor maps are in the parameters; else
     * the device fills them in. Host: done on return. */
    md_status (*launch)(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                        const md_kn_word *params, int32_t n, const md_kn_call *call);
    /* ---- NULL on devices that are synchronous and whose memory the CPU reads (host): callers then do the obvious
     * thing themselves. */
    /* Memory for the launches of one call, 256-byte aligned, valid for work enqueued on this stream until the next
     * call of this function for the same stream asks for more. Grown on demand, never while the stream is captured
     * (a capture gets memory of its own, which lives as long as the device). Thread-safe; calls on one stream are
     * ordered by the caller. */
    md_status (*workspace)(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
    /* Counters of the stream (MD_KN_COUNTER_BYTES in kernel.h): the same memory at every call for a stream, or for
     * one capture of it. As workspace. */
    md_status (*counters)(void **out, md_dev *dev, md_stream stream);
    /* Map i of a kernel, for the shape of a call; it points anywhere. NULL where there are none. */
    md_status (*map_make)(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i, const md_kn_call *call);
    /* Makes its words point elsewhere; with the least ado where they begin at a boundary of 64 bytes. */
    md_status (*map_move)(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev, const md_dev_kernel *kernel,
                          uint64_t address);
    /* As copy, in the order of this stream alone, and waited for; work of other streams goes on meanwhile. */
    md_status (*copy_background)(md_dev *dev, md_stream stream, void *to, const void *from, size_t n_bytes);
    /* Elements of `from` to `to` (same rank, sizes, dtype; any strides), enqueued on the stream. */
    md_status (*copy_tensor)(md_dev *dev, md_stream stream, const md_tensor *to, const md_tensor *from);
    /* A report that kernels can write; belongs to the device. */
    md_status (*report_create)(md_dev_report *out, md_dev *dev);
    /* Makes the report clean again (after it was read); enqueued or at once, never a synchronisation of all work. */
    md_status (*report_clear)(md_dev *dev, const md_dev_report *report);
    /* GPU time in us of what `body` enqueues on the stream. Waits for it. Not while the stream is captured. */
    md_status (*time)(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user);
    /* Times that are asked for later: nothing of it waits. Marks belong to the device's user, who destroys them. Not
     * while the stream is captured. */
    md_status (*mark_create)(md_dev_mark **out, md_dev *dev);
    void (*mark_destroy)(md_dev *dev, md_dev_mark *mark);
    md_status (*mark_put)(md_dev *dev, md_dev_mark *mark, md_stream stream); /* enqueued behind what is on the stream */
    /* GPU time in us between two marks of one stream; negative while the second has not been passed. */
    md_status (*mark_time)(double *us, md_dev *dev, md_dev_mark *from, md_dev_mark *to);
    /* Whether all that was enqueued on the stream is done. Not while it is captured. NULL: always. */
    bool (*is_idle)(md_dev *dev, md_stream stream);
    /* INVALID_ARGUMENT, saying what it is instead (host memory, another device's), unless kernels of this device can
     * use p. Slow: misses only. */
    md_status (*check_pointer)(md_dev *dev, const void *p);
    /* INVALID_ARGUMENT, naming both, if the stream is another device's. Slow: misses only, and not while the stream
     * is captured. NULL: streams mean nothing. */
    md_status (*check_stream)(md_dev *dev, md_stream stream);
    bool (*is_capturing)(md_dev *dev, md_stream stream);
    /* Visits the kernels of a graph; NULL: of the one that the stream is being captured into. Both may be NULL: no
     * graphs. */
    md_status (*graph_kernels)(md_dev *dev, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user);
    const void *(*kernel_handle)(const md_dev_kernel *kernel);
    /* Names a range for profilers (NVTX) around the launches of a call; both may be NULL. */
    void (*range_push)(md_dev *dev, const char *name);
    void (*range_pop)(md_dev *dev);
    /* A device of recorded times: nothing is computed, its clock (NULL: the real one) goes on by what launches and
     * builds are said to take. */
    bool is_simulated;
    uint64_t (*now_ns)(const md_dev *dev);
} md_dev_ops;

struct md_dev {
    const md_dev_ops *ops;
    md_dev_facts facts;
    /* cuda: a stream of the device's own (non-blocking), for measuring beside the caller's; NULL on the host */
    md_stream tuning;
    md_pool *pool; /* borrowed from the context */
    const md_log *log; /* borrowed */
    md_trace *trace; /* borrowed; set by the context, NULL where nobody asked */
    int32_t hang_ms; /* measured work that takes longer counts as endless; 0: 10000 */
    _Atomic bool is_stuck; /* such work is on the tuning stream */
};

typedef struct md_dev_options {
    const char *device; /* "host", "auto", "cuda", "cuda:N" */
    const char *cc; /* a program and its own options, separated by spaces; NULL: cc */
    int32_t compile_limit_ms; /* a compiler that runs longer is killed; 0: 60000 */
    md_pool *pool;
    const md_log *log;
} md_dev_options;

/** Opens the device that the name asks for. UNSUPPORTED, DEVICE. */
md_status md_dev_open(md_dev **out, const md_dev_options *options);
void md_dev_close(md_dev **dev);

/** Facts of a typical GPU of this compute capability (80, 90, 100), for generating and compiling kernels where there
 * is none: A100, H200, B200. Rates are those measured or published. INVALID_ARGUMENT for others. In every build,
 * with CUDA or without. */
md_status md_dev_cuda_assume(md_dev_facts *out, int32_t capability);

#endif
