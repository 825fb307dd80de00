/* Recurrences on a GPU: along rows and columns, in both directions, that start anew, of products and of sums. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"H[a,n] = A[a,n] * H[a,n-1] + B[a,n]", MD_F32, {{3, 77}, {37, 1000}, {4, 50000}, {1, -1}}},
    {"H[a,n] = A[a,n] * H[a,n+1] + B[a,n]", MD_BF16, {{3, 33}, {2, 40009}, {64, 1024}, {1, 1}}},
    {"H[t,c] = A[t,c] * H[t-1,c] + B[t,c]", MD_F32, {{3, 77}, {1009, 37}, {20000, 64}, {-1, 5}}},
    {"scalar s; H[b,t,d] = s * 0.2 * H[b,t+1,d] + X[b,t,d]",
     MD_F32,
     {{3, 77, 5}, {2, 1009, 64}, {1, 30011, 33}, {2, 1, 1}}},
    {"H[t,c] = where(S[t,c] > 1, X[t,c], A[t,c] * H[t-1,c] - X[t,c])",
     MD_F32,
     {{3, 77}, {1009, 37}, {30000, 8}, {1, 5}}},
    {"H[a,n] = where(S[a,n] > 1, X[a,n], A[a,n] * H[a,n-1] - X[a,n])",
     MD_F32,
     {{3, 77}, {37, 1009}, {2, 30011}, {1, 5}}},
    {"Y[a,n] = recur[n](A[a,n], X[a,n], exclusive) + X[a,n]", MD_F64, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"H:i64[a,n] = A:i32[a,n] * H[a,n-1] + B:i32[a,n]", MD_F32, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    /* Columns in one pass: many groups of tiles, ragged columns, rows, few elements; more tiles than counters hold. */
    {"H[b,t,c] = A[b,t,c] * H[b,t-1,c] + B[b,t,c]",
     MD_F32,
     {{2, 40009, 64}, {3, 1000, 36}, {1, 130, 8}, {1, 300001, 4}},
     "scan_split/threads256_items2_rounds1_lookback1_column1_aligned1_strided0"},
    {"H[b,t,c] = 0.5 * H[b,t+1,c] + B[b,t,c]",
     MD_BF16,
     {{2, 40009, 64}, {3, 1000, 72}, {1, 200, 8}, {1, 100000, 16}},
     "scan_split/threads256_items2_rounds1_lookback1_column1_aligned1_strided0"},
    /* Runs that lie in registers and in shared memory. */
    {"H[b,t,c] = A[b,t,c] * H[b,t-1,c] + B[b,t,c]",
     MD_F32,
     {{2, 40009, 64}, {3, 3000, 48}, {1, 600, 16}, {1, 300001, 4}},
     "scan_split/threads128_items8_rounds2_lookback1_column1_aligned1_strided0"},
    {"H[b,t,c] = 0.5 * H[b,t+1,c] + B[b,t,c]",
     MD_BF16,
     {{2, 40009, 64}, {3, 3000, 72}, {1, 300, 8}, {1, 100000, 16}},
     "scan_split/threads128_items4_rounds3_lookback1_column1_aligned0_strided0"},
    {"Y[b,t,c] = recur[t](A[b,t,c], X[b,t,c], exclusive) + X[b,t,c]",
     MD_F64,
     {{2, 40009, 64}, {3, 3000, 40}, {1, 300, 8}, {1, 100000, 4}},
     "scan_split/threads256_items4_rounds2_lookback1_column1_aligned1_strided0"},
    /* The larger or smaller of a sum and something else. */
    {"H[a,n] = max(A[a,n] + H[a,n-1], B[a,n])", MD_F32, {{3, 77}, {37, 1000}, {4, 50000}, {1, 1}}},
    {"H[a,n] = min(H[a,n+1] - A[a,n], B[a,n]) + 1", MD_F64, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"H[b,t,c] = max(A[b,t,c] + H[b,t-1,c], B[b,t,c])",
     MD_F32,
     {{2, 40009, 64}, {3, 1000, 36}, {1, 130, 8}, {1, 300001, 4}},
     "scan_split/threads256_items2_rounds1_lookback1_column1_aligned1_strided0"},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "scan_");
}
