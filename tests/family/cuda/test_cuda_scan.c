/* Scans on a GPU: every operation, direction and type, by lanes, by blocks, as columns, cut into tiles. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"Y[a,n] = cumsum[n](X[a,n])", MD_F32, {{3, 77}, {37, 1000}, {4, 50000}, {1, -1}}},
    {"Y[a,n] = cumsum[n](X[a,n], exclusive)", MD_F32, {{5, 16}, {1, 70001}, {300, 64}, {2, 1}}},
    {"Y[a,n] = cumsum[n](X[a,n], reverse)", MD_BF16, {{3, 33}, {2, 40009}, {64, 1024}, {1, 1}}},
    {"Y[a,n] = cumprod[n](X[a,n], exclusive, reverse)", MD_F32, {{3, 45}, {9, 333}, {1, 16}, {2, 5000}}},
    {"Y[a,n] = cummax[n](X[a,n])", MD_F16, {{3, 77}, {2, 30001}, {128, 256}, {-1, 5}}},
    {"Y[a,n] = cummin[n](X[a,n], reverse)", MD_F32, {{3, 77}, {2, 30001}, {128, 256}, {1, 3}}},
    {"Y:i32[a,n] = cummax[n](X:i32[a,n], exclusive)", MD_F32, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"Y:i64[a,n] = cumsum[n](X:i64[a,n], reverse)", MD_F32, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"Y[a,n] = cumsum[n](X[a,n], exclusive)", MD_F64, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"Y:u8[a,n] = cumsum[n](X:u8[a,n])", MD_F32, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"Y[a,n] = cummax[n](X[a,n] > 1.5)", MD_F32, {{3, 45}, {2, 20001}, {64, 64}, {1, 2}}},
    {"Y[a,n] = cumsum[n](exp(X[a,n]) * w[n]) / (1 + n) + X[a,n]", MD_F32, {{7, 50}, {2, 20001}, {64, 256}, {1, 9}}},
    {"Y[i,j] = cumsum[i](X[i,j])", MD_F32, {{20, 85}, {301, 257}, {1000, 64}, {5, 4096}}},
    {"Y[i,j] = cummax[i](X[i,j], reverse, exclusive)", MD_BF16, {{20, 85}, {301, 257}, {1000, 64}, {5, 4096}}},
    {"Y[n] = cumsum[n](X[n])", MD_F32, {{100000}, {1}, {300001}, {4096}}},
    /* Side by side: rows of many tiles, of parts of one, more rows than blocks. */
    {"Y[a,n] = cumsum[n](X[a,n])",
     MD_F32,
     {{1, 1000000}, {3, 70000}, {5, 4096}, {300, 264}},
     "scan_split/threads512_items4_rounds3_lookback2_column0_aligned1_strided0"},
    {"Y[n] = cumsum[n](X[n])",
     MD_F32,
     {{1000003}, {17}, {300000}, {16384}},
     "scan_split/threads512_items8_rounds3_lookback2_column0_aligned1_strided0"},
    {"Y[a,n] = cumsum[n](X[a,n], exclusive, reverse)",
     MD_BF16,
     {{1, 800000}, {3, 40008}, {200, 4096}, {2, 8}},
     "scan_split/threads256_items4_rounds2_lookback2_column0_aligned1_strided0"},
    {"Y[a,n] = cummax[n](X[a,n], reverse)",
     MD_F64,
     {{1, 300000}, {3, 40008}, {200, 4096}, {2, 8}},
     "scan_split/threads256_items2_rounds4_lookback2_column0_aligned1_strided0"},
    {"Y[a,n] = cumsum[n](exp(X[a,n]) * w[n]) / (1 + n) + X[a,n]",
     MD_F32,
     {{1, 300000}, {3, 40008}, {200, 4096}, {2, 8}},
     "scan_split/threads256_items4_rounds2_lookback2_column0_aligned1_strided0"},
    {"Y:i64[a,n] = cumsum[n](X:u8[a,n])",
     MD_F32,
     {{1, 300000}, {3, 40000}, {200, 4096}, {2, 16}},
     "scan_split/threads256_items2_rounds3_lookback2_column0_aligned1_strided0"},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "scan_");
}
