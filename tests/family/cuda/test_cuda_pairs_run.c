/* Families of pairs on a GPU: the gradient of attention in many forms with configs picked by MD_TEST_SEED, on sizes
 * with every kind of edge: one row, one key, none of either, odd and prime numbers of both. Skips itself where there is
 * no GPU. Variables: cuda_runs.h. */
#include "family/cuda/cuda_runs.h"

#define DOT "sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d])"
/* of the weights P */
#define GRADIENTS                                                                                                      \
    "let T:bf16[b,h,i,j] = P[b,h,i,j] * (sum[e](G:bf16[b,h,i,e] * V:bf16[b,h,j,e]) - w:f32[b,h,i]) * 0.125; "          \
    "A:bf16[b,h,i,d] = sum[j](T[b,h,i,j] * K[b,h,j,d]); B:bf16[b,h,j,d] = sum[i](T[b,h,i,j] * Q[b,h,i,d]); "           \
    "C:bf16[b,h,j,e] = sum[i](P[b,h,i,j] * G[b,h,i,e])"
#define WEIGHTS(x) "let P:bf16[b,h,i,j] = " x "; " GRADIENTS

/* Sizes: b, h, i, j, d, e. */
static const cuda_run list[] = {
    {WEIGHTS("exp(" DOT " * 0.06 - L:f32[b,h,i])"),
     MD_F32,
     {{2, 3, 70, 137, 64, 64}, {1, 2, 1, 1, 128, 128}, {1, 2, 67, 131, 80, 48}, {1, 1, 65, 100, 256, 256}}},
    /* as the Python package writes it: the logarithms of half of the rows are -inf */
    {WEIGHTS("where(log(max(W[b,h,i], 0)) == -inf, 0, exp(where(j <= i, " DOT
             " * 0.06, -inf) - log(max(W[b,h,i], 0))))"),
     MD_F32,
     {{1, 2, 200, 200, 64, 64}, {2, 1, 129, 129, 128, 128}, {1, 3, 5, 9, 16, 16}, {1, 1, 100, 70, 192, 192}}},
    {WEIGHTS("where(j <= i + size(j) - size(i), exp(" DOT " * 0.06 - L:f32[b,h,i]), 0)"),
     MD_F32,
     {{1, 2, 50, 200, 64, 64}, {2, 1, 1, 129, 128, 128}, {1, 1, 129, 65, 128, 128}, {1, 2, 40, 333, 32, 96}}},
    {WEIGHTS("where(j <= i and j > i - 40, exp(" DOT " * 0.06 + slope[h] * (j - i) * 0.02 - L:f32[b,h,i]), 0)"),
     MD_F32,
     {{1, 2, 300, 300, 64, 64}, {1, 1, 129, 129, 128, 128}, {1, 1, 7, 7, 64, 64}, {1, 1, 100, 233, 112, 144}}},
    /* lengths of -9 to 9 times 20: batches without keys among them */
    {WEIGHTS("where(j < 20 * len:i64[b], exp(tanh(" DOT " / 50) * 5 + M[b,i,j] - L:f32[b,h,i]), 0)"),
     MD_F32,
     {{5, 1, 37, 100, 64, 64}, {3, 2, 65, 65, 128, 128}, {4, 1, 3, 205, 48, 48}, {2, 1, 130, 5, 64, 64}}},
    {WEIGHTS("where(M:bool[b,i,j], exp(" DOT " * 0.06 - L:f32[b,h,i]), 0)"),
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {1, 1, 65, 65, 128, 128}, {2, 2, 1, 200, 128, 128}, {1, 1, 9, 17, 64, 64}}},
    /* packed sequences, heads behind rows */
    {"let P:f16[h,i,j] = where(j >= 20 * off:i64[seq:i64[i]] and j < 20 * to:i64[seq[i]], exp(sum[d](Q:f16[i,h,d] * "
     "K:f16[j,h,d]) * 0.06 - L:f32[h,i]), 0); let T:f16[h,i,j] = P[h,i,j] * (sum[e](G:f16[i,h,e] * V:f16[j,h,e]) - "
     "w:f32[h,i]) * 0.06; A:f16[i,h,d] = sum[j](T[h,i,j] * K[j,h,d]); B:f16[j,h,d] = sum[i](T[h,i,j] * Q[i,h,d]); "
     "C:f16[j,h,e] = sum[i](P[h,i,j] * G[i,h,e])",
     MD_F32,
     {{2, 130, 130, 64, 64}, {1, 65, 65, 128, 128}, {3, 7, 9, 16, 32}, {2, 200, 200, 64, 64}}},
    /* heads that share keys */
    {"let P:bf16[b,h,r,i,j] = where(j <= i, exp(sum[d](Q:bf16[b,h,r,i,d] * K:bf16[b,h,j,d]) * 0.06 - L:f32[b,h,r,i]), "
     "0); let T:bf16[b,h,r,i,j] = P[b,h,r,i,j] * (sum[e](G:bf16[b,h,r,i,e] * V:bf16[b,h,j,e]) - w:f32[b,h,r,i]); "
     "A:bf16[b,h,r,i,d] = sum[j](T[b,h,r,i,j] * K[b,h,j,d]); B:bf16[b,h,j,d] = sum[r,i](T[b,h,r,i,j] * "
     "Q[b,h,r,i,d]); C:bf16[b,h,j,e] = sum[r,i](P[b,h,r,i,j] * G[b,h,r,i,e])",
     MD_F32,
     {{1, 2, 3, 70, 70, 64, 64}, {2, 1, 4, 33, 65, 128, 128}, {1, 1, 2, 1, 1, 64, 64}, {1, 2, 4, 40, 100, 96, 96}}},
    /* weights that are not rounded, results of 32 and of 16 bits; no rows, no keys */
    {"let P[b,h,i,j] = where(j <= i, exp(" DOT " * 0.06 - L[b,h,i]), 0); let T[b,h,i,j] = P[b,h,i,j] * "
     "(sum[e](G:bf16[b,h,i,e] * V:bf16[b,h,j,e]) - w[b,h,i]); A[b,h,i,d] = sum[j](T[b,h,i,j] * K[b,h,j,d]) + "
     "A0[b,h,i,d]; B:bf16[b,h,j,d] = sum[i](T[b,h,i,j] * Q[b,h,i,d]); C[b,h,j,e] = 2 * sum[i](P[b,h,i,j] * "
     "G[b,h,i,e])",
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {2, 1, 65, 65, 128, 128}, {1, 2, -1, 30, 64, 64}, {1, 2, 5, -1, 64, 64}}},
    /* one product, one length */
    {"let P:f16[b,h,i,j] = sigmoid(sum[d](Q:f16[b,h,i,d] * K:f16[b,h,2*j+1,d]) * 0.06); A:f16[b,h,i,d] = "
     "sum[j](P[b,h,i,j] * K[b,h,2*j+1,d]); B:f16[b,h,j,d] = sum[i](P[b,h,i,j] * Q[b,h,i,d])",
     MD_F32,
     {{1, 2, 70, 150, 64}, {2, 1, 65, 129, 128}, {1, 2, 1, 200, 224}, {2, 2, 30, 3, 16}}},
    /* a few scores that are NaN */
    {WEIGHTS("exp(" DOT " * 0.06 + log(W[b,i,j] + 1.9))"),
     MD_F32,
     {{2, 2, 70, 50, 64, 64}, {3, 1, 65, 3, 128, 128}, {5, 2, 1, 30, 128, 128}, {3, 4, 9, 5, 64, 64}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "pairs");
}
