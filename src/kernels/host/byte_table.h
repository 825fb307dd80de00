/* Sweeps whose result depends on one byte of memory, or two halves of a byte: all 256 results are computed once, by the
 * sweep itself, and elements are looked up, a register of bytes at a time. Included by pointwise.c.
 *
 * md_config.h: MD_TABLE_BITS (4 or 8) of an element, MD_TABLE_FROM and MD_TABLE_TO: fields of md_params, the tensor
 * that is read and the one that is written. Both are contiguous and have the same subscripts. */
#ifndef MD_HOST_BYTE_TABLE_H
#define MD_HOST_BYTE_TABLE_H

enum { MD_TABLE_LEAST = 4096 }; /* bytes, for which a table pays */
#define MD_TABLE_LANES(bytes) ((bytes)*8 / MD_TABLE_BITS)

/* clang-format off */
/* ---- md_find: the results of a register of bytes. */
#if MD_VL == 16 && defined(__AVX512VBMI__)
/* Two permutations of 128 bytes each; the highest bit says which one is meant. */
typedef char md_table_bytes MD_VECTOR(64);
typedef struct md_table { md_table_bytes part[4]; } md_table;
MD_INLINE void md_table_fill(md_table *t, const uint8_t result[256]) { __builtin_memcpy(t, result, 256); }
MD_INLINE md_table_bytes md_find(const md_table *t, md_table_bytes x)
{
    const unsigned long long is_high = __builtin_ia32_cvtb2mask512(x);
#ifdef __clang__
    const md_table_bytes low = __builtin_ia32_vpermi2varqi512(t->part[0], x, t->part[1]),
        high = __builtin_ia32_vpermi2varqi512(t->part[2], x, t->part[3]);
    return __builtin_ia32_selectb_512(is_high, high, low);
#else
    const md_table_bytes low = __builtin_ia32_vpermt2varqi512_mask(x, t->part[0], t->part[1], ~0ull),
        high = __builtin_ia32_vpermt2varqi512_mask(x, t->part[2], t->part[3], ~0ull);
    return __builtin_ia32_blendmb_512_mask(low, high, is_high);
#endif
}
#elif defined(__AVX2__)
/* Sixteen permutations of 16 bytes; of two the next higher bit of x picks one, from bit 4 to bit 7. */
typedef char md_table_bytes MD_VECTOR(32);
typedef struct md_table { md_table_bytes part[16]; } md_table;
MD_INLINE void md_table_fill(md_table *t, const uint8_t result[256])
{
    for (int i = 0; i < 16; i++) {
        __builtin_memcpy(&t->part[i], result + 16 * i, 16);
        __builtin_memcpy((char *)&t->part[i] + 16, result + 16 * i, 16);
    }
}
MD_INLINE md_table_bytes md_find(const md_table *t, md_table_bytes x)
{
    typedef short words MD_VECTOR(32);
    const md_table_bytes at = x & 15, bit4 = (md_table_bytes)((words)x << 3), bit5 = (md_table_bytes)((words)x << 2),
        bit6 = x + x;
#define MD_PICK(i) __builtin_ia32_pshufb256(t->part[i], at)
#define MD_PICK_2(i) __builtin_ia32_pblendvb256(MD_PICK(i), MD_PICK(i + 1), bit4)
#define MD_PICK_4(i) __builtin_ia32_pblendvb256(MD_PICK_2(i), MD_PICK_2(i + 2), bit5)
#define MD_PICK_8(i) __builtin_ia32_pblendvb256(MD_PICK_4(i), MD_PICK_4(i + 4), bit6)
    return __builtin_ia32_pblendvb256(MD_PICK_8(0), MD_PICK_8(8), x);
}
#else
/* One byte after the other. */
typedef uint64_t md_table_bytes MD_VECTOR(16);
typedef struct md_table { const uint8_t *result; } md_table;
MD_INLINE void md_table_fill(md_table *t, const uint8_t result[256]) { t->result = result; }
MD_INLINE uint64_t md_find_2(const md_table *t, uint64_t x)
    { return t->result[x & 255] | (uint64_t)t->result[x >> 8 & 255] << 8; }
MD_INLINE uint64_t md_find_4(const md_table *t, uint64_t x) { return md_find_2(t, x) | md_find_2(t, x >> 16) << 16; }
MD_INLINE uint64_t md_find_8(const md_table *t, uint64_t x) { return md_find_4(t, x) | md_find_4(t, x >> 32) << 32; }
MD_INLINE md_table_bytes md_find(const md_table *t, md_table_bytes x)
    { return (md_table_bytes){md_find_8(t, x[0]), md_find_8(t, x[1])}; }
#endif
/* clang-format on */
enum { MD_TABLE_STEP = sizeof(md_table_bytes) };

/* n bytes, whole registers; where the sweep streams, `to` begins at the boundary of one. */
MD_OUTLINE void md_look_up(const uint8_t result[256], const char *from, char *to, int64_t n)
{
    md_table t;
    md_table_fill(&t, result);
    for (int64_t i = 0; i < n; i += MD_TABLE_STEP) {
        md_table_bytes x;
        __builtin_memcpy(&x, from + i, sizeof x);
        x = md_find(&t, x);
#ifdef MD_STREAMING
        md_stream(to + i, &x, sizeof x);
#else
        __builtin_memcpy(to + i, &x, sizeof x);
#endif
    }
}

MD_OUTLINE void md_make_table(uint8_t result[256], const md_params *p)
{
    uint8_t every[256];
    md_params q = *p;
    for (int i = 0; i < 256; i++)
        every[i] = (uint8_t)i;
    q.MD_TABLE_FROM = every;
    q.MD_TABLE_TO = result;
    md_sweep(&q, 0, 1, 0, MD_TABLE_LANES(256));
#ifdef MD_STREAMING
    md_stream_end();
#endif
}

/* md_sweep of one outer point. Blocks begin at whole bytes. */
static void md_sweep_by_table(const md_params *p, int64_t point, int64_t end, int64_t lane, int64_t lane_end)
{
    const int64_t bytes = (lane_end - lane) * MD_TABLE_BITS / 8, skipped = lane * MD_TABLE_BITS / 8;
    if (bytes < MD_TABLE_LEAST) {
        md_sweep(p, point, end, lane, lane_end);
        return;
    }
    const char *from = (const char *)p->MD_TABLE_FROM + skipped;
    char *to = (char *)p->MD_TABLE_TO + skipped;
#ifdef MD_STREAMING
    const int64_t head = (int64_t)(-(uintptr_t)to % MD_TABLE_STEP);
#else
    const int64_t head = 0;
#endif
    const int64_t whole = (bytes - head) / MD_TABLE_STEP * MD_TABLE_STEP, rest = lane + MD_TABLE_LANES(head + whole);
    uint8_t result[256];
    md_make_table(result, p);
    if (head > 0)
        md_sweep(p, 0, 1, lane, lane + MD_TABLE_LANES(head));
    md_look_up(result, from + head, to + head, whole);
    if (rest < lane_end)
        md_sweep(p, 0, 1, rest, lane_end);
}

#endif
