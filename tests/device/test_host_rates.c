/* The rates of the host: the arithmetic of each width against a loop in assembly, and when rates are measured again. */
#include "support/check.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/status.h"
#include "device/host/host.h"
#include "device/open.h"

#include <math.h>
#include <time.h>

enum { DAY = 24 * 3600 };

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_LOOPS 1
enum { STEPS = 20000, CHAINS = 12 };

/* Twelve independent chains of multiply-add; registers hold whatever is in them, but no subnormals: they are zeroed. */
#define EACH(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define CLOBBERS                                                                                                       \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13"
#define LOOP(name, ZERO, STEP)                                                                                         \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        long n = STEPS;                                                                                                \
        __asm__ volatile(EACH(ZERO) ZERO(12) ZERO(13) "1:\n" EACH(STEP) "dec %0\njnz 1b\n" : "+r"(n)::CLOBBERS, "cc"); \
    }
#define ZERO_SSE(r) "xorps %%xmm" #r ", %%xmm" #r "\n"
#define STEP_SSE(r) "mulps %%xmm12, %%xmm" #r "\naddps %%xmm13, %%xmm" #r "\n"
#define ZERO_AVX(r) "vxorps %%xmm" #r ", %%xmm" #r ", %%xmm" #r "\n"
#define STEP_AVX2(r) "vfmadd213ps %%ymm13, %%ymm12, %%ymm" #r "\n"
#define STEP_AVX512(r) "vfmadd213ps %%zmm13, %%zmm12, %%zmm" #r "\n"
LOOP(loop_16, ZERO_SSE, STEP_SSE)
LOOP(loop_32, ZERO_AVX, STEP_AVX2)
LOOP(loop_64, ZERO_AVX, STEP_AVX512)
#endif

static md_dev *open_level(const char *level, md_pool *pool)
{
    md_dev *dev = NULL;
    assert_ok(md_dev_open(&dev, &(md_dev_options){.device = level, .cc = "true", .pool = pool}));
    return dev;
}

/* GFLOP/s of one thread. */
#ifdef HAS_LOOPS
static double best_of_loop(void (*loop)(void), int32_t vector_bytes)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        const uint64_t start = md_clock_ns();
        loop();
        best = MD_MIN(best, md_clock_ns() - start);
    }
    return 2.0 * CHAINS * STEPS * (vector_bytes / 4) / (double)best;
}
#endif

/* A loop that the compiler keeps in memory is ten times slower, and rates stop at a lower limit. */
static void rates_are_those_of_each_width(void **state)
{
    (void)state;
#ifndef HAS_LOOPS
    printf("no assembly for this processor, or a build without optimisation: nothing is compared\n");
    skip();
#else
    static const struct {
        const char *level, *flag;
        int32_t vector_bytes;
        void (*loop)(void);
    } rows[] = {{"x86-64", "", 16, loop_16}, {"avx2", "-mfma", 32, loop_32}, {"avx512", "-mavx512f", 64, loop_64}};
    enum { TRIES = 20, PAUSE_NS = 20000000 };
    md_cpu cpu;
    md_pool *pool = NULL;
    md_cpu_detect(&cpu);
    assert_ok(md_pool_create(&pool, 1));
    for (int i = 0; i < 3; i++) {
        double measured = 0, loop = 0;
        if (!strstr(cpu.flags, rows[i].flag)) {
            printf("%s: this processor lacks it\n", rows[i].level);
            continue;
        }
        /* other load only slows, and passes */
        for (int j = 0; j < TRIES && !(measured > loop / 1.6 && measured < loop * 1.6); j++) {
            nanosleep(&(struct timespec){.tv_nsec = j * PAUSE_NS}, NULL);
            md_dev *dev = open_level(rows[i].level, pool);
            assert_int_equal(dev->facts.vector_bytes, rows[i].vector_bytes);
            measured = fmax(measured, dev->facts.gflops);
            loop = fmax(loop, best_of_loop(rows[i].loop, rows[i].vector_bytes));
            md_dev_close(&dev);
        }
        printf("%s: %.1f GFLOP/s a thread, the loop %.1f\n", rows[i].level, measured, loop);
        assert_true(measured > loop / 1.6 && measured < loop * 1.6);
        assert_true(measured > 1.2 * 2 * rows[i].vector_bytes / 4); /* not the lower limit */
    }
    md_pool_destroy(&pool);
#endif
}

static void rates_say_when_and_how_sure(void **state)
{
    (void)state;
    md_pool *pool = NULL;
    assert_ok(md_pool_create(&pool, 1));
    md_dev *dev = open_level("host", pool);
    md_dev_host_rates r;
    md_dev_host_get_rates(&r, dev);
    assert_true(r.at >= (int64_t)time(NULL) - 600 && r.at <= (int64_t)time(NULL));
    assert_true(r.spread >= 0 && isfinite(r.spread));
    md_dev_close(&dev);
    md_pool_destroy(&pool);
}

static md_dev_host_rates rates(double rate, double launch, double spread, int64_t at)
{
    return (md_dev_host_rates){.rate = {rate, rate, rate, rate, launch}, .spread = spread, .at = at};
}

