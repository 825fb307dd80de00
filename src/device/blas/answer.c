/* The heuristic's answers for products: asked for once, kept for the life of the device. */
#include "device/blas/internal.h"
#include "device/cuda/library.h"

#include "base/hash.h"
#include "base/status.h"
#include "device/blas/blas.h"

#if MD_HAVE_CUDA

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PREF_WORKSPACE = 1, PREF_REDUCTION = 3, PREF_ALIGN_A = 5, PREF_ALIGN_B = 6, PREF_ALIGN_C = 7, PREF_ALIGN_D = 8 };
/* of algorithm 66, option 4: two warpgroups share a tile */
enum { HOPPERS = 66, CUSTOM_SHARED_TILE = 4 };
enum { REDUCTION_COMPUTE_TYPE = 2 }; /* slices of k are added in f32, not in the result's type */

/* Most attributes are 32-bit, two are 16-bit: the upper half stays zero. */
uint32_t md_blas_attribute(const md_blas_functions *f, const md_blas_result *result, int attribute)
{
    uint32_t value = 0;
    uint16_t half = 0;
    size_t n;
    if (attribute == MD_BLAS_ALGO_INNER || attribute == MD_BLAS_ALGO_CLUSTER)
        return f->algo_get(result->algo, attribute, &half, sizeof half, &n) ? UINT32_MAX : half;
    return f->algo_get(result->algo, attribute, &value, sizeof value, &n) ? UINT32_MAX : value;
}

/* Over several waves, tiles of one warpgroup each are faster than tiles that two share, since their epilogues overlap
 * with the products of another; the heuristic often has the latter first (cuBLASLt 13: [4096,4096,11008] 565 us, 511 us
 * by the answer that this takes). Puts the one of these answers with the fullest last wave first. */
static void put_first(md_blas_answers *answers, const md_blas_functions *f)
{
    static const float MANY_WAVES = 2;
    int best = 0;
    float fullest = 0;
    if (answers->n == 0 || answers->results[0].waves <= MANY_WAVES ||
        md_blas_attribute(f, &answers->results[0], MD_BLAS_ALGO_ID) != HOPPERS ||
        !(md_blas_attribute(f, &answers->results[0], MD_BLAS_ALGO_CUSTOM) & CUSTOM_SHARED_TILE))
        return;
    for (int i = 1; i < answers->n; i++) {
        const float waves = answers->results[i].waves, full = waves / ceilf(waves);
        if (md_blas_attribute(f, &answers->results[i], MD_BLAS_ALGO_ID) != HOPPERS ||
            md_blas_attribute(f, &answers->results[i], MD_BLAS_ALGO_CUSTOM) & CUSTOM_SHARED_TILE ||
            md_blas_attribute(f, &answers->results[i], MD_BLAS_ALGO_SPLIT) > 1 || full <= fullest)
            continue;
        best = i;
        fullest = full;
    }
    const md_blas_result first = answers->results[best];
    memmove(answers->results + 1, answers->results, (size_t)best * sizeof *answers->results);
    answers->results[0] = first;
}

static void ask(md_blas_answers *answers, const struct md_dev_cuda_blas *blas, size_t workspace_bytes)
{
    const md_blas_functions *f = &blas->f;
    const int what[4] = {PREF_ALIGN_A, PREF_ALIGN_B, PREF_ALIGN_C, PREF_ALIGN_D}, of[4] = {1, 0, 2, 2};
    const uint32_t reduction = REDUCTION_COMPUTE_TYPE;
    void *pref = NULL, *const *layout = answers->problem.layout;
    if (f->pref_create(&pref))
        return;
    (void)f->pref_set(pref, PREF_REDUCTION, &reduction, sizeof reduction);
    (void)f->pref_set(pref, PREF_WORKSPACE, &workspace_bytes, sizeof workspace_bytes);
    for (int i = 0; i < 4; i++) {
        uint32_t alignment = (uint32_t)answers->what.alignment[of[i]];
        (void)f->pref_set(pref, what[i], &alignment, sizeof alignment);
    }
    if (f->heuristic(blas->handle, answers->problem.desc, layout[0], layout[1], layout[2], layout[2], pref,
                     MD_DEV_CUDA_GEMM_RANKS, answers->results, &answers->n))
        answers->n = 0;
    (void)f->pref_destroy(pref);
    put_first(answers, f);
}

