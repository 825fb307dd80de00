/* NumPy's and PyTorch's semantics, one element at a time. Integers wrap; // and % round toward minus infinity as in
 * Python, and by an integer zero they give 0, as in NumPy. */
#include "expr/scalar.h"

#include <math.h>
#include <stddef.h>

#define REAL(name, expression)                                                                                         \
    static double real_##name(double a, double b, double c)                                                            \
    {                                                                                                                  \
        (void)a, (void)b, (void)c;                                                                                     \
        return expression;                                                                                             \
    }
#define INT(name, expression)                                                                                          \
    static int64_t int_##name(int64_t a, int64_t b, int64_t c)                                                         \
    {                                                                                                                  \
        (void)a, (void)b, (void)c;                                                                                     \
        return expression;                                                                                             \
    }
#define TEST(name, expression)                                                                                         \
    static bool test_##name(double a, double b)                                                                        \
    {                                                                                                                  \
        (void)b;                                                                                                       \
        return expression;                                                                                             \
    }

double md_scalar_max(double a, double b)
{
    return isnan(a) || a > b ? a : b; /* a NaN in b falls through to b */
}

double md_scalar_min(double a, double b)
{
    return isnan(a) || a < b ? a : b;
}

/* As NumPy's npy_divmod: exact where floor(a / b) would round up to the next integer. */
static double floor_divide(double a, double b)
{
    if (b == 0.0)
        return a / b;
    double mod = fmod(a, b);
    double div = (a - mod) / b;
    if (mod != 0.0 && (b < 0.0) != (mod < 0.0))
        div -= 1.0;
    if (div == 0.0)
        return copysign(0.0, a / b);
    double down = floor(div);
    return div - down > 0.5 ? down + 1.0 : down;
}

static double modulo(double a, double b)
{
    double mod = fmod(a, b);
    if (mod == 0.0)
        return copysign(0.0, b);
    return (b < 0.0) != (mod < 0.0) && !isnan(mod) ? mod + b : mod;
}

/* (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z)), without the cancellation. */
static double gelu_tanh(double x)
{
    const double k = 1.5957691216057307117; /* 2 sqrt(2 / pi) */
    return x / (1.0 + exp(-k * (x + 0.044715 * x * x * x)));
}

