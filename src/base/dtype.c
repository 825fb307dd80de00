/* Facts of element types, loads and stores of elements. */
#include "base/dtype.h"

#include "base/number/number.h"
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
    [MD_I4] = {"i4", "uint8_t", 1, false, false, MD_I64, 0},
    [MD_U4] = {"u4", "uint8_t", 1, false, true, MD_I64, 0},
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

bool md_dtype_is_packed(md_dtype t)
{
    return t == MD_I4 || t == MD_U4;
}

int md_dtype_bits(md_dtype t)
{
    return md_dtype_is_packed(t) ? 4 : 8 * (int)md_dtype_size(t);
}

double md_dtype_bytes(md_dtype t)
{
    return md_dtype_bits(t) / 8.0;
}

int64_t md_dtype_span(md_dtype t, int64_t n)
{
    return md_dtype_is_packed(t) ? n / 2 + n % 2 : n * (int64_t)md_dtype_size(t);
}

int64_t md_dtype_capacity(md_dtype t, int64_t n_bytes)
{
    return md_dtype_is_packed(t) ? 2 * n_bytes : n_bytes / (int64_t)md_dtype_size(t);
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

/* ---- Rounding */

/* Converts to binary32 with rounding to odd: toward zero, with the last bit set if inexact. A second rounding, to a
 * format with at least two bits less, then gives the result of a single rounding (Boldo and Melquiond, 2008). */
static float narrow_to_odd(double d)
{
    float f = (float)d;
    if ((double)f == d || d != d)
        return f;
    uint32_t u = md_bits_of(f);
    if (fabs((double)f) > fabs(d))
        u--;
    return md_float_of(u | 1);
}

/* Converts an integer to a double that rounds to the same value of any real type of at most 16 bits. */
static double int_to_odd(int64_t v)
{
    if (v > -((int64_t)1 << 53) && v < ((int64_t)1 << 53))
        return (double)v;
    return (double)((v & ~(int64_t)0x7ff) | ((v & 0x7ff) ? 0x800 : 0));
}

/* ---- Elements */

/* Half a byte of element i; i4 has a sign. */
static int64_t load_packed(md_dtype t, const void *base, int64_t i)
{
    const int half = ((const uint8_t *)base)[i / 2] >> i % 2 * 4 & 15;
    return t == MD_I4 ? (half ^ 8) - 8 : half;
}

static void store_packed(void *base, int64_t i, int64_t value)
{
    uint8_t *byte = (uint8_t *)base + i / 2;
    const int shift = (int)(i % 2) * 4;
    *byte = (uint8_t)((*byte & ~(15 << shift)) | (int)(value & 15) << shift);
}

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
    case MD_I4:
    case MD_U4:
        return load_packed(t, base, i);
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
    const int bits = md_dtype_bits(t);
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
    case MD_I4:
    case MD_U4:
        store_packed(base, i, value);
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
