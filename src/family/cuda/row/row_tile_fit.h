/* Constants of the cost model of rows that go through shared memory as one run.
 * `tools/fit row_tile` judges them by recorded times, and fits them.
 *
 * Families: row_tile
 * Runs: data/results/2026-11-30-h200-rows.tar.xz:2026-11-30-h200-rows/pins_0248.jsonl
 *   data/results/2026-11-30-h200-rows.tar.xz:2026-11-30-h200-rows/pins_0600_f32.jsonl
 *   data/results/2026-11-30-h200-rows.tar.xz:2026-11-30-h200-rows/pins_0600_bf16.jsonl
 * Fit: 30 November 2026, H200: 9.4% root mean square of log(model / recorded), picks lose 1.9%, 1151 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_TILE_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_TILE_FIT_H

#include "family/fit.h"

/* us: of a launch; to begin each block of an SM that is among the first, which run at once; of a wave of blocks; of a
 * row of a group in it, of a level of that row, of a step of the level's exchange, of an element of a thread; of
 * writing results as one run. */
MD_FIT(START, 1.397)
MD_FIT(FIRST_BLOCKS, 0.03672)
MD_FIT(BLOCK, 9.374e-05)
MD_FIT(TURN, 3.043e-05)
MD_FIT(LEVEL, 0.0004793)
MD_FIT(STEP, 0.02141)
MD_FIT(ELEMENT, 0.006492)
MD_FIT(RUN, 0.5414)

/* Issue slots: of a thread, of a row of a group, of a step of an exchange, of an element, of a weight, of an
 * exponential, of an element beyond the row's end. CLOCK: slots that an SM issues in a us. */
MD_FIT(PLACE_SLOTS, 124.9)
MD_FIT(ROW_SLOTS, 61.99)
MD_FIT(STEP_SLOTS, 1.232)
MD_FIT(ELEMENT_SLOTS, 6.195)
MD_FIT(WEIGHT_SLOTS, 0.02729)
MD_FIT(EXP_SLOTS, 0.01158)
MD_FIT(LINE_SLOTS, 14.92)
MD_FIT(IDLE_SLOTS, 7.768)
MD_FIT(CLOCK, 1.212e+04)

/* The norm that joins issuing and memory. */
MD_FIT(NORM, 7.335)

/* Part of what is read and written stays in the L2. */
MD_FIT(MEMORY, 0.9545)

#endif
