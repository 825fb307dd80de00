/* Reals that stay as memory holds them (kernels/host/byte_reals.h): every operation on all patterns of f8, or on all of
 * bf16 or f16 beside some, gives the bits that lanes of f32 give; maxima, minima and sums of rows, too. Built for each
 * type (MD_BITS_<TYPE>) and for 4, 8 and 16 lanes of f32; a build that this processor cannot run skips itself (77). */
#define MD_BYTES 1
#undef bool
#include "kernels/host/prelude.h"
#include "kernels/host/row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 1 << 8 * sizeof(md_one_y) };

/* Where something may change: zeros, ends of the subnormal and normal numbers, infinities, NaNs, with both signs. */
static int special(int i)
{
    static const int at[] = {0, 1, 2, MD_INF_Y / 3, MD_INF_Y / 2, MD_INF_Y - 1, MD_INF_Y, MD_INF_Y + 1, MD_HIGHEST_Y};
    const int n = (int)(sizeof at / sizeof at[0]);
    return sizeof(md_one_y) == 1 ? i : i >= 2 * n ? -1 : at[i / 2] | (i % 2 ? MD_TOP_Y : 0);
}

static float up(int bits)
{
    return MD_BITS(md_up1)((md_one_wy)bits);
}

static int down(float value)
{
    return (md_one_wy)MD_BITS(md_down1)(value);
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

/* Results as a store leaves them. */
static void expect_bits(const char *name, md_y got, int a, int first, float (*of)(float a, float b))
{
    const md_wy stored = md_settle_y(got);
    for (int l = 0; l < MD_YL; l++) {
        const int want = down(of(up(a), up(first + l)));
        if (stored[l] != want)
            fail_msg("%s: %#x, not %#x, for %#x and %#x", name, stored[l], want, a, first + l);
    }
}

static void expect_truth(const char *name, md_z got, int a, int first, int (*of)(float a, float b))
{
    for (int l = 0; l < MD_YL; l++)
        if (got[l] != -of(up(a), up(first + l)))
            fail_msg("%s: %d for %#x and %#x", name, (int)got[l], a, first + l);
}

static float same(float a, float b)
{
    return (void)a, b;
}
static float negated(float a, float b)
{
    return (void)a, -b;
}
static float absolute(float a, float b)
{
    return (void)a, md_abs_sf(b);
}
static float rectified(float a, float b)
{
    return (void)a, md_relu_sf(b);
}
static float clamped(float a, float b)
{
    return md_clamp_sf(b, up(down(-1)), a);
}
static float selected(float a, float b)
{
    return a < b ? a : b;
}
static int is_nan(float a, float b)
{
    return (void)a, b != b;
}
static int is_inf(float a, float b)
{
    return (void)a, md_isinf_sf(b);
}

static void test_pairs(void **state)
{
    (void)state;
    for (int i = 0; i < 256 && special(i) >= 0; i++)
        for (int first = 0; first < VALUES; first += MD_YL) {
            const int a = special(i);
            const md_y u = (md_one_y)a + (md_y){0}, v = from_on(first);
            expect_bits("copy", v, a, first, same);
            expect_bits("neg", md_neg_y(v), a, first, negated);
            expect_bits("abs", md_abs_y(v), a, first, absolute);
            expect_bits("relu", md_relu_y(v), a, first, rectified);
            expect_bits("max", md_max_y(u, v), a, first, md_max_sf);
            expect_bits("min", md_min_y(u, v), a, first, md_min_sf);
            expect_bits("clamp", md_clamp_y(v, md_splat_y(-1), u), a, first, clamped);
            expect_bits("where", md_where_y(md_lt_y(u, v), u, v), a, first, selected);
            expect_truth("lt", md_lt_y(u, v), a, first, md_lt_sf);
            expect_truth("le", md_le_y(u, v), a, first, md_le_sf);
            expect_truth("gt", md_gt_y(u, v), a, first, md_gt_sf);
            expect_truth("ge", md_ge_y(u, v), a, first, md_ge_sf);
            expect_truth("eq", md_eq_y(u, v), a, first, md_eq_sf);
            expect_truth("ne", md_ne_y(u, v), a, first, md_ne_sf);
            expect_truth("isnan", md_isnan_y(v), a, first, is_nan);
            expect_truth("isinf", md_isinf_y(v), a, first, is_inf);
        }
}

static void expect_real(const char *name, float got, float want, int k, int n)
{
    if (got != want && !(got != got && want != want))
        fail_msg("%s of %d lanes, row %d: %.9g, not %.9g", name, n, k, (double)got, (double)want);
}

/* Rows of two vectors: n lanes of the second. Extremes of any values; sums of whole numbers below 8, which are exact,
 * and of what is not finite. */
static void test_rows(void **state)
{
    (void)state;
    for (int k = 0; k < VALUES; k += sizeof(md_one_y) == 1 ? 1 : 257)
        for (int n = 1; n <= MD_YL; n++) {
            const int has_any = k % 3 == 0, sign = k % 5 == 0 ? MD_TOP_Y : 0;
            float max = -__builtin_inff(), min = __builtin_inff();
            md_extent most = md_splat_extent(max), least = md_splat_extent(min);
#ifndef MD_BITS_F16
            md_total total = md_splat_total(0);
            float sum = 0;
#endif
            for (int part = 0; part < 2; part++) {
                const int lanes = part ? n : MD_YL;
                md_one_y x[MD_YL];
                md_y v;
                for (int l = 0; l < MD_YL; l++)
                    x[l] = (md_one_y)(has_any ? (k + l * (k % 7)) | sign : down((float)((l * 5 + k) % 15 - 7)));
                memcpy(&v, x, sizeof v);
                most = md_gain_extent(most, md_only_y(v, -__builtin_inff(), lanes));
                least = md_join_extent(
                    least, md_gain_extent(md_splat_extent(__builtin_inff()), md_only_y(v, __builtin_inff(), lanes)));
#ifndef MD_BITS_F16
                total = md_join_total(md_gain_total(md_splat_total(0), md_only_y(v, 0, lanes)), total);
#endif
                for (int l = 0; l < lanes; l++) {
                    max = md_max_sf(max, up(x[l])), min = md_min_sf(min, up(x[l]));
#ifndef MD_BITS_F16
                    sum += up(x[l]);
#endif
                }
            }
            expect_real("max", md_fold_max_extent(most), max, k, n);
            expect_real("min", md_fold_min_extent(least), min, k, n);
#ifndef MD_BITS_F16
            const float got = md_fold_sum_total(total);
            if (!has_any || sum - sum != 0 || got - got != 0) /* not finite */
                expect_real("sum", got, sum, k, n);
#endif
        }
}

#ifndef MD_BITS_F16 /* whose sums have lanes of f32 */
/* Every pattern is added up as what it means. */
static void test_sums(void **state)
{
    (void)state;
    for (int bits = 0; bits < VALUES; bits++) {
        const int at = bits % MD_YL;
        md_one_y x[MD_YL] = {0};
        md_y v;
        x[at] = (md_one_y)bits;
        memcpy(&v, x, sizeof v);
        expect_real("sum", md_fold_sum_total(md_gain_total(md_splat_total(0), v)), up(bits), bits, at);
    }
}

#endif

static void test_memory(void **state)
{
    uint8_t in[256], out[256], want[256];
    (void)state;
    for (int i = 0; i < 256; i++)
        in[i] = (uint8_t)(i % 3 ? i * 37 : 0);
    for (int at = 0; at < 9; at++)
        for (int n = 0; n <= MD_YL; n++) {
            memset(out, 0xa5, sizeof out);
            memset(want, 0xa5, sizeof want);
            md_store_bool_bytes(out, at, md_load_bool_bytes(in, at, n), n);
            for (int l = 0; l < n; l++)
                want[at + l] = in[at + l] != 0;
            assert_memory_equal(out, want, sizeof out);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_rows),
#ifndef MD_BITS_F16
                                       cmocka_unit_test(test_sums),
#endif
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
