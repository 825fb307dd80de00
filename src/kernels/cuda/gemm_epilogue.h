/* The end of a product: the sums in shared memory go vector by vector through the stage's epilogue to the results, or,
 * if K is split, to the workspace as partial sums. md_config.h: MD_SPLIT (slices of K; 1: none), MD_WRAPS (columns are
 * several indices). md_expr.h: md_points_*, md_epilogue, md_epilogue_room as src/codegen/product/product.h says. */
#ifndef MD_CUDA_GEMM_EPILOGUE_H
#define MD_CUDA_GEMM_EPILOGUE_H

/* The tile of a block. */
typedef struct md_place {
    int64_t batch, row, column;
    int slice; /* of K */
#ifdef MD_GROUPED
    int64_t row_end; /* of the group */
#endif
} md_place;

/* Rows of a grouped product are taken in the order of their groups (grouped.h). */
#ifdef MD_GROUPED
MD_INLINE int64_t md_rows_end(const md_params *p, const md_place &at) { return at.row_end; }
#ifdef MD_SORTS_HERE
MD_INLINE int64_t md_row_of(const md_params *, int64_t place) { return md_order_here[place]; }
#else
MD_INLINE int64_t md_row_of(const md_params *p, int64_t place) { return ((const int *)p->work0)[place]; }
#endif
#else
MD_INLINE int64_t md_rows_end(const md_params *p, const md_place &at) { return md_points_rows(p); }
MD_INLINE int64_t md_row_of(const md_params *p, int64_t place) { return place; }
#endif

MD_INLINE int64_t md_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Tile `t` in an order that stays in a band of `band` tiles of rows, so that both operands stay in L2. */
MD_INLINE md_place md_place_of(const md_params *p, int64_t t, int rows, int columns, int band)
{
    const int64_t down = (md_points_rows(p) + rows - 1) / rows, across = (md_points_columns(p) + columns - 1) / columns;
    const int64_t plane = down * across;
    md_place at;
    at.slice = (int)(t % MD_SPLIT);
    t /= MD_SPLIT;
    at.batch = t / plane;
    const int i = (int)(t - at.batch * plane), wide = band * (int)across, first = i / wide * band;
    const int height = (int)md_least(down - first, band), inside = i % wide;
    at.row = (int64_t)(first + inside % height) * rows;
    at.column = (int64_t)(inside / height) * columns;
    return at;
}

MD_INLINE void md_take(float (&v)[4], const float *c)
{
    const float4 a = *(const float4 *)c;
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
}

template <class T> MD_INLINE void md_take(T (&v)[4], const T *c)
{
    const double2 a = *(const double2 *)c, b = *(const double2 *)(c + 2);
    double w[4] = {a.x, a.y, b.x, b.y};
    MD_FOR (i, 4)
        memcpy(&v[i], &w[i], 8);
}

/* MD_VL sums from shared memory; the address is a multiple of four of them, or of MD_VL. */
MD_INLINE md_v md_sums(const md_acc *c)
{
    md_v v;
    if (MD_VL < 4) {
        MD_FOR (l, MD_VL)
            v.v[l] = c[l];
        return v;
    }
    MD_FOR_STEP (l, MD_VL, 4) {
        md_acc four[4];
        md_take(four, c + l);
        MD_FOR (i, 4)
            v.v[l + i] = four[i];
    }
    return v;
}

/* The first n columns of a vector. */
MD_INLINE void md_finish(const md_params *p, int64_t batch, int64_t row, int64_t column, md_v c0, md_v c1, int n)
{
#if MD_WRAPS
    for (int j = 0; j < n;) {
        const int m = (int)md_least(n - j, md_epilogue_room(p, column + j));
        const md_span span = {0, m};
        md_epilogue(p, batch, row, column + j, c0, c1, span);
        j += m;
        /* The next element begins a new run of the last index. */
        MD_ROLLED for (int i = 0; i < m; i++) MD_FOR (l, MD_VL - 1)
        {
            c0.v[l] = c0.v[l + 1];
            c1.v[l] = c1.v[l + 1];
        }
    }
#else
    if (n >= MD_VL) {
        md_epilogue(p, batch, row, column, c0, c1, md_full());
    } else {
        const md_span span = {0, n};
        md_epilogue(p, batch, row, column, c0, c1, span);
    }
#endif
}

/* Stores `rows` x `columns` sums of a tile; c1: of the second product. Called by `threads` threads after a barrier. */
MD_INLINE void md_store_tile(const md_params *p, const md_acc *c0, const md_acc *c1, int pitch, md_place at, int rows,
                             int columns, int thread, int threads)
{
    const int64_t all_rows = md_rows_end(p, at), all_columns = md_points_columns(p);
    const int vectors = columns / MD_VL;
    MD_ROLLED for (int i = thread; i < rows * vectors; i += threads)
    {
        const int r = i / vectors, c = i % vectors * MD_VL;
        const int64_t row = at.row + r, column = at.column + c;
        if (row >= all_rows || column >= all_columns)
            continue;
        const int n = (int)md_least(MD_VL, all_columns - column);
        const md_v v0 = md_sums(c0 + r * pitch + c), v1 = MD_PRODUCTS == 2 ? md_sums(c1 + r * pitch + c) : v0;
#if MD_SPLIT > 1
        const int64_t plane = all_rows * all_columns;
        md_acc *to = (md_acc *)p->work0 +
                     ((at.slice * md_points_batch(p) + at.batch) * MD_PRODUCTS * plane + row * all_columns + column);
        MD_FOR (l, MD_VL)
            if (l < n) {
                to[l] = v0.v[l];
                if (MD_PRODUCTS == 2)
                    to[plane + l] = v1.v[l];
            }
#else
        md_finish(p, at.batch, md_row_of(p, row), column, v0, v1, n);
#endif
    }
}

#endif
