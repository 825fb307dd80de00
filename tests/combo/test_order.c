/* The order in which tuning a combo tries fields: a golden example, and each rule of the order by itself. */
#include "combo/axis.h"
#include "combo/tuning/order.h"
#include "family/family.h"
#include "support/check.h"

static const md_cb_kind tiles = {
    .n = 4, .field = {{"threads", MD_CB_THREADS}, {"rows", MD_CB_Y}, {"strided", MD_CB_PLAIN}, {"columns", MD_CB_X}}};

typedef struct listed {
    md_cb_dim dim[MD_CB_MAX_GROUPS * MD_CB_GROUP_FIELDS];
    int32_t n;
} listed;

/* The names of the first n dims, or of all (n = 0), with their limits where they have some. */
static void expect(const listed *l, int32_t n, const char *text)
{
    char got[1024] = "";
    size_t at = 0;
    for (int32_t i = 0; i < (n ? n : l->n); i++) {
        const md_cb_dim *d = &l->dim[i];
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%s", i ? " " : "", d->name);
        if (d->limit < INT64_MAX)
            at += (size_t)snprintf(got + at, sizeof got - at, "=%lld", (long long)d->limit);
    }
    assert_string_equal(got, text);
}

static void list(listed *l, const md_cb_kind *kind, int32_t n_kinds, const md_cb_member *member, int64_t n)
{
    memset(l, 0, sizeof *l);
    l->n = md_cb_order(l->dim, kind, n_kinds, member, n);
}

/* Sizes (64,64), (256,256), (128,16). */
static void list_golden(listed *l)
{
    const md_cb_kind kind[] = {tiles, tiles, tiles};
    const md_cb_member member[] = {{0, {64, 64, 1}}, {1, {256, 256, 1}}, {2, {128, 16, 1}}};
    list(l, kind, 3, member, 3);
}

static void test_golden(void **state)
{
    listed l;
    (void)state;
    list_golden(&l);
    expect(&l, 6, "X1=256 Y1=256 X0=64 Y0=64 X2=128 Y2=16");
    expect(&l, 0, "X1=256 Y1=256 X0=64 Y0=64 X2=128 Y2=16 strided1 strided0 strided2 threads1 threads0 threads2");
}

/* R stands behind Y, and a kernel that keeps its rows on the chip has none. Equal work: the order of the list. */
static void test_reductions(void **state)
{
    const md_cb_kind looped = {.n = 3, .field = {{"vecs", MD_CB_R}, {"lanes", MD_CB_THREADS}, {"rows", MD_CB_X}}};
    md_cb_kind kind[] = {looped, looped};
    const md_cb_member member[] = {{0, {100, 1, 1000}}, {1, {1000, 1, 100}}};
    listed l;
    (void)state;
    list(&l, kind, 2, member, 2);
    expect(&l, 0, "X0=128 R0=1024 X1=1024 R1=128 lanes0 lanes1");
    kind[0].is_persistent = true;
    list(&l, kind, 2, member, 2);
    expect(&l, 0, "X0=128 X1=1024 R1=128 lanes0 lanes1");
}

/* All members count, not only the first of a kind: the last one has the work and the limits. */
static void test_members(void **state)
{
    const md_cb_kind kind[] = {tiles, tiles};
    const md_cb_member member[] = {
        {0, {64, 64, 1}}, {1, {4, 4, 1}}, {1, {1000, 3, 1}}, {1, {2, 700, 1}}, {1, {1, 1, 1}}};
    listed l;
    (void)state;
    list(&l, kind, 2, member, 4);
    expect(&l, 4, "X0=64 Y0=64 X1=1024 Y1=1024");
    list(&l, kind, 2, member + 1, 3);
    expect(&l, 4, "X1=1024 Y1=1024 X0=1 Y0=1");
    list(&l, kind, 0, NULL, 0);
    assert_int_equal(l.n, 0);
}

static void test_order_text(void **state)
{
    listed l;
    (void)state;
    list_golden(&l);
    assert_ok(md_cb_order_by(l.dim, l.n, "threads0, Y2 X9 cap", "a test"));
    expect(&l, 4, "threads0 Y2=16 X1=256 Y1=256");
    assert_ok(md_cb_order_by(l.dim, l.n, "Y", "a test"));
    expect(&l, 5, "Y2=16 Y1=256 Y0=64 threads0 X1=256");
    assert_int_equal(l.n, 12);
    assert_ok(md_cb_order_by(l.dim, l.n, " ", "a test"));
    const char *const bad[] = {"0", "X1=3", "X1 ?", "Y-1", "X99999999999999999999", "X1Y1"};
    for (int i = 0; i < MD_COUNT(bad); i++) {
        assert_int_equal(md_cb_order_by(l.dim, l.n, bad[i], "a test"), MD_INVALID_ARGUMENT);
        assert_non_null(strstr(md_last_error(), "a test: "));
    }
}

