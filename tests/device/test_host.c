/* The host device: opening, loading, launching, memory. */
#include "device/facts.h"
#include "device/host_fixture.h"

#include "base/clock.h"
#include "base/status.h"
#include "support/fault.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

static void test_names(void **state)
{
    host_fixture *f = *state;
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
    host_fixture *f = *state;
    uint64_t start = md_clock_ns();
    md_dev *dev = host_open(f, NULL, 0);
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

static int never(void *user)
{
    return *(int *)user != 0;
}

/* On a device as it is, and on one that asks between pieces of a kernel whether it is to end. */
static void on_both(host_fixture *f, void (*run)(md_dev *dev))
{
    int is_cancelled = 0;
    md_dev *dev = host_open(f, NULL, 0);
    run(dev);
    md_dev_close(&dev);
    assert_ok(md_dev_open(
        &dev,
        &(md_dev_options){.device = "host", .pool = f->pool, .log = &f->logger, .cancel = {never, &is_cancelled}}));
    run(dev);
    md_dev_close(&dev);
}

static void test_run_on(md_dev *dev)
{
    md_dev_kernel *kernel = host_make_scale(dev, 2.0);
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
}

static void test_run(void **state)
{
    on_both(*state, test_run_on);
}

static void test_scratch_on(md_dev *dev)
{
    md_dev_kernel *kernel = host_make(dev,
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
}

static void test_scratch(void **state)
{
    on_both(*state, test_scratch_on);
}

/* Items without order as one loop: whatever the pieces, each block of each item runs once, and no other. */
static void test_list_on(md_dev *dev)
{
    enum { ITEMS = 5, MOST = 40 };
    static const int64_t blocks[ITEMS] = {7, 0, 1, 16, 9}; /* 33 in all */
    static const int64_t cuts[][6] = {{1, 33}, {2, 7, 33}, {3, 8, 24, 33}, {4, 1, 2, 10, 33}, {5, 7, 8, 24, 32, 33}};
    md_dev_kernel *kernel = host_make(dev,
                                      "typedef union { void *p; long long i; double d; } word;\n"
                                      "void add(const word *p, long long first, long long last, void *scratch)\n"
                                      "{\n"
                                      "    for (long long b = first; b < last; b++) {\n"
                                      "        *(long long *)scratch = p[1].i;\n"
                                      "        ((long long *)p[0].p)[b] += *(volatile long long *)scratch;\n"
                                      "    }\n"
                                      "}\n",
                                      "add");
    int64_t y[ITEMS][MOST], first[ITEMS + 1] = {0}, cut[6] = {0};
    md_kn_word words[ITEMS][2];
    md_dev_item item[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        words[i][0].p = y[i];
        words[i][1].i = i + 1;
        item[i] = (md_dev_item){kernel, words[i]};
        first[i + 1] = first[i] + blocks[i];
    }
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        memset(y, 0, sizeof y);
        memcpy(cut + 1, cuts[c] + 1, (size_t)cuts[c][0] * sizeof *cut);
        assert_ok(dev->ops->launch_list(dev, &(md_dev_list){item, first, ITEMS, cut, cuts[c][0], sizeof(int64_t)}));
        for (int i = 0; i < ITEMS; i++)
            for (int b = 0; b < MOST; b++)
                assert_int_equal(y[i][b], b < blocks[i] ? i + 1 : 0);
    }
    dev->ops->unload(dev, kernel);
}

static void test_list(void **state)
{
    on_both(*state, test_list_on);
}

/* Whether a page has been read; -1 where the system does not say. */
static int is_read(const char *at)
{
    uint64_t entry = 0;
    const int64_t page = sysconf(_SC_PAGESIZE), nth = (int64_t)((uintptr_t)at / (uintptr_t)page);
    FILE *map = fopen("/proc/self/pagemap", "rb");
    const bool says = map && fseeko(map, nth * 8, SEEK_SET) == 0 && fread(&entry, 8, 1, map) == 1;
    if (map)
        fclose(map);
    return says ? (int)(entry >> 63) : -1;
}

/* Constants have been read once when a kernel runs: reading one under an empty mask is slow before. */
static void test_constants(void **state)
{
    enum { N = 1 << 20, STEP = 4096 };
    md_dev *dev = host_open(*state, NULL, 0);
    md_dev_kernel *kernel = host_make(dev,
                                      "typedef union { void *p; long long i; double d; } word;\n"
                                      "static const volatile char constants[1 << 20] = {1};\n"
                                      "void own(const word *p, long long first, long long last, void *scratch)\n"
                                      "{ *(const volatile char **)p[0].p = constants; }\n",
                                      "own");
    const char *constants = NULL;
    md_kn_word words[1] = {{.p = &constants}};
    const md_kn_geometry geometry = {.blocks = 1, .grain = 1};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &geometry, (md_dev_params){words, 1}, NULL));
    for (int i = 0; i < N; i += STEP)
        assert_int_not_equal(is_read(constants + i), 0);
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
}

