/* Stages whose reads are not vectors: windows, borders, resizing, and reductions over small windows. A thread has
 * MD_ACROSS neighbouring elements (a vector of the results) of MD_STEPS neighbouring planes. A plane is the last
 * indices; so what depends on the place in it is computed once for all planes, and no index is divided by element.
 * With MD_ROWS all of a thread's elements lie in one row, so that reads beside each other have one address; the last
 * vector of a row is moved back into it.
 *
 * md_config.h: MD_THREADS, MD_ACROSS, MD_STEPS, MD_ROWS, MD_WHOLE (rows are so many vectors), MD_COUNTS_SHORT
 * (integers have 32 bits). md_expr.h: md_params, md_sizes (the same as the kernel counts), md_at (indices), md_cells
 * (results as memory holds them), md_inner(p), md_last(p), md_steps(p), md_outers(p) (the numbers of places in a plane
 * and along its last index, of planes side by side, and of the points around them), md_find_outer(p, number, at),
 * md_find_row(p, row, last, at) and md_find_place(p, place, at) (indices in the plane), md_next(p, at) and
 * md_beside(at) (the next place; in its row), md_compute(p, at, step, most, r), md_put(p, element, n, whole, first, r).
 * With MD_ROWS also md_rows(p), how many there are in a plane, md_next_outer(p, at), and md_even(p), which has factors
 * of two as all rows' addresses have; then stores are md_put<PIECE>(p, element, skip, first, r). */
#include "md_config.h"
#include "prelude.h"

/* A value that the compiler takes as it is: it neither joins it with other sums nor computes it again. */
MD_INLINE void *md_hold(const void *p)
{
    uint64_t global = __cvta_generic_to_global(p);
    asm("" : "+l"(global));
    return __cvta_global_to_generic(global);
}
MD_INLINE int32_t md_hold(int32_t a)
{
    asm("" : "+r"(a));
    return a;
}
MD_INLINE int64_t md_hold(int64_t a)
{
    asm("" : "+l"(a));
    return a;
}

/* Stores a float that is a bf16. */
MD_INLINE void md_cut_bf16_s(void *t, int64_t o, float v) { ((uint16_t *)t)[o] = (uint16_t)(md_u32(v) >> 16); }

#if MD_COUNTS_SHORT
/* Integers of 32 bits, where sizes allow: functions of the vocabulary for them. */
#define MD_SIGN(name, sign)                                                                                            \
    MD_INLINE int md_##name##_si(int32_t a, int32_t b) { return a sign b; }
MD_SIGN(lt, <)
MD_SIGN(le, <=)
MD_SIGN(gt, >)
MD_SIGN(ge, >=)
MD_SIGN(eq, ==)
MD_SIGN(ne, !=)
#undef MD_SIGN
MD_INLINE int32_t md_where_si(int c, int32_t a, int32_t b) { return c ? a : b; }
MD_INLINE int32_t md_min_si(int32_t a, int32_t b) { return min(a, b); }
MD_INLINE int32_t md_max_si(int32_t a, int32_t b) { return max(a, b); }
MD_INLINE int32_t md_clamp_si(int32_t a, int32_t low, int32_t high) { return min(max(a, low), high); }
MD_INLINE int32_t md_abs_si(int32_t a) { return abs(a); }
MD_INLINE int md_inside_si(int32_t a, int32_t n) { return (uint32_t)a < (uint32_t)n; }
MD_INLINE int32_t md_floordiv_si(int32_t a, int32_t b)
{
    if (b == 0)
        return 0;
    const int32_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}
MD_INLINE int32_t md_mod_si(int32_t a, int32_t b) { return b == 0 ? 0 : a - md_floordiv_si(a, b) * b; }
#endif

/* Stores a thread's neighbouring results: as a vector where `whole` says that it lies on a boundary. */
template <class E, class C> MD_INLINE void md_put_cells(void *t, C element, const E *r, uint32_t n, bool whole)
{
    enum { BYTES = MD_ACROSS * (int)sizeof(E), PIECE = BYTES < 16 ? BYTES : 16 };
    E *to = (E *)t + element;
    if (MD_ACROSS > 1 && whole && (uintptr_t)t % PIECE == 0) {
        struct alignas(PIECE) pieces {
            E e[PIECE / sizeof(E)];
        };
        MD_FOR_STEP (i, MD_ACROSS, PIECE / (int)sizeof(E)) {
            pieces v;
            MD_FOR (l, PIECE / (int)sizeof(E))
                v.e[l] = r[i + l];
            *(pieces *)(to + i) = v;
        }
        return;
    }
    MD_FOR (l, MD_ACROSS)
        if (l < n)
            to[l] = r[l];
}

/* Stores what a thread has of a row from `skip` on, in pieces of so many bytes or as many as there are. */
template <int PIECE, class E, class C> MD_INLINE void md_put_pieces(void *t, C element, const E *r, uint32_t skip)
{
    enum {
        MOST = MD_ACROSS * (int)sizeof(E),
        BYTES = PIECE < MOST ? PIECE : MOST,
        SIZE = BYTES < (int)sizeof(E) ? (int)sizeof(E) : BYTES,
        N = SIZE / (int)sizeof(E)
    };
    struct alignas(SIZE) pieces {
        E e[N];
    };
    E *to = (E *)t + element;
    MD_FOR_STEP (i, MD_ACROSS, N) {
        pieces v;
        MD_FOR (l, N)
            v.e[l] = r[i + l];
        if (MD_WHOLE || i >= skip)
            *(pieces *)(to + i) = v;
    }
}

