/* What the benchmark engine times by: the clock, cold caches, queues that are empty, and memory to run variants on. */
#ifndef MD_TUNE_BENCH_BENCH_H
#define MD_TUNE_BENCH_BENCH_H

#include "build/build.h"
#include "device/device.h"
#include "tune/bench/data.h"
#include "tune/stored/stored.h"

/* ---- clock.c */

/* The clock that measured work ran at. */

/** Right after work was measured: keeps its clock in dev->mhz. Says once in the log that the device was throttled, or
 * that its clock moves. Nothing on devices that do not tell. Thread-safe; some 10 us. */
void md_tn_take_clock(md_dev *dev);
/** Under which conditions something is measured now; the clock is the one that was measured at last. */
md_tn_conditions md_tn_conditions_now(const md_tn_stored *stored, const md_dev *dev);
/** True if what was measured under these conditions holds now: with these versions, at this clock. Else it is an
 * estimate. */
bool md_tn_is_fact(const md_tn_conditions *at, const md_tn_stored *stored, const md_dev *dev);

/* ---- cold.c */

/* Runs that find nothing in the GPU's cache, as where other work runs between two calls: sets of memory that runs take
 * in turn, and a sweep of other memory through the cache before a sample. Neither on the host. */

/** Memory that takes all else out of the cache, bytes; 0: runs need no cold cache. */
int64_t md_tn_cold_bytes(const md_dev *dev);
/** How many sets of `set_bytes` (> 0) bytes runs shall take in turn: at least 1, at most `most`. */
int32_t md_tn_cold_sets(const md_dev *dev, double set_bytes, int32_t most);

typedef struct md_tn_sweep {
    md_dev *dev;
    void *memory; /* NULL: nothing is swept */
    int64_t n; /* floats that are copied */
} md_tn_sweep;

/** Memory that a sweep takes, a multiple of 256; 0: the device sweeps nothing. */
int64_t md_tn_sweep_bytes(const md_dev *dev);
/** `memory`: md_tn_sweep_bytes, which the caller keeps; NULL: nothing is swept. */
void md_tn_sweep_make(md_tn_sweep *out, md_dev *dev, void *memory);
/** Enqueues the sweep on the tuning stream. */
md_status md_tn_sweep_run(const md_tn_sweep *sweep);

/* ---- drain.c */

/* Waiting for measured kernels that may never end. */

/** Waits until all work of the tuning stream is done. TIMEOUT if it is not within md_dev.hang_ms: from then on
 * md_tn_is_stuck, and what that work uses must not be freed. Synchronous devices need no waiting. */
md_status md_tn_drain(md_dev *dev);
/** True if the tuning stream has work that does not end: nothing more may be measured or checked on it. */
bool md_tn_is_stuck(const md_dev *dev);

/* ---- bench.c */

/* Memory to time variants on at one point: tensors with synthetic inputs, several sets of them where runs must find
 * cold caches, and one workspace. Not thread-safe. */

enum { MD_TN_MAX_SETS = 32 };

typedef struct md_tn_set {
    md_kn_call call;
    void *block[MD_KN_MAX_TENSORS];
} md_tn_set;

typedef struct md_tn_bench {
    md_dev *dev;
    const md_tn_data *data;
    md_kn_report report;
    int32_t n_sets, next; /* set of the next run */
    md_tn_set *set;
    void *workspace;
    int64_t workspace_bytes, left; /* bytes that may still be taken */
} md_tn_bench;

/** Allocates and fills. `data` must outlive it. `report` is what kernels write to (NULL: the bench's own, on devices
 * whose memory the CPU reads). OUT_OF_MEMORY where one set does not fit into `limit` bytes. */
md_status md_tn_bench_make(md_tn_bench *out, md_dev *dev, const md_tn_data *data, md_kn_report *report, int64_t limit);
void md_tn_bench_finish(md_tn_bench *bench);

/** Time of one run in us, averaged over `repeats`, > 0. DEVICE for a time that is none (zero, negative, NaN), or what
 * the launch returned. */
md_status md_tn_bench_time(double *us, md_tn_bench *bench, const md_bd_variant *variant,
                           const md_kn_geometries *geometry, int32_t repeats);
/** One run on set 0, waited for, its outputs poisoned before (every byte 0xff). */
md_status md_tn_bench_run(md_tn_bench *bench, const md_bd_variant *variant, const md_kn_geometries *geometry);
/** True if the guards around the outputs of set 0 are intact. */
bool md_tn_bench_is_intact(const md_tn_bench *bench);
/** Bytes that measuring may take: 5% of what is available, at most 256 MiB. */
int64_t md_tn_bench_limit(md_dev *dev);

/* n runs of a variant on the tuning stream, each on the next of some sets of tensors. */
typedef struct md_tn_runs {
    md_dev *dev;
    const md_bd_variant *variant;
    const md_kn_geometries *geometry;
    md_kn_call *(*next)(void *user);
    void *user;
    int32_t n;
} md_tn_runs;

/** The time of whatever run(user) enqueues on the stream, in us: by the device's clock where it has one, else by the
 * host's, until the stream has done it. */
md_status md_tn_time(double *us, md_dev *dev, md_stream stream, md_status (*run)(void *user), void *user);
md_status md_tn_run_all(void *runs);
/** Mean time of a run in us, by the device's clock where it has one. */
md_status md_tn_time_runs(double *us, md_tn_runs *runs);
/** Nanoseconds on the device's clock (simulated devices), else the real one. */
uint64_t md_tn_now_ns(const md_dev *dev);

#endif
