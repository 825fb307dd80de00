/* Parts of gemm_widened.cu and gemm_widened_few.cu, whose macros and sizes they use: which part of the work is a
 * block's, weights that are widened, scales of runs, and results. */
/* The part of the work that is a block's. */
typedef struct md_part {
    int64_t row, column; /* the first of the tile */
    int slice, from, to; /* the units of K */
} md_part;

MD_INLINE md_part md_part_of(const md_params &p, int rank, unsigned tile)
{
    md_part w;
    const unsigned across = (unsigned)((md_points_rows(&p) + MD_BN - 1) / MD_BN);
    const int units = (int)(md_chunks_of(md_points_depth(&p)) / MD_CHUNKS);
    w.slice = rank;
    w.row = (int64_t)(tile % across) * MD_BN;
    w.column = (int64_t)(tile / across) * BM;
    w.from = (int)((int64_t)units * rank / MD_SPLIT);
    w.to = (int)((int64_t)units * (rank + 1) / MD_SPLIT);
    return w;
}

/* ---- Weights */
/* Two halves of bytes that stand in the last bits of 16-bit reals, less what these have besides. One instruction has
 * one literal, so the power is in a register. */
MD_INLINE uint32_t md_widen_two(uint32_t word, int r)
{
    const uint32_t power = MD_IS_BF16_OF(MD_MULTIPLY) ? 0x43004300u : 0x64006400u;
    uint32_t two;
    asm("lop3.b32 %0, %1, 0x000f000f, %2, 0xea;" : "=r"(two) : "r"(word >> 4 * r), "r"(power));
    const uint32_t negative = MD_IS_BF16_OF(MD_MULTIPLY) ? (MD_KIND_1 == MD_OF_I4 ? 0xc308c308u : 0xc300c300u)
                                                         : (MD_KIND_1 == MD_OF_I4 ? 0xe408e408u : 0xe400e400u);
    return md_less(two, negative);
}

/* Two signed bytes, the low ones of the halves of `two`, as bf16: 128 and the last seven bits, less 128, or 256 where
 * the sign is set. Nothing is rounded. */
