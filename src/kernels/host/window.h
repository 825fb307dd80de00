/* Packs operands whose rows are counted by several indices, such as windows of a tensor, as in a convolution: no
 * element is found by itself. md_expr.h has, for operands with a bit in MD_WINDOWS (src/codegen/product/window.c):
 *   md_window_make(which, p)                     what its runs go along (lanes), how long they are; elements from one
 *                                                place of a run to the next (step), and of the tensor from its first to
 *                                                its last; `period` steps of K on all is `far` elements behind
 *   md_window_rows(which, p, batch, row, part)   the part of rows and batch in a place and in the guard's terms; in
 *                                                `along` where the run is entered, if it goes along the rows
 *   md_window_depth(which, p, k, steps)          the same of K; md_window_next: of the step behind the one in `steps`
 *   md_window_range(which, row, depth, begin, end)   narrows the places of a run to those where the guard holds
 * Place x of a run lies at row.at + depth.at + x * step. And for other expressions with a bit in MD_RUNS (operand.c):
 *   md_operand_room(p, which, row)               rows until the run ends, which md_operand_lanes may take */
#ifndef MD_HOST_WINDOW_H
#define MD_HOST_WINDOW_H

/* A block: lanes run over up to MD_VL rows, out[k * pitch + lane], usually with `full` rows. If `width`, the number of
 * lanes stored, exceeds the pitch, a store overwrites the start of the next k, which is stored after it. So blocks are
 * packed in the order of their addresses. */
typedef struct md_block {
    int64_t pitch;
    int full, width;
} md_block;

/* Columns of B are cut into strips of MD_PITCH lanes; with two products a strip is half of each, side by side. */
#define MD_STRIP (MD_PITCH / MD_PRODUCTS)
#define MD_STRIP_BLOCK (MD_STRIP < MD_VL ? MD_STRIP : MD_VL)

#ifdef MD_RUNS
#define MD_IS_IN_RUNS(which) (MD_RUNS >> (which)&1)
#else
#define MD_IS_IN_RUNS(which) 0
#define md_operand_room(p, which, row) 1
#endif

#if defined(MD_WINDOWS) || defined(MD_RUNS)
/* Rows that are packed together: memory is read in lines of so many. A line is read again only when MD_LINES were
 * written, so that its stores have left the processor. */
enum { MD_LINE = 256, MD_LINES = 8 };
/* A line, the zeros behind it to the end of a strip, and room for a vector. */
enum { MD_WHOLE_LINE = MD_LINE + 2 * MD_STRIP + 2 * MD_VL };

/* Lines on their way into strips of B, `strip` columns each, or into panels of A: strip 0. */
typedef struct md_lines {
    md_acc *out;
    int64_t n, left, strip, depth; /* rows of a line; those from its first on */
    int used;
    int64_t k[MD_LINES];
    md_acc line[MD_LINES][MD_WHOLE_LINE] __attribute__((aligned(64)));
} md_lines;

MD_INLINE void md_lines_unload(const md_lines *l, const md_acc *line, int64_t k)
{
    if (l->strip > 0) {
        MD_ROLLED for (int64_t j = 0; j < l->n; j += MD_STRIP) __builtin_memcpy(
            l->out + j / MD_STRIP * MD_PITCH * l->depth + k * MD_PITCH, line + j, sizeof(md_acc) * MD_STRIP);
        return;
    }
    MD_ROLLED for (int64_t r = 0; r < l->n; r += md_height(l->left - r))
    {
        md_v v;
        __builtin_memcpy(&v, line + r, sizeof v);
        md_store_v(l->out + r * l->depth + k * md_height(l->left - r), v, md_height(l->left - r));
    }
}

MD_INLINE void md_lines_flush(md_lines *l)
{
    MD_ROLLED for (int i = 0; i < l->used; i++) md_lines_unload(l, l->line[i], l->k[i]);
    l->used = 0;
}

/* The line that is being written is that of step k. */
MD_INLINE void md_lines_add(md_lines *l, int64_t k)
{
    l->k[l->used++] = k;
    if (l->used == MD_LINES)
        md_lines_flush(l);
}

/* Columns behind the last one, to the end of its strip. */
MD_INLINE int64_t md_lines_spare(const md_lines *l)
{
    return l->strip > 0 ? (MD_STRIP - l->n % MD_STRIP) % MD_STRIP : 0;
}

#endif

#ifdef MD_WINDOWS
typedef struct md_window_run {
    md_window_part part;
    int64_t from, n; /* in the line */
} md_window_run;

