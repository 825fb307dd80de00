/* What the files of this folder share: the functions of cuBLASLt, its answers for products, and the library of one
 * device. Only where CUDA is. */
#ifndef MD_DEVICE_BLAS_INTERNAL_H
#define MD_DEVICE_BLAS_INTERNAL_H

#include "device/blas/blas.h"
#include "base/status.h"
#include "device/cuda/internal.h"

#if MD_HAVE_CUDA

/* The part of cublasLt.h that is used here, so that the build needs no cuBLAS. */
enum { MD_BLAS_DESC_TRANSA = 3, MD_BLAS_DESC_TRANSB = 4, MD_BLAS_DESC_EPILOGUE = 7, MD_BLAS_DESC_BIAS = 8 };

/* Attributes of an algorithm (cublasLtMatmulAlgoConfigAttributes_t). */
enum {
    MD_BLAS_ALGO_ID = 0,
    MD_BLAS_ALGO_TILE = 1,
    MD_BLAS_ALGO_SPLIT = 2,
    MD_BLAS_ALGO_REDUCTION = 3,
    MD_BLAS_ALGO_CUSTOM = 5,
    MD_BLAS_ALGO_STAGES = 6,
    MD_BLAS_ALGO_INNER = 7,
    MD_BLAS_ALGO_CLUSTER = 8
};

typedef struct md_blas_result { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algo[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} md_blas_result;

typedef struct md_blas_functions {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*desc_create)(void **desc, int compute, int scale);
    int (*desc_set)(void *desc, int what, const void *value, size_t n);
    int (*desc_destroy)(void *desc);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
    int (*layout_set)(void *layout, int what, const void *value, size_t n);
    int (*layout_destroy)(void *layout);
    int (*pref_create)(void **pref);
    int (*pref_set)(void *pref, int what, const void *value, size_t n);
    int (*pref_destroy)(void *pref);
    int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int n,
                     md_blas_result *results, int *found);
    int (*algo_get)(const uint64_t *algo, int what, void *value, size_t n, size_t *written);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,
                  const void *beta, const void *c, void *lc, void *d, void *ld, const uint64_t *algo, void *workspace,
                  size_t workspace_bytes, cudaStream_t stream);
} md_blas_functions;

/* A product as cuBLASLt sees it, without the answers: column-major, so its A is our B. */
typedef struct md_blas_problem {
    void *desc, *layout[3];
    bool is_f64;
} md_blas_problem;

/* A product and the heuristic's answers for it. Lives as long as the device. */
typedef struct md_blas_answers {
    struct md_blas_answers *next;
    md_dev_cuda_gemm what; /* rank 0 */
    pthread_mutex_t lock; /* of the bias' address, which is part of the descriptor */
    md_blas_problem problem;
    int n;
    md_blas_result results[MD_DEV_CUDA_GEMM_RANKS];
} md_blas_answers;

/* A kernel that was run once, so that it is loaded. */
typedef struct md_blas_loaded {
    struct md_blas_loaded *next;
    uint64_t kernel; /* digest of the algorithm and of the types it is for */
} md_blas_loaded;

enum { MD_BLAS_BUCKETS = 512 };
struct md_dev_cuda_blas {
    md_blas_functions f;
    void *handle;
    pthread_mutex_t lock; /* of the two tables */
    pthread_mutex_t lock_of_asking; /* taken before the other one */
    md_blas_answers *answers[MD_BLAS_BUCKETS]; /* by digest of the product */
    md_blas_loaded *loaded[MD_BLAS_BUCKETS]; /* by digest of the kernel */
};

/** The library of a device; starts it at the first call, which takes about 100 ms. NULL if it is missing.
 * Thread-safe. */
struct md_dev_cuda_blas *md_blas_start(md_dev_cuda *dev);

/** Describes a product to the library. False, with nothing to free, if memory is short. */
bool md_blas_problem_make(md_blas_problem *out, const md_blas_functions *f, const md_dev_cuda_gemm *what);
void md_blas_problem_free(md_blas_problem *problem, const md_blas_functions *f);
/** One attribute of an answer's algorithm; UINT32_MAX if this version has none. */
uint32_t md_blas_attribute(const md_blas_functions *f, const md_blas_result *result, int attribute);
/** Enqueues a product by one of its answers; status of the library. */
int md_blas_multiply(const struct md_dev_cuda_blas *blas, const md_blas_problem *problem, const md_blas_result *result,
                     const md_dev_cuda_gemm_data *data, md_stream stream);

/** The answers for a product, asked for at the first call; NULL if memory is short. Thread-safe. */
md_blas_answers *md_blas_find(struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *what, size_t workspace_bytes);
/** One of the answers: the last if there are fewer than rank + 1. */
static inline const md_blas_result *md_blas_result_of(const md_blas_answers *answers, int32_t rank)
{
    return &answers->results[MD_MIN(rank, answers->n - 1)];
}
void md_blas_answers_free(md_blas_answers *answers, const md_blas_functions *f);

#endif

#endif
