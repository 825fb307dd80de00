/* Panels of rows times strips of two registers: the products inside of chains and pairs.
 *
 * md_config.h: MD_VL, MD_HEIGHT (rows of a panel) */
#ifndef MD_HOST_PANEL_H
#define MD_HOST_PANEL_H

#include "chain_lanes.h"

/* Panels have one of three heights, so that few rows need little padding. */
#define MD_STRIP (2 * MD_VL)
#define MD_HEIGHT0 MD_HEIGHT
#define MD_HEIGHT1 ((2 * MD_HEIGHT + 2) / 3)
#define MD_HEIGHT2 ((MD_HEIGHT + 2) / 3)

MD_INLINE int md_height(int64_t rows)
{
    return rows > MD_HEIGHT1 ? MD_HEIGHT0 : rows > MD_HEIGHT2 ? MD_HEIGHT1 : MD_HEIGHT2;
}

/* c = c * scale + a * b, a[row * a_pitch + k * a_step], b[k * b_pitch + column]; without a scale c = a * b. */
MD_INLINE void md_multiply(int rows, int64_t depth, const float *a, int64_t a_pitch, int64_t a_step, const float *b,
                           int64_t b_pitch, float *c, int64_t c_pitch, const float *scale)
{
    md_f acc[MD_HEIGHT][2];
    MD_FOR (i, rows)
        acc[i][0] = acc[i][1] = (md_f){0};
    MD_ROLLED for (int64_t k = 0; k < depth; k++, b += b_pitch)
    {
        md_f b0 = md_get(b), b1 = md_get(b + MD_VL);
        MD_FOR (i, rows) {
            md_f x = md_splat_f(a[i * a_pitch + k * a_step]);
            acc[i][0] = md_mac(x, b0, acc[i][0]);
            acc[i][1] = md_mac(x, b1, acc[i][1]);
        }
    }
    MD_FOR (i, rows)
        MD_FOR (j, 2) {
            float *at = c + i * c_pitch + j * MD_VL;
            md_put(at, scale ? md_get(at) * md_splat_f(scale[i]) + acc[i][j] : acc[i][j]);
        }
}

MD_INLINE float *md_take(float **at, int64_t n)
{
    float *taken = *at;
    *at += (n + 15) / 16 * 16;
    return taken;
}

/* A panel of each height that blocks are cut into. */
#define MD_MULTIPLY(height)                                                                                            \
    MD_OUTLINE void md_multiply_##height(int64_t depth, const float *a, int64_t a_pitch, const float *b,               \
                                         int64_t b_pitch, float *c, int64_t c_pitch, const float *scale)               \
    {                                                                                                                  \
        md_multiply(MD_##height, depth, a, a_pitch, 1, b, b_pitch, c, c_pitch, scale);                                 \
    }
MD_MULTIPLY(HEIGHT0)
MD_MULTIPLY(HEIGHT1)
MD_MULTIPLY(HEIGHT2)

MD_INLINE void md_multiply_any(int height, int64_t depth, const float *a, int64_t a_pitch, const float *b,
                               int64_t b_pitch, float *c, int64_t c_pitch, const float *scale)
{
    if (height == MD_HEIGHT0)
        md_multiply_HEIGHT0(depth, a, a_pitch, b, b_pitch, c, c_pitch, scale);
    else if (height == MD_HEIGHT1)
        md_multiply_HEIGHT1(depth, a, a_pitch, b, b_pitch, c, c_pitch, scale);
    else
        md_multiply_HEIGHT2(depth, a, a_pitch, b, b_pitch, c, c_pitch, scale);
}

#endif
