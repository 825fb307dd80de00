/* Which arguments may share memory: views that interleave, touch or overlap; outputs that overlap themselves. */
#include "dispatch/bind/bind.h"
#include "dispatch/support/script.h"
#include "support/check.h"

static script_world world;

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static _Alignas(64) float memory[4096];

/* A view: rows x columns at an offset, with strides. */
typedef struct view {
    int64_t at, rows, columns, row_stride, column_stride;
} view;

static md_tensor tensor_of(view v)
{
    const int64_t size[] = {v.rows, v.columns};
    md_tensor t = md_tensor_make(memory + v.at, MD_F32, 2, size);
    t.stride[0] = v.row_stride;
    t.stride[1] = v.column_stride;
    return t;
}

/* True if two elements share memory, by going through all of them. */
static bool share(view a, view b)
{
    static bool is_a[4096];
    bool found = false;
    memset(is_a, 0, sizeof is_a);
    for (int64_t i = 0; i < a.rows; i++)
        for (int64_t j = 0; j < a.columns; j++)
            is_a[a.at + i * a.row_stride + j * a.column_stride] = true;
    for (int64_t i = 0; i < b.rows; i++)
        for (int64_t j = 0; j < b.columns; j++)
            found |= is_a[b.at + i * b.row_stride + j * b.column_stride];
    return found;
}

static bool repeats(view v)
{
    static int32_t n[4096];
    bool found = false;
    memset(n, 0, sizeof n);
    for (int64_t i = 0; i < v.rows; i++)
        for (int64_t j = 0; j < v.columns; j++)
            found |= n[v.at + i * v.row_stride + j * v.column_stride]++ > 0;
    return found;
}

static md_status bind(md_ds_bound *out, md_ds_op *op, view y, view x)
{
    md_tensor ty = tensor_of(y), tx = tensor_of(x);
    return md_ds_bind(out, op, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
}

static void inputs_apart_from_the_output(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&world, "Y[i,j] = X[i,j]", NULL);
    static const struct {
        view y, x;
    } row[] = {
        {{0, 4, 8, 8, 1}, {32, 4, 8, 8, 1}}, /* one behind the other */
        {{32, 4, 8, 8, 1}, {0, 4, 8, 8, 1}},
        {{0, 4, 8, 8, 1}, {31, 4, 8, 8, 1}}, /* by one element */
        {{31, 4, 8, 8, 1}, {0, 4, 8, 8, 1}},
        {{0, 4, 8, 16, 1}, {8, 4, 8, 16, 1}}, /* left and right half of a matrix */
        {{8, 4, 8, 16, 1}, {0, 4, 8, 16, 1}},
        {{0, 4, 8, 16, 1}, {7, 4, 8, 16, 1}}, /* by a column */
        {{7, 4, 8, 16, 1}, {0, 4, 8, 16, 1}},
        {{0, 4, 8, 16, 1}, {9, 4, 8, 16, 1}}, /* the end of a row reaches into the next */
        {{9, 4, 8, 16, 1}, {0, 4, 8, 16, 1}},
        {{0, 4, 8, 17, 1}, {9, 4, 8, 17, 1}},
        {{0, 4, 8, 17, 1}, {8, 4, 8, 17, 1}},
        {{0, 4, 8, 16, 2}, {1, 4, 8, 16, 2}}, /* every other element: too fine for the rule if rows are wider */
        {{0, 4, 8, 16, 1}, {8, 4, 8, 15, 1}}, /* other strides */
        {{0, 4, 8, 16, 1}, {40, 4, 8, 16, 1}}, /* halves, two rows below */
        {{40, 4, 8, 16, 1}, {0, 4, 8, 16, 1}},
        {{39, 4, 8, 16, 1}, {0, 4, 8, 16, 1}},
        {{0, 1, 8, 8, 1}, {7, 1, 8, 8, 1}},
        {{0, 1, 8, 8, 1}, {8, 1, 8, 8, 1}},
        {{0, 8, 1, 1, 1}, {8, 8, 1, 1, 1}},
    };
    int32_t n_refused = 0;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_bound bound;
        const md_status s = bind(&bound, op, row[i].y, row[i].x);
        if (share(row[i].y, row[i].x)) {
            if (s != MD_INVALID_ARGUMENT || !strstr(md_last_error(), "overlaps input 'X'"))
                fail_msg("row %zu is not refused", i);
            n_refused++;
        } else if (s != MD_OK && row[i].y.column_stride == 1 && row[i].x.row_stride == row[i].y.row_stride) {
            fail_msg("row %zu: %s", i, md_last_error()); /* other strides may be refused, though they are apart */
        }
    }
    assert_int_equal(n_refused, 9);
    md_ds_op_destroy(&op);
}

