/* Results towards rows that tiles of keys add up in memory. A part of pairs_wgmma.cu. */
#ifndef MD_CUDA_PAIRS_WGMMA_ROWS_H
#define MD_CUDA_PAIRS_WGMMA_ROWS_H

/* Weights of a block lie twice in shared memory, by keys: 64 rows are a line of 128 bytes. */
static_assert(MD_BLOCK == 64, "rows of a line");

enum {
    ROW_SUM = md_nth_sum<0>(0),
    ROW_VALUE = md_pairs_value(ROW_SUM), /* an operand of keys */
    ROW_WIDTH = md_pairs_length(ROW_VALUE),
    ROW_COLUMNS = ROW_WIDTH / GROUPS, /* of a warpgroup */
    ROW_WEIGHTS = OWN * 128
};
static_assert(ROW_WIDTH == 64 || ROW_WIDTH == 128, "a warpgroup's columns are in one piece");

typedef float md_row_sums[ROW_COLUMNS / 2];

/* Leaves a part's weights in shared memory: four blocks of 8 keys and 8 rows of each warp. */
MD_INLINE void md_leave_weights(unsigned weights, const md_weights &w, int part)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (i, PART / 16) {
        const int key = md_group() * 64 + (threadIdx.x / 32 & 3) * 16 + (lane / 8 & 1) * 8 + lane % 8,
                  piece = part * (PART / 8) + i * 2 + lane / 16;
        md_stmatrix(weights + key * 128 + ((piece ^ (key & 7)) << 4), w[i * 4], w[i * 4 + 1], w[i * 4 + 2],
                    w[i * 4 + 3]);
    }
}

/* Issues the product of all weights of the block, across, with the warpgroup's columns of the values. */
MD_INLINE void md_multiply_rows(md_row_sums &rows, unsigned memory, unsigned weights)
{
    typedef md_room<1> R;
    const int column = md_group() * ROW_COLUMNS;
    md_proxy_fence();
    md_meet(1, 128 * GROUPS);
    const unsigned a = md_matrix_low(weights, 8192),
                   b = md_matrix_low(memory + (ROW_VALUE == R::OWN0 ? 0 : R::OWN1_AT) + column / 64 * (OWN * 128) +
                                         column % 64 * 2,
                                     OWN * 128);
    md_wgmma_fence();
    MD_FOR (i, OWN / 16)
        if (i == 0)
            md_multiply_across_first(rows, md_matrix_at(a, 0), md_matrix_at(b, 0));
        else
            md_multiply_across(rows, md_matrix_at(a, i * 2048), md_matrix_at(b, i * 2048), 1);
    md_wgmma_commit();
}

MD_INLINE float *md_rows_memory(const md_params &p) { return (float *)p.work0; }

/* Adds the warpgroup's columns of a block of rows, `first` of the batch, to memory. */
MD_INLINE void md_add_to_rows(const md_row_sums &rows, const md_params &p, int batch, int first, int end)
{
    const int row = first + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4;
    float *to = md_rows_memory(p) + ((long long)batch * (int)md_chain_rows(&p) + row) * ROW_WIDTH +
                md_group() * ROW_COLUMNS + (threadIdx.x & 3) * 2;
    MD_FOR (h, 2)
        if (row + h * 8 < end)
            MD_FOR (i, ROW_COLUMNS / 8)
                asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(
                                 __cvta_generic_to_global(to + h * 8 * ROW_WIDTH + i * 8)),
                             "f"(rows[i * 4 + h * 2]), "f"(rows[i * 4 + h * 2 + 1])
                             : "memory");
}

MD_INLINE void md_clear_rows(const md_params &p)
{
    const long long n = md_chain_batches(&p) * md_chain_rows(&p) * (ROW_WIDTH / 4);
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256)
        ((float4 *)md_rows_memory(p))[i] = make_float4(0, 0, 0, 0);
}

MD_INLINE void md_store_rows(const md_params &p)
{
    const long long rows = md_chain_rows(&p), n = md_chain_batches(&p) * rows * (ROW_WIDTH / 2);
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < n; i += (long long)gridDim.x * 256) {
        const unsigned line = (unsigned)(i / (ROW_WIDTH / 2)), batch = line / (unsigned)rows;
        const float2 v = ((const float2 *)md_rows_memory(p))[i];
        const md_chain_batch b = md_chain_batch_of(&p, batch);
        const md_chain_row row = md_chain_row_of(&p, &b, line - batch * (unsigned)rows);
        md_pairs_store(ROW_SUM, &p, &b, &row, line - batch * (unsigned)rows, i % (ROW_WIDTH / 2) * 2, {{v.x, v.y}},
                       md_full());
    }
}

#endif
