/* Lines of 16-bit elements in shared memory: what kernels of chains and of pairs share. */
#ifndef MD_CUDA_CHAIN_LINES_H
#define MD_CUDA_CHAIN_LINES_H

/* The address of piece c of a line in shared memory: 64 elements of each of `pitch` lines follow each other, in pieces
 * of 16 bytes that are swapped so that eight lines at one piece are in different banks. */
template <int pitch> MD_INLINE unsigned md_piece_at(unsigned lines, int line, int c)
{
    return lines + c / 8 * (pitch * 128) + line * 128 + ((c % 8 ^ (line & 7)) << 4);
}

/* A warp copies lines of a tile, `lines` (a power of 2, up to 32) from `first` on, without waiting. `at`: where line
 * `first + lane % lines` lies in data, -1: nowhere, then it becomes zeros. A lane copies `at_once` pieces at a time:
 * fewer where threads have few registers. */
template <int elements, int lines, int pitch, int at_once = (elements / 8 * lines + 31) / 32, class T>
MD_INLINE void md_copy_lines(unsigned to, int first, const T *data, long long at, int lane = threadIdx.x & 31)
{
    enum { PIECES = elements / 8, TURNS = (PIECES * lines + 31) / 32 };
    static_assert(TURNS % at_once == 0, "whole turns");
    MD_ROLLED for (int turn = 0; turn < TURNS; turn += at_once) MD_FOR (j, at_once)
    {
        const int piece = (turn + j) * 32 + lane, own = piece / PIECES, c = piece % PIECES, line = first + own;
        const long long from = __shfl_sync(MD_ALL_LANES, at, own & (lines - 1));
        if (PIECES * lines % 32 == 0 || own < lines)
            md_copy_or_clear(md_piece_at<pitch>(to, line, c), data + (from < 0 ? 0 : from + c * 8), from < 0 ? 0 : 16);
    }
}

/* The same for lines that are evenly spaced in memory, of which n exist. `from`: the place of line `first`, which is a
 * multiple of `lines`. */
template <int elements, int lines, int pitch>
MD_INLINE void md_copy_even_lines(unsigned to, int first, const uint16_t *from, long long stride, int n)
{
    enum { PIECES = elements / 8, STEP = PIECES < 32 ? 32 / PIECES : 1 };
    static_assert(PIECES <= 32 && 32 % PIECES == 0 && lines % STEP == 0, "whole lines at a time");
    const int c = (threadIdx.x & 31) % PIECES, own = (threadIdx.x & 31) / PIECES;
    const unsigned swapped = (c % 8 ^ (own & 7)) << 4;
    const uint16_t *at = from + own * stride + c * 8;
    to += c / 8 * (pitch * 128) + (first + own) * 128;
    MD_FOR (i, lines / STEP) {
        md_copy_or_clear(to + i * STEP * 128 + (swapped ^ (first + i * STEP & 7) << 4), at,
                         i * STEP + own < n ? 16 : 0);
        at += STEP * stride;
    }
}

/* The present one of n stages that are filled in turn, and the phase of its barriers. */
template <int n> struct md_ring {
    int at;
    unsigned phase;
    __device__ __forceinline__ md_ring() : at(0), phase(0) {}
    __device__ __forceinline__ void next()
    {
        if (++at == n) {
            at = 0;
            phase ^= 1;
        }
    }
};

/* Whether a warp can copy so many lines of so many elements like that. */
template <int elements, int lines> struct md_has_even {
    enum { V = 32 % (elements / 8) == 0 && elements / 8 * lines % 32 == 0 };
};

#endif
