/* The memory that background benchmarks run on: where tensors lie, what is in them, and what is not timed there. */
#include "dispatch/bind/bind.h"
#include "dispatch/call/later.h"
#include "dispatch/hybrid/internal.h"
#include "support/check.h"

/* The shape of a call with n elements. */
static md_kn_shape shape_of(md_ds_op *op, int64_t n)
{
    later_vectors v;
    md_ds_bound bound;
    later_make(&v, n);
    assert_ok(md_ds_bind(&bound, op, v.arg, 2));
    return bound.shape;
}

static bool is_inside(const char *p, const char *from, int64_t n)
{
    return p >= from && p < from + n;
}

static void sets_are_apart_and_in_turn(void **state)
{
    (void)state;
    enum { N = 100, WORK = 1000 };
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    const md_kn_shape shape = shape_of(op, N);
    md_ds_idle_memory m;
    const char *first[2] = {NULL};
    assert_ok(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){.workspace_bytes = WORK}));
    assert_true(m.n_sets >= 1);
    assert_true(m.set_bytes >= 2 * N * 4);
    assert_ok(md_ds_idle_memory_get(&m));
    const char *memory = m.memory;
    for (int32_t i = 0; i < m.n_sets + 1; i++) {
        const md_kn_call *call = md_ds_idle_memory_next(&m);
        const char *set = memory + (i % m.n_sets) * m.set_bytes, *x = call->data[0], *y = call->data[1];
        assert_true(is_inside(x, set, m.set_bytes) && is_inside(x + 4 * N - 1, set, m.set_bytes));
        assert_true(is_inside(y, set, m.set_bytes) && is_inside(y + 4 * N - 1, set, m.set_bytes));
        assert_true(x + 4 * N <= y || y + 4 * N <= x);
        assert_ptr_equal(call->workspace, memory + m.n_sets * m.set_bytes);
        if (i == 0) {
            first[0] = x;
            first[1] = y;
        }
    }
    assert_ptr_equal(m.call.data[0], first[0]); /* after the last the first again */
    assert_ptr_equal(m.call.data[1], first[1]);
    assert_ok(md_ds_idle_memory_get(&m)); /* it has not moved */
    assert_ptr_equal(m.memory, memory);
    later_finish(&op);
}

/* Values between -1 and 1, in every set. */
static void inputs_are_made_up(void **state)
{
    (void)state;
    enum { N = 280 };
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    const md_kn_shape shape = shape_of(op, N);
    md_ds_idle_memory m;
    assert_ok(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}));
    assert_ok(md_ds_idle_memory_get(&m));
    assert_ok(later_device.base.ops->sync(&later_device.base, later_device.base.tuning));
    for (int32_t i = 0; i < m.n_sets; i++) {
        float x[N];
        int32_t n_zero = 0;
        const md_kn_call *call = md_ds_idle_memory_next(&m);
        for (int32_t t = 0; t < 2; t++) {
            assert_ok(later_device.base.ops->copy(&later_device.base, x, call->data[t], sizeof x));
            for (int32_t k = 0; k < N; k++) {
                assert_true(x[k] >= -1.0f && x[k] < 1.001f);
                n_zero += x[k] == 0.0f;
            }
        }
        assert_true(n_zero < 4);
    }
    later_finish(&op);
}

/* Made-up tensors have the alignment of the shape. */
static void alignment_is_the_shapes(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        uint32_t aligned, aligned16;
        int64_t offset;
    } row[] = {{96, 3, 3, 0}, {96, 0, 3, 16}, {96, 0, 0, 4}, {98, 3, 0, 0}, {98, 0, 0, 4}};
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_kn_shape shape = shape_of(op, row[i].n);
        md_ds_idle_memory m;
        shape.aligned = row[i].aligned;
        shape.aligned16 = row[i].aligned16;
        assert_ok(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}));
        for (int32_t t = 0; t < 2; t++)
            assert_int_equal(m.at[t] % 64, row[i].offset);
        assert_int_equal(m.set_bytes % 64, 0);
    }
    later_finish(&op);
}

static void what_is_not_timed(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&later_world, "Y[n] = X[n]", NULL);
    md_kn_shape shape = shape_of(op, 100);
    md_ds_idle_memory m;
    shape.stride[0][0] = shape.stride[1][0] = 0; /* one element, often */
    assert_ok(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}));
    shape.stride[0][0] = -1;
    assert_fails(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}), MD_UNSUPPORTED, "wrong ones");
    shape.stride[0][0] = 1;
    shape.extent[0][0] = (int64_t)(MD_DS_IDLE_BENCH_BYTES / 4) + 1;
    assert_fails(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}), MD_UNSUPPORTED, "too large");
    shape.extent[0][0] = 100;
    later_device.base.facts.global_bytes = 1 << 30;
    assert_fails(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){.workspace_bytes = 1 << 30}),
                 MD_OUT_OF_MEMORY, "too little memory");
    later_finish(&op);
    op = script_op(&later_world, "Y:i32[n] = X:i32[n]", NULL);
    shape = (md_kn_shape){.size = {100}, .extent = {{100}, {100}}, .stride = {{1}, {1}}};
    assert_fails(md_ds_idle_memory_plan(&m, op, 0, &shape, &(md_kn_geometries){0}), MD_UNSUPPORTED, "wrong ones");
    later_finish(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sets_are_apart_and_in_turn, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(inputs_are_made_up, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(alignment_is_the_shapes, later_set_up, later_tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_timed, later_set_up, later_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
