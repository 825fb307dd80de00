/* The correction of the cost model by measured times: measured over modelled time of variants at points of a stage's
 * shape space. Tuning, MD_SELECT_MEASURE and hybrid add what they measured; whoever asks the model for a time of the
 * stage applies it. One object for each stage of an op. Thread-safe. */
#ifndef MD_TUNE_MODEL_CORRECTION_H
#define MD_TUNE_MODEL_CORRECTION_H

#include "build/build.h"

enum { MD_TN_MAX_AXES = 16, MD_TN_MOST_OBSERVATIONS = 1024 };

/* The digest of a variant's name: the same in every process. */
typedef struct md_tn_subject {
    uint64_t variant;
} md_tn_subject;

md_tn_subject md_tn_subject_of(const md_bd_variant *variant);

/* How a time was taken. Times of different clocks at one point are not compared: a call's marks, for example, time its
 * launch as well. */
typedef enum md_tn_clock {
    MD_TN_CLOCK_TUNING,
    MD_TN_CLOCK_MEASURE,
    MD_TN_CLOCK_IDLE,
    MD_TN_CLOCK_CALLS,
    MD_TN_CLOCK_ESTIMATE /* by another driver or compiler, or while the device was throttled: counts less */
} md_tn_clock;

/* Plain words without pointers, so that it can be written to a file and read by another process. */
typedef struct md_tn_observation {
    md_tn_subject subject;
    int64_t size[MD_TN_MAX_AXES]; /* of the axes of the space; the rest is 0 */
    double ratio; /* measured over modelled time, uncorrected; > 0 */
    int32_t clock; /* md_tn_clock */
    int32_t mhz; /* clock of the device's cores; 0: not known, < 0: it was throttled to -mhz */
    int64_t date; /* seconds since 1970; 0: not known */
    bool is_stored; /* it came from the store */
    bool is_foreign; /* of another chip: it says how variants compare, not how long they take */
} md_tn_observation;

typedef struct md_tn_correction md_tn_correction;

/** Points of the space have n_axes <= MD_TN_MAX_AXES sizes; the distance of two points is the sum over the axes of
 * weight x the difference of log2. has_rows (NULL: none): of axes along which rows of tensors lie; sizes there that two
 * divides differently often are farther apart. */
md_status md_tn_correction_create(md_tn_correction **out, int32_t n_axes, const double *weight, const bool *has_rows);
void md_tn_correction_destroy(md_tn_correction **correction); /* NULL allowed */

/** Adds an observation, in place of the one of the same variant and clock at the same point, or of the oldest. Ratios
 * that are not positive and finite are ignored. Unless it may wait (some microseconds) it is lost if another thread
 * uses the correction now. */
void md_tn_correction_add(md_tn_correction *c, const md_tn_observation *observation, bool may_wait);
/** Multiplies the model's times of n variants at a point by what the observations let expect there; times that are not
 * positive stay. A variant's own observations count, the nearer the more; far ones say little beside the model. What
 * all variants are off by at a point (other work, a call's overhead) multiplies all alike. */
void md_tn_correction_apply(double *us, md_tn_correction *c, const int64_t *size, const md_tn_subject *subject,
                            int32_t n);
/** True if the variant was observed at any point. */
bool md_tn_correction_knows(md_tn_correction *c, md_tn_subject subject);
/** Goes up by one with each observation; 0: there is none. */
int32_t md_tn_correction_version(const md_tn_correction *c);
/** Visits all observations, oldest first; others wait meanwhile. md_tn_correction_add takes them back. */
void md_tn_correction_each(md_tn_correction *c, void (*visit)(void *user, const md_tn_observation *observation),
                           void *user);

#endif
