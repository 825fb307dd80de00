/* Families of chains on a GPU: attention in many forms with configs picked by MD_TEST_SEED, on sizes with every kind
 * of edge: one row, one key, no keys, odd and prime numbers of both. Skips itself where there is no GPU. Variables:
 * cuda_runs.h. */
#include "family/cuda/cuda_runs.h"

#define SOFTMAX                                                                                                        \
    "let P:bf16[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l]))); "
#define LONG_SOFTMAX                                                                                                   \
    "let P[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l]))); "
#define VALUES "Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h,j,e])"
#define DOT "sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d])"

/* Sizes: b, h, i, j, d, e. */
static const cuda_run list[] = {
    {"let S[b,h,i,j] = " DOT " * 0.125; " SOFTMAX VALUES,
     MD_F32,
     {{2, 3, 130, 257, 64, 64}, {1, 2, 1, 1, 128, 128}, {1, 4, 67, 131, 80, 48}, {1, 1, 5, 1000, 256, 256}}},
    {"let S[b,h,i,j] = where(j <= i, " DOT " * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 300, 300, 64, 64}, {2, 1, 129, 129, 128, 128}, {1, 3, 5, 9, 16, 16}, {1, 1, 100, 70, 256, 256}}},
    {"let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h//4,j,d]) * 0.125; " SOFTMAX
     "Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h//4,j,e])",
     MD_F32,
     {{2, 8, 1, 515, 128, 128}, {1, 8, 33, 131, 64, 64}, {3, 4, 3, 17, 128, 128}, {1, 6, 20, 40, 64, 64}}},
    {"let S[b,h,i,j] = where(j < len[b], sum[d](Q:bf16[b,i,h,d] * K:bf16[b,j,h,d]) * 0.125, -inf); " SOFTMAX
     "Y:bf16[b,i,h,e] = sum[j](P[b,h,i,j] * V:bf16[b,j,h,e])",
     MD_F32,
     {{3, 2, 17, 200, 64, 64}, {2, 2, 1, 300, 128, 128}, {2, 2, 65, 5, 128, 128}, {1, 2, 3, 1, 64, 64}}},
    {"let S[b,h,i,j] = where(j <= i and j > i - 128, " DOT " * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 400, 400, 64, 64}, {1, 1, 129, 129, 128, 128}, {1, 1, 7, 7, 64, 64}, {1, 1, 200, 333, 128, 128}}},
    {"let S[b,h,i,j] = where(j <= i, " DOT " * 0.125 + slope[h] * (j - i), -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 3, 150, 150, 64, 64}, {1, 2, 65, 65, 128, 128}, {2, 2, 1, 1, 128, 128}, {1, 1, 31, 257, 64, 64}}},
    {"let S[b,h,i,j] = where(M:bool[b,i,j], " DOT " * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {1, 1, 65, 65, 128, 128}, {2, 2, 1, 300, 128, 128}, {1, 1, 9, 17, 64, 64}}},
    {"let S[b,h,i,j] = " DOT " * 0.125; let m[b,h,i] = max[j](S[b,h,i,j]); let e:bf16[b,h,i,j] = exp(S[b,h,i,j] - "
     "m[b,h,i]); let l[b,h,i] = sum[j](e[b,h,i,j]); Y:bf16[b,h,i,d] = sum[j](e[b,h,i,j] * V:bf16[b,h,j,d]) / "
     "l[b,h,i]; L:f32[b,h,i] = m[b,h,i] + log(l[b,h,i])",
     MD_F32,
     {{1, 2, 130, 300, 64}, {1, 1, 65, 65, 128}, {2, 2, 1, 700, 128}, {1, 1, 9, 17, 64}}},
    /* weights that are not rounded, results of 16 and of 32 bits; no keys */
    {"let S[b,h,i,j] = where(j <= i, " DOT " * 0.125, -inf); " LONG_SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 150, 150, 64, 64}, {2, 1, 129, 129, 128, 128}, {1, 2, 1, 300, 128, 128}, {1, 1, 70, 100, 256, 64}}},
    {"let S[b,h,i,j] = " DOT " * 0.125; " LONG_SOFTMAX "Y:f32[b,h,i,e] = sum[j](P[b,h,i,j] * V:bf16[b,h,j,e])",
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {2, 1, 3, 129, 128, 128}, {1, 2, 1, 300, 128, 128}, {1, 2, 5, -1, 64, 64}}},
    /* sums of weights that are not rounded, as the catalogue has them; rows behind the end of their sequence */
    {"let S[b,h,i,j] = where(j <= i and i < 17 * len:i32[b], " DOT
     " * 0.125, -inf); let m[b,h,i] = max[j](S[b,h,i,j]); let "
     "x[b,h,i,j] = exp(S[b,h,i,j] - m[b,h,i]); let P:bf16[b,h,i,j] = x[b,h,i,j]; Y:bf16[b,h,i,e] = sum[j](P[b,h,i,j] "
     "* V:bf16[b,h,j,e]) / sum[j](x[b,h,i,j])",
     MD_F32,
     {{9, 2, 42, 42, 64, 64}, {4, 1, 150, 150, 128, 128}, {5, 3, 7, 5, 64, 64}, {4, 1, 1, 9, 128, 128}}},
    /* packed sequences: the first key of each row is looked up; a row may have no keys */
    {"let S[b,h,i,j] = where(j >= 23 * start:i32[b,i] and j <= i, " DOT " * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 170, 170, 64, 64}, {2, 1, 140, 150, 128, 128}, {1, 3, 37, 25, 64, 64}, {4, 1, 1, 9, 128, 128}}},
    /* no maximum */
    {"let S[b,h,i,j] = sigmoid(" DOT " * 0.125); Y:bf16[b,h,i,e] = sum[j](S[b,h,i,j] * V:bf16[b,h,j,e])",
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {2, 1, 65, 129, 128, 128}, {1, 2, 1, 300, 128, 128}, {1, 2, 5, -1, 64, 64}}},
    {"let x[b,h,i,j] = exp(" DOT " * 0.125); Y:bf16[b,h,i,e] = sum[j](x[b,h,i,j] * V:bf16[b,h,j,e]) / "
     "sum[j](x[b,h,i,j])",
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {2, 1, 65, 129, 128, 128}, {1, 2, 1, 300, 128, 128}, {1, 1, 9, 17, 64, 64}}},
    {"let S[b,h,i,j] = " DOT " * 0.125; let m[b,h,i] = max(max[j](S[b,h,i,j]), sink[h]); let x:bf16[b,h,i,j] = "
     "exp(S[b,h,i,j] - m[b,h,i]); let l[b,h,i] = sum[j](x[b,h,i,j]) + exp(sink[h] - m[b,h,i]); Y:bf16[b,h,i,e] = "
     "sum[j](x[b,h,i,j] * V:bf16[b,h,j,e]) / l[b,h,i]",
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {2, 3, 4, 129, 128, 128}, {1, 2, 1, 300, 128, 128}, {1, 1, 9, 17, 64, 64}}},
    /* lengths of -9 to 9 times 37: rows without keys among them */
    {"let S[b,h,i,j] = where(j < 37 * len[b], sum[d](Q:bf16[b,i,h,d] * K:bf16[b,j,h,d]) * 0.125, -inf); " LONG_SOFTMAX
     "Y:bf16[b,i,h,e] = sum[j](P[b,h,i,j] * V:bf16[b,j,h,e])",
     MD_F32,
     {{7, 1, 17, 200, 64, 64}, {6, 2, 1, 300, 128, 128}, {4, 2, 65, 205, 128, 128}, {5, 2, 3, 100, 64, 64}}},
    /* lengths of -9 to 9, of which those above the number of keys are reported; the same for each row */
    {"let S[b,h,i,j] = where(j < len:i32[b], sum[d](Q:bf16[b,i,h,d] * K:bf16[b,j,h,d]) * 0.125, -inf); " SOFTMAX
     "Y:bf16[b,i,h,e] = sum[j](P[b,h,i,j] * V:bf16[b,j,h,e])",
     MD_F32,
     {{9, 2, 17, 5, 64, 64}, {11, 2, 1, 6, 128, 128}, {7, 1, 300, 7, 128, 128}, {5, 2, 3, 100, 64, 64}}},
    {"let S[b,h,i,j] = where(j < len:i32[b,i], " DOT " * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{2, 2, 17, 5, 64, 64}, {11, 2, 1, 6, 128, 128}, {1, 1, 200, 8, 128, 128}, {5, 2, 3, 100, 64, 64}}},
    /* scores of -inf, half of them; a few that are NaN */
    {"let S[b,h,i,j] = " DOT " * 0.125 + log(max(W[b,i,j], 0)); " SOFTMAX VALUES,
     MD_F32,
     {{2, 2, 70, 150, 64, 64}, {3, 1, 65, 3, 128, 128}, {2, 2, 1, 300, 128, 128}, {3, 4, 9, 1, 64, 64}}},
    {"let S[b,h,i,j] = " DOT " * 0.125 + log(W[b,i,j] + 1.9); " SOFTMAX VALUES,
     MD_F32,
     {{2, 2, 70, 50, 64, 64}, {3, 1, 65, 3, 128, 128}, {5, 2, 1, 30, 128, 128}, {3, 4, 9, 5, 64, 64}}},
    /* every second key */
    {"let S[b,h,i,j] = where(j <= i, sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,2*j+1,d]) * 0.125, -inf); " SOFTMAX VALUES,
     MD_F32,
     {{1, 2, 70, 150, 64, 64}, {3, 1, 65, 65, 128, 128}, {2, 2, 1, 300, 128, 128}, {1, 2, 4, 500, 256, 256}}},
    /* one row, four heads that share keys */
    {"let S[b,h,j] = sum[d](Q:bf16[b,h,d] * K:bf16[b,h//4,j,d]) * 0.125; let P:bf16[b,h,j] = exp(S[b,h,j] - "
     "max[k](S[b,h,k])) / sum[k](exp(S[b,h,k] - max[l](S[b,h,l]))); Y:bf16[b,h,e] = sum[j](P[b,h,j] * "
     "V:bf16[b,h//4,j,e])",
     MD_F32,
     {{2, 8, 700, 128, 128}, {1, 8, 5000, 64, 64}, {1, 4, 1, 256, 256}, {3, 4, 1025, 80, 48}}},
    {"let S[h,j] = sum[d](Q:f16[h,d] * K:f16[h//2,j,d]) * 0.125; let P[h,j] = exp(S[h,j] - max[k](S[h,k])) / "
     "sum[k](exp(S[h,k] - max[l](S[h,l]))); Y:f16[h,e] = sum[j](P[h,j] * V:f16[h//2,j,e])",
     MD_F32,
     {{8, 700, 128, 128}, {8, 3000, 64, 64}, {4, 1, 256, 256}, {2, 1025, 32, 16}}},
    /* parts of a fixed number of keys, more than one for many batches */
    {"let S[b,h,i,j] = where(j < len[b], sum[d](Q:bf16[b,i,h,d] * K:bf16[b,j,h,d]) * 0.125, -inf); " SOFTMAX
     "Y:bf16[b,i,h,e] = sum[j](P[b,h,i,j] * V:bf16[b,j,h,e])",
     MD_F32,
     {{33, 8, 1, 1100, 64, 64}, {5, 2, 3, 2600, 128, 128}, {1, 2, 1, 9000, 64, 64}, {40, 8, 1, 600, 128, 128}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "chain");
}
