/* Facts of element types, conversions of half precision, and loads and stores of elements. */
#include "base/dtype.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

typedef struct dtype_facts {
    const char *name, *c_type;
    size_t size;
    bool is_real, is_unsigned;
    md_dtype compute;
    double roundoff;
} dtype_facts;

static const dtype_facts facts[] = {
    [MD_F32] = {"f32", "float", 4, true, false, MD_F32, 0x1p-24},
    [MD_F64] = {"f64", "double", 8, true, false, MD_F64, 0x1p-53},
    [MD_F16] = {"f16", "uint16_t", 2, true, false, MD_F32, 0x1p-11},
    [MD_BF16] = {"bf16", "uint16_t", 2, true, false, MD_F32, 0x1p-8},
    [MD_I32] = {"i32", "int32_t", 4, false, false, MD_I64, 0},
    [MD_I64] = {"i64", "int64_t", 8, false, false, MD_I64, 0},
    [MD_U8] = {"u8", "uint8_t", 1, false, true, MD_I64, 0},
    [MD_BOOL] = {"bool", "uint8_t", 1, false, false, MD_BOOL, 0},
    [MD_I8] = {"i8", "int8_t", 1, false, false, MD_I64, 0},
    [MD_F8E4M3] = {"f8e4m3", "uint8_t", 1, true, false, MD_F32, 0x1p-4},
    [MD_F8E5M2] = {"f8e5m2", "uint8_t", 1, true, false, MD_F32, 0x1p-3},
    [MD_I16] = {"i16", "int16_t", 2, false, false, MD_I64, 0},
    [MD_U16] = {"u16", "uint16_t", 2, false, true, MD_I64, 0},
    [MD_U32] = {"u32", "uint32_t", 4, false, true, MD_I64, 0},
    [MD_U64] = {"u64", "uint64_t", 8, false, true, MD_I64, 0},
};

static const dtype_facts *facts_of(md_dtype t)
{
    static const dtype_facts none = {"?", "?", 0, false, false, MD_DTYPE_DEFAULT, 0};
    return (unsigned)t < (unsigned)MD_COUNT(facts) && facts[t].name ? &facts[t] : &none;
}

const char *md_dtype_name(md_dtype t)
{
    return facts_of(t)->name;
}

size_t md_dtype_size(md_dtype t)
{
    return facts_of(t)->size;
}

md_dtype md_dtype_parse(const char *name)
{
    for (int32_t t = 0; name && t < MD_COUNT(facts); t++) {
        if (facts[t].name && strcmp(facts[t].name, name) == 0)
            return (md_dtype)t;
    }
    return MD_DTYPE_DEFAULT;
}

bool md_dtype_is_real(md_dtype t)
{
    return facts_of(t)->is_real;
}

bool md_dtype_is_narrow(md_dtype t)
{
    return t != MD_U64 && facts_of(t)->compute != t;
}

bool md_dtype_is_unsigned(md_dtype t)
{
    return facts_of(t)->is_unsigned;
}

const char *md_dtype_c_type(md_dtype t)
{
    return facts_of(t)->c_type;
}

md_dtype md_dtype_nth(int32_t k)
{
    return k >= 0 && k < MD_COUNT(facts) - MD_F32 ? (md_dtype)(MD_F32 + k) : MD_DTYPE_DEFAULT;
}

md_dtype md_dtype_compute(md_dtype t)
{
    return facts_of(t)->compute;
}

double md_dtype_roundoff(md_dtype t)
{
    return facts_of(t)->roundoff;
}

md_tensor md_tensor_make(void *data, md_dtype dtype, int32_t rank, const int64_t *size)
{
    md_tensor t = {.data = data, .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int32_t i = size ? MD_MIN(rank, MD_MAX_RANK) - 1 : -1; i >= 0; i--) {
        t.size[i] = size[i];
        t.stride[i] = stride;
        /* Saturates: the call refuses so large a tensor, with a message. */
        if (__builtin_mul_overflow(stride, MD_MAX(size[i], 1), &stride))
            stride = INT64_MAX;
    }
    return t;
}

/* ---- Half precision: IEEE 754 binary16, and bfloat16 (the upper half of binary32). */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* u >> shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_rounded(uint32_t u, int shift)
{
    uint32_t kept = u >> shift;
    uint32_t rest = u & ((1u << shift) - 1), half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

float md_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    if (magnitude >= 0x7c00u) /* infinity, or NaN, made quiet as the processor does */
        return float_of(sign | 0x7f800000u | magnitude << 13 | (magnitude > 0x7c00u ? 0x400000u : 0));
    if (magnitude >= 0x0400u)
        return float_of(sign | ((magnitude << 13) + 0x38000000u));
    float f = (float)magnitude * 0x1p-24f; /* subnormal: exact */
    return sign ? -f : f;
}

