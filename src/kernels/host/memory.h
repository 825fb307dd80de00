/* Loads and stores of every storage type: vectors, strided, by offsets, and single elements. A part of prelude.h. Only
 * what MD_USE_<DTYPE> asks for is compiled; without a configuration, all. */
#ifndef MD_HOST_MEMORY_H
#define MD_HOST_MEMORY_H

#if !defined(MD_CONFIGURED)
#define MD_USE_F32 1
#define MD_USE_F64 1
#define MD_USE_F16 1
#define MD_USE_BF16 1
#define MD_USE_I32 1
#define MD_USE_U8 1
#define MD_USE_BOOL 1
#define MD_USE_F8E4M3 1
#define MD_USE_F8E5M2 1
#define MD_USE_I8 1
#define MD_USE_I16 1
#define MD_USE_U16 1
#ifndef MD_NARROW
#define MD_USE_I64 1
#define MD_USE_U32 1
#define MD_USE_U64 1
#endif
#define MD_USE_I4 1
#define MD_USE_U4 1
#endif

/* clang-format off */
#if MD_VL == 16
#define MD_EACH(M) {M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(9), M(10), M(11), M(12), M(13), M(14), \
    M(15)}
#elif MD_VL == 8
#define MD_EACH(M) {M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7)}
#elif MD_VL == 4
#define MD_EACH(M) {M(0), M(1), M(2), M(3)}
#else
#define MD_EACH(M) {M(0), M(1)}
#endif

#include "float16.h"
#include "float8.h"

/* ---- Asks for a line of memory, some MD_ASK_BYTES before it is read. It comes into the second-level cache: what was
 * asked for into the first one waits for a free place there, and slows the loads down that are under way. */
#define MD_ASK_BYTES 32768
MD_INLINE void md_ask(const void *at) { __builtin_prefetch(at, 0, 2); }

/* ---- Streaming stores bypass the caches, so that a line that is fully written is not read first. */
MD_INLINE void md_stream(void *to, const void *from, int n_bytes)
{
#ifdef __clang__
    typedef float piece MD_VECTOR(16);
    for (int i = 0; i + 16 <= n_bytes; i += 16) {
        piece v;
        __builtin_memcpy(&v, (const char *)from + i, 16);
        __builtin_nontemporal_store(v, (piece *)((char *)to + i));
    }
    if (n_bytes < 16)
        __builtin_memcpy(to, from, (unsigned long)n_bytes);
#else
    int i = 0;
#define MD_PIECE(bytes, builtin)                                                                                       \
    for (; i + bytes <= n_bytes; i += bytes) {                                                                         \
        float v MD_VECTOR(bytes);                                                                                      \
        __builtin_memcpy(&v, (const char *)from + i, bytes);                                                           \
        builtin((float *)((char *)to + i), v);                                                                         \
    }
#ifdef __AVX512F__
    MD_PIECE(64, __builtin_ia32_movntps512)
#endif
#ifdef __AVX__
    MD_PIECE(32, __builtin_ia32_movntps256)
#endif
#ifdef __SSE__
    MD_PIECE(16, __builtin_ia32_movntps)
#endif
#undef MD_PIECE
    __builtin_memcpy((char *)to + i, (const char *)from + i, (unsigned long)(n_bytes - i));
#endif
}
/* Orders streaming stores for other threads. */
MD_INLINE void md_stream_end(void)
{
#ifdef __SSE__
    __builtin_ia32_sfence();
#endif
}

/* ---- The first n elements of a vector. The rest is masked, or a loop leaves it out: it must not be touched. */
#if defined(__AVX512BW__) && defined(__BMI2__) && MD_VL == 16
#define MD_MASKED_BYTES /* loads and stores of some bytes of a vector */
typedef char md_bytes MD_VECTOR(64);
MD_INLINE unsigned long long md_head_bytes(int n_bytes) { return n_bytes >= 64 ? ~0ull : (1ull << n_bytes) - 1; }
/* The lanes of m, from the first of `bits` on, as bytes: each stands for as many as an element has. */
MD_INLINE unsigned long long md_lane_bytes(unsigned long long bits, int size)
{
    const unsigned long long one = (1ull << size) - 1; /* the bytes of an element */
    return __builtin_ia32_pdep_di(bits, ~0ull / one) * one;
}
/* The lanes of m from consecutive elements: what is masked is not touched. */
#define MD_MASKED_UNIT(T, E, W)                                                                                        \
    MD_INLINE W md_part_##T##_mu(const void *t, int64_t o, md_b m)                                                     \
    {                                                                                                                  \
        union { W w; md_bytes b[(sizeof(W) + 63) / 64]; } u;                                                           \
        if (sizeof(E) == 4) {                                                                                          \
            u.b[0] = (md_bytes)__builtin_ia32_loaddqusi512_mask((const int *)t + o, (md_b){0}, md_bits_b(m));          \
            return u.w;                                                                                                \
        }                                                                                                              \
        for (int i = 0; i < (int)(sizeof u / 64); i++)                                                                 \
            u.b[i] = __builtin_ia32_loaddquqi512_mask((const void *)((const char *)((const E *)t + o) + 64 * i),       \
                (md_bytes){0}, md_lane_bytes(md_bits_b(m) >> (i * (64 / (int)sizeof(E))), (int)sizeof(E)));            \
        return u.w;                                                                                                    \
    }
