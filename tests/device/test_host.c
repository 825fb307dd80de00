/* The host device: opening, compiling, loading, launching, and what can go wrong with a compiler. */
#include "support/check.h"

#include "base/clock.h"
#include "base/status.h"
#include "device/open.h"
#include "support/fault.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    md_pool *pool;
    char folder[256]; /* TMPDIR of the test; scripts lie one level up */
    char root[200];
    md_log logger;
    char log[4096];
} fixture;

static const char scale_text[] = "typedef union { void *p; long long i; double d; } word;\n"
                                 "static float twice(float x) { return x * FACTOR; }\n"
                                 "void scale(const word *p, long long first, long long last, void *scratch)\n"
                                 "{\n"
                                 "    float *y = p[0].p;\n"
                                 "    for (long long i = first; i < last; i++) y[i] = twice(y[i]) + (float)p[1].d;\n"
                                 "}\n";

static void keep_log(void *user, md_log_level level, const char *message)
{
    fixture *f = user;
    size_t used = strlen(f->log);
    snprintf(f->log + used, sizeof f->log - used, "%d %s\n", (int)level, message);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 3) != MD_OK)
        return -1;
    snprintf(f->root, sizeof f->root, "/tmp/md-test-host-XXXXXX");
    if (!mkdtemp(f->root))
        return -1;
    snprintf(f->folder, sizeof f->folder, "%s/tmp", f->root);
    mkdir(f->folder, 0700);
    setenv("TMPDIR", f->folder, 1);
    *state = f;
    return 0;
}

static int count_left(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char path[600];
    unsetenv("TMPDIR");
    int n_left = count_left(f->folder);
    rmdir(f->folder);
    snprintf(path, sizeof path, "%s/cc", f->root);
    unlink(path);
    rmdir(f->root);
    md_pool_destroy(&f->pool);
    free(f);
    if (n_left)
        printf("%d files left in TMPDIR\n", n_left);
    return n_left; /* a test that leaves files behind fails */
}

static md_dev *open_with(fixture *f, const char *cc, int32_t limit_ms)
{
    f->logger = (md_log){keep_log, f, MD_LOG_WARN};
    md_dev *dev = NULL;
    assert_ok(md_dev_open(
        &dev, &(md_dev_options){
                  .device = "host", .cc = cc, .pool = f->pool, .log = &f->logger, .compile_limit_ms = limit_ms}));
    return dev;
}

/* A compiler that answers --version and then does as the script says. */
static const char *write_compiler(fixture *f, const char *script)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/cc", f->root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ncase \"$1\" in --version) echo 'toy 1.2.3'; exit 0;; esac\n%s\n", script);
    fclose(file);
    chmod(path, 0700);
    return path;
}

static md_kn_launch_source source_of(const char *text, const char *entry)
{
    md_kn_launch_source s = {.code = MD_KN_TEXT};
    md_strbuf_add(&s.text, text);
    snprintf(s.entry, sizeof s.entry, "%s", entry);
    return s;
}

static md_status compile(void **binary, size_t *n, md_dev *dev, const char *text, const char *entry)
{
    md_kn_launch_source s = source_of(text, entry);
    md_status status = dev->ops->compile(binary, n, dev, &s);
    md_strbuf_finish(&s.text);
    return status;
}

static md_dev_kernel *make(md_dev *dev, const char *text, const char *entry)
{
    md_kn_launch_source s = source_of(text, entry);
    void *binary = NULL;
    size_t n = 0;
    md_dev_kernel *kernel = NULL;
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_ok(dev->ops->load(&kernel, dev, binary, n, &s));
    free(binary);
    md_strbuf_finish(&s.text);
    return kernel;
}

static md_dev_kernel *make_scale(md_dev *dev, double factor)
{
    char text[1024];
    snprintf(text, sizeof text, "#define FACTOR %.1ff\n%s", factor, scale_text);
    return make(dev, text, "scale");
}

