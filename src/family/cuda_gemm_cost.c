/* The time of a product: launch and first copy, then waves of tiles, each as long as the slowest of multiplying, reading shared memory and filling it;
 * the p-norm of that with the L2 and memory; what comes after the last product. Constants were fit by random search on the logarithm of measured
 * over modelled time, near-best kernels weighing most, plus the regret of the pick (src/README.md, Products on a GPU). */
#include "family/cuda_gemm_cost.h"

#include "base/dtype.h"
#include "family/cuda_gemm.h"

#include <math.h>

/* Fit on an H200: us, or factors of what the machine's facts say. */
static const double START = 1.84, MATH = 2.03, MATH_LONE = 0.6, SHARED = 1.04, FILL = 0.79, STEP = 0.019, L2_GBPS = 65000, MEMORY = 1.067, NORM = 2.76, END = 0.78,
                    END_ELEMENT = 0.0059, END_SLAB = 10.7, END_MET = 7.2, CLUSTER = 0.23, MEET_BLOCK = 0.05, SUM = 0.1, SUM_SLICE = 0.1, SUM_GBPS = 2950, COPIES = 2.0,
                    COPIES_MEMORY = 2.5, TIRED = 0.09, TIRED_US = 150, OVERLAP = 0.5;
/* Bytes that must be under way for memory to be busy. */
static const double UNDER_WAY = 5.3e6;
/* As END_ELEMENT is 1: an operation of the epilogue, a function. */
static const double HEAVY_OPERATION = 0.3, HEAVY_FUNCTION = 3.0;
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
    const int32_t item = (int32_t)MD_MAX(2, md_dtype_size(w->p.program->formula->tensor[w->p.load[MD_CG_A]->id].dtype)); /* others are converted */
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
    const bool is_lone = v->rows == 64 && !v->is_turned;
    const double multiply = v->rows * columns * 64 / 4096 / clock * MATH * (is_lone ? MATH_LONE : 1);
    const double read = v->rows / 64.0 * 4 * (64 * 32 * w->p.n_products + columns * 32) / 128 / clock * SHARED;
    const double fill = (t->a_rows + columns) * 128 / 64 / clock * FILL;
    return norm(multiply, read, fill, 4) + STEP;
}

static double end_us(const md_fa_product *w, const md_fa_wgmma *v, const tiles *t)
{
    const int32_t groups = v->is_turned || v->rows == 64 ? 1 : 2;
    const double elements = (double)v->rows * v->columns * w->p.n_products / (128 * groups);
    const double heavy = HEAVY_OPERATION * w->epilogue_ops + HEAVY_FUNCTION * w->epilogue_transcendental;
    const double way = v->has_result ? 1 : v->is_met ? END_MET : END_SLAB;
    const double one = END + END_ELEMENT * elements * (way + heavy / (v->is_met ? v->split : 1));
    return v->is_turned ? one : one * t->waves; /* else under the products of the other group */
}

double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const tiles t = tiles_of(facts, w, v);
    const bool shares_a = v->rows > v->columns;
    const double a = t.a_rows * 128 / (v->cluster == 2 && shares_a ? 2 : 1);
    const double b = 128.0 * v->columns * w->p.n_products / (v->cluster == 2 && !shares_a ? 2 : 1);
    const double l2 = t.units * t.together * t.steps * (a + b) / L2_GBPS * 1e-3;
    const double under_way = fmin(t.units, t.slots) * t.together * v->stages * b;
    const double memory = w->bytes / (facts->memory_gbps * MEMORY) * 1e-3 * (v->has_copies ? COPIES_MEMORY : 1) * fmax(1, v->stages > 0 ? UNDER_WAY / under_way : 0);
    const double all = norm(t.waves * t.steps * step_us(facts, w, v, &t), l2, memory, NORM);
    double us = START + all * (1 + TIRED * fmin(all / TIRED_US, 1)) + end_us(w, v, &t);
    if (v->cluster == 2)
        us += CLUSTER;
    if (v->is_met)
        us += MEET_BLOCK * v->split;
    else if (v->split > 1)
        us += SUM + SUM_SLICE * v->split + (double)w->batch * (double)w->rows * (double)w->columns * w->p.n_products * 8 * v->split / SUM_GBPS * 1e-3;
    us += v->has_copies ? COPIES : 0;
    return v->is_library || !md_fa_cuda_product_overlaps(w) ? us : us - OVERLAP;
}

double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *w)
{
    static const md_fa_wgmma list[] = {
        {64, 16, 1, 1, .has_result = true}, {64, 32, 1, 1, .has_result = true}, {64, 64, 1, 1, .has_result = true}, {64, 96, 1, 1, .has_result = true},
        {64, 128, 1, 1, .has_result = true}, {64, 256, 1, 1, .has_result = true}, {64, 64, 2, 1, .is_met = true},
        {64, 128, 2, 1, .is_met = true}, {64, 256, 2, 1, .is_met = true}, {64, 128, 4, 1, .is_met = true},
        {64, 32, 8, 1, .is_met = true}, {128, 96, 1, 1, .is_turned = true, .has_result = true}, {128, 128, 1, 1, .is_turned = true, .has_result = true},
        {128, 160, 1, 1, .is_turned = true, .has_result = true}, {128, 192, 1, 1, .is_turned = true, .has_result = true}, {128, 256, 1, 2, .has_result = true},
        {256, 128, 1, 2, .has_result = true}, {128, 176, 1, 2, .has_result = true}, {256, 160, 1, 2, .has_result = true},
    };
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(list); i++) {
        md_fa_wgmma v = list[i];
        v.is_library = true;
        v.stages = 8;
        best = fmin(best, md_fa_wgmma_us(facts, w, &v));
    }
    return best;
}

void md_fa_wgmma_features(md_fa_features *out, double us, int32_t launches)
{
    static const double LAUNCH_US = 1.5, NEXT_LAUNCH_US = 1.2; /* what the model adds for launches */
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = launches, .serial_us = fmax(us - LAUNCH_US - NEXT_LAUNCH_US * (launches - 1), 0.1)};
}
