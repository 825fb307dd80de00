/* Constants of the cost model of rows that follow from a config, whatever the sizes: instructions and latency.
 * They belong to those of row_fit.h.
 * `tools/fit row_fixed` judges them by recorded times, and fits them.
 *
 * Families: row_looped row_persistent row_thread
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 *   data/boards/recorded/layer_norm_bf16.jsonl data/boards/recorded/softmax_f32.jsonl
 *   data/boards/recorded/sum_f32.jsonl
 * Fit: 29 November 2026, H100 and H200: 22.8% root mean square of log(model / recorded), picks lose 3.1%, 13043
 *   times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_FIXED_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_FIXED_FIT_H

#include "family/fit.h"

/* Latency of a block, us: its loads; its stores; the exchange of a level between threads of a warp, or of a block,
 * and for each warp of it; for strides. */
MD_FIT(LOAD_US, 0.008711)
MD_FIT(STORE_US, 0.115)
MD_FIT(WARP_US, 0.0001779)
MD_FIT(BLOCK_US, 0.1578)
MD_FIT(EACH_WARP_US, 0.00188)
MD_FIT(STRIDED_US, 0.2531)

/* Stages that only reduce, in one pass: the weight of a vector beyond the row's end (against 1 for three passes). */
MD_FIT(IDLE_READ_PART, 0.1974)

/* An element whose neighbours are not next to it in memory takes a sector of 32 bytes, of which neighbouring rows of
 * a block use more. It costs issue slots (a load of a warp touches 32 lines) and latency: of a block, and of each
 * element of a vector. Fitted to 293 kernels that add up columns, on an H100: 14% root mean square, 36% before.
 * Blocks whose threads have one vector are faster (150 kernels of an H200 and an H100). */
MD_FIT(SECTOR_BYTES, 32)
MD_FIT(SECTOR_SHARED, 0.55)
MD_FIT(SECTOR_SLOTS, 105)
MD_FIT(SECTOR_BLOCK_US, 0.29)
MD_FIT(SECTOR_ONE_VECTOR_US, -0.1)
MD_FIT(SECTOR_ELEMENT_US, 0.033)

/* Issue slots of a thread besides those of its elements: computing its place; a step of an exchange, and such a step
 * of argmax or argmin. */
MD_FIT(PLACE_SLOTS, 157.6)
MD_FIT(STEP_SLOTS, 19.16)
MD_FIT(ARG_STEP_SLOTS, 52)

/* Issue slots of an element: conversion from 16 bits, max or min, argmax or argmin, an exponential, and an
 * exponential for 16-bit results. */
MD_FIT(UNPACK_SLOTS, 2.411)
MD_FIT(MAX_SLOTS, 2.396)
MD_FIT(ARG_SLOTS, 9.244)
MD_FIT(EXP_SLOTS, 16.3)
MD_FIT(SHORT_EXP_SLOTS, 4)

#endif
