/* The bits of a float, and the float of bits. */
#ifndef MD_BASE_NUMBER_BITS_H
#define MD_BASE_NUMBER_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t md_bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float md_float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

#endif
