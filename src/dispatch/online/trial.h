/* Who competes for a shape, and what their times say: no device, no locks. */
#ifndef MD_DISPATCH_ONLINE_TRIAL_H
#define MD_DISPATCH_ONLINE_TRIAL_H

#include "dispatch/select/plan.h"

enum {
    MD_DS_CHALLENGERS = 24,
    MD_DS_CHALLENGER_TIMES = 16,
    MD_DS_WATCHED = 8,
    MD_DS_OWN_TIMES = 3,
    MD_DS_HOST_LOOKS = 3
};

typedef struct md_ds_challenger {
    int32_t variant;
    double model_us; /* of its stage */
    double expected; /* by the model and what was learnt nearby, over the incumbent's */
    bool is_out, is_known; /* known: it was seen at some shape */
    double resolution_us; /* of its times: what differs by less is the same */
    int32_t n; /* of the times, newest last; older ones are overwritten */
    double us[MD_DS_CHALLENGER_TIMES];
    double idle_us; /* timed beside calls (idle.h); 0: not */
    md_ds_plan *plan; /* what it serves with */
} md_ds_challenger;

struct md_ds_idle_bench;

/* One stage at a time. rival[0] serves. Each of the others gets a look, the most promising first; who stands it
 * races A B B A. */
typedef struct md_ds_trial {
    _Atomic int32_t *count; /* of the op's trials */
    md_kn_shape shape;
    int64_t by[MD_FX_MAX_DIMS]; /* sizes that the choice goes by */
    int32_t stage, n_challengers;
    int32_t looks; /* at least so many, by the clock: more where it is the host's */
    int32_t version; /* of the lessons that `expected` knows */
    md_ds_challenger challenger[MD_DS_CHALLENGERS];
    int32_t at, step; /* the rival that is tried, 1..; where in A B B A, once it had its look */
    _Atomic bool is_over, is_waiting; /* waiting: until trials may cost something again */
    double settled_us; /* what the one that serves took when the trial was over */
    int32_t n_watched;
    double watched[MD_DS_WATCHED]; /* since then */
    int32_t n_slow; /* calls since it was looked at, of a shape that has no plan */
    int32_t n_running; /* calls that are to be timed and have no time yet */
    _Atomic int32_t timed, switches, demotions;
    _Atomic bool wants_launch_plan;
    /* a call in so many shall go the long way; does, by the plans that were made last */
    _Atomic int32_t every, published;
    int32_t went; /* did, before the last one that did */
    struct md_ds_idle_bench *idle; /* the race beside calls, of the thread that runs it; NULL: did not begin */
    bool is_raced; /* it is over, or cannot be */
    /* calls wait for each other: who was never seen is tried only if the model says that it is not much slower */
    bool is_careful;
    int32_t n_races; /* times that it did not get through */
    uint64_t race_ns; /* when it may go on */
} md_ds_trial;

typedef enum md_ds_verdict {
    MD_DS_GO_ON,
    MD_DS_NEXT, /* the rival is out; the next one's turn */
    MD_DS_SWITCH /* the rival shall serve */
} md_ds_verdict;

/** Another median is at least this much below, and by twice the spread, before it serves. */
#define MD_DS_SWITCH_GAIN 0.02
/** Nobody is tried of whom more than so many times the time of who serves is to be expected. */
#define MD_DS_TOO_SLOW 2.0
/** The same of one that was seen nowhere yet, where calls wait for it: one that takes ten times as long is felt by a
 * hundred calls. */
#define MD_DS_TOO_RISKY 1.5
/** What serves is demoted when it takes so many times what it took. */
#define MD_DS_DEMOTION 1.1

/** Adds a time; what is no time (zero, negative, NaN, infinite) is dropped: false. */
bool md_ds_challenger_add(md_ds_challenger *r, double us);
/** The median of its last times; 0 where there is none. *spread: of that median. */
double md_ds_challenger_median(double *spread, const md_ds_challenger *r);
/** The same of the lower half of them, where what else runs on the GPU only adds to times. */
double md_ds_challenger_low_median(double *spread, const md_ds_challenger *r);
/** Times that a rival has before it is judged first. */
int32_t md_ds_trial_looks(const md_ds_trial *t);
/** Whether the first times say already that the rival is slower than the one that serves. */
bool md_ds_trial_is_behind(const md_ds_trial *t, int32_t challenger);
/** What the times of the rival that is tried say against the one that serves. To be asked between rounds of A B B A. */
md_ds_verdict md_ds_trial_judge(const md_ds_trial *t);
/** Time over that of the one that serves: as seen, else as expected. */
double md_ds_trial_ratio(const md_ds_trial *t, int32_t challenger);
/** Puts the rival that is tried to the one of the least ratio that is not out; the trial is over where there is none,
 * until more is expected of one. */
void md_ds_trial_next(md_ds_trial *t);
/** The rival takes the place of the one that serves, which competes from then on; who was beaten by that one is out. */
void md_ds_trial_switch(md_ds_trial *t, int32_t challenger);
/** A time of the one that serves when nothing is on trial; true: it became slow, and the trial is open again.
 * *better: who was seen to take less than that, -1: nobody. */
bool md_ds_trial_watch(int32_t *better, md_ds_trial *t, double us);

#endif