static void test_names(void **state)
{
    fixture *f = *state;
    md_dev *dev = NULL;
    const char *gpu[] = {"cuda", "cuda:0", "cuda:7"};
    bool has_gpu = false;
    for (int i = 0; i < 3; i++) { /* what a GPU does is test_cuda's */
        md_status status = md_dev_open(&dev, &(md_dev_options){.device = gpu[i], .pool = f->pool});
        if (status == MD_OK)
            has_gpu = true;
        else if (has_gpu)
            assert_int_equal(status, MD_INVALID_ARGUMENT); /* there are fewer */
        else
            assert_int_equal(status, MD_UNSUPPORTED);
        if (status != MD_OK)
            assert_non_null(strstr(md_last_error(), gpu[i]));
        md_dev_close(&dev);
    }
    const char *good[] = {"host", NULL, "auto"};
    for (int i = 0; i < 3; i++) {
        assert_ok(md_dev_open(&dev, &(md_dev_options){.device = good[i], .pool = f->pool}));
        assert_string_equal(dev->ops->name, i > 0 && has_gpu ? "cuda" : "host");
        md_dev_close(&dev);
        assert_null(dev);
    }
    const char *bad[] = {"", "gpu", "hosts", "cudas", "Host"};
    for (int i = 0; i < 5; i++)
        assert_fails(md_dev_open(&dev, &(md_dev_options){.device = bad[i], .pool = f->pool}), MD_INVALID_ARGUMENT,
                     "auto, host, cuda");
    assert_fails(md_dev_open(&dev, &(md_dev_options){.device = "host", .cc = "  ", .pool = f->pool}),
                 MD_INVALID_ARGUMENT, "MD_CC");
    md_dev_close(NULL);
    md_dev_close(&dev);
}

static void test_facts(void **state)
{
    fixture *f = *state;
    uint64_t start = md_clock_ns();
    md_dev *dev = open_with(f, NULL, 0);
    printf("opened in %.1f ms\n", (double)(md_clock_ns() - start) * 1e-6);
    const md_dev_facts *x = &dev->facts;
    printf("%s, %s, %d threads, memory %.1f (lane %.1f), cache %.1f GB/s, %.1f GFLOP/s, launch %.2f us\n%s\n", x->name,
           x->compiler, x->threads, x->memory_gbps, x->lane_gbps, x->cache_gbps, x->gflops, x->launch_us, x->flags);
    assert_true(x->can_compile);
    assert_int_equal(x->threads, 3);
    assert_non_null(strchr(x->compiler, '.'));
    assert_true(x->memory_gbps >= 0.9 && x->lane_gbps <= x->memory_gbps && x->cache_gbps >= x->lane_gbps);
    assert_true(x->gflops >= 1.0 && x->launch_us > 0.0);
    assert_null(strstr(x->flags, "-march=native"));
    assert_null(strstr(x->flags, "fast-math"));
    assert_string_equal(f->log, "");
    md_dev_close(&dev);
}

static void test_run(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    md_dev_kernel *kernel = make_scale(dev, 2.0);
    enum { N = 1003 };
    float y[N];
    const int64_t grains[] = {1, 7, 1002, 1003, 5000};
    for (int g = 0; g < 5; g++)
        for (int with_scratch = 0; with_scratch < 2; with_scratch++) {
            for (int i = 0; i < N; i++)
                y[i] = (float)i;
            md_kn_word words[2] = {{.p = y}, {.d = 0.5}};
            md_kn_geometry geometry = {.blocks = N, .grain = grains[g], .scratch_bytes = with_scratch * 100};
            assert_ok(dev->ops->launch(dev, NULL, kernel, &geometry, (md_dev_params){words, 2}, NULL));
            for (int i = 0; i < N; i++)
                assert_true(y[i] == 2.0f * (float)i + 0.5f); /* each block exactly once */
        }
    md_kn_geometry none = {.blocks = 0, .grain = 1};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &none, (md_dev_params){NULL, 0}, NULL));
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

