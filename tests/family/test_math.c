/* math.h of the host kernels against libm in f64: dense samples, a bound in units in the last place each, and
 * special values. Built for 4, 8 and 16 lanes; a build that this processor cannot run skips itself (77). */
#define MD_CONFIGURED 1
#define MD_USE_F32 1
#define MD_USE_EXP 1
#define MD_USE_EXPM1 1
#define MD_USE_LOG 1
#define MD_USE_LOG1P 1
#define MD_USE_LOG2 1
#define MD_USE_EXP2 1
#define MD_USE_SIN 1
#define MD_USE_COS 1
#define MD_USE_TANH 1
#define MD_USE_ERF 1
#define MD_USE_SIGMOID 1
#define MD_USE_SILU 1
#define MD_USE_GELU 1
#define MD_USE_GELU_TANH 1
#define MD_USE_SOFTPLUS 1
#define MD_USE_POW 1
#include "kernels/host/prelude.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* not support/check.h: names of md.h are types in generated code */

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752);
}
static double gelu_tanh(double x)
{
    return x / (1.0 + exp(-1.5957691216057307 * (x + 0.044715 * x * x * x)));
}
static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}
static double silu(double x)
{
    return x / (1.0 + exp(-x));
}
static double softplus(double x)
{
    return (x < 0 ? 0 : x) + log1p(exp(-fabs(x)));
}

#define FUNCTIONS(X)                                                                                                   \
    X(exp)                                                                                                             \
    X(exp2)                                                                                                            \
    X(expm1) X(log) X(log1p) X(log2) X(tanh) X(erf) X(sigmoid) X(silu) X(gelu) X(gelu_tanh) X(softplus) X(sin) X(cos)

#define APPLY(name)                                                                                                    \
    static void apply_##name(float *x, int n)                                                                          \
    {                                                                                                                  \
        for (int i = 0; i + MD_VL <= n; i += MD_VL) {                                                                  \
            md_f v;                                                                                                    \
            memcpy(&v, x + i, sizeof v);                                                                               \
            v = md_##name##_f(v);                                                                                      \
            memcpy(x + i, &v, sizeof v);                                                                               \
        }                                                                                                              \
    }
FUNCTIONS(APPLY)

typedef struct math_case {
    const char *name;
    void (*apply)(float *x, int n);
    double (*expected)(double x);
    float (*scalar)(float x);
    double lo, hi, max_ulp;
} math_case;

#define CASE(name, lo, hi, ulp)                                                                                        \
    {                                                                                                                  \
#name, apply_##name, name, md_##name##_sf, lo, hi, ulp                                                         \
    }
static const math_case cases[] = {
    CASE(exp, -110, 90, 1.5),     CASE(exp, -1, 1, 1.4),         CASE(exp2, -152, 130, 1.3),
    CASE(expm1, -30, 90, 1.5),    CASE(expm1, -1, 1, 1.6),       CASE(expm1, -1e-6, 1e-6, 1),
    CASE(log, 0, 10, 1),          CASE(log, 0.5, 2, 1),          CASE(log, 0, 3e38, 1),
    CASE(log, 0, 1e-37, 1),       CASE(log1p, -1, 1, 1.2),       CASE(log1p, -0.01, 0.01, 1.2),
    CASE(log1p, 0, 1e30, 1.2),    CASE(log1p, -1e-20, 1e-20, 1), CASE(log2, 0, 10, 2),
    CASE(log2, 0.5, 2, 2),        CASE(tanh, -10, 10, 2.5),      CASE(tanh, -0.5, 0.5, 2.5),
    CASE(erf, -5, 5, 1.6),        CASE(erf, -1, 1, 1.6),         CASE(sigmoid, -80, 80, 2.5),
    CASE(silu, -80, 80, 2.5),     CASE(gelu, -0.5, 8, 2.5),      CASE(gelu, -2, 8, 20),
    CASE(gelu, -10, 8, 2000),     CASE(gelu_tanh, -1, 8, 5),     CASE(gelu_tanh, -5, 8, 50),
    CASE(softplus, -80, 80, 2.5), CASE(softplus, -1, 1, 2.5),    CASE(sin, -10, 10, 1.6),
    CASE(sin, -1e6, 1e6, 1.6),    CASE(sin, -1e9, 1e9, 1.6),     CASE(cos, -10, 10, 1.6),
    CASE(cos, -1e6, 1e6, 1.6),
};

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