uint16_t md_f32_to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu, h;
    if (magnitude > 0x7f800000u)
        h = 0x7e00u | (magnitude >> 13 & 0x3ffu); /* NaN: quiet, upper payload kept */
    else if (magnitude >= 0x47800000u)
        h = 0x7c00u; /* 2^16 and above */
    else if (magnitude >= 0x38800000u)
        h = shift_rounded(magnitude - 0x38000000u, 13); /* normal; 65520 and above carry into infinity */
    else if (magnitude >= 0x33000000u)
        h = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, 126 - (int)(magnitude >> 23)); /* subnormal, 2^-25 on */
    else
        h = 0;
    return (uint16_t)(sign | h);
}

float md_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t md_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u); /* NaN stays NaN */
    return (uint16_t)shift_rounded(u, 16); /* the sign is kept: the magnitude grows at most to infinity */
}

/* ---- 8-bit reals (OCP 8-bit Floating Point Specification, 2023): f8e4m3 has bias 7 and one NaN of either sign, f8e5m2
 * is binary16 without its last 8 bits. */

typedef struct f8_format {
    int mantissa_bits, bias;
    uint32_t largest, infinity; /* infinity: the first pattern that is no number */
} f8_format;

static f8_format f8_of(md_dtype t)
{
    return t == MD_F8E4M3 ? (f8_format){3, 7, 0x7e, 0x7f} : (f8_format){2, 15, 0x7b, 0x7c};
}

float md_f8_to_f32(md_dtype t, uint8_t h)
{
    const f8_format f = f8_of(t);
    const uint32_t sign = (uint32_t)(h & 0x80u) << 24, magnitude = h & 0x7fu;
    if (magnitude >= f.infinity)
        return float_of(sign | (t == MD_F8E5M2 && magnitude == f.infinity ? 0x7f800000u : 0x7fc00000u));
    const int exponent = (int)(magnitude >> f.mantissa_bits);
    const uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    const uint32_t whole = exponent ? mantissa | 1u << f.mantissa_bits : mantissa;
    const float value = ldexpf((float)whole, (exponent ? exponent : 1) - f.bias - f.mantissa_bits);
    return sign ? -value : value;
}

uint8_t md_f32_to_f8(md_dtype t, float f)
{
    const f8_format to = f8_of(t);
    const uint32_t u = bits_of(f), magnitude = u & 0x7fffffffu;
    const int shift = 23 - to.mantissa_bits, exponent = (int)(magnitude >> 23) - 127 + to.bias;
    uint32_t h;
    if (magnitude > 0x7f800000u)
        return 0x7f;
    if (exponent > 0) /* normal; may carry beyond the largest */
        h = shift_rounded(magnitude - ((uint32_t)(127 - to.bias) << 23), shift);
    else if (exponent >= -to.mantissa_bits) /* subnormal */
        h = shift_rounded((magnitude & 0x7fffffu) | 0x800000u, shift + 1 - exponent);
    else
        h = 0;
    return (uint8_t)(u >> 24 & 0x80u) | (uint8_t)MD_MIN(h, to.largest);
}

/* Converts to binary32 with rounding to odd: toward zero, with the last bit set if inexact. A second rounding, to a
 * format with at least two bits less, then gives the result of a single rounding (Boldo and Melquiond, 2008). */
static float narrow_to_odd(double d)
{
    float f = (float)d;
    if ((double)f == d || d != d)
        return f;
    uint32_t u = bits_of(f);
    if (fabs((double)f) > fabs(d))
        u--;
    return float_of(u | 1);
}

/* Converts an integer to a double that rounds to the same value of any real type of at most 16 bits. */
static double int_to_odd(int64_t v)
{
    if (v > -((int64_t)1 << 53) && v < ((int64_t)1 << 53))
        return (double)v;
    return (double)((v & ~(int64_t)0x7ff) | ((v & 0x7ff) ? 0x800 : 0));
}

/* ---- Elements */

#define ELEMENT(type, base, i) ((type *)(base))[i]
#define CONST_ELEMENT(type, base, i) ((const type *)(base))[i]

double md_dtype_load(md_dtype t, const void *base, int64_t i)
{
    switch (t) {
    case MD_F32:
        return (double)CONST_ELEMENT(float, base, i);
    case MD_F64:
        return CONST_ELEMENT(double, base, i);
    case MD_F16:
        return (double)md_f16_to_f32(CONST_ELEMENT(uint16_t, base, i));
    case MD_BF16:
        return (double)md_bf16_to_f32(CONST_ELEMENT(uint16_t, base, i));
    case MD_F8E4M3:
    case MD_F8E5M2:
        return (double)md_f8_to_f32(t, CONST_ELEMENT(uint8_t, base, i));
    case MD_U64:
        return (double)CONST_ELEMENT(uint64_t, base, i);
    default:
        return (double)md_dtype_load_int(t, base, i);
    }
}

