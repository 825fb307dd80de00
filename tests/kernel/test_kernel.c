/* Packing parameters, and envelopes. */
#include "support/check.h"

#include "kernel/kernel.h"

static void test_pack(void **state)
{
    (void)state;
    md_kn_shape shape = {.size = {[5] = 77}, .stride = {[2] = {10, 1}}, .extent = {[2] = {4, 10}}};
    float data = 0;
    char space[64];
    md_kn_report report = {0};
    md_kn_call call = {.shape = &shape,
                       .data = {[2] = &data},
                       .scalar = {[1] = {.d = 0.5}, [2] = {.i = -3}},
                       .workspace = space,
                       .report = &report,
                       .blocks = 9};
    const md_kn_param list[] = {{MD_KN_POINTER, 2, 0, 0},    {MD_KN_STRIDE, 2, 0, 0}, {MD_KN_EXTENT, 2, 1, 0},
                                {MD_KN_SIZE, 5, 0, 0},       {MD_KN_SCALAR, 1, 0, 1}, {MD_KN_SCALAR, 2, 0, 0},
                                {MD_KN_WORKSPACE, 0, 16, 0}, {MD_KN_REPORT, 0, 0, 0}, {MD_KN_BLOCKS, 0, 0, 0},
                                {MD_KN_STAGE, 0, 0, 0}};
    md_kn_word word[10];
    md_kn_pack(word, list, 10, &call);
    assert_ptr_equal(word[0].p, &data);
    assert_int_equal(word[1].i, 10);
    assert_int_equal(word[2].i, 10);
    assert_int_equal(word[3].i, 77);
    assert_true(word[4].d == 0.5);
    assert_int_equal(word[5].i, -3);
    assert_ptr_equal(word[6].p, space + 16);
    assert_ptr_equal(word[7].p, &report);
    assert_int_equal(word[8].i, 9);
    assert_ptr_equal(word[9].p, &call);
    call.workspace = NULL;
    md_kn_pack(word, list + 6, 1, &call);
    assert_null(word[0].p);
}

static void test_envelope(void **state)
{
    (void)state;
    md_kn_shape shape = {.size = {8, 100, 30}, .unit = 3, .contiguous = 1, .aligned = 2};
    assert_null(md_kn_envelope_miss(&(md_kn_envelope){0}, &shape));
    assert_null(md_kn_envelope_miss(
        &(md_kn_envelope){.unit = 3, .contiguous = 1, .aligned = 2, .lo = {8}, .hi = {8, 100}}, &shape));
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.unit = 4}, &shape), "last axis is not contiguous");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.contiguous = 2}, &shape), "strided tensor");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.aligned = 1}, &shape), "unaligned tensor");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.hi = {0, 99}}, &shape), "dim larger than compiled");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.lo = {0, 101}}, &shape), "dim smaller than compiled");
    md_kn_envelope rows = {.row_points_max = 3000, .n_row_dims = 2, .row_dim = {1, 2}};
    assert_null(md_kn_envelope_miss(&rows, &shape));
    rows.row_points_max = 2999;
    assert_string_equal(md_kn_envelope_miss(&rows, &shape), "longer than it was compiled for");
    /* Products beyond 64 bits are long, empty rows are not. */
    shape.size[1] = shape.size[2] = INT64_C(1) << 40;
    assert_non_null(md_kn_envelope_miss(&rows, &shape));
    shape.size[1] = 0;
    assert_null(md_kn_envelope_miss(&rows, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pack), cmocka_unit_test(test_envelope)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