static void check_at(const math_case *c, float x, float got, double limit)
{
    double error = error_of(got, c->expected(x));
    if (!(error <= limit))
        fail_msg("%s(%.9g) is %.9g, expected %.9g: off by %.2f ulp", c->name, (double)x, (double)got, c->expected(x),
                 error);
    float alone = c->scalar(x);
    if (memcmp(&alone, &got, sizeof got) != 0 && !(isnan(alone) && isnan(got)))
        fail_msg("%s(%.9g): one value gives %.9g, lanes %.9g", c->name, (double)x, (double)alone, (double)got);
}

static void test_samples(void **state)
{
    (void)state;
    enum { N = 1 << 14 };
    static float x[N], y[N];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const math_case *c = &cases[i];
        for (int j = 0; j < N; j++)
            x[j] = y[j] = (float)(c->lo + (c->hi - c->lo) * j / (N - 1));
        c->apply(y, N);
        for (int j = 0; j < N; j++)
            check_at(c, x[j], y[j], c->max_ulp);
    }
}

static void test_special_values(void **state)
{
    (void)state;
    const float special[16] = {0.0f,     -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, FLT_MAX,
                               -FLT_MAX, 1,     -1,       100,       -88, 88.72f, -103,    0.5f};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const math_case *c = &cases[i];
        float y[16];
        memcpy(y, special, sizeof y);
        c->apply(y, 16);
        for (int j = 0; j < 16; j++) {
            int is_lost = fabs(c->expected(special[j])) < FLT_MIN && y[j] == 0; /* sigmoid and silu flush there */
            if (!is_lost && !(c->expected == gelu && special[j] < -10))
                check_at(c, special[j], y[j], 4);
        }
    }
    assert_true(signbit(md_tanh_sf(-0.0f)) && signbit(md_erf_sf(-0.0f)) && signbit(md_sin_sf(-0.0f)));
    assert_true(signbit(md_expm1_sf(-0.0f)) && signbit(md_log1p_sf(-0.0f)));
}

static void check_power(float x, float y)
{
    float got = md_pow_sf(x, y);
    double want = pow(x, y), error = error_of(got, want);
    if (!(error <= 1) || (want == 0 && !signbit(want) != !signbit(got)))
        fail_msg("pow(%.9g, %.9g) is %.9g, expected %.9g", (double)x, (double)y, (double)got, want);
}

static void test_powers(void **state)
{
    (void)state;
    const float edge[] = {0.0f,  -0.0f, INFINITY, -INFINITY,    NAN,         1,       -1,       2,        -2,
                          3,     -3,    0.5f,     -0.5f,        1e-40f,      FLT_MAX, -FLT_MAX, 16777215, 16777216,
                          1e10f, -7,    4.5f,     1 + 0x1p-23f, 1 - 0x1p-24f};
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++)
        for (size_t j = 0; j < sizeof edge / sizeof *edge; j++)
            check_power(edge[i], edge[j]);
    uint64_t seed = 20260801;
    for (int i = 0; i < 20000; i++) {
        double u = uniform(&seed), v = uniform(&seed);
        check_power((float)exp((u - 0.5) * 20), (float)((v - 0.5) * 20));
    }
}

static void test_doubles(void **state)
{
    (void)state;
    for (double x = 0.25; x < 8; x += 0.37) {
        md_d v = md_splat_d(x);
        assert_true(md_exp_d(v)[MD_VL - 1] == exp(x) && md_log_sd(x) == log(x) && md_tanh_d(v)[0] == tanh(x));
        assert_true(fabs(md_gelu_sd(x) - gelu(x)) < 1e-15 * x && fabs(md_gelu_tanh_sd(-x) - gelu_tanh(-x)) < 1e-15 * x);
        assert_true(fabs(md_softplus_d(-v)[1] - softplus(-x)) < 1e-15 && md_pow_d(v, v)[1] == pow(x, x));
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
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_doubles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
