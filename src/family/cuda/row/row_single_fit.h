/* Constants of the cost model of rows whose elements are loaded one by one.
 * `tools/fit row_single` judges them by recorded times, and fits them.
 *
 * Families: row_persistent row_looped
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl
 * Fit: 29 November 2026, H100 and H200: 22.9% root mean square of log(model / recorded), picks lose 2.8%, 12372
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H

#include "family/fit.h"

/* Fitted to 1,341 kernels of layer_norm, rms_norm, softmax and var in f32 and bf16 on an H200: 12% root mean square of
 * those near the best. us: of a launch, of a wave of blocks, of a level in it, of an element of a thread in it; the
 * part of a level that each warp adds. */
MD_FIT(START, 1.85)
MD_FIT(BLOCK, 0.05)
MD_FIT(LEVEL, 0.0135)
MD_FIT(EACH_WARP, 0.5)
MD_FIT(ELEMENT, 0.0111)

/* us to begin each block of an SM that is among the first, which run at once. */
MD_FIT(FIRST_BLOCKS, 0.01)

/* Issue slots: of a thread, of a step of an exchange, of an element, of a weight, of an exponential, of an element
 * beyond the row's end. CLOCK: slots that an SM issues in a us. */
MD_FIT(PLACE_SLOTS, 10)
MD_FIT(STEP_SLOTS, 0.616)
MD_FIT(ELEMENT_SLOTS, 7.89)
MD_FIT(WEIGHT_SLOTS, 5.19)
MD_FIT(EXP_SLOTS, 3.8)
MD_FIT(IDLE_SLOTS, 5.9)
MD_FIT(CLOCK, 4 * 1755)

/* part of what is read and written stays in the L2 */
MD_FIT(MEMORY, 0.682)

#endif
