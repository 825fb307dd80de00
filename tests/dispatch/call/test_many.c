/* A million shapes through one op: memory stays what it was, and so does what a call takes. And shapes that were
 * never seen: nothing is made or measured for them. */
#include "base/status.h"
#include "dispatch/support/script.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { SHAPES = 1000000, PART = 100000, CHUNK = 2000, REMEMBERED = 2000, OPS = 40 };

/* Of this thread: other work on the machine does not count. */
static double cpu_us(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double resident_mb(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %ld", &pages), 1);
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void a_million_shapes(void **state)
{
    (void)state;
    static script_world world;
    double us[SHAPES / PART], in_chunk = 0.0, mb_after_first = 0.0; /* us: of each part's fastest chunk */
    for (int i = 0; i < SHAPES / PART; i++)
        us[i] = INFINITY;
    size_t after_first = 0;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 2.0);
    script_world_open(&world);
    md_ds_op_options o = script_options();
    o.max_shapes = REMEMBERED;
    md_ds_op *op = script_op(&world, "scalar a; Y[n] = X[n] * a", &o);
    for (int k = 0; k < SHAPES; k++) { /* nothing runs, so nothing needs to be there */
        const int64_t n = 2 + k % 1000;
        md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n),
                  tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
        tx.stride[0] = 1 + k / 1000;
        const md_arg arg[] = {md_s(1.0), md_t(&ty), md_t(&tx)};
        const double start = cpu_us();
        for (int i = 0; i < 2; i++) /* the second one makes a plan */
            assert_ok(md_ds_call(op, NULL, arg, 3));
        in_chunk += cpu_us() - start;
        if ((k + 1) % CHUNK == 0) { /* other work on the machine slows some */
            us[k / PART] = fmin(us[k / PART], in_chunk);
            in_chunk = 0.0;
        }
        if (k + 1 == PART) {
            after_first = mallinfo2().uordblks;
            mb_after_first = resident_mb();
        }
    }
    const double first = us[0], last = us[SHAPES / PART - 1];
    printf("two calls of a new shape: %.2f us among the first %d, %.2f among the last; %.1f and %.1f MB resident\n",
           first / CHUNK, PART, last / CHUNK, mb_after_first, resident_mb());
    assert_true(op->n_entries <= REMEMBERED);
    assert_true(op->count.evictions >= SHAPES - 2 * REMEMBERED);
    assert_true(mallinfo2().uordblks <= after_first + (1 << 20));
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed for a while */
    assert_true(resident_mb() <= mb_after_first + 8.0);
#endif
    assert_true(last < 1.5 * first);
    md_ds_op_destroy(&op);
    script_world_close(&world);
}

/* With 40 ops alive, by counters: the device compiles nothing, nothing is timed, no variant joins a pool, no call
 * waits for a build. */
static void unseen_shapes_make_and_measure_nothing(void **state)
{
    (void)state;
    static script_world world;
    md_ds_op *op[OPS];
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 2.0);
    script_world_open(&world);
    for (int i = 0; i < OPS; i++) {
        char formula[64];
        snprintf(formula, sizeof formula, "scalar a; Y[n] = X[n] * a + %d", i);
        op[i] = script_op(&world, formula, NULL);
    }
    const int32_t n_compiled = world.device.n_compiled;
    const uint64_t n_emitted = md_bd_count(world.builder)->emitted;
    const int32_t n_variants = op[0]->stage[0].n_variants;
    for (int k = 0; k < 100 * OPS; k++) {
        const int64_t n = 2 + k;
        md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n),
                  tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
        const md_arg arg[] = {md_s(1.0), md_t(&ty), md_t(&tx)};
        assert_ok(md_ds_call(op[k % OPS], NULL, arg, 3));
    }
    assert_int_equal(world.device.n_compiled, n_compiled);
    assert_int_equal(md_bd_count(world.builder)->emitted, n_emitted);
    for (int i = 0; i < OPS; i++) {
        const md_ds_counters *c = &op[i]->count;
        assert_int_equal(c->misses, 100);
        assert_int_equal(c->measured + c->adopted + c->waits + c->by_reference + c->nearest, 0);
        assert_int_equal(op[i]->stage[0].n_variants, n_variants);
        md_ds_op_destroy(&op[i]);
    }
    script_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_shapes),
                                       cmocka_unit_test(unseen_shapes_make_and_measure_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
