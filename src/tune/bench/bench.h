/* Memory to time variants on at one point: tensors with synthetic inputs, several sets of them where runs must find
 * cold caches, and one workspace. Not thread-safe. */
#ifndef MD_TUNE_BENCH_BENCH_H
#define MD_TUNE_BENCH_BENCH_H

#include "build/build.h"
#include "tune/bench/data.h"

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
