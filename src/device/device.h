/* A device: memory, compiling, loading and launching. It knows no formulas. */
#ifndef MD_DEVICE_DEVICE_H
#define MD_DEVICE_DEVICE_H

#include "base/cancel.h"
#include "base/log.h"
#include "base/task/pool.h"
#include "base/trace.h"
#include "device/map_address.h"
#include "kernel/kernel.h"

typedef enum md_dev_kind { MD_DEV_HOST, MD_DEV_CUDA, MD_DEV_SIM } md_dev_kind;

/* Products by which a library of products is calibrated: TILED of them with a multiple of 16 rows, as many with other
 * numbers, and the rest with the fewest, which libraries multiply without packing. */
enum {
    MD_DEV_LIBRARY_SHAPES = 8,
    MD_DEV_LIBRARY_TILED = 3,
    MD_DEV_LIBRARY_FEW = 2 * MD_DEV_LIBRARY_TILED,
    MD_DEV_LIBRARY_COLUMNS = 256,
    MD_DEV_LIBRARY_DEPTH = 512
};

/* By what the model's times of some families are off on a device (tune/calibrate). The device knows no families: they
 * are addresses to it. */
enum { MD_DEV_MOST_FACTORS = 48 };
typedef struct md_dev_factors {
    int32_t n;
    const void *family[MD_DEV_MOST_FACTORS];
    double factor[MD_DEV_MOST_FACTORS]; /* > 0 */
} md_dev_factors;

/* What models and families ask of a device. Rates are measured when the device is opened (a few ms) and rounded to
 * quarter octaves; a store keeps them for later processes. */
typedef struct md_dev_facts {
    md_dev_kind kind;
    char name[64];
    char compiler[128]; /* "gcc 12.2.0"; "" if there is none */
    char flags[512]; /* of the kernel compiler */
    int32_t threads; /* lanes that run blocks at once (host), SMs (cuda) */
    int32_t vector_bytes; /* 64, 32, 16 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* per lane, per lane, shared */
    double memory_gbps; /* rate of a copy by all lanes, beyond the private caches; counts bytes read and written */
    double lane_gbps; /* the same for one lane; <= memory_gbps */
    double cache_gbps; /* the same for one lane, within its L2 */
    double gflops; /* f32 fma by all lanes */
    double launch_us; /* fixed cost of a launch that uses more than one lane; one block costs a plain call */
    int64_t rates_at; /* host: when the rates were measured, seconds since 1970; 0: they were not */
    /* host: what CBLAS takes for Y[i,j] = sum[k](A[i,k] * B[j,k]) of f32 with md_dev_library_rows rows; 0: not measured
     */
    double library_us[MD_DEV_LIBRARY_SHAPES];
    double rates_spread; /* host: 0.1: of some rate the second best try took 10% longer than the best */
    const md_dev_factors *factors; /* NULL: none. The same as long as there are ops */
    bool can_compile;
    bool has_blas; /* host: built with CBLAS; cuda: cuBLASLt was found */
    /* ---- cuda only; 0 elsewhere */
    int32_t capability; /* 90 for 9.0 */
    char arch[16]; /* what kernels are compiled for: "sm_90a" */
    int32_t index; /* the number by which the runtime counts the device */
    uint64_t board; /* digest of its UUID: equal in all processes, whatever devices they see */
    int32_t driver, runtime, nvrtc; /* 13000 for 13.0; nvrtc 0 until it is loaded */
    int64_t shared_per_block,
        shared_per_sm; /* bytes: largest dynamic shared memory of a block (opt-in), all of an SM */
    int32_t registers_per_sm, threads_per_sm, blocks_per_sm;
    int64_t global_bytes;
    double slow_call_us; /* what the slow path and the marks round a timed call take of the host */
} md_dev_facts;

/** Rows of the products of library_us: rising multiples of 16, from MD_DEV_LIBRARY_TILED on rising others, from
 * MD_DEV_LIBRARY_FEW on 1, 2, .. */
int32_t md_dev_library_rows(int32_t shape);

/* A report of an index out of range: kernels write `kernel` (device memory), the host reads `host`. Both are equal on
 * the host device. */
typedef struct md_dev_report {
    md_kn_report *kernel, *host;
} md_dev_report;

/* The clock of a device's cores. */
typedef struct md_dev_clock {
    int32_t mhz, most_mhz; /* the clock now, and the most that it may have; 0: not known */
    bool is_throttled; /* heat or power hold it down */
} md_dev_clock;

