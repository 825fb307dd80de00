/* Matrix products by cuBLASLt, loaded on first use. */
#include "device/cuda/blas.h"

#include "base/hash.h"
#include "base/status.h"
#include "md_build_config.h"

#if MD_HAVE_CUDA

#include "device/cuda/internal.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The part of cublasLt.h that is used here, so that the build needs no cuBLAS. */
enum {
    COMPUTE_F32 = 68,
    COMPUTE_F64 = 70,
    COMPUTE_TF32 = 77,
    REAL_F32 = 0,
    REAL_F64 = 1,
    REAL_F16 = 2,
    REAL_BF16 = 14
};
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS = 8, LAYOUT_BATCH = 5, LAYOUT_STRIDE = 6 };
enum { PREF_WORKSPACE = 1, PREF_REDUCTION = 3, PREF_ALIGN_A = 5, PREF_ALIGN_B = 6, PREF_ALIGN_C = 7, PREF_ALIGN_D = 8 };
enum { EPILOGUE_NONE = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 }; /* all but the first are bits */
/* option 4 of algorithm 66: two warpgroups share a tile */
enum { ALGO_ID = 0, ALGO_SPLIT = 2, ALGO_CUSTOM = 5, HOPPERS = 66, CUSTOM_SHARED_TILE = 4 };
enum { REDUCTION_COMPUTE_TYPE = 2 }; /* slices of k are added in f32, not in the type of the result */
typedef struct result { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algo[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} result;
typedef struct library {
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
    int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int n, result *results,
                     int *found);
    int (*algo_get)(const uint64_t *algo, int what, void *value, size_t n, size_t *written);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,
                  const void *beta, const void *c, void *lc, void *d, void *ld, const uint64_t *algo, void *workspace,
                  size_t workspace_bytes, cudaStream_t stream);
} library;

/* One product. cuBLASLt is column-major, so its A is the library's B. */
typedef struct plan {
    struct plan *next;
    md_dev_cuda_gemm what; /* rank 0 */
    pthread_mutex_t lock; /* guards the address of the bias, which is part of desc */
    void *desc, *layout[3];
    int n;
    result results[MD_DEV_CUDA_GEMM_RANKS];
} plan;

enum { PLAN_BUCKETS = 512 };
struct md_dev_cuda_blas {
    library f;
    void *handle;
    plan *plans[PLAN_BUCKETS]; /* by digest of md_dev_cuda_gemm */
};