MD_INLINE uint32_t md_widen_signed(uint32_t two)
{
    const uint32_t power = 0x43004300u;
    uint32_t large, less, r;
    asm("lop3.b32 %0, %1, 0x007f007f, %2, 0xea;" : "=r"(large) : "r"(two), "r"(power));
    asm("lop3.b32 %0, %1, 0x00800080, %2, 0xea;" : "=r"(less) : "r"(two), "r"(power));
    asm("sub.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(large), "r"(less));
    return r;
}

/* The registers of a step, from the words that are this thread's of 64 of K. */
MD_INLINE void md_widen(uint32_t (&a)[4], const uint32_t (&word)[4 * WIDE], int step)
{
    if constexpr (WIDE == 1) {
        MD_FOR (r, 4)
            a[r] = md_widen_two(word[step], r);
    } else {
        MD_FOR (h, 2) {
            const uint32_t w = word[step * 2 + h];
            if constexpr (IS_SPREAD) {
                MD_FOR (i, 2)
                    a[2 * h + i] = md_widen_signed(w >> 8 * i);
            } else if constexpr (MD_KIND_1 == MD_OF_I8 || MD_KIND_1 == MD_OF_U8) {
                uint32_t two[2];
                md_widen_bytes<MD_KIND_1 == MD_OF_I8>(two, w);
                a[2 * h] = two[0], a[2 * h + 1] = two[1];
            } else {
                MD_FOR (i, 2)
                    a[2 * h + i] = md_widen_f8<MD_KIND_1 == MD_OF_F8E5M2>(w >> 16 * i);
            }
        }
    }
}

/* ---- Sums */
typedef float md_sums_of[SUMS];

/* Scales and zero points of a unit's runs: of columns g and g + 8. */
typedef struct md_qparams_of {
    float scale[RUNS][2], zero[RUNS][2];
} md_qparams_of;

/* Where they come from. Those of neighbouring runs that lie side by side are found by the first one's address. */
typedef struct md_qparams_from {
    const uint8_t *scale[2], *zero[2]; /* null: computed */
    int64_t column[2];
} md_qparams_from;

MD_INLINE md_qparams_from md_qparams_begin(const md_params &p, int64_t column)
{
    md_qparams_from f;
    MD_FOR (h, 2) {
        f.column[h] = md_least(column + h * 8, md_points_columns(&p) - 1);
        f.scale[h] = f.zero[h] = nullptr;
#if MD_SCALE_LIES_1
        if (md_scale_is_unit_1(&p))
            f.scale[h] = (const uint8_t *)md_scale_at_1(&p, 0, f.column[h], 0);
#endif
#if MD_ZERO_LIES
        if (md_zero_is_unit_1(&p))
            f.zero[h] = (const uint8_t *)md_zero_at_1(&p, 0, f.column[h], 0);
#endif
    }
    return f;
}

/* Of unit u, whose runs beyond the end of K have none. */
MD_INLINE void md_qparams_get(md_qparams_of &q, const md_qparams_from &f, const md_params &p, int u, int runs)
{
    MD_FOR (r, RUNS)
        MD_FOR (h, 2) {
            const int run = u * RUNS + r;
            const bool is_there = run < runs;
            const int64_t k = (int64_t)run * RUN_STEPS * 16;
            q.scale[r][h] = 1;
            q.zero[r][h] = 0;
#if MD_HAS_SCALE
            q.scale[r][h] = !is_there                       ? 0
                            : MD_SCALE_LIES_1 && f.scale[h] ? md_qparam<MD_SCALE_KIND_1>::get(f.scale[h], run)
                                                            : md_scale_1(&p, 0, f.column[h], k);
#endif
#if MD_HAS_ZERO
            q.zero[r][h] = !is_there                   ? 0
                           : MD_ZERO_LIES && f.zero[h] ? md_qparam<MD_ZERO_KIND>::get(f.zero[h], run)
                                                       : md_zero_1(&p, 0, f.column[h], k);
#endif
            (void)k, (void)is_there;
        }
}

/* Sums of a run, scaled, are added. ones: sums of the activations. */
MD_INLINE void md_add_run(md_sums_of &acc, const md_sums_of &part, const md_sums_of &ones, const float (&scale)[2],
                          const float (&zero)[2])
{
    MD_FOR (i, SUMS) {
        float v = part[i];
        if (MD_HAS_ZERO)
            v = __fmaf_rn(-zero[i / 2 & 1], ones[i], v);
        acc[i] = __fmaf_rn(v, scale[i / 2 & 1], acc[i]);
    }
}

MD_INLINE void md_clear(md_sums_of &sums)
{
    MD_FOR (i, SUMS)
        sums[i] = 0;
}

/* ---- Results */
/* All threads of all blocks of the cluster; what they wrote to shared memory before is seen after it. */
MD_INLINE void md_meet_all(void)
{
    MD_TEST_PAUSE(4);
    if (MD_SPLIT > 1)
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    else
        __syncthreads();
}

MD_INLINE float4 md_load_floats(unsigned from)
{
    const uint4 v = md_load_words(from);
    return make_float4(md_f32(v.x), md_f32(v.y), md_f32(v.z), md_f32(v.w));
}

/* A block ends the rows that are its share. */
MD_INLINE void md_end_rows(const md_params &p, const md_part &w, unsigned sums)
{
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p);
    enum { VECTORS = BM / 4, SHARE = (MD_BN + MD_SPLIT - 1) / MD_SPLIT };
    MD_ROLLED for (int t = threadIdx.x; t < SHARE * VECTORS; t += THREADS)
    {
        const int r = t / VECTORS * MD_SPLIT + w.slice, in = t % VECTORS * 4;
        const int64_t row = w.row + r, column = w.column + in;
        if (r >= MD_BN || row >= rows || column >= columns)
            continue;
        const unsigned at = sums + (r * PITCH + in) * 4;
        md_v v;
        MD_FOR (i, MD_SPLIT * MD_DEPTHS) {
            const unsigned from = at + i % MD_DEPTHS * PLANE * 4;
            const float4 x = MD_SPLIT > 1 ? md_load_at(from, i / MD_DEPTHS) : md_load_floats(from);
            const float four[4] = {x.x, x.y, x.z, x.w};
            MD_FOR (l, 4)
                v.v[l] = i ? v.v[l] + four[l] : four[l];
        }
        md_finish(&p, 0, row, column, v, v, (int)md_least(4, columns - column));
    }
}
