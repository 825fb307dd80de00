/* Loads the kernel of one of cuBLASLt's answers before a call needs it. The library loads a kernel at its first launch,
 * which takes milliseconds, so the kernel is launched once on a small product with memory of our own. */
#include "device/blas/internal.h"

#include "base/hash.h"
#include "base/status.h"

#if MD_HAVE_CUDA

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 256, MOST_COLUMNS = 256, ALIGNMENT = 256 };

/* A product with fewer rows and columns, of the same types, transposes, epilogue and alignment, for the same kernel.
 * Lines keep their distance modulo 8 elements, which is what alignment depends on. */
static md_dev_cuda_gemm shrink(const md_dev_cuda_gemm *what)
{
    md_dev_cuda_gemm gemm = *what;
    gemm.rank = 0;
    gemm.rows = MD_MIN(gemm.rows, (int64_t)MOST_ROWS);
    gemm.columns = MD_MIN(gemm.columns, (int64_t)MOST_COLUMNS);
    gemm.batch = MD_MIN(gemm.batch, (int64_t)2);
    const int64_t inner[3] = {gemm.along_rows[0] ? gemm.rows : gemm.depth,
                              gemm.along_rows[1] ? gemm.columns : gemm.depth, gemm.columns};
    const int64_t outer[3] = {gemm.along_rows[0] ? gemm.depth : gemm.rows,
                              gemm.along_rows[1] ? gemm.depth : gemm.columns, gemm.rows};
    for (int i = 0; i < 3; i++) {
        gemm.leading[i] = inner[i] + ((what->leading[i] - inner[i]) % 8 + 8) % 8;
        gemm.stride[i] = gemm.leading[i] * outer[i] + ((what->stride[i] - gemm.leading[i] * outer[i]) % 8 + 8) % 8;
    }
    return gemm;
}

/* Where matrices, bias and workspace lie in the memory, in bytes; bytes[4] is the end. */
typedef struct places {
    size_t at[5];
} places;

