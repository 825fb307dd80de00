/* Operands of 4, 8 and 16 bits: from memory to shared memory as they are, from there to a thread's registers, widened,
 * and multiplied on tensor cores. A part of gemm_quantised.cu, whose head names the macros. */
#ifndef MD_CUDA_QUANTISED_H
#define MD_CUDA_QUANTISED_H

#define MD_AS_TEXT_(a) #a
#define MD_AS_TEXT(a) MD_AS_TEXT_(a)

#include "races.h"

enum { MD_OF_BF16, MD_OF_F16, MD_OF_F8E4M3, MD_OF_F8E5M2, MD_OF_I8, MD_OF_U8, MD_OF_I4, MD_OF_U4, MD_OF_F32 };

template <int kind> struct md_kind {
    enum { BITS = kind <= MD_OF_F16 ? 16 : kind <= MD_OF_U8 ? 8 : 4, PIECE = 128 / BITS /* elements of 16 bytes */ };
};

/* A tile's lines along K in shared memory, in pieces of 16 bytes. Pieces of neighbouring lines are swapped so that what
 * the threads of a warp load at once is in different banks: 4 threads load 32 elements of a line, eight lines at once,
 * or as many of them as 128 bytes hold. */
template <int kind> struct md_lines {
    enum { BITS = md_kind<kind>::BITS, BYTES = MD_BK * BITS / 8, PIECES = BYTES / 16 };
    static __device__ __forceinline__ int byte(int line, int piece)
    {
        const int swap = BITS == 16    ? (line & 1) << 2
                         : BITS == 8   ? (line & 3) << 1
                         : BYTES == 64 ? line >> 1 & 3
                                       : line & 7;
        return line * BYTES + (piece ^ swap) * 16;
    }
};

/* ---- From memory to shared memory */
enum { BY_COPY, BY_ELEMENT, BY_VALUE };
typedef struct md_source {
    md_view view;
    int64_t batch, row, rows, end; /* the tile's first row; all rows; K of the slice */
    int how;
} md_source;

template <int which, int kind>
MD_INLINE md_source md_source_make(const md_params *p, int64_t batch, int64_t row, int64_t rows, int64_t end)
{
    md_source s;
    s.batch = batch, s.row = row, s.rows = rows, s.end = end;
    s.view.base = s.view.row = s.view.step = 0;
    s.how = md_operand_view(p, which, batch, &s.view) ? BY_ELEMENT : BY_VALUE;
    if (s.how == BY_ELEMENT && s.view.step == 1 && s.view.row % md_kind<kind>::PIECE == 0 &&
        s.view.base % md_kind<kind>::PIECE == 0 && (uint64_t)md_operand_address(p, which, 0) % 16 == 0)
        s.how = BY_COPY;
    return s;
}

/* The bits of a value as memory holds them. */
template <int kind> MD_INLINE uint32_t md_bits_of(md_acc v)
{
    switch (kind) {
    case MD_OF_BF16:
        return md_down1_bf16((float)v);
    case MD_OF_F16:
        return md_down1_f16((float)v);
    case MD_OF_F8E4M3:
        return md_down1_f8e4m3((float)v);
    case MD_OF_F8E5M2:
        return md_down1_f8e5m2((float)v);
    default:
        return (uint32_t)(int)v & (md_kind<kind>::BITS == 8 ? 255 : 15);
    }
}

/* n elements of a piece, one by one; the others are zeros. `at` and `step`: their places in the tensor. Arguments are
 * no struct, so that none is in memory. */
