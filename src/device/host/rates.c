/* Measures the rates of the host: memory, cache, arithmetic and launches. */
#include "device/host/host.h"

#include "base/clock.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rates are rounded to quarter octaves, so that two runs on a machine mostly agree on the rates and on the model's
 * picks. Each rate is the best of a few tries, because other load only makes them slower. */
enum { N_TRIES = 4, ENOUGH_NS = 4000000 }; /* a try that takes this long is the last, for example under an emulator */

static double round_rate(double rate, double lo, double hi)
{
    if (!(rate > lo))
        rate = lo;
    if (rate > hi)
        rate = hi;
    return exp2(round(log2(rate) * 4.0) / 4.0);
}

/* The least time of a few runs of a loop, in ns; 0 if it cannot run. */
static double best_ns(md_pool *pool, int64_t n_blocks, int64_t grain, md_pool_body body, void *context)
{
    double best = INFINITY;
    for (int32_t i = 0; i < N_TRIES && (i == 0 || best < ENOUGH_NS); i++) {
        uint64_t start = md_clock_ns();
        if (md_pool_loop(pool, n_blocks, grain, 0, body, context) != MD_OK)
            return 0.0;
        best = fmin(best, (double)(md_clock_ns() - start));
    }
    return fmax(best, 1.0);
}

/* ---- Memory: one half of a buffer is copied to the other, in pieces. */

enum { PIECE_BYTES = 256 << 10, LEAST_SPACE = 8 << 20, MOST_SPACE = 64 << 20 };

typedef struct copy_job {
    char *to;
    const char *from;
} copy_job;

static void copy_piece(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    const copy_job *job = context;
    memcpy(job->to + first * PIECE_BYTES, job->from + first * PIECE_BYTES, (size_t)(last - first) * PIECE_BYTES);
}

static void touch_piece(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    memset((char *)context + first * PIECE_BYTES, 1, (size_t)(last - first) * PIECE_BYTES);
}

/* GB/s, counting bytes read and written; 0 if it cannot run. */
static double copy_gbps(md_pool *pool, char *space, int64_t n_bytes, bool is_alone)
{
    copy_job job = {space, space + n_bytes / 2};
    int64_t n_pieces = n_bytes / 2 / PIECE_BYTES;
    double ns = best_ns(pool, n_pieces, is_alone ? n_pieces : 1, copy_piece, &job);
    return ns > 0.0 ? (double)n_bytes / ns : 0.0;
}

static void measure_memory(md_dev_facts *facts, md_pool *pool)
{
    int64_t n_bytes = MD_MIN(MD_MAX(LEAST_SPACE, 2 * facts->threads * facts->l2_bytes), MOST_SPACE);
    n_bytes -= n_bytes % (2 * PIECE_BYTES);
    char *space = aligned_alloc(4096, (size_t)n_bytes);
    double all = 0.0, alone = 0.0, cached = 0.0;
    if (space && md_pool_loop(pool, n_bytes / PIECE_BYTES, 1, 0, touch_piece, space) == MD_OK) {
        all = copy_gbps(pool, space, n_bytes, false);
        alone = facts->threads > 1 ? copy_gbps(pool, space, n_bytes, true) : all;
        cached = copy_gbps(pool, space, 2 * PIECE_BYTES, true); /* both halves stay in a lane's L2 */
    }
    free(space);
    /* One lane alone does not reach the full rate. If it seems to, other load slowed the measurement of all lanes. */
    all = fmax(all, alone * fmin(facts->threads, 1.5));
    facts->memory_gbps = round_rate(all, 1.0, 8192.0);
    facts->lane_gbps = fmin(round_rate(alone, 1.0, 8192.0), facts->memory_gbps);
    facts->cache_gbps = fmax(round_rate(cached, 4.0, 8192.0), facts->lane_gbps);
}

/* ---- Arithmetic: chains of multiply-add in the widest vectors, enough to hide the latency. */