static size_t round_up(size_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t item_of(int32_t dtype)
{
    return dtype == MD_F64 ? 8 : dtype == MD_F32 ? 4 : 2;
}

static places place(const md_dev_cuda_gemm *gemm, size_t workspace_bytes)
{
    places p = {{0}};
    const int64_t outer[3] = {gemm->along_rows[0] ? gemm->depth : gemm->rows,
                              gemm->along_rows[1] ? gemm->depth : gemm->columns, gemm->rows};
    size_t at = round_up(workspace_bytes);
    for (int i = 0; i < 3; i++) {
        const size_t item = item_of(i == 2 ? gemm->out : gemm->in);
        p.at[i] = at + (gemm->alignment[i] < 16 ? (size_t)gemm->alignment[i] : 0);
        at = round_up(p.at[i] + (size_t)(gemm->batch * gemm->stride[i] + gemm->leading[i] * outer[i]) * item);
    }
    p.at[3] = at + (gemm->alignment[2] < 16 ? (size_t)gemm->alignment[2] : 0);
    p.at[4] = round_up(p.at[3] + (size_t)gemm->columns * item_of(gemm->out));
    return p;
}

static md_status run_once(md_dev_cuda *dev, const struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *small,
                          const md_blas_result *result, int64_t workspace_bytes)
{
    const places p = place(small, (size_t)workspace_bytes);
    cudaStream_t stream = (cudaStream_t)dev->base.tuning;
    md_blas_problem problem;
    void *memory = NULL;
    if (!md_blas_problem_make(&problem, &blas->f, small))
        return md_fail_memory();
    cudaError_t error = dev->has_pools ? cudaMallocAsync(&memory, p.at[4], stream) : cudaMalloc(&memory, p.at[4]);
    if (error != cudaSuccess) {
        md_blas_problem_free(&problem, &blas->f);
        return md_dev_cuda_result(dev, error, "getting memory to load a kernel of cuBLASLt");
    }
    char *base = memory;
    const bool has_bias = small->epilogue & MD_DEV_CUDA_GEMM_BIAS;
    const md_dev_cuda_gemm_data data = {.a = base + p.at[0],
                                        .b = base + p.at[1],
                                        .bias = has_bias ? base + p.at[3] : NULL,
                                        .c = base + p.at[2],
                                        .workspace = base,
                                        .workspace_bytes = workspace_bytes};
    const int failed = md_blas_multiply(blas, &problem, result, &data, dev->base.tuning);
    error = cudaStreamSynchronize(stream);
    (void)(dev->has_pools ? cudaFreeAsync(memory, stream) : cudaFree(memory));
    md_blas_problem_free(&problem, &blas->f);
    if (failed)
        return md_fail(MD_UNSUPPORTED, "cuBLASLt fails with status %d", failed);
    return md_dev_cuda_result(dev, error, "loading a kernel of cuBLASLt");
}

/* Some algorithms refuse the small product, such as slices of K for few rows in f32. Then the whole one is run. */
static md_status run_small_or_whole(md_dev_cuda *dev, const struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *what,
                                    const md_blas_result *result, int64_t workspace_bytes)
{
    static const size_t MOST_BYTES = (size_t)256 << 20;
    const md_dev_cuda_gemm small = shrink(what);
    md_dev_cuda_gemm whole = *what;
    whole.rank = 0;
    const md_status status = run_once(dev, blas, &small, result, workspace_bytes);
    return status == MD_UNSUPPORTED && place(&whole, (size_t)workspace_bytes).at[4] <= MOST_BYTES
               ? run_once(dev, blas, &whole, result, workspace_bytes)
               : status;
}

/* What cuBLASLt picks a kernel by. Other attributes of an algorithm (the number of slices of K, the order of tiles) are
 * parameters of the kernel. */
static const int kernel_attributes[] = {MD_BLAS_ALGO_ID,     MD_BLAS_ALGO_TILE,   MD_BLAS_ALGO_REDUCTION,
                                        MD_BLAS_ALGO_CUSTOM, MD_BLAS_ALGO_STAGES, MD_BLAS_ALGO_INNER,
                                        MD_BLAS_ALGO_CLUSTER};

/* Answers with equal attributes for equal types share one kernel. */
static uint64_t kernel_of(const struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *gemm,
                          const md_blas_result *result)
{
    struct {
        uint32_t attribute[MD_COUNT(kernel_attributes)];
        int32_t in, out, along_rows[2], is_tf32, alignment[3], epilogue, batched;
    } key;
    memset(&key, 0, sizeof key);
    for (int i = 0; i < MD_COUNT(kernel_attributes); i++)
        key.attribute[i] = md_blas_attribute(&blas->f, result, kernel_attributes[i]);
    memcpy(key.along_rows, gemm->along_rows, sizeof key.along_rows);
    memcpy(key.alignment, gemm->alignment, sizeof key.alignment);
    key.in = gemm->in;
    key.out = gemm->out;
    key.is_tf32 = gemm->is_tf32;
    key.epilogue = gemm->epilogue;
    key.batched = gemm->batch > 1;
    return md_hash64(&key, sizeof key);
}

static bool is_loaded(struct md_dev_cuda_blas *blas, uint64_t kernel)
{
    pthread_mutex_lock(&blas->lock);
    const md_blas_loaded *l = blas->loaded[kernel % MD_BLAS_BUCKETS];
    while (l && l->kernel != kernel)
        l = l->next;
    pthread_mutex_unlock(&blas->lock);
    return l != NULL;
}

/* Without memory for the note the kernel is launched again next time. */
static void note_loaded(struct md_dev_cuda_blas *blas, uint64_t kernel)
{
    md_blas_loaded *l = malloc(sizeof *l);
    if (!l)
        return;
    pthread_mutex_lock(&blas->lock);
    *l = (md_blas_loaded){blas->loaded[kernel % MD_BLAS_BUCKETS], kernel};
    blas->loaded[kernel % MD_BLAS_BUCKETS] = l;
    pthread_mutex_unlock(&blas->lock);
}

md_status md_dev_cuda_gemm_load(md_dev *base, const md_dev_cuda_gemm *what, int64_t workspace_bytes, bool may_load)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    if (!md_dev_cuda_is(base))
        return md_fail(MD_UNSUPPORTED, "the device only stands for a GPU");
    if (!may_load && !atomic_load_explicit(&dev->blas, memory_order_acquire))
        return MD_NOT_FOUND;
    struct md_dev_cuda_blas *blas = md_blas_start(dev);
    md_blas_answers *answers = blas ? md_blas_find(blas, what, (size_t)workspace_bytes) : NULL;
    if (!answers || answers->n == 0)
        return md_fail(MD_UNSUPPORTED, "cuBLASLt has no product for [%lld,%lld] over %lld", (long long)what->rows,
                       (long long)what->columns, (long long)what->depth);
    const md_blas_result *result = md_blas_result_of(answers, what->rank);
    const uint64_t kernel = kernel_of(blas, what, result);
    if (is_loaded(blas, kernel))
        return MD_OK;
    if (!may_load)
        return MD_NOT_FOUND;
    md_dev_cuda_scope scope;
    MD_TRY(md_dev_cuda_enter(&scope, dev));
    const md_status status = run_small_or_whole(dev, blas, what, result, workspace_bytes);
    md_dev_cuda_leave(&scope);
    if (status == MD_OK)
        note_loaded(blas, kernel);
    return status;
}

#else

md_status md_dev_cuda_gemm_load(md_dev *dev, const md_dev_cuda_gemm *what, int64_t workspace_bytes, bool may_load)
{
    (void)dev, (void)what, (void)workspace_bytes, (void)may_load;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}

#endif