template <int which, int kind>
MD_OUTLINE uint4 md_each(const md_params *p, int how, int64_t batch, int64_t row, int64_t k, int64_t at, int64_t step,
                         int n)
{
    enum { BITS = md_kind<kind>::BITS, WORD = 32 / BITS };
    uint32_t w[4] = {0, 0, 0, 0};
    MD_FOR (i, 4)
        MD_ROLLED for (int e = 0; e < WORD && i * WORD + e < n; e++)
        {
            const int64_t e_k = i * WORD + e;
            const md_acc v = how == BY_VALUE ? md_operand_at(p, which, batch, row, k + e_k)
                                             : md_operand_get(p, which, at + e_k * step);
            w[i] |= md_bits_of<kind>(v) << e * BITS;
        }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* A thread's pieces of a tile, stage after stage: what is the same for all stages. */
template <int which, int kind, int size, int threads> struct md_feed {
    enum {
        PIECES = md_lines<kind>::PIECES,
        ALL = size * PIECES,
        N = (ALL + threads - 1) / threads,
        PIECE = md_kind<kind>::PIECE,
        BITS = md_kind<kind>::BITS,
        APART = threads / PIECES /* lines from one piece to the next */
    };
    const char *from; /* of the next stage */
    int64_t apart; /* bytes from one piece to the next */
    unsigned there; /* bit i: that line is a row */
    int line, piece;

    __device__ __forceinline__ void begin(const md_params *p, const md_source &s, int64_t k)
    {
        line = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
        from = (const char *)md_operand_address(p, which, 0) +
               (s.view.base + (s.row + line) * s.view.row + k + piece * PIECE) * BITS / 8;
        apart = APART * s.view.row * BITS / 8;
        there = 0;
        MD_FOR (i, N)
            there |= (unsigned)(line + i * APART < size && s.row + line + i * APART < s.rows) << i;
    }

    /* Starts copying the stage of the steps from k on. */
    __device__ __forceinline__ void fetch(uint32_t to, const md_params *p, const md_source &s, int64_t k)
    {
        const int n = max((int)md_least(s.end - k - piece * PIECE, PIECE), 0);
        MD_FOR (i, N) {
            const int r = line + i * APART;
            if (ALL % threads && r >= size)
                break;
            const bool is_there = there >> i & 1;
            const uint32_t at = to + md_lines<kind>::byte(r, piece);
            if (s.how == BY_COPY) {
                const char *x = is_there && n > 0 ? from + i * apart : (const char *)md_operand_address(p, which, 0);
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(x),
                             "r"(is_there ? (n * BITS + 7) / 8 : 0)
                             : "memory");
                continue;
            }
            const int64_t row = s.row + r, first = k + piece * PIECE;
            const uint4 v = md_each<which, kind>(p, s.how, s.batch, row, first,
                                                 s.view.base + row * s.view.row + first * s.view.step, s.view.step,
                                                 is_there ? n : 0);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                         : "memory");
        }
        from += MD_BK * BITS / 8;
    }
};

/* ---- From shared memory to registers: eight elements */
template <int kind> MD_INLINE void md_load_bits(uint32_t (&w)[md_kind<kind>::BITS / 4], uint32_t from)
{
    if constexpr (md_kind<kind>::BITS == 16)
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                     : "r"(from)
                     : "memory");
    else if constexpr (md_kind<kind>::BITS == 8)
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(from) : "memory");
    else
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(w[0]) : "r"(from) : "memory");
}

#if MD_IS_INTEGER
typedef int md_sum;
enum { MD_FRAGMENT = 2 };
#else
typedef float md_sum;
enum { MD_FRAGMENT = 4 };
#endif
typedef struct md_fragment {
    uint32_t w[MD_FRAGMENT]; /* eight elements as they are multiplied, in order */
} md_fragment;

/* Eight halves of bytes as bytes of signed integers. */
template <int kind> MD_INLINE void md_widen_halves(uint32_t (&out)[2], uint32_t w)
{
    md_spread(out[0], out[1], w);
    if (kind == MD_OF_I4)
        MD_FOR (i, 2)
            out[i] |= (out[i] & 0x08080808u) * 0x1e;
}

#if !MD_IS_INTEGER
#define MD_IS_BF16(type) MD_IS_BF16_##type
#define MD_IS_BF16_bf16 1
#define MD_IS_BF16_f16 0
#define MD_IS_BF16_OF(type) MD_IS_BF16(type)

/* Two f32 that 16 bits hold. */
MD_INLINE uint32_t md_pack_two(float a, float b)
{
    if (MD_IS_BF16_OF(MD_MULTIPLY))
        return __byte_perm(md_u32(a), md_u32(b), 0x7632);
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
}