enum { N_STEPS = 10000, VECTOR_FLOATS = 16 };
typedef float vector __attribute__((vector_size(4 * VECTOR_FLOATS)));

/* n is a constant after inlining; a vector takes one, two or four registers. */
static inline __attribute__((always_inline)) float run_chains(float factor, int32_t n)
{
    vector a[12];
    for (int32_t i = 0; i < n; i++)
        a[i] = (vector){0} + (float)i;
    for (int32_t step = 0; step < N_STEPS; step++) {
#pragma GCC unroll 12
        for (int32_t i = 0; i < n; i++)
            a[i] = a[i] * factor + 1.0f;
    }
    for (int32_t i = 1; i < n; i++)
        a[0] += a[i];
    return a[0][0];
}

typedef float (*chains_fn)(float factor);

static float run_chains_16(float factor)
{
    return run_chains(factor, 3);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float run_chains_32(float factor)
{
    return run_chains(factor, 6);
}

__attribute__((target("avx512f"))) static float run_chains_64(float factor)
{
    return run_chains(factor, 12);
}
#else
#define run_chains_32 run_chains_16
#define run_chains_64 run_chains_16
#endif

typedef struct chains_job {
    chains_fn fn;
    volatile float factor; /* volatile, so that the compiler cannot compute the result */
    _Atomic int32_t sink;
} chains_job;

static void chains_piece(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)lane;
    (void)scratch;
    chains_job *job = context;
    for (int64_t i = first; i < last; i++)
        atomic_fetch_add_explicit(&job->sink, job->fn(job->factor) > 0.0f, memory_order_relaxed);
}

static void measure_arithmetic(md_dev_facts *facts, md_pool *pool)
{
    enum { BLOCKS_PER_LANE = 4 };
    int32_t n_vectors = facts->vector_bytes >= 64 ? 12 : facts->vector_bytes >= 32 ? 6 : 3;
    chains_job job = {facts->vector_bytes >= 64   ? run_chains_64
                      : facts->vector_bytes >= 32 ? run_chains_32
                                                  : run_chains_16,
                      0.5f, 0};
    int64_t n_blocks = (int64_t)facts->threads * BLOCKS_PER_LANE;
    double ns = best_ns(pool, n_blocks, 1, chains_piece, &job);
    double flops = 2.0 * VECTOR_FLOATS * n_vectors * (double)N_STEPS * (double)n_blocks;
    /* At least one multiply-add a nanosecond and lane: a build without optimisation, or valgrind, is not a slow CPU. */
    double least = facts->threads * (facts->vector_bytes / 4) * 2.0;
    facts->gflops = round_rate(ns > 0.0 ? flops / ns : 0.0, least, 1e6);
}

/* ---- Launch: the time of a loop beyond its work, with equal work for every lane. Blocks need some work: the caller
 * would finish empty ones before any worker starts. */

enum { WORK_NS = 4000 };

static void busy_piece(void *context, int64_t first, int64_t last, int32_t lane, void *scratch)
{
    (void)context;
    (void)lane;
    (void)scratch;
    for (uint64_t end = md_clock_ns() + (uint64_t)(last - first) * WORK_NS; md_clock_ns() < end;)
        ;
}

static void measure_launch(md_dev_facts *facts, md_pool *pool)
{
    enum { N_LOOPS = 20 };
    double best = INFINITY;
    for (int32_t i = 0; i < N_TRIES; i++) {
        uint64_t start = md_clock_ns();
        for (int32_t j = 0; j < N_LOOPS; j++)
            (void)md_pool_loop(pool, facts->threads, 1, 0, busy_piece, NULL);
        best = fmin(best, (double)(md_clock_ns() - start) / N_LOOPS - WORK_NS);
    }
    facts->launch_us = facts->threads > 1 ? round_rate(best * 1e-3, 0.5, 4.0) : 0.125;
}

void md_dev_host_measure(md_dev_facts *facts, md_pool *pool)
{
    measure_arithmetic(facts, pool);
    measure_memory(facts, pool);
    measure_launch(facts, pool);
}
