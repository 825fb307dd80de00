/* The ops of a transformer block and their shapes. */
#include "demo/block.h"

#include <stdio.h>
#include <stdlib.h>

const block_op block_table[DEMO_OPS] = {
    {"rms_norm", "rms_norm", BLOCK_BY_TOKENS},
    {"qkv", "Y[i,n] = sum[k](X[i,k] * W[n,k])", BLOCK_BY_TOKENS},
    {"softmax", "softmax", BLOCK_BY_CONTEXT},
    {"up_gelu", "Y[i,n] = gelu_tanh(sum[k](X[i,k] * W[n,k]) + c[n])", BLOCK_BY_TOKENS},
    {"down", "Y[i,n] = R[i,n] + sum[k](X[i,k] * W[n,k])", BLOCK_BY_TOKENS},
    {"row_sum", "Y[i] = sum[j](X[i,j])", BLOCK_BY_PAIR},
};

/* Small for a CPU, so that a demo takes seconds; on a GPU of the size that models have. */
void block_make(block *out, bool is_gpu)
{
    *out = is_gpu ? (block){.width = 4096,
                            .heads = 32,
                            .dtype = MD_BF16,
                            .select = MD_SELECT_MEASURE,
                            .most_tokens = 4096,
                            .most_context = 1024,
                            .elements = 1 << 24}
                  : (block){.width = 512,
                            .heads = 8,
                            .dtype = MD_F32,
                            .most_tokens = 256,
                            .most_context = 2048,
                            .elements = 1 << 20};
    out->hidden = 4 * out->width;
    if (getenv("MD_SELECT"))
        out->select = MD_SELECT_DEFAULT;
    snprintf(out->sizes[0], sizeof out->sizes[0], "j=%d", out->width);
    snprintf(out->sizes[1], sizeof out->sizes[1], "n=%d, k=%d", 3 * out->width, out->width);
    snprintf(out->sizes[3], sizeof out->sizes[3], "n=%d, k=%d", out->hidden, out->width);
    snprintf(out->sizes[4], sizeof out->sizes[4], "n=%d, k=%d", out->width, out->hidden);
}

void block_options(md_op_options *out, const block *b, int i)
{
    out->sizes = b->sizes[i][0] ? b->sizes[i] : NULL;
    out->name = block_table[i].label;
    if (out->dtype == MD_DTYPE_DEFAULT)
        out->dtype = b->dtype;
    if (out->select == MD_SELECT_DEFAULT)
        out->select = b->select;
}

void block_sizes(char out[64], const block *b, int i, int64_t tokens, int64_t context)
{
    const block_rule rule = block_table[i].rule;
    if (rule == BLOCK_BY_TOKENS)
        snprintf(out, 64, "i=%lld", (long long)tokens);
    else
        snprintf(out, 64, "i=%lld, j=%lld", (long long)(rule == BLOCK_BY_CONTEXT ? tokens * b->heads : tokens),
                 (long long)context);
}

md_status block_shape(block_data *data, md_op *op, const char *sizes)
{
    for (int32_t i = 0; i < data->most.n; i++) {
        md_tensor t;
        data->arg[i] = data->most.arg[i];
        if (data->most.info[i].is_scalar)
            continue;
        md_status s = md_op_tensor(&t, op, i, sizes);
        if (s != MD_OK)
            return s;
        data->tensor[i] = md_tensor_make(data->most.tensor[i].data, t.dtype, t.rank, t.size);
        data->arg[i] = md_t(&data->tensor[i]);
    }
    return MD_OK;
}