/* Two 16-bit values less a constant: one instruction that does not round. */
MD_INLINE uint32_t md_less(uint32_t two, uint32_t negative)
{
    uint32_t r;
    if (MD_IS_BF16_OF(MD_MULTIPLY))
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(two), "r"(0x3f803f80u), "r"(negative));
    else
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(two), "r"(negative));
    return r;
}

/* Two 8-bit reals, the low bytes of `two`. */
template <bool is_e5m2> MD_INLINE uint32_t md_widen_f8(uint32_t two)
{
    if (is_e5m2 && !MD_IS_BF16_OF(MD_MULTIPLY)) /* its first byte */
        return __byte_perm(two, 0, 0x1404);
#if __CUDA_ARCH__ >= 890
    if (!MD_IS_BF16_OF(MD_MULTIPLY)) {
        uint32_t r;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)two));
        return r;
    }
#endif
    float a, b;
    md_unpack_f8<is_e5m2>(a, b, two & 0xffffu);
    return md_pack_two(a, b);
}

/* Four integers of a word. In bf16 an f32 has one as its last bits, since the type's own last bits are too few. */
template <bool is_signed> MD_INLINE void md_widen_bytes(uint32_t (&out)[2], uint32_t w)
{
    const uint32_t u = is_signed ? w ^ 0x80808080u : w;
    if (!MD_IS_BF16_OF(MD_MULTIPLY)) {
        MD_FOR (i, 2)
            out[i] = md_less(__byte_perm(u, 0x64646464u, i ? 0x4342 : 0x4140), is_signed ? 0xe480e480u : 0xe400e400u);
        return;
    }
    float f[4];
    MD_FOR (i, 4)
        f[i] = __fsub_rn(md_f32(__byte_perm(u, 0x4b000000u, 0x7540 + i)), is_signed ? 8388736.0f : 8388608.0f);
    MD_FOR (i, 2)
        out[i] = md_pack_two(f[2 * i], f[2 * i + 1]);
}

/* Eight halves of bytes. As a real's last bits they are 0 to 15 above a power of two. */
template <bool is_signed> MD_INLINE void md_widen_to_reals(uint32_t (&out)[4], uint32_t w)
{
    enum : uint32_t { POWER = MD_IS_BF16_OF(MD_MULTIPLY) ? 0x43434343u : 0x64646464u };
    const uint32_t negative =
        MD_IS_BF16_OF(MD_MULTIPLY) ? (is_signed ? 0xc308c308u : 0xc300c300u) : (is_signed ? 0xe408e408u : 0xe400e400u);
    uint32_t bytes[2];
    md_spread(bytes[0], bytes[1], is_signed ? w ^ 0x88888888u : w);
    MD_FOR (i, 4)
        out[i] = md_less(__byte_perm(bytes[i / 2], POWER, i % 2 ? 0x4342 : 0x4140), negative);
}
#endif

template <int kind> MD_INLINE void md_fragment_widen(md_fragment &out, const uint32_t (&w)[md_kind<kind>::BITS / 4])
{
#if MD_IS_INTEGER
    if constexpr (md_kind<kind>::BITS == 8)
        out.w[0] = w[0], out.w[1] = w[1];
    else
        md_widen_halves<kind>(out.w, w[0]);
#else
    if constexpr (md_kind<kind>::BITS == 16) {
        MD_FOR (i, 4)
            out.w[i] = w[i];
    } else if constexpr (md_kind<kind>::BITS == 4) {
        md_widen_to_reals<kind == MD_OF_I4>(out.w, w[0]);
    } else if constexpr (kind == MD_OF_I8 || kind == MD_OF_U8) {
        MD_FOR (i, 2) {
            uint32_t two[2];
            md_widen_bytes<kind == MD_OF_I8>(two, w[i]);
            out.w[2 * i] = two[0], out.w[2 * i + 1] = two[1];
        }
    } else {
        MD_FOR (i, 4)
            out.w[i] = md_widen_f8<kind == MD_OF_F8E5M2>(w[i / 2] >> i % 2 * 16);
    }
#endif
}

