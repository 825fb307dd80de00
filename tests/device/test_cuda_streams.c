/* The cuda device and streams: workspaces and counters, captures, time, what calls cost. Skips itself where there is
 * no GPU. */
#include "device/cuda_fixture.h"

#include <math.h>
#include <pthread.h>

/* Fills the workspace with `seed`, or checks that all of it is `seed` and counts what is not into out. Slow, so that
 * streams overlap. */
static const char work_text[] =
    "struct md_params { unsigned *work; unsigned *wrong; long long n, seed, is_check; };\n"
    "extern \"C\" __global__ void __launch_bounds__(256) md_kernel(const __grid_constant__ md_params p)\n"
    "{\n"
    "    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < p.n; i += gridDim.x * 256ll) {\n"
    "        if (!p.is_check) p.work[i] = (unsigned)(p.seed + i);\n"
    "        else if (p.work[i] != (unsigned)(p.seed + i)) atomicAdd(p.wrong, 1u);\n"
    "    }\n"
    "}\n";

/* Whoever runs this under a tool that slows everything down says so. */
static bool under_tool(void)
{
    return getenv("MD_TEST_TOOL") != NULL;
}

typedef struct worker {
    md_dev *dev;
    md_dev_kernel *kernel;
    void *wrong;
} worker;

static void *use_workspace(worker *w, md_stream stream, int64_t n_words, int64_t seed)
{
    void *p = NULL;
    assert_ok(w->dev->ops->workspace(&p, w->dev, stream, (size_t)n_words * 4));
    assert_int_equal((uintptr_t)p % 256, 0);
    for (int check = 0; check < 2; check++) {
        md_kn_word words[5] = {{.p = p}, {.p = w->wrong}, {.i = n_words}, {.i = seed}, {.i = check}};
        md_kn_geometry g = grid_of(64, 256);
        assert_ok(w->dev->ops->launch(w->dev, stream, w->kernel, &g, (md_dev_params){words, 5}, NULL));
    }
    return p;
}

static uint32_t count_wrong(worker *w)
{
    uint32_t n = 1;
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_ok(w->dev->ops->copy(w->dev, &n, w->wrong, sizeof n));
    return n;
}

static worker start_worker(md_dev *dev)
{
    worker w = {dev, make(dev, work_text), NULL};
    uint32_t zero = 0;
    assert_ok(dev->ops->alloc(&w.wrong, dev, sizeof zero));
    assert_ok(dev->ops->copy(dev, w.wrong, &zero, sizeof zero));
    return w;
}

static void end_worker(worker *w)
{
    w->dev->ops->free(w->dev, w->wrong);
    w->dev->ops->unload(w->dev, w->kernel);
}

static void test_workspace(void **state)
{
    worker w = start_worker(((fixture *)*state)->dev);
    uint64_t seed = check_seed();
    cudaStream_t stream[5] = {NULL};
    for (int i = 1; i < 5; i++)
        assert_int_equal(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking), cudaSuccess);
    void *first = use_workspace(&w, stream[1], 1000, 1), *other = use_workspace(&w, stream[2], 1000, 2);
    assert_ptr_not_equal(first, other);
    assert_ptr_equal(use_workspace(&w, stream[1], 900, 3), first);
    /* Growth while work of the smaller arena is under way, on all streams. */
    for (int turn = 0; turn < 200; turn++)
        use_workspace(&w, stream[check_random(&seed) % 5], (int64_t)(check_random(&seed) % 40000) * (1 + turn), turn);
    assert_int_equal(count_wrong(&w), 0);
    for (int i = 1; i < 5; i++)
        cudaStreamDestroy(stream[i]);
    end_worker(&w);
}

