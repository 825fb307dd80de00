/* Rows on a GPU: in registers, in a loop, cut over blocks that meet through memory, in clusters, by ticket. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
     MD_F32,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
     MD_BF16,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, -1}}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_F32,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_F16,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_BF16,
     {{4, 12289}, {7, 2011}, {300, 333}, {3, 9}}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_F32,
     {{5, 3}, {9, 25}, {64, 333}, {2, 12289}}},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
     MD_F32,
     {{3, 131072}, {700, 8192}, {400, 1024}, {1, 262144}},
     "row_split/exchange0_threads256_vecs4_blocks_per_sm2_blocks32_keep1_align0"},
    {"Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G:f32[n]",
     MD_BF16,
     {{3, 131072}, {700, 8192}, {400, 1024}, {2, 12289}},
     "row_split/exchange1_threads256_vecs4_blocks_per_sm2_blocks4_keep1_align0"},
    {"Y[a] = argmax[n](X[a,n])", MD_F32, {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a] = argmin[n](X[a,n])", MD_BF16, {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a] = var[n](X[a,n])", MD_F32, {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a] = sum[n](X[a,n]); Z[a] = max[n](X[a,n])", MD_F64, {{1, 131073}, {7, 20011}, {300, 1025}, {2, 1}}},
    {"Y[a] = log(sum[n](exp(X[a,n] - max[k](X[a,k])))) + max[n](X[a,n])",
     MD_BF16,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a,n] = X[a,n] / sum[k](abs(X[a,k]))", MD_F32, {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
    {"Y[a] = sum[n](abs(X[a,n] - max[k](X[a,k])) * X[a,n])",
     MD_F32,
     {{1, 131073}, {7, 20011}, {300, 1025}, {2, 65536}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "row_");
}