#define MD_HEAD(T, E, W)                                                                                               \
    MD_INLINE W md_part_##T(const void *t, int64_t o, int n)                                                           \
    {                                                                                                                  \
        union { W w; md_bytes b[(sizeof(W) + 63) / 64]; } u;                                                           \
        for (int i = 0, rest = n * (int)sizeof(E); i < (int)(sizeof u / 64); i++, rest -= 64)                          \
            u.b[i] = __builtin_ia32_loaddquqi512_mask((const void *)((const char *)((const E *)t + o) + 64 * i), \
                (md_bytes){0}, \
                                                      md_head_bytes(rest < 0 ? 0 : rest));                             \
        return u.w;                                                                                                    \
    }                                                                                                                  \
    MD_INLINE void md_put_part_##T(void *t, int64_t o, W w, int n)                                                     \
    {                                                                                                                  \
        union { W w; md_bytes b[(sizeof(W) + 63) / 64]; } u;                                                           \
        u.w = w;                                                                                                       \
        for (int i = 0, rest = n * (int)sizeof(E); i < (int)(sizeof u / 64); i++, rest -= 64)                          \
            __builtin_ia32_storedquqi512_mask((void *)((char *)((E *)t + o) + 64 * i), u.b[i], \
                md_head_bytes(rest < 0 ? 0 : rest)); \
    }
#else
/* AVX2 loads and stores some elements of four bytes of a vector; of others one after the other. */
#if defined(__AVX2__) && MD_VL == 8
#define MD_HAS_WORDS(E) (sizeof(E) == 4)
MD_INLINE md_b md_get_words(const void *from, md_b m) { return (md_b)__builtin_ia32_maskloadd256(from, m); }
MD_INLINE void md_put_words(void *to, md_b w, md_b m) { __builtin_ia32_maskstored256(to, m, w); }
#else
#define MD_HAS_WORDS(E) 0
MD_INLINE md_b md_get_words(const void *from, md_b m) { return (void)from, m; }
MD_INLINE void md_put_words(void *to, md_b w, md_b m) { (void)to, (void)w, (void)m; }
#endif
#define MD_MASKED_UNIT(T, E, W)                                                                                        \
    MD_INLINE W md_part_##T##_mu(const void *t, int64_t o, md_b m)                                                     \
    {                                                                                                                  \
        union { W w; md_b b; } u;                                                                                      \
        if (!MD_HAS_WORDS(E))                                                                                          \
            return md_part_##T##_m(t, o, 1, MD_VL, m);                                                                 \
        u.b = md_get_words((const E *)t + o, m);                                                                       \
        return u.w;                                                                                                    \
    }
#define MD_HEAD(T, E, W)                                                                                               \
    MD_OUTLINE W md_some_##T(const void *t, int64_t o, int n)                                                          \
    {                                                                                                                  \
        W w = {0};                                                                                                     \
        for (int l = 0; l < n; l++)                                                                                    \
            w[l] = ((const E *)t)[o + l];                                                                              \
        return w;                                                                                                      \
    }                                                                                                                  \
    MD_OUTLINE void md_put_some_##T(void *t, int64_t o, W w, int n)                                                    \
    {                                                                                                                  \
        for (int l = 0; l < n; l++)                                                                                    \
            ((E *)t)[o + l] = w[l];                                                                                    \
    }                                                                                                                  \
    MD_INLINE W md_part_##T(const void *t, int64_t o, int n)                                                           \
    {                                                                                                                  \
        union { W w; md_b b; } u;                                                                                      \
        if (!MD_HAS_WORDS(E))                                                                                          \
            return md_some_##T(t, o, n);                                                                               \
        u.b = md_get_words((const E *)t + o, md_head_b(n));                                                            \
        return u.w;                                                                                                    \
    }                                                                                                                  \
    MD_INLINE void md_put_part_##T(void *t, int64_t o, W w, int n)                                                     \
    {                                                                                                                  \
        union { W w; md_b b; } u;                                                                                      \
        u.w = w;                                                                                                       \
        if (MD_HAS_WORDS(E))                                                                                           \
            md_put_words((E *)t + o, u.b, md_head_b(n));                                                               \
        else                                                                                                           \
            md_put_some_##T(t, o, w, n);                                                                               \
    }
