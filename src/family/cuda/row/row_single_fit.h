/* Constants of the cost model of rows whose elements are loaded one by one.
 * `tools/fit row_single` judges them by recorded times, and fits them.
 *
 * Families: row_persistent row_looped
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl
 * Fit: 30 November 2026, H100 and H200: 22.6% root mean square of log(model / recorded), picks lose 2.8%, 12372
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H

#include "family/fit.h"

/* Lists have two numbers: of groups of some warps, and of groups inside a warp, to which times of short rows were
 * fitted (2026-11-29-h200-tiles and -night, and all of align3 in the runs above).
 *
 * Fitted to 1,341 kernels of layer_norm, rms_norm, softmax and var in f32 and bf16 on an H200: 12% root mean square of
 * those near the best. us: of a launch, of a wave of blocks, of a level in it, of an element of a thread in it; the
 * part of a level that each warp adds. */
MD_FIT_LIST(START, 1.85, 1.265)
MD_FIT_LIST(BLOCK, 0.05, 6.683e-05)
MD_FIT_LIST(LEVEL, 0.0135, 0.07166)
MD_FIT_LIST(EACH_WARP, 0.5, 0.349)
MD_FIT_LIST(ELEMENT, 0.0111, 0.01516)

/* us to begin each block of an SM that is among the first, which run at once. */
MD_FIT_LIST(FIRST_BLOCKS, 0.01, 0.02912)

/* What each further row that a group has at once adds to that time of a wave. */
MD_FIT(FURTHER_ROW, 1.326)

/* Issue slots of each further row, over those of the first. */
MD_FIT(FURTHER_SLOTS, 0.0001256)

/* Issue slots: of a thread, of a step of an exchange, of an element, of a weight, of an exponential, of an element
 * beyond the row's end. CLOCK: slots that an SM issues in a us. */
MD_FIT_LIST(PLACE_SLOTS, 10, 20.79)
MD_FIT_LIST(STEP_SLOTS, 0.616, 0.006412)
MD_FIT_LIST(ELEMENT_SLOTS, 7.89, 4.064)
MD_FIT_LIST(WEIGHT_SLOTS, 5.19, 4.369)
MD_FIT_LIST(EXP_SLOTS, 3.8, 0.009012)
MD_FIT_LIST(LINE_SLOTS, 0, 0.02305)
MD_FIT_LIST(IDLE_SLOTS, 5.9, 10.82)
MD_FIT_LIST(CLOCK, 4 * 1755, 8565)

/* part of what is read and written stays in the L2 */
MD_FIT_LIST(MEMORY, 0.682, 0.6538)

#endif
