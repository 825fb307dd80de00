/* Scans over the lanes of a vector, by steps of 1, 2, 4, ... lanes (Hillis and Steele, 1986), with a carry from vector
 * to vector. Wide types are scanned by halves, since GCC permutes nothing wider than a register. */
#ifndef MD_HOST_LANE_SCAN_H
#define MD_HOST_LANE_SCAN_H

/* clang-format off */
/* Combines lane l of v with lane l - 1, l - 2, l - 4, ... (UP), or l + 1, l + 2, ... (DOWN), and with id where there is
 * none. _ONE: moves by one lane. */
#define MD_STEP(op, v, id, ...) v = op(v, __builtin_shufflevector(v, id, __VA_ARGS__));
#define MD_UP16(op, v, id) \
    MD_STEP(op, v, id, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14) \
    MD_STEP(op, v, id, 16, 17, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) \
    MD_STEP(op, v, id, 16, 17, 18, 19, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) \
    MD_STEP(op, v, id, 16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7)
#define MD_UP16_ONE(v, id) __builtin_shufflevector(v, id, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define MD_DOWN16(op, v, id) \
    MD_STEP(op, v, id, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16) \
    MD_STEP(op, v, id, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17) \
    MD_STEP(op, v, id, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19) \
    MD_STEP(op, v, id, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#define MD_DOWN16_ONE(v, id) __builtin_shufflevector(v, id, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
#define MD_UP8(op, v, id) \
    MD_STEP(op, v, id, 8, 0, 1, 2, 3, 4, 5, 6) \
    MD_STEP(op, v, id, 8, 9, 0, 1, 2, 3, 4, 5) \
    MD_STEP(op, v, id, 8, 9, 10, 11, 0, 1, 2, 3)
#define MD_UP8_ONE(v, id) __builtin_shufflevector(v, id, 8, 0, 1, 2, 3, 4, 5, 6)
#define MD_DOWN8(op, v, id) \
    MD_STEP(op, v, id, 1, 2, 3, 4, 5, 6, 7, 8) \
    MD_STEP(op, v, id, 2, 3, 4, 5, 6, 7, 8, 9) \
    MD_STEP(op, v, id, 4, 5, 6, 7, 8, 9, 10, 11)
#define MD_DOWN8_ONE(v, id) __builtin_shufflevector(v, id, 1, 2, 3, 4, 5, 6, 7, 8)
#define MD_UP4(op, v, id) \
    MD_STEP(op, v, id, 4, 0, 1, 2) \
    MD_STEP(op, v, id, 4, 5, 0, 1)
#define MD_UP4_ONE(v, id) __builtin_shufflevector(v, id, 4, 0, 1, 2)
#define MD_DOWN4(op, v, id) \
    MD_STEP(op, v, id, 1, 2, 3, 4) \
    MD_STEP(op, v, id, 2, 3, 4, 5)
#define MD_DOWN4_ONE(v, id) __builtin_shufflevector(v, id, 1, 2, 3, 4)
#define MD_UP2(op, v, id) MD_STEP(op, v, id, 2, 0)
#define MD_UP2_ONE(v, id) __builtin_shufflevector(v, id, 2, 0)
#define MD_DOWN2(op, v, id) MD_STEP(op, v, id, 1, 2)
#define MD_DOWN2_ONE(v, id) __builtin_shufflevector(v, id, 1, 2)

#define MD_GLUE_(a, b, c) a##b##c
#define MD_GLUE(a, b, c) MD_GLUE_(a, b, c)
#if MD_VL == 16
#define MD_HALF 8
#elif MD_VL == 8
#define MD_HALF 4
#else
#define MD_HALF 2
#endif

#define MD_OP_MUL(a, b) ((a) * (b))
MD_INLINE md_dh md_max_dh(md_dh a, md_dh b)
    { md_ih c = (md_ih)(a > b) | (md_ih)(a != a); return (md_dh)(((md_ih)a & c) | ((md_ih)b & ~c)); }
MD_INLINE md_dh md_min_dh(md_dh a, md_dh b)
    { md_ih c = (md_ih)(a < b) | (md_ih)(a != a); return (md_dh)(((md_ih)a & c) | ((md_ih)b & ~c)); }
MD_INLINE md_ih md_max_ih(md_ih a, md_ih b) { md_ih c = (md_ih)(a > b); return (a & c) | (b & ~c); }
MD_INLINE md_ih md_min_ih(md_ih a, md_ih b) { md_ih c = (md_ih)(a < b); return (a & c) | (b & ~c); }
MD_INLINE md_dh md_splat_dh(double a) { return a - (md_dh){0}; }
MD_INLINE md_ih md_splat_ih(int64_t a) { return a + (md_ih){0}; }

/* md_scan_<name>_<s>(v, carry, id, exclusive, reverse): the scan of v, continuing that of carry (reverse: from the last
 * lane down); then carry includes v. Sums and products of f32 are carried in f64, so that long rows lose no bits. */
#define MD_SCAN_NARROW(name, s, vec, op, total, total_op)                                                              \
    MD_INLINE vec md_scan_##name##_##s(vec v, total *carry, vec id, int exclusive, int reverse)                        \
    {                                                                                                                  \
        const vec before = md_splat_##s(*carry);                                                                       \
        if (reverse) {                                                                                                 \
            MD_GLUE(MD_DOWN, MD_VL, )(op, v, id)                                                                       \
        } else {                                                                                                       \
            MD_GLUE(MD_UP, MD_VL, )(op, v, id)                                                                         \
        }                                                                                                              \
        *carry = total_op(*carry, (total)v[reverse ? 0 : MD_VL - 1]);                                                  \
        v = op(before, v);                                                                                             \
        if (exclusive)                                                                                                 \
            v = reverse ? MD_GLUE(MD_DOWN, MD_VL, _ONE)(v, before) : MD_GLUE(MD_UP, MD_VL, _ONE)(v, before);           \
        return v;                                                                                                      \
    }
MD_SCAN_NARROW(sum, f, md_f, MD_OP_ADD, double, MD_OP_ADD)
MD_SCAN_NARROW(prod, f, md_f, MD_OP_MUL, double, MD_OP_MUL)
MD_SCAN_NARROW(max, f, md_f, md_max_f, float, md_max_sf)
MD_SCAN_NARROW(min, f, md_f, md_min_f, float, md_min_sf)
#define MD_BIT(x) ((x) != 0)
#define MD_OR_BIT(a, b) (MD_BIT(a) | MD_BIT(b))
#define MD_AND_BIT(a, b) (MD_BIT(a) & MD_BIT(b))
MD_SCAN_NARROW(max, b, md_b, md_max_b, int, MD_OR_BIT)
MD_SCAN_NARROW(min, b, md_b, md_min_b, int, MD_AND_BIT)

#define MD_SCAN_WIDE(name, s, vec, half, op, total, total_op)                                                          \
    MD_INLINE vec md_scan_##name##_##s(vec v, total *carry, vec id, int exclusive, int reverse)                        \
    {                                                                                                                  \
        const half none = md_low_##s(id), before = md_splat_##s##h(*carry);                                            \
        half low = md_low_##s(v), high = md_high_##s(v);                                                               \
        if (reverse) {                                                                                                 \
            MD_GLUE(MD_DOWN, MD_HALF, )(op, low, none)                                                                 \
            MD_GLUE(MD_DOWN, MD_HALF, )(op, high, none)                                                                \
            low = op(low, md_splat_##s##h(high[0]));                                                                   \
            *carry = total_op(*carry, low[0]);                                                                         \
        } else {                                                                                                       \
            MD_GLUE(MD_UP, MD_HALF, )(op, low, none)                                                                   \
            MD_GLUE(MD_UP, MD_HALF, )(op, high, none)                                                                  \
            high = op(high, md_splat_##s##h(low[MD_HALF - 1]));                                                        \
            *carry = total_op(*carry, high[MD_HALF - 1]);                                                              \
        }                                                                                                              \
        low = op(before, low);                                                                                         \
        high = op(before, high);                                                                                       \
        if (exclusive && reverse) {                                                                                    \
            low = MD_GLUE(MD_DOWN, MD_HALF, _ONE)(low, md_splat_##s##h(high[0]));                                      \
            high = MD_GLUE(MD_DOWN, MD_HALF, _ONE)(high, before);                                                      \
        } else if (exclusive) {                                                                                        \
            high = MD_GLUE(MD_UP, MD_HALF, _ONE)(high, md_splat_##s##h(low[MD_HALF - 1]));                             \
            low = MD_GLUE(MD_UP, MD_HALF, _ONE)(low, before);                                                          \
        }                                                                                                              \
        return md_join_##s(low, high);                                                                                 \
    }
MD_SCAN_WIDE(sum, d, md_d, md_dh, MD_OP_ADD, double, MD_OP_ADD)
MD_SCAN_WIDE(prod, d, md_d, md_dh, MD_OP_MUL, double, MD_OP_MUL)
MD_SCAN_WIDE(max, d, md_d, md_dh, md_max_dh, double, md_max_sd)
MD_SCAN_WIDE(min, d, md_d, md_dh, md_min_dh, double, md_min_sd)
MD_SCAN_WIDE(sum, i, md_i, md_ih, MD_OP_ADD, int64_t, MD_OP_ADD)
MD_SCAN_WIDE(prod, i, md_i, md_ih, MD_OP_MUL, int64_t, MD_OP_MUL)
MD_SCAN_WIDE(max, i, md_i, md_ih, md_max_ih, int64_t, md_max_si)
MD_SCAN_WIDE(min, i, md_i, md_ih, md_min_ih, int64_t, md_min_si)

/* md_then_<name>_<s>(v, carry, exclusive): the next element of each lane, continuing that lane's carry. */
#define MD_THEN(name, s, vec, wide, op, up, down)                                                                      \
    MD_INLINE vec md_then_##name##_##s(vec v, wide *carry, int exclusive)                                              \
    {                                                                                                                  \
        const wide before = *carry;                                                                                    \
        *carry = op(before, up(v));                                                                                    \
        return down(exclusive ? before : *carry);                                                                      \
    }
MD_THEN(sum, f, md_f, md_d, MD_OP_ADD, md_cast_f_d, md_cast_d_f)
MD_THEN(prod, f, md_f, md_d, MD_OP_MUL, md_cast_f_d, md_cast_d_f)
MD_THEN(max, f, md_f, md_f, md_max_f, , )
MD_THEN(min, f, md_f, md_f, md_min_f, , )
MD_THEN(max, b, md_b, md_b, md_max_b, , )
MD_THEN(min, b, md_b, md_b, md_min_b, , )
#define MD_THEN_WIDE(s, vec)                                                                                           \
    MD_THEN(sum, s, vec, vec, MD_OP_ADD, , )                                                                           \
    MD_THEN(prod, s, vec, vec, MD_OP_MUL, , )                                                                          \
    MD_THEN(max, s, vec, vec, md_max_##s, , )                                                                          \
    MD_THEN(min, s, vec, vec, md_min_##s, , )
MD_THEN_WIDE(d, md_d)
MD_THEN_WIDE(i, md_i)
/* clang-format on */

#endif
