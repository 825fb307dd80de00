/* Copies of both operands, made by the blocks that multiply them: part by part of K, so that products of one part run while the next ones are copied. All blocks are
 * there at once. Each block copies its share of a part and then counts itself; who wants to read the part waits for the count. The last block to have read
 * everything leaves the counters at zero. The first part is copied by all threads but those of the copy engine's warpgroup, the others by warpgroups that do
 * nothing else. A part of gemm_wgmma.cu; of the stream's counters it uses what column.cu uses (exchange.h has the others).
 *
 * Operands lie along K, line by line at any even address; copies are as in gemm_pad.cu. */
#if MD_MEANWHILE
enum { PART = 16, PART_PIECES = PART * 8, AT_ONCE = 8, TICKETS_AT = 114688 }; /* steps of K, pieces of 16 bytes of a line; pieces that a thread asks for at once */

MD_INLINE uint32_t *md_counters(const md_params &p)
{
    return (uint32_t *)((char *)p.counters0 + TICKETS_AT);
}

/* An operand and its copy. */
typedef struct md_origin {
    const char *first, *end; /* of the tensor's bytes */
    int64_t pitch; /* bytes from line to line */
    uint4 *to;
} md_origin;

template <int which> MD_INLINE md_origin md_origin_of(const md_params &p, int64_t lines, uint4 *to)
{
    md_origin o;
    md_view view;
    view.base = view.row = view.step = 0;
    md_operand_view(&p, which, 0, &view);
    o.first = (const char *)md_operand_address(&p, which, view.base);
    o.pitch = view.row * 2;
    o.end = o.first + (lines - 1) * o.pitch + md_points_depth(&p) * 2;
    o.to = to;
    return o;
}

typedef struct md_origins {
    md_origin a, b;
    unsigned lines_a, lines, pieces, apart; /* of A, of both; of a line, from line to line of the copies */
} md_origins;

MD_INLINE md_origins md_origins_of(const md_params &p)
{
    md_origins o;
    o.lines_a = (unsigned)md_points_rows(&p);
    o.lines = o.lines_a + (unsigned)md_points_columns(&p);
    o.pieces = (unsigned)((md_points_depth(&p) + 7) / 8);
    o.apart = (o.pieces + MD_COPY_LINE / 16 - 1) / (MD_COPY_LINE / 16) * (MD_COPY_LINE / 16);
    o.a = md_origin_of<0>(p, md_points_rows(&p), (uint4 *)p.work0);
    o.b = md_origin_of<1>(p, md_points_columns(&p), o.a.to + ((int64_t)o.lines_a * o.apart + 15) / 16 * 16);
    return o;
}

/* Where piece i of a part comes from and goes to. */
typedef struct md_piece_at {
    const char *from, *end; /* NULL: there is no such piece; end of the tensor */
    uint4 *to;
    bool is_whole; /* the two pieces that hold it are the tensor's */
} md_piece_at;

MD_INLINE md_piece_at md_piece_of(const md_origins &o, unsigned part, unsigned i)
{
    md_piece_at at = {NULL, NULL, NULL, false};
    const unsigned line = i / PART_PIECES, piece = part * PART_PIECES + i % PART_PIECES;
    if (line >= o.lines || piece >= o.pieces)
        return at;
    const bool is_a = line < o.lines_a;
    const md_origin &s = is_a ? o.a : o.b;
    const unsigned number = is_a ? line : line - o.lines_a;
    at.from = s.first + number * s.pitch + piece * 16;
    at.end = s.end;
    at.to = s.to + (int64_t)number * o.apart + piece;
    const char *down = (const char *)((uintptr_t)at.from & ~(uintptr_t)15);
    at.is_whole = down >= s.first && down + 32 <= s.end;
    return at;
}

/* At the ends of a tensor: half by half. Behind the end of a line anything may stand. */
MD_INLINE uint4 md_halves(const char *from, const char *end)
{
    uint64_t low = 0, high = 0;
    MD_ROLLED for (int e = 0; e < 8 && from + 2 * e < end; e++) {
        const uint64_t half = *(const uint16_t *)(from + 2 * e);
        low |= e < 4 ? half << (e & 3) * 16 : 0;
        high |= e >= 4 ? half << (e & 3) * 16 : 0;
    }
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

MD_INLINE void md_copy_part(const md_origins &o, unsigned part, unsigned thread, unsigned threads)
{
    const unsigned all = o.lines * PART_PIECES, step = gridDim.x * threads;
    MD_ROLLED for (unsigned i = blockIdx.x * threads + thread; i < all; i += AT_ONCE * step) {
        uint4 low[AT_ONCE], high[AT_ONCE];
        MD_FOR (u, AT_ONCE) {
            const md_piece_at at = md_piece_of(o, part, i + u * step);
            const uint4 *down = (const uint4 *)((uintptr_t)at.from & ~(uintptr_t)15);
            if (at.is_whole) {
                low[u] = down[0];
                high[u] = down[1];
            }
        }
        MD_FOR (u, AT_ONCE) {
            const md_piece_at at = md_piece_of(o, part, i + u * step);
            if (at.is_whole)
                *at.to = md_moved(low[u], high[u], (unsigned)(uintptr_t)at.from & 15);
            else if (at.from)
                *at.to = md_halves(at.from, at.end);
        }
    }
}

/* All parts; threads that multiply only the first one. */
MD_INLINE void md_copy_parts(const md_params &p, int steps)
{
    const md_origins o = md_origins_of(p);
    MD_ROLLED for (int part = 0; part * PART < steps; part++) {
        if (part > 0 && threadIdx.x < THREADS)
            return;
        const int first = part == 0 ? 128 : THREADS, threads = BLOCK - first;
        MD_TEST_PAUSE(part);
        md_copy_part(o, part, threadIdx.x - first, threads);
        md_meet(part == 0 ? 6 : 7, threads);
        if (threadIdx.x == first) { /* for all that met; the others go on */
            __threadfence();
            md_all_proxies_fence();
            asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(md_counters(p) + 1 + part) : "memory");
        }
    }
}

/* Until all blocks have copied their shares of the part that holds step `i` of K. `known`: parts of which that is known. */
MD_INLINE void md_wait_for_part(const md_params &p, int i, int &known)
{
    const uint32_t *counter = md_counters(p) + 1 + i / PART;
    unsigned seen;
    if (i / PART < known)
        return;
    known = i / PART + 1;
    MD_TEST_PAUSE(i);
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
    } while (seen < gridDim.x);
    md_all_proxies_fence();
}

/* One thread of each block, when it waits for no part any more. */
MD_INLINE void md_leave_counters(const md_params &p, int steps)
{
    uint32_t *counters = md_counters(p);
    __threadfence();
    if (atomicAdd(counters, 1) == gridDim.x - 1)
        for (int i = 0; i <= (steps + PART - 1) / PART; i++)
            counters[i] = 0;
}
#endif
