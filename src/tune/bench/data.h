/* Synthetic inputs of a stage at given sizes: random reals, indices within range. On the host they are images of a
 * little memory, mapped again and again, so that even large tensors take none. */
#ifndef MD_TUNE_BENCH_DATA_H
#define MD_TUNE_BENCH_DATA_H

#include "family/family.h"

/* Values for index tensors that were recorded or given: used cyclically, wrapped into range. */
typedef struct md_tn_indices {
    int64_t n;
    const int64_t *value;
} md_tn_indices;

enum { MD_TN_MAX_PATTERNS = 40 };

/* Patterns that images repeat; one struct for all points of a job. Not thread-safe. */
typedef struct md_tn_patterns {
    int32_t n;
    struct {
        int fd;
        md_dtype dtype;
        int64_t limit; /* of index values; 0: no index */
        bool is_positive;
    } pattern[MD_TN_MAX_PATTERNS];
    md_tn_indices indices;
    uint64_t seed;
    bool for_tf32; /* f32 of so few bits that rounding to tf32 changes none: what is expected is exact */
} md_tn_patterns;
void md_tn_patterns_finish(md_tn_patterns *p);

typedef struct md_tn_data {
    const md_st_program *program;
    int32_t stage;
    md_kn_shape shape; /* tables have some length */
    void *image[MD_KN_MAX_TENSORS]; /* read-only; of the stage's tensors that are read, else NULL */
    int64_t bytes[MD_KN_MAX_TENSORS]; /* of the stage's tensors, contiguous */
    int64_t total_bytes;
} md_tn_data;

/** Makes images at these sizes (by dim id). Tables shrink until all tensors of the stage fit into `limit` bytes:
 * OUT_OF_MEMORY where they do not. */
md_status md_tn_data_make(md_tn_data *out, md_tn_patterns *patterns, const md_fa_target *target, const int64_t *size,
                          bool is_ragged, int64_t limit);
void md_tn_data_finish(md_tn_data *data);
/** Tensors whose values say where in others, one bit each. */
uint32_t md_tn_data_index_tensors(const md_fx_formula *formula);
/** The values of scalar parameters: 0.5, or 1. */
void md_tn_data_scalars(md_kn_word scalar[16], const md_fx_formula *formula);

#endif