static bool open_library(library *f)
{
    static const char *const sonames[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                          "/usr/local/cuda/lib64/libcublasLt.so"};
    void *lib = NULL;
    for (int i = 0; i < 3 && !lib; i++)
        lib = dlopen(sonames[i], RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    const struct {
        void *to;
        const char *name;
    } list[] = {{&f->create, "cublasLtCreate"},
                {&f->destroy, "cublasLtDestroy"},
                {&f->desc_create, "cublasLtMatmulDescCreate"},
                {&f->desc_set, "cublasLtMatmulDescSetAttribute"},
                {&f->desc_destroy, "cublasLtMatmulDescDestroy"},
                {&f->layout_create, "cublasLtMatrixLayoutCreate"},
                {&f->layout_set, "cublasLtMatrixLayoutSetAttribute"},
                {&f->layout_destroy, "cublasLtMatrixLayoutDestroy"},
                {&f->pref_create, "cublasLtMatmulPreferenceCreate"},
                {&f->pref_set, "cublasLtMatmulPreferenceSetAttribute"},
                {&f->pref_destroy, "cublasLtMatmulPreferenceDestroy"},
                {&f->heuristic, "cublasLtMatmulAlgoGetHeuristic"},
                {&f->algo_get, "cublasLtMatmulAlgoConfigGetAttribute"},
                {&f->matmul, "cublasLtMatmul"}};
    for (int i = 0; i < MD_COUNT(list); i++) {
        void *symbol = dlsym(lib, list[i].name);
        if (!symbol)
            return false;
        memcpy(list[i].to, &symbol, sizeof symbol);
    }
    return true; /* the library is never unloaded */
}

bool md_dev_cuda_has_gemm(void)
{
    library f;
    return open_library(&f);
}

static int real_of(int32_t dtype)
{
    return dtype == MD_F32 ? REAL_F32 : dtype == MD_F64 ? REAL_F64 : dtype == MD_F16 ? REAL_F16 : REAL_BF16;
}

static void *make_layout(const library *f, const md_dev_cuda_gemm *w, int32_t dtype, int64_t rows, int64_t columns,
                         int32_t which)
{
    void *layout = NULL;
    int32_t batch = (int32_t)w->batch;
    if (f->layout_create(&layout, real_of(dtype), (uint64_t)rows, (uint64_t)columns, w->leading[which]))
        return NULL;
    if (batch > 1) {
        (void)f->layout_set(layout, LAYOUT_BATCH, &batch, sizeof batch);
        (void)f->layout_set(layout, LAYOUT_STRIDE, &w->stride[which], sizeof w->stride[which]);
    }
    return layout;
}

static uint32_t number_of(const library *f, const result *r, int what)
{
    uint32_t value = 0;
    size_t n;
    return f->algo_get(r->algo, what, &value, sizeof value, &n) ? UINT32_MAX : value;
}

/* Moves the best answer to the front. Over several waves, tiles of one warpgroup are faster than tiles shared by two,
 * because the epilogue of one tile overlaps the products of another. The heuristic of cuBLASLt 13 often prefers shared
 * tiles. Among the others, take the one with the fullest last wave. */
static void put_best_first(plan *p, const library *f)
{
    static const float MANY_WAVES = 2;
    int best = 0;
    float fullest = 0;
    if (p->n == 0 || p->results[0].waves <= MANY_WAVES || number_of(f, &p->results[0], ALGO_ID) != HOPPERS ||
        !(number_of(f, &p->results[0], ALGO_CUSTOM) & CUSTOM_SHARED_TILE))
        return;
    for (int i = 1; i < p->n; i++) {
        const float waves = p->results[i].waves, full = waves / ceilf(waves);
        if (number_of(f, &p->results[i], ALGO_ID) != HOPPERS ||
            number_of(f, &p->results[i], ALGO_CUSTOM) & CUSTOM_SHARED_TILE ||
            number_of(f, &p->results[i], ALGO_SPLIT) > 1 || full <= fullest)
            continue;
        best = i;
        fullest = full;
    }
    const result first = p->results[best];
    memmove(p->results + 1, p->results, (size_t)best * sizeof *p->results);
    p->results[0] = first;
}

static void query_heuristic(plan *p, const struct md_dev_cuda_blas *blas, size_t workspace_bytes)
{
    const library *f = &blas->f;
    const int what[4] = {PREF_ALIGN_A, PREF_ALIGN_B, PREF_ALIGN_C, PREF_ALIGN_D}, of[4] = {1, 0, 2, 2};
    const uint32_t reduction = REDUCTION_COMPUTE_TYPE;
    void *pref = NULL;
    if (f->pref_create(&pref))
        return;
    (void)f->pref_set(pref, PREF_REDUCTION, &reduction, sizeof reduction);
    (void)f->pref_set(pref, PREF_WORKSPACE, &workspace_bytes, sizeof workspace_bytes);
    for (int i = 0; i < 4; i++) {
        uint32_t alignment = (uint32_t)p->what.alignment[of[i]];
        (void)f->pref_set(pref, what[i], &alignment, sizeof alignment);
    }
    if (f->heuristic(blas->handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2], pref,
                     MD_DEV_CUDA_GEMM_RANKS, p->results, &p->n))
        p->n = 0;
    (void)f->pref_destroy(pref);
    put_best_first(p, f);
}

