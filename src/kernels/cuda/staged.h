/* Weights that all rows share and only stores use are copied to shared memory while blocks exchange: no register waits
 * for them. Each thread has places of its own there, so no thread waits for another.
 *   MD_STAGED   pieces of 16 bytes that one vector uses; 0: weights go through registers
 * md_copy_staged and md_take_staged are passed as the number of elements: for the one, fetching starts copies; for the
 * other, it reads what they brought. */
#ifndef MD_CUDA_STAGED_H
#define MD_CUDA_STAGED_H

struct md_copy_staged {
    int *piece; /* the next one */
};
struct md_take_staged {
    int *piece;
};
MD_INLINE uint4 *md_staged_piece(int piece) { return (uint4 *)md_shared + piece * MD_THREADS + threadIdx.x; }
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_copy_staged n)
{
    static_assert(md_raw<S>::BYTES % 16 == 0, "whole pieces");
    MD_FOR_STEP (i, md_raw<S>::N, 4)
        md_copy16(md_staged_piece((*n.piece)++), (const char *)((const typename S::E *)t + o) + 4 * i, 16);
    return md_zero_raw<S>(); /* no kernel that calls this is ever made */
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *, int64_t, md_take_staged n)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::N, 4) {
        const uint4 v = *md_staged_piece((*n.piece)++);
        r.w[i] = v.x, r.w[i + 1] = v.y, r.w[i + 2] = v.z, r.w[i + 3] = v.w;
    }
    return r;
}

#endif
