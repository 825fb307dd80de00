/* The ops of a transformer block, and one of lopsided shapes beside it; data for them at any sizes. */
#ifndef MDCTL_BLOCK_H
#define MDCTL_BLOCK_H

#include "common/data.h"

/* The ops of the block, the one of them that stands for products, and the one beside it whose shapes are lopsided. */
enum { BLOCK_OPS = 5, BLOCK_PRODUCT = 1, BLOCK_LOPSIDED = BLOCK_OPS, DEMO_OPS };

/* What the sizes of an op are at a step. */
typedef enum block_rule {
    BLOCK_BY_TOKENS, /* a row a token */
    BLOCK_BY_CONTEXT, /* rows of context length, one per token and head */
    BLOCK_BY_PAIR /* so many rows of such a length */
} block_rule;

typedef struct block_op {
    const char *label, *formula;
    block_rule rule;
} block_op;
extern const block_op block_table[DEMO_OPS];

/* The block's sizes. */
typedef struct block {
    int width, hidden, heads;
    md_dtype dtype; /* this and the next: unless an option or the environment says otherwise */
    md_select select;
    int64_t most_tokens, most_context; /* of a step */
    int64_t elements; /* of a lopsided shape, more or less */
    char sizes[DEMO_OPS][48]; /* the static ones of each op; "" if there are none */
} block;

typedef struct block_data {
    data_set most; /* memory for the largest step */
    md_tensor tensor[DATA_MAX_ARGS];
    md_arg arg[DATA_MAX_ARGS];
} block_data;

void block_make(block *out, bool is_gpu);
/** Sets name, static sizes, type and way of picking of op i. */
void block_options(md_op_options *out, const block *b, int i);
/** "i=40" or "i=320, j=777": sizes of op i at a step. */
void block_sizes(char out[64], const block *b, int i, int64_t tokens, int64_t context);
/** Points data->arg at the first part of the memory, shaped for these sizes. */
md_status block_shape(block_data *data, md_op *op, const char *sizes);

#endif
