/* Loads, stores, conversions and a few operations of each storage type in the host's kernels, lane by lane against the
 * library's own conversions: all values of up to 16 bits, samples of 32. Built for 4, 8 and 16 lanes, with integers of
 * 64 bits and (MD_NARROW) of 32; a build that this processor cannot run skips itself (77). */
#define md_i md_arg_i /* names of md.h that are types in generated code */
#define md_stream md_arg_stream
#include "base/dtype.h"
#undef md_i
#undef md_stream
#undef bool

#include "kernels/host/prelude.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1 << 16, BYTES = 4 * N };

static uint8_t in[BYTES + 64], out[BYTES + 64], expected[BYTES + 64];

/* All patterns of 16 bits, then others. */
static void fill(void)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < BYTES; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        in[i] = i < 2 * N ? (uint8_t)(i % 2 ? i / 2 >> 8 : i / 2) : (uint8_t)(x >> 32);
    }
    memset(out, 0xa5, sizeof out);
    memcpy(expected, out, sizeof out);
}

static double value_of(const void *t, md_dtype dtype, int64_t i)
{
    return md_dtype_is_real(dtype) || dtype == MD_BOOL ? md_dtype_load(dtype, t, i)
                                                       : (double)md_dtype_load_int(dtype, t, i);
}

/* What a load of n lanes from element i gives, as f64; and a store of it to another place. */
typedef struct type {
    const char *name;
    md_dtype dtype;
    void (*load)(double *to, int64_t i, int n);
    void (*copy)(int64_t i, int n); /* in -> out */
    void (*from_f32)(int64_t i, const float *from);
} type;

#define EACH_LANE(to, v)                                                                                               \
    for (int l = 0; l < MD_VL; l++)                                                                                    \
        (to)[l] = (double)(v)[l];
