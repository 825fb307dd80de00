/* Constants of the cost model of rows that many blocks share.
 * `tools/fit row_split` judges them by recorded times, and fits them.
 *
 * Families: row_split
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl
 * Fit: 28 November 2026, H100 and H200: 26.5% root mean square of log(model / recorded), picks lose 2.5%, 1027
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_SPLIT_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_SPLIT_FIT_H

#include "family/fit.h"

/* Latency, us: the loads; each further chunk of a slice, and each of its vectors; weights; weights that must be
 * shifted, and each of their vectors; the stores; each warp of a block, and of an SM; more than 32 blocks; strides; a
 * slot of a thread; a vector beyond the slice's end. */
MD_FIT(LOAD_US, 0.8124)
MD_FIT(CHUNK_US, 0.437)
MD_FIT(CHUNK_VECTOR_US, 0.03247)
MD_FIT(EPILOGUE_US, 0.1115)
MD_FIT(SHIFTED_US, 0.4876)
MD_FIT(SHIFTED_VECTOR_US, 0.0265)
MD_FIT(STORE_US, 0.05317)
MD_FIT(BARRIER_US, 0.03036)
MD_FIT(WARP_US, 0.001872)
MD_FIT(MANY_BLOCKS_US, 1.088e-05)
MD_FIT(STRIDED_US, 0.2536)
MD_FIT(THREAD_SLOT_US, 0.002224)
MD_FIT(IDLE_VECTOR_US, 0.03064)

/* Latency of an exchange, by field `exchange`: its constant part, and what each doubling of blocks adds; with a single
 * block. */
MD_FIT_LIST(EXCHANGE_US, 1.069, 0.8789, 0.8228, 0.3006)
MD_FIT_LIST(EXCHANGE_DOUBLED_US, 0.01766, 0.4894, 3.46e-06, 0.04975)
MD_FIT(ONE_BLOCK_US, 0.138)

/* The most that an SM reaches of the memory rate, in shares, and the cost of reading a slice again. */
MD_FIT(SM_BURST, 315.1)
MD_FIT(REREAD_PART, 0.9807)

/* Blocks that go from row to row without splitting; the exponent of the p-norm; the part of a row's latency for which
 * the next row of the same blocks waits; the part of the counted slots that is issued; slots of an SM against its rate
 * of fma; and slots of an exponential. */
MD_FIT(WHOLE_ROWS, 0.8584)
MD_FIT(NORM, 1.62)
MD_FIT(WAIT_PART, 0.854)
MD_FIT(ISSUED_PART, 2.2)
MD_FIT(SLOT_PART, 2.077)
MD_FIT(EXP_SLOTS, 5.292)

/* Groups end together: the weight of a last wave that is not full. */
MD_FIT(TAIL_PART, 1.5)

/* The factor on memory if weights must be shifted. */
MD_FIT(SHIFTED_PART, 1.1)

/* By md_fa_cuda_align: memory against a copy of as many bytes, and instructions. */
MD_FIT_LIST(ACCESS_COST, 0.9337, 0.9337, 1.173)
MD_FIT_LIST(ACCESS_SLOTS, 1, 1, 1.33)

/* us, where neighbours along the row lie apart: 50 kernels that add up columns, on an H200 and an H100. */
MD_FIT(SCATTERED_US, 0.5)

#endif
