/* cuBLASLt: its tiles, and calls of it. */
#ifndef MD_DEVICE_BLAS_BLAS_H
#define MD_DEVICE_BLAS_BLAS_H

#include "device/device.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- tiles.c */

/* The tiles of cuBLASLt's kernels. */

/** Rows and columns (column-major, as the library counts) of a tile by its number; false for a number that is none. */
bool md_blas_tile(int32_t *rows, int32_t *columns, uint32_t number);

/* ---- blas.c */

/* Matrix products by cuBLASLt, which is loaded on first use. Builds without CUDA have the functions, but no
 * products. */

enum { MD_DEV_CUDA_GEMM_RANKS = 8 };

/* The epilogue, as bits: a bias is added to the sums (one element a column, in the type of the result), then gelu (by
 * tanh) or relu is applied, before rounding. */
enum { MD_DEV_CUDA_GEMM_BIAS = 1, MD_DEV_CUDA_GEMM_GELU = 2, MD_DEV_CUDA_GEMM_RELU = 4 };

/* The row-major product C[batch, rows, columns] = A[batch, rows, depth] * B[batch, columns, depth]. Strides are in
 * elements. It has no padding, because it is compared as bytes. */
typedef struct md_dev_cuda_gemm {
    int64_t rows, columns, depth, batch;
    int64_t leading[3], stride[3]; /* of A, B, C */
    int32_t in, out; /* md_dtype */
    int32_t along_rows[2]; /* of A, B: 1 if the leading stride steps through the depth */
    int32_t is_tf32; /* f32 operands may be rounded to tf32 */
    /* which answer of the heuristic, best first; the last one if there are fewer */
    int32_t rank;
    int32_t alignment[3]; /* of A, B, C in bytes, at most 16; C's holds for the bias too */
    int32_t epilogue; /* MD_DEV_CUDA_GEMM_BIAS and so on */
} md_dev_cuda_gemm;

/* What the library would run for a product. */
typedef struct md_dev_cuda_gemm_answer {
    uint32_t algorithm; /* CUBLASLT_ALGO_CONFIG_ID */
    int32_t rows, columns; /* of a tile of C; 0: the kernel has no tiles */
    int32_t split; /* slices of K, at least 1 */
    float waves; /* tiles and slices over those that run at a time */
} md_dev_cuda_gemm_answer;

typedef struct md_dev_cuda_gemm_data {
    const void *a, *b, *bias; /* bias: NULL if there is none */
    void *c, *workspace;
    int64_t workspace_bytes; /* as large at every call */
} md_dev_cuda_gemm_data;

/** True if the library can be loaded. Loads it. */
bool md_dev_cuda_has_gemm(void);
/** Runs a product on the stream. UNSUPPORTED if the library is missing or has no algorithm. Thread-safe. */
md_status md_dev_cuda_gemm_run(md_dev *dev, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data);

/** Loads what a run of this product needs, so that the run takes no longer than its launch: starts the library, asks
 * for its answers, loads the answer's kernel. Takes milliseconds, the first time 100 ms: for background threads.
 * `workspace_bytes` as the runs will offer. Without `may_load` nothing is started or loaded: NOT_FOUND if it would have
 * to be. UNSUPPORTED where the library is missing or has no answer. Thread-safe. */
md_status md_dev_cuda_gemm_load(md_dev *dev, const md_dev_cuda_gemm *what, int64_t workspace_bytes, bool may_load);

/** What the library answered for a product. NOT_FOUND if it was not asked yet: nothing is started, and nobody waits for
 * the library. Thread-safe. */
md_status md_dev_cuda_gemm_answered(md_dev_cuda_gemm_answer *out, md_dev *dev, const md_dev_cuda_gemm *what);

#endif
