/* Element types: names, sizes, conversions and rounding. */
#include "support/check.h"
#include "support/valgrind.h"

#include "base/dtype.h"
#include "base/status.h"

#include <math.h>

/* The value of a 16-bit pattern from its fields, by the definition of the format. */
static double value_of(uint16_t h, int exponent_bits)
{
    int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = h >> mantissa_bits & ((1 << exponent_bits) - 1), mantissa = h & ((1 << mantissa_bits) - 1);
    double sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

typedef struct half_format {
    md_dtype dtype;
    int exponent_bits;
    float (*widen)(uint16_t h);
    uint16_t (*narrow)(float f);
    uint16_t infinity;
} half_format;

static const half_format formats[] = {
    {MD_F16, 5, md_f16_to_f32, md_f32_to_f16, 0x7c00},
    {MD_BF16, 8, md_bf16_to_f32, md_f32_to_bf16, 0x7f80},
};

static void every_half_widens_exactly_and_returns(void **state)
{
    (void)state;
    for (int f = 0; f < MD_COUNT(formats); f++) {
        for (uint32_t u = 0; u < 0x10000; u++) {
            uint16_t h = (uint16_t)u;
            float wide = formats[f].widen(h);
            double expected = value_of(h, formats[f].exponent_bits);
            if (isnan(expected)) {
                assert_true(isnan(wide));
                uint16_t back = formats[f].narrow(wide);
                assert_true(isnan(formats[f].widen(back)));
                assert_int_equal(back & 0x8000, h & 0x8000);
            } else {
                assert_true((double)wide == expected && !!signbit(wide) == !!(h & 0x8000));
                assert_int_equal(formats[f].narrow(wide), h);
                assert_true(md_dtype_load(formats[f].dtype, &h, 0) == expected);
            }
        }
    }
}

static uint16_t store(md_dtype t, double value)
{
    uint16_t h = 0xdead;
    md_dtype_store(t, &h, 0, value);
    return h;
}

/* Between every two neighbours: at the middle the even one, beside it the nearer, one rounding even from a double. */
static void every_midpoint_rounds_to_even(void **state)
{
    (void)state;
    for (int f = 0; f < MD_COUNT(formats); f++) {
        const half_format *format = &formats[f];
        for (uint16_t h = 0; h < format->infinity; h++) {
            uint16_t next = (uint16_t)(h + 1);
            double low = value_of(h, format->exponent_bits);
            /* What would come after the largest number decides when to overflow. */
            double high = next == format->infinity ? ldexp(1, format->dtype == MD_F16 ? 16 : 128)
                                                   : value_of(next, format->exponent_bits);
            double middle = (low + high) / 2;
            uint16_t even = h & 1 ? next : h;
            assert_int_equal(store(format->dtype, middle), even);
            assert_int_equal(store(format->dtype, nextafter(middle, 0)), h);
            assert_int_equal(store(format->dtype, nextafter(middle, INFINITY)), next);
            assert_int_equal(store(format->dtype, -middle), even | 0x8000);
            assert_int_equal(store(format->dtype, nextafter(-middle, -INFINITY)), next | 0x8000);
            float single = (float)middle;
            if ((double)single == middle) {
                assert_int_equal(format->narrow(single), even);
                assert_int_equal(format->narrow(nextafterf(single, 0)), h);
                assert_int_equal(format->narrow(-nextafterf(single, INFINITY)), next | 0x8000);
            }
        }
        assert_int_equal(format->narrow(INFINITY), format->infinity);
        assert_int_equal(store(format->dtype, -INFINITY), format->infinity | 0x8000);
        assert_int_equal(store(format->dtype, 1e300), format->infinity);
        assert_int_equal(store(format->dtype, 5e-324), 0);
        assert_int_equal(store(format->dtype, -0.0), 0x8000);
    }
}

#include "float8.inc"

/* The pattern of the finite value nearest to x, the even one of two: by trying all. */
static uint8_t nearest_f8(const double *value, double x)
{
    int best = 0;
    for (int h = 1; h < 128; h++) {
        const double d = fabs(fabs(x) - value[h]), least = fabs(fabs(x) - value[best]);
        if (isfinite(value[h]) && (d < least || (d == least && h % 2 == 0)))
            best = h;
    }
    return (uint8_t)(best | (signbit(x) ? 0x80 : 0));
}

static void check_f8(md_dtype t, const double *value, double x)
{
    uint8_t h = 0xcd;
    md_dtype_store(t, &h, 0, x);
    assert_int_equal(h, nearest_f8(value, x));
    if ((double)(float)x == x)
        assert_int_equal(md_f32_to_f8(t, (float)x), h);
}

/* Every value, every middle between two, and what lies right beside it. */
static void every_f8_widens_and_rounds(void **state)
{
    (void)state;
    const double *const tables[] = {f8e4m3, f8e5m2};
    const md_dtype types[] = {MD_F8E4M3, MD_F8E5M2};
    for (int k = 0; k < 2; k++) {
        const double *const value = tables[k];
        for (int h = 0; h < 256; h++) {
            const uint8_t byte = (uint8_t)h;
            const double wide = md_dtype_load(types[k], &byte, 0);
            assert_true(isnan(value[h]) ? isnan(wide) : wide == value[h] && !!signbit(wide) == !!signbit(value[h]));
            if (!isfinite(value[h]))
                continue;
            const double next = isfinite(value[(h + 1) & 255]) ? value[(h + 1) & 255] : value[h] * 2;
            const double middle = (value[h] + next) / 2, points[] = {value[h],
                                                                     middle,
                                                                     nextafter(middle, 0),
                                                                     next,
                                                                     nextafter(middle, next),
                                                                     (double)(float)middle};
            for (int i = 0; i < MD_COUNT(points); i++)
                if (fabs(points[i]) > 0)
                    check_f8(types[k], value, points[i]);
        }
        const double out[] = {1e300, -1e300, INFINITY, -INFINITY, 449, 57345, 1e-30, -1e-30, 5e-324, 0.0, -0.0};
        for (int i = 0; i < MD_COUNT(out); i++)
            check_f8(types[k], value, out[i] > 1e200 ? 1e20 : out[i] < -1e200 ? -1e20 : out[i]);
        assert_int_equal(md_f32_to_f8(types[k], NAN), 0x7f);
        assert_int_equal(md_f32_to_f8(types[k], INFINITY), k ? 0x7b : 0x7e);
        assert_int_equal(md_f32_to_f8(types[k], -3e38f), k ? 0xfb : 0xfe);
    }
}

static void reals_become_integers_by_truncation(void **state)
{
    (void)state;
    const struct {
        double value;
        int64_t i32, i64, u8, boolean;
    } cases[] = {
        {0.0, 0, 0, 0, 0},
        {1.9, 1, 1, 1, 1},
        {-1.9, -1, -1, 0, 1},
        {-0.5, 0, 0, 0, 1},
        {255.5, 255, 255, 255, 1},
        {256, 256, 256, 255, 1},
        {2147483647.5, INT32_MAX, INT32_MAX, 255, 1},
        {-2147483649.0, INT32_MIN, -2147483649, 0, 1},
        {9.3e18, INT32_MAX, INT64_MAX, 255, 1},
        {-9.3e18, INT32_MIN, INT64_MIN, 0, 1},
        {INFINITY, INT32_MAX, INT64_MAX, 255, 1},
        {-INFINITY, INT32_MIN, INT64_MIN, 0, 1},
        {NAN, 0, 0, 0, 1},
    };
    for (int i = 0; i < MD_COUNT(cases); i++) {
        const md_dtype types[] = {MD_I32, MD_I64, MD_U8, MD_BOOL};
        const int64_t expected[] = {cases[i].i32, cases[i].i64, cases[i].u8, cases[i].boolean};
        for (int t = 0; t < 4; t++) {
            uint64_t element = 0;
            md_dtype_store(types[t], &element, 0, cases[i].value);
            assert_int_equal(md_dtype_load_int(types[t], &element, 0), expected[t]);
        }
    }
}

/* At the ends of every type's range and one step (of a double) beside them, at powers of two around them. */
static void reals_at_the_ends_of_integers(void **state)
{
    (void)state;
    if (is_under_valgrind())
        skip();
    static const struct {
        md_dtype type;
        long double low, high;
    } row[] = {{MD_I4, -8, 7},
               {MD_U4, 0, 15},
               {MD_I8, INT8_MIN, INT8_MAX},
               {MD_U8, 0, UINT8_MAX},
               {MD_I16, INT16_MIN, INT16_MAX},
               {MD_U16, 0, UINT16_MAX},
               {MD_I32, INT32_MIN, INT32_MAX},
               {MD_U32, 0, UINT32_MAX},
               {MD_I64, INT64_MIN, INT64_MAX},
               {MD_U64, 0, UINT64_MAX}};
    for (int i = 0; i < MD_COUNT(row); i++)
        for (int k = -1; k < 66; k++)
            for (int sign = -1; sign <= 1; sign += 2)
                for (int step = -2; step <= 2; step++) {
                    const double power = k < 0 ? 0.0 : sign * ldexp(1.0, k), whole = power + step;
                    const double value[] = {whole, nextafter(power, -INFINITY), nextafter(power, INFINITY)};
                    for (int v = 0; v < 3; v++) {
                        const long double cut = truncl((long double)value[v]);
                        const long double want = cut < row[i].low ? row[i].low : cut > row[i].high ? row[i].high : cut;
                        uint64_t element = 0;
                        md_dtype_store(row[i].type, &element, 0, value[v]);
                        const int64_t got = md_dtype_load_int(row[i].type, &element, 0);
                        const long double is = row[i].type == MD_U64 ? (long double)(uint64_t)got : (long double)got;
                        if (is != want)
                            fail_msg("type %d: %a gives %Lg, not %Lg", row[i].type, value[v], is, want);
                    }
                }
}

static void integers_are_exact(void **state)
{
    (void)state;
    const int64_t values[] = {0, 1, -1, 127, 255, 256, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (1LL << 53) + 1};
    for (int i = 0; i < MD_COUNT(values); i++) {
        int64_t v = values[i], element = 0;
        md_dtype_store_int(MD_I64, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_I64, &element, 0), v);
        md_dtype_store_int(MD_I32, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_I32, &element, 0), (int32_t)(uint32_t)(uint64_t)v);
        md_dtype_store_int(MD_U8, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_U8, &element, 0), (uint8_t)v);
        md_dtype_store_int(MD_I8, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_I8, &element, 0), (int8_t)(uint8_t)v);
        md_dtype_store_int(MD_I16, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_I16, &element, 0), (int16_t)(uint16_t)v);
        md_dtype_store_int(MD_U16, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_U16, &element, 0), (uint16_t)v);
        md_dtype_store_int(MD_U32, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_U32, &element, 0), (uint32_t)v);
        md_dtype_store_int(MD_U64, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_U64, &element, 0), v);
        for (int k = 0; k < 3; k++) {
            md_dtype_store_int(MD_U4, &element, k, v);
            assert_int_equal(md_dtype_load_int(MD_U4, &element, k), v & 15);
            md_dtype_store_int(MD_I4, &element, k, v);
            assert_int_equal(md_dtype_load_int(MD_I4, &element, k), ((v & 15) ^ 8) - 8);
        }
        md_dtype_store_int(MD_BOOL, &element, 0, v);
        assert_int_equal(md_dtype_load_int(MD_BOOL, &element, 0), v != 0);
    }
    unsigned char two = 2; /* a bool from elsewhere */
    assert_int_equal(md_dtype_load_int(MD_BOOL, &two, 0), 1);
}

