/* A trial: the variants that compete for one shape, and what their times say. It knows no device and takes no locks. */
#ifndef MD_DISPATCH_HYBRID_TRIAL_H
#define MD_DISPATCH_HYBRID_TRIAL_H

#include "dispatch/types.h"
#include "tune/bench/samples.h"

enum {
    MD_DS_CHALLENGERS = 24, /* the incumbent included */
    MD_DS_CHALLENGER_TIMES = 16,
    MD_DS_WATCHED = 8, /* times of the incumbent that a demotion is decided by */
    MD_DS_OWN_TIMES = 3, /* times of the incumbent before a challenger is tried */
    MD_DS_HOST_LOOKS = 3
};

typedef struct md_ds_challenger {
    int32_t variant;
    double model_us; /* of its stage, uncorrected */
    double expected; /* time over the incumbent's, by the corrected model */
    bool is_out; /* not tried any more */
    bool is_known; /* was measured at some shape */
    bool is_unloaded; /* its library's kernel is not loaded: it is out until that pays, or a quiet moment comes */
    double resolution_us; /* its times resolve no smaller differences */
    int32_t n; /* times of calls; the last MD_DS_CHALLENGER_TIMES are kept */
    double us[MD_DS_CHALLENGER_TIMES];
    double idle_us; /* time by the background race, us; 0: none */
    md_ds_plan *plan; /* what it serves with; owned */
} md_ds_challenger;

struct md_ds_idle_bench;

/* Of one stage: challenger[0] is the incumbent, which serves. Each of the others gets a look, the most promising first;
 * the ones that pass are timed A B B A against the incumbent. */
typedef struct md_ds_trial {
    _Atomic int32_t *count; /* trials of the op */
    md_kn_shape shape;
    int64_t select_sizes[MD_FX_MAX_DIMS]; /* sizes that variants are chosen by, by dim id */
    int32_t stage, n_challengers;
    int32_t looks; /* times of a challenger before it is judged first, at least */
    int32_t version; /* of the correction that `expected` was made with */
    md_ds_challenger challenger[MD_DS_CHALLENGERS];
    double own_us; /* what the corrected model expected of the incumbent at first */
    int32_t current; /* the challenger that is tried; 0: none */
    int32_t step; /* of A B B A, 0 .. 4 */
    _Atomic bool is_over; /* no challenger is left to be tried, until the correction changes */
    _Atomic bool is_waiting; /* nothing is tried until the budget covers the next challenger */
    int32_t stored; /* the variant that was stored as this trial's verdict; -1: none yet */
    double final_us; /* the incumbent's time when the trial was over */
    int32_t n_watched;
    double watched[MD_DS_WATCHED]; /* the incumbent's times since then */
    int64_t n_calls; /* calls that the timed ones stand for */
    int32_t n_unplanned; /* calls without a launch plan */
    int32_t n_running; /* timed calls that have no time yet */
    _Atomic int32_t timed, switches, demotions;
    _Atomic bool wants_launch_plan; /* launch plans must be made again: they have another variant, or rate */
    /* One call in so many takes the slow path: by now; by the launch plans made last; at the last slow call. */
    _Atomic int32_t every, published_every;
    int32_t previous_every;
    struct md_ds_idle_bench *idle; /* the background race, used by one thread; NULL: not begun */
    bool is_raced; /* the background race is over, or impossible */
    _Atomic bool is_settled; /* idle_tune: nothing is left to be found out; launch plans made from now on know it */
    int32_t fastest; /* the variant that a cheap race found to be the fastest: the next process begins with it; -1 */
    bool is_careful; /* callers wait for each call: variants that were never measured must not be much slower */
    int32_t n_races; /* interrupted runs of the background race */
    uint64_t race_ns; /* when the next may begin */
} md_ds_trial;

typedef enum md_ds_verdict {
    MD_DS_GO_ON,
    MD_DS_NEXT, /* the challenger is out */
    MD_DS_SWITCH /* the challenger becomes the incumbent */
} md_ds_verdict;

/** A challenger must be faster by this part, and by twice the error of the medians. */
#define MD_DS_SWITCH_GAIN 0.02
/** Challengers whose expected time is more than this x the incumbent's are not tried. */
#define MD_DS_TOO_SLOW 2.0
/** The same for variants that were never measured, where callers wait: one that takes ten times as long delays a
 * hundred calls. */
#define MD_DS_TOO_RISKY 1.5
/** The incumbent is demoted when it takes this x its final time. */
#define MD_DS_DEMOTION 1.1

/** Adds a time in us. False, and dropped, if it is not positive and finite. */
bool md_ds_challenger_add(md_ds_challenger *challenger, double us);
/** The median of its last times and the median's error; us = 0: none. */
md_tn_summary md_ds_challenger_summary(const md_ds_challenger *challenger);
/** Times of a challenger before it is judged first. */
int32_t md_ds_trial_looks(const md_ds_trial *t);
/** True if the first times show that the challenger is not worth a switch. */
bool md_ds_trial_is_behind(const md_ds_trial *t, int32_t challenger);
/** Judges the current challenger against the incumbent. After each round of A B B A. */
md_ds_verdict md_ds_trial_judge(const md_ds_trial *t);
/** Time over the incumbent's: as measured, else as expected. */
double md_ds_trial_ratio(const md_ds_trial *t, int32_t challenger);
/** Tries the challenger of the least ratio next; the trial is over where there is none. */
void md_ds_trial_next(md_ds_trial *t);
/** The challenger becomes the incumbent; the one before it is out. */
void md_ds_trial_switch(md_ds_trial *t, int32_t challenger);
/** True if the trial is over and every promising challenger was timed: its incumbent may be kept. */
bool md_ds_trial_is_sound(const md_ds_trial *t);
/** Takes a time of the incumbent after the trial. True: it became slow, and the trial is open again. *better: a
 * challenger that was measured faster than that; -1: none. */
bool md_ds_trial_watch(int32_t *better, md_ds_trial *t, double us);

#endif
