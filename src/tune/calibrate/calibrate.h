/* What the model's times of each family are off by on a device, by a few kernels of the library that are timed there.
 * Only what families are off by beside each other counts: picks compare them. */
#ifndef MD_TUNE_CALIBRATE_CALIBRATE_H
#define MD_TUNE_CALIBRATE_CALIBRATE_H

#include "build/build.h"

#include <pthread.h>

/* What the kernels of a family said. */
typedef struct md_tn_off {
    const md_fa_family *family;
    int32_t n; /* kernels and sizes */
    double mean, spread; /* of log(measured time / time by the model): the mean, and the standard deviation */
} md_tn_off;

typedef struct md_tn_calibration {
    int32_t n;
    md_tn_off off[MD_DEV_MOST_FACTORS];
    int64_t date; /* seconds since 1970 */
    double ms; /* that it took */
    int32_t n_probes; /* operations of the list that were looked at */
    bool is_whole; /* false: there was no time for all of them */
    bool is_sure; /* false: other work or heat disturbed it, so it is an estimate */
} md_tn_calibration;

typedef struct md_tn_calibrate_options {
    double budget_ms; /* no measurement begins after it */
    bool (*is_over)(void *user); /* asked often; NULL: never */
    void *user;
    pthread_mutex_t *lock; /* held while the device's tuning stream is used; NULL: none */
    const md_tn_calibration *before; /* one that was interrupted, to go on with; NULL: from the beginning */
} md_tn_calibrate_options;

/** Builds and times kernels of the families of the builder's device; a family that fails is left out. Takes about as
 * long as the budget says, and one build longer at most; at least one operation is looked at, so that some calls, each
 * going on with the one before, are whole in the end. OUT_OF_MEMORY. */
md_status md_tn_calibrate(md_tn_calibration *out, md_bd *builder, const md_tn_calibrate_options *options);
/** Leaves families out that are off by more than any family of this library: other work was measured, and the rest is
 * no longer sure. */
void md_tn_calibration_check(md_tn_calibration *calibration);
/** The factors of families that are off beside the others. False: there are none. */
bool md_tn_calibration_factors(md_dev_factors *out, const md_tn_calibration *calibration);

/** As text. */
void md_tn_calibration_print(md_strbuf *out, const md_tn_calibration *calibration);
/** False for what is damaged, impossible, or of other sources of the library. Families that are not known any more are
 * left out. `text` has a 0 behind its n bytes. */
bool md_tn_calibration_read(md_tn_calibration *out, md_dev_kind kind, const char *text, size_t n);

#endif
