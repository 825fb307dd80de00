/* Makes, copies and reads the arguments of an op. */
#include "common/data.h"
#include "common/device.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t data_count(const data_set *set, int32_t i)
{
    int64_t n = 1;
    for (int32_t a = 0; a < set->tensor[i].rank; a++)
        n *= set->tensor[i].size[a];
    return n;
}

static uint16_t bf16_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* In steps of 2^-10, so that all are normal and exact. */
static uint16_t f16_of(float f)
{
    int e = 0;
    float m = frexpf(fabsf(f), &e);
    if (m == 0.0f)
        return 0;
    return (uint16_t)((f < 0 ? 0x8000 : 0) | (uint16_t)((e + 14) << 10) | ((uint16_t)(m * 2048.0f) & 0x3ff));
}

static bool is_f8(md_dtype t)
{
    return t == MD_F8E4M3 || t == MD_F8E5M2;
}

static void put_real(void *p, md_dtype t, int64_t k, float v)
{
    if (t == MD_F32)
        ((float *)p)[k] = v;
    else if (t == MD_F64)
        ((double *)p)[k] = (double)v;
    else if (is_f8(t)) /* a magnitude of sixteen steps below 1, down to 1/4 or 1/16 */
        ((uint8_t *)p)[k] = (uint8_t)((v < 0 ? 0x80 : 0) | ((t == MD_F8E4M3 ? 0x38 : 0x3c) - (int)(fabsf(v) * 16)));
    else
        ((uint16_t *)p)[k] = t == MD_F16 ? f16_of(truncf(v * 1024.0f) / 1024.0f) : bf16_of(v);
}

static bool is_packed(md_dtype t)
{
    return t == MD_I4 || t == MD_U4;
}

static void put_integer(void *p, md_dtype t, int64_t k, int64_t v)
{
    uint8_t *const byte = (uint8_t *)p + k / 2;
    const int shift = (int)(k % 2) * 4;
    if (is_packed(t)) {
        *byte = (uint8_t)((*byte & ~(15 << shift)) | (int)(v & 15) << shift);
        return;
    }
    switch (md_dtype_size(t)) {
    case 8:
        ((int64_t *)p)[k] = v;
        break;
    case 4:
        ((int32_t *)p)[k] = (int32_t)v;
        break;
    case 2:
        ((int16_t *)p)[k] = (int16_t)v;
        break;
    default:
        ((uint8_t *)p)[k] = (uint8_t)(t == MD_BOOL ? v & 1 : v);
    }
}

static bool is_real(md_dtype t)
{
    return t == MD_F32 || t == MD_F64 || t == MD_F16 || t == MD_BF16 || is_f8(t);
}

/* What the CPU may touch. */
static void *memory_of(const data_set *set, int32_t i)
{
    return set->image[i] ? set->image[i] : set->tensor[i].data;
}

static size_t bytes_of(const data_set *set, int32_t i)
{
    size_t n = (size_t)data_count(set, i) * md_dtype_size(set->tensor[i].dtype);
    return n ? n : 1;
}

/* Half of the values are uniform in [-1, 1). The others lie close to 0.31: where a long sum loses bits of them, it
 * always does so in the same direction, and is seen to be wrong. */
static float real_of(uint64_t r)
{
    const float u = (float)(r >> 40) * 0x1p-24f;
    return r & 1 ? 0.31f + u * 0x1p-10f : 2.0f * u - 1.0f;
}

/* True if the printed formula reads the tensor in a subscript. */
static bool is_index(md_op *op, const char *name)
{
    int depth = 0;
    const size_t n = strlen(name);
    const char *text = md_op_formula(op);
    for (const char *c = text; *c; c++) {
        depth += (*c == '[') - (*c == ']');
        const bool begins = c == text || (!isalnum((unsigned char)c[-1]) && c[-1] != '_');
        if (depth > 0 && begins && !strncmp(c, name, n) && (c[n] == '[' || c[n] == ':'))
            return true;
    }
    return false;
}

/* The size of a dim whose name ends before `end`; 0: there is none. */
static int64_t size_before(const data_set *set, const char *text, const char *end)
{
    const char *begin = end;
    while (begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t a = 0; a < set->tensor[i].rank; a++) {
            const char *name = set->info[i].dim[a];
            if (strlen(name) == (size_t)(end - begin) && !strncmp(name, begin, (size_t)(end - begin)))
                return set->tensor[i].size[a];
        }
    return 0;
}

