/* Measures the rates of the host: memory, cache, arithmetic and launches. */
#include "device/host/host.h"

#include "base/clock.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Rates are rounded to quarter octaves, so that two runs on a machine mostly agree on the rates and on the model's
 * picks. Each rate is the best of a few tries, because other load only makes them slower. More tries are made until the
 * two best agree; how far they are apart says how sure the rate is. */
enum { N_TRIES = 4, MOST_TRIES = 16, ENOUGH_NS = 4000000 }; /* a try that takes ENOUGH_NS is the last: an emulator */
/* An estimate is one try of each, over less memory. It is told from what was measured by its spread. */
static const double ESTIMATE_SPREAD = 1.0;
static const double AGREES = 1.03;

typedef struct tries {
    double best, second; /* ns; INFINITY: none yet */
    int32_t n;
} tries;

static const tries no_tries = {INFINITY, INFINITY, 0};

static void add_try(tries *t, double ns)
{
    t->second = fmin(t->second, fmax(ns, t->best));
    t->best = fmin(t->best, ns);
    t->n++;
}

static bool wants_try(const tries *t)
{
    return t->n == 0 || (t->best < ENOUGH_NS && t->n < (t->second > AGREES * t->best ? MOST_TRIES : N_TRIES));
}

static void note_spread(md_dev_facts *facts, const tries *t)
{
    if (t->n > 1)
        facts->rates_spread = fmax(facts->rates_spread, t->second / t->best - 1.0);
}

static double round_rate(double rate, double lo, double hi)
{
    if (!(rate > lo))
        rate = lo;
    if (rate > hi)
        rate = hi;
    return exp2(round(log2(rate) * 4.0) / 4.0);
}

typedef struct loop {
    md_pool_body body;
    void *context;
    int64_t n_blocks, grain;
} loop;

/* What is measured, with which threads, and whether for an estimate. */
typedef struct study {
    md_dev_facts *facts;
    md_pool *pool;
    bool is_estimate;
} study;

/* The least time of a few runs of a loop, in ns; 0 if it cannot run. */
static double best_ns(const study *of, const loop *l)
{
    tries t = no_tries;
    while (of->is_estimate ? t.n == 0 : wants_try(&t)) {
        uint64_t start = md_clock_ns();
        if (md_pool_loop(of->pool, l->n_blocks, l->grain, 0, l->body, l->context) != MD_OK)
            return 0.0;
        add_try(&t, fmax((double)(md_clock_ns() - start), 1.0));
    }
    note_spread(of->facts, &t);
    return t.best;
}

/* ---- Memory: one half of a buffer is copied to the other, in pieces. */

enum { PIECE_BYTES = 256 << 10, LEAST_SPACE = 8 << 20, ESTIMATE_SPACE = 16 << 20, MOST_SPACE = 64 << 20 };

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
static double copy_gbps(const study *of, char *space, int64_t n_bytes, bool is_alone)
{
    copy_job job = {space, space + n_bytes / 2};
    int64_t n_pieces = n_bytes / 2 / PIECE_BYTES;
    double ns = best_ns(of, &(loop){copy_piece, &job, n_pieces, is_alone ? n_pieces : 1});
    return ns > 0.0 ? (double)n_bytes / ns : 0.0;
}

static void measure_memory(const study *of)
{
    md_dev_facts *facts = of->facts;
    int64_t n_bytes = MD_MIN(MD_MAX(LEAST_SPACE, 2 * facts->threads * facts->l2_bytes),
                             of->is_estimate ? ESTIMATE_SPACE : MOST_SPACE);
    n_bytes -= n_bytes % (2 * PIECE_BYTES);
    char *space = aligned_alloc(4096, (size_t)n_bytes);
    double all = 0.0, alone = 0.0, cached = 0.0;
    if (space && md_pool_loop(of->pool, n_bytes / PIECE_BYTES, 1, 0, touch_piece, space) == MD_OK) {
        all = copy_gbps(of, space, n_bytes, false);
        alone = facts->threads > 1 ? copy_gbps(of, space, n_bytes, true) : all;
        cached = copy_gbps(of, space, 2 * PIECE_BYTES, true); /* both halves stay in a lane's L2 */
    }
    free(space);
    /* One lane alone does not reach the full rate. If it seems to, other load slowed the measurement of all lanes. */
    all = fmax(all, alone * fmin(facts->threads, 1.5));
    facts->memory_gbps = round_rate(all, 1.0, 8192.0);
    facts->lane_gbps = fmin(round_rate(alone, 1.0, 8192.0), facts->memory_gbps);
    facts->cache_gbps = fmax(round_rate(cached, 4.0, 8192.0), facts->lane_gbps);
}

