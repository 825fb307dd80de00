/* Checks whether variants of a stage give the same results: without a reference, and in the time of a run of each. */
#ifndef MD_TUNE_VERIFY_AGREE_H
#define MD_TUNE_VERIFY_AGREE_H

#include "build/build.h"

typedef enum md_tn_agreement {
    MD_TN_UNDECIDED = -1, /* was run, but no group of variants that agree was large enough */
    MD_TN_UNSURE = 0, /* was not run */
    MD_TN_AGREES, /* with most of the others */
    MD_TN_DIFFERS, /* most of the others agree, but not with this one */
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

#endif