REAL(NEG, -a)
REAL(ADD, a + b)
REAL(SUB, a - b)
REAL(MUL, a *b)
REAL(DIV, a / b)
REAL(FLOORDIV, floor_divide(a, b))
REAL(MOD, modulo(a, b))
REAL(ABS, fabs(a))
REAL(SIGN, isnan(a) ? a : (double)((a > 0.0) - (a < 0.0)))
REAL(EXP, exp(a))
REAL(EXPM1, expm1(a))
REAL(LOG, log(a))
REAL(LOG1P, log1p(a))
REAL(LOG2, log2(a))
REAL(EXP2, exp2(a))
REAL(SQRT, sqrt(a))
REAL(RSQRT, 1.0 / sqrt(a))
REAL(SIN, sin(a))
REAL(COS, cos(a))
REAL(TANH, tanh(a))
REAL(ERF, erf(a))
REAL(SIGMOID, 1.0 / (1.0 + exp(-a)))
REAL(SILU, a / (1.0 + exp(-a)))
REAL(RELU, md_scalar_max(a, 0.0))
REAL(GELU, 0.5 * a * erfc(-a * 0.70710678118654752440)) /* 1 + erf(x) without cancellation */
REAL(GELU_TANH, gelu_tanh(a))
REAL(SOFTPLUS, md_scalar_max(a, 0.0) + log1p(exp(-fabs(a))))
REAL(FLOOR, floor(a))
REAL(CEIL, ceil(a))
REAL(ROUND, rint(a)) /* half to even */
REAL(TRUNC, trunc(a))
REAL(POW, pow(a, b))
REAL(MIN, md_scalar_min(a, b))
REAL(MAX, md_scalar_max(a, b))
REAL(CLAMP, md_scalar_min(md_scalar_max(a, b), c))
REAL(FMA, fma(a, b, c))

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t floor_divide_int(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return wrap_sub(0, a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t modulo_int(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* A negative exponent gives the power rounded toward zero: 0, but for bases 1 and -1. */
static int64_t power_int(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1, base = wrap_mul(base, base))
        if (exponent & 1)
            result = wrap_mul(result, base);
    return result;
}

INT(NEG, wrap_sub(0, a))
INT(ADD, wrap_add(a, b))
INT(SUB, wrap_sub(a, b))
INT(MUL, wrap_mul(a, b))
INT(FLOORDIV, floor_divide_int(a, b))
INT(MOD, modulo_int(a, b))
INT(LT, a < b)
INT(LE, a <= b)
INT(GT, a > b)
INT(GE, a >= b)
INT(EQ, a == b)
INT(NE, a != b)
INT(AND, a != 0 && b != 0)
INT(OR, a != 0 || b != 0)
INT(NOT, a == 0)
INT(ABS, a < 0 ? wrap_sub(0, a) : a)
INT(SIGN, (a > 0) - (a < 0))
INT(RELU, a > 0 ? a : 0)
INT(SAME, a) /* floor, ceil, round, trunc of an integer */
INT(NEVER, 0) /* isnan, isinf of an integer */
INT(POW, power_int(a, b))
INT(MIN, a < b ? a : b)
INT(MAX, a > b ? a : b)
INT(CLAMP, int_MIN(int_MAX(a, b, 0), c, 0))
INT(FMA, wrap_add(wrap_mul(a, b), c))

TEST(LT, a < b)
TEST(LE, a <= b)
TEST(GT, a > b)
TEST(GE, a >= b)
TEST(EQ, a == b)
TEST(NE, a != b)
TEST(ISNAN, isnan(a))
TEST(ISINF, isinf(a))

#define R(name) [MD_FX_##name] = real_##name
#define I(name) [MD_FX_##name] = int_##name
#define T(name) [MD_FX_##name] = test_##name

md_scalar_real_fn md_scalar_real(md_fx_op op)
{
    static const md_scalar_real_fn table[MD_FX_N_OPS] = {
        R(NEG),   R(ADD),   R(SUB),   R(MUL),     R(DIV),  R(FLOORDIV), R(MOD),  R(ABS),       R(SIGN),
        R(EXP),   R(EXPM1), R(LOG),   R(LOG1P),   R(LOG2), R(EXP2),     R(SQRT), R(RSQRT),     R(SIN),
        R(COS),   R(TANH),  R(ERF),   R(SIGMOID), R(SILU), R(RELU),     R(GELU), R(GELU_TANH), R(SOFTPLUS),
        R(FLOOR), R(CEIL),  R(ROUND), R(TRUNC),   R(POW),  R(MIN),      R(MAX),  R(CLAMP),     R(FMA),
    };
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}

md_scalar_int_fn md_scalar_int(md_fx_op op)
{
    static const md_scalar_int_fn table[MD_FX_N_OPS] = {
        I(NEG),
        I(ADD),
        I(SUB),
        I(MUL),
        I(FLOORDIV),
        I(MOD),
        I(LT),
        I(LE),
        I(GT),
        I(GE),
        I(EQ),
        I(NE),
        I(AND),
        I(OR),
        I(NOT),
        I(ABS),
        I(SIGN),
        I(RELU),
        [MD_FX_FLOOR] = int_SAME,
        [MD_FX_CEIL] = int_SAME,
        [MD_FX_ROUND] = int_SAME,
        [MD_FX_TRUNC] = int_SAME,
        [MD_FX_ISNAN] = int_NEVER,
        [MD_FX_ISINF] = int_NEVER,
        I(POW),
        I(MIN),
        I(MAX),
        I(CLAMP),
        I(FMA),
    };
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}

md_scalar_test_fn md_scalar_test(md_fx_op op)
{
    static const md_scalar_test_fn table[MD_FX_N_OPS] = {T(LT), T(LE), T(GT), T(GE), T(EQ), T(NE), T(ISNAN), T(ISINF)};
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}
