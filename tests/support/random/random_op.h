/* Random operations of the kinds that people write: pointwise chains, broadcasts, rows with several levels of
 * reductions, scans, gathers, scatters, products with prologues and epilogues, chains of them, sums of products of many
 * tensors. Tame in value (no
 * overflow, no division by nearly 0), so that results can be compared within bounds; random_formula.h has the wild
 * ones. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_OP_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_OP_H

#include "base/strbuf.h"

#include <stdint.h>

typedef enum random_op_kind {
    RANDOM_OP_POINTWISE,
    RANDOM_OP_BROADCAST,
    RANDOM_OP_ROW,
    RANDOM_OP_SOFTMAX,
    RANDOM_OP_SCAN,
    RANDOM_OP_GATHER,
    RANDOM_OP_SCATTER,
    RANDOM_OP_PRODUCT,
    RANDOM_OP_CHAIN,
    RANDOM_OP_CONTRACTION,
    RANDOM_OP_N_KINDS
} random_op_kind;

/** Writes a formula; the same state gives the same one. */
void random_op(md_strbuf *out, uint64_t *state, random_op_kind kind);

#endif