typedef struct md_dev_mark md_dev_mark; /* a point of time on a stream */
typedef struct md_dev_graph md_dev_graph; /* work that was captured, ready to run again */

/* A tensor map of a launch, as its parameters hold it. */
typedef struct md_dev_map {
    md_kn_word word[MD_KN_MAP_WORDS];
    uint64_t address; /* where it points */
    uint64_t offset; /* into the tensor, or into the workspace of the stage */
    int32_t tensor; /* of the formula; -1: a copy in the workspace */
    int16_t plus; /* free for the owner of the map: what the address is counted from */
    int16_t at; /* number of the word that holds the address, from 1; 0: only map_move can change it */
} md_dev_map;

typedef struct md_dev_kernel md_dev_kernel; /* one loaded launch; immutable */

/* When a table can be freed: at once; behind the work of a stream; some time behind all work; with the device, since
 * graphs read it. */
typedef enum md_dev_table_end {
    MD_DEV_TABLE_UNUSED,
    MD_DEV_TABLE_AFTER_STREAM,
    MD_DEV_TABLE_AFTER_ALL,
    MD_DEV_TABLE_KEEP
} md_dev_table_end;

/* The parameters of a launch, packed by the caller. Passed by value: it takes two registers, as its members would. */
typedef struct md_dev_params {
    const md_kn_word *word; /* [n] */
    int32_t n;
} md_dev_params;

/* Of a graph that graph_make made. */
typedef struct md_dev_graph_facts {
    int32_t n_kernels, n_early; /* kernels; those that may begin before the one before them has ended */
    bool can_change; /* graph_change works: it is a chain of kernels */
} md_dev_graph_facts;

/* What a kernel of a graph becomes: the same kernel with other parameters, and another geometry with as many blocks in
 * a cluster, equally cooperative and overlapping, and not empty. */
typedef struct md_dev_graph_change {
    int32_t at; /* its number in the order of the launches; empty ones do not count */
    const md_dev_kernel *kernel;
    const md_kn_geometry *geometry;
    md_dev_params params;
} md_dev_graph_change;

/* Launches without order that run as one loop. */
typedef struct md_dev_item {
    const md_dev_kernel *kernel;
    const md_kn_word *params;
} md_dev_item;
typedef struct md_dev_list {
    const md_dev_item *item; /* [n] */
    const int64_t *first; /* [n + 1]: the blocks of all items are numbered; item i has first[i] to first[i + 1] */
    int64_t n;
    const int64_t *cut; /* [n_pieces + 1]: where pieces of the loop begin, from 0 to first[n] */
    int64_t n_pieces;
    int64_t scratch_bytes; /* the most that an item wants */
} md_dev_list;

typedef struct md_dev md_dev;

/* `handle`: as kernel_handle gives it, NULL if unknown. `params`: its parameter words, NULL if it has none. */
typedef void (*md_dev_visit_kernel)(void *user, const void *handle, const md_kn_word *params);