/* In place is allowed, and copied where kernels read elsewhere than they write. */
static void exactly_the_output(void **state)
{
    (void)state;
    static const view all = {0, 6, 6, 8, 1};
    md_ds_bound bound;
    md_ds_op *same = script_op(&world, "Y[i,j] = X[i,j]", NULL), *turned = script_op(&world, "Y[i,j] = X[j,i]", NULL);
    assert_ok(bind(&bound, same, all, all));
    assert_int_equal(bound.copies.n, 0);
    assert_ok(bind(&bound, turned, all, all));
    assert_int_equal(bound.copies.n, 1);
    assert_true(bound.copies.n_bytes >= 36 * sizeof(float));
    assert_ptr_equal(bound.copies.from[0].data, memory);
    assert_int_equal(bound.copies.from[0].stride[0], 8);
    md_ds_op_destroy(&same);
    md_ds_op_destroy(&turned);
}

static void elements_of_an_output_are_apart(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&world, "Y[i,j] = X[i,j]", NULL);
    static const view x = {2048, 4, 8, 8, 1};
    static const view y[] = {
        {0, 4, 8, 8, 1}, {0, 4, 8, 7, 1}, {0, 4, 8, 9, 1}, {0, 4, 8, 1, 4}, {0, 4, 8, 1, 3},
        {0, 4, 8, 1, 5}, {0, 4, 8, 2, 8}, {0, 4, 8, 2, 7}, {0, 4, 8, 1, 1}, {0, 4, 8, 64, 8},
    };
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        md_ds_bound bound;
        const md_status s = bind(&bound, op, y[i], x);
        if (repeats(y[i]) ? s != MD_INVALID_ARGUMENT || !strstr(md_last_error(), "overlap each other") : s != MD_OK)
            fail_msg("row %zu: %s", i, s == MD_OK ? "is not refused" : md_last_error());
    }
    md_ds_op_destroy(&op);
}

enum { RANK = 4, MOST = 4 };

/* Part `k` of `n` along an axis of a row-major tensor, with the axes in another order. */
static md_tensor part_of(const int64_t whole[RANK], int32_t axis, int64_t k, int64_t n, int32_t turn)
{
    int64_t stride[RANK], step = 1, size[RANK];
    for (int32_t a = RANK - 1; a >= 0; a--) {
        stride[a] = step;
        step *= whole[a];
    }
    for (int32_t a = 0; a < RANK; a++)
        size[a] = whole[(a + turn) % RANK] / ((a + turn) % RANK == axis ? n : 1);
    md_tensor t = md_tensor_make(memory + k * (whole[axis] / n) * stride[axis], MD_F32, RANK, size);
    for (int32_t a = 0; a < RANK; a++)
        t.stride[a] = stride[(a + turn) % RANK];
    return t;
}

/* Gradients of what was stacked are written into the stack, wherever its axis is. */
static void parts_of_a_stack_are_apart(void **state)
{
    uint64_t seed = check_seed();
    int32_t n_apart = 0;
    (void)state;
    for (int32_t i = 0; i < 3000; i++) {
        int64_t whole[RANK];
        for (int32_t a = 0; a < RANK; a++)
            whole[a] = 1 + (int64_t)(check_random(&seed) % MOST);
        const int32_t axis = (int32_t)(check_random(&seed) % RANK), turn = (int32_t)(check_random(&seed) % RANK);
        whole[axis] *= 3;
        const int64_t p = (int64_t)(check_random(&seed) % 3), q = (int64_t)(check_random(&seed) % 3);
        const md_tensor a = part_of(whole, axis, p, 3, turn), b = part_of(whole, axis, q, 3, turn);
        assert_int_equal(md_ds_may_overlap(&a, &b), p == q);
        n_apart += p != q;
    }
    assert_true(n_apart > 1000);
}

/* Views of any strides: what shares an element is never said to be apart. */
static void what_shares_is_never_apart(void **state)
{
    uint64_t seed = check_seed();
    int32_t n_shared = 0, n_told = 0, n_apart = 0;
    (void)state;
    for (int32_t i = 0; i < 20000; i++) {
        view v[2];
        for (int32_t k = 0; k < 2; k++)
            v[k] = (view){(int64_t)(check_random(&seed) % 40), 1 + (int64_t)(check_random(&seed) % 4),
                          1 + (int64_t)(check_random(&seed) % 4), (int64_t)(check_random(&seed) % 14),
                          (int64_t)(check_random(&seed) % 6)};
        if (i % 2) {
            v[1].row_stride = v[0].row_stride;
            v[1].column_stride = v[0].column_stride;
        }
        const md_tensor a = tensor_of(v[0]), b = tensor_of(v[1]);
        const bool is_shared = share(v[0], v[1]), is_told = md_ds_may_overlap(&a, &b);
        assert_true(is_told || !is_shared);
        n_shared += is_shared;
        n_told += is_told;
        n_apart += !is_told;
    }
    assert_true(n_shared > 1000 && n_apart > 1000);
    printf("%d share elements, %d may\n", n_shared, n_told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inputs_apart_from_the_output, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exactly_the_output, set_up, tear_down),
        cmocka_unit_test_setup_teardown(elements_of_an_output_are_apart, set_up, tear_down),
        cmocka_unit_test(parts_of_a_stack_are_apart),
        cmocka_unit_test(what_shares_is_never_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