/* A vector of a line: n elements from a place of the tensor on, then zeros, or, if it may be read whole, anything. */
typedef struct md_window_move {
    int64_t from;
    int32_t to;
    int16_t n, is_whole;
} md_window_move;

/* A range within another. */
MD_INLINE void md_window_clip(int64_t *begin, int64_t *end, int64_t first, int64_t last)
{
    *begin = *begin < first ? first : *begin > last ? last : *begin;
    *end = *end < *begin ? *begin : *end > last ? last : *end;
}

/* Every other element of two vectors. */
MD_INLINE md_v md_every_other(md_v a, md_v b)
{
#if MD_VL == 16 && defined(MD_ACC_F32)
    return MD_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif MD_VL == 8 && defined(MD_ACC_F32)
    return MD_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#elif MD_VL == 4 && defined(MD_ACC_F32)
    return MD_SHUFFLE(a, b, 0, 2, 4, 6);
#else
    md_v v;
    for (int i = 0; i < MD_VL / 2; i++)
        v[i] = a[2 * i], v[i + MD_VL / 2] = b[2 * i];
    return v;
#endif
}

/* Whether MD_VL elements of a run may be read whole: they lie inside the tensor, whatever they are. */
MD_INLINE int md_window_is_whole(const md_window *w, int64_t at)
{
    return (w->step == 1 || w->step == 2) && at + MD_VL * w->step <= w->elements;
}

/* n values of a run from a place on. */
MD_INLINE md_v md_window_load(const md_params *p, int which, const md_window *w, int64_t at, int64_t n, int is_whole)
{
    md_v v = {0};
    if (w->step == 1)
        return md_operand_load(p, which, at, is_whole ? MD_VL : (int)n);
    if (is_whole)
        return md_every_other(md_operand_load(p, which, at, MD_VL), md_operand_load(p, which, at + MD_VL, MD_VL));
    MD_ROLLED for (int i = 0; i < n; i++) v[i] = md_operand_get(p, which, at + i * w->step);
    return v;
}

/* ---- Runs along the rows */

MD_INLINE int md_window_find_runs(md_window_run *run, const md_params *p, int which, int64_t batch, int64_t row,
                                  int64_t n)
{
    const md_window w = md_window_make(which, p);
    int count = 0;
    for (int64_t at = 0; at < n; at += run[count++].n) {
        md_window_rows(which, p, batch, row + at, &run[count].part);
        run[count].from = at;
        run[count].n = md_least(w.length - run[count].part.along, n - at);
    }
    return count;
}

MD_INLINE int md_window_add_zeros(md_window_move *move, int64_t to, int64_t n)
{
    int count = 0;
    MD_ROLLED for (int64_t x = 0; x < n; x += MD_VL) move[count++] = (md_window_move){0, (int32_t)(to + x), 0, 0};
    return count;
}

/* The vectors of a line, and of those `reach` elements behind. They may go beyond a run, whose neighbour comes later.
 */
MD_INLINE int md_window_plan(md_window_move *move, int which, const md_window *w, const md_window_run *run, int runs,
                             const md_window_part *depth, int64_t reach)
{
    int count = 0;
    MD_ROLLED for (const md_window_run *last_run = run + runs; run < last_run; run++)
    {
        const int64_t first = run->part.along, last = first + run->n, at = run->part.at + depth->at;
        int64_t begin = first, end = last;
        md_window_range(which, &run->part, depth, &begin, &end);
        md_window_clip(&begin, &end, first, last);
        count += md_window_add_zeros(move + count, run->from, begin - first);
        MD_ROLLED for (int64_t x = begin; x < end; x += MD_VL)
        {
            const int64_t from = at + x * w->step;
            move[count++] = (md_window_move){from, (int32_t)(run->from + x - first), (int16_t)md_least(MD_VL, end - x),
                                             (int16_t)md_window_is_whole(w, from + reach)};
        }
        count += md_window_add_zeros(move + count, run->from + end - first, last - end);
    }
    return count;
}

