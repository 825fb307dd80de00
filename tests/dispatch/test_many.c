/* A million shapes through one op: memory stays what it was, and so does what a call takes. */
#include "base/clock.h"
#include "base/status.h"
#include "dispatch/script.h"
#include "support/check.h"

#include <malloc.h>

enum { SHAPES = 1000000, PART = 100000, REMEMBERED = 2000 };

static void a_million_shapes(void **state)
{
    (void)state;
    static script_world world;
    uint64_t ns[SHAPES / PART] = {0}, least = UINT64_MAX;
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
        md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n), tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
        tx.stride[0] = 1 + k / 1000;
        const md_arg arg[] = {md_s(1.0), md_t(&ty), md_t(&tx)};
        uint64_t start = md_clock_ns();
        for (int i = 0; i < 2; i++) /* the second one makes a plan */
            assert_ok(md_ds_call(op, NULL, arg, 3));
        ns[k / PART] += md_clock_ns() - start;
        if (k + 1 == PART)
            after_first = mallinfo2().uordblks;
    }
    for (int i = 0; i < SHAPES / PART; i++)
        least = ns[i] < least ? ns[i] : least;
    printf("%.2f us for two calls of a new shape at first, %.2f at last\n", (double)ns[0] / PART / 1e3, (double)ns[SHAPES / PART - 1] / PART / 1e3);
    assert_true(op->n_records <= REMEMBERED);
    assert_true(op->count.evictions >= SHAPES - 2 * REMEMBERED);
    assert_true(mallinfo2().uordblks <= after_first + (1 << 20));
    assert_true(ns[SHAPES / PART - 1] < 4 * least || ns[0] > ns[SHAPES / PART - 1]); /* other work on the machine aside */
    md_ds_op_destroy(&op);
    script_world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_million_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
