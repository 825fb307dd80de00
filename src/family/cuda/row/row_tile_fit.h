/* Constants of the cost model of rows that go through shared memory as one run.
 * `tools/fit row_tile` judges them by recorded times, and fits them.
 *
 * Families: row_tile
 * Runs: data/results/2026-11-29-h200-tiles.tar.xz:2026-11-29-h200-tiles/pins_2350.jsonl
 * Fit: 30 November 2026, H200: 10.5% root mean square of log(model / recorded), picks lose 6.4%, 1043 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_TILE_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_TILE_FIT_H

#include "family/fit.h"

/* us: of a launch; to begin each block of an SM that is among the first, which run at once; of a wave of blocks; of a
 * row of a group in it, of a level of that row, of a step of the level's exchange, of an element of a thread; of
 * writing results as one run. */
MD_FIT(START, 1.56)
MD_FIT(FIRST_BLOCKS, 0.03977)
MD_FIT(BLOCK, 0.002787)
MD_FIT(TURN, 3.043e-05)
MD_FIT(LEVEL, 0.0009115)
MD_FIT(STEP, 0.01415)
MD_FIT(ELEMENT, 0.008828)
MD_FIT(RUN, 0.4826)

/* Issue slots: of a thread, of a row of a group, of a step of an exchange, of an element, of a weight, of an
 * exponential, of an element beyond the row's end. CLOCK: slots that an SM issues in a us. */
MD_FIT(PLACE_SLOTS, 92.33)
MD_FIT(ROW_SLOTS, 0.07776)
MD_FIT(STEP_SLOTS, 0.01691)
MD_FIT(ELEMENT_SLOTS, 9.223)
MD_FIT(WEIGHT_SLOTS, 9.121)
MD_FIT(EXP_SLOTS, 5.365)
MD_FIT(LINE_SLOTS, 5.836)
MD_FIT(IDLE_SLOTS, 30.57)
MD_FIT(CLOCK, 1.272e+04)

/* The norm that joins issuing and memory. */
MD_FIT(NORM, 1.791)

/* Part of what is read and written stays in the L2. */
MD_FIT(MEMORY, 0.9)

#endif