#define SAME_FLOAT(T, v) (v)
#define ROUNDED(T, v) md_round_##T##_f(v)
#define TO_BOOL(T, v) md_cast_f_b(v)
#define AS_IT_IS(x) (x)
#define OF_BOOL(x) (-(x))
#define TYPE(T, FROM, VALUE)                                                                                           \
    static void load_##T(double *to, int64_t i, int n)                                                                 \
    {                                                                                                                  \
        EACH_LANE(to, VALUE(md_load_##T##_unit(in, i, n)))                                                             \
    }                                                                                                                  \
    static void copy_##T(int64_t i, int n)                                                                             \
    {                                                                                                                  \
        md_store_##T##_unit(out, i, md_load_##T##_unit(in, i, n), n);                                                  \
    }                                                                                                                  \
    static void from_##T(int64_t i, const float *from)                                                                 \
    {                                                                                                                  \
        md_store_##T##_unit(out, i, FROM(T, md_load_f32_unit(from, 0, MD_VL)), MD_VL);                                 \
    }
TYPE(i4, ROUNDED, AS_IT_IS)
TYPE(u4, ROUNDED, AS_IT_IS)
TYPE(i8, ROUNDED, AS_IT_IS)
TYPE(u8, ROUNDED, AS_IT_IS)
TYPE(i16, ROUNDED, AS_IT_IS)
TYPE(u16, ROUNDED, AS_IT_IS)
TYPE(i32, ROUNDED, AS_IT_IS)
TYPE(bool, TO_BOOL, OF_BOOL)
TYPE(f16, SAME_FLOAT, AS_IT_IS)
TYPE(bf16, SAME_FLOAT, AS_IT_IS)
TYPE(f8e4m3, SAME_FLOAT, AS_IT_IS)
TYPE(f8e5m2, SAME_FLOAT, AS_IT_IS)
#ifndef MD_NARROW
TYPE(u32, ROUNDED, AS_IT_IS)
#endif

#define ROW(T, DTYPE)                                                                                                  \
    {                                                                                                                  \
#T, DTYPE, load_##T, copy_##T, from_##T                                                                        \
    }
static const type types[] = {ROW(i4, MD_I4),        ROW(u4, MD_U4),     ROW(i8, MD_I8),         ROW(u8, MD_U8),
                             ROW(i16, MD_I16),      ROW(u16, MD_U16),   ROW(i32, MD_I32),       ROW(bool, MD_BOOL),
                             ROW(f16, MD_F16),      ROW(bf16, MD_BF16), ROW(f8e4m3, MD_F8E4M3),
#ifndef MD_NARROW
                             ROW(u32, MD_U32),
#endif
                             ROW(f8e5m2, MD_F8E5M2)};
#define EACH_TYPE(t) for (const type *t = types; t < types + sizeof types / sizeof types[0]; t++)

static int64_t elements_of(const type *t)
{
    const int bits = md_dtype_bits(t->dtype);
    return bits < 16 ? 2 * N / 2 : N / (bits / 16) * 2 / 2;
}

static int is_same(double a, double b)
{
    return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b);
}

static void loads_are_the_values(void **state)
{
    (void)state;
    fill();
    EACH_TYPE(t)
    for (int64_t i = 0; i < elements_of(t); i += MD_VL)
        for (int n = i % 1024 == 0 ? 0 : MD_VL; n <= MD_VL; n++) { /* parts now and then */
            double got[MD_VL];
            t->load(got, i, n);
            for (int l = 0; l < MD_VL; l++) {
                const double want = l < n ? value_of(in, t->dtype, i + l) : 0;
                if (!is_same(got[l], want))
                    fail_msg("%s, element %lld, %d of %d: %g instead of %g", t->name, (long long)i, l, n, got[l], want);
            }
        }
}

/* Stores of what was loaded, in whole and in parts, at even and odd places; nothing beside them is touched. */
static void stores_give_back_what_was_loaded(void **state)
{
    (void)state;
    EACH_TYPE(t)
    {
        fill();
        for (int64_t i = 0, n = MD_VL; i + MD_VL <= elements_of(t); i += n, n = n == 1 ? MD_VL : n - 1) {
            t->copy(i, (int)n);
            for (int64_t l = 0; l < n; l++)
                if (md_dtype_is_real(t->dtype) || t->dtype == MD_BOOL)
                    md_dtype_store(t->dtype, expected, i + l, value_of(in, t->dtype, i + l));
                else
                    md_dtype_store_int(t->dtype, expected, i + l, md_dtype_load_int(t->dtype, in, i + l));
        }
        for (int64_t i = 0; i < elements_of(t); i++)
            if (!is_same(value_of(out, t->dtype, i), value_of(expected, t->dtype, i)))
                fail_msg("%s, element %lld: %g instead of %g", t->name, (long long)i, value_of(out, t->dtype, i),
                         value_of(expected, t->dtype, i));
        assert_memory_equal(out + BYTES, expected + BYTES, 64);
    }
}

/* Reals are rounded to nearest even, or to integers as a store of the library does: toward zero, within the range. */
static void check_from_f32(const type *t, const float *from)
{
    uint8_t want[8 * MD_VL] = {0}, got[8 * MD_VL];
    t->from_f32(0, from);
    memcpy(got, out, sizeof got);
    for (int l = 0; l < MD_VL; l++) {
        md_dtype_store(t->dtype, want, l, (double)from[l]);
        if (!is_same(value_of(got, t->dtype, l), value_of(want, t->dtype, l)))
            fail_msg("%s of %a: %g instead of %g", t->name, (double)from[l], value_of(got, t->dtype, l),
                     value_of(want, t->dtype, l));
    }
}

static void reals_are_rounded_once(void **state)
{
    (void)state;
    static const uint32_t low[] = {0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff};
    fill();
    for (uint32_t k = 0; k < sizeof low / sizeof low[0]; k++)
        for (uint32_t high = 0; high < N; high += MD_VL) {
            float from[MD_VL];
            for (uint32_t l = 0; l < MD_VL; l++)
                memcpy(&from[l], &(uint32_t){(high + l) << 16 | low[k]}, 4);
            EACH_TYPE(t)
            check_from_f32(t, from);
        }
}

/* ---- Integers of lanes */

static md_i lanes_of(const int32_t *x)
{
    md_b v;
    memcpy(&v, x, sizeof v);
    return md_from_b(v);
}

#define EXPECT(v, want)                                                                                                \
    do {                                                                                                               \
        const md_i md_got = (v);                                                                                       \
        for (int l = 0; l < MD_VL; l++) {                                                                              \
            const int64_t a = x[l], b = y[l], md_want = (want);                                                        \
            (void)a, (void)b;                                                                                          \
            if ((int64_t)md_got[l] != md_want)                                                                         \
                fail_msg("%s of %lld, %lld: %lld", #v, (long long)a, (long long)b, (long long)md_got[l]);              \
        }                                                                                                              \
    } while (0)

static void integers_are_computed_alike(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int k = 0; k < 20000; k++) {
        int32_t x[MD_VL], y[MD_VL];
        for (int l = 0; l < MD_VL; l++) {
            seed = seed * 1664525 + 1013904223;
            x[l] = (int32_t)seed >> (k % 24);
            seed = seed * 1664525 + 1013904223;
            y[l] = k % 3 == 0 ? x[l] : (int32_t)seed >> (k % 17);
        }
        const md_i u = lanes_of(x), v = lanes_of(y);
        EXPECT(md_max_i(u, v), a > b ? a : b);
        EXPECT(md_min_i(u, v), a < b ? a : b);
        EXPECT(md_relu_i(u), a > 0 ? a : 0);
        EXPECT(md_sign_i(u), (a > 0) - (a < 0));
        EXPECT(md_where_i(md_lt_i(u, v), u, v), a < b ? a : b);
        EXPECT(md_where_i(md_eq_i(u, v), u, -v >> 1), a == b ? a : -b >> 1);
        EXPECT(md_round_i8_i(u), (int8_t)a);
        EXPECT(md_round_i4_i(u), (int64_t)((uint64_t)a << 60) >> 60);
        EXPECT(md_round_i16_i(u), (int16_t)a);
        EXPECT(md_round_u8_i(u), (uint8_t)a);
        EXPECT(md_cast_b_i(md_gt_i(u, v)), a > b);
        const md_f f = md_cast_i_f(u);
        const md_d d = md_cast_i_d(u);
        for (int l = 0; l < MD_VL; l++)
            assert_true(f[l] == (float)x[l] && d[l] == (double)x[l]);
    }
}

static int can_run(void)
{
#if MD_VL == 16 && defined(__x86_64__)
    return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw");
#elif MD_VL == 8 && defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}

int main(void)
{
    if (!can_run())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_are_the_values), cmocka_unit_test(stores_give_back_what_was_loaded),
        cmocka_unit_test(reals_are_rounded_once), cmocka_unit_test(integers_are_computed_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
