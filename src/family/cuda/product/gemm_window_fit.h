/* Constants of the cost model of gemm_window, beside those of gemm_mma.
 *
 * `tools/fit gemm_window` judges them by recorded times, and fits them.
 *
 * Families: gemm_window
 * Runs: data/results/2026-11-30-h200-model.tar.xz:2026-11-30-h200-model/regret_conv_0243.jsonl@r=3,s=3
 *   data/results/2026-11-30-h200-model.tar.xz:2026-11-30-h200-model/regret_conv_0320.jsonl@r=3,s=3
 *   data/results/2026-11-30-h200-model.tar.xz:2026-11-30-h200-model/regret_conv_0350.jsonl@r=3,s=3
 *   data/results/2026-11-30-h200-boards.tar.xz:2026-11-30-h200-boards/regret_conv_0502.jsonl@r=3,s=3
 *   data/results/2026-11-30-h200.tar.xz:2026-11-30-h200/regret_conv_0032.jsonl@r=3,s=3
 * Fit: 30 November 2026, H200: 29.4% root mean square of log(model / recorded), picks lose 4.7%, 172 times. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_WINDOW_FIT_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_WINDOW_FIT_H

#include "family/fit.h"

/* us in which a thread finds eight elements of a step of K: along K copied asynchronously, or one by one, and along
 * the rows; how much of that blocks on one SM do in turn; registers of a thread, by which so many blocks find room;
 * the part of gemm_mma's rate that is left, by K and along the rows. */
MD_FIT(PIECE_COPIED, 0.5915)
MD_FIT(PIECE_SINGLE, 1.523)
MD_FIT(PIECE_GATHERED, 0.1)
MD_FIT(IN_TURN, 0.2131)
MD_FIT(REGISTERS, 201)
MD_FIT(PART_OF_RATE, 2.099)
MD_FIT(PART_GATHERED, 0.08981)

#endif
