/* Family gemm_rows on a GPU: windows, groups and looked-up rows with configs picked by MD_TEST_SEED, on sizes with
 * every kind of edge. Skips itself where there is no GPU. Variables: cuda_runs.h. */
#include "family/cuda/cuda_runs.h"

#define WINDOW(place_y, place_x)                                                                                       \
    "where(" place_y " >= 0 and " place_y " < size(X.1) and " place_x " >= 0 and " place_x                             \
    " < size(X.2), X[b," place_y "," place_x ",c], 0)"

static const cuda_run list[] = {
    {"Y[b,i,j,o] = sum[r,s,c](" WINDOW("i+r-1", "j+s-1") " * W[o,r,s,c])",
     MD_BF16,
     {{2, 5, 7, 72, 3, 3, 64}, {1, 9, 5, 40, 3, 3, 72}, {3, 2, 3, 8, 3, 3, 8}, {1, 1, 1, 136, 1, 1, 200}}},
    {"Y[b,i,j,o] = sum[r,s,c](" WINDOW("i*2+r-1", "j*2+s-1") " * W[o,r,s,c])",
     MD_F16,
     {{2, 5, 7, 72, 3, 3, 64}, {1, 9, 5, 40, 3, 2, 24}, {3, 2, 3, 8, 5, 3, 8}, {1, 6, 5, 136, 3, 3, 16}}},
    {"Y[b,i,j,o] = relu(sum[r,s,c](" WINDOW("i+r*2-2", "j+s*2-2") " * W[o,r,s,c]) + B[o] + R[b,i,j,o])",
     MD_BF16,
     {{2, 5, 7, 72, 3, 3, 64}, {1, 9, 5, 40, 3, 3, 40}, {3, 2, 3, 8, 3, 3, 8}}},
    {"Y[b,i,j,o] = sum[c](X[b,i*2,j*2,c] * W[o,c])",
     MD_BF16,
     {{2, 5, 7, 72, 64}, {1, 19, 5, 40, 24}, {3, 2, 3, 8, 328}}},
    {"Y[b,i,o] = sum[r,c](where(i+r-3 >= 0, X[b,i+r-3,c], 0) * W[o,r,c])",
     MD_BF16,
     {{2, 50, 72, 4, 64}, {1, 300, 40, 4, 24}, {3, 20, 8, 4, 8}}},
    {"Y[z,i,j,o] = sum[q,r,s,c](where(z+q >= 1 and z+q <= size(X.0) and i+r >= 1 and i+r <= size(X.1) and j+s >= 1 and "
     "j+s <= size(X.2), X[z+q-1,i+r-1,j+s-1,c], 0) * W[o,q,r,s,c])",
     MD_BF16,
     {{3, 5, 7, 24, 3, 3, 3, 16}, {2, 4, 3, 40, 1, 2, 3, 72}, {1, 9, 5, 8, 3, 1, 1, 8}, {3, 3, 3, 16, 2, 2, 2, 40}}},
    {"Y[b,i,j,g,o] = sum[r,s,c](where(i+r >= 1 and i+r <= size(X.1) and j+s >= 1 and j+s <= size(X.2), "
     "X[b,i+r-1,j+s-1,g,c], 0) * W[g,o,r,s,c])", /* groups of channels */
     MD_F16,
     {{2, 5, 7, 3, 24, 3, 3, 40}, {1, 9, 5, 2, 72, 2, 3, 8}, {1, 3, 2, 4, 8, 1, 1, 136}}},
    /* what a library takes, too: as many zeros at both ends */
    {"Y[b,i,o] = sum[r,c](where(i+r-1 >= 0 and i+r-1 < size(X.1), X[b,i+r-1,c], 0) * W[o,r,c])",
     MD_BF16,
     {{2, 50, 72, 3, 64, 50}, {1, 301, 40, 3, 24, 301}, {3, 20, 8, 3, 8, 20}}},
    /* groups: the last size is how many there are */
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])",
     MD_BF16,
     {{129, 264, 200, 7}, {17, 40, 72, 40}, {1, 72, 520, 3}, {1000, 136, 64, 5}}},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],k,j])", MD_BF16, {{300, 72, 136, 1}, {17, 40, 72, 40}, {1, 72, 520, 3}}},
    {"Y[i,s,j] = sum[k](X[i,k] * W[e[i,s],k,j]) + B[e[i,s],j]", MD_F16, {{129, 2, 64, 200}, {17, 3, 72, 40}}},
    {"Y[i,j] = silu(sum[k](X[r[i],k] * W[e[i],j,k])) * sum[k](X[r[i],k] * V[e[i],j,k])",
     MD_BF16,
     {{130, 136, 72, 50, 7, 7}, {33, 64, 128, 40, 3, 3}, {8, 72, 256, 9, 5, 5}}}, /* as many of W as of V */
    {"Y[i,j] = sum[k](X[r[i],k] * W[j,k])", MD_BF16, {{129, 264, 200}, {17, 40, 72}, {3, 72, 520}}},
    {"Y[i,j] = sum[k](X[i//4,k] * W[k,j]) + B[j]", MD_F16, {{129, 264, 200}, {17, 40, 72}, {3, 72, 520}}},
    /* rows stored where a look-up says */
    {"Y[p[i],j] = sum[k](X[i,k] * W[e[i],j,k]) * G[i]", MD_BF16, {{129, 264, 200}, {17, 40, 72}, {3, 72, 520}}},
    {"Y[p[i],j] = sum[k](X[r[i],k] * W[j,k]) + B[j]", MD_F16, {{129, 264, 200}, {17, 40, 72}, {3, 72, 520}}},
    /* so many columns that both tiles of a pick are the faster one somewhere */
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])",
     MD_BF16,
     {{300, 1544, 40, 3}, {17, 40, 72, 40}, {33, 264, 40, 2}},
     "gemm_rows/rows128_columns256_epilogue1_pick32"},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "gemm_rows");
}