/* The size that the tensor has lengths of, where a mask of the printed formula says j < n[..] or j <= n[..]; else 0. */
static int64_t size_compared(const data_set *set, const char *text, const char *name)
{
    static const char *const sign[] = {" < ", " <= "};
    const size_t n = strlen(name);
    for (int32_t k = 0; k < 2 && strstr(text, "-inf"); k++)
        for (const char *at = strstr(text, sign[k]); at; at = strstr(at + 1, sign[k])) {
            const char *right = at + strlen(sign[k]);
            if (!strncmp(right, name, n) && (right[n] == '[' || right[n] == ':'))
                return size_before(set, text, at);
        }
    return 0;
}

/* Integers that are no indices are lengths where they are compared with an index, or where the call gives a size: three
 * quarters of it and more. */
static int64_t size_of_lengths(const data_set *set, md_op *op, int32_t i)
{
    const char *name = set->info[i].name;
    if (is_index(op, name))
        return 0;
    for (int32_t k = 0; k < set->n; k++)
        if (set->info[k].is_size)
            return set->tensor[k].size[0];
    return size_compared(set, md_op_formula(op), name);
}

static void fill(data_set *set, md_op *op, int32_t i, int64_t index_limit, uint64_t *random)
{
    int64_t n = data_count(set, i);
    const int64_t most = size_of_lengths(set, op, i), least = most - most / 4;
    md_dtype t = set->tensor[i].dtype;
    void *p = memory_of(set, i);
    for (int64_t k = 0; k < n; k++) {
        uint64_t r = next_random(random);
        if (is_real(t))
            put_real(p, t, k, real_of(r));
        else
            put_integer(p, t, k,
                        most ? least + (int64_t)(r >> 32) % (most - least + 1) : (int64_t)(r >> 32) % index_limit);
    }
}

/* Gathered axes that the sizes leave open get a table of 1024 rows. */
static int64_t open_axes(data_set *set, const char *sizes)
{
    int64_t limit = INT64_MAX;
    for (int32_t i = 0; i < set->n; i++)
        for (int32_t a = 0; !set->info[i].is_scalar && a < set->info[i].rank; a++) {
            char key[80];
            if (set->info[i].dim[a][0])
                continue;
            snprintf(key, sizeof key, "%s.%d", set->info[i].name, a);
            if (set->tensor[i].size[a] <= 1 && !(sizes && strstr(sizes, key)))
                set->tensor[i].size[a] = 1024;
            if (set->tensor[i].size[a] < limit)
                limit = set->tensor[i].size[a];
        }
    return limit == INT64_MAX ? 8 : limit > 0 ? limit : 1;
}

static md_status describe(data_set *set, md_op *op, const char *sizes)
{
    set->n = md_op_n_args(op);
    for (int32_t i = 0; i < set->n; i++) {
        md_status s = md_op_arg(&set->info[i], op, i);
        if (s == MD_OK && (!set->info[i].is_scalar || set->info[i].is_size))
            s = md_op_tensor(&set->tensor[i], op, i, sizes);
        if (s != MD_OK)
            return s;
    }
    return MD_OK;
}

static md_status make_tensor(data_set *set, md_op *op, int32_t i, bool is_gpu, int64_t limit, uint64_t *seed)
{
    md_status s = md_alloc(&set->tensor[i].data, set->context, bytes_of(set, i));
    if (s == MD_OK && is_gpu && !(set->image[i] = malloc(bytes_of(set, i))))
        s = MD_OUT_OF_MEMORY;
    if (s != MD_OK)
        return s;
    fill(set, op, i, limit, seed);
    return is_gpu ? md_copy(set->context, set->tensor[i].data, set->image[i], bytes_of(set, i)) : MD_OK;
}

md_status data_make(data_set *out, md_context *context, md_op *op, const char *sizes, uint64_t seed)
{
    bool is_gpu = device_of(context).is_gpu;
    memset(out, 0, sizeof *out);
    out->context = context;
    md_status s = describe(out, op, sizes);
    if (s != MD_OK)
        return s;
    int64_t limit = open_axes(out, sizes);
    for (int32_t i = 0; i < out->n; i++) {
        if (out->info[i].is_scalar) {
            out->arg[i] = out->info[i].is_size           ? md_i(out->tensor[i].size[0])
                          : out->info[i].dtype == MD_I64 ? md_i(1)
                                                         : md_s(0.5);
            continue;
        }
        out->tensor[i] = md_tensor_make(NULL, out->tensor[i].dtype, out->tensor[i].rank, out->tensor[i].size);
        s = make_tensor(out, op, i, is_gpu, limit, &seed);
        if (s != MD_OK)
            return s;
        out->arg[i] = md_t(&out->tensor[i]);
    }
    return MD_OK;
}