typedef struct md_dev_ops {
    const char *name;
    void (*destroy)(md_dev *dev);
    md_status (*alloc)(void **out, md_dev *dev, size_t n_bytes);
    void (*free)(md_dev *dev, void *p);
    /* Bytes that could be allocated now; negative if unknown. NULL: host memory. */
    int64_t (*free_bytes)(md_dev *dev);
    md_status (*copy)(md_dev *dev, void *to, const void *from, size_t n_bytes);
    md_status (*sync)(md_dev *dev, md_stream stream);
    /* Compiles the text of a launch to a loadable binary (malloc'ed, the caller frees). May take seconds.
     * Thread-safe. */
    md_status (*compile)(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source);
    /* Loads a binary, or wraps a host function (binary NULL). */
    md_status (*load)(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                      const md_kn_launch_source *source);
    void (*unload)(md_dev *dev, md_dev_kernel *kernel);
    /* Launches a kernel. A geometry without blocks launches nothing. A host function reads `call` and has no params.
     * A compiled kernel may have `call` NULL if its tensor maps are in the params already; else the device fills them
     * in. On the host the launch is done on return. */
    md_status (*launch)(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                        md_dev_params params, const md_kn_call *call);
    /* Runs the blocks of all items as one parallel loop; they are done on return. No host functions. NULL: each item
     * is launched by itself. */
    md_status (*launch_list)(md_dev *dev, const md_dev_list *list);
    /* ---- All below are NULL on synchronous devices whose memory the CPU reads (host): callers then do the plain
     * thing themselves. */
    /* Memory for the launches of one call, 256-byte aligned. It is valid for work enqueued on this stream until the
     * next request for this stream. A captured stream gets memory of its own, which lives as long as the device.
     * Thread-safe; the caller orders calls on one stream. */
    md_status (*workspace)(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
    /* Counters of a stream (MD_KN_COUNTER_BYTES in kernel.h), zero at first: always the same memory for a stream, or
     * for one capture of it. Otherwise as workspace. */
    md_status (*counters)(void **out, md_dev *dev, md_stream stream);
    /* Copies bytes to memory that kernels of all streams read, and waits for the copy alone; `may_wait`: for all work,
     * too, to free old tables. Not while a stream is captured. */
    md_status (*table_make)(void **out, md_dev *dev, const void *from, size_t n_bytes, bool may_wait);
    void (*table_free)(md_dev *dev, void *table, md_dev_table_end end, md_stream stream);
    /* Makes tensor map i of a kernel for the shape of a call; its address is arbitrary. NULL: no tensor maps. */
    md_status (*map_make)(md_dev_map *out, md_dev *dev, const md_dev_kernel *kernel, int32_t i, const md_kn_call *call);
    /* Changes the address of a map; fastest if the words are 64-byte aligned. */
    md_status (*map_move)(md_kn_word words[MD_KN_MAP_WORDS], md_dev *dev, const md_dev_kernel *kernel,
                          uint64_t address);
    /* Copies in the order of this stream and waits for it; other streams continue meanwhile. */
    md_status (*copy_background)(md_dev *dev, md_stream stream, void *to, const void *from, size_t n_bytes);
    /* Enqueues a copy of the elements of `from` to `to` (same rank, sizes and dtype; any strides). */
    md_status (*copy_tensor)(md_dev *dev, md_stream stream, const md_tensor *to, const md_tensor *from);
    /* Makes a report that kernels can write; the device owns it. */
    md_status (*report_create)(md_dev_report *out, md_dev *dev);
    /* Clears a report that was read. Does not wait for other work. */
    md_status (*report_clear)(md_dev *dev, const md_dev_report *report);
    /* GPU time in us of the work that `body` enqueues on the stream. Waits for it. Not while the stream is captured. */
    md_status (*time)(double *us, md_dev *dev, md_stream stream, md_status (*body)(void *user), void *user);
    /* Times that are read later: nothing waits. The caller owns the marks. Not while the stream is captured. */
    md_status (*mark_create)(md_dev_mark **out, md_dev *dev);
    void (*mark_destroy)(md_dev *dev, md_dev_mark *mark);
    md_status (*mark_put)(md_dev *dev, md_dev_mark *mark, md_stream stream); /* enqueued */
    /* GPU time in us between two marks of one stream; negative while the second is not reached. */
    md_status (*mark_time)(double *us, md_dev *dev, md_dev_mark *from, md_dev_mark *to);
    /* Work enqueued on the stream from now on begins after the mark was reached. */
    md_status (*mark_wait)(md_dev *dev, md_dev_mark *mark, md_stream stream);
    /* Captures what `body` enqueues on a stream of the device's own. *graph NULL: makes a graph of it; else changes the
     * graph, in place where that is possible (*is_updated). If it fails, *graph is NULL or as before. All are NULL on
     * devices without graphs. */
    md_status (*graph_make)(md_dev_graph **graph, bool *is_updated, md_dev *dev,
                            md_status (*body)(void *user, md_stream stream), void *user);
    void (*graph_facts)(md_dev_graph_facts *out, const md_dev_graph *graph);
    /* Changes kernels for launches from now on. If it fails, some may have changed. `uploads`: sends the graph to the
     * device now, beside other work; else the next launch does. */
    md_status (*graph_change)(md_dev *dev, md_dev_graph *graph, const md_dev_graph_change *change, int32_t n,
                              bool uploads);
    md_status (*graph_launch)(md_dev *dev, md_dev_graph *graph, md_stream stream);
    void (*graph_destroy)(md_dev *dev, md_dev_graph *graph); /* work under way ends first; nothing waits */
    /* True if all work enqueued on the stream is done. Not while it is captured. NULL: always true. */
    bool (*is_idle)(md_dev *dev, md_stream stream);
    /* The clock now; asked right behind work, it is the clock of the work. UNSUPPORTED, or NULL: not known. Slow.
     * Thread-safe. */
    md_status (*clock_rate)(md_dev_clock *out, md_dev *dev);
    /* INVALID_ARGUMENT unless kernels of this device can use p; the message says what p is instead. Slow: only for
     * calls that miss the plan cache. */
    md_status (*check_pointer)(md_dev *dev, const void *p);
    /* INVALID_ARGUMENT, naming both devices, if the stream belongs to another one. Slow: only for misses. Not while the
     * stream is captured. NULL: streams are ignored. */
    md_status (*check_stream)(md_dev *dev, md_stream stream);
    bool (*is_capturing)(md_dev *dev, md_stream stream);
    /* Visits the kernels of a graph (NULL: of the graph that the stream is captured into). Both are NULL on devices
     * without graphs. */
    md_status (*graph_kernels)(md_dev *dev, md_stream stream, void *graph, md_dev_visit_kernel visit, void *user);
    const void *(*kernel_handle)(const md_dev_kernel *kernel);
    /* Names the launches of a call for profilers (NVTX); both may be NULL. */
    void (*range_push)(md_dev *dev, const char *name);
    void (*range_pop)(md_dev *dev);
    /* True for a device that replays recorded times and computes nothing. Its clock (NULL: the real one) advances by
     * the times of launches and builds. */
    bool is_simulated;
    uint64_t (*now_ns)(const md_dev *dev);
} md_dev_ops;

/* The caller's memory for temporaries, as md_context_options.device_alloc; alloc NULL: the device's own. */
typedef struct md_dev_memory {
    void *(*alloc)(void *user, int32_t device, md_stream stream, size_t n_bytes);
    void (*free)(void *user, int32_t device, md_stream stream, void *p, size_t n_bytes);
    void *user;
} md_dev_memory;

struct md_dev {
    const md_dev_ops *ops;
    md_dev_memory memory; /* set before the first op; used by temporary.h */
    md_dev_facts facts;
    /* cuda: a non-blocking stream of the device, for measuring in the background; NULL on the host */
    md_stream tuning;
    md_pool *pool; /* borrowed from the context */
    md_cancel cancel; /* host: asked between pieces of a kernel */
    const md_log *log; /* borrowed */
    char *const *environment; /* as of md_dev_options */
    md_trace *trace; /* borrowed; set by the context, NULL without MD_TRACE */
    md_dump *dump; /* of the context; NULL: no MD_DUMP */
    int32_t hang_ms; /* measured work that takes longer counts as hung; 0: 10000 */
    _Atomic bool is_stuck; /* hung work is on the tuning stream */
    _Atomic int32_t
        mhz; /* clock that was measured at last; 0: not known, < 0: throttled to -mhz (tune/bench/clock.c) */
    _Atomic int32_t least_mhz, most_mhz; /* of all clocks that were measured at */
    /* Kernels come from bundles that were made for these facts: pools are chosen by them, so that the kernels are
     * there. Everything else goes by `facts`. Set before the first op (facts.h). */
    md_dev_facts assumed;
    bool is_assumed; /* they differ from `facts` in something that choices depend on */
    /* A binary of the device's own kernels, which are texts of the library; NULL: they are compiled */
    md_status (*find_binary)(void **binary, size_t *n_bytes, void *user, const md_kn_launch_source *source);
    void *finder;
};

typedef struct md_dev_options {
    const char *device; /* "host", "auto", "cuda", "cuda:N", or an architecture (open.h) */
    const char *cc; /* a compiler and its options, separated by spaces; NULL: cc */
    int32_t compile_limit_ms; /* a compiler that takes longer is killed; 0: 60000 */
    md_pool *pool;
    md_cancel cancel; /* host */
    const md_log *log;
    char *const *environment; /* borrowed (md_env_copy): threads in the background read no other; NULL: as it then is */
    bool launches_by_runtime; /* cuda: never by the driver's function, and streams are checked as with several GPUs */
    bool is_bundled; /* kernels come compiled: the host looks for no compiler, and compiles nothing */
    const char *level; /* host: of instructions (md_cpu_level); NULL: this processor's */
    bool defers_rates; /* host: rates stay 0 until md_dev_host_set_rates */
    void (*while_opening)(void *unused); /* a job for the pool while a GPU opens; set by md_dev_open */
} md_dev_options;

/** Facts of a typical GPU of a compute capability (80: A100, 90: H200, 100: B200), to generate and compile kernels
 * without a GPU. Rates are measured or published. INVALID_ARGUMENT for others. Also in builds without CUDA. */
md_status md_dev_cuda_assume(md_dev_facts *out, int32_t capability);
/** The same by architecture ("sm_90a"; "compute_80": PTX, for GPUs that are not known) and number from 0 on. NOT_FOUND
 * beyond its last board, INVALID_ARGUMENT for other architectures. */
md_status md_dev_cuda_assume_board(md_dev_facts *out, const char *arch, int32_t number);

#endif
