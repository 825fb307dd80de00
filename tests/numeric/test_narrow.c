/* Narrow types on the host, bit for bit: functions of one byte, which long tensors look up and short ones compute, and
 * sums of integers down columns. MD_CPU names the width of vectors. */
#include "support/check.h"

#include <inttypes.h>
#include <stdbool.h>

enum { LONG = 40001, MOST = 1 << 20, GUARD = 0x5a };

static md_context *context;
static unsigned char from[MOST], got[MOST], want[MOST];

static int open_device(void **state)
{
    (void)state;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host"}));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static int64_t bytes_of(md_dtype dtype, int64_t n)
{
    return dtype == MD_I4 || dtype == MD_U4 ? (n + 1) / 2 : n * (int64_t)md_dtype_size(dtype);
}

/* ---- Functions of one byte */

static md_op *map_op(const char *formula, const char *variant)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.pin = variant, .hints = "40001"}));
    return op;
}

/* `n` elements from the byte `at` on. */
static void map(md_op *op, unsigned char *to, int64_t at, int64_t n)
{
    md_tensor y, x;
    assert_ok(md_op_tensor(&y, op, 0, "i=1"));
    assert_ok(md_op_tensor(&x, op, 1, "i=1"));
    y = md_tensor_make(to + at, y.dtype, 1, &n);
    x = md_tensor_make(from + at, x.dtype, 1, &n);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&y), md_t(&x)}, 2));
}

/* A long call, whose elements are looked up, beside short ones, which compute them. */
static void check_map(const char *formula, const char *variant, int64_t at)
{
    enum { SHORT = 254 };
    md_op *op = map_op(formula, variant);
    md_tensor t;
    assert_ok(md_op_tensor(&t, op, 0, "i=1"));
    const int64_t size = bytes_of(t.dtype, LONG), step = bytes_of(t.dtype, SHORT);
    memset(got, GUARD, sizeof got);
    memset(want, GUARD, sizeof want);
    map(op, got, at, LONG);
    for (int64_t i = 0; i < LONG; i += SHORT)
        map(op, want, at + i / SHORT * step, i + SHORT < LONG ? SHORT : LONG - i);
    for (int64_t i = 0; i < at + size + 64; i++)
        if (got[i] != want[i])
            fail_msg("%s by %s from %d: byte %d is 0x%02x, of short calls 0x%02x", formula, variant, (int)at, (int)i,
                     got[i], want[i]);
    assert_true(memcmp(want + at, from + at, (size_t)size) != 0);
    md_op_destroy(&op);
}

static void long_tensors_are_looked_up(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y:i4[i] = X:i4[i] * 0.37",          "Y:u4[i] = u4(round(tanh(X:i4[i] / 3) * 9 + 4))",
        "Y:i8[i] = X:i8[i] * 0.37",          "Y:u8[i] = round(sqrt(f32(X:u8[i])) * 15)",
        "Y:f8e4m3[i] = X:f8e4m3[i] * 0.37",  "Y:f8e4m3[i] = where(X:f8e5m2[i] > 0.5, X[i] * X[i], X[i] / 3)",
        "Y:f8e5m2[i] = X:f8e4m3[i] * 2",     "Y:bool[i] = X:f8e4m3[i] * 3 > 1.5",
        "Y:f8e5m2[i] = X:bool[i] * 0.3 + 1",
    };
    static const char *const variants[] = {"pointwise/flat0_strided0_nontemporal0_transpose0",
                                           "pointwise/flat0_strided0_nontemporal1_transpose0"};
    for (int64_t i = 0; i < MOST; i++)
        from[i] = (unsigned char)(i * 37 + i / 256 * 5);
    for (int f = 0; f < (int)(sizeof formulas / sizeof *formulas); f++)
        for (int v = 0; v < 2; v++)
            for (int64_t at = 0; at < 4; at += 3)
                check_map(formulas[f], variants[v], at);
}

