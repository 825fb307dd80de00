/* Gathers on a GPU: rows by index, permutations, several indices, indices that differ by element, indices outside. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"Y[t,d] = E[ids[t],d]", MD_F32, {{7, 5}, {333, 100}, {1000, 64}, {-1, 8}}},
    {"Y[t,d] = E[ids[t],d]", MD_BF16, {{7, 5}, {333, 1000}, {300, 256}, {5, -1}}},
    {"Y[b,s,d] = E[ids[b,s],d] * 2 + P[s,d]", MD_F16, {{3, 11, 100}, {5, 7, 33}, {2, 64, 128}, {1, 1, 1}}},
    {"Y[i] = X[ids[i]]", MD_F32, {{1}, {1003}, {65536}, {-1}}},
    {"Y[i,j] = X[i,ids[i,j]]", MD_F32, {{3, 7}, {100, 37}, {64, 64}, {1, 1}}},
    {"Y[i,j] = X[a[i],b[j]]", MD_F32, {{3, 7}, {100, 37}, {64, 64}, {1, 1}}},
    {"Y[i,j] = where(m[i] > 0, X[ids[i],j], 0)", MD_F32, {{3, 7}, {100, 37}, {64, 64}, {1, 1}}},
    {"Y[i,j] = X[a[b[i]],j] + j", MD_F32, {{3, 7}, {100, 37}, {64, 64}, {1, 1}}},
    {"Y:i32[i,j] = X:i32[ids[i],j]; Z[i,j] = X[ids[i],j] * X[ids[i],j]", MD_F32, {{3, 7}, {100, 37}, {64, 64}, {1, 1}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "gather");
}
