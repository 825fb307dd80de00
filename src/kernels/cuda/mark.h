/* The total of all that stands before a run of values, made ready to be combined with each of them. */
#ifndef MD_CUDA_MARK_H
#define MD_CUDA_MARK_H

/* A total before a value. An f32 sum after an f64 total is its upper half + (its lower half + value): 2 additions, no
 * conversion. */
struct md_mark {
#if MD_CARRY == 1
    float high, low;
#elif MD_CARRY == 3
    MD_ONE total;
#else
    MD_TOTAL total;
#endif
};

MD_INLINE md_mark md_mark_of(MD_TOTAL total)
{
#if MD_CARRY == 1
    const float high = (float)total, low = (float)(total - (double)high);
    return md_mark{high, high - high == 0.0f ? low : 0.0f};
#elif MD_CARRY == 3
    return md_mark{(MD_ONE)total};
#else
    return md_mark{total};
#endif
}

MD_INLINE MD_ONE md_after(const md_mark &m, MD_ONE v)
{
#if MD_CARRY == 1
    return m.high + (m.low + v);
#elif MD_CARRY == 2
    return (float)(m.total * (double)v);
#else
    return MD_OP(m.total, v);
#endif
}

#endif