static void load_and_age_make_them_unsure(void **state)
{
    (void)state;
    const int64_t now = (int64_t)time(NULL);
    const struct {
        md_dev_host_rates rates;
        bool is_sure;
    } rows[] = {{rates(1, 1, 0.02, now), true},
                {rates(1, 1, 0.3, now), false},
                {rates(1, 1, 0.02, now - 29 * DAY), true},
                {rates(1, 1, 0.02, now - 31 * DAY), false},
                {rates(1, 1, 0.02, 0), false},
                {rates(1, 1, 0.02, now + 10 * DAY), false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(md_dev_host_are_sure(&rows[i].rates), rows[i].is_sure);
    /* load only makes slower: the better of both; the smaller spread */
    md_dev_host_rates old = rates(40, 3, 0.5, now - 60), again = rates(90, 2, 0.3, now);
    md_dev_host_rates r = md_dev_host_join_rates(&old, &again);
    assert_true(r.rate[0] == 90 && r.rate[4] == 2 && r.spread == 0.3 && r.at == now);
    r = md_dev_host_join_rates(&again, &old);
    assert_true(r.rate[0] == 90 && r.rate[4] == 2);
    /* another machine: what was fast may be slow now, if the new rates are sure */
    old = rates(200, 1, 0.01, now - 100 * DAY);
    again = rates(90, 2, 0.01, now);
    assert_true(md_dev_host_join_rates(&old, &again).rate[0] == 90);
    again.spread = 0.1; /* the most that is sure */
    assert_true(md_dev_host_are_sure(&again) && md_dev_host_join_rates(&old, &again).rate[0] == 90);
    again.spread = 0.4;
    r = md_dev_host_join_rates(&old, &again);
    assert_true(r.rate[0] == 200 && !md_dev_host_are_sure(&r));
}

/* The library's times are there or not; what was found is kept when another measurement finds nothing. */
static void the_library_is_calibrated_where_tries_agree(void **state)
{
    (void)state;
    md_dev_facts f = {0};
    md_dev_host_measure_library(&f);
    for (int i = 0; i < MD_DEV_LIBRARY_SHAPES; i++) {
        assert_true((f.library_us[i] > 0) == (f.library_us[0] > 0) && f.library_us[i] < 1e7);
        const double flops = 2.0 * md_dev_library_rows(i) * MD_DEV_LIBRARY_COLUMNS * MD_DEV_LIBRARY_DEPTH;
        assert_true(f.library_us[i] == 0 || f.library_us[i] > flops * 1e-8); /* 100 TFLOP/s: no processor has them */
        if (i < MD_DEV_LIBRARY_FEW)
            assert_true(i % MD_DEV_LIBRARY_TILED == 0 || md_dev_library_rows(i) > md_dev_library_rows(i - 1));
        else
            assert_int_equal(md_dev_library_rows(i), 1 + i - MD_DEV_LIBRARY_FEW);
        assert_int_equal(md_dev_library_rows(i) % 16 == 0, i < MD_DEV_LIBRARY_TILED);
    }
    md_dev_host_rates old = rates(1, 1, 0.2, (int64_t)time(NULL)), again = old;
    old.library_us[0] = 7;
    assert_true(md_dev_host_join_rates(&old, &again).library_us[0] == 7);
    again.library_us[0] = 9;
    assert_true(md_dev_host_join_rates(&old, &again).library_us[0] == 9);
}

/* Found by threads, vectors and whether they are another processor's, if they are sure; eight are kept. */
static void measured_rates_are_found_again(void **state)
{
    (void)state;
    const md_dev_host_rates sure = rates(123, 50, 0.02, (int64_t)time(NULL)),
                            unsure = rates(77, 50, 0.4, (int64_t)time(NULL));
    md_dev_facts f = {.threads = 1001, .vector_bytes = 32};
    assert_true(md_dev_host_are_sure(&sure) && !md_dev_host_are_sure(&unsure));
    assert_null(md_dev_host_find_measured(&f, false));
    md_dev_host_note_measured(&unsure, &f, false);
    assert_null(md_dev_host_find_measured(&f, false));
    md_dev_host_note_measured(&sure, &f, false);
    const md_dev_host_rates *found = md_dev_host_find_measured(&f, false);
    assert_non_null(found);
    assert_true(found->rate[0] == 123);
    assert_null(md_dev_host_find_measured(&f, true));
    assert_null(md_dev_host_find_measured(&(md_dev_facts){.threads = 1001, .vector_bytes = 64}, false));
    assert_null(md_dev_host_find_measured(&(md_dev_facts){.threads = 1002, .vector_bytes = 32}, false));
    for (int32_t i = 0; i < 9; i++)
        md_dev_host_note_measured(&sure, &(md_dev_facts){.threads = 2000 + i, .vector_bytes = 16}, true);
    assert_non_null(md_dev_host_find_measured(&(md_dev_facts){.threads = 2000, .vector_bytes = 16}, true));
    assert_null(md_dev_host_find_measured(&(md_dev_facts){.threads = 2008, .vector_bytes = 16}, true));
}

int main(void)
{
    unsetenv("MD_RATES");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_each_width), cmocka_unit_test(rates_say_when_and_how_sure),
        cmocka_unit_test(load_and_age_make_them_unsure), cmocka_unit_test(the_library_is_calibrated_where_tries_agree),
        cmocka_unit_test(measured_rates_are_found_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