/* Rows from `row` on in all steps of K. Where steps differ only by a distance in memory, the same moves serve. */
MD_INLINE void md_window_pack_lines(md_lines *l, const md_params *p, int which, const md_source *s, int64_t row)
{
    md_window_run run[MD_LINE];
    md_window_move move[MD_WHOLE_LINE];
    md_window_steps steps;
    const md_window w = md_window_make(which, p);
    if (s->depth == 0) /* no index of K has a value */
        return;
    const int runs = md_window_find_runs(run, p, which, s->batch, row, l->n);
    md_window_depth(which, p, s->k0, &steps);
    MD_ROLLED for (int64_t phase = 0; phase < md_least(w.period, s->depth); phase++)
    {
        const int64_t last = (s->depth - 1 - phase) / w.period;
        int moves = md_window_plan(move, which, &w, run, runs, &steps.part, w.far > 0 ? last * w.far : 0);
        moves += md_window_add_zeros(move + moves, l->n, md_lines_spare(l));
        MD_ROLLED for (int64_t i = 0; i <= last; i++)
        {
            md_acc *line = l->line[l->used];
            MD_ROLLED for (int m = 0; m < moves; m++)
            {
                const int64_t from = move[m].from + i * w.far;
                __builtin_prefetch(md_operand_address(p, which, from + MD_LINES * w.far));
                md_store_v(line + move[m].to, md_window_load(p, which, &w, from, move[m].n, move[m].is_whole), MD_VL);
            }
            md_lines_add(l, phase + i * w.period);
        }
        md_window_next(which, p, 0, &steps);
    }
}

/* ---- Runs along K */

/* n <= MD_VL values of a row's run from x on; those outside [begin, end) are zeros. */
MD_INLINE md_v md_window_lanes(const md_params *p, int which, const md_window *w, int64_t at, int64_t x, int64_t n,
                               int64_t begin, int64_t end)
{
    md_v v = {0};
    const int is_whole = n == MD_VL && md_window_is_whole(w, at + x * w->step);
    if (begin <= x && x + n <= end && (w->step == 1 || is_whole))
        return md_window_load(p, which, w, at + x * w->step, n, is_whole);
    MD_ROLLED for (int64_t i = x < begin ? begin - x : 0; i < n && x + i < end; i++) v[i] =
        md_operand_get(p, which, at + (x + i) * w->step);
    return v;
}

MD_OUTLINE void md_window_lanes_of(md_v v[MD_VL], const md_params *p, int which, const md_window *w, const int64_t *at,
                                   int64_t x, int64_t n, const int64_t *begin, const int64_t *end)
{
    (void)which;
    for (int i = 0; i < MD_VL; i++) {
        v[i] = (md_v){0};
#if MD_WINDOWS & 1
        if (which == 0)
            v[i] = md_window_lanes(p, 0, w, at[i], x, n, begin[i], end[i]);
#endif
#if MD_WINDOWS & 2
        if (which == 1)
            v[i] = md_window_lanes(p, 1, w, at[i], x, n, begin[i], end[i]);
#endif
#if MD_WINDOWS & 4
        if (which == 2)
            v[i] = md_window_lanes(p, 2, w, at[i], x, n, begin[i], end[i]);
#endif
    }
}

/* Where the rows of a block are in a run along K. */
typedef struct md_window_block_rows {
    int64_t at[MD_VL], begin[MD_VL], end[MD_VL];
    int are_all; /* every row lies inside the tensor at all steps */
    int are_whole; /* each lies inside at all steps, or at none */
} md_window_block_rows;

MD_INLINE void md_window_enter(md_window_block_rows *b, int which, const md_window *w, const md_window_part *part,
                               int rows, const md_window_part *depth, int64_t first, int64_t last)
{
    b->are_all = b->are_whole = w->step == 1;
    MD_ROLLED for (int i = 0; i < rows; i++)
    {
        b->at[i] = part[i].at + depth->at, b->begin[i] = first, b->end[i] = last;
        md_window_range(which, &part[i], depth, &b->begin[i], &b->end[i]);
        const int is_there = b->begin[i] <= first && b->end[i] >= last;
        b->are_all &= is_there;
        b->are_whole &= is_there || b->begin[i] >= b->end[i];
    }
}

/* n steps of K from x on, element by element: of a run that is too short to be transposed, or not in one piece. */
MD_INLINE void md_window_pack_few(const md_params *p, int which, const md_window *w, md_acc *out, md_block block,
                                  const md_window_block_rows *b, int rows, int64_t x, int64_t n)
{
    const int lanes = (int)md_least(block.width, block.pitch);
    MD_ROLLED for (int64_t j = x; j < x + n; j++, out += block.pitch) MD_ROLLED for (int i = 0; i < lanes; i++) out[i] =
        i < rows && b->begin[i] <= j && j < b->end[i] ? md_operand_get(p, which, b->at[i] + j * w->step) : (md_acc)0;
}

