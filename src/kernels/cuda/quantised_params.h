/* Quantisation parameters (qparams): scales and zeros of runs of K, of a tile's lines, RUNS a stage. A part of
 * gemm_quantised.cu, whose macros and sizes it uses. */
#ifndef MD_CUDA_QUANTISED_PARAMS_H
#define MD_CUDA_QUANTISED_PARAMS_H

/* Those that lie side by side as the runs do go to shared memory as they are, by an asynchronous copy a line. */
typedef const void *md_qparam_place(const md_params *p, int64_t batch, int64_t row, int64_t k);
typedef float md_qparam_of(const md_params *p, int64_t batch, int64_t row, int64_t k);

template <int lines, int kind, md_qparam_place place, md_qparam_of of> struct md_qparams_feed {
    enum { BYTES = md_qparam<kind>::BYTES, ALL = RUNS * BYTES, N = (lines + THREADS - 1) / THREADS };
    const char *from[N]; /* of the next stage; null: the line is no row */
    bool is_unit;

    __device__ __forceinline__ void begin(const md_params *p, const md_source &s, int64_t k, bool unit)
    {
        is_unit = unit;
        MD_FOR (i, N) {
            const int line = threadIdx.x + i * THREADS;
            const int64_t row = s.row + line;
            const bool is_there = line < lines && row < s.rows && k < s.end;
            from[i] = is_there ? (const char *)place(p, s.batch, row, k) : nullptr;
        }
    }

    __device__ __forceinline__ void fetch(uint32_t to, const md_params *p, const md_source &s, int64_t k)
    {
        const int n = max((int)md_least((s.end - k + MD_RUN - 1) / MD_RUN, RUNS), 0);
        MD_FOR (i, N) {
            const int line = threadIdx.x + i * THREADS;
            if (lines % THREADS && line >= lines)
                break;
            const uint32_t at = to + line * ALL;
            const int some = from[i] ? n : 0;
            if (some > 0 && is_unit && (uint64_t)from[i] % ALL == 0) {
                md_copy_small<ALL>(at, from[i], some * BYTES);
            } else {
                MD_ROLLED for (int r = 0; r < RUNS; r++)
                    md_qparam<kind>::put(at + r * BYTES, r < some ? of(p, s.batch, s.row + line, k + r * MD_RUN) : 0);
            }
            from[i] += from[i] ? ALL : 0;
        }
    }
};

/* Other qparams are computed in registers, and kept as f32 once a stage has been multiplied. */
template <int lines> struct md_qparams {
    enum { N = (lines * RUNS + THREADS - 1) / THREADS };
    float v[N];
};

/* The run that qparam i of a thread belongs to, and its line in the tile. */
template <int lines> struct md_qparam_at {
    int run, line;
    bool is_there;
    __device__ __forceinline__ md_qparam_at(int i)
    {
        const int c = threadIdx.x + i * THREADS;
        run = c / lines, line = c % lines;
        is_there = c < lines * RUNS;
    }
};

template <int lines, md_qparam_of of>
MD_INLINE void md_qparams_fetch(md_qparams<lines> &qparams, const md_params *p, const md_source &s, int64_t k)
{
    MD_FOR (i, md_qparams<lines>::N) {
        const md_qparam_at<lines> at(i);
        const int64_t row = s.row + at.line, from = k + at.run * MD_RUN;
        qparams.v[i] = at.is_there && row < s.rows && from < s.end ? of(p, s.batch, row, from) : 0;
    }
}

template <int lines> MD_INLINE void md_qparams_keep(uint8_t *to, const md_qparams<lines> &qparams)
{
    MD_FOR (i, md_qparams<lines>::N) {
        const md_qparam_at<lines> at(i);
        if (at.is_there)
            ((float *)to)[at.line * RUNS + at.run] = qparams.v[i];
    }
}

#endif
