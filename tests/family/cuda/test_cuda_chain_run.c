/* Families of chains on a GPU: attention in many forms with configs picked by MD_TEST_SEED, on sizes with every kind
 * of edge: one row, one key, no keys, odd and prime numbers of both. Skips itself where there is no GPU. Variables:
 * cuda_runs.h. */
#include "family/cuda/cuda_runs.h"

#define SOFTMAX                                                                                                        \
    "let P:bf16[b,h,i,j] = exp(S[b,h,i,j] - max[k](S[b,h,i,k])) / sum[k](exp(S[b,h,i,k] - max[l](S[b,h,i,l]))); "
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
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "chain");
}
