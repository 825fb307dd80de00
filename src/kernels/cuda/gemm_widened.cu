/* Products of few rows of 16-bit activations with packed weights of 4 or 8 bits, on Hopper's tensor cores. The product
 * is swapped: the 64 rows of a warpgroup's instruction are columns of the result. They come from registers, where
 * packed weights (gemm_widen_pack.cu) are widened to 16 bits, without rounding; rows of activations come from shared
 * memory, as many as the instruction has columns. The sum of a run of K that shares a scale is made in f32, less the
 * zero point times the sum of the activations, and its scaled value is added.
 *
 * One warp copies, by TMA and by bulk copies, into a ring of stages. The blocks of a cluster share K: each
 * adds up its part, and then some rows of all parts, in order.
 *
 * md_config.h:
 *   MD_GROUPS, MD_BN           warpgroups, of 64 columns of the result each; rows of the result
 *   MD_DEPTHS                  times as many warpgroups, which take the units of K in turns
 *   MD_STAGES, MD_SPLIT        of the ring; blocks of a cluster
 *   MD_BLOCKS                  of an SM that registers must leave room for
 *   MD_RUN                     steps of K that share a scale, 32, 64 or 128; 0: all do, or there is none
 *   MD_CHUNKS                  64s of K of a stage, whose products are waited for together
 *   MD_HAS_SCALE, MD_HAS_ZERO
 *   MD_KIND_1, MD_MULTIPLY     as gemm_quantised.cu
 *   md_wgmma(sums, a, b, adds)   the instruction: 64 rows from registers by MD_BN columns by 16 of K
 * md_expr.h: src/codegen/product/product.h, md_scale_1 and md_zero_1 (src/codegen/product/quantised.c); md_params
 * begins with the md_tensor_map of the activations and has `packed`. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"
#include "quantised.h"
#include "widened.h"

enum {
    CONSUMERS = 128 * MD_GROUPS * MD_DEPTHS,
    THREADS = CONSUMERS + 32,
    BM = 64 * MD_GROUPS,
    ACROSS_BYTES = MD_BN * 128,
    WEIGHTS = MD_CHUNKS * CHUNK, /* bytes of a warpgroup in a stage */
    STAGE = MD_CHUNKS * ACROSS_BYTES + MD_GROUPS * WEIGHTS,
    STEPS = 4 * MD_CHUNKS, /* of 16, of a unit */
    RUN_STEPS = MD_RUN ? MD_RUN / 16 : STEPS,
    RUNS = STEPS / RUN_STEPS, /* of a unit */
    SUMS = MD_BN / 2, /* of a thread */
    PITCH = BM + 4,
    PLANE = MD_BN * PITCH /* sums of the warpgroups that share units */
};

#include "gemm_widened_parts.h"

typedef struct md_ring {
    int stage;
    unsigned phase;
} md_ring;

MD_INLINE void md_ring_on(md_ring &r, int stages)
{
    r.stage += stages;
    if (r.stage >= MD_STAGES) {
        r.stage -= MD_STAGES;
        r.phase ^= 1;
    }
}

MD_INLINE void md_produce(const md_params &p, const md_part &w, unsigned tiles, unsigned full, unsigned empty)
{
    md_ring r = {0, 0};
    const int64_t chunks = md_chunks_of(md_points_depth(&p)), last = (md_points_columns(&p) - 1) / 64;
    MD_ROLLED for (int u = w.from; u < w.to; u++)
    {
        const unsigned bar = full + r.stage * 8, to = tiles + r.stage * STAGE;
        md_bar_wait(empty + r.stage * 8, r.phase ^ 1);
        md_bar_expect(bar, STAGE);
        MD_TEST_POISON(to, STAGE);
        MD_FOR (g, MD_GROUPS) {
            const int64_t tile = md_least(w.column / 64 + g, last); /* beyond the last one nothing is stored */
            md_bulk_load(to + MD_CHUNKS * ACROSS_BYTES + g * WEIGHTS,
                         (const char *)p.packed + (tile * chunks + u * MD_CHUNKS) * CHUNK, WEIGHTS, bar);
        }
        MD_FOR (c, MD_CHUNKS)
            md_tma_load(to + c * ACROSS_BYTES, &p.map0, (u * MD_CHUNKS + c) * 64, (int)w.row, 0, bar);
        md_ring_on(r, 1);
    }
}

/* ---- Sums */
/* Sums that were waited for: the compiler must not read them earlier. */
MD_INLINE void md_settle(md_sums_of &sums)
{
    MD_FOR (i, SUMS)
        asm volatile("" : "+f"(sums[i])::"memory");
}

/* What is true of a consumer in all units. */
typedef struct md_consumer {
    int64_t column; /* of the result: that of its first row of the instruction */
    unsigned piece; /* where its weights begin in a stage */
} md_consumer;

MD_INLINE void md_end_run(md_sums_of &acc, const md_sums_of &part, const md_sums_of &ones, const md_qparams_of &q,
                          int run)
{
    float scale[2], zero[2];
    md_qparams_of_run(scale, zero, q, run);
    md_add_run(acc, part, ones, scale, zero);
}

