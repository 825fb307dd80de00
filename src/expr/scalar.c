/* What operations compute, one element at a time: NumPy's and PyTorch's semantics. Integers wrap; // and % round toward
 * minus infinity as in Python, and by an integer zero they give 0, as in NumPy. The expressions are those of
 * ops.def. */
#include "expr/scalar.h"

#include <math.h>
#include <stddef.h>

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

/* A count outside 0 .. 63 moves all bits out: 0 remains, or -1 of a negative number that goes right. */
static int64_t shift_left(int64_t a, int64_t count)
{
    return (uint64_t)count < 64 ? (int64_t)((uint64_t)a << count) : 0;
}

static int64_t shift_right(int64_t a, int64_t count)
{
    return a >> ((uint64_t)count < 64 ? count : 63);
}

int64_t md_scalar_philox(int64_t key, int64_t low, int64_t high)
{
    uint32_t k[2] = {(uint32_t)key, (uint32_t)((uint64_t)key >> 32)};
    uint32_t c[4] = {(uint32_t)low, (uint32_t)((uint64_t)low >> 32), (uint32_t)high, (uint32_t)((uint64_t)high >> 32)};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c[0] * 0xd2511f53u, b = (uint64_t)c[2] * 0xcd9e8d57u;
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
        c[3] = (uint32_t)a;
        k[0] += 0x9e3779b9u;
        k[1] += 0xbb67ae85u;
    }
    return (int64_t)((uint64_t)c[1] << 32 | c[0]);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#define REAL_FUNCTION(id, expression)                                                                                  \
    static double real_##id(double a, double b, double c)                                                              \
    {                                                                                                                  \
        (void)a, (void)b, (void)c;                                                                                     \
        return expression;                                                                                             \
    }
#define INT_FUNCTION(id, expression)                                                                                   \
    static int64_t int_##id(int64_t a, int64_t b, int64_t c)                                                           \
    {                                                                                                                  \
        (void)a, (void)b, (void)c;                                                                                     \
        return expression;                                                                                             \
    }
#define TEST_FUNCTION(id, expression)                                                                                  \
    static bool test_##id(double a, double b)                                                                          \
    {                                                                                                                  \
        (void)a, (void)b;                                                                                              \
        return expression;                                                                                             \
    }

#define NUMBER(id, name, operands, real, integer, ...) REAL_FUNCTION(id, real) INT_FUNCTION(id, integer)
#define SAME(id, name, operands, real, integer, ...) REAL_FUNCTION(id, real) INT_FUNCTION(id, integer)
#define REAL(id, name, operands, real, ...) REAL_FUNCTION(id, real)
#define TEST(id, name, operands, real, integer, ...) TEST_FUNCTION(id, real) INT_FUNCTION(id, integer)
#define LOGIC(id, name, operands, integer, ...) INT_FUNCTION(id, integer)
#define INTEGER(id, name, operands, integer, ...) INT_FUNCTION(id, integer)
#include "expr/ops.def"

md_scalar_real_fn md_scalar_real(md_fx_op op)
{
    static const md_scalar_real_fn table[MD_FX_N_OPS] = {
#define NUMBER(id, ...) [MD_FX_##id] = real_##id,
#define SAME(id, ...) [MD_FX_##id] = real_##id,
#define REAL(id, ...) [MD_FX_##id] = real_##id,
#include "expr/ops.def"
    };
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}

md_scalar_int_fn md_scalar_int(md_fx_op op)
{
    static const md_scalar_int_fn table[MD_FX_N_OPS] = {
#define NUMBER(id, ...) [MD_FX_##id] = int_##id,
#define SAME(id, ...) [MD_FX_##id] = int_##id,
#define TEST(id, ...) [MD_FX_##id] = int_##id,
#define LOGIC(id, ...) [MD_FX_##id] = int_##id,
#define INTEGER(id, ...) [MD_FX_##id] = int_##id,
#include "expr/ops.def"
    };
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}

md_scalar_test_fn md_scalar_test(md_fx_op op)
{
    static const md_scalar_test_fn table[MD_FX_N_OPS] = {
#define TEST(id, ...) [MD_FX_##id] = test_##id,
#include "expr/ops.def"
    };
    return op > MD_FX_NO_OP && op < MD_FX_N_OPS ? table[op] : NULL;
}