/* A block of rows, MD_VL steps of K at a time, transposed. */
MD_INLINE void md_window_pack_block(const md_params *p, int which, const md_source *s, md_acc *out, md_block block,
                                    int64_t row, int rows)
{
    md_window_part part[MD_VL];
    md_window_steps steps;
    md_window_block_rows b = {{0}};
    const md_window w = md_window_make(which, p);
    for (int i = 0; i < rows; i++)
        md_window_rows(which, p, s->batch, row + i, &part[i]);
    for (int64_t k = 0, n = 0; k < s->depth; k += n) {
        md_window_depth(which, p, s->k0 + k, &steps);
        const int64_t first = steps.part.along;
        n = md_least(w.length - first, s->depth - k);
        md_window_enter(&b, which, &w, part, rows, &steps.part, first, first + n);
        if (w.step != 1 || n < MD_VL / 2) {
            md_window_pack_few(p, which, &w, out + k * block.pitch, block, &b, rows, first, n);
            continue;
        }
        MD_ROLLED for (int64_t j = 0; j < n; j += MD_VL)
        {
            const int64_t lanes = md_least(MD_VL, n - j), x = first + j;
            md_v v[MD_VL];
            if (b.are_all && lanes == MD_VL && rows == block.full)
                MD_FOR (i, MD_VL)
                    v[i] = i < block.full ? md_operand_load(p, which, b.at[i] + x, MD_VL) : (md_v){0};
            else if (b.are_whole)
                MD_ROLLED for (int i = 0; i < MD_VL; i++) v[i] =
                    i < rows && b.begin[i] < b.end[i] ? md_operand_load(p, which, b.at[i] + x, (int)lanes) : (md_v){0};
            else
                md_window_lanes_of(v, p, which, &w, b.at, x, lanes, b.begin, b.end);
            md_transpose_v(v);
            MD_FOR (i, MD_VL)
                if (i < lanes)
                    md_store_v(out + (k + j + i) * block.pitch, v[i], block.width);
        }
    }
}
#else
#define md_window_pack_lines(l, p, which, s, row)
#define md_window_pack_block(p, which, s, out, block, row, rows)
#endif

/* ---- Any operand in lines */

#ifdef MD_RUNS
MD_INLINE void md_runs_pack_lines(md_lines *l, const md_params *p, int which, const md_source *s, int64_t row)
{
    MD_ROLLED for (int64_t k = 0; k < s->depth; k++)
    {
        md_acc *line = l->line[l->used];
        MD_ROLLED for (int64_t i = 0, n = 0; i < l->n; i += n)
        {
            n = md_least(md_least(MD_VL, l->n - i), md_operand_room(p, which, row + i));
            md_store_v(line + i, md_operand_lanes(p, which, s->batch, row + i, s->k0 + k, (int)n), MD_VL);
        }
        MD_ROLLED for (int64_t i = 0; i < md_lines_spare(l); i++) line[l->n + i] = 0;
        md_lines_add(l, k);
    }
}
#else
#define md_runs_pack_lines(l, p, which, s, row)
#endif

#if defined(MD_WINDOWS) || defined(MD_RUNS)
MD_INLINE int md_window_is_across(const md_params *p, int which, const md_source *s)
{
    (void)p;
#ifdef MD_WINDOWS
    if (MD_IS_WINDOW(which) && s->is_window)
        return md_window_make(which, p).lanes == MD_LANES_ROWS;
#endif
    return MD_IS_IN_RUNS(which) && s->lanes == MD_LANES_RUNS;
}

/* Rows [row, end) in strips of B (strip > 0), or in panels of A. */
MD_INLINE void md_window_pack_across(const md_params *p, int which, const md_source *s, md_acc *out, int64_t row,
                                     int64_t end, int64_t strip)
{
    md_lines l;
    const int64_t unit = strip > 0 ? strip : MD_HEIGHT0, most = MD_LINE / unit * unit;
    l.strip = strip, l.depth = s->depth, l.used = 0;
    for (int64_t r = row; r < end; r += most) {
        l.out = out + (strip > 0 ? (r - row) / unit * MD_PITCH : r - row) * s->depth;
        l.n = md_least(most, end - r), l.left = end - r;
        if (MD_IS_WINDOW(which) && s->is_window) {
            md_window_pack_lines(&l, p, which, s, r);
        } else {
            md_runs_pack_lines(&l, p, which, s, r);
        }
        md_lines_flush(&l);
    }
}
#else
#define md_window_is_across(p, which, s) 0
#define md_window_pack_across(p, which, s, out, row, end, strip)
#endif

#endif