static void test_scratch(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    md_dev_kernel *kernel = make(dev,
                                 "typedef union { void *p; long long i; double d; } word;\n"
                                 "void own(const word *p, long long first, long long last, void *scratch)\n"
                                 "{\n"
                                 "    long long *s = scratch, *y = p[0].p;\n"
                                 "    for (long long b = first; b < last; b++) {\n"
                                 "        for (int i = 0; i < 512; i++) s[i] = b;\n"
                                 "        long long sum = 0;\n"
                                 "        for (int i = 0; i < 512; i++) sum += ((volatile long long *)s)[i];\n"
                                 "        y[b] = sum + ((long long)scratch & 63);\n"
                                 "    }\n"
                                 "}\n",
                                 "own");
    enum { N = 400 };
    int64_t y[N];
    md_kn_word words[1] = {{.p = y}};
    md_kn_geometry geometry = {.blocks = N, .grain = 1, .scratch_bytes = 512 * 8};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &geometry, (md_dev_params){words, 1}, NULL));
    for (int i = 0; i < N; i++)
        assert_int_equal(y[i], 512 * i); /* no lane wrote another's scratch; 64-byte aligned */
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

static md_status seven(const md_kn_call *call)
{
    *(int *)call->data[0] = 7;
    return call->blocks == 13 ? md_fail(MD_DEVICE, "thirteen") : MD_OK;
}

static void test_function(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    md_kn_launch_source s = {.code = MD_KN_FUNCTION, .function = seven};
    md_dev_kernel *kernel = NULL;
    assert_ok(dev->ops->load(&kernel, dev, NULL, 0, &s));
    int result = 0;
    md_kn_call call = {.blocks = 1};
    call.data[0] = &result;
    assert_ok(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 1, .grain = 1}, (md_dev_params){NULL, 0},
                               &call));
    assert_int_equal(result, 7);
    call.blocks = 13;
    assert_fails(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 13, .grain = 1},
                                  (md_dev_params){NULL, 0}, &call),
                 MD_DEVICE, "thirteen");
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

/* Kernels of one name stay apart, although their descriptors had one number; unloading one leaves the others. */
static void test_many(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    enum { N = 6 };
    md_dev_kernel *kernel[N];
    for (int i = 0; i < N; i++)
        kernel[i] = make_scale(dev, i + 2.0);
    for (int i = 0; i < N; i++) {
        float y[1] = {1.0f};
        md_kn_word words[2] = {{.p = y}, {.d = 0.0}};
        assert_ok(dev->ops->launch(dev, NULL, kernel[i], &(md_kn_geometry){.blocks = 1, .grain = 1},
                                   (md_dev_params){words, 2}, NULL));
        assert_true(y[0] == (float)(i + 2));
        dev->ops->unload(dev, kernel[i]);
    }
    md_dev_close(&dev);
}

static void test_libm(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    md_dev_kernel *kernel =
        make(dev,
             "#include <math.h>\ntypedef union { void *p; long long i; double d; } word;\n"
             "void e(const word *p, long long a, long long b, void *s) { *(double *)p[0].p = tgamma(p[1].d); }\n",
             "e");
    double y = 0.0;
    md_kn_word words[2] = {{.p = &y}, {.d = 5.0}};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 1, .grain = 1}, (md_dev_params){words, 2},
                               NULL));
    assert_true(y > 23.999 && y < 24.001);
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

static void test_bad_text(void **state)
{
    fixture *f = *state;
    md_dev *dev = open_with(f, NULL, 0);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(compile(&binary, &n, dev, "int x;\nvoid f(void) { return undeclared; }\n", "f"), MD_COMPILE,
                 "kernel.c:2:");
    assert_non_null(strstr(md_last_error(), "undeclared"));
    assert_null(strstr(md_last_error(), f->root)); /* a path that is gone helps nobody */
    assert_null(strchr(md_last_error(), '\n'));
    assert_null(binary);
    assert_int_equal(count_left(f->folder), 0);
    md_dev_close(&dev);
}

