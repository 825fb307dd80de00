/* Every function of one operand that the host's kernels have, against its reference in f64: samples within the error
 * that the table of operations states, and special values. Built for 4, 8 and 16 lanes; a build that this processor
 * cannot run skips itself (77). */
#include "kernels/host/prelude.h"
#include "expr/scalar.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* not support/check.h: names of md.h are types in generated code */

/* The functions of one operand in the table of operations. */
#define APPLY_1(id, name)                                                                                              \
    static void apply_##id(float *x, int n)                                                                            \
    {                                                                                                                  \
        for (int i = 0; i + MD_VL <= n; i += MD_VL) {                                                                  \
            md_f v;                                                                                                    \
            memcpy(&v, x + i, sizeof v);                                                                               \
            v = md_##name##_f(v);                                                                                      \
            memcpy(x + i, &v, sizeof v);                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    static double apply_##id##_d(double x)                                                                             \
    {                                                                                                                  \
        return md_##name##_d(md_splat_d(x))[MD_VL - 1];                                                                \
    }
#define APPLY_2(id, name)
#define REAL(id, name, operands, ...) APPLY_##operands(id, name)
#include "expr/ops.def"

typedef struct function {
    md_fx_op op;
    void (*apply)(float *x, int n);
    float (*scalar)(float x);
    double (*lanes_d)(double x), (*scalar_d)(double x);
} function;

#define FUNCTION_1(id, name) {MD_FX_##id, apply_##id, md_##name##_sf, apply_##id##_d, md_##name##_sd},
#define FUNCTION_2(id, name)
static const function functions[] = {
#define REAL(id, name, operands, ...) FUNCTION_##operands(id, name)
#include "expr/ops.def"
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* Half the distance of neighbours around w, in f32, doubled: what one unit is worth. */
static double unit(double w)
{
    int e = -125;
    if (w != 0)
        frexp(w, &e);
    return ldexp(1, (e < -125 ? -125 : e) - 24);
}

static double uniform(uint64_t *state) /* [0, 1) */
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static double error_of(float got, double want)
{
    if ((isnan(got) && isnan(want)) || got == (float)want)
        return 0;
    if (isinf(got))
        return fabs(want) > FLT_MAX * (1 - 0x1p-23) && (got > 0) == (want > 0) ? 0 : INFINITY;
    return isnan(got) || isnan(want) ? INFINITY : fabs((double)got - want) / unit(want);
}

static double expected(const function *f, double x)
{
    return md_scalar_real(f->op)(x, 0, 0);
}

/* What the table allows at x, in units in the last place. */
static double limit_of(const function *f, double x)
{
    const md_fx_op_row *row = md_fx_op_info(f->op);
    double ulps = row->rounding == MD_FX_EXACT ? 0 : row->host_ulps;
    return row->cancels ? ulps + 4 * 0x1p-24 * fmin(fabs(x), 16) / unit(expected(f, x)) : ulps;
}

static void check_at(const function *f, float x, float got, double limit)
{
    const md_fx_op_row *row = md_fx_op_info(f->op);
    double want = expected(f, x), error = error_of(got, want);
    if (!(error <= limit) && !(row->flushes && got == 0 && fabs(want) < 0x1p-119))
        fail_msg("%s(%.9g) is %.9g, expected %.9g: off by %.2f ulp", row->name, (double)x, (double)got, want, error);
    if (want == 0 && x == 0 && !signbit(want) != !signbit(got))
        fail_msg("%s(%g) is %g, expected %g", row->name, (double)x, (double)got, want);
    float alone = f->scalar(x);
    if (memcmp(&alone, &got, sizeof got) != 0 && !(isnan(alone) && isnan(got)))
        fail_msg("%s(%.9g): one value gives %.9g, lanes %.9g", row->name, (double)x, (double)alone, (double)got);
}

enum { N_SAMPLES = 1 << 12 };

/* Evenly spread samples; `limit` 0: the table's. */
static void check_interval(const function *f, double lo, double hi, double limit)
{
    static float x[N_SAMPLES], y[N_SAMPLES];
    for (int j = 0; j < N_SAMPLES; j++)
        x[j] = y[j] = (float)(lo + (hi - lo) * j / (N_SAMPLES - 1));
    f->apply(y, N_SAMPLES);
    for (int j = 0; j < N_SAMPLES; j++)
        check_at(f, x[j], y[j], limit > 0 ? limit : limit_of(f, x[j]));
}

static const double intervals[][2] = {{-1e-37, 1e-37}, {-1e-20, 1e-20}, {-1e-6, 1e-6}, {-0.01, 0.01}, {-1, 1},
                                      {0.5, 2},        {-10, 10},       {-110, 110},   {-152, 130},   {-1e6, 1e6},
                                      {-1e9, 1e9},     {-1e30, 1e30},   {-3e38, 3e38}};

static void test_samples(void **state)
{
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++)
        for (size_t k = 0; k < sizeof intervals / sizeof *intervals; k++)
            check_interval(&functions[i], intervals[k][0], intervals[k][1], 0);
}

/* Better than the table says where nothing cancels. */
static void test_gelu(void **state)
{
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        if (functions[i].op == MD_FX_GELU) {
            check_interval(&functions[i], -0.5, 8, 2.5);
            check_interval(&functions[i], -2, 8, 20);
            check_interval(&functions[i], -10, 8, 2000);
        }
        if (functions[i].op == MD_FX_GELU_TANH) {
            check_interval(&functions[i], -1, 8, 5);
            check_interval(&functions[i], -5, 8, 50);
        }
    }
}

static void test_special_values(void **state)
{
    (void)state;
    const float special[16] = {0.0f,     -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, FLT_MAX,
                               -FLT_MAX, 1,     -1,       100,       -88, 88.72f, -103,    0.5f};
    for (int i = 0; i < N_FUNCTIONS; i++) {
        float y[16];
        memcpy(y, special, sizeof y);
        functions[i].apply(y, 16);
        for (int j = 0; j < 16; j++)
            check_at(&functions[i], special[j], y[j], limit_of(&functions[i], special[j]));
    }
}

typedef struct pair_function {
    md_fx_op op;
    float (*scalar)(float a, float b);
    double (*scalar_d)(double a, double b);
} pair_function;

static const pair_function pairs[] = {
    {MD_FX_POW, md_pow_sf, md_pow_sd}, {MD_FX_ATAN2, md_atan2_sf, md_atan2_sd}, {MD_FX_FMOD, md_fmod_sf, md_fmod_sd}};

static void check_pair(const pair_function *f, float a, float b)
{
    float got = f->scalar(a, b);
    double want = md_scalar_real(f->op)(a, b, 0), error = error_of(got, want), wide = f->scalar_d(a, b);
    if (!(error <= md_fx_op_info(f->op)->host_ulps) || (want == 0 && !signbit(want) != !signbit(got)))
        fail_msg("%s(%.9g, %.9g) is %.9g, expected %.9g: off by %.2f ulp", md_fx_op_info(f->op)->name, (double)a,
                 (double)b, (double)got, want, error);
    assert_true(wide == want || (isnan(wide) && isnan(want)));
}

static void test_pairs(void **state)
{
    (void)state;
    const float edge[] = {0.0f,  -0.0f, INFINITY, -INFINITY,    NAN,          1,       -1,       2,        -2,
                          3,     -3,    0.5f,     -0.5f,        1e-40f,       FLT_MAX, -FLT_MAX, 16777215, 16777216,
                          1e10f, -7,    4.5f,     1 + 0x1p-23f, 1 - 0x1p-24f, 1e-38f,  2e38f};
    const size_t n = sizeof edge / sizeof *edge;
    uint64_t seed = 20260801;
    for (size_t f = 0; f < sizeof pairs / sizeof *pairs; f++) {
        for (size_t i = 0; i < n * n; i++)
            check_pair(&pairs[f], edge[i / n], edge[i % n]);
        for (int i = 0; i < 20000; i++) {
            double u = uniform(&seed), v = uniform(&seed), sign = i % 3 && pairs[f].op != MD_FX_POW ? -1 : 1;
            check_pair(&pairs[f], (float)(sign * exp((u - 0.5) * 20)), (float)((v - 0.5) * 20));
        }
    }
}

/* Of f64: within 4 units of the reference, which is libm's as well. */
static void check_double(const function *f, double x)
{
    double want = expected(f, x), got[2] = {f->lanes_d(x), f->scalar_d(x)};
    double limit = 4 * DBL_EPSILON * (fabs(want) + (md_fx_op_info(f->op)->cancels ? fmin(fabs(x), 16) : 0));
    for (int i = 0; i < 2; i++)
        if (!(fabs(got[i] - want) <= limit) && got[i] != want && !(isnan(got[i]) && isnan(want)))
            fail_msg("%s(%.17g) of f64 is %.17g, expected %.17g", md_fx_op_info(f->op)->name, x, got[i], want);
}

static void test_doubles(void **state)
{
    (void)state;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        for (double x = -8; x < 8; x += 0.371)
            check_double(&functions[i], x);
        check_double(&functions[i], INFINITY);
        check_double(&functions[i], -INFINITY);
        check_double(&functions[i], NAN);
        check_double(&functions[i], -0.0);
    }
}

