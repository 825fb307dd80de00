/* From the sums of a tile to results. A part of chain_wgmma.cu. */
#ifndef MD_CUDA_CHAIN_WGMMA_END_H
#define MD_CUDA_CHAIN_WGMMA_END_H

/* Four lanes have two columns each of four times 8 columns; afterwards each has 8 columns. */
MD_INLINE void md_gather_columns(unsigned (&x)[4])
{
    const int lane = threadIdx.x & 3;
    MD_FOR (k, 2) {
        const int far = 2 >> k, is_upper = lane & far;
        MD_FOR (i, 2) {
            const int a = k ? 2 * i : i, b = a + far;
            const unsigned got = __shfl_xor_sync(MD_ALL_LANES, is_upper ? x[a] : x[b], far);
            x[a] = is_upper ? got : x[a];
            x[b] = is_upper ? x[b] : got;
        }
    }
    /* x[a] of the lower lane and x[b] of the upper one stayed: lane n has columns 8n in the order of lanes. */
}

/* Ends the rows of a tile and stores them. */
MD_INLINE void md_finish(md_sums &o, md_rows &r, const md_mine &m, const md_params &p, const md_work &work)
{
    const int lane = threadIdx.x & 3;
    const md_chain_batch b = md_chain_batch_of(&p, m.batch);
    MD_FOR (h, 2) {
        const bool exists = md_row_of(m, h) < work.rows;
        const md_chain_row row = md_chain_row_of(&p, &b, min(md_row_of(m, h), work.rows - 1));
        md_chain_state state;
        state.maximum = r.top[h] * (m.scale * 0.693147180559945f);
        state.sum[0] = r.sum[h];
        const float factor = md_chain_close(&p, &row, &state);
        char *to = (char *)md_chain_result_at(&p, &row, 0);
        if (MD_CHAIN_ROW_STORES && lane == 0 && exists)
            md_chain_store_row(&p, &row, &state);
        MD_FOR (i, (MD_WIDTH / 8 + 3) / 4) {
            unsigned x[4];
            MD_FOR (j, 4)
                if (i * 4 + j < MD_WIDTH / 8)
                    x[j] =
                        md_chain_result(&p, &row, &state, i * 32 + j * 8 + lane * 2,
                                        o[(i * 4 + j) * 4 + h * 2] * factor, o[(i * 4 + j) * 4 + h * 2 + 1] * factor);
            if (i * 4 + 4 <= MD_WIDTH / 8) {
                md_gather_columns(x);
                if (exists)
                    *(uint4 *)(to + i * 64 + lane * 16) = make_uint4(x[0], x[1], x[2], x[3]);
            } else {
                MD_FOR (j, 4)
                    if (i * 4 + j < MD_WIDTH / 8 && exists)
                        *(unsigned *)(to + i * 64 + j * 16 + lane * 4) = x[j];
            }
        }
    }
}

#if MD_SPLIT > 1
/* Leaves the warpgroup's part of a tile in the workspace. True for the last one of the tile, which then has the sums of
 * all parts, added in their order. A part is in the order of the threads. */
MD_INLINE bool md_meet_parts(md_sums &o, md_rows &r, const md_mine &m, const md_params &p, const md_places &s)
{
    const int own = threadIdx.x & 127;
    float *parts = md_chain_parts(&p) + (long long)(m.item * MD_GROUPS + m.group) * MD_SPLIT * PART + own * 4;
    unsigned *ticket = md_chain_counter(&p) + 16 + m.item * MD_GROUPS + m.group;
    const unsigned drawn = s.row_sum + (threadIdx.x / 128) * 16;
    float *mine = parts + m.split * PART;
    MD_FOR (i, MD_WIDTH / 8)
        __stcg((float4 *)(mine + i * 512), make_float4(o[i * 4], o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3]));
    __stcg((float4 *)(mine + MD_WIDTH / 8 * 512), make_float4(r.top[0], r.top[1], r.sum[0], r.sum[1]));
    __threadfence();
    md_meet(MEET + 2 * MD_GROUPS + m.group, 128);
    if (own == 0)
        md_store_word(drawn, atomicAdd(ticket, 1u));
    md_meet(MEET + 2 * MD_GROUPS + m.group, 128);
    if (md_load_word(drawn) != MD_SPLIT - 1)
        return false;
    __threadfence();
    if (own == 0)
        *(volatile unsigned *)ticket = 0;
    float top[2] = {-MD_INF_F, -MD_INF_F};
    MD_FOR (k, MD_SPLIT) {
        const float2 own_top = __ldcg((const float2 *)(parts + k * PART + MD_WIDTH / 8 * 512));
        top[0] = fmaxf(top[0], own_top.x);
        top[1] = fmaxf(top[1], own_top.y);
    }
    MD_FOR (i, MD_WIDTH / 2)
        o[i] = 0;
    r.sum[0] = r.sum[1] = 0;
    MD_ROLLED for (int k = 0; k < MD_SPLIT; k++)
    {
        const float4 state = __ldcg((const float4 *)(parts + k * PART + MD_WIDTH / 8 * 512));
        const float f0 = md_power((state.x - md_chain_base(top[0])) * m.scale),
                    f1 = md_power((state.y - md_chain_base(top[1])) * m.scale);
        r.sum[0] = __fmaf_rn(state.z, f0, r.sum[0]);
        r.sum[1] = __fmaf_rn(state.w, f1, r.sum[1]);
        MD_FOR (i, MD_WIDTH / 8) {
            const float4 x = __ldcg((const float4 *)(parts + k * PART + i * 512));
            o[i * 4] = __fmaf_rn(x.x, f0, o[i * 4]);
            o[i * 4 + 1] = __fmaf_rn(x.y, f0, o[i * 4 + 1]);
            o[i * 4 + 2] = __fmaf_rn(x.z, f1, o[i * 4 + 2]);
            o[i * 4 + 3] = __fmaf_rn(x.w, f1, o[i * 4 + 3]);
        }
    }
    r.top[0] = top[0];
    r.top[1] = top[1];
    return true;
}
#endif

#endif
