/* Products by warps (mma.h) of lines in shared memory (chain_lines.h). */
#ifndef MD_CUDA_MMA_LINES_H
#define MD_CUDA_MMA_LINES_H

enum { LINES_16 = 16 * 128 }; /* bytes from a piece to that of the line 16 further */

/* Step i, of 16 elements, of `tiles` times 16 lines from `first` on, as left operands. */
template <int pitch, int tiles> MD_INLINE void md_load_step(unsigned (&a)[tiles][4], unsigned lines, int first, int i)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (t, tiles)
        md_ldmatrix(a[t], md_piece_at<pitch>(lines, first + (lane & 15), 2 * i + lane / 16) + t * LINES_16);
}

/* Adds step i of the products of lines a with all of `n` others. */
template <int n, int tiles>
MD_INLINE void md_multiply_step(float (&x)[tiles][n / 2], const unsigned (&a)[tiles][4], unsigned others, int i)
{
    const int lane = threadIdx.x & 31, other = (lane & 7) + lane / 16 * 8;
    MD_FOR (j, n / 16) {
        unsigned b[4];
        md_ldmatrix(b, md_piece_at<n>(others, other, 2 * i + (lane >> 3 & 1)) + j * LINES_16);
        MD_FOR (t, tiles) {
            md_mma(x[t] + j * 8, a[t], b[0], b[1]);
            md_mma(x[t] + j * 8 + 4, a[t], b[2], b[3]);
        }
    }
}

/* Elements 16 * i and on of lines 16 * j and on, of `n`, as right operands across lines. */
template <int n> MD_INLINE void md_load_values(unsigned (&v)[4], unsigned values, int j, int i)
{
    const int lane = threadIdx.x & 31;
    md_ldmatrix_across(v, md_piece_at<n>(values, lane & 15, 2 * i + lane / 16) + j * LINES_16);
}

#endif