/* One rounding from 64-bit integers, also where a double cannot hold them: 2^60 + 2^52 is a tie of bf16, one more is
 * not. */
static void large_integers_round_once(void **state)
{
    (void)state;
    uint16_t h = 0;
    int64_t tie = (1LL << 60) + (1LL << 52);
    md_dtype_store_int(MD_BF16, &h, 0, tie);
    assert_int_equal(h, md_f32_to_bf16(0x1p60f));
    md_dtype_store_int(MD_BF16, &h, 0, tie + 1);
    assert_int_equal(h, md_f32_to_bf16(0x1p60f) + 1);
    md_dtype_store_int(MD_BF16, &h, 0, -tie - 1);
    assert_int_equal(h, md_f32_to_bf16(-0x1p60f) + 1);
    md_dtype_store_int(MD_BF16, &h, 0, -tie);
    assert_int_equal(h, md_f32_to_bf16(-0x1p60f));
    md_dtype_store_int(MD_F16, &h, 0, 2049);
    assert_int_equal(h, md_f32_to_f16(2048));
    md_dtype_store_int(MD_F16, &h, 0, INT64_MIN);
    assert_int_equal(h, 0xfc00);
}

static void facts_hold_together(void **state)
{
    (void)state;
    for (int t = MD_F32; md_dtype_nth(t - MD_F32) != MD_DTYPE_DEFAULT; t++) {
        md_dtype dtype = (md_dtype)t;
        assert_int_equal(md_dtype_parse(md_dtype_name(dtype)), dtype);
        assert_true(md_dtype_size(dtype) > 0);
        assert_int_equal(md_dtype_nth(t - MD_F32), t);
        if (md_dtype_is_real(dtype)) {
            double u = md_dtype_roundoff(dtype);
            assert_true(md_dtype_round(dtype, 1 + u) == 1);
            assert_true(md_dtype_round(dtype, 1 + 1.01 * u) > 1 || dtype == MD_F64);
        }
    }
    assert_string_equal(md_dtype_name(MD_DTYPE_DEFAULT), "?");
    assert_string_equal(md_dtype_name((md_dtype)-3), "?");
    assert_int_equal(md_dtype_size((md_dtype)99), 0);
    assert_int_equal(md_dtype_parse("f33"), MD_DTYPE_DEFAULT);
    assert_int_equal(md_dtype_parse(NULL), MD_DTYPE_DEFAULT);
    assert_int_equal(md_dtype_compute(MD_BF16), MD_F32);
    assert_int_equal(md_dtype_compute(MD_F64), MD_F64);
    assert_int_equal(md_dtype_compute(MD_U8), MD_I64);
    assert_int_equal(md_dtype_compute(MD_BOOL), MD_BOOL);
}

