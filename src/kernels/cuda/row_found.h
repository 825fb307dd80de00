/* How a row program's loads find what lies in shared memory: types that are passed as the number of elements. A part of
 * row_cluster.cu. MD_KEPT: weights on chip. */
#ifndef MD_CUDA_ROW_FOUND_H
#define MD_CUDA_ROW_FOUND_H

/* 16 bytes of shared memory by their address, which the compiler would compute anew for each. It keeps the order of
 * such loads and waits. */
MD_INLINE void md_get_shared(uint32_t *w, unsigned at)
{
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at));
}
template <class S> MD_INLINE md_raw<S> md_get_row(unsigned at)
{
    md_raw<S> r;
    MD_FOR_STEP (i, md_raw<S>::N, 4)
        md_get_shared(r.w + i, at + 4 * i);
    return r;
}

/* Types passed as the number of elements. The row's load is located, or found in shared memory. Weights are located
 * one after the other, or found: those on chip lie as in memory, and `move` makes an address in shared memory of the
 * low half of one in memory. */
enum { MD_MOST_KEPT = MD_KEPT > 0 ? MD_KEPT : 1 };
struct md_located {
    const unsigned char **at;
};
struct md_weights_located {
    const unsigned char **at; /* of each weight */
    int *bytes; /* of its elements */
    int *next;
};
struct md_kept {
    uint32_t move[MD_MOST_KEPT];
};
struct md_found {
    unsigned at;
};
struct md_found_kept {
    unsigned at;
    const md_kept *kept;
    int *next; /* number of the next weight */
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
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_weights_located n)
{
    n.at[*n.next] = (const unsigned char *)((const typename S::E *)t + o);
    n.bytes[*n.next] = (int)sizeof(typename S::E);
    ++*n.next;
    return md_zero_raw<S>();
}
template <class S> MD_INLINE md_raw<S> md_fetch_shifted(const void *t, int64_t o, md_found_kept n)
{
    enum { N = md_raw<S>::N };
    const uint32_t address = (uint32_t)(uintptr_t)t + (uint32_t)o * (uint32_t)sizeof(typename S::E),
                   at = address + n.kept->move[(*n.next)++], past = at & 15;
    uint32_t w[N + 4];
    MD_FOR_STEP (i, N + 4, 4)
        md_get_shared(w + i, (at & ~15u) + 4 * i);
    return md_shift_down<S>(w, (int)past);
}

#endif
