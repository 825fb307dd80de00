/* Constants of the cost model of rows whose elements are loaded one by one.
 * `tools/fit row_single` judges them by recorded times, and fits them.
 *
 * Families: row_persistent row_looped row_thread
 * Runs: data/results/2026-11-30-h200-rows.tar.xz:2026-11-30-h200-rows/pins_0600_f32.jsonl
 *   data/results/2026-11-30-h200-rows.tar.xz:2026-11-30-h200-rows/pins_0600_bf16.jsonl
 *   data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz data/boards/recorded/layer_norm_bf16.jsonl
 *   data/boards/recorded/softmax_f32.jsonl data/boards/recorded/sum_f32.jsonl
 * Fit: 30 November 2026, H100 and H200: 20.7% root mean square of log(model / recorded), picks lose 3.1%, 15817
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SINGLE_FIT_H

#include "family/fit.h"

/* Lists have three numbers: of groups of some warps; of groups inside a warp and of threads that have a row alone, to
 * which times of short rows were fitted (the first runs above; the others have the times of the former).
 *
 * Fitted to 1,341 kernels of layer_norm, rms_norm, softmax and var in f32 and bf16 on an H200: 12% root mean square of
 * those near the best. us: of a launch, of a wave of blocks, of a level in it, of an element of a thread in it; the
 * part of a level that each warp adds. */
MD_FIT_LIST(START, 1.85, 1.39, 1.201)
MD_FIT_LIST(BLOCK, 0.05, 0.0404, 2.299e-05)
MD_FIT_LIST(LEVEL, 0.0135, 0.007546, 0.004402)
MD_FIT_LIST(EACH_WARP, 0.5, 0.01725, 4.867)
MD_FIT_LIST(ELEMENT, 0.0111, 0.003221, 0.0005921)

/* us to begin each block of an SM that is among the first, which run at once. */
MD_FIT_LIST(FIRST_BLOCKS, 0.01, 0.01759, 0.1178)

/* What each further row that a group has at once adds to that time of a wave. */
MD_FIT(FURTHER_ROW, 4.404)

/* Issue slots of each further row without its elements, over those of the first. */
MD_FIT(FURTHER_SLOTS, 0.001724)

/* Issue slots that an element of 16 bits takes more, also to be stored. */
MD_FIT(SHORT_SLOTS, 0.164)

/* Issue slots: of a thread, of a step of an exchange, of an element, of a weight, of an exponential, of an element
 * beyond the row's end. CLOCK: slots that an SM issues in a us. */
MD_FIT_LIST(PLACE_SLOTS, 10, 48.69, 31.99)
MD_FIT_LIST(STEP_SLOTS, 0.616, 4.013, 9.641)
MD_FIT_LIST(ELEMENT_SLOTS, 7.89, 1.235, 9.54)
MD_FIT_LIST(WEIGHT_SLOTS, 5.19, 2.828, 46.02)
MD_FIT_LIST(EXP_SLOTS, 3.8, 2.021, 0.009012)
MD_FIT_LIST(LINE_SLOTS, 0, 3.479, 0.002955)
MD_FIT_LIST(IDLE_SLOTS, 5.9, 12.11, 11.72)
MD_FIT_LIST(CLOCK, 4 * 1755, 5960, 4294)

/* The norm that joins issuing and memory. */
MD_FIT_LIST(NORM, 1, 2.674, 5.632)

/* part of what is read and written stays in the L2 */
MD_FIT_LIST(MEMORY, 0.682, 0.7766, 0.5489)

#endif
