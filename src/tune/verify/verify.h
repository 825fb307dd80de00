/* Whether variants compute what they should: by each other, and by the reference. */
#ifndef MD_TUNE_VERIFY_VERIFY_H
#define MD_TUNE_VERIFY_VERIFY_H

#include "build/build.h"
#include "tune/job/work.h"

/* ---- agree.c */

/* Checks whether variants of a stage give the same results: without a reference, and in the time of a run of each. */

typedef enum md_tn_agreement {
    MD_TN_UNDECIDED = -1, /* was run, but no group of variants that agree was large enough */
    MD_TN_UNSURE = 0, /* was not run */
    MD_TN_AGREES, /* agrees with most others */
    MD_TN_DIFFERS, /* most others agree with each other, but not with this one */
    MD_TN_FAILS /* does not launch */
} md_tn_agreement;

enum { MD_TN_AGREE_MOST = 64 };

/** Runs each of n READY variants, which fit the shape, once: on the device's tuning stream, on synthetic inputs and
 * poisoned outputs. Of the largest groups that agree, that of the earliest variant is right if it has more than half of
 * all; where no group has, all are UNDECIDED. One caller at a time per device. UNSUPPORTED where correct results may
 * differ (scatters); OUT_OF_MEMORY. */
md_status md_tn_agree(md_tn_agreement *out, md_bd_variant *const *variants, int32_t n, const md_kn_shape *shape);
/** Bytes that the tensors of a stage take at a shape. */
double md_tn_agree_bytes(const md_fa_target *target, const md_kn_shape *shape);

/* ---- verify.c */

/* Verifies candidates of a search against the reference. */

/** True if a trial's results are right: all of them on a small shape (once per job), samples at the point. Else sets
 * its verdict. */
bool md_tn_verify(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t trial);
/** The small shape alone, before a first run. */
bool md_tn_verify_small(md_tn_work *w, md_tn_tuning_point *tuning_point, md_tn_trial *trial);
void md_tn_verify_finish(md_tn_work *w);
void md_tn_verify_leave(md_tn_tuning_point *tuning_point);

#endif
