/* Transposes contiguous matrices with a short side, one after the other: [lanes, lines] to [lines, lanes]. A block
 * takes a part of the longer side with all of the shorter one, a slab: a run of memory in one of the tensors, however
 * short rows are, and rows of the part in the other one. In shared memory the slab lies as in the former.
 *
 * md_config.h: MD_THREADS, md_e: an unsigned type as wide as the elements. md_expr.h: md_params, md_lanes(p),
 * md_transposed_size(p), md_source(p), md_target(p): the tensors' data. */
#include "md_config.h"
#include "prelude.h"
#include "slabs.h"
#include "md_expr.h"

#define MD_WIDTH (16 / (int)sizeof(md_e))
enum { MD_BESIDE = 4 }; /* vectors of a row that neighbouring threads have: 64 bytes */

typedef struct md_slab {
    const md_e *from;
    md_e *to;
    int64_t length, first; /* of the longer side; of the part */
    int n, across; /* elements of the part; the shorter side */
} md_slab;

/* The vector of a row that a thread takes: neighbours take MD_BESIDE vectors of a row, then those of the next row. */
MD_INLINE bool md_place(int *row, int *column, const md_slab &s, int i)
{
    *row = i / MD_BESIDE % s.across;
    *column = (i / MD_BESIDE / s.across * MD_BESIDE + i % MD_BESIDE) * MD_WIDTH;
    return *column < s.n;
}

MD_INLINE int md_places(const md_slab &s)
{
    const int vectors = s.n / MD_WIDTH;
    return (vectors + MD_BESIDE - 1) / MD_BESIDE * MD_BESIDE * s.across;
}

/* A vector, in two words. */
typedef struct md_vector {
    uint64_t w[2];
} md_vector;
enum { MD_OF_WORD = 8 / (int)sizeof(md_e), MD_BITS = 8 * (int)sizeof(md_e) };

MD_INLINE md_vector md_gather(const md_e *shared, int step)
{
    md_vector v = {{0, 0}};
    MD_FOR (k, MD_WIDTH)
        v.w[k / MD_OF_WORD] |= (uint64_t)shared[k * step] << (k % MD_OF_WORD * MD_BITS);
    return v;
}

MD_INLINE void md_scatter(md_e *shared, int step, const md_vector &v)
{
    MD_FOR (k, MD_WIDTH)
        shared[k * step] = (md_e)(v.w[k / MD_OF_WORD] >> (k % MD_OF_WORD * MD_BITS));
}

/* A run of memory becomes rows. */
MD_INLINE void md_run_to_rows(md_e *shared, const md_slab &s)
{
    const uint4 *from = (const uint4 *)(s.from + s.first * s.across);
    int row, column;
    for (int i = (int)threadIdx.x; i < s.n * s.across / MD_WIDTH; i += MD_THREADS)
        ((uint4 *)shared)[i] = from[i];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < md_places(s); i += MD_THREADS) {
        if (!md_place(&row, &column, s, i))
            continue;
        const md_vector v = md_gather(shared + column * s.across + row, s.across);
        *(ulonglong2 *)(s.to + row * s.length + s.first + column) = make_ulonglong2(v.w[0], v.w[1]);
    }
}

/* Rows become a run of memory. */
MD_INLINE void md_rows_to_run(md_e *shared, const md_slab &s)
{
    uint4 *to = (uint4 *)(s.to + s.first * s.across);
    int row, column;
    for (int i = (int)threadIdx.x; i < md_places(s); i += MD_THREADS) {
        if (!md_place(&row, &column, s, i))
            continue;
        const ulonglong2 read = *(const ulonglong2 *)(s.from + row * s.length + s.first + column);
        md_scatter(shared + column * s.across + row, s.across, md_vector{{read.x, read.y}});
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < s.n * s.across / MD_WIDTH; i += MD_THREADS)
        to[i] = ((const uint4 *)shared)[i];
}

/* The same element by element. */
MD_INLINE void md_by_elements(md_e *shared, const md_slab &s, bool has_run)
{
    const int64_t at = s.first * s.across;
    for (int i = (int)threadIdx.x; i < s.n * s.across; i += MD_THREADS)
        if (has_run)
            shared[i] = s.from[at + i];
        else
            shared[i % s.n * s.across + i / s.n] = s.from[i / s.n * s.length + s.first + i % s.n];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < s.n * s.across; i += MD_THREADS)
        if (has_run)
            s.to[i / s.n * s.length + s.first + i % s.n] = shared[i % s.n * s.across + i / s.n];
        else
            s.to[at + i] = shared[i];
}

MD_EXPORT void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const int64_t lanes = md_lanes(&p), lines = md_transposed_size(&p);
    const bool has_run = lines <= lanes;
    md_slab s;
    s.across = (int)(has_run ? lines : lanes);
    s.length = has_run ? lanes : lines;
    const int64_t part = md_slab_part(s.length, s.across, (int64_t)sizeof(md_e)), parts = (s.length + part - 1) / part,
                  matrix = blockIdx.x / parts;
    s.first = (blockIdx.x - matrix * parts) * part;
    s.n = (int)(s.length - s.first < part ? s.length - s.first : part);
    s.from = md_source(&p) + matrix * lanes * lines;
    s.to = md_target(&p) + matrix * lanes * lines;
    md_e *shared = (md_e *)md_shared;
    if (s.length % MD_WIDTH || ((uintptr_t)s.from | (uintptr_t)s.to) % 16)
        md_by_elements(shared, s, has_run);
    else if (has_run)
        md_run_to_rows(shared, s);
    else
        md_rows_to_run(shared, s);
}
