/* What the tests of the cuda device share: one device for all, and kernels from short texts. */
#ifndef MD_TESTS_DEVICE_CUDA_FIXTURE_H
#define MD_TESTS_DEVICE_CUDA_FIXTURE_H

#include "support/check.h"

#include "base/clock.h"
#include "base/status.h"
#include "device/cuda/cuda.h"
#include "device/open.h"

#include <cuda_runtime_api.h>

typedef struct fixture {
    md_pool *pool;
    md_dev *dev;
    int exit_code; /* 77: there is no GPU here */
} fixture;

/** Opens the device; false where there is none, with exit_code set and the reason printed. */
static inline bool fixture_open(fixture *f)
{
    *f = (fixture){0};
    if (md_pool_create(&f->pool, 4) != MD_OK)
        return false;
    md_status status = md_dev_open(&f->dev, &(md_dev_options){.device = "cuda", .pool = f->pool});
    if (status == MD_OK)
        return true;
    printf("SKIPPED, nothing was tested: %s\n", md_last_error());
    f->exit_code = status == MD_UNSUPPORTED ? 77 : 1;
    md_pool_destroy(&f->pool);
    return false;
}

static inline void fixture_close(fixture *f)
{
    md_dev_close(&f->dev);
    md_pool_destroy(&f->pool);
}

static inline md_kn_launch_source source_of(const char *text)
{
    md_kn_launch_source s = {.code = MD_KN_TEXT, .entry = "md_kernel"};
    md_strbuf_add(&s.text, text);
    return s;
}

static inline md_status compile(void **binary, size_t *n, md_dev *dev, const char *text)
{
    md_kn_launch_source s = source_of(text);
    md_status status = dev->ops->compile(binary, n, dev, &s);
    md_strbuf_finish(&s.text);
    return status;
}

static inline md_status load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n)
{
    md_kn_launch_source s = source_of("");
    md_status status = dev->ops->load(out, dev, binary, n, &s);
    md_strbuf_finish(&s.text);
    return status;
}

static inline md_dev_kernel *make(md_dev *dev, const char *text)
{
    void *binary = NULL;
    size_t n = 0;
    md_dev_kernel *kernel = NULL;
    assert_ok(compile(&binary, &n, dev, text));
    assert_ok(load(&kernel, dev, binary, n));
    free(binary);
    return kernel;
}

/* y[i] = y[i] * factor + 1 for i < n */
static const char scale_text[] =
    "struct md_params { float *y; double factor; long long n; };\n"
    "extern \"C\" __global__ void __launch_bounds__(128) md_kernel(const __grid_constant__ md_params p)\n"
    "{\n"
    "    long long i = blockIdx.x * 128ll + threadIdx.x;\n"
    "    if (i < p.n) p.y[i] = p.y[i] * (float)p.factor + 1.0f;\n"
    "}\n";

static inline md_kn_geometry grid_of(int64_t n_blocks, int32_t n_threads)
{
    return (md_kn_geometry){
        .blocks = n_blocks, .grain = 1, .grid = {(int32_t)n_blocks, 1, 1}, .block = {n_threads, 1, 1}};
}

/* Enqueues the scaling of n floats. */
static inline md_status scale(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, void *y, double factor,
                              int64_t n)
{
    md_kn_word words[3] = {{.p = y}, {.d = factor}, {.i = n}};
    md_kn_geometry g = grid_of((n + 127) / 128, 128);
    return dev->ops->launch(dev, stream, kernel, &g, (md_dev_params){words, 3}, NULL);
}

/* Whether the device still computes. */
static inline void check_works(md_dev *dev)
{
    float x[300];
    void *y = NULL;
    md_dev_kernel *kernel = make(dev, scale_text);
    for (int i = 0; i < 300; i++)
        x[i] = (float)i;
    assert_ok(dev->ops->alloc(&y, dev, sizeof x));
    assert_ok(dev->ops->copy(dev, y, x, sizeof x));
    assert_ok(scale(dev, NULL, kernel, y, 2.0, 299));
    assert_ok(dev->ops->copy(dev, x, y, sizeof x));
    for (int i = 0; i < 300; i++)
        assert_true(x[i] == (i < 299 ? 2.0f * (float)i + 1.0f : 299.0f));
    dev->ops->free(dev, y);
    dev->ops->unload(dev, kernel);
}

#endif