/* Where the elements of a line of a tile are that are this thread's in a step: eight of 32, by its place among four.
 * Those of the line 8 n further are 8 n lines behind. */
template <int kind> MD_INLINE uint32_t md_fragment_at(uint32_t tile, int line, int step)
{
    enum { BITS = md_kind<kind>::BITS };
    const int byte = threadIdx.x % 4 * BITS;
    return tile + md_lines<kind>::byte(line, step * (BITS / 4) + byte / 16) + byte % 16;
}

template <int kind> MD_INLINE void md_fragment_load(md_fragment &out, uint32_t at)
{
    uint32_t w[md_kind<kind>::BITS / 4];
    md_load_bits<kind>(w, at);
    md_fragment_widen<kind>(out, w);
}

MD_INLINE md_fragment md_fragment_of_ones(void)
{
    md_fragment r;
    MD_FOR (i, MD_FRAGMENT)
#if MD_IS_INTEGER
        r.w[i] = 0x01010101u;
#else
        r.w[i] = MD_IS_BF16_OF(MD_MULTIPLY) ? 0x3f803f80u : 0x3c003c00u;
#endif
    return r;
}

/* 16 rows (a[0]: the first eight) by 8 columns by 32 of K, added to c, or c itself. */
template <bool is_first> MD_INLINE void md_mma_step(md_sum (&c)[4], const md_fragment (&a)[2], const md_fragment &b)
{
    const md_sum none = 0;
#if MD_IS_INTEGER
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." MD_AS_TEXT(MD_SIGN_0) "." MD_AS_TEXT(
                     MD_SIGN_1) ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
                 : "r"(a[0].w[0]), "r"(a[1].w[0]), "r"(a[0].w[1]), "r"(a[1].w[1]), "r"(b.w[0]), "r"(b.w[1]),
                   "r"(is_first ? none : c[0]), "r"(is_first ? none : c[1]), "r"(is_first ? none : c[2]),
                   "r"(is_first ? none : c[3]));
#else
    MD_FOR_STEP (h, 4, 2)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MD_AS_TEXT(MD_MULTIPLY) "." MD_AS_TEXT(
                         MD_MULTIPLY) ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                     : "r"(a[0].w[h]), "r"(a[1].w[h]), "r"(a[0].w[h + 1]), "r"(a[1].w[h + 1]), "r"(b.w[h]),
                       "r"(b.w[h + 1]), "f"(is_first && h == 0 ? none : c[0]), "f"(is_first && h == 0 ? none : c[1]),
                       "f"(is_first && h == 0 ? none : c[2]), "f"(is_first && h == 0 ? none : c[3]));
#endif
}

/* ---- Scales and zeros */
template <int kind> struct md_qparam {
    enum { BYTES = kind == MD_OF_F32 ? 4 : 2 };
    /* A load alone: nothing waits for it. */
    static __device__ __forceinline__ uint32_t bits(const uint8_t *from, int i)
    {
        if constexpr (kind == MD_OF_F32)
            return ((const uint32_t *)from)[i];
        else
            return ((const uint16_t *)from)[i];
    }
    static __device__ __forceinline__ float value(uint32_t bits)
    {
        if constexpr (kind == MD_OF_F32)
            return md_f32(bits);
        else if constexpr (kind == MD_OF_BF16)
            return md_f32(bits << 16);
        else
            return md_up1_f16((uint16_t)bits);
    }
    static __device__ __forceinline__ float get(const uint8_t *from, int i) { return value(bits(from, i)); }
    static __device__ __forceinline__ void put(uint32_t to, float v)
    {
        if constexpr (kind == MD_OF_F32)
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
        else
            asm volatile("st.shared.u16 [%0], %1;" ::"r"(to),
                         "h"(kind == MD_OF_BF16 ? md_down1_bf16(v) : md_down1_f16(v))
                         : "memory");
    }
};

/* 4, 8 or 16 bytes, the last of which may be zeros. */
template <int bytes> MD_INLINE void md_copy_small(uint32_t to, const void *from, int n)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(n) : "memory");
}

#endif