/* Random bits are those of the reference, and the known answers of Random123 (kat_vectors), in lanes and alone. */
static void test_philox(void **state)
{
    static const int64_t known[3][4] = {{0, 0, 0, (int64_t)UINT64_C(0xe169c58d6627e8d5)},
                                        {-1, -1, -1, (int64_t)UINT64_C(0x41c83b0e408f276d)},
                                        {(int64_t)UINT64_C(0x299f31d0a4093822), (int64_t)UINT64_C(0x85a308d3243f6a88),
                                         (int64_t)UINT64_C(0x0370734413198a2e), (int64_t)UINT64_C(0x94fdccebd16cfe09)}};
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(md_scalar_philox(known[i][0], known[i][1], known[i][2]), known[i][3]);
    for (int round = 0; round < 100; round++) {
        md_i a[3], y;
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < MD_VL; l++)
                a[k][l] = round == 0 ? known[l % 3][k] : (int64_t)(uniform(&seed) * 0x1p53) * 4097;
        y = md_philox_i(a[0], a[1], a[2]);
        for (int l = 0; l < MD_VL; l++) {
            const int64_t want = md_scalar_philox(a[0][l], a[1][l], a[2][l]);
            if (y[l] != want || md_philox_si(a[0][l], a[1][l], a[2][l]) != want)
                fail_msg("lane %d of round %d differs", l, round);
        }
    }
}

static int can_run(void)
{
#if defined(__x86_64__) && MD_VL == 16
    return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
#elif defined(__x86_64__) && MD_VL == 8
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
        cmocka_unit_test(test_samples), cmocka_unit_test(test_gelu),    cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_pairs),   cmocka_unit_test(test_doubles), cmocka_unit_test(test_philox),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
