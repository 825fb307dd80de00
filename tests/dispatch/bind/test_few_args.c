/* No argument past the given ones is read: behind them is a page that traps. */
#include "dispatch/call/call.h"
#include "dispatch/call/warm.h"
#include "support/check.h"

#include <sys/mman.h>
#include <unistd.h>

static char *end; /* of what may be read */

static int set_up(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = p + page;
    return p == MAP_FAILED || mprotect(end, page, PROT_NONE) != 0 || warm_set_up(state);
}

static int tear_down(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(end - page, 2 * page);
    return warm_tear_down(state);
}

static md_status call(md_ds_op *op, const md_arg *args, int32_t n)
{
    md_arg *at_end = (md_arg *)(void *)end - n;
    memcpy(at_end, args, (size_t)n * sizeof *args);
    return md_ds_call(op, NULL, at_end, n);
}

static void arguments_end_where_they_end(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    md_arg arg[5];
    for (int64_t n = 20; n < 22; n++)
        for (int round = 0; round < 4; round++) { /* of a new shape, and of one with a plan */
            warm_shape(&v, n, 1, 0);
            warm_order(op, &v, arg, 2.0);
            arg[3] = arg[4] = md_as(0, 64);
            for (int32_t k = 0; k < 3; k++)
                assert_fails(call(op, arg, k), MD_INVALID_ARGUMENT, " given, but the op takes 3");
            assert_ok(call(op, arg, 3));
            assert_ok(call(op, arg, 4));
            assert_fails(call(op, arg, 5), MD_INVALID_ARGUMENT, "is given twice");
        }
    assert_int_equal(op->count.misses, 4); /* two shapes, each also by another size */
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(arguments_end_where_they_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