/* Truncates toward zero into [low, high]; NaN gives 0. */
static int64_t to_integer(double value, int64_t low, int64_t high)
{
    if (value != value)
        return 0;
    if (value <= (double)low)
        return low;
    if (value >= (double)high) /* 2^63 for INT64_MAX: there is no double between them */
        return high;
    return (int64_t)value;
}

/* The same into [0, 2^64). */
static uint64_t to_unsigned(double value)
{
    return value >= 0x1p64 ? UINT64_MAX : value >= 0x1p63 ? (uint64_t)value : (uint64_t)to_integer(value, 0, INT64_MAX);
}

int64_t md_dtype_load_int(md_dtype t, const void *base, int64_t i)
{
    switch (t) {
    case MD_I8:
        return CONST_ELEMENT(int8_t, base, i);
    case MD_I16:
        return CONST_ELEMENT(int16_t, base, i);
    case MD_U16:
        return CONST_ELEMENT(uint16_t, base, i);
    case MD_U32:
        return CONST_ELEMENT(uint32_t, base, i);
    case MD_I32:
        return CONST_ELEMENT(int32_t, base, i);
    case MD_U64:
    case MD_I64:
        return CONST_ELEMENT(int64_t, base, i);
    case MD_U8:
        return CONST_ELEMENT(uint8_t, base, i);
    case MD_BOOL:
        return CONST_ELEMENT(uint8_t, base, i) != 0;
    case MD_F32:
    case MD_F64:
    case MD_F16:
    case MD_BF16:
    case MD_F8E4M3:
    case MD_F8E5M2:
        return to_integer(md_dtype_load(t, base, i), INT64_MIN, INT64_MAX);
    default:
        return 0;
    }
}

/* The integer of type t that a real becomes. */
static int64_t truncated(md_dtype t, double value)
{
    const int bits = (int)md_dtype_size(t) * 8;
    if (t == MD_U64 || bits == 0)
        return (int64_t)to_unsigned(value);
    if (md_dtype_is_unsigned(t))
        return to_integer(value, 0, (INT64_C(1) << bits) - 1);
    return to_integer(value, INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits));
}

void md_dtype_store(md_dtype t, void *base, int64_t i, double value)
{
    switch (t) {
    case MD_F32:
        ELEMENT(float, base, i) = (float)value;
        break;
    case MD_F64:
        ELEMENT(double, base, i) = value;
        break;
    case MD_F16:
        ELEMENT(uint16_t, base, i) = md_f32_to_f16(narrow_to_odd(value));
        break;
    case MD_BF16:
        ELEMENT(uint16_t, base, i) = md_f32_to_bf16(narrow_to_odd(value));
        break;
    case MD_BOOL:
        ELEMENT(uint8_t, base, i) = value != 0;
        break;
    case MD_F8E4M3:
    case MD_F8E5M2:
        ELEMENT(uint8_t, base, i) = md_f32_to_f8(t, narrow_to_odd(value));
        break;
    default:
        md_dtype_store_int(t, base, i, truncated(t, value));
        break;
    }
}

void md_dtype_store_int(md_dtype t, void *base, int64_t i, int64_t value)
{
    switch (t) {
    case MD_F32:
        ELEMENT(float, base, i) = (float)value;
        break;
    case MD_F64:
        ELEMENT(double, base, i) = (double)value;
        break;
    case MD_F16:
    case MD_BF16:
    case MD_F8E4M3:
    case MD_F8E5M2:
        md_dtype_store(t, base, i, int_to_odd(value));
        break;
    case MD_U16:
    case MD_I16:
        ELEMENT(uint16_t, base, i) = (uint16_t)value;
        break;
    case MD_U32:
    case MD_I32:
        ELEMENT(uint32_t, base, i) = (uint32_t)value;
        break;
    case MD_U64:
    case MD_I64:
        ELEMENT(int64_t, base, i) = value;
        break;
    case MD_I8:
    case MD_U8:
        ELEMENT(uint8_t, base, i) = (uint8_t)value;
        break;
    case MD_BOOL:
        ELEMENT(uint8_t, base, i) = value != 0;
        break;
    default:
        break;
    }
}

double md_dtype_round(md_dtype t, double value)
{
    uint64_t element = 0;
    md_dtype_store(t, &element, 0, value);
    return md_dtype_load(t, &element, 0);
}
