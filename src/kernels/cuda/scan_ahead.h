/* Operands of a scan's elements that wait in shared memory, as they were loaded: copies that pass no registers bring
 * them, so all are on their way at once. An element has MD_PIECES pieces of 16 bytes; those of a block's threads lie
 * side by side. Types passed as the number of elements: loads of an element's operand are started, or found again. */
#ifndef MD_CUDA_SCAN_AHEAD_H
#define MD_CUDA_SCAN_AHEAD_H

struct md_ahead {
    unsigned char **to;
    int lanes;
};
struct md_landed {
    const unsigned char **from;
};

template <class S> MD_INLINE md_raw<S> md_fetch_unit(const void *t, int64_t o, md_ahead n, bool)
{
    const char *from = (const char *)t + o * (int)sizeof(typename S::E);
    MD_FOR_STEP (i, md_raw<S>::BYTES, 16) {
        const int left = n.lanes * (int)sizeof(typename S::E) - i;
        md_copy16(*n.to, left > 0 ? from + i : t, left < 0 ? 0 : left < 16 ? left : 16);
        *n.to += MD_THREADS * 16;
    }
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_unit(const void *, int64_t, md_landed n, bool)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::BYTES, 16) {
        const uint4 v = *(const uint4 *)*n.from;
        r.w[i / 4] = v.x, r.w[i / 4 + 1] = v.y, r.w[i / 4 + 2] = v.z, r.w[i / 4 + 3] = v.w;
        *n.from += MD_THREADS * 16;
    }
    return r;
}

MD_INLINE unsigned char *md_ahead_at(int item)
{
    return md_shared + ((int64_t)item * (MD_PIECES * MD_THREADS) + (int)threadIdx.x) * 16;
}
MD_INLINE int md_lanes_of(md_full) { return MD_VL; }
MD_INLINE int md_lanes_of(md_span n) { return n.hi; }

#endif