#endif

#define MD_OP_ADD(a, b) ((a) + (b))
#define MD_OP_OR(a, b) ((a) | (b))
/* The product that goes with a sum. */
#define MD_OP_ADD_TIMES(a, b) ((a) * (b))
#define MD_OP_OR_TIMES(a, b) ((a) & (b))

/* memory = op(memory, v). */
#define MD_UPDATE(T, name, V, C, OP, OP1)                                                                              \
    MD_INLINE void md_update_##name##_##T##_s(void *t, int64_t o, C v) \
        { md_store_##T##_s(t, o, OP1(md_load_##T##_s(t, o), v)); } \
    MD_INLINE void md_update_##name##_##T##_unit(void *t, int64_t o, V v, int n)                                       \
    {                                                                                                                  \
        md_store_##T##_unit(t, o, OP(md_load_##T##_unit(t, o, n), v), n);                                              \
    }                                                                                                                  \
    MD_OUTLINE void md_update_##name##_##T##_strided(void *t, int64_t o, int64_t s, V v, int n)                        \
    {                                                                                                                  \
        for (int l = 0; l < n; l++)                                                                                    \
            md_update_##name##_##T##_s(t, o + l * s, (C)MD_ONE_##T(v[l]));                                             \
    }                                                                                                                  \
    MD_OUTLINE void md_update_##name##_##T##_scatter(void *t, md_i o, V v, int n, md_b m)                              \
    {                                                                                                                  \
        for (int l = 0; l < n; l++)                                                                                    \
            if (m[l])                                                                                                  \
                md_update_##name##_##T##_s(t, o[l], (C)MD_ONE_##T(v[l]));                                              \
    }

/* Where lanes of a gather are not wanted, they read a zero: its offset from the tensor. 32 bits need not hold that. */
#ifdef MD_NARROW
#define MD_SAFE_OFFSETS(T, E)                                                                                          \
    MD_INLINE int md_safe_##T(md_i *o, const E *e, md_b m) { (void)o, (void)e; return md_all_b(m); }
#else
#define MD_SAFE_OFFSETS(T, E)                                                                                          \
    static const E md_zeros_##T[3] __attribute__((unused)) = {0};                                                      \
    MD_INLINE int md_safe_##T(md_i *o, const E *e, md_b m)                                                             \
    {                                                                                                                  \
        const int64_t zero = ((int64_t)(uintptr_t)(md_zeros_##T + 1) - (int64_t)(uintptr_t)e) / (int64_t)sizeof(E);    \
        *o = md_where_i(m, *o, md_splat_i(zero));                                                                      \
        return 1;                                                                                                      \
    }
#endif

/* Every other element from the first on, of two vectors of which the second begins MD_VL - 1 behind the first: nothing
 * beyond the last of them is read. */
#if MD_VL == 16
#define MD_EVERY_OTHER(a, b)                                                                                           \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#elif MD_VL == 8
#define MD_EVERY_OTHER(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#elif MD_VL == 4
#define MD_EVERY_OTHER(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#else
#define MD_EVERY_OTHER(a, b) __builtin_shufflevector(a, b, 0, 3)
#endif
#ifdef MD_MASKED_BYTES
#define MD_HAS_PARTS 1
#else
#define MD_HAS_PARTS 0
#endif

#include "window_loads.h"
/* All of a storage type: T its name, E the C type of an element, W its vector, V and C the compute types, UP, DOWN
 * and UP1, DOWN1 the conversions between them, S, SS the suffixes of V and C, ADD the sum. MD_ONE_T turns a lane of
 * V into C. */
#define MD_STORAGE(T, E, W, V, C, UP, DOWN, UP1, DOWN1, S, SS, ADD)                                                    \
    MD_HEAD(T, E, W)                                                                                                   \
    MD_OUTLINE W md_part_##T##_m(const void *t, int64_t o, int64_t s, int n, md_b m)                                   \
    {                                                                                                                  \
        W w = {0};                                                                                                     \
        for (int l = 0; l < n; l++)                                                                                    \
            if (m[l])                                                                                                  \
                w[l] = ((const E *)t)[o + l * s];                                                                      \
        return w;                                                                                                      \
    }                                                                                                                  \
    MD_MASKED_UNIT(T, E, W)                                                                                            \
    MD_OUTLINE W md_part_##T##_s(const void *t, int64_t o, int64_t s, int n)                                           \
    {                                                                                                                  \
        W w = {0};                                                                                                     \
        for (int l = 0; l < n; l++)                                                                                    \
            w[l] = ((const E *)t)[o + l * s];                                                                          \
        return w;                                                                                                      \
    }                                                                                                                  \
    MD_OUTLINE W md_part_##T##_g(const void *t, md_i o, int n, md_b m)                                                 \
    {                                                                                                                  \
        W w = {0};                                                                                                     \
        for (int l = 0; l < n; l++)                                                                                    \
            if (m[l])                                                                                                  \
                w[l] = ((const E *)t)[o[l]];                                                                           \
        return w;                                                                                                      \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_unit(const void *t, int64_t o, int n)                                                    \
    {                                                                                                                  \
        if (n != MD_VL)                                                                                                \
            return UP(md_part_##T(t, o, n));                                                                           \
        W w;                                                                                                           \
        __builtin_memcpy(&w, (const E *)t + o, sizeof w);                                                              \
        return UP(w);                                                                                                  \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_unit_m(const void *t, int64_t o, int n, md_b m)                                          \
    {                                                                                                                  \
        if (n != MD_VL)                                                                                                \
            m = m & md_head_b(n);                                                                                      \
        else if (md_all_b(m))                                                                                          \
            return md_load_##T##_unit(t, o, MD_VL);                                                                    \
        return UP(md_part_##T##_mu(t, o, m));                                                                          \
    }                                                                                                                  \
    MD_INLINE W md_twos_##T(const void *t, int64_t o, int n)                                                           \
    {                                                                                                                  \
        W a, b;                                                                                                        \
        if (n == MD_VL) {                                                                                              \
            __builtin_memcpy(&a, (const E *)t + o, sizeof a);                                                          \
            __builtin_memcpy(&b, (const E *)t + o + MD_VL - 1, sizeof b);                                              \
        } else {                                                                                                       \
            a = md_part_##T(t, o, 2 * n - 1 < MD_VL ? 2 * n - 1 : MD_VL);                                              \
            b = md_part_##T(t, o + MD_VL - 1, 2 * n - MD_VL);                                                          \
        }                                                                                                              \
        return MD_EVERY_OTHER(a, b);                                                                                   \
    }                                                                                                                  \
    MD_OUTLINE W md_steps_##T(const void *t, int64_t o, int64_t s)                                                     \
    {                                                                                                                  \
        const E *e = (const E *)t + o;                                                                                 \
        return (W)MD_EACH(MD_STRIDED);                                                                                 \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_strided(const void *t, int64_t o, int64_t s, int n)                                      \
    {                                                                                                                  \
        if (s == 2 && sizeof(E) <= 4 && n > 0 && (n == MD_VL || MD_HAS_PARTS))                                         \
            return UP(md_twos_##T(t, o, n));                                                                           \
        if (n != MD_VL)                                                                                                \
            return UP(md_part_##T##_s(t, o, s, n));                                                                    \
        const E *e = (const E *)t + o;                                                                                 \
        return UP(((W)MD_EACH(MD_STRIDED)));                                                                           \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_twos(const void *t, int64_t o, int64_t s, int n)                                         \
    {                                                                                                                  \
        if (s == 2 && sizeof(E) <= 4 && n > 0 && (n == MD_VL || MD_HAS_PARTS))                                         \
            return UP(md_twos_##T(t, o, n));                                                                           \
        return UP(n == MD_VL ? md_steps_##T(t, o, s) : md_part_##T##_s(t, o, s, n));                                   \
    }                                                                                                                  \
    MD_WINDOW_LOADS(T, E, W, V, UP)                                                                                    \
    MD_INLINE V md_load_##T##_strided_m(const void *t, int64_t o, int64_t s, int n, md_b m)                            \
    {                                                                                                                  \
        return UP(md_part_##T##_m(t, o, s, n, m));                                                                     \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_line_m(const void *t, int64_t o, int64_t s, int n, md_b m)                               \
    {                                                                                                                  \
        return s == 1 ? md_load_##T##_unit_m(t, o, n, m) : md_load_##T##_strided_m(t, o, s, n, m);                     \
    }                                                                                                                  \
    MD_SAFE_OFFSETS(T, E)                                                                                              \
    MD_INLINE V md_load_##T##_gather_m(const void *t, md_i o, int n, md_b m)                                           \
    {                                                                                                                  \
        const E *e = (const E *)t;                                                                                     \
        if (n != MD_VL)                                                                                                \
            m = m & md_head_b(n);                                                                                      \
        if (!md_safe_##T(&o, e, m))                                                                                    \
            return UP(md_part_##T##_g(t, o, MD_VL, m));                                                                \
        return UP(((W)MD_EACH(MD_GATHERED)));                                                                          \
    }                                                                                                                  \
    MD_INLINE V md_load_##T##_gather(const void *t, md_i o, int n)                                                     \
    {                                                                                                                  \
        return md_load_##T##_gather_m(t, o, n, ~(md_b){0});                                                            \
    }                                                                                                                  \
    MD_INLINE C md_load_##T##_s(const void *t, int64_t o) { return UP1(((const E *)t)[o]); }                           \
    MD_OUTLINE void md_put_##T(void *t, int64_t o, int64_t s, W w, int n)                                              \
    {                                                                                                                  \
        for (int l = 0; l < n; l++)                                                                                    \
            ((E *)t)[o + l * s] = w[l];                                                                                \
    }                                                                                                                  \
    MD_OUTLINE void md_put_##T##_g(void *t, md_i o, W w, int n, md_b m)                                                \
    {                                                                                                                  \
        for (int l = 0; l < n; l++)                                                                                    \
            if (m[l])                                                                                                  \
                ((E *)t)[o[l]] = w[l];                                                                                 \
    }                                                                                                                  \
    MD_INLINE void md_store_##T##_unit(void *t, int64_t o, V v, int n)                                                 \
    {                                                                                                                  \
        W w = DOWN(v);                                                                                                 \
        if (n == MD_VL)                                                                                                \
            __builtin_memcpy((E *)t + o, &w, sizeof w);                                                                \
        else                                                                                                           \
            md_put_part_##T(t, o, w, n);                                                                               \
    }                                                                                                                  \
    MD_INLINE void md_store_##T##_unit_nt(void *t, int64_t o, V v, int n)                                              \
    {                                                                                                                  \
        W w = DOWN(v);                                                                                                 \
        if (n == MD_VL && (uintptr_t)((E *)t + o) % sizeof w == 0)                                                     \
            md_stream((E *)t + o, &w, sizeof w);                                                                       \
        else if (n == MD_VL)                                                                                           \
            __builtin_memcpy((E *)t + o, &w, sizeof w); \
        else                                                                                                           \
            md_put_part_##T(t, o, w, n);                                                                               \
    }                                                                                                                  \
    MD_INLINE int64_t md_lead_##T(const void *t, int64_t o)                                                            \
    {                                                                                                                  \
        const uintptr_t at = (uintptr_t)((const E *)t + o), past = at % sizeof(W);                                     \
        return past == 0 || at % sizeof(E) != 0 ? 0 : (int64_t)((sizeof(W) - past) / sizeof(E));                       \
    }                                                                                                                  \
    MD_INLINE void md_store_##T##_strided(void *t, int64_t o, int64_t s, V v, int n) \
        { md_put_##T(t, o, s, DOWN(v), n); } \
    MD_INLINE void md_store_##T##_scatter(void *t, md_i o, V v, int n, md_b m) \
        { md_put_##T##_g(t, o, DOWN(v), n, m); } \
    MD_INLINE void md_store_##T##_s(void *t, int64_t o, C v) { ((E *)t)[o] = DOWN1(v); }                               \
    MD_UPDATE(T, add, V, C, ADD, ADD)                                                                                  \
    MD_UPDATE(T, mul, V, C, ADD##_TIMES, ADD##_TIMES)                                                                  \
    MD_UPDATE(T, max, V, C, md_max_##S, md_max_##SS)                                                                   \
    MD_UPDATE(T, min, V, C, md_min_##S, md_min_##SS)

#include "memory_types.h"
/* clang-format on */

#endif
