/* The time of a product: launch and first copy, then waves of tiles, each as long as the slowest of multiplying, reading shared memory and filling it;
 * the p-norm of that with the L2 and memory; what comes after the last product. Constants were fit by random search on the logarithm of measured
 * over modelled time, near-best kernels weighing most, plus the regret of the pick (src/README.md, Products on a GPU). */
#include "family/cuda_gemm_cost.h"

#include "base/dtype.h"
#include "family/cuda_gemm.h"

#include <math.h>

/* Fit on an H200: us, or factors of what the machine's facts say. */
static const double START = 2.24, MATH = 1.85, SHARED = 0.97, FILL = 0.90, L2_GBPS = 37000, MEMORY = 1.035, NORM = 2.94, END = 0.47, END_ELEMENT = 0.0061,
                    END_SLAB = 11.9, END_UNDER = 0.16, CLUSTER = 0.31, MEET = 0.61, MEET_BLOCK = 0.05, SUM = 1.0, SUM_GBPS = 3860, COPIES = 2.0,
                    COPIES_MEMORY = 2.5, TIRED = 0.185, TIRED_US = 150, OVERLAP = 0.4;
/* Of an element's END_ELEMENT: an operation of the epilogue, a function. */
static const double HEAVY_OPERATION = 0.1, HEAVY_FUNCTION = 1.0;
/* The clock under load, of the one that the peak is given at. */
static const double CLOCK = 0.886;
enum { CLUSTERS_PER_16 = 16 }; /* SMs that large clusters find together */

typedef struct tiles {
    double units, slots, waves, steps; /* what is placed at once (a tile, a cluster); places; of K, 128 bytes each */
    double a_rows; /* of A that are copied a tile */
    double together; /* blocks of a unit */
} tiles;

static tiles tiles_of(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const double sms = MD_MAX(facts->threads, 1), share = v->cluster;
    const bool shares_a = v->rows > v->columns;
    const int32_t item = (int32_t)md_dtype_size(w->p.program->formula->tensor[w->p.load[MD_CG_A]->id].dtype);
    const double down = ceil((double)w->rows / (v->rows * (shares_a ? 1 : share))), across = ceil((double)w->columns / (v->columns * (shares_a ? share : 1)));
    tiles t = {.together = v->is_met ? v->split : share, .a_rows = v->rows};
    t.units = (double)w->batch * down * across * (v->is_met ? 1 : v->split);
    t.slots = t.together <= 2 ? floor(sms / t.together) : floor(sms / CLUSTERS_PER_16) * floor(CLUSTERS_PER_16 / t.together);
    t.waves = ceil(t.units / fmax(t.slots, 1));
    t.steps = ceil((double)w->depth * item / 128 / v->split);
    if (w->rows <= v->rows && v->cluster == 1 && !v->is_library)
        t.a_rows = ceil((double)w->rows / 8) * 8;
    return t;
}

static double norm(double a, double b, double c, double p)
{
    return pow(pow(a, p) + pow(b, p) + pow(c, p), 1 / p);
}

/* A step of K of one tile. */
static double step_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v, const tiles *t)
{
    const double clock = facts->gflops / (MD_MAX(facts->threads, 1) * 256.0) * CLOCK * 1e3; /* a us */
    const double columns = (double)v->columns * w->p.n_products;
    const bool is_lone = v->rows == 64 && !v->is_turned; /* shared memory is what such tiles wait for */
    const double multiply = is_lone ? 0 : v->rows * columns * 64 / 4096 / clock * MATH;
    const double read = v->rows / 64.0 * 4 * (64 * 32 * w->p.n_products + columns * 32) / 128 / clock * SHARED;
    const double fill = (t->a_rows + columns) * 128 / 64 / clock * FILL;
    return norm(multiply, read, fill, 4);
}

static double end_us(const md_fa_product *w, const md_fa_wgmma *v, const tiles *t)
{
    const int32_t groups = v->is_turned || v->rows == 64 ? 1 : 2;
    const double elements = (double)v->rows * v->columns * w->p.n_products / (128 * groups);
    const double heavy = 1 + HEAVY_OPERATION * w->epilogue_ops + HEAVY_FUNCTION * w->epilogue_transcendental;
    const double one = END + END_ELEMENT * elements * heavy * (v->has_result ? 1 : v->is_met ? END_SLAB / v->split : END_SLAB);
    return v->is_turned ? one * (1 + END_UNDER * (ceil(t->waves / 2) - 0.5)) : one * t->waves;
}

double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const tiles t = tiles_of(facts, w, v);
    const bool shares_a = v->rows > v->columns;
    const double a = t.a_rows * 128 / (v->cluster == 2 && shares_a ? 2 : 1);
    const double b = 128.0 * v->columns * w->p.n_products / (v->cluster == 2 && !shares_a ? 2 : 1);
    const double l2 = t.units * t.together * t.steps * (a + b) / L2_GBPS * 1e-3;
    const double memory = w->bytes / (facts->memory_gbps * MEMORY) * 1e-3 * (v->has_copies ? COPIES_MEMORY : 1);
    const double all = norm(t.waves * t.steps * step_us(facts, w, v, &t), l2, memory, NORM);
    double us = START + all * (1 + TIRED * fmin(all / TIRED_US, 1)) + end_us(w, v, &t);
    if (v->cluster == 2)
        us += CLUSTER;
    if (v->is_met)
        us += MEET + MEET_BLOCK * v->split;
    else if (v->split > 1)
        us += SUM + (double)w->batch * (double)w->rows * (double)w->columns * w->p.n_products * 8 * v->split / SUM_GBPS * 1e-3;
    us += v->has_copies ? COPIES : 0;
    return v->is_library || !md_fa_cuda_product_overlaps(w) ? us : us - OVERLAP;
}

double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *w)
{
    static const md_fa_wgmma list[] = {
        {64, 16, 1, 1, .has_result = true}, {64, 32, 1, 1, .has_result = true}, {64, 64, 1, 1, .has_result = true}, {64, 96, 1, 1, .has_result = true},
        {64, 128, 1, 1, .has_result = true}, {64, 256, 1, 1, .has_result = true}, {64, 64, 2, 1, .is_met = true, .has_result = true},
        {64, 128, 2, 1, .is_met = true, .has_result = true}, {64, 256, 2, 1, .is_met = true, .has_result = true}, {64, 128, 4, 1, .is_met = true, .has_result = true},
        {64, 32, 8, 1, .is_met = true, .has_result = true}, {128, 96, 1, 1, true, .has_result = true}, {128, 128, 1, 1, true, .has_result = true},
        {128, 160, 1, 1, true, .has_result = true}, {128, 192, 1, 1, true, .has_result = true}, {128, 256, 1, 2, .has_result = true},
        {256, 128, 1, 2, .has_result = true}, {128, 176, 1, 2, .has_result = true}, {256, 160, 1, 2, .has_result = true},
    };
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(list); i++) {
        md_fa_wgmma v = list[i];
        v.is_library = true;
        best = fmin(best, md_fa_wgmma_us(facts, w, &v));
    }
    return best;
}

void md_fa_wgmma_features(md_fa_features *out, double us, int32_t launches)
{
    static const double LAUNCH_US = 1.5, NEXT_LAUNCH_US = 1.2; /* what the model adds for launches */
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = launches, .serial_us = fmax(us - LAUNCH_US - NEXT_LAUNCH_US * (launches - 1), 0.1)};
}
