/* The kernels that a device is calibrated by. */
#ifndef MD_TUNE_CALIBRATE_PROBES_H
#define MD_TUNE_CALIBRATE_PROBES_H

#include "device/device.h"

enum { MD_TN_PROBE_SIZES = 2, MD_TN_PROBE_DIMS = 5 };

/* A formula of one stage; every family that serves it has its best config by the model built and timed, at each of the
 * sizes, which are by dim in order of appearance. What matters most comes first. */
typedef struct md_tn_probe {
    md_dev_kind device;
    const char *text;
    int64_t size[MD_TN_PROBE_SIZES][MD_TN_PROBE_DIMS];
} md_tn_probe;

extern const md_tn_probe md_tn_probes[]; /* its last has no text */

#endif
