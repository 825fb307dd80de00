/* A measured search at work: its points, trials and times, for the search and for verification. */
#ifndef MD_TUNE_JOB_WORK_H
#define MD_TUNE_JOB_WORK_H

#include "tune/bench/bench.h"
#include "tune/job/job.h"

enum { MD_TN_MAX_SAMPLES = 32, MD_TN_MAX_FAMILIES = 40 };

/* A config that the job has built, or tried to. */
typedef struct md_tn_trial {
    const md_fa_family *family;
    int32_t family_at; /* among the job's */
    md_fa_config config;
    md_bd_variant *variant;
    md_digest128 source;
    bool was_queued; /* for its build */
    bool is_out; /* is not run any more; `verdict` says why */
    md_tn_verdict verdict;
    bool is_verified; /* right on the small shape */
} md_tn_trial;

/* A trial at one point. */
typedef struct md_tn_entry {
    bool is_there; /* legal here, and wanted */
    bool is_verified; /* right at this point */
    md_tn_verdict verdict;
    double model_us, first_us; /* first look; 0: none yet */
    double us, spread; /* of the samples */
    int32_t repeats, n;
    double sample[MD_TN_MAX_SAMPLES];
    md_kn_geometries geometry;
} md_tn_entry;

typedef struct md_tn_choice {
    md_fa_config config;
    double model_us;
} md_tn_choice;

/* A family's legal configs at a point whose envelope fits, best by the model first. */
typedef struct md_tn_space {
    int32_t n;
    md_tn_choice *choice;
    bool failed; /* memory was short */
} md_tn_space;

/* A point in work. */
typedef struct md_tn_tuning_point {
    const md_tn_point *point;
    char *key;
    int lease;
    bool is_open; /* it is still to be measured */
    bool has_lease, has_bench;
    bool is_cut; /* there was not time for everything */
    uint64_t memory_ns, look_ns; /* time that making its memory took; of the longest first look */
    uint64_t ending_ns; /* time reserved for its end: memory once more, and checking each family's best */
    md_kn_shape shape;
    md_tn_data data;
    md_tn_bench bench;
    md_tn_space space[MD_TN_MAX_FAMILIES];
    int32_t n_builds; /* proposed here */
    int32_t n_looks;
    int32_t capacity;
    md_tn_entry *entry; /* parallel to the trials */
    int32_t best; /* trial; -1 */
    struct md_tn_expected *expected; /* of the sampled outputs; made when first needed */
    md_tn_record before[MD_TN_MAX_FAMILIES]; /* of an earlier search, which this one goes on from */
} md_tn_tuning_point;

typedef struct md_tn_work {
    const md_tn_job *job;
    md_dev *dev;
    md_dev_report report;
    md_tn_patterns patterns;
    uint64_t start_ns, deadline_ns;
    uint64_t builds_ns; /* no builds are awaited after it: the rest of the time is for measuring */
    uint64_t soft_ns; /* end of the time for the point at hand */
    uint64_t ending_ns; /* of all points */
    double ns_a_byte; /* that making a point's memory took */
    int32_t n_looks;
    double build_ms; /* expected between the ends of two builds, before any was seen */
    uint64_t busy_ns, last_ns; /* md_tn_observe */
    int32_t n_queued, n_built;
    int32_t n_families;
    const md_fa_family *family[MD_TN_MAX_FAMILIES];
    int32_t n_tuning_points;
    md_tn_tuning_point *tuning_point;
    int32_t n_trials;
    md_tn_trial *trial;
    struct md_tn_small *small; /* small shapes with their expected results; made when first needed */
    int lock; /* of the device; -1: not held */
    int32_t round;
    int32_t step; /* of a descent, from its second round on; -1: it has ended */
} md_tn_work;

/** True if only the time reserved for the end is left of the budget. */
bool md_tn_is_late(const md_tn_work *w);
/** True if that is so, or the time of the point at hand is over. */
bool md_tn_is_over(const md_tn_work *w);
/** The name of a trial's variant. */
const char *md_tn_trial_name(const md_tn_trial *trial);
/** Adds one to a counter of the job, if it has them. */
#define MD_TN_COUNT(w, what)                                                                                           \
    do {                                                                                                               \
        if ((w)->job->count)                                                                                           \
            atomic_fetch_add_explicit(&(w)->job->count->what, 1, memory_order_relaxed);                                \
    } while (0)

/* log.c */
void md_tn_log_candidate(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t trial);
void md_tn_log_try(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const char *event, int32_t trial);
void md_tn_log_winner(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const md_tn_record *record);
/** What was known before. */
void md_tn_log_known(const md_tn_work *w, const md_tn_tuning_point *tuning_point);
void md_tn_log_point(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const char *event, const char *why);

#endif