static void test_bad_binary(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    md_kn_launch_source s = source_of("int x = 1;\n", "absent");
    md_dev_kernel *kernel = NULL;
    assert_fails(dev->ops->load(&kernel, dev, "garbage", 7, &s), MD_DEVICE, "cannot be loaded");
    void *binary = NULL;
    size_t n = 0;
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_fails(dev->ops->load(&kernel, dev, binary, n, &s), MD_DEVICE, "no function 'absent'");
    for (size_t part = 0; part < n; part += n / 7)
        if (dev->ops->load(&kernel, dev, binary, part, &s) != MD_DEVICE)
            fail_msg("%zu of %zu bytes were loaded", part, n);
    free(binary);
    md_strbuf_finish(&s.text);
    s = source_of("void no_such_function(void);\nvoid f(void) { no_such_function(); }\n", "f");
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_fails(dev->ops->load(&kernel, dev, binary, n, &s), MD_DEVICE, "loaded: undefined symbol: no_such_function");
    assert_null(kernel);
    free(binary);
    md_strbuf_finish(&s.text);
    md_dev_close(&dev);
}

static void test_no_compiler(void **state)
{
    fixture *f = *state;
    const char *names[] = {"/nonexistent/cc", "no-such-compiler-here", "false", "/"};
    for (int i = 0; i < 4; i++) {
        f->log[0] = 0;
        md_dev *dev = open_with(f, names[i], 0);
        assert_false(dev->facts.can_compile);
        assert_string_equal(dev->facts.compiler, "");
        assert_non_null(strstr(f->log, names[i])); /* one warning that names it */
        assert_ptr_equal(strchr(f->log, '\n') + 1, f->log + strlen(f->log));
        void *binary = NULL;
        size_t n = 0;
        assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, names[i]);
        md_dev_close(&dev);
    }
}

static void test_failing_compiler(void **state)
{
    fixture *f = *state;
    void *binary = NULL;
    size_t n = 0;
    md_dev *dev =
        open_with(f, write_compiler(f, "echo 'warning: nothing'; echo 'toy: fatal error: no licence' >&2; exit 3"), 0);
    assert_true(dev->facts.can_compile);
    assert_string_equal(dev->facts.compiler, "toy 1.2.3");
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "status 3: toy: fatal error: no licence");
    md_dev_close(&dev);
    dev = open_with(f, write_compiler(f, "exit 0"), 0);
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "wrote nothing");
    md_dev_close(&dev);
    dev = open_with(f, write_compiler(f, "kill -9 $$"), 0);
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "status 137");
    md_dev_close(&dev);
    dev = open_with(f, write_compiler(f, "sleep 30"), 200);
    uint64_t start = md_clock_ns();
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_TIMEOUT, "200 ms");
    assert_true(md_clock_ns() - start < 10 * UINT64_C(1000000000));
    md_dev_close(&dev);
    assert_null(binary);
}

/* An option after the program's name is passed on; a compiler that disappears later is named. */
static void test_options_of_compiler(void **state)
{
    fixture *f = *state;
    md_dev *dev = open_with(f, "cc  -DFACTOR=5.0f -DNOTHING ", 0);
    md_dev_kernel *kernel = make(dev, scale_text, "scale");
    float y[1] = {3.0f};
    md_kn_word words[2] = {{.p = y}, {.d = 1.0}};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 1, .grain = 1}, (md_dev_params){words, 2},
                               NULL));
    assert_true(y[0] == 16.0f);
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
    const char *path = write_compiler(f, "exit 1");
    dev = open_with(f, path, 0);
    unlink(path);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "no C compiler");
    md_dev_close(&dev);
}

static void test_unwritable_folder(void **state)
{
    fixture *f = *state;
    md_dev *dev = open_with(f, NULL, 0);
    setenv("TMPDIR", "/nonexistent/folder", 1);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(compile(&binary, &n, dev, "int x;\n", "x"), MD_IO, "/nonexistent/folder");
    setenv("TMPDIR", f->folder, 1);
    md_dev_close(&dev);
}