static void scalars_are_in_the_table(void **state)
{
    (void)state;
    md_op *op = NULL;
    const int64_t size[] = {100, 300};
    assert_ok(
        md_op_create(&op, context, "scalar a; Y:i8[i,j] = X:i8[i,j] * a",
                     &(md_op_options){.pin = "pointwise/flat1_strided0_nontemporal0_transpose0", .hints = "100"}));
    for (int k = 1; k < 4; k++) {
        md_tensor y = md_tensor_make(got, MD_I8, 2, size), x = md_tensor_make(from, MD_I8, 2, size);
        memcpy(got, from, sizeof got);
        x.data = k == 2 ? got : from; /* in place */
        assert_ok(md_call(op, NULL, (md_arg[]){md_s(k * 0.25), md_t(&y), md_t(&x)}, 3));
        for (int i = 0; i < 30000; i++)
            assert_int_equal((int8_t)got[i], (int)((int8_t)from[i] * (float)k * 0.25f));
        assert_int_equal(got[30000], from[30000]);
    }
    md_op_destroy(&op);
}

/* ---- Sums down columns */

typedef struct integer {
    const char *name;
    md_dtype dtype;
    int64_t low, high;
} integer;

static const integer integers[] = {{"bool", MD_BOOL, 0, 1},       {"i4", MD_I4, -8, 7},
                                   {"u4", MD_U4, 0, 15},          {"i8", MD_I8, INT8_MIN, INT8_MAX},
                                   {"u8", MD_U8, 0, 255},         {"i16", MD_I16, INT16_MIN, INT16_MAX},
                                   {"u16", MD_U16, 0, UINT16_MAX}};

/* Mostly the ends of the range, so that sums leave 16 bits at once and 24 bits soon. */
static int64_t value_of(const integer *k, int64_t i, int64_t j)
{
    const int64_t h = (i * 31 + j * 17) % 11;
    return j % 3 == 0 ? k->low : j % 3 == 1 ? k->high : h < 4 ? k->low : h < 8 ? k->high : h % 2;
}

static void put(const integer *k, int64_t at, int64_t value)
{
    if (k->dtype == MD_I4 || k->dtype == MD_U4)
        from[at / 2] = (unsigned char)((from[at / 2] & (at % 2 ? 0x0f : 0xf0)) | (value & 15) << at % 2 * 4);
    else
        memcpy(from + at * (int64_t)md_dtype_size(k->dtype), &value, md_dtype_size(k->dtype)); /* little endian */
}

static void check_columns(const integer *k, const char *variant, int64_t rows, int64_t columns)
{
    char formula[96];
    md_op *op = NULL;
    static int64_t sum[8192];
    const int64_t size[] = {rows, columns};
    md_tensor y = md_tensor_make(sum, MD_I64, 1, &columns), x = md_tensor_make(from, k->dtype, 2, size);
    snprintf(formula, sizeof formula,
             k->dtype == MD_BOOL ? "Y[j] = sum[i](i64(X:%s[i,j]))" : "Y[j] = sum[i](X:%s[i,j])", k->name);
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.pin = variant, .hints = "100"}));
    for (int64_t i = 0; i < rows * columns; i++)
        put(k, i, value_of(k, i / columns, i % columns));
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&y), md_t(&x)}, 2));
    for (int64_t j = 0; j < columns; j++) {
        int64_t right = 0;
        for (int64_t i = 0; i < rows; i++)
            right += value_of(k, i, j);
        if (sum[j] != right)
            fail_msg("%s by %s, %d x %d: column %d is %" PRId64 ", expected %" PRId64, formula, variant, (int)rows,
                     (int)columns, (int)j, sum[j], right);
    }
    md_op_destroy(&op);
}

static void columns_of_integers_are_exact(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {7, 5}, {8, 64}, {19, 131}, {600, 777}, {33, 4200}, {40000, 3}};
    static const char *const variants[] = {"column/tile64_strided0_nontemporal0", "column/tile16_strided0_nontemporal0",
                                           "column/tile1_strided0_nontemporal0"};
    for (int k = 0; k < (int)(sizeof integers / sizeof *integers); k++)
        for (int v = 0; v < 3; v++)
            for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
                check_columns(&integers[k], variants[v], sizes[s][0], sizes[s][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_tensors_are_looked_up),
        cmocka_unit_test(scalars_are_in_the_table),
        cmocka_unit_test(columns_of_integers_are_exact),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
