/* Matrix products by cuBLASLt, loaded when it is first asked for. In every build: without CUDA there is none. */
#ifndef MD_DEVICE_CUDA_BLAS_H
#define MD_DEVICE_CUDA_BLAS_H

#include "device/device.h"

enum { MD_DEV_CUDA_GEMM_RANKS = 8 };

/* What is done to sums before they are rounded and stored, as bits: added to (one element a column, of the results'
 * type), then gelu by tanh or max(0, x). */
enum { MD_DEV_CUDA_GEMM_BIAS = 1, MD_DEV_CUDA_GEMM_GELU = 2, MD_DEV_CUDA_GEMM_RELU = 4 };

/* Row-major C[batch, rows, columns] = A[batch, rows, depth] * B[batch, columns, depth], each with its leading stride
 * and the batch's, in elements. */
typedef struct md_dev_cuda_gemm {
    int64_t rows, columns, depth, batch;
    int64_t leading[3], stride[3]; /* of A, B, C */
    int32_t in, out; /* md_dtype */
    int32_t along_rows[2]; /* A, B: 1 where the depth is the leading stride's */
    int32_t is_tf32; /* f32 operands may be rounded */
    /* which of the heuristic's results, best guess first (its or ours: cuda_blas.c); the last one there is where
     * there are fewer */
    int32_t rank;
    int32_t alignment[3]; /* of the data, in bytes: 16 or less; C's is that of the bias, too */
    int32_t end; /* MD_DEV_CUDA_GEMM_BIAS and so on */
} md_dev_cuda_gemm;

typedef struct md_dev_cuda_gemm_data {
    const void *a, *b, *bias; /* bias: NULL where there is none */
    void *c, *workspace;
    int64_t workspace_bytes; /* the same at every call */
} md_dev_cuda_gemm_data;

/** Whether the library is there. Loads it. */
bool md_dev_cuda_has_gemm(void);
/** UNSUPPORTED where the library is missing or knows no way. Thread-safe. `what` has no gaps and is compared as
 * bytes. */
md_status md_dev_cuda_gemm_run(md_dev *dev, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data);

#endif
