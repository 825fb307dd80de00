/* Integers of four bits, two in a byte of a vector (kernels/host/byte_halves.h): every operation on all pairs of
 * values, rows of all lengths, loads and stores at every place, against plain arithmetic. Built for 4, 8 and 16 lanes
 * of f32, signed and (MD_BYTES_UNSIGNED) not; a build that this processor cannot run skips itself (77). */
#define MD_BYTES 1
#define MD_BYTE_HALVES 1
#undef bool
#include "kernels/host/prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PLACES = 256 };

static int half(const void *t, int i)
{
    return ((const uint8_t *)t)[i / 2] >> i % 2 * 4 & 15;
}

static void set_half(void *t, int i, int v)
{
    uint8_t *at = (uint8_t *)t + i / 2;
    *at = (uint8_t)((*at & ~(15 << i % 2 * 4)) | (v & 15) << i % 2 * 4);
}

/* Lane l is first + l * step, as four bits. */
static md_y from_on(int first, int step)
{
    md_y v = {0};
    for (int l = 0; l < MD_YL; l++)
        set_half(&v, l, first + l * step);
    return v;
}

static int value(int bits)
{
    return (int)md_half_value(bits);
}

#define EXPECT(got, want)                                                                                              \
    do {                                                                                                               \
        const __typeof__(got) all = (got);                                                                             \
        for (int l = 0; l < MD_YL; l++) {                                                                              \
            const int a = value(half(&u, l)), b = value(half(&v, l));                                                  \
            (void)a, (void)b;                                                                                          \
            if (half(&all, l) != ((want)&15))                                                                          \
                fail_msg("%s: %d for %d and %d", #got, half(&all, l), a, b);                                           \
        }                                                                                                              \
    } while (0)

static void test_pairs(void **state)
{
    (void)state;
    for (int first = 0; first < 16; first++)
        for (int step = 0; step < 16; step++) {
            const md_y u = md_splat_y(first), v = from_on(first, step);
            EXPECT(md_add_y(u, v), a + b);
            EXPECT(md_sub_y(u, v), a - b);
            EXPECT(md_neg_y(v), -b);
            EXPECT(md_bit_not_y(v), ~b);
            EXPECT(md_bit_xor_y(u, v), a ^ b);
            EXPECT(md_relu_y(v), b > 0 ? b : 0);
            EXPECT(md_max_y(u, v), a > b ? a : b);
            EXPECT(md_min_y(u, v), a < b ? a : b);
            EXPECT(md_clamp_y(v, md_splat_y(2), u), b < 2 ? (2 < a ? 2 : a) : b < a ? b : a);
            EXPECT(md_where_y(md_lt_y(u, v), u, v), a < b ? a : b);
            EXPECT(md_lt_y(u, v), -(a < b));
            EXPECT(md_le_y(u, v), -(a <= b));
            EXPECT(md_gt_y(u, v), -(a > b));
            EXPECT(md_ge_y(u, v), -(a >= b));
            EXPECT(md_eq_y(u, v), -(a == b));
            EXPECT(md_ne_y(u, v), -(a != b));
            EXPECT(md_lt_z(md_gt_y(u, v), md_cast_y_z(v)), -((a > b) < (b != 0)));
            EXPECT(md_cast_z_y(md_gt_y(u, v)), a > b);
        }
}

static void test_rows(void **state)
{
    (void)state;
    for (int first = 0; first < 16; first++)
        for (int n = 1; n <= MD_YL; n++) {
            const md_y v = from_on(first, n % 5);
            int64_t most = value(half(&v, 0)), least = most, sum = 0;
            int some = 0, every = 1;
            for (int l = 0; l < n; l++) {
                const int x = value(half(&v, l));
                most = x > most ? x : most, least = x < least ? x : least, sum += x;
                some |= x > 5, every &= x > 5;
            }
            const md_z above = md_gt_y(v, md_splat_y(5));
            const md_total total = md_gain_total(md_gain_total(md_splat_total(0), v), md_only_y(v, 0, n));
            assert_int_equal(md_fold_max_y(md_only_y(v, MD_LOWEST_Y, n)), most);
            assert_int_equal(md_fold_min_y(md_only_y(v, MD_HIGHEST_Y, n)), least);
            assert_int_equal(md_fold_sum_total(total) - md_fold_sum_total(md_gain_total(md_splat_total(0), v)), sum);
            assert_int_equal(md_fold_max_z(md_only_z(above, 0, n)), some);
            assert_int_equal(md_fold_min_z(md_only_z(above, 1, n)), every);
        }
}

static uint8_t in[PLACES], out[PLACES] __attribute__((aligned(64))), want[PLACES];

static void test_memory(void **state)
{
    (void)state;
    for (int i = 0; i < PLACES; i++)
        in[i] = (uint8_t)(i * 37 + i / 7);
    for (int at = 0; at < 40; at++)
        for (int n = 0; n <= MD_YL; n++)
            for (int k = 0; k < 2; k++) {
                memset(out, 0xa5, sizeof out);
                memset(want, 0xa5, sizeof want);
                const md_y v = md_load_i4_bytes(in, at, n);
                for (int l = 0; l < n; l++)
                    assert_int_equal(half(&v, l), half(in, at + l));
                (k ? md_store_u4_bytes_nt : md_store_u4_bytes)(out, at, v, n);
                for (int l = 0; l < n; l++)
                    set_half(want, at + l, half(in, at + l));
                assert_memory_equal(out, want, sizeof out);
            }
    const int64_t lead = md_lead_i4_bytes(out, 6);
    assert_int_equal((uintptr_t)(out + (6 + lead) / 2) % MD_Y_BYTES, 0);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
