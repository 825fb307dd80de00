/* How long variants are timed and when one is given up: the only place with sample sizes, rounds, drop factors and
 * the cold-cache factor. Tuning, MD_SELECT_MEASURE, background races and md_bench differ by a row of this table. */
#ifndef MD_TUNE_BENCH_POLICY_H
#define MD_TUNE_BENCH_POLICY_H

#include "tune/bench/samples.h"

enum { MD_TN_MOST_CUTS = 8 };

/* All sets of memory that runs take in turn are together this many times the cache, so that no run finds its inputs
 * there, as where other work runs between two calls. */
#define MD_TN_COLD 2.5

typedef struct md_tn_cut {
    int32_t samples; /* after so many; 0 ends the list */
    double factor; /* variants slower than factor x the best are dropped */
} md_tn_cut;

typedef struct md_tn_policy {
    double sample_us; /* length of a sample: a run is repeated until it takes about so long */
    int32_t most_repeats;
    double second_look; /* no second look at variants whose first took more than this x the best ... */
    double cheap_us; /* ... unless it took less than this */
    double look_factor; /* variants that a look finds slower than this x the best get no samples; 0: all get some */
    double warm_up_us; /* samples that are thrown away before the first that counts; 0: none */
    int32_t samples; /* of each variant that is never dropped */
    md_tn_cut cut[MD_TN_MOST_CUTS];
    int32_t least_samples; /* a variant that is left alone has at least so many */
    double tie; /* ends when all that are left differ by less than this part, and are known as well; 0: never */
    md_tn_estimate_by compare_by; /* cuts */
    md_tn_estimate_by judge_by; /* the result */
} md_tn_policy;

typedef enum md_tn_purpose {
    MD_TN_FOR_TUNING, /* new configs of a search against the best so far */
    MD_TN_FOR_TUNING_FINAL, /* the best few once more */
    MD_TN_FOR_MEASURE, /* MD_SELECT_MEASURE: while a call waits */
    MD_TN_FOR_BACKGROUND, /* MD_SELECT_HYBRID, in quiet moments: other work may delay any sample */
    MD_TN_FOR_BENCH, /* md_bench: all that is timed is reported */
} md_tn_purpose;

const md_tn_policy *md_tn_policy_for(md_tn_purpose purpose);

#endif
