/* Constants of the model that decides whether a combo is one launch.
 * `tools/fit combo --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: combo
 * Source: an H200 and a Xeon with two cores, November 2026 (data/results/combos.md) */
#ifndef MD_COMBO_DECIDE_COMBO_FIT_H
#define MD_COMBO_DECIDE_COMBO_FIT_H

#include "family/fit.h"

/* On a GPU, us: what a kernel takes besides its work, a further launch of a sequence, and a step of the search for
 * an item. */
MD_FIT(GPU_LAUNCH, 1.5)
MD_FIT(GPU_NEXT_LAUNCH, 1.4)
MD_FIT(GPU_STEP, 0.02)

/* On a CPU, us: a call of an item, an item of a loop, and a loop that one thread runs. */
MD_FIT(HOST_CALL, 0.05)
MD_FIT(HOST_ITEM, 0.01)
MD_FIT(HOST_SHORT, 4.0)

/* All items together reach the rate of the best of them, or this part of the memory's. */
MD_FIT(LEAST_RATE, 0.85)

/* A combo is one launch only if its time is below this part of that of the items alone. */
MD_FIT(LEAST_GAIN, 0.97)

#endif
