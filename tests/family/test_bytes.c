/* Lanes of one byte or (MD_WORDS) two in the host's kernels (kernels/host/bytes.h): every operation on all 65,536 pairs
 * of bytes, or of some words with all words, folds and sums, loads and stores of every length and place, against plain
 * arithmetic. Built for 4, 8 and 16 lanes of f32, signed and (MD_BYTES_UNSIGNED) not; a build that this processor
 * cannot run skips itself (77). */
#undef bool
#include "kernels/host/prelude.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { PLACES = 512, VALUES = 1 << 8 * sizeof(md_one_y) };

static md_y all_of(int a)
{
    return md_splat_y(a);
}

/* Lane l is first + l. */
static md_y from_on(int first)
{
    md_one_y x[MD_YL];
    md_y v;
    for (int l = 0; l < MD_YL; l++)
        x[l] = (md_one_y)(first + l);
    memcpy(&v, x, sizeof v);
    return v;
}

/* b runs over all bytes, lane by lane. */
#define EXPECT(got, want)                                                                                              \
    for (int l = 0; l < MD_YL; l++) {                                                                                  \
        const int b = (md_one_y)(first + l);                                                                           \
        (void)b;                                                                                                       \
        if ((got)[l] != (__typeof__((got)[l]))(want))                                                                  \
            fail_msg("%s: %d for %d and %d", #got, (int)(got)[l], a, b);                                               \
    }

static void compare_all(int a, int first, md_y u, md_y v)
{
    EXPECT(md_lt_y(u, v), -(a < b))
    EXPECT(md_le_y(u, v), -(a <= b))
    EXPECT(md_gt_y(u, v), -(a > b))
    EXPECT(md_ge_y(u, v), -(a >= b))
    EXPECT(md_eq_y(u, v), -(a == b))
    EXPECT(md_ne_y(u, v), -(a != b))
    EXPECT(md_max_y(u, v), a > b ? a : b)
    EXPECT(md_min_y(u, v), a < b ? a : b)
    EXPECT(md_where_y(md_lt_y(u, v), u, v), a < b ? a : b)
    const md_z p = md_lt_y(u, v), q = md_gt_y(md_splat_y(7), v);
    EXPECT(md_lt_z(p, q), -((a < b) < (7 > b)))
    EXPECT(md_ne_z(p, q), -((a < b) != (7 > b)))
    EXPECT(md_and_z(p, q), -(a < b && 7 > b))
    EXPECT(md_max_z(p, q), -(a < b || 7 > b))
    EXPECT(md_not_z(p), -!(a < b))
    EXPECT(md_cast_z_y(p), a < b)
}

static void compute_all(int a, int first, md_y u, md_y v)
{
    EXPECT(u + v, a + b)
    EXPECT(u - v, a - b)
    EXPECT(u * v, (int64_t)a * b)
    EXPECT(md_fma_y(u, v, v), (int64_t)a * b + b)
    EXPECT(md_clamp_y(v, md_splat_y(3), u), b < 3 ? (3 < a ? 3 : a) : b < a ? b : a)
    EXPECT(md_relu_y(v), b > 0 ? b : 0)
    EXPECT(md_abs_y(v), b < 0 ? -b : b)
    EXPECT(md_sign_y(v), (b > 0) - (b < 0))
    EXPECT(md_cast_y_z(v), -(b != 0))
    EXPECT(md_round_i4_y(v), ((b & 15) ^ 8) - 8)
    EXPECT(md_round_u4_y(v), b & 15)
    if (sizeof(md_one_y) > 1) {
        EXPECT(md_round_i8_y(v), (int8_t)b)
        EXPECT(md_round_u8_y(v), (uint8_t)b)
    }
}

static void all_pairs(void **state)
{
    (void)state;
    const int step = sizeof(md_one_y) == 1 ? 1 : 1365; /* a divisor of the distance of the ends */
    for (int a = MD_LOWEST_Y; a <= MD_HIGHEST_Y; a += step)
        for (int first = 0; first < VALUES; first += MD_YL) {
            compare_all(a, first, all_of(a), from_on(first));
            compute_all(a, first, all_of(a), from_on(first));
        }
}

static void folds(void **state)
{
    (void)state;
    for (int k = 0; k < 256; k++)
        for (int n = 1; n <= MD_YL; n++) {
            const md_y v = from_on(k * (VALUES / 256)) ^ (md_y)from_on(3 * k);
            int64_t most = v[0], least = v[0], sum = 0;
            int some = 0, every = 1;
            for (int l = 0; l < n; l++) {
                most = v[l] > most ? v[l] : most;
                least = v[l] < least ? v[l] : least;
                sum += v[l];
                some |= v[l] > 100, every &= v[l] > 100;
            }
            const md_z z = md_gt_y(v, md_splat_y(100));
            md_total total = md_splat_total(0);
            for (int i = 0; i < 3; i++)
                total = md_gain_total(total, md_only_y(v, 0, n));
            assert_int_equal(md_fold_max_y(md_only_y(v, MD_LOWEST_Y, n)), most);
            assert_int_equal(md_fold_min_y(md_only_y(v, MD_HIGHEST_Y, n)), least);
            total = md_join_total(total, md_gain_total(md_splat_total(0), md_only_y(v, 0, n)));
            assert_int_equal(md_fold_sum_total(total), 4 * sum);
            assert_int_equal(md_fold_max_z(md_only_z(z, 0, n)), some);
            assert_int_equal(md_fold_min_z(md_only_z(z, 1, n)), every);
        }
}

/* ---- Memory: what n lanes hold, and that nothing else is touched. */

static uint8_t in[PLACES], out[PLACES + 64] __attribute__((aligned(64))), want[PLACES + 64];

#ifndef MD_WORDS
static int half(const uint8_t *t, int i)
{
    return t[i / 2] >> i % 2 * 4 & 15;
}

static void set_half(uint8_t *t, int i, int v)
{
    t[i / 2] = (uint8_t)((t[i / 2] & ~(15 << i % 2 * 4)) | (v & 15) << i % 2 * 4);
}
#endif

#define MOVE(T, VALUE, STORE)                                                                                          \
    static void move_##T(void **state)                                                                                 \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        for (int i = 0; i < PLACES; i++)                                                                               \
            in[i] = (uint8_t)(i * 37 + i / 7);                                                                         \
        for (int at = 0; at < 67; at++)                                                                                \
            for (int n = 0; n <= MD_YL; n++)                                                                           \
                for (int k = 0; k < 2; k++) {                                                                          \
                    memset(out, 0xa5, sizeof out);                                                                     \
                    memset(want, 0xa5, sizeof want);                                                                   \
                    const __typeof__(md_load_##T##_bytes(in, 0, 0)) v = md_load_##T##_bytes(in, at, n);                \
                    for (int l = 0; l < n; l++)                                                                        \
                        assert_int_equal(v[l], (__typeof__(v[0]))(VALUE));                                             \
                    (k ? md_store_##T##_bytes_nt : md_store_##T##_bytes)(out, at, v, n);                               \
                    for (int l = 0; l < n; l++)                                                                        \
                        STORE;                                                                                         \
                    assert_memory_equal(out, want, sizeof out);                                                        \
                }                                                                                                      \
        const int64_t lead = md_lead_##T##_bytes(out, 3);                                                              \
        assert_true(lead == 0 || (uintptr_t)(out + (3 + lead) * (int)sizeof(md_one_y)) % MD_Y_BYTES == 0);             \
    }
#ifdef MD_WORDS
static uint16_t word(const uint8_t *t, int i)
{
    uint16_t w;
    memcpy(&w, t + 2 * i, sizeof w);
    return w;
}

static void set_word(uint8_t *t, int i, uint16_t v)
{
    memcpy(t + 2 * i, &v, sizeof v);
}
MOVE(i16, (md_one_y)word(in, at + l), set_word(want, at + l, word(in, at + l)))
MOVE(u16, (md_one_y)word(in, at + l), set_word(want, at + l, word(in, at + l)))
#else
MOVE(i8, (int8_t)in[at + l], want[at + l] = in[at + l])
MOVE(u8, in[at + l], want[at + l] = in[at + l])
MOVE(bool, -(in[at + l] != 0), want[at + l] = in[at + l] != 0)
MOVE(u4, half(in, at + l), set_half(want, at + l, half(in, at + l)))
MOVE(i4, (half(in, at + l) ^ 8) - 8, set_half(want, at + l, half(in, at + l)))
#endif

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
        cmocka_unit_test(all_pairs),
        cmocka_unit_test(folds),
#ifdef MD_WORDS
        cmocka_unit_test(move_i16),
        cmocka_unit_test(move_u16),
#else
        cmocka_unit_test(move_i8),   cmocka_unit_test(move_u8), cmocka_unit_test(move_bool),
        cmocka_unit_test(move_u4),   cmocka_unit_test(move_i4),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