static void test_limit_text(void **state)
{
    listed l;
    (void)state;
    list_golden(&l);
    assert_ok(md_cb_order_limit(l.dim, l.n, "X1=32, Y=128; threads2=64 X9=1 X0=100000", "a test"));
    expect(&l, 6, "X1=32 Y1=128 X0=64 Y0=64 X2=128 Y2=16");
    assert_int_equal(l.dim[11].limit, 64);
    const char *const bad[] = {"X1", "X1=", "X1=0", "X1=-4", "=4", "X1=4x", "X1=99999999999999999999", "X1 = 4"};
    for (int i = 0; i < MD_COUNT(bad); i++) {
        assert_int_equal(md_cb_order_limit(l.dim, l.n, bad[i], "a test"), MD_INVALID_ARGUMENT);
        assert_non_null(strstr(md_last_error(), "a test: "));
    }
}

/* A step doubles or halves where the family has such a value, else it goes to the next one. */
static void test_steps(void **state)
{
    static const int32_t value[] = {4, 2, 3, 6, 8, 1, 5}, flag[] = {1, 0};
    static const struct {
        int32_t from, up, down; /* -1: there is none */
    } expected[] = {{4, 8, 2}, {3, 6, 1}, {5, 6, 2}, {6, 8, 3}, {8, -1, 4}, {1, 2, -1}};
    int32_t to;
    (void)state;
    for (int i = 0; i < MD_COUNT(expected); i++) {
        assert_int_equal(md_cb_next_value(&to, value, 7, expected[i].from, true) ? to : -1, expected[i].up);
        assert_int_equal(md_cb_next_value(&to, value, 7, expected[i].from, false) ? to : -1, expected[i].down);
    }
    assert_true(md_cb_next_value(&to, flag, 2, 0, true) && to == 1);
    assert_true(md_cb_next_value(&to, flag, 2, 1, false) && to == 0);
    assert_false(md_cb_next_value(&to, flag, 2, 1, true) || md_cb_next_value(&to, flag, 2, 0, false));
}

/* What fields of the GPU's families are sizes of: the first row that fits counts, so each is checked in its family. A
 * new family with such fields has a line here. */
static void test_axes_of_fields(void **state)
{
    static const char letter[] = "XYR T"; /* a plain field has none */
    char got[1024] = "";
    (void)state;
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++) {
        size_t at = strlen(got);
        const size_t before = at;
        for (int32_t i = 0; i < (*f)->n_fields; i++)
            if (md_cb_axis_of(*f, i) != MD_CB_PLAIN)
                at += (size_t)snprintf(got + at, sizeof got - at, "%s %s %c", at == before ? (*f)->name : "",
                                       (*f)->field[i].name, letter[md_cb_axis_of(*f, i)]);
        if (at > before)
            snprintf(got + at, sizeof got - at, "\n");
    }
    assert_string_equal(got, "pointwise unroll X threads T\n"
                             "row_persistent lanes T rows X\n"
                             "row_looped lanes T vecs R rows X\n"
                             "row_split threads T\n"
                             "row_shared lanes T\n"
                             "row_cluster lanes T\n"
                             "row_thread threads T\n"
                             "row_tile lanes T threads T\n"
                             "column threads_x X threads_y R\n"
                             "gather lanes T rows Y items X\n"
                             "scatter lanes T rows Y items X\n"
                             "scan_persistent lanes T\n"
                             "scan_split threads T items R\n"
                             "gemv max_rows Y columns X slice_k R warps T\n"
                             "gemm_wgmma rows Y columns X\n"
                             "gemm_swapped rows Y columns X\n"
                             "gemm_wgmma8 rows Y columns X\n"
                             "gemm_rows rows Y columns X\n"
                             "gemm_mma rows Y columns X\n"
                             "gemm_window rows Y columns X\n"
                             "gemm_widened rows Y columns X\n"
                             "gemm_quantised rows Y columns X depth R\n"
                             "gemm_grouped rows Y columns X\n"
                             "gemm_fma rows Y columns X depth R\n"
                             "gemm_dot lanes T rows Y columns X\n"
                             "gemm_simt rows Y columns X depth R\n"
                             "chain_split warps T\n"
                             "chain_dot warps T\n"
                             "chain_mma warps T\n"
                             "pairs_mma warps T\n"
                             "cells lanes T threads T\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes_of_fields), cmocka_unit_test(test_golden),     cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_members),        cmocka_unit_test(test_order_text), cmocka_unit_test(test_limit_text),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
