/* Warm calls: what launch plans do with new pointers, scalars, views and mistakes, and which memory they use. */
#include "dispatch/call/warm.h"
#include "dispatch/cache/table.h"
#include "dispatch/call/call.h"
#include "support/check.h"

static void a_known_shape_has_a_plan(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v, w;
    for (int i = 0; i < 400; i++) {
        v.x[i] = (float)i;
        w.x[i] = (float)(3 * i);
    }
    warm_shape(&v, 30, 1, 0);
    warm_shape(&w, 30, 1, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(warm_call(op, &v, 1.0));
    assert_int_equal(warm_slow_calls(op), 2);
    for (int i = 0; i < 50; i++) { /* other pointers, other scalars */
        memset(w.y, 0, sizeof w.y);
        assert_ok(warm_call(op, i % 2 ? &v : &w, 0.1 * i));
        assert_true(warm_is_right(i % 2 ? &v : &w, 30, 1, 0, 0.1 * i));
    }
    assert_int_equal(warm_slow_calls(op), 2);
    warm_shape(&w, 30, 3, 0); /* other strides are another shape */
    assert_ok(warm_call(op, &w, 2.0));
    assert_true(warm_is_right(&w, 30, 3, 0, 2.0));
    warm_shape(&w, 30, 1, 1); /* and so is other alignment */
    assert_ok(warm_call(op, &w, 2.0));
    assert_true(warm_is_right(&w, 30, 1, 1, 2.0));
    assert_int_equal(warm_slow_calls(op), 4);
    assert_int_equal(warm_all_calls(op), 55);
    for (int i = 0; i < 2000; i++)
        assert_ok(warm_call(op, &v, 1.0));
    assert_int_equal(warm_all_calls(op), 2055);
    assert_int_equal(warm_slow_calls(op), 4);
    warm_sum s = {0};
    md_ds_table_each(op, warm_add_calls, &s);
    assert_true(s.n_timed >= 4 + 6 && s.n_timed <= 4 + 10); /* the long ones, and one of 256 */
    assert_true(s.ns > 0);
    md_ds_op_destroy(&op);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    md_arg arg[3];
    warm_shape(&v, 30, 1, 0);
    for (int i = 0; i < 5; i++)
        assert_ok(warm_call(op, &v, 1.0));
    v.tx.dtype = MD_I32;
    assert_fails(warm_call(op, &v, 1.0), MD_INVALID_ARGUMENT, "dtype");
    warm_shape(&v, 30, 1, 0);
    v.ty.data = NULL;
    assert_fails(warm_call(op, &v, 1.0), MD_INVALID_ARGUMENT, "NULL");
    warm_shape(&v, 30, 1, 0);
    v.ty.data = (char *)v.y + 2;
    assert_fails(warm_call(op, &v, 1.0), MD_INVALID_ARGUMENT, "aligned");
    warm_shape(&v, 30, 1, 0);
    v.tx.size[0] = 31;
    assert_fails(warm_call(op, &v, 1.0), MD_INVALID_ARGUMENT, "size");
    warm_shape(&v, 30, 1, 0);
    warm_order(op, &v, arg, 1.0);
    assert_fails(md_ds_call(op, NULL, arg, 2), MD_INVALID_ARGUMENT, "2 arguments");
    assert_fails(md_ds_call(op, NULL, NULL, 3), MD_INVALID_ARGUMENT, "NULL");
    for (int i = 0; i < 3; i++)
        if (arg[i].kind == MD_ARG_REAL)
            arg[i] = md_i(3); /* an integer stands for a real */
    assert_ok(md_ds_call(op, NULL, arg, 3));
    assert_true(warm_is_right(&v, 30, 1, 0, 3.0));
    md_ds_op_destroy(&op);
}

/* Plans are of an alignment class: all on 64 bytes, on 16, on less. */
static void other_alignment_is_another_plan(void **state)
{
    (void)state;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    static const int offset[] = {0, 16, 4, 8, 12, 1, 2, 0, 4, 1};
    static const uint64_t misses[] = {1, 1, 2, 2, 2, 3, 3, 3, 3, 3};
    for (int i = 0; i < 400; i++)
        v.x[i] = (float)i;
    for (int i = 0; i < 10; i++) {
        warm_shape(&v, 32, 1, offset[i]);
        for (int k = 0; k < 4; k++) {
            assert_ok(warm_call(op, &v, 3.0));
            assert_true(warm_is_right(&v, 32, 1, offset[i], 3.0));
        }
        assert_int_equal(op->count.misses, misses[i]);
    }
    md_ds_op_destroy(&op);
}

static void check_overlaps(bool with_memory)
{
    script_now.with_memory = with_memory; /* then the plan is not compact */
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    warm_shape(&v, 30, 1, 0);
    for (int i = 0; i < 5; i++)
        assert_ok(warm_call(op, &v, 1.0));
    uint64_t before = warm_slow_calls(op);
    v.ty.data = v.x; /* in place: every element is read where it is written */
    for (int i = 0; i < 30; i++)
        v.x[i] = (float)i;
    assert_ok(warm_call(op, &v, 2.0));
    assert_true(v.x[29] == 58.0f);
    assert_int_equal(warm_slow_calls(op), before);
    for (int i = 0; i < 2; i++) { /* the input begins before the output, and behind it */
        v.ty.data = v.x + 32 + (i ? -16 : 16);
        v.tx.data = v.x + 32;
        assert_fails(warm_call(op, &v, 2.0), MD_INVALID_ARGUMENT, "overlaps input 'X'");
    }
    before = warm_slow_calls(op);
    for (int i = 0; i < 2; i++) { /* they touch */
        v.ty.data = v.x + 32 + (i ? -32 : 32);
        assert_ok(warm_call(op, &v, 2.0));
    }
    assert_int_equal(warm_slow_calls(op), before);
    md_ds_op_destroy(&op);
}

static void overlaps_are_slow_calls(void **state)
{
    (void)state;
    check_overlaps(false);
    check_overlaps(true);
}

static void memory_of_calls(void **state)
{
    (void)state;
    script_now.with_memory = true;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v;
    warm_shape(&v, 30, 1, 0);
    for (int i = 0; i < 20; i++)
        assert_ok(warm_call(op, &v, 0.5));
    assert_true(warm_is_right(&v, 30, 1, 0, 0.5));
    assert_int_equal(warm_slow_calls(op), 2);
    md_ds_op_destroy(&op);
}

/* A new op may get the address of one that is gone: copies of its plans must not be taken for the new one's. */
static void plans_of_destroyed_ops(void **state)
{
    (void)state;
    _Alignas(64) static warm_vectors v;
    warm_shape(&v, 30, 1, 0);
    for (int i = 0; i < 30; i++) {
        md_ds_op *op = warm_op(100);
        for (int k = 0; k < 5; k++)
            assert_ok(warm_call(op, &v, 1.0 + i));
        assert_true(warm_is_right(&v, 30, 1, 0, 1.0 + i));
        assert_int_equal(warm_slow_calls(op), 2);
        md_ds_op_destroy(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_known_shape_has_a_plan, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(mistakes_are_named, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(other_alignment_is_another_plan, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(overlaps_are_slow_calls, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(memory_of_calls, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(plans_of_destroyed_ops, warm_set_up, warm_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