void md_blas_answers_free(md_blas_answers *answers, const md_blas_functions *f)
{
    md_blas_problem_free(&answers->problem, f);
    (void)pthread_mutex_destroy(&answers->lock);
    free(answers);
}

static md_blas_answers *make_answers(const struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *what,
                                     size_t workspace_bytes)
{
    md_blas_answers *answers = calloc(1, sizeof *answers);
    if (!answers)
        return NULL;
    if (pthread_mutex_init(&answers->lock, NULL)) {
        free(answers);
        return NULL;
    }
    answers->what = *what;
    if (!md_blas_problem_make(&answers->problem, &blas->f, what)) {
        md_blas_answers_free(answers, &blas->f);
        return NULL;
    }
    const enum cudaStreamCaptureMode before = md_dev_library_set_mode(cudaStreamCaptureModeRelaxed);
    ask(answers, blas, workspace_bytes);
    (void)md_dev_library_set_mode(before);
    return answers;
}

static md_blas_answers **bucket_of(struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *key)
{
    return &blas->answers[md_hash64(key, sizeof *key) % MD_BLAS_BUCKETS];
}

/* The lock is held. */
static md_blas_answers *find_in(md_blas_answers *answers, const md_dev_cuda_gemm *key)
{
    while (answers && memcmp(&answers->what, key, sizeof *key) != 0)
        answers = answers->next;
    return answers;
}

static md_blas_answers *find(struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *key)
{
    pthread_mutex_lock(&blas->lock);
    md_blas_answers *answers = find_in(*bucket_of(blas, key), key);
    pthread_mutex_unlock(&blas->lock);
    return answers;
}

/* Asking has a lock of its own, so that calls of products with answers do not wait for it. */
static md_blas_answers *add(struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *key, size_t workspace_bytes)
{
    pthread_mutex_lock(&blas->lock_of_asking);
    md_blas_answers *answers = find(blas, key);
    if (!answers && (answers = make_answers(blas, key, workspace_bytes)) != NULL) {
        pthread_mutex_lock(&blas->lock);
        md_blas_answers **bucket = bucket_of(blas, key);
        answers->next = *bucket;
        *bucket = answers;
        pthread_mutex_unlock(&blas->lock);
    }
    pthread_mutex_unlock(&blas->lock_of_asking);
    return answers;
}

/* All calls offer the same workspace, so that it is no part of the key. */
md_blas_answers *md_blas_find(struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *what, size_t workspace_bytes)
{
    md_dev_cuda_gemm key = *what;
    key.rank = 0;
    md_blas_answers *answers = find(blas, &key);
    return answers ? answers : add(blas, &key, workspace_bytes);
}

static void describe(md_dev_cuda_gemm_answer *out, const md_blas_functions *f, const md_blas_result *result)
{
    const uint32_t split = md_blas_attribute(f, result, MD_BLAS_ALGO_SPLIT);
    *out = (md_dev_cuda_gemm_answer){.algorithm = md_blas_attribute(f, result, MD_BLAS_ALGO_ID),
                                     .split = split > 0 && split < INT16_MAX ? (int32_t)split : 1,
                                     .waves = result->waves};
    /* column-major, so C is transposed */
    (void)md_blas_tile(&out->columns, &out->rows, md_blas_attribute(f, result, MD_BLAS_ALGO_TILE));
}

md_status md_dev_cuda_gemm_answered(md_dev_cuda_gemm_answer *out, md_dev *dev, const md_dev_cuda_gemm *what)
{
    struct md_dev_cuda_blas *blas =
        md_dev_cuda_is(dev) ? atomic_load_explicit(&((md_dev_cuda *)dev)->blas, memory_order_acquire) : NULL;
    md_dev_cuda_gemm key = *what;
    key.rank = 0;
    if (!blas)
        return MD_NOT_FOUND;
    const md_blas_answers *answers = find(blas, &key);
    if (!answers || answers->n == 0)
        return MD_NOT_FOUND;
    describe(out, &blas->f, md_blas_result_of(answers, what->rank));
    return MD_OK;
}

#else

md_status md_dev_cuda_gemm_answered(md_dev_cuda_gemm_answer *out, md_dev *dev, const md_dev_cuda_gemm *what)
{
    (void)out, (void)dev, (void)what;
    return MD_NOT_FOUND;
}

#endif
