/* Runs that find nothing in the GPU's cache, as where other work runs between two calls: sets of memory that runs take
 * in turn, and a sweep of other memory through the cache before a sample. Neither on the host. */
#ifndef MD_TUNE_BENCH_COLD_H
#define MD_TUNE_BENCH_COLD_H

#include "device/device.h"

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

#endif