static void free_plan(const library *f, plan *p)
{
    for (int i = 0; i < 3; i++)
        if (p->layout[i])
            (void)f->layout_destroy(p->layout[i]);
    if (p->desc)
        (void)f->desc_destroy(p->desc);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

/* Sets transposition and epilogue of desc. The bias needs some address now; the heuristic does not depend on it. */
static void describe(const library *f, plan *p)
{
    const md_dev_cuda_gemm *w = &p->what;
    const int32_t transposed = 1;
    const uint32_t end = w->end ? (w->end & MD_DEV_CUDA_GEMM_BIAS ? EPILOGUE_BIAS : 0) |
                                      (w->end & MD_DEV_CUDA_GEMM_GELU ? EPILOGUE_GELU : 0) |
                                      (w->end & MD_DEV_CUDA_GEMM_RELU ? EPILOGUE_RELU : 0)
                                : EPILOGUE_NONE;
    void *const somewhere = p;
    if (!w->along_rows[1])
        (void)f->desc_set(p->desc, DESC_TRANSA, &transposed, sizeof transposed);
    if (w->along_rows[0])
        (void)f->desc_set(p->desc, DESC_TRANSB, &transposed, sizeof transposed);
    if (w->end)
        (void)f->desc_set(p->desc, DESC_EPILOGUE, &end, sizeof end);
    if (w->end & MD_DEV_CUDA_GEMM_BIAS)
        (void)f->desc_set(p->desc, DESC_BIAS, &somewhere, sizeof somewhere);
}

static plan *make_plan(const struct md_dev_cuda_blas *blas, const md_dev_cuda_gemm *w, size_t workspace_bytes)
{
    const library *f = &blas->f;
    plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    if (pthread_mutex_init(&p->lock, NULL)) {
        free(p);
        return NULL;
    }
    p->what = *w;
    bool is_f64 = w->in == MD_F64;
    if (f->desc_create(&p->desc,
                       is_f64       ? COMPUTE_F64
                       : w->is_tf32 ? COMPUTE_TF32
                                    : COMPUTE_F32,
                       is_f64 ? REAL_F64 : REAL_F32)) {
        p->desc = NULL;
        free_plan(f, p);
        return NULL;
    }
    describe(f, p);
    p->layout[0] = w->along_rows[1] ? make_layout(f, w, w->in, w->columns, w->depth, 1)
                                    : make_layout(f, w, w->in, w->depth, w->columns, 1);
    p->layout[1] = w->along_rows[0] ? make_layout(f, w, w->in, w->rows, w->depth, 0)
                                    : make_layout(f, w, w->in, w->depth, w->rows, 0);
    p->layout[2] = make_layout(f, w, w->out, w->columns, w->rows, 2);
    if (p->layout[0] && p->layout[1] && p->layout[2])
        query_heuristic(p, blas, workspace_bytes);
    return p;
}

/* Called with the device's lock held. A plan lives as long as the device. The workspace is the same for all calls, so
 * it is not part of the key. */
static plan *find_plan(md_dev_cuda *dev, const md_dev_cuda_gemm *w, size_t workspace_bytes)
{
    md_dev_cuda_gemm key = *w;
    key.rank = 0;
    if (!dev->blas) {
        dev->blas = calloc(1, sizeof *dev->blas);
        if (dev->blas && (!open_library(&dev->blas->f) || dev->blas->f.create(&dev->blas->handle))) {
            free(dev->blas);
            dev->blas = NULL;
        }
        if (!dev->blas)
            return NULL;
    }
    plan **bucket = &dev->blas->plans[md_hash64(&key, sizeof key) % PLAN_BUCKETS];
    for (plan *p = *bucket; p; p = p->next)
        if (memcmp(&p->what, &key, sizeof key) == 0)
            return p;
    plan *p = make_plan(dev->blas, &key, workspace_bytes);
    if (p) {
        p->next = *bucket;
        *bucket = p;
    }
    return p;
}

/* If the plan has a bias, its lock is held. */
static int multiply(const struct md_dev_cuda_blas *blas, const plan *p, int32_t rank, const md_dev_cuda_gemm_data *data,
                    md_stream stream)
{
    static const float one = 1, zero = 0;
    static const double one_d = 1, zero_d = 0;
    const bool is_f64 = p->what.in == MD_F64;
    const result *r = &p->results[MD_MIN(rank, p->n - 1)];
    if (data->bias && blas->f.desc_set(p->desc, DESC_BIAS, &data->bias, sizeof data->bias))
        return -1;
    return blas->f.matmul(blas->handle, p->desc, is_f64 ? (const void *)&one_d : &one, data->b, p->layout[0], data->a,
                          p->layout[1], is_f64 ? (const void *)&zero_d : &zero, data->c, p->layout[2], data->c,
                          p->layout[2], r->algo, data->workspace, (size_t)data->workspace_bytes, (cudaStream_t)stream);
}

md_status md_dev_cuda_gemm_run(md_dev *base, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    pthread_mutex_lock(&dev->lock);
    plan *p = find_plan(dev, what, (size_t)data->workspace_bytes);
    pthread_mutex_unlock(&dev->lock);
    if (!p || p->n == 0)
        return md_fail(MD_UNSUPPORTED, "cuBLASLt has no product for [%lld,%lld] over %lld", (long long)what->rows,
                       (long long)what->columns, (long long)what->depth);
    if (data->bias)
        pthread_mutex_lock(&p->lock);
    const int error = multiply(dev->blas, p, what->rank, data, stream);
    if (data->bias)
        pthread_mutex_unlock(&p->lock);
    return error ? md_fail(MD_DEVICE, "cuBLASLt fails with status %d", error) : MD_OK;
}

void md_dev_cuda_free_blas(md_dev_cuda *dev)
{
    struct md_dev_cuda_blas *blas = dev->blas;
    if (!blas)
        return;
    for (int32_t i = 0; i < PLAN_BUCKETS; i++)
        while (blas->plans[i]) {
            plan *next = blas->plans[i]->next;
            free_plan(&blas->f, blas->plans[i]);
            blas->plans[i] = next;
        }
    (void)blas->f.destroy(blas->handle);
    free(blas);
    dev->blas = NULL;
}

#else

bool md_dev_cuda_has_gemm(void)
{
    return false;
}

md_status md_dev_cuda_gemm_run(md_dev *dev, md_stream stream, const md_dev_cuda_gemm *what,
                               const md_dev_cuda_gemm_data *data)
{
    (void)dev, (void)stream, (void)what, (void)data;
    return md_fail(MD_UNSUPPORTED, "this build has no CUDA");
}

#endif