static md_status seven(const md_kn_call *call)
{
    *(int *)call->data[0] = 7;
    return call->blocks == 13 ? md_fail(MD_DEVICE, "thirteen") : MD_OK;
}

static void test_function_on(md_dev *dev)
{
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
    result = 0;
    assert_ok(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 0, .grain = 1}, (md_dev_params){NULL, 0},
                               &call));
    assert_int_equal(result, 0); /* nothing to launch */
    dev->ops->unload(dev, kernel);
}

static void test_function(void **state)
{
    on_both(*state, test_function_on);
}

/* Kernels of one name stay apart, although their descriptors had one number; unloading one leaves the others. */
static void test_many(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
    enum { N = 6 };
    md_dev_kernel *kernel[N];
    for (int i = 0; i < N; i++)
        kernel[i] = host_make_scale(dev, i + 2.0);
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

/* Kernels name libm themselves: a program may have loaded this library so that others do not see what it needs. */
static void test_libm(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
    void *binary = NULL;
    size_t n = 0;
    assert_ok(
        host_compile(&binary, &n, dev, "double tgamma(double);\ndouble f(double x) { return tgamma(x); }\n", "f"));
    assert_non_null(memmem(binary, n, "libm.so", strlen("libm.so")));
    free(binary);
    md_dev_kernel *kernel =
        host_make(dev,
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

static void test_memory(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
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

/* Whatever allocation fails, the answer is OUT_OF_MEMORY, and no file, library or memory is left (host_teardown and
 * ASan look). */
static void test_short_of_memory(void **state)
{
    host_fixture *f = *state;
    int32_t n_refused = 0;
    bool is_refused = true;
    for (int64_t n = 1; is_refused && n < 100; n++) {
        md_dev *dev = NULL;
        void *binary = NULL;
        size_t n_bytes = 0;
        md_dev_kernel *kernel = NULL;
        md_kn_launch_source s = host_source("void f(void) {}\n", "f");
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
        assert_int_equal(host_count_left(f->folder), 0);
    }
    assert_true(n_refused > 4 && !is_refused);
}

static void expect_no_load(md_dev *dev, const void *binary, size_t n)
{
    md_dev_kernel *kernel = NULL;
    md_kn_launch_source s = host_source("", "f");
    assert_fails(dev->ops->load(&kernel, dev, binary, n, &s), MD_DEVICE, "no whole shared object");
    assert_null(kernel);
    md_strbuf_finish(&s.text);
}

/* What the loader would map of a file that was cut short ends the process: each segment must lie inside, and the table
 * that says where they are. */
static void test_no_whole_files(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
    void *binary = NULL;
    size_t n = 0, whole = 0;
    assert_ok(host_compile(&binary, &n, dev, "int x[4000] = {1};\nvoid f(void) {}\n", "f"));
    ElfW(Ehdr) head;
    memcpy(&head, binary, sizeof head);
    char *copy = malloc(n);
    assert_true(copy && head.e_phnum > 1);
    for (int i = 0; i < head.e_phnum; i++)
        for (int field = 0; field < 2; field++) {
            ElfW(Phdr) segment;
            char *const at = copy + head.e_phoff + (size_t)i * sizeof segment;
            memcpy(copy, binary, n);
            memcpy(&segment, at, sizeof segment);
            whole = MD_MAX(whole, segment.p_offset + segment.p_filesz);
            if (field)
                segment.p_offset = n + 1;
            else
                segment.p_filesz = n + 1 - segment.p_offset;
            memcpy(at, &segment, sizeof segment);
            expect_no_load(dev, copy, n);
        }
    const ElfW(Ehdr) wrong[] = {{.e_phnum = 0}, {.e_phnum = UINT16_MAX}, {.e_phnum = 1, .e_phentsize = 1}};
    for (int i = 0; i < 3; i++) {
        ElfW(Ehdr) other = head;
        other.e_phnum = wrong[i].e_phnum;
        other.e_phentsize = wrong[i].e_phentsize ? wrong[i].e_phentsize : head.e_phentsize;
        memcpy(copy, binary, n);
        memcpy(copy, &other, sizeof other);
        expect_no_load(dev, copy, n);
    }
    memcpy(copy, binary, n);
    copy[EI_MAG3]++;
    expect_no_load(dev, copy, n);
    const size_t lengths[] = {0, 1, sizeof head - 1, sizeof head, head.e_phoff + 1, n / 2};
    for (int i = 0; i < 6; i++)
        expect_no_load(dev, binary, lengths[i]);
    md_dev_kernel *kernel = NULL;
    md_kn_launch_source s = host_source("", "f");
    assert_true(whole < n); /* what follows the last segment is not mapped */
    expect_no_load(dev, binary, whole - 1);
    assert_ok(dev->ops->load(&kernel, dev, binary, whole, &s));
    dev->ops->unload(dev, kernel);
    md_strbuf_finish(&s.text);
    free(copy);
    free(binary);
    md_dev_close(&dev);
}

/* ---- Which of the facts that kernels were made for fit a device */

static md_dev_facts gpu(int32_t capability, const char *arch)
{
    md_dev_facts f = {.kind = MD_DEV_CUDA,
                      .capability = capability,
                      .threads = 2048 * 100,
                      .l2_bytes = 50 << 20,
                      .memory_gbps = 3000,
                      .gflops = 60000,
                      .shared_per_block = 200 << 10,
                      .registers_per_sm = 65536};
    snprintf(f.arch, sizeof f.arch, "%s", arch);
    return f;
}

static md_dev_facts cpu(const char *flags, double gflops)
{
    md_dev_facts f = {.kind = MD_DEV_HOST, .threads = 2, .memory_gbps = 20, .gflops = gflops};
    snprintf(f.flags, sizeof f.flags, "%s", flags);
    return f;
}

/* Kernels of what has more than this device do not run; of those that run the nearest comes first. */
static void facts_fit_what_has_no_less(void **state)
{
    (void)state;
    enum { NEVER = -1, OTHER = 100, PTX = 1000 };
    const struct {
        md_dev_facts made_for, here;
        double distance;
    } rows[] = {
        {gpu(90, "sm_90a"), gpu(90, "sm_90a"), 0},
        {gpu(90, "sm_90a"), gpu(100, "sm_100a"), NEVER}, /* of 9.0 alone */
        {gpu(80, "sm_80"), gpu(86, "sm_86"), OTHER},
        {gpu(86, "sm_86"), gpu(80, "sm_80"), NEVER},
        {gpu(80, "sm_80"), gpu(90, "sm_90a"), NEVER},
        {gpu(80, "compute_80"), gpu(90, "sm_90a"), PTX},
        {gpu(90, "compute_90"), gpu(80, "sm_80"), NEVER},
        {cpu("-O2 -mavx2", 100), cpu("-O2 -mavx2", 100), 0},
        {cpu("-O2 -mavx2", 100), cpu("-O2 -mavx2", 400), 2}, /* octaves */
        {cpu("-O2", 100), cpu("-O2 -mavx2", 100), 16 * 7},
        {cpu("-O2 -mavx2", 100), cpu("-O2", 100), NEVER},
        {cpu("-O2 -mavx", 100), cpu("-O2 -mavx2", 100), NEVER}, /* no word of them */
        {cpu("", 100), gpu(90, "sm_90a"), NEVER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        md_dev dev = {.facts = rows[i].here};
        const double distance = md_dev_facts_distance(&rows[i].made_for, &dev);
        if (rows[i].distance < 0 ? distance >= 0 : distance != rows[i].distance)
            fail_msg("row %zu: %g", i, distance);
    }
    md_dev dev = {.facts = gpu(90, "sm_90a")};
    md_dev_facts less = dev.facts, more = dev.facts;
    less.shared_per_block /= 2;
    less.registers_per_sm /= 2;
    assert_true(md_dev_facts_distance(&less, &dev) == 0);
    more.shared_per_block++;
    assert_true(md_dev_facts_distance(&more, &dev) < 0);
    more = dev.facts;
    more.registers_per_sm++;
    assert_true(md_dev_facts_distance(&more, &dev) < 0);
    dev.facts.can_compile = true; /* compiled anew where the architecture is another */
    const md_dev_facts other = gpu(90, "sm_90");
    assert_true(md_dev_facts_distance(&other, &dev) < 0);
}

int main(void)
{
    unsetenv("MD_RATES"); /* measured */
#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_fit_what_has_no_less),
        TEST(test_names),
        TEST(test_facts),
        TEST(test_run),
        TEST(test_scratch),
        TEST(test_list),
        TEST(test_constants),
        TEST(test_function),
        TEST(test_many),
        TEST(test_libm),
        TEST(test_memory),
        TEST(test_no_whole_files),
        TEST(test_short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
