/* The kernels that a device is calibrated by: the operations that programs spend their time in, small and large. */
#include "tune/calibrate/probes.h"

#define SOFTMAX "let m[i] = max[k](X[i,k]); let s[i] = sum[k](exp(X[i,k] - m[i])); Y[i,j] = exp(X[i,j] - m[i]) / s[i]"

const md_tn_probe md_tn_probes[] = {
    {MD_DEV_HOST, "Y[m,n] = sum[k](X[m,k] * W[n,k])", {{96, 768, 384}, {512, 512, 256}}},
    {MD_DEV_HOST, SOFTMAX, {{300, 700}, {40, 20000}}},
    {MD_DEV_HOST, "Y[m,n] = sum[k](X[m,k] * W[n,k]) * 0.5", {{1, 1024, 1024}, {3, 2048, 512}}},
    {MD_DEV_HOST, "Y[j] = sum[i](X[i,j])", {{700, 300}, {4000, 400}}},
    {MD_DEV_HOST, "Y[i,j] = gelu(X[i,j] + B[j])", {{100, 768}, {1000, 1024}}},
    {MD_DEV_HOST, "Y[i,j] = cumsum[j](X[i,j])", {{100, 1000}, {20, 30000}}},
    {MD_DEV_HOST, "Y[i,j] = E[ids:i32[i],j]", {{300, 256}, {2000, 300}}},
    {MD_DEV_HOST, "Y[i,j] = X[j,i]", {{300, 300}, {1500, 1200}}},
    {MD_DEV_HOST, "G[ids:i32[i],j] += D[i,j]", {{300, 256}, {2000, 300}}},
    {MD_DEV_CUDA, "Y:bf16[m,n] = sum[k](X:bf16[m,k] * W:bf16[n,k])", {{96, 4096, 2048}, {2048, 4096, 1024}}},
    {MD_DEV_CUDA, SOFTMAX, {{2000, 1000}, {64, 50000}}},
    {MD_DEV_CUDA, "Y[m,n] = sum[k](X[m,k] * W[n,k])", {{300, 1111, 777}, {1024, 1024, 1024}}},
    {MD_DEV_CUDA, "Y[j] = sum[i](X[i,j])", {{4000, 500}, {20000, 1024}}},
    {MD_DEV_CUDA, "Y[i,j] = cumsum[j](X[i,j])", {{1000, 3000}, {4, 500000}}},
    {MD_DEV_SIM, 0, {{0}}},
};
