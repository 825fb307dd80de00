/* Constants of the cost model that hold for all families.
 * `tools/fit model --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: all
 * Source: a Xeon with two cores and an H200, November 2026 (data/results/model.md) */
#ifndef MD_TUNE_MODEL_MODEL_FIT_H
#define MD_TUNE_MODEL_MODEL_FIT_H

#include "family/fit.h"

/* CPU: an exponential, tanh, ... costs about this many operations at the full multiply-add rate: polynomial, range
 * reduction, selects. Of math.h with 16 lanes, measured: exp 28, sigmoid 49, tanh 70, log 85, erf 94, gelu 125. */
MD_FIT(OPS_PER_TRANSCENDENTAL, 60.0)

/* CPU: the part of the time of the roofs that are not the highest which the hardware does not hide under it. */
MD_FIT(OVERLAP_LOSS, 0.15)

/* CPU, us: a launch whose blocks all run on the caller, which packs parameters and calls. */
MD_FIT(LONE_LAUNCH_US, 0.1)

/* CPU: bytes of the shared cache that a lane can count on, since the reported size may be shared with other
 * machines' guests; and its rate as a multiple of the memory's. */
MD_FIT(SHARED_BYTES_PER_LANE, 4.0 * 1024 * 1024)
MD_FIT(SHARED_CACHE_GAIN, 1.6)

/* GPU, us: what a kernel of a sequence takes besides the work of its blocks, and what each further launch of an op
 * adds. */
MD_FIT(GPU_LAUNCH_US, 1.5)
MD_FIT(GPU_NEXT_LAUNCH_US, 1.2)

/* GPU: the L2's rate as a multiple of the memory's. */
MD_FIT(GPU_L2_GAIN, 1.6)

/* GPU: an exponential on the special-function unit with its range reduction, in operations; and the part of the
 * lower roof that is not hidden. */
MD_FIT(GPU_OPS_PER_TRANSCENDENTAL, 12.0)
MD_FIT(GPU_OVERLAP_LOSS, 0.05)

#endif