static void test_memory(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    const size_t sizes[] = {0, 1, 63, 64, 65, 100000};
    for (int i = 0; i < 6; i++) {
        char *p = NULL, *q = NULL;
        assert_ok(dev->ops->alloc((void **)&p, dev, sizes[i]));
        assert_ok(dev->ops->alloc((void **)&q, dev, sizes[i]));
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 5, sizes[i]);
        assert_ok(dev->ops->copy(dev, q, p, sizes[i]));
        assert_memory_equal(p, q, sizes[i]);
        dev->ops->free(dev, p);
        dev->ops->free(dev, q);
    }
    void *none = NULL;
    assert_fails(dev->ops->alloc(&none, dev, SIZE_MAX), MD_OUT_OF_MEMORY, "memory");
    assert_fails(dev->ops->alloc(&none, dev, SIZE_MAX / 2), MD_OUT_OF_MEMORY, "memory");
    dev->ops->free(dev, NULL);
    assert_ok(dev->ops->copy(dev, NULL, NULL, 0));
    assert_ok(dev->ops->sync(dev, NULL));
    md_dev_close(&dev);
}

/* Whatever allocation fails, the answer is OUT_OF_MEMORY, and no file, library or memory is left (setup and ASan look).
 */
static void test_short_of_memory(void **state)
{
    fixture *f = *state;
    int32_t n_refused = 0;
    bool is_refused = true;
    for (int64_t n = 1; is_refused && n < 100; n++) {
        md_dev *dev = NULL;
        void *binary = NULL;
        size_t n_bytes = 0;
        md_dev_kernel *kernel = NULL;
        md_kn_launch_source s = source_of("void f(void) {}\n", "f");
        fault_after(n);
        md_status status = md_dev_open(&dev, &(md_dev_options){.device = "host", .pool = f->pool});
        if (status == MD_OK)
            status = dev->ops->compile(&binary, &n_bytes, dev, &s);
        if (status == MD_OK)
            status = dev->ops->load(&kernel, dev, binary, n_bytes, &s);
        is_refused = fault_happened();
        fault_after(0);
        n_refused += is_refused;
        if (status != (is_refused ? MD_OUT_OF_MEMORY : MD_OK) && !kernel) /* rates do without memory: table values */
            fail_msg("allocation %d refused: %s: %s", (int)n, md_status_name(status), md_last_error());
        if (kernel)
            dev->ops->unload(dev, kernel);
        free(binary);
        md_strbuf_finish(&s.text);
        md_dev_close(&dev);
        assert_int_equal(count_left(f->folder), 0);
    }
    assert_true(n_refused > 4 && !is_refused);
}

/* A small kernel compiles in 150 ms on an idle machine (issue 2); here only printed, and held to what a loaded one
 * does. */
static void test_compile_time(void **state)
{
    md_dev *dev = open_with(*state, NULL, 0);
    char text[1024];
    snprintf(text, sizeof text, "#define FACTOR 2.0f\n%s", scale_text);
    uint64_t best = UINT64_MAX, best_load = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        md_kn_launch_source s = source_of(text, "scale");
        void *binary = NULL;
        size_t n = 0;
        md_dev_kernel *kernel = NULL;
        uint64_t start = md_clock_ns();
        assert_ok(dev->ops->compile(&binary, &n, dev, &s));
        uint64_t compiled = md_clock_ns();
        assert_ok(dev->ops->load(&kernel, dev, binary, n, &s));
        best = MD_MIN(best, compiled - start);
        best_load = MD_MIN(best_load, md_clock_ns() - compiled);
        dev->ops->unload(dev, kernel);
        free(binary);
        md_strbuf_finish(&s.text);
    }
    printf("compile %.1f ms, load %.3f ms\n", (double)best * 1e-6, (double)best_load * 1e-6);
    assert_true(best < 5 * UINT64_C(1000000000));
    md_dev_close(&dev);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_names),
        TEST(test_facts),
        TEST(test_run),
        TEST(test_scratch),
        TEST(test_function),
        TEST(test_many),
        TEST(test_libm),
        TEST(test_bad_text),
        TEST(test_bad_binary),
        TEST(test_no_compiler),
        TEST(test_memory),
        TEST(test_failing_compiler),
        TEST(test_options_of_compiler),
        TEST(test_unwritable_folder),
        TEST(test_short_of_memory),
        TEST(test_compile_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
