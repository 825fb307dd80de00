/* Families of products on a GPU: every formula with configs picked by MD_TEST_SEED, on sizes with every kind of
 * edge. Skips itself where there is no GPU. Variables: cuda_runs.h. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{129, 264, 200}, {17, 33, 65}, {3, 72, 520}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F16, {{136, 200, 72}, {5, 131, 67}, {70, 8, 520}}},
    {"Y[i,j] = sum[k](X[k,i] * W[k,j])", MD_BF16, {{72, 136, 264}, {67, 129, 31}, {8, 8, 8}}},
    {"Y[j,i] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{264, 72, 136}, {31, 129, 67}, {1, 1, 1}}},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W[j,k]) + B[j])", MD_BF16, {{200, 136, 64}, {33, 65, 129}, {1, 300, 1000}}},
    {"Y[i,j] = silu(sum[k](X[i,k] * W[j,k])) * sum[k](X[i,k] * V[j,k])",
     MD_BF16,
     {{130, 136, 72}, {33, 65, 129}, {8, 72, 256}}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + R[i,j]; Z[i,j] = relu(Y[i,j])",
     MD_F16,
     {{130, 72, 136}, {33, 65, 129}, {1, 1, 5}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b,k,j])", MD_BF16, {{3, 72, 136, 64}, {5, 33, 17, 9}, {1, 8, 8, 24}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b//4,j,k])", MD_BF16, {{8, 72, 136, 64}, {5, 33, 17, 9}, {9, 1, 80, 64}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[k,b%3,j])", MD_BF16, {{7, 72, 136, 64}, {5, 33, 17, 9}, {4, 2, 80, 64}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[k,j]) * S[j]", MD_BF16, {{3, 72, 136, 64}, {5, 33, 17, 9}, {2, 8, 8, 24}}},
    {"Y[i,h,d] = sum[k](X[i,k] * W[h,d,k])", MD_BF16, {{72, 3, 40, 64}, {33, 5, 7, 19}, {8, 2, 128, 24}}},
    {"Y[i,j] = sum[k,l](X[i,k,l] * W[j,k,l])", MD_BF16, {{72, 40, 3, 64}, {33, 65, 7, 19}, {8, 128, 2, 24}}},
    {"Y[i,j] = sum[k](exp(X[i,k]) * W[j,k])", MD_BF16, {{72, 40, 64}, {33, 65, 19}, {8, 128, 24}}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + B[j]", MD_F32, {{132, 260, 100}, {17, 33, 65}, {2, 76, 524}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F32, {{132, 260, 100}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = silu(sum[k](X[k,i] * W[j,k])) * sum[k](X[k,i] * V[j,k])",
     MD_F32,
     {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = sum[k](relu(X[i,k] - C[k]) * W[k,j])", MD_F32, {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = sum[k](X[i,k] * W:u8[j,k]) * S[j]", MD_BF16, {{72, 40, 64}, {33, 65, 19}, {8, 128, 24}}},
    {"Y[i,j] = sum[k](A:u8[k,i] * X[k,j])", MD_F16, {{72, 64, 40}, {33, 19, 65}, {8, 24, 128}}},
    /* seen: a pool that failed at such sizes */
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{92, 75, 653}, {64, 8, 8200}, {1, 1, 65}, {175, 49, 65}}},
    /* seen: slices of k that cuBLASLt added in 16 bits */
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{101, 77, 3333}, {201, 111, 1001}}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + B[j]",
     MD_F32,
     {{260, 132, 1100}, {100, 36, 4096}, {1, 4, 64}, {520, 388, 132}},
     "gemm_fma/rows128_columns128_split0_thread_rows16_copy_width4"},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b,k,j])",
     MD_F32,
     {{3, 129, 67, 1001}, {2, 33, 333, 257}, {1, 1, 1, 1}},
     "gemm_fma/rows64_columns64_split0_thread_rows8_copy_width1"},
    {"Y[i,j] = sum[k](X[k,i] * W[j,k])",
     MD_F32,
     {{67, 129, 1001}, {260, 132, 260}, {16, 300, 77}},
     "gemm_fma/rows64_columns128_split3_thread_rows8_copy_width1"},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F64, {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
    /* rows found by a look-up */
    {"Y[i,j] = sum[k](X[r[i],k] * W[j,k])", MD_BF16, {{129, 264, 200}, {17, 33, 65}, {3, 72, 520}}},
    {"Y[i,j] = sum[k](X[i//4,k] * W[r[j],k])", MD_F32, {{132, 260, 100}, {17, 33, 65}, {3, 72, 520}}},
    /* groups: the last size is how many there are */
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])", MD_BF16, {{129, 264, 200, 7}, {17, 33, 65, 40}, {1, 72, 520, 3}}},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],k,j])", MD_BF16, {{300, 72, 136, 1}, {17, 33, 65, 40}, {1, 72, 520, 3}}},
    {"Y[i,s,j] = sum[k](X[i,k] * W[e[i,s],k,j]) + B[e[i,s],j]", MD_F16, {{129, 2, 64, 200}, {17, 3, 65, 33}}},
    {"Y[i,j] = silu(sum[k](X[r[i],k] * W[e[i],j,k])) * sum[k](X[r[i],k] * V[e[i],j,k])",
     MD_BF16,
     {{130, 136, 72}, {33, 65, 129}, {8, 72, 256}}},
    {"Y[i,j] = sum[k](X[i,k] * W[e[i],j,k])", MD_F32, {{132, 260, 100, 9}, {17, 33, 65, 40}, {2, 76, 524, 2}}},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[e[i],j,k]) - Z[e[i],j,k//32]) * S[e[i],j,k//32])",
     MD_BF16,
     {{130, 136, 96}, {33, 65, 64}, {1, 72, 256}}},
    {"Y:i32[i,j] = sum[k](X:i8[i,k] * W:i8[e[i],j,k])", MD_F32, {{130, 136, 96}, {33, 65, 64}, {1, 72, 256}}},
    /* windows of a tensor: by planes, by pixels, in groups, a gradient */
    {"Y[n,o,y,x] = sum[c,r,s](where(2*y+r >= 1 and 2*y+r <= size(X.2) and 2*x+s >= 1 and 2*x+s <= "
     "size(X.3), X[n,c,2*y+r-1,2*x+s-1], 0) * W[o,c,r,s])",
     MD_BF16,
     {{2, 40, 9, 35, 6, 3, 3}, {3, 130, 5, 7, 21, 3, 2}, {1, 3, 1, 1, 70, 1, 1}, {1, 17, 2, 33, 9, 2, 5}}},
    {"size r=3, s=3; Y[n,o,y,x] = relu(sum[c,r,s](where(y+r >= 1 and y+r <= size(X.2) and x+s >= 1 and "
     "x+s <= size(X.3), X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s]) + B[o])",
     MD_F16,
     {{2, 72, 8, 40, 16, 3, 3}, {5, 33, 7, 7, 13, 3, 3}, {1, 130, 14, 14, 9, 3, 3}, {2, 8, 3, 21, 5, 3, 3}}},
    {"size r=3, s=3; Y[n,y,x,o] = relu(sum[r,s,c](where(y+r >= 1 and y+r <= size(X.1) and x+s >= 1 and "
     "x+s <= size(X.2), X[n,y+r-1,x+s-1,c], 0) * W[o,r,s,c]) + R[n,y,x,o])",
     MD_BF16,
     {{2, 9, 13, 72, 3, 3, 16}, {1, 7, 9, 130, 3, 3, 64}, {3, 5, 4, 33, 3, 3, 7}, {1, 2, 40, 8, 3, 3, 24}}},
    {"Y[n,g,o,y,x] = sum[c,r,s](X[n,g,c,y+r,x+s] * W[g,o,c,r,s])",
     MD_BF16,
     {{2, 3, 18, 6, 19, 8, 2, 3}, {1, 2, 33, 5, 8, 3, 3, 1}, {3, 1, 8, 2, 9, 5, 1, 2}, {1, 4, 3, 7, 16, 2, 3, 3}}},
    {"D[n,c,y,x] = sum[o,r,s](where(y+1 >= r and y+1 < r+size(G.2) and x+1 >= s and x+1 < s+size(G.3), "
     "G[n,o,y+1-r,x+1-s], 0) * W[o,c,r,s])",
     MD_F16,
     {{2, 40, 9, 35, 6, 3, 3}, {3, 70, 5, 7, 21, 3, 2}, {1, 9, 3, 40, 5, 1, 4}, {2, 16, 8, 8, 8, 3, 3}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "gem");
}
