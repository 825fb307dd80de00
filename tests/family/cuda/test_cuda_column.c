/* Rows that lie across memory on a GPU. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"Y[n] = sum[a](X[a,n])", MD_F32, {{20011, 33}, {3000, 257}, {100003, 8}, {1, 5}}},
    {"Y[n] = argmax[a](X[a,n])", MD_BF16, {{20011, 33}, {3000, 257}, {65, 4096}, {1, 5}}},
    {"Y[n] = var[a](X[a,n])", MD_F32, {{20011, 33}, {3000, 257}, {65, 4096}, {2, 5}}},
    {"Y[n] = log(sum[a](exp(X[a,n] - max[k](X[k,n])))) + max[a](X[a,n])",
     MD_F16,
     {{20011, 33}, {3000, 257}, {65, 4096}, {1, 5}}},
    {"Y[a,n] = exp(X[a,n] - max[k](X[k,n])) / sum[k](exp(X[k,n] - max[l](X[l,n])))",
     MD_F32,
     {{128, 1000}, {700, 33}, {65, 4096}, {1, 5}}},
    {"Y[a,n] = exp(X[a,n] - max[k](X[k,n])) / sum[k](exp(X[k,n] - max[l](X[l,n])))",
     MD_BF16,
     {{128, 1000}, {700, 33}, {65, 4096}, {1, 5}}},
    {"Y[b,n] = max[a](X[b,a,n])", MD_F32, {{7, 100, 33}, {64, 65, 48}, {1, 3000, 257}, {3, -1, 5}}},
    {"Y[n] = sum[a](X[a,n]); Z[n] = min[a](X[a,n])", MD_F64, {{2011, 33}, {300, 257}, {65, 96}, {1, 5}}},
    {"Y[n] = sum[a](abs(X[a,n] - max[k](X[k,n])) * X[a,n])", MD_F32, {{2011, 33}, {300, 257}, {65, 4096}, {1, 5}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "column");
}
