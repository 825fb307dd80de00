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

/* Scales and zero points of a unit's runs, of columns g and g + 8: what was loaded, or f32 that was computed. They are
 * made f32 where a run ends (md_qparams_of_run), as what is done with a load here would wait for it. */
typedef struct md_qparams_of {
    uint32_t scale[RUNS][2], zero[RUNS][2];
} md_qparams_of;

/* Where they come from: those that lie in memory by the first run's address and the bytes between runs. */
typedef struct md_qparams_from {
    int64_t column[2], scale_step, zero_step;
    const uint8_t *scale[2], *zero[2];
} md_qparams_from;

MD_INLINE md_qparams_from md_qparams_begin(const md_params &p, int64_t column)
{
    md_qparams_from f;
    f.scale_step = f.zero_step = 0;
    MD_FOR (h, 2) {
        f.column[h] = md_least(column + h * 8, md_points_columns(&p) - 1);
        f.scale[h] = f.zero[h] = nullptr;
#if MD_SCALE_LIES_1
        f.scale[h] = (const uint8_t *)md_scale_at_1(&p, 0, f.column[h], 0);
        f.scale_step = (const uint8_t *)md_scale_at_1(&p, 0, f.column[h], RUN_STEPS * 16) - f.scale[h];
#endif
#if MD_ZERO_LIES
        f.zero[h] = (const uint8_t *)md_zero_at_1(&p, 0, f.column[h], 0);
        f.zero_step = (const uint8_t *)md_zero_at_1(&p, 0, f.column[h], RUN_STEPS * 16) - f.zero[h];
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
            q.scale[r][h] = q.zero[r][h] = 0;
#if MD_SCALE_LIES_1
            if (is_there)
                q.scale[r][h] = md_qparam<MD_SCALE_KIND_1>::bits(f.scale[h] + run * f.scale_step, 0);
#elif MD_HAS_SCALE
            q.scale[r][h] = is_there ? md_u32(md_scale_1(&p, 0, f.column[h], k)) : 0;
#endif
#if MD_ZERO_LIES
            if (is_there)
                q.zero[r][h] = md_qparam<MD_ZERO_KIND>::bits(f.zero[h] + run * f.zero_step, 0);
#elif MD_HAS_ZERO
            q.zero[r][h] = is_there ? md_u32(md_zero_1(&p, 0, f.column[h], k)) : 0;
#endif
            (void)k, (void)is_there;
        }
}

/* Those of a unit's run as f32. */
MD_INLINE void md_qparams_of_run(float (&scale)[2], float (&zero)[2], const md_qparams_of &q, int run)
{
    MD_FOR (h, 2) {
        scale[h] = 1, zero[h] = 0;
        if (MD_HAS_SCALE)
            scale[h] = MD_SCALE_LIES_1 ? md_qparam<MD_SCALE_KIND_1>::value(q.scale[run][h]) : md_f32(q.scale[run][h]);
        if (MD_HAS_ZERO)
            zero[h] = MD_ZERO_LIES ? md_qparam<MD_ZERO_KIND>::value(q.zero[run][h]) : md_f32(q.zero[run][h]);
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