static void tensors_are_row_major(void **state)
{
    (void)state;
    int64_t size[] = {2, 0, 3};
    md_tensor t = md_tensor_make(size, MD_F16, 3, size);
    assert_int_equal(t.stride[2], 1);
    assert_int_equal(t.stride[1], 3);
    assert_int_equal(t.stride[0], 3);
    int64_t huge[] = {2, INT64_MAX, INT64_MAX};
    t = md_tensor_make(NULL, MD_F32, 3, huge);
    assert_int_equal(t.stride[0], INT64_MAX);
    t = md_tensor_make(NULL, MD_F32, 0, NULL);
    assert_int_equal(t.rank, 0);
}

/* The first of two elements is in the low half of a byte; the other one stays. */
static void halves_of_bytes(void **state)
{
    (void)state;
    unsigned char bytes[3] = {0x5a, 0xc3, 0xff};
    static const int i4[] = {-6, 5, 3, -4, -1, -1}, u4[] = {10, 5, 3, 12, 15, 15};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(md_dtype_load_int(MD_I4, bytes, i), i4[i]);
        assert_int_equal(md_dtype_load_int(MD_U4, bytes, i), u4[i]);
    }
    md_dtype_store(MD_I4, bytes, 1, -100.0);
    md_dtype_store(MD_U4, bytes, 2, 9.9);
    assert_memory_equal(bytes, ((unsigned char[]){0x8a, 0xc9, 0xff}), 3);
    assert_int_equal(md_dtype_span(MD_I4, 5), 3);
    assert_int_equal(md_dtype_span(MD_I16, 5), 10);
    assert_int_equal(md_dtype_capacity(MD_U4, 3), 6);
    assert_int_equal(md_dtype_capacity(MD_F32, 9), 2);
    assert_true(md_dtype_bytes(MD_I4) == 0.5);
}

