/* Reads other memory before a sample, so that a GPU's kernels find nothing of theirs in its cache. */
#ifndef MDCTL_SWEEP_H
#define MDCTL_SWEEP_H

#include "common/data.h"
#include "common/device.h"

typedef struct sweep {
    md_op *op;
    data_set data;
    md_launch *launch; /* NULL: nothing is swept (host) */
} sweep;

md_status sweep_make(sweep *out, md_context *context, const cli_device *device);
void sweep_free(sweep *s);
/** A sample: the mean time in us of n launches, run one after the other in a cold cache. */
md_status sweep_time(double *us, const sweep *s, md_launch *const *launches, int n);

#endif
