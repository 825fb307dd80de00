/* Whether variants of a stage give the same results: a check that needs no reference and takes next to no time. */
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

/** Runs each of n READY variants, which fit the shape, once, beside everything else: on the device's tuning stream,
 * on made-up inputs and on outputs that were poisoned before. Of the largest groups that agree, that of the earliest
 * variant is right if it has more than half of all; where no group has, all are UNDECIDED. Callers take turns on a
 * device. UNSUPPORTED where results may differ rightly (scatters); OUT_OF_MEMORY. */
md_status md_tn_agree(md_tn_agreement *out, md_bd_variant *const *variants, int32_t n, const md_kn_shape *shape);
/** Runs a READY variant of a stage without indices once at a shape, on the tuning stream and on memory that holds
 * anything: a library finds its kernel for the shape and loads it, which may take a millisecond, before a call needs
 * it. Callers take turns on a device. */
md_status md_tn_touch(md_bd_variant *variant, const md_kn_shape *shape);
/** Bytes that the tensors of a stage take at a shape. */
double md_tn_agree_bytes(const md_fa_target *target, const md_kn_shape *shape);

#endif