static void facts_of_every_dtype(void **state)
{
    (void)state;
    static const struct {
        md_dtype t;
        size_t size;
        bool is_real, is_narrow, is_unsigned;
    } row[] = {
        {MD_F32, 4, true, false, false},   {MD_F64, 8, true, false, false},   {MD_F16, 2, true, true, false},
        {MD_BF16, 2, true, true, false},   {MD_I32, 4, false, true, false},   {MD_I64, 8, false, false, false},
        {MD_U8, 1, false, true, true},     {MD_BOOL, 1, false, false, false}, {MD_I8, 1, false, true, false},
        {MD_F8E4M3, 1, true, true, false}, {MD_F8E5M2, 1, true, true, false}, {MD_I16, 2, false, true, false},
        {MD_U16, 2, false, true, true},    {MD_U32, 4, false, true, true},    {MD_U64, 8, false, false, true},
        {MD_I4, 1, false, true, false},    {MD_U4, 1, false, true, true},
    };
    for (int i = 0; i < MD_COUNT(row); i++) {
        assert_int_equal(md_dtype_size(row[i].t), row[i].size);
        assert_int_equal(md_dtype_is_real(row[i].t), row[i].is_real);
        assert_int_equal(md_dtype_is_narrow(row[i].t), row[i].is_narrow);
        assert_int_equal(md_dtype_is_unsigned(row[i].t), row[i].is_unsigned);
        assert_int_equal(md_dtype_parse(md_dtype_name(row[i].t)), row[i].t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_of_every_dtype),
        cmocka_unit_test(halves_of_bytes),
        cmocka_unit_test(every_half_widens_exactly_and_returns),
        cmocka_unit_test(every_midpoint_rounds_to_even),
        cmocka_unit_test(every_f8_widens_and_rounds),
        cmocka_unit_test(reals_become_integers_by_truncation),
        cmocka_unit_test(reals_at_the_ends_of_integers),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(large_integers_round_once),
        cmocka_unit_test(facts_hold_together),
        cmocka_unit_test(tensors_are_row_major),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
