/* What the measured search is asked for: a stage, points of its sizes, and limits. */
#ifndef MD_TUNE_JOB_JOB_H
#define MD_TUNE_JOB_JOB_H

#include "build/build.h"
#include "tune/bench/data.h"
#include "tune/wisdom/wisdom.h"

enum { MD_TN_BUILDS = 12, MD_TN_BUDGET_MS = 1500 }; /* defaults: new configs a point, time of an op */

typedef struct md_tn_counters {
    _Atomic uint64_t points, found; /* points asked for; of those, known before */
    _Atomic uint64_t timed, measured_ns; /* configs timed at a point; time spent in tuning */
    _Atomic uint64_t wrong, unbuilt, failed; /* configs */
    /* points left to estimates: no memory, another tuner held the lease; points ended by the budget */
    _Atomic uint64_t out_of_memory, busy, cut;
} md_tn_counters;

typedef struct md_tn_point {
    int64_t size[MD_FX_MAX_DIMS]; /* by dim id */
    bool is_ragged; /* rows and data lie at no boundary */
} md_tn_point;

typedef struct md_tn_job {
    md_bd *builder;
    md_fa_target target;
    md_tn_wisdom *wisdom;
    md_tn_counters *count; /* may be NULL */
    md_tune rigor; /* MEASURE or EXHAUSTIVE */
    double budget_ms; /* of this job; <= 0: MD_TN_BUDGET_MS */
    /* new configs a point (MEASURE); 0: MD_TN_BUILDS, half of them where there are several points */
    int32_t max_builds;
    md_tune_strategy strategy; /* of MEASURE */
    bool all_directions; /* neighbours that differ in two fields, too */
    int32_t n_points;
    const md_tn_point *point;
    /* config NULL: the family as a whole. NULL: all families that apply; last resorts only where no other does */
    bool (*allows)(const void *user, const md_fa_family *family, const md_fa_config *config);
    const void *allows_user;
    const md_fa_family *only; /* this family alone: others may be searched at the point at the same time. NULL: all */
    md_tn_indices indices; /* of gathers and scatters; none: random */
    const char *exclude; /* names of variants, separated by ';', that do not end: quarantined, not run */
    uint64_t seed; /* of synthetic data */
    /* called once, when the first builds are queued, to queue other builds after them; may be NULL */
    void (*meanwhile)(void *user);
    void *meanwhile_user;
    md_write_fn write; /* takes JSON lines: every candidate, every winner; may be NULL */
    void *user;
} md_tn_job;

#endif
