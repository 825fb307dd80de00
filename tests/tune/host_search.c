/* The host device with operations in between that bend kernels and count memory. */
#include "tune/host_search.h"

#include "base/status.h"
#include "device/open.h"

#include <pthread.h>

bent host_search_bent;
static pthread_mutex_t lock_of_lent = PTHREAD_MUTEX_INITIALIZER;

static bool is_bent(const md_kn_call *call)
{
    return call && call->variant && host_search_bent.variant && strstr(call->variant, host_search_bent.variant);
}

/* Stores the sums of the input's rows as a kernel with a single accumulator makes them. */
static void add_up(float *y, const md_kn_call *call)
{
    const md_st_program *const program = call->program;
    int32_t t = 0;
    while (program->formula->tensor[t].role != MD_FX_INPUT)
        t++;
    const float *const x = call->data[t];
    const int64_t n = call->shape->extent[t][1];
    for (int64_t i = 0; i < call->shape->extent[t][0]; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum += x[i * n + j];
        y[i] = sum;
    }
}

static md_status bent_launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                             md_dev_params params, const md_kn_call *call)
{
    const bool bends = is_bent(call);
    host_search_bent.n_bent += bends;
    if (bends && host_search_bent.how == BEND_LAUNCH)
        return md_fail(MD_DEVICE, "bent: it does not launch");
    if (bends && host_search_bent.how == BEND_NOTHING_WRITTEN)
        return MD_OK;
    md_status s = host_search_bent.real->launch(dev, stream, kernel, geometry, params, call);
    const md_st_program *program = call ? call->program : NULL;
    for (int32_t t = 0; bends && program && t < program->formula->n_tensors; t++) {
        if (program->formula->tensor[t].role != MD_FX_OUTPUT)
            continue;
        float *y = call->data[t];
        int64_t elements = 1;
        for (int32_t a = 0; a < program->formula->tensor[t].rank; a++)
            elements *= call->shape->extent[t][a];
        if (host_search_bent.how == BEND_RESULT ||
            host_search_bent.how == (elements < HOST_SEARCH_SMALL ? BEND_SMALL_RESULT : BEND_LARGE_RESULT))
            y[elements - 1] += 0.25f;
        if (host_search_bent.how == BEND_NEIGHBOUR)
            y[elements + 1] = 1.0f;
        if (host_search_bent.how == BEND_LONG_SUM)
            add_up(y, call);
    }
    return s;
}

static md_status bent_compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    if (host_search_bent.how == BEND_COMPILE && host_search_bent.n_bent++ % 2 == 0)
        return md_fail(MD_COMPILE, "bent: it does not compile");
    return host_search_bent.real->compile(binary, n_bytes, dev, source);
}

static md_status bent_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    MD_TRY(host_search_bent.real->alloc(out, dev, n_bytes));
    pthread_mutex_lock(&lock_of_lent);
    int32_t i = 0;
    while (i < 255 && host_search_bent.lent[i].p)
        i++;
    host_search_bent.lent[i].p = *out;
    host_search_bent.lent[i].n_bytes = n_bytes;
    host_search_bent.live += (int64_t)n_bytes;
    host_search_bent.peak = MD_MAX(host_search_bent.peak, host_search_bent.live);
    pthread_mutex_unlock(&lock_of_lent);
    return MD_OK;
}

static void bent_free(md_dev *dev, void *p)
{
    pthread_mutex_lock(&lock_of_lent);
    for (int32_t i = 0; i < 256; i++)
        if (p && host_search_bent.lent[i].p == p) {
            host_search_bent.lent[i].p = NULL;
            host_search_bent.live -= (int64_t)host_search_bent.lent[i].n_bytes;
        }
    pthread_mutex_unlock(&lock_of_lent);
    host_search_bent.real->free(dev, p);
}

void host_search_open(host_search *search, const char *formula, int64_t i, int64_t j, bend how, const char *variant)
{
    const md_fx_options o = {.dtype = MD_F32};
    memset(search, 0, sizeof *search);
    assert_ok(md_pool_create(&search->pool, 2));
    assert_ok(md_dev_open(&search->dev, &(md_dev_options){.device = "host", .pool = search->pool}));
    host_search_bent = (bent){.ops = *search->dev->ops, .real = search->dev->ops, .how = how, .variant = variant};
    host_search_bent.ops.launch = bent_launch;
    host_search_bent.ops.compile = bent_compile;
    host_search_bent.ops.alloc = bent_alloc;
    host_search_bent.ops.free = bent_free;
    search->dev->ops = &host_search_bent.ops;
    assert_ok(md_bd_create(&search->builder, search->dev));
    assert_ok(md_tn_wisdom_create(&search->wisdom));
    assert_ok(md_fx_formula_create(&search->formula, formula, &o));
    assert_ok(md_st_split(search->formula));
    assert_ok(md_st_program_create(&search->program, search->formula));
    search->point.size[0] = i;
    search->point.size[1] = j;
    search->job = (md_tn_job){.builder = search->builder,
                              .target = {search->program, 0, &search->dev->facts},
                              .wisdom = search->wisdom,
                              .count = &search->count,
                              .rigor = MD_TUNE_EXHAUSTIVE,
                              .budget_ms = 60000.0,
                              .n_points = 1,
                              .point = &search->point,
                              .seed = 3};
}

void host_search_close(host_search *search)
{
    md_bd_destroy(&search->builder); /* waits for kernels that are being built */
    search->dev->ops = host_search_bent.real;
    md_tn_wisdom_destroy(&search->wisdom);
    md_st_program_destroy(&search->program);
    md_fx_formula_destroy(&search->formula);
    md_dev_close(&search->dev);
    md_pool_destroy(&search->pool);
}

bool host_search_find(md_tn_record *r, const host_search *search, const char *family)
{
    char *key = NULL;
    assert_ok(md_tn_key(&key, &search->job.target, search->point.size, false));
    const bool is_there = md_tn_wisdom_find(r, search->wisdom, key, family, MD_TUNE_MEASURE) == MD_OK;
    free(key);
    return is_there;
}
