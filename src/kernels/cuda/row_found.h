/* How a row program's loads find what lies in shared memory: types that are passed as the number of elements. A part of
 * row_cluster.cu. */
#ifndef MD_CUDA_ROW_FOUND_H
#define MD_CUDA_ROW_FOUND_H

/* 16 bytes of shared memory by their address, which the compiler would compute anew for each. It keeps the order of
 * such loads and waits. */
MD_INLINE void md_get_shared(uint32_t *w, unsigned at)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at));
}
MD_INLINE void md_set_shared(unsigned at, const uint32_t *w)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]));
}
template <class S> MD_INLINE md_raw<S> md_get_row(unsigned at)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::N, 4)
        md_get_shared(r.w + i, at + 4 * i);
    return r;
}

/* Types passed as the number of elements. The row's load is located, or found in shared memory; weights are put there,
 * found there, or come from memory. */
struct md_located {
    const unsigned char **at;
};
struct md_found {
    unsigned at;
};
/* Of weights: the place of the next 16-byte piece, which moves on by `step`. */
struct md_found_kept {
    unsigned at;
    unsigned *weights, step;
};
struct md_brought {
    unsigned *to, step;
};
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *t, int64_t o, md_located n)
{
    *n.at = (const unsigned char *)((const typename S::E *)t + o);
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *, int64_t, md_found n) { return md_get_row<S>(n.at); }
template <class S> MD_INLINE md_raw<S> md_fetch_lead(const void *, int64_t, md_found_kept n)
{
    return md_get_row<S>(n.at);
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *, int64_t, md_located) { return md_zero_raw<S>(); }
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_found)
{
    return md_fetch_shifted<S>(t, o, md_full());
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *, int64_t, md_found_kept n)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::N, 4) {
        md_get_shared(r.w + i, *n.weights);
        *n.weights += n.step;
    }
    return r;
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_brought n)
{
    const md_raw<S> r = md_fetch_shifted<S>(t, o, md_full());
    MD_FOR_STEP (i, md_raw<S>::N, 4) {
        md_set_shared(*n.to, r.w + i);
        *n.to += n.step;
    }
    return md_zero_raw<S>();
}

#endif
