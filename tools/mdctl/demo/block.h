/* The ops of a transformer block, and data for them at any number of tokens. */
#ifndef MDCTL_BLOCK_H
#define MDCTL_BLOCK_H

#include "common/data.h"

enum { BLOCK_OPS = 5, BLOCK_WIDTH = 512, BLOCK_HIDDEN = 2048, BLOCK_HEADS = 8 };

typedef struct block_op {
    const char *label, *formula, *sizes; /* sizes: the static ones */
    bool by_context; /* rows of context length, one per token and head; else one row a token */
} block_op;
extern const block_op block_table[BLOCK_OPS];

typedef struct block_data {
    data_set most; /* memory for the largest step */
    md_tensor tensor[DATA_MAX_ARGS];
    md_arg arg[DATA_MAX_ARGS];
} block_data;

/** "i=40" or "i=320, j=777": sizes of op i at a step. */
void block_sizes(char out[64], int i, int64_t tokens, int64_t context);
/** Points data->arg at the first part of the memory, shaped for these sizes. */
md_status block_shape(block_data *data, md_op *op, const char *sizes);

#endif