static void test_capture(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    worker w = start_worker(dev);
    cudaStream_t a = NULL, b = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    void *counters[3] = {NULL};
    assert_int_equal(cudaStreamCreate(&a), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), cudaSuccess);
    assert_false(dev->ops->is_capturing(dev, a));
    void *outside = use_workspace(&w, a, 100000, 1);
    assert_ok(dev->ops->counters(&counters[0], dev, a));
    assert_int_equal(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal), cudaSuccess);
    assert_true(dev->ops->is_capturing(dev, a));
    void *inside = use_workspace(&w, a, 100000, 2);
    assert_ptr_not_equal(inside, outside);
    assert_ptr_equal(use_workspace(&w, a, 50000, 3), inside);
    void *larger = use_workspace(&w, a, 3000000, 4); /* more: the graph keeps both */
    assert_ptr_not_equal(larger, inside);
    assert_ok(dev->ops->counters(&counters[1], dev, a));
    assert_ok(dev->ops->counters(&counters[2], dev, a));
    assert_true(counters[0] != counters[1] && counters[1] == counters[2]);
    double us = 0.0;
    assert_fails(dev->ops->time(&us, dev, a, NULL, NULL), MD_UNSUPPORTED, "captured");
    assert_int_equal(cudaStreamEndCapture(a, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    /* The graph on one stream, calls on the stream that it was captured from. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(cudaGraphLaunch(exec, b), cudaSuccess);
        assert_ptr_equal(use_workspace(&w, a, 100000, i), outside);
    }
    assert_int_equal(count_wrong(&w), 0);
    uint32_t zero[4] = {1, 1, 1, 1};
    for (int i = 0; i < 2; i++) {
        assert_ok(dev->ops->copy(dev, zero, (char *)counters[i] + MD_KN_COUNTER_BYTES - 16, 16));
        assert_true(!zero[0] && !zero[1] && !zero[2] && !zero[3]);
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    end_worker(&w);
}

/* A thread of ours loads kernels and allocates while the application captures in the strictest mode. */
static void *load_meanwhile(void *context)
{
    md_dev *dev = context;
    void *binary = NULL, *p = NULL;
    size_t n = 0;
    md_dev_kernel *kernel = NULL;
    md_dev_report report;
    md_status status = compile(&binary, &n, dev, scale_text);
    if (status == MD_OK)
        status = load(&kernel, dev, binary, n);
    if (status == MD_OK)
        status = dev->ops->alloc(&p, dev, 1 << 20);
    for (int i = 0; status == MD_OK && i < 200; i++)
        status = dev->ops->report_create(&report, dev);
    if (status == MD_OK)
        dev->ops->free(dev, p);
    dev->ops->unload(dev, kernel);
    free(binary);
    if (status != MD_OK)
        printf("%s\n", md_last_error());
    return status == MD_OK ? dev : NULL;
}

static void test_load_during_capture(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    if (under_tool())
        skip(); /* compute-sanitizer itself ends the capture when a kernel is loaded */
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    pthread_t thread;
    void *done = NULL;
    worker w = start_worker(dev);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    use_workspace(&w, stream, 1000, 1);
    assert_int_equal(pthread_create(&thread, NULL, load_meanwhile, dev), 0);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_non_null(load_meanwhile(dev)); /* and on the thread that captures */
    use_workspace(&w, stream, 1000, 1);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    end_worker(&w);
}

/* ---- time */

static const char spin_text[] =
    "struct md_params { long long ns; };\n"
    "extern \"C\" __global__ void __launch_bounds__(32) md_kernel(const __grid_constant__ md_params p)\n"
    "{\n"
    "    long long start, now;\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(start));\n"
    "    do asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now)); while (now - start < p.ns);\n"
    "}\n";

typedef struct spin {
    md_dev *dev;
    md_stream stream;
    md_dev_kernel *kernel;
    int64_t ns;
    int n;
} spin;

static md_status spin_body(void *user)
{
    spin *s = user;
    md_kn_geometry g = grid_of(1, 32);
    for (int i = 0; i < s->n; i++)
        MD_TRY(
            s->dev->ops->launch(s->dev, s->stream, s->kernel, &g, (md_dev_params){&(md_kn_word){.i = s->ns}, 1}, NULL));
    return MD_OK;
}

static void test_time(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    spin s = {dev, dev->tuning, make(dev, spin_text), 0, 100};
    double empty = 0.0, us = 0.0, other = 0.0, lo = INFINITY, hi = 0.0;
    for (int i = 0; i < 8; i++) {
        assert_ok(dev->ops->time(&empty, dev, s.stream, spin_body, &s));
        lo = fmin(lo, i ? empty : INFINITY);
        hi = fmax(hi, i ? empty : 0.0);
    }
    printf("empty kernels: %.3f to %.3f us each of %d in a row\n", lo / s.n, hi / s.n, s.n);
    s.ns = 20000;
    s.n = 10;
    assert_ok(dev->ops->time(&us, dev, s.stream, spin_body, &s));
    s.n = 20;
    assert_ok(dev->ops->time(&other, dev, s.stream, spin_body, &s));
    printf("kernels of 20 us: %.2f us each of 10, %.2f of 20, the next ten %.2f\n", us / 10, other / 20,
           (other - us) / 10);
    assert_true(us / 10 > 19.0 && (under_tool() || us / 10 < 25.0) &&
                (under_tool() || fabs((other - us) / 10 - us / 10) < 1.0));
    s.n = 0;
    double nothing = INFINITY; /* the least: the GPU may serve others */
    for (int i = 0; i < 8; i++) {
        assert_ok(dev->ops->time(&empty, dev, NULL, spin_body, &s));
        nothing = fmin(nothing, empty);
    }
    printf("nothing: %.2f us\n", nothing);
    assert_true(nothing >= 0.0 && (under_tool() || nothing < 1.0));
    s.n = 1;
    s.stream = NULL;
    for (int i = 0; i < 3; i++) {
        assert_ok(dev->ops->time(&us, dev, NULL, spin_body, &s));
        printf("one of 20 us: %.2f us\n", us);
        assert_true(us > 19.0);
    }
    dev->ops->unload(dev, s.kernel);
}

/* ---- what calls cost: printed; judged only where something is out of all proportion */

typedef struct raw_call {
    cudaLibrary_t library;
    cudaKernel_t kernel;
} raw_call;

static raw_call load_raw(md_dev *dev)
{
    raw_call raw;
    void *binary = NULL;
    size_t n = 0;
    assert_ok(compile(&binary, &n, dev, scale_text));
    assert_int_equal(cudaLibraryLoadData(&raw.library, binary, NULL, NULL, 0, NULL, NULL, 0), cudaSuccess);
    assert_int_equal(cudaLibraryGetKernel(&raw.kernel, raw.library, "md_kernel"), cudaSuccess);
    free(binary);
    return raw;
}

static double launch_ns(md_dev *dev, const md_dev_kernel *kernel, const raw_call *raw)
{
    enum { N = 500 };
    md_kn_word words[3] = {{0}};
    md_kn_geometry g = grid_of(1, 128);
    cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {128, 1, 1}, .stream = (cudaStream_t)dev->tuning};
    void *args[1] = {words};
    double best = INFINITY;
    for (int turn = 0; turn < 20; turn++) {
        uint64_t start = md_clock_ns();
        for (int i = 0; i < N; i++) {
            if (raw)
                (void)cudaLaunchKernelExC(&config, (const void *)raw->kernel, args);
            else
                (void)dev->ops->launch(dev, dev->tuning, kernel, &g, (md_dev_params){words, 3}, NULL);
        }
        best = fmin(best, (double)(md_clock_ns() - start) / N);
        assert_ok(dev->ops->sync(dev, dev->tuning));
    }
    return best;
}

static void test_costs(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    void *binary = NULL, *p = NULL;
    size_t n = 0;
    md_dev_kernel *kernel = NULL;
    uint64_t start = md_clock_ns();
    assert_ok(compile(&binary, &n, dev, scale_text));
    double compiled = (double)(md_clock_ns() - start) * 1e-6;
    start = md_clock_ns();
    assert_ok(load(&kernel, dev, binary, n));
    double loaded = (double)(md_clock_ns() - start) * 1e-3;
    start = md_clock_ns();
    assert_ok(scale(dev, dev->tuning, kernel, NULL, 1.0, 0)); /* no blocks */
    md_kn_geometry g = grid_of(1, 128);
    md_kn_word words[3] = {{0}};
    start = md_clock_ns();
    assert_ok(dev->ops->launch(dev, dev->tuning, kernel, &g, (md_dev_params){words, 3}, NULL));
    double first = (double)(md_clock_ns() - start) * 1e-3;
    raw_call raw = load_raw(dev);
    double theirs = launch_ns(dev, NULL, &raw), ours = launch_ns(dev, kernel, NULL);
    theirs = fmin(theirs, launch_ns(dev, NULL, &raw));
    ours = fmin(ours, launch_ns(dev, kernel, NULL));
    start = md_clock_ns();
    for (int i = 0; i < 10000; i++)
        assert_ok(dev->ops->workspace(&p, dev, dev->tuning, 1000));
    printf("compile %.1f ms, load with its first launch %.0f us, the next launch %.1f us; a launch %.0f ns, the "
           "runtime's own %.0f ns; a workspace %.0f ns\n",
           compiled, loaded, first, ours, theirs, (double)(md_clock_ns() - start) / 10000);
    free(binary);
    dev->ops->unload(dev, kernel);
    cudaLibraryUnload(raw.library);
}

/* What a device's opening would have to do to measure how fast memory is, in ms; *gbps: what it would find. */
static double measure_rate(double *gbps, md_dev *dev)
{
    enum { BYTES = 128 << 20, N = 4 };
    void *from = NULL, *to = NULL;
    cudaEvent_t begin, end;
    float ms = 0;
    uint64_t start = md_clock_ns();
    *gbps = 0;
    bool is_good = cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess &&
                   cudaMalloc(&from, BYTES) == cudaSuccess && cudaMalloc(&to, BYTES) == cudaSuccess;
    for (int i = 0; i <= N && is_good; i++) { /* the first is not counted */
        is_good = (i != 1 || cudaEventRecord(begin, dev->tuning) == cudaSuccess) &&
                  cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, dev->tuning) == cudaSuccess;
    }
    is_good = is_good && cudaEventRecord(end, dev->tuning) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
              cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
    assert_true(is_good);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaFree(from);
    cudaFree(to);
    *gbps = 2.0 * BYTES * N / (ms * 1e6);
    return (double)(md_clock_ns() - start) * 1e-6;
}

/* The rate that the facts have is computed; it must be that of copies. */
static void test_rate(void **state)
{
    md_dev *dev = ((fixture *)*state)->dev;
    double first = 0.0, best = 0.0, gbps = 0.0, ms = measure_rate(&first, dev), again = 0.0;
    for (int i = 0; i < 10; i++) {
        again = measure_rate(&gbps, dev);
        best = fmax(best, gbps);
    }
    printf("copies of 128 MB: %.0f GB/s at first (%.1f ms), %.0f at best (%.1f ms); the facts say %.0f\n", first, ms,
           best, again, dev->facts.memory_gbps);
    assert_true(under_tool() || (best > 0.85 * dev->facts.memory_gbps && best < 1.15 * dev->facts.memory_gbps));
}

int main(void)
{
    static fixture f;
    if (!fixture_open(&f))
        return f.exit_code;
#define TEST(name) cmocka_unit_test_prestate(name, &f)
    const struct CMUnitTest tests[] = {
        TEST(test_rate), TEST(test_workspace), TEST(test_capture), TEST(test_load_during_capture),
        TEST(test_time), TEST(test_costs),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_close(&f);
    return n_failed;
}
