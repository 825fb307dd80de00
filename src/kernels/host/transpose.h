/* Transposes MD_VL x MD_VL values of f32 in registers: pairs, pairs of pairs within 16 bytes, then 16-byte blocks. */
#ifndef MD_HOST_TRANSPOSE_H
#define MD_HOST_TRANSPOSE_H

/* clang-format off */
#define MD_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#if MD_VL == 16
#define MD_PAIR_LOW(a, b) MD_SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define MD_PAIR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define MD_FOUR_LOW(a, b) MD_SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define MD_FOUR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define MD_BLOCKS_EVEN(a, b) MD_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define MD_BLOCKS_ODD(a, b) MD_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif MD_VL == 8
#define MD_PAIR_LOW(a, b) MD_SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define MD_PAIR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define MD_FOUR_LOW(a, b) MD_SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define MD_FOUR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define MD_BLOCKS_EVEN(a, b) MD_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define MD_BLOCKS_ODD(a, b) MD_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define MD_PAIR_LOW(a, b) MD_SHUFFLE(a, b, 0, 4, 1, 5)
#define MD_PAIR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 6, 3, 7)
#define MD_FOUR_LOW(a, b) MD_SHUFFLE(a, b, 0, 1, 4, 5)
#define MD_FOUR_HIGH(a, b) MD_SHUFFLE(a, b, 2, 3, 6, 7)
#endif
/* clang-format on */

MD_INLINE void md_transpose(md_f v[MD_VL])
{
    md_f t[MD_VL], u[MD_VL];
    MD_FOR_STEP (i, MD_VL, 2) {
        t[i] = MD_PAIR_LOW(v[i], v[i + 1]);
        t[i + 1] = MD_PAIR_HIGH(v[i], v[i + 1]);
    }
    MD_FOR_STEP (i, MD_VL, 4) {
        u[i] = MD_FOUR_LOW(t[i], t[i + 2]);
        u[i + 1] = MD_FOUR_HIGH(t[i], t[i + 2]);
        u[i + 2] = MD_FOUR_LOW(t[i + 1], t[i + 3]);
        u[i + 3] = MD_FOUR_HIGH(t[i + 1], t[i + 3]);
    }
    MD_FOR (q, 4) {
#if MD_VL == 16
        md_f a = MD_BLOCKS_EVEN(u[q], u[4 + q]), b = MD_BLOCKS_EVEN(u[8 + q], u[12 + q]);
        md_f c = MD_BLOCKS_ODD(u[q], u[4 + q]), d = MD_BLOCKS_ODD(u[8 + q], u[12 + q]);
        v[q] = MD_BLOCKS_EVEN(a, b);
        v[4 + q] = MD_BLOCKS_EVEN(c, d);
        v[8 + q] = MD_BLOCKS_ODD(a, b);
        v[12 + q] = MD_BLOCKS_ODD(c, d);
#elif MD_VL == 8
        v[q] = MD_BLOCKS_EVEN(u[q], u[4 + q]);
        v[4 + q] = MD_BLOCKS_ODD(u[q], u[4 + q]);
#else
        v[q] = u[q];
#endif
    }
}

#endif
