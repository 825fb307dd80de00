/* A part of gemm_widened_few.cu: units of a warp that are under way by way of shared memory. */
/* The units of a warp, tile after tile: the one that is copied next, to where the first one that is under way lies. */
typedef struct md_stream {
    const uint4 *weights; /* of the tile */
    const char *rows; /* the first one of the tile */
    int64_t pitch, depth;
    int left; /* rows from there on */
    unsigned tile, tiles, together; /* of which this block makes those that are `together` apart */
    int unit; /* of the warp's */
    unsigned slot, begin; /* shared addresses */
} md_stream;

MD_INLINE void md_stream_to(md_stream &s, const md_params &p, const md_warp &me, int slice)
{
    s.unit = 0;
    if (me.count == 0)
        s.tile = s.tiles;
    if (s.tile >= s.tiles)
        return;
    const md_part w = md_part_of(p, slice, s.tile);
    md_view view;
    view.base = view.row = view.step = 0;
    (void)md_operand_view(&p, 0, 0, &view);
    s.weights = md_weights_of(p, w.column + me.column);
    s.rows = (const char *)md_operand_address(&p, 0, view.base + w.row * view.row);
    s.pitch = (const char *)md_operand_address(&p, 0, view.base + (w.row + 1) * view.row) - s.rows;
    s.left = (int)md_least(md_points_rows(&p) - w.row, MD_BN);
    s.depth = md_points_depth(&p);
}

/* Copies 16 bytes, of which the last ones may be none: zeros. */
MD_INLINE void md_copy_piece(unsigned to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

/* Where a piece of eight of K of a row lies: no two rows' in the same banks. */
MD_INLINE unsigned md_row_piece(const md_stream &s, int c, int row, int piece)
{
    return s.slot + WORDS_BYTES + (c * MD_BN + row) * 128 + (piece ^ (row & 7)) * 16;
}

/* Copies 64 of K. */
MD_INLINE void md_fetch(const md_stream &s, const md_warp &me, int c)
{
    if (s.tile >= s.tiles)
        return;
    const int lane = threadIdx.x & 31, chunk = (me.from + s.unit * MD_DEPTHS) * MD_CHUNKS + c;
    const uint4 *from = s.weights + (int64_t)chunk * (CHUNK / 16) + lane;
    MD_FOR (i, MD_TILES * WIDE)
        md_copy_piece(s.slot + ((c * MD_TILES * WIDE + i) * 32 + lane) * 16, from + i * 32, 16);
    MD_FOR (i, MD_BN / 4) {
        const int row = i * 4 + lane / 8, piece = lane % 8;
        const int64_t k = (int64_t)chunk * 64 + piece * 8;
        const int bytes = row < s.left ? (int)max(md_least((s.depth - k) * 2, 16), (int64_t)0) : 0;
        md_copy_piece(md_row_piece(s, c, row, piece), bytes ? s.rows + row * s.pitch + k * 2 : s.rows, bytes);
    }
}

/* The unit is under way; to the next one. */
MD_INLINE void md_fetched(md_stream &s, const md_params &p, const md_warp &me, int slice)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
    s.slot = s.slot == s.begin + (RING - 1) * UNIT_BYTES ? s.begin : s.slot + UNIT_BYTES;
    if (s.tile < s.tiles && ++s.unit == me.count) {
        s.tile += s.together;
        md_stream_to(s, p, me, slice);
    }
}

/* 64 of K of the first unit under way, which has come. */
MD_INLINE void md_take(md_piece &to, const md_stream &s, int c)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (t, MD_TILES)
        MD_FOR (i, WIDE) {
            const uint4 v = md_load_words(s.slot + (((c * MD_TILES + t) * WIDE + i) * 32 + lane) * 16);
            to.word[t][4 * i] = v.x, to.word[t][4 * i + 1] = v.y, to.word[t][4 * i + 2] = v.z,
                           to.word[t][4 * i + 3] = v.w;
        }
    MD_FOR (n, EIGHTS)
        MD_FOR (h, 2) {
            unsigned v[4];
            md_ldmatrix(v, md_row_piece(s, c, n * 8 + lane % 8, h * 4 + lane / 8));
            MD_FOR (i, 4)
                to.pair[n][h * 4 + i] = v[i];
        }
}

/* The first unit under way has come, to all lanes. */
MD_INLINE void md_await_unit(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(RING > 0 ? RING - 1 : 0) : "memory");
    __syncwarp();
}
