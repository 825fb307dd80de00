/* The ops of a transformer block and their shapes. */
#include "demo/block.h"

const block_op block_table[BLOCK_OPS] = {
    {"rms_norm", "rms_norm", "j=512", false},
    {"qkv", "Y[i,n] = sum[k](X[i,k] * W[n,k])", "n=1536, k=512", false},
    {"softmax", "softmax", NULL, true},
    {"up_gelu", "Y[i,n] = gelu_tanh(sum[k](X[i,k] * W[n,k]) + c[n])", "n=2048, k=512", false},
    {"down", "Y[i,n] = R[i,n] + sum[k](X[i,k] * W[n,k])", "n=512, k=2048", false},
};

void block_sizes(char out[64], int i, int64_t tokens, int64_t context)
{
    if (block_table[i].by_context)
        snprintf(out, 64, "i=%lld, j=%lld", (long long)(tokens * BLOCK_HEADS), (long long)context);
    else
        snprintf(out, 64, "i=%lld", (long long)tokens);
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