#include "md_expr.h"

#if MD_ROWS

template <int PIECE>
MD_INLINE void md_put_steps(const md_sizes *p, md_count element, uint32_t left, uint32_t skip, const md_cells &r)
{
    MD_FOR (u, MD_STEPS)
        if (u == 0 || u < left)
            md_put<PIECE>(p, element + (md_count)u * (md_count)md_inner(p), skip, u * MD_ACROSS, r);
}

/* Blocks: pieces of a plane, then groups of planes, then runs of outer points. */
MD_EXPORT void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_sizes q = md_sizes_of(&p);
    const uint32_t last = md_last(&q), per_row = last / MD_ACROSS + (!MD_WHOLE && last % MD_ACROSS != 0),
                   steps = md_steps(&q), vector = blockIdx.x * MD_THREADS + threadIdx.x;
    if (vector >= md_rows(&q) * per_row)
        return;
    const uint32_t row = vector / per_row, place = (vector - row * per_row) * MD_ACROSS,
                   first = MD_WHOLE ? place : min(place, last - MD_ACROSS), skip = place - first, even = md_even(&q),
                   outers = md_outers(&q), each = (outers + gridDim.z - 1) / gridDim.z, begin = blockIdx.z * each,
                   end = min(begin + each, outers);
    md_at at;
    md_find_row(&q, row, first, at);
    MD_ROLLED for (uint32_t step = blockIdx.y * MD_STEPS; step < steps; step += gridDim.y * MD_STEPS)
    {
        md_find_outer(&q, begin, at);
        MD_ROLLED for (uint32_t outer = begin; outer < end; outer++)
        {
            md_cells r;
            md_compute(&q, &at, step, steps - 1, r);
            const md_count to =
                ((md_count)outer * (md_count)steps + step) * (md_count)md_inner(&q) + row * last + first;
            if (even % 16 == 0)
                md_put_steps<16>(&q, to, steps - step, skip, r);
            else if (even % 8 == 0)
                md_put_steps<8>(&q, to, steps - step, skip, r);
            else if (even % 4 == 0)
                md_put_steps<4>(&q, to, steps - step, skip, r);
            else
                md_put_steps<1>(&q, to, steps - step, skip, r);
            md_next_outer(&q, at);
        }
    }
}

#else

/* The places of a thread's elements in a plane. Beyond its end they stay at the last one. */
template <bool IN_ROW> MD_INLINE void md_find_lanes(const md_sizes *p, uint32_t vector, uint32_t n, md_at *at)
{
    if (IN_ROW) {
        const uint32_t per_row = md_last(p) / MD_ACROSS, row = vector / per_row;
        md_find_row(p, row, (vector - row * per_row) * MD_ACROSS, at[0]);
    } else {
        md_find_place(p, vector * MD_ACROSS, at[0]);
    }
    MD_UNROLL for (int l = 1; l < MD_ACROSS; l++)
    {
        at[l] = at[l - 1];
        if (IN_ROW)
            md_beside(at[l]);
        else if (l < n)
            md_next(p, at[l]);
    }
}

template <bool IN_ROW> MD_INLINE void md_run(const md_sizes *p, uint32_t outer, uint32_t step, uint32_t vector)
{
    const uint32_t inner = md_inner(p), steps = md_steps(p), left = inner - vector * MD_ACROSS,
                   n = left < MD_ACROSS ? left : MD_ACROSS;
    md_at at[MD_ACROSS];
    md_find_outer(p, outer, at[0]);
    md_find_lanes<IN_ROW>(p, vector, n, at);
    md_cells r;
    md_compute(p, at, step, steps - 1, r);
    const md_count first = ((md_count)outer * (md_count)steps + step) * (md_count)inner + vector * MD_ACROSS;
    MD_FOR (u, MD_STEPS)
        if (u == 0 || step + u < steps)
            md_put(p, first + (md_count)u * (md_count)inner, n, inner % MD_ACROSS == 0, u * MD_ACROSS, r);
}

/* Blocks: pieces of a plane, then groups of planes, then outer points. */
MD_EXPORT void __launch_bounds__(MD_THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_sizes q = md_sizes_of(&p);
    const uint32_t inner = md_inner(&q), vectors = inner / MD_ACROSS + (inner % MD_ACROSS != 0), steps = md_steps(&q),
                   vector = blockIdx.x * MD_THREADS + threadIdx.x;
    if (vector >= vectors)
        return;
    MD_ROLLED for (uint32_t outer = blockIdx.z; outer < md_outers(&q); outer += gridDim.z)
        MD_ROLLED for (uint32_t step = blockIdx.y * MD_STEPS; step < steps; step += gridDim.y * MD_STEPS)
    {
        if (MD_ACROSS == 1 || md_last(&q) % MD_ACROSS == 0)
            md_run<true>(&q, outer, step, vector);
        else
            md_run<false>(&q, outer, step, vector);
    }
}

#endif