/* A unit: its stage is given back when all its products are made. */
MD_INLINE void md_unit(md_sums_of &acc, md_sums_of &ones, const md_consumer &me, md_ring &r, unsigned tiles,
                       unsigned full, unsigned empty, const md_qparams_of &q)
{
    md_sums_of part;
    md_sums_of &sums = MD_RUN ? part : acc;
    uint32_t a[STEPS][4];
    const unsigned stage = tiles + r.stage * STAGE, low = md_matrix_low(stage, 8192);
    md_bar_wait(full + r.stage * 8, r.phase);
    MD_FOR (c, MD_CHUNKS) {
        uint32_t word[4 * WIDE];
        MD_FOR (i, WIDE) {
            const uint4 v = md_load_words(stage + me.piece + c * CHUNK + i * 512);
            word[4 * i] = v.x, word[4 * i + 1] = v.y, word[4 * i + 2] = v.z, word[4 * i + 3] = v.w;
        }
        MD_FOR (s, 4) {
            const int step = c * 4 + s;
            const bool adds = !MD_RUN || step % RUN_STEPS > 0;
            md_widen(a[step], word, s);
            md_wgmma_fence();
            md_wgmma(sums, a[step], md_matrix_at(low, c * ACROSS_BYTES + s * 32), adds);
#if MD_HAS_ZERO
            enum : uint32_t { ONE = MD_IS_BF16_OF(MD_MULTIPLY) ? 0x3f803f80u : 0x3c003c00u };
            const uint32_t one[4] = {ONE, ONE, ONE, ONE};
            md_wgmma(ones, one, md_matrix_at(low, c * ACROSS_BYTES + s * 32), adds);
#endif
            md_wgmma_commit();
            if ((step + 1) % RUN_STEPS == 0) {
                md_wgmma_wait<0>();
                md_settle(sums);
                if (MD_HAS_ZERO)
                    md_settle(ones);
                if (MD_RUN)
                    md_end_run(acc, part, ones, q, step / RUN_STEPS);
            }
        }
    }
    if ((threadIdx.x & 31) == 0)
        md_bar_arrive(empty + r.stage * 8);
    md_ring_on(r, MD_DEPTHS);
}

MD_INLINE void md_consume(const md_params &p, md_sums_of &acc, const md_part &w, unsigned tiles, unsigned full,
                          unsigned empty)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 % (4 * MD_GROUPS),
              turn = threadIdx.x / (128 * MD_GROUPS);
    md_consumer me;
    me.column = w.column + warp * 16 + lane / 4;
    me.piece = MD_CHUNKS * ACROSS_BYTES + warp / 4 * WEIGHTS + warp % 4 * (512 * WIDE) + lane * 16;
    md_sums_of ones;
    md_ring r = {turn, 0};
    md_qparams_of q, next;
    md_clear(acc);
    md_clear(ones);
    const int64_t depth = md_points_depth(&p);
    const int runs = MD_RUN ? (int)((depth + RUN_STEPS * 16 - 1) / (RUN_STEPS * 16)) : 1;
    const md_qparams_from params = md_qparams_begin(p, me.column);
    md_qparams_get(next, params, p, MD_RUN ? w.from + turn : 0, runs);
    MD_ROLLED for (int u = w.from + turn; u < w.to; u += MD_DEPTHS)
    {
        q = next;
        if (MD_RUN) /* asked for while this unit is multiplied */
            md_qparams_get(next, params, p, u + MD_DEPTHS, runs);
        md_unit(acc, ones, me, r, tiles, full, empty, q);
    }
    if (!MD_RUN && (MD_HAS_SCALE || MD_HAS_ZERO)) {
        md_sums_of whole;
        md_clear(whole);
        md_end_run(whole, acc, ones, next, 0);
        MD_FOR (i, SUMS)
            acc[i] = whole[i];
    }
}

/* ---- Results */
MD_INLINE void md_keep_sums(float *c, const md_sums_of &acc)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, column = warp % (4 * MD_GROUPS) * 16 + lane / 4,
              row = lane % 4 * 2;
    c += warp / (4 * MD_GROUPS) * PLANE;
    MD_FOR (i, SUMS)
        c[(i / 4 * 8 + row + i % 2) * PITCH + column + (i / 2 & 1) * 8] = acc[i];
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    const unsigned start = md_shared_address(md_memory), base = (start + 1023) & ~1023u,
                   full = base + MD_STAGES * STAGE, empty = full + MD_STAGES * 8;
    const int rank = MD_SPLIT > 1 ? (int)md_cluster_rank() : 0;
    const md_part w = md_part_of(p, rank, blockIdx.x / MD_SPLIT);
    if (threadIdx.x == 0) {
        md_tma_prefetch(&p.map0);
        for (int i = 0; i < MD_STAGES; i++) {
            md_bar_init(full + i * 8, 1);
            md_bar_init(empty + i * 8, 4 * MD_GROUPS);
        }
        md_bar_init_fence();
    }
    __syncthreads();
    md_wait_for_launches();
    md_sums_of acc;
    const bool computes = threadIdx.x < CONSUMERS;
    if (computes)
        md_consume(p, acc, w, base, full, empty);
    else if (threadIdx.x == CONSUMERS)
        md_produce(p, w, base, full, empty);
    __syncthreads(); /* the ring is free */
    if (computes)
        md_keep_sums((float *)(md_memory + (base - start)), acc);
    md_meet_all();
    md_end_rows(p, w, base);
    if (MD_SPLIT > 1)
        md_meet_all(); /* no block ends while others read its sums */
}