md_status data_put_indices(md_context *context, md_op *op, const char *sizes, const md_tensor *tensor, uint64_t seed)
{
    data_set set = {.context = context};
    md_status s = describe(&set, op, sizes);
    const int64_t limit = open_axes(&set, sizes);
    for (int32_t i = 0; i < set.n && s == MD_OK; i++) {
        if (set.info[i].is_scalar || is_real(set.tensor[i].dtype) ||
            (!is_index(op, set.info[i].name) && size_of_lengths(&set, op, i) == 0))
            continue;
        set.image[i] = malloc(bytes_of(&set, i));
        if (!set.image[i])
            return MD_OUT_OF_MEMORY;
        fill(&set, op, i, limit, &seed);
        s = md_copy(context, tensor[i].data, set.image[i], bytes_of(&set, i));
        free(set.image[i]);
    }
    return s;
}

md_status data_clone(data_set *out, const data_set *from)
{
    *out = *from;
    for (int32_t i = 0; i < out->n; i++) {
        out->image[i] = NULL;
        out->tensor[i].data = NULL;
    }
    for (int32_t i = 0; i < out->n; i++) {
        if (out->info[i].is_scalar)
            continue;
        md_status s = md_alloc(&out->tensor[i].data, out->context, bytes_of(out, i));
        if (s == MD_OK)
            s = md_copy(out->context, out->tensor[i].data, from->tensor[i].data, bytes_of(out, i));
        if (s != MD_OK)
            return s;
        out->arg[i] = md_t(&out->tensor[i]);
    }
    return MD_OK;
}

md_status data_fetch(data_set *set, int32_t i)
{
    return set->image[i] ? md_copy(set->context, set->image[i], set->tensor[i].data, bytes_of(set, i)) : MD_OK;
}

void data_free(data_set *set)
{
    for (int32_t i = 0; i < set->n; i++)
        md_free(set->context, set->tensor[i].data);
    for (int32_t i = 0; i < set->n; i++)
        free(set->image[i]);
    set->n = 0;
}

static double half_value(uint16_t h, md_dtype t)
{
    if (t == MD_BF16) {
        uint32_t u = (uint32_t)h << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        return (double)f;
    }
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? (double)NAN : (double)INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static double f8_value(uint8_t h, md_dtype t)
{
    const bool is_short = t == MD_F8E5M2; /* binary16 without its last bits */
    if (is_short)
        return half_value((uint16_t)(h << 8), MD_F16);
    int e = h >> 3 & 15, m = h & 7;
    double v = (h & 0x7f) == 0x7f ? (double)NAN : e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return h & 0x80 ? -v : v;
}

static double integer_at(const void *p, md_dtype t, int64_t k)
{
    if (is_packed(t)) {
        const int half = ((const uint8_t *)p)[k / 2] >> k % 2 * 4 & 15;
        return t == MD_I4 ? (half ^ 8) - 8 : half;
    }
    switch (t) {
    case MD_I32:
        return (double)((const int32_t *)p)[k];
    case MD_I64:
        return (double)((const int64_t *)p)[k];
    case MD_I8:
        return (double)((const int8_t *)p)[k];
    case MD_I16:
        return (double)((const int16_t *)p)[k];
    case MD_U16:
        return (double)((const uint16_t *)p)[k];
    case MD_U32:
        return (double)((const uint32_t *)p)[k];
    case MD_U64:
        return (double)((const uint64_t *)p)[k];
    default:
        return (double)((const uint8_t *)p)[k];
    }
}

double data_at(const data_set *set, int32_t i, int64_t k)
{
    const void *p = memory_of(set, i);
    switch (set->tensor[i].dtype) {
    case MD_F32:
        return (double)((const float *)p)[k];
    case MD_F64:
        return ((const double *)p)[k];
    case MD_F16:
    case MD_BF16:
        return half_value(((const uint16_t *)p)[k], set->tensor[i].dtype);
    case MD_F8E4M3:
    case MD_F8E5M2:
        return f8_value(((const uint8_t *)p)[k], set->tensor[i].dtype);
    default:
        return integer_at(p, set->tensor[i].dtype, k);
    }
}

void data_print(const data_set *set, int32_t i, int64_t k)
{
    const void *p = memory_of(set, i);
    if (set->tensor[i].dtype == MD_I64)
        printf(" %lld", (long long)((const int64_t *)p)[k]);
    else if (set->tensor[i].dtype == MD_U64)
        printf(" %llu", (unsigned long long)((const uint64_t *)p)[k]);
    else
        printf(" %.*g", md_dtype_size(set->tensor[i].dtype) == 4 && set->tensor[i].dtype != MD_F32 ? 10 : 6,
               data_at(set, i, k));
}
