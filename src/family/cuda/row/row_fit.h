/* Constants of the cost model of rows of one group of threads.
 * `tools/fit row` judges them by recorded times, and fits them.
 *
 * Families: row_looped row_persistent row_thread
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl
 * Fit: 30 November 2026, H100 and H200: 22.5% root mean square of log(model / recorded), picks lose 3.0%, 13043
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_FIT_H

#include "family/fit.h"

/* Latency of a block, us: for each vector of a thread, its load and each pass over it; for each slot of a thread; for
 * each vector beyond the row's end; for each warp of a block of several rows. */
MD_FIT(LOAD_VECTOR_US, 0.02188)
MD_FIT(VECTOR_US, 0.001321)
MD_FIT(THREAD_SLOT_US, 0.00017)
MD_FIT(IDLE_VECTOR_US, 0.04)
MD_FIT(ROWS_US, 0.009196)

/* Latency of each vector of a thread: of weights, and of an argmax or argmin, which depend on the vector before. */
MD_FIT(EPILOGUE_VECTOR_US, 0.1872)
MD_FIT(ARG_VECTOR_US, 0.03299)

/* Argmax and argmin of rows in registers: each vector of a thread beyond ARG_HELD adds this part to the whole time. */
MD_FIT(ARG_HELD_PART, 0.07)
MD_FIT(ARG_HELD, 4)

/* Stages that only reduce, in one pass: the latency of a vector of 4-byte elements. */
MD_FIT(READ_VECTOR_US, 0.06927)

/* Latency of weights that the stores use; if they must be shifted, also for each vector, up to a limit. */
MD_FIT(EPILOGUE_US, 0.08184)
MD_FIT(SHIFTED_US, 0.3133)
MD_FIT(SHIFTED_VECTOR_US, 0.2487)
MD_FIT(SHIFTED_MOST_US, 2.436)

/* Latency of a loop: a chunk of a row, each of its vectors, merging it, the pass of the stores; the part of it that a
 * later pass takes; each vector of a chunk whose weights must be shifted. */
MD_FIT(CHUNK_US, 0.3222)
MD_FIT(CHUNK_VECTOR_US, 0.03945)
MD_FIT(MERGE_US, 0.9735)
MD_FIT(LOOP_STORE_US, 0.4327)
MD_FIT(LATER_PASS, 0.1024)
MD_FIT(LOOP_SHIFTED_US, 0.28)

/* The time in which an SM starts a block. */
MD_FIT(START_US, 0.1069)

/* One weight takes this part of what two take that are shifted (rms_norm, 160 kernels of two boards). */
MD_FIT(ONE_SHIFTED, 0.6)

/* us to begin each block of an SM that is among the first, which run at once. */
MD_FIT(FIRST_BLOCKS_US, 0.01)

/* Memory rates against that of copies: rows in registers; loops; the second pass of a loop if it finds its row in the
 * L2; the part of the L2 that serves it; and the most that an SM reaches, in shares. */
MD_FIT(ROW_RATE, 0.9921)
MD_FIT(LOOP_RATE, 0.7263)
MD_FIT(L2_RATE, 0.7621)
MD_FIT(L2_PART, 1.096)
MD_FIT(SM_BURST, 315.7)

/* The least time, as a part of the time in which a copy moves as many bytes. */
MD_FIT(LEAST_PART, 0.7024)
MD_FIT(LEAST_READ_PART, 0.7208)

/* The exponents of the p-norm (1: the times add up; large: the longest counts), and how much lower they are if an SM
 * has one block; the weights of later waves and of a lone block; uneven SMs and a last wave that is not full; and
 * threads that hold more than 32 elements, for each 32. */
MD_FIT(ROW_NORM, 1.599)
MD_FIT(LOOP_NORM, 1.492)
MD_FIT(ROW_ALONE, 1.278)
MD_FIT(LOOP_ALONE, 0.5572)
MD_FIT(WAIT_PART, 0.6089)
MD_FIT(ALONE_PART, 0.07212)
MD_FIT(BALANCE_PART, 0.458)
MD_FIT(TAIL_PART, 1.226)
MD_FIT(MANY_PART, 0.02274)

/* Two weights that are shifted in groups of few lanes, 16-bit elements: 45 kernels took 1.2 times as long as
 * modelled. */
MD_FIT(WEIGHTS_SLOTS, 1.15)

/* By md_fa_cuda_align: memory, and instructions. */
MD_FIT_LIST(ACCESS_COST, 0.5272, 0.6686, 1.117)
MD_FIT_LIST(ACCESS_SLOTS, 0.5516, 0.9211, 2.549)

/* Issue slots of a vector beyond the row's end; the part of all slots that costs issue time; and the part that adds to
 * a block's latency. */
MD_FIT(IDLE_SLOTS, 114)
MD_FIT(ISSUED_PART, 0.42)
MD_FIT(LATENCY_PART, 0.03893)

/* Issue slots an SM has, against the device's rate of fma. */
MD_FIT(SLOT_PART, 1.14)

/* Short rows of groups inside a warp that begin at no boundary take so much more: at all, for each weight, if they
 * store elements, and if these have 16 bits (1,000 to 65,000 rows of up to 399 elements: 2026-11-30-h200-rows). */
MD_FIT(WARP_ANY, 0.9262)
MD_FIT(WARP_ANY_WEIGHT, 0.1178)
MD_FIT(WARP_ANY_STORE, 0.0001063)
MD_FIT(WARP_ANY_SHORT, 0.0846)

#endif
