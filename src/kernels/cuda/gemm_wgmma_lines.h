/* The lines of operand A, which lie anywhere: runs of memory along K, a line for each row of a tile. One thread finds
 * a line, all threads of the copying warpgroup copy pieces of eight elements of all lines. A part of
 * gemm_wgmma_gather.h.
 *
 * A line in shared memory is LINE_WORDS words of 32 bits, each in an array of MD_BM. */
enum {
    FEEDERS = 128,
    PIECES = 8, /* of a line of 128 bytes */
    APART = FEEDERS / PIECES, /* lines from one piece of a thread to its next */
    PER_THREAD = MD_BM / APART
};

/* Copies 16 bytes, of which the first `bytes` are read and the others are zeros. */
MD_INLINE void md_copy_piece(unsigned to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

#ifdef MD_WINDOW
/* The window of a tensor. A line is the part of its place that the row gives, and a bit for each point of the filter
 * (of all indices of K but the last): whether the guard holds there. `points`: what the points give, of their places,
 * and then of the guard's terms, four by four. */
enum {
    POINT_WORDS = MD_WINDOW_POINT_WORDS,
    MOST_POINTS = 32 * POINT_WORDS,
    LINE_WORDS = 1 + POINT_WORDS,
    QUADS = (MD_WINDOW_TERMS + 3) / 4
};

MD_INLINE void md_find_points(const md_params &p, int *points)
{
    const int n = md_window_points(&p), run = md_window_run(&p);
    if (threadIdx.x < n) {
        md_window_part part;
        md_window_depth(&p, threadIdx.x * run, &part);
        points[threadIdx.x] = part.at;
        MD_FOR (i, QUADS * 4)
            points[MOST_POINTS + threadIdx.x * QUADS * 4 + i] = i < MD_WINDOW_TERMS ? part.term[i] : 0;
    }
}

/* True if the guard of a row holds at a point. */
MD_INLINE bool md_holds_at(const md_window_part &row, const int *points, int point)
{
    const int4 *at = (const int4 *)(points + MOST_POINTS) + point * QUADS;
    int least = 0; /* negative if any term is */
    MD_FOR (q, QUADS) {
        const int4 v = at[q];
        const int term[4] = {v.x, v.y, v.z, v.w};
        MD_FOR (t, 4)
            if (q * 4 + t < MD_WINDOW_TERMS)
                least |= row.term[q * 4 + t] + term[t];
    }
    return least >= 0;
}

MD_INLINE void md_find_line(const md_params &p, const md_tile_at &at, int r, int *words, const int *points)
{
    unsigned holds[POINT_WORDS] = {0};
    md_window_part part;
    part.at = 0;
    if (at.row + r < md_down_end(p, at)) {
        const int n = md_window_points(&p);
        md_window_rows(&p, at.batch, (unsigned)(at.row + r), &part);
        MD_FOR (w, POINT_WORDS)
            for (int i = w * 32; i < min(n, w * 32 + 32); i++)
                holds[w] |= (unsigned)md_holds_at(part, points, i) << (i & 31);
    }
    words[r] = part.at;
    MD_FOR (w, POINT_WORDS)
        words[(1 + w) * MD_BM + r] = (int)holds[w];
}

/* A thread's pieces from k on, at element `in` of the run of a point. */
struct md_feed {
    const char *base;
    const int *points;
    int at[PER_THREAD], in, run, point, n_points, point_at;
    unsigned holds[PER_THREAD][POINT_WORDS]; /* of a row that does not exist: nowhere */

    __device__ __forceinline__ void begin(const md_params &p, const int *words, const int *of_points, int line, int k)
    {
        base = (const char *)md_operand_address(&p, 0, 0);
        asm volatile("" : "+l"(base)); /* in registers: the compiler would load it again for each piece */
        points = of_points;
        MD_FOR (i, PER_THREAD) {
            at[i] = words[line + i * APART];
            MD_FOR (w, POINT_WORDS)
                holds[i][w] = (unsigned)words[(1 + w) * MD_BM + line + i * APART];
        }
        run = md_window_run(&p);
        n_points = md_window_points(&p);
        point = k / run;
        in = k - point * run;
        point_at = point < n_points ? points[point] : 0;
    }

    __device__ __forceinline__ void copy(unsigned to, int, int)
    {
        if (in >= run) {
            for (; in >= run; in -= run)
                point++;
            point_at = point < n_points ? points[point] : 0;
        }
        unsigned bit[POINT_WORDS];
        MD_FOR (w, POINT_WORDS)
            bit[w] = point < n_points && (POINT_WORDS == 1 || point >> 5 == w) ? 1u << (point & 31) : 0;
        const int offset = point_at + in;
        MD_FOR (i, PER_THREAD) {
            unsigned hold = 0;
            MD_FOR (w, POINT_WORDS)
                hold |= holds[i][w] & bit[w];
            md_copy_piece(to + i * APART * 128, base + (int64_t)(at[i] + offset) * 2, hold ? 16 : 0);
        }
        in += BK;
    }
};
#else
/* Rows of groups, or those that a look-up finds: a line is the address of its first element; null: zeros. */
enum { LINE_WORDS = 2, NO_LINE = 1 };

MD_INLINE void md_find_points(const md_params &, int *) {}

MD_INLINE void md_find_line(const md_params &p, const md_tile_at &at, int r, int *words, const int *)
{
    uintptr_t from = NO_LINE;
    if (at.row + r < md_down_end(p, at)) {
        md_view view;
        view.base = view.row = view.step = 0;
        (void)md_operand_view(&p, 0, at.batch, &view);
        from = MD_IS_NO_GROUP(p, at) ? 0 : (uintptr_t)md_row_begin<0>(&p, at.batch, view, at.row + r);
    }
    words[r] = (int)(uint32_t)from;
    words[MD_BM + r] = (int)(uint32_t)(from >> 32);
}

struct md_feed {
    const char *from[PER_THREAD];
    unsigned there, zeros;

    __device__ __forceinline__ void begin(const md_params &, const int *words, const int *, int line, int k)
    {
        there = zeros = 0;
        MD_FOR (i, PER_THREAD) {
            const uintptr_t at = (uintptr_t)(uint32_t)words[line + i * APART] |
                                 (uintptr_t)(uint32_t)words[MD_BM + line + i * APART] << 32;
            there |= (unsigned)(at != NO_LINE) << i;
            zeros |= (unsigned)(at == 0) << i;
            from[i] = (const char *)at + (int64_t)k * 2;
        }
    }

    __device__ __forceinline__ void copy(unsigned to, int k, int end)
    {
        if (k + 8 <= end && zeros == 0) {
            MD_FOR (i, PER_THREAD)
                if (there >> i & 1)
                    md_copy_piece(to + i * APART * 128, from[i], 16);
        } else {
            const int bytes = max(min(end - k, 8), 0) * 2;
            MD_FOR (i, PER_THREAD)
                if (there >> i & 1)
                    md_copy_piece(to + i * APART * 128, from[i], zeros >> i & 1 ? 0 : bytes);
        }
        MD_FOR (i, PER_THREAD)
            from[i] += BK * 2;
    }
};
#endif