/* ---- Arithmetic: chains of multiply-add in registers of the width in use, enough to hide the latency. A vector that
 * is wider than the registers would be kept in memory by GCC, at a tenth of the rate. */

enum { N_STEPS = 10000, N_CHAINS = 12 };
typedef float (*chains_fn)(float factor);

#define CHAINS(bytes, target)                                                                                          \
    typedef float vector_##bytes __attribute__((vector_size(bytes)));                                                  \
    target static float run_chains_##bytes(float factor)                                                               \
    {                                                                                                                  \
        vector_##bytes a[N_CHAINS];                                                                                    \
        for (int32_t i = 0; i < N_CHAINS; i++)                                                                         \
            a[i] = (vector_##bytes){0} + (float)i;                                                                     \
        for (int32_t step = 0; step < N_STEPS; step++) {                                                               \
            _Pragma("GCC unroll 12") for (int32_t i = 0; i < N_CHAINS; i++) a[i] = a[i] * factor + 1.0f;               \
        }                                                                                                              \
        for (int32_t i = 1; i < N_CHAINS; i++)                                                                         \
            a[0] += a[i];                                                                                              \
        return a[0][0];                                                                                                \
    }
CHAINS(16, )
#if defined(__x86_64__)
CHAINS(32, __attribute__((target("avx2,fma"))))
CHAINS(64, __attribute__((target("avx512f"))))
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

static void measure_arithmetic(const study *of)
{
    enum { BLOCKS_PER_LANE = 4 };
    md_dev_facts *facts = of->facts;
    const chains_fn fn[] = {run_chains_16, run_chains_32, run_chains_64};
    const int32_t wider = facts->vector_bytes >= 64 ? 2 : facts->vector_bytes >= 32 ? 1 : 0;
    chains_job job = {fn[wider], 0.5f, 0};
    int64_t n_blocks = (int64_t)facts->threads * BLOCKS_PER_LANE;
    double ns = best_ns(of, &(loop){chains_piece, &job, n_blocks, 1});
    double flops = 2.0 * (4 << wider) * N_CHAINS * (double)N_STEPS * (double)n_blocks;
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

static void measure_launch(const study *of)
{
    enum { N_LOOPS = 20 };
    md_dev_facts *facts = of->facts;
    double best = INFINITY; /* its spread says nothing: a launch costs a few per cent of the loop's time */
    for (int32_t i = 0; i < (of->is_estimate ? 1 : N_TRIES); i++) {
        uint64_t start = md_clock_ns();
        for (int32_t j = 0; j < N_LOOPS; j++)
            (void)md_pool_loop(of->pool, facts->threads, 1, 0, busy_piece, NULL);
        best = fmin(best, (double)(md_clock_ns() - start) / N_LOOPS - WORK_NS);
    }
    facts->launch_us = facts->threads > 1 ? round_rate(best * 1e-3, 0.5, 4.0) : 0.125;
}

void md_dev_host_measure(md_dev_facts *facts, md_pool *pool, bool is_estimate)
{
    const study of = {facts, pool, is_estimate};
    facts->rates_spread = is_estimate ? ESTIMATE_SPREAD : 0;
    facts->rates_at = (int64_t)time(NULL);
    measure_arithmetic(&of);
    measure_memory(&of);
    measure_launch(&of);
}
