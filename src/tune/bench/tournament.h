/* The benchmark engine. Competitors are sampled A B C C B A, so that drift of the clock rate and other load meet all
 * alike. Variants slower than a factor x the best are dropped. It ends when one is left, when all that are left tie,
 * or when the policy's samples are taken. It knows no device and no clock: callbacks take the samples and say whether
 * to go on. Not thread-safe. */
#ifndef MD_TUNE_BENCH_TOURNAMENT_H
#define MD_TUNE_BENCH_TOURNAMENT_H

#include "tune/bench/policy.h"

#include <stdbool.h>

typedef enum md_tn_step { MD_TN_FIRST_LOOK, MD_TN_SECOND_LOOK, MD_TN_WARM_UP, MD_TN_SAMPLE } md_tn_step;

typedef enum md_tn_outcome {
    MD_TN_SAMPLED,
    MD_TN_DISTURBED, /* the time does not count and is taken again */
    MD_TN_RUN_FAILED, /* the competitor is out */
    MD_TN_RUN_HANGS, /* nothing more can be timed: the tournament ends */
} md_tn_outcome;

typedef enum md_tn_moment {
    MD_TN_BEFORE_LOOK, /* before a look at competitor i */
    MD_TN_BEFORE_SECOND_LOOK,
    MD_TN_BEFORE_ROUND, /* i: the round's number; a round is two samples of each */
    MD_TN_BEFORE_SAMPLE,
} md_tn_moment;

typedef enum md_tn_permission {
    MD_TN_GO_ON,
    MD_TN_STOP, /* what was timed so far decides; before a look: no more looks */
    MD_TN_PAUSE, /* md_tn_tournament_run returns, and goes on there when it is called again */
} md_tn_permission;

typedef struct md_tn_sampler {
    /** Runs competitor i `repeats` times, waits, and gives the time of one run in us. A time that is not positive and
     * finite counts as a failure. */
    md_tn_outcome (*sample)(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step);
    md_tn_permission (*proceed)(void *user, md_tn_moment moment, int32_t i); /* NULL: always MD_TN_GO_ON */
    void *user;
} md_tn_sampler;

typedef struct md_tn_competitor {
    bool is_in; /* gets samples; set it before the first run, cleared when it is dropped */
    bool has_failed;
    bool never_drops; /* never dropped for being slow */
    bool looks_twice; /* the first run pays for more than caches (a library loads its kernel) */
    uint32_t groups; /* bits: dropped only where it is slow in each of its groups; 0: one group of all */
    double look_us; /* the last look; 0: none yet. One that is given is not taken */
    int32_t repeats; /* runs of a sample; 0: from the look */
    int32_t n, n_taken; /* samples so far; those that this tournament took */
    double *sample; /* the caller's */
    int32_t room; /* samples that fit there; when it is full no more are taken */
} md_tn_competitor;

typedef struct md_tn_tournament {
    md_tn_policy policy;
    md_tn_sampler sampler;
    int32_t n;
    md_tn_competitor *competitor; /* the caller's */
    int32_t pass; /* samples that each has by now: even passes go forward, odd ones back */
    int32_t n_cuts; /* cuts that are done */
    bool has_looked, is_warm;
} md_tn_tournament;

typedef enum md_tn_ending { MD_TN_ENDED, MD_TN_PAUSED, MD_TN_HANGS } md_tn_ending;

/** Zeroed but for the policy (a copy: change it before the first run), the sampler and the competitors. */
md_tn_tournament md_tn_tournament_make(md_tn_purpose purpose, const md_tn_sampler *sampler,
                                       md_tn_competitor *competitor, int32_t n);
md_tn_ending md_tn_tournament_run(md_tn_tournament *t);
/** What the competitor's samples say; those of one that was only looked at: the look, n = 0. us = 0: it failed, or was
 * not reached. */
md_tn_summary md_tn_tournament_result(const md_tn_tournament *t, int32_t i);

#endif
