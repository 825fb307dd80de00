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
/* The window of a tensor: a line is the part of its place that the row gives, and those of the guard's terms. */
enum { LINE_WORDS = 1 + MD_WINDOW_TERMS, NO_LINE = INT32_MIN };

MD_INLINE void md_find_line(const md_params &p, const md_tile_at &at, int r, int *words)
{
    md_window_part part;
    part.at = NO_LINE;
    if (at.row + r < md_down_end(p, at))
        md_window_rows(&p, at.batch, at.row + r, &part);
    words[r] = part.at;
    MD_FOR (i, MD_WINDOW_TERMS)
        words[(1 + i) * MD_BM + r] = part.term[i];
}

/* A thread's pieces. `left`: elements from its piece to the end of the run along K. */
struct md_feed {
    const char *base;
    int at[PER_THREAD], term[PER_THREAD][MD_WINDOW_TERMS > 0 ? MD_WINDOW_TERMS : 1], left, depth_at;
    unsigned there, holds;

    __device__ __forceinline__ void begin(const md_params &p, const md_tile_at &, const int *words, int line)
    {
        base = (const char *)md_operand_address(&p, 0, 0);
        there = 0;
        left = 0;
        MD_FOR (i, PER_THREAD) {
            at[i] = words[line + i * APART];
            there |= (unsigned)(at[i] != NO_LINE) << i;
            MD_FOR (t, MD_WINDOW_TERMS)
                term[i][t] = words[(1 + t) * MD_BM + line + i * APART];
        }
    }

    /* At k from another point of the filter on. */
    __device__ __forceinline__ void turn(const md_params &p, int k)
    {
        md_window_part depth;
        const int run = (int)md_window_run(&p);
        md_window_depth(&p, (unsigned)k, &depth);
        left = run - k % run;
        depth_at = depth.at;
        holds = 0;
        MD_FOR (i, PER_THREAD) {
            int least = 0; /* negative if any term is */
            MD_FOR (t, MD_WINDOW_TERMS)
                least |= term[i][t] + depth.term[t];
            holds |= (unsigned)(least >= 0) << i;
        }
    }

    __device__ __forceinline__ void copy(const md_params &p, unsigned to, int k, int end)
    {
        if (left <= 0)
            turn(p, k < end ? k : 0);
        const bool is_inside = k < end;
        MD_FOR (i, PER_THREAD)
            if (there >> i & 1)
                md_copy_piece(to + i * APART * 128, base + (int64_t)(at[i] + depth_at) * 2,
                              is_inside && (holds >> i & 1) ? 16 : 0);
        depth_at += BK;
        left -= BK;
    }
};
#else
/* Rows of groups, or those that a look-up finds: a line is the address of its first element; null: zeros. */
enum { LINE_WORDS = 2, NO_LINE = 1 };

MD_INLINE void md_find_line(const md_params &p, const md_tile_at &at, int r, int *words)
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

    __device__ __forceinline__ void begin(const md_params &, const md_tile_at &, const int *words, int line)
    {
        MD_FOR (i, PER_THREAD)
            from[i] = (const char *)((uintptr_t)(uint32_t)words[line + i * APART] |
                                     (uintptr_t)(uint32_t)words[MD_BM + line + i * APART] << 32);
    }

    __device__ __forceinline__ void copy(const md_params &p, unsigned to, int k, int end)
    {
        const int bytes = max(min(end - k, 8), 0) * 2;
        MD_FOR (i, PER_THREAD)
            if ((uintptr_t)from[i] != NO_LINE)
                md_copy_piece(to + i * APART * 128, from[i] + (int64_t)k * 2, from[i] ? bytes : 0);
    }
};
#endif
