/* The time of a product: launch and first copy, then waves of tiles, each as long as the slowest of multiplying,
 * reading shared memory and filling it; the p-norm of that with the L2 and memory; what comes after the last
 * product. Constants were fit by random search on the logarithm of measured over modelled time, near-best kernels
 * weighing most, plus the regret of the pick (src/README.md, Products on a GPU). */
#include "family/cuda/product/wgmma_cost.h"

#include "base/dtype.h"
#include "family/cuda/product/gemm.h"

#include <math.h>

/* Fit on an H200: us, or factors of what the machine's facts say. */
static const double START = 2.31, MATH = 2, SHARED = 0.969, FILL = 0.153, STEP = 0.019, MEMORY = 1.17, NORM = 2.04,
                    END = 0.821, END_ELEMENT = 0.00169, END_SHARED = 31.1, END_WORDS = 24.9, END_CLUSTER = 40,
                    END_PANEL = 0.057, CLUSTER = 0.296, MEET_BLOCK = 0.142, SUM = 1.2, SUM_SLICE = 0.0446,
                    SUM_GBPS = 1450, COPIES = 2.1, COPIES_GBPS = 2350, THROTTLED = 0.162, THROTTLED_US = 1420,
                    OVERLAP = 1.25;
/* Bytes that must be under way for memory to be busy. */
static const double IN_FLIGHT = 6920000;
/* As END_ELEMENT is 1: an operation of the epilogue, a function. */
static const double HEAVY_OPERATION = 3.17, HEAVY_FUNCTION = 20;
/* The clock under load, of the one that the peak is given at. */
static const double CLOCK = 0.886;
/* As SUM is ours. */
static const double LIBRARY_SUM = 0.939;
/* Where there are many rows and columns: what a step of K of its first tile takes less, us. Later ones are as ours,
 * which go on under the end of the tile before. */
static const double LIBRARY_STEP = 0.025;
enum { MANY = 257 };
/* By how much copies take longer when all SMs copy. */
static const double BUSY = 4.85;
/* Lines that begin at multiples of 16, 32 or 64 bytes instead of 128 are copied so many times slower. */
static const double PITCH_16 = 2.03, PITCH_32 = 1.35, PITCH_64 = 1.39;
/* What a copy that blocks of a cluster share costs each, between its part (0) and all of it (1); tiles of 64 rows
 * lose by waiting for each other. */
static const double TOGETHER = 0.748, TOGETHER_64 = 1.15;
/* Lines of results that begin at no boundary of 128 bytes are stored so much slower, as a part of what their copies
 * would be. */
static const double STORE_PITCH = 1.87;
/* A copy of rows of which some are not there takes longer by this part; one of K of which some is not there, by so
 * many whole copies. */
static const double BEYOND = 0.6, TAIL = 1;
/* Panels of results of 56 columns lie across lines of 128 bytes: us each, of a group of threads. */
static const double ODD_PANEL = 0.5;
/* Copies turned over of columns that are no whole panels of 64 begin in the midst of lines, too. */
static const double PART_PANEL = 1.15;
/* Of SMs, those that clusters of more than two find together: 30 of 4 blocks, 15 of 8 and 7 of 16 on 132. */
enum { CLUSTERED = 910 }; /* of a thousand */

typedef struct tiles {
    /* what is placed at once (a tile, a cluster); places; of which the last wave takes this part; of K, 128 bytes
     * each */
    double units, slots, waves, last, steps;
    double a_rows; /* of A that are copied a tile */
    double together; /* blocks of a unit */
    double a_slow, b_slow; /* how much slower their lines are copied */
} tiles;

/* Tiles of a cluster: two share the operand with more columns or rows, four share both, two by two. */
static double cluster_down(const md_fa_wgmma *v)
{
    return v->cluster == 4 || (v->cluster == 2 && v->rows <= v->columns) ? 2 : 1;
}

static double cluster_across(const md_fa_wgmma *v)
{
    return v->cluster / cluster_down(v);
}

static int64_t line_of(const md_fa_product *w, int32_t operand, int64_t rows)
{
    return md_cg_product_along(&w->p, operand) == MD_CG_ALONG_ROWS ? rows : w->depth;
}

/* How the copy engine likes lines of so many elements, one after the other. */
static double slow_lines(int64_t elements, int32_t item, const md_fa_wgmma *v)
{
    const int64_t bytes = elements * item;
    if (v->is_library || v->has_copies)
        return 1;
    return bytes % 32 ? PITCH_16 : bytes % 64 ? PITCH_32 : bytes % 128 ? PITCH_64 : 1;
}

static int32_t item_of(const md_fa_product *w) /* bytes; others are converted */
{
    return (int32_t)MD_MAX(2, md_dtype_size(w->p.program->formula->tensor[w->p.load[MD_CG_A]->id].dtype));
}

static tiles tiles_of(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const double sms = MD_MAX(facts->threads, 1);
    const int32_t item = item_of(w);
    const double down = ceil((double)w->rows / (v->rows * cluster_down(v))),
                 across = ceil((double)w->columns / (v->columns * cluster_across(v)));
    tiles t = {.together = v->is_cluster_reduced ? v->split : v->cluster, .a_rows = v->rows};
    t.units = (double)w->batch * down * across * (v->is_cluster_reduced ? 1 : v->split);
    t.slots = t.together <= 2 ? floor(sms / t.together) : floor(sms * CLUSTERED / 1000 / t.together);
    t.waves = ceil(t.units / fmax(t.slots, 1));
    t.last = t.units / fmax(t.slots, 1) - (t.waves - 1);
    t.steps = ceil((double)w->depth * item / 128 / v->split);
    t.a_slow = slow_lines(line_of(w, MD_CG_A, w->rows), item, v);
    t.b_slow = slow_lines(line_of(w, MD_CG_B, w->columns), item, v);
    if (w->rows <= v->rows && v->cluster == 1 && !v->is_library)
        t.a_rows = ceil((double)w->rows / 8) * 8;
    else if (w->rows % v->rows != 0 &&
             !v->is_library) /* only the last tiles of rows: all of a wave wait for them, or few of them do */
        t.a_slow *= 1 + BEYOND * fmax(1 / t.waves, 1 / down);
    return t;
}

static double norm(double a, double b, double p)
{
    return pow(pow(a, p) + pow(b, p), 1 / p);
}

static double norm4(double a, double b)
{
    return sqrt(sqrt(a * a * a * a + b * b * b * b));
}

static double clock_of(const md_dev_facts *facts) /* a us */
{
    return facts->gflops / (MD_MAX(facts->threads, 1) * 256.0) * CLOCK * 1e3;
}

/* A step of K of one tile: what the computing groups take, and the copies where this part of all SMs copies. */
static double multiply_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const double columns = (double)v->columns * w->p.n_products;
    const double multiply = v->rows * columns * 64 / 4096 * MATH;
    const double read = v->rows / 64.0 * 4 * (64 * 32 * w->p.n_products + columns * 32) / 128 * SHARED;
    return norm4(multiply, read) / clock_of(facts) + STEP;
}

/* What a copy to several blocks costs each, of one of its own. */
static double shared(const md_fa_wgmma *v, double blocks)
{
    const double together = v->rows > 64 || v->is_library ? TOGETHER : TOGETHER_64;
    return 1 / blocks + together * (1 - 1 / blocks);
}

static double fill_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v, const tiles *t,
                      double busy)
{
    /* copied 64 columns at a time */
    const bool is_b_transposed = md_cg_product_along(&w->p, MD_CG_B) == MD_CG_ALONG_ROWS;
    const double columns = is_b_transposed && !v->is_library
                               ? ceil(v->columns / 64.0) * 64 * (v->columns % 64 != 0 ? PART_PANEL : 1)
                               : v->columns;
    const double a = t->a_rows * t->a_slow * shared(v, cluster_across(v)),
                 b = columns * w->p.n_products * t->b_slow * shared(v, cluster_down(v));
    return (a + b) * 128 / 64 * FILL * (1 + BUSY * busy * t->slots * t->together / MD_MAX(facts->threads, 1)) /
           clock_of(facts);
}

static double heavy_of(const md_fa_product *w)
{
    return HEAVY_OPERATION * w->epilogue_ops + HEAVY_FUNCTION * w->epilogue_transcendental;
}

double md_fa_cuda_product_heavy_us(const md_fa_product *w)
{
    return END_ELEMENT * heavy_of(w);
}

/* From the last product of a tile to its results. */
static double end_us(const md_fa_product *w, const md_fa_wgmma *v)
{
    const int32_t groups = v->is_pingpong || v->rows == 64 ? 1 : 2;
    const double elements = (double)v->rows * v->columns * w->p.n_products / (128 * groups);
    const double heavy = heavy_of(w);
    const double way = v->by_words ? END_WORDS : v->has_result ? 1 : v->is_cluster_reduced ? END_CLUSTER : END_SHARED;
    const double panel = v->columns % 64 == 0   ? 64
                         : v->columns % 32 == 0 ? 32
                         : v->columns % 16 == 0 ? 16
                         : v->columns % 56 == 0 ? 56
                                                : 8;
    const double panels = v->has_result ? v->rows / 64.0 / groups * v->columns / panel : 0;
    const double slow = 1 + STORE_PITCH * (slow_lines(w->columns, 2, v) - 1);
    return END + END_ELEMENT * elements * (way + heavy / (v->is_cluster_reduced ? v->split : 1)) +
           (END_PANEL * slow + (panel == 56 && groups > 1 ? ODD_PANEL : 0)) * panels;
}

/* All waves: copies of a tile go on under the end of the tile before; with turns, so do the products. */
static double waves_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v, const tiles *t)
{
    const double multiply = t->steps * multiply_us(facts, w, v), end = end_us(w, v);
    const double next = v->is_pingpong ? fmax(multiply, (multiply + end) / 2) : multiply + end;
    const double copies = t->steps + (w->depth * item_of(w) % 128 != 0 && !v->has_copies && !v->is_library ? TAIL : 0);
    const double full = copies * fill_us(facts, w, v, t, 1), last = copies * fill_us(facts, w, v, t, t->last);
    double us = norm4(multiply, t->waves > 1 ? full : last) + end;
    if (t->waves > 1)
        us += (t->waves - 2) * norm4(next, full) + norm4(next, last);
    return us;
}

static double copies_us(const md_fa_product *w)
{
    return COPIES +
           (double)w->batch * (double)(w->rows + w->columns) * (double)w->depth * item_of(w) / COPIES_GBPS * 1e-3;
}

double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *w, const md_fa_wgmma *v)
{
    const tiles t = tiles_of(facts, w, v);
    const double under_way = fmin(t.units, t.slots) * t.together * v->stages * 128.0 * v->columns * w->p.n_products;
    const double memory =
        w->bytes / (facts->memory_gbps * MEMORY) * 1e-3 * fmax(1, v->stages > 0 ? IN_FLIGHT / under_way : 0);
    const double all = norm(waves_us(facts, w, v, &t), memory, NORM);
    double us = START + all * (1 + THROTTLED * fmin(all / THROTTLED_US, 1));
    if (v->cluster > 1)
        us += CLUSTER;
    if (v->is_cluster_reduced)
        us += MEET_BLOCK * v->split;
    else if (v->split > 1)
        us +=
            (v->is_library ? LIBRARY_SUM : SUM) + SUM_SLICE * v->split +
            (double)w->batch * (double)w->rows * (double)w->columns * w->p.n_products * 8 * v->split / SUM_GBPS * 1e-3;
    us += v->has_copies ? copies_us(w) : 0;
    us -= v->is_library && MD_MIN(w->rows, w->columns) >= MANY ? LIBRARY_STEP * t.steps : 0;
    return v->is_library || !md_fa_cuda_product_overlaps(w) ? us : us - OVERLAP;
}

/* What cuBLASLt takes of the best tile's time, with so many rows: up to 16, 64, 256, 1024, more. */
enum { ROW_CLASSES = 5 };
static const double LIBRARY[ROW_CLASSES] = {1.03, 1.02, 1.02, 1.01, 1.01};

/* Libraries have tiles of every eighth number of columns: those that fill so many waves of this many rows. */
enum { MAX_WAVES = 3 };
static double filling_us(const md_dev_facts *facts, const md_fa_product *w, int32_t rows, bool is_b_transposed)
{
    const double sms = MD_MAX(facts->threads, 1), lines = (double)(is_b_transposed ? w->columns : w->rows),
                 other = (double)(is_b_transposed ? w->rows : w->columns);
    double best = INFINITY;
    for (int32_t waves = 1; waves <= MAX_WAVES; waves++) {
        const double parts = floor(waves * sms / ((double)w->batch * ceil(lines / rows)));
        const double columns = parts < 1 ? INFINITY : ceil(other / parts / 8) * 8;
        if (columns > 256 || rows * columns > 256 * 160)
            continue;
        const int32_t c = (int32_t)MD_MAX(columns, 16);
        const md_fa_wgmma v = {.rows = is_b_transposed ? c : rows,
                               .columns = is_b_transposed ? rows : c,
                               .split = 1,
                               .cluster = 1 + (rows > 64),
                               .stages = 8,
                               .is_pingpong = rows == 128 && c <= 176,
                               .has_result = true,
                               .is_library = true};
        best = fmin(best, md_fa_wgmma_us(facts, w, &v));
        if (parts * columns >= 2 * other) /* more waves are of the same tiles */
            break;
    }
    return best;
}

double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *w)
{
    static const md_fa_wgmma list[] = {
        {64, 64, 2, 1, .has_result = true},
        {64, 128, 2, 1, .has_result = true},
        {64, 128, 4, 1, .has_result = true},
        {64, 32, 8, 1, .has_result = true},
        {128, 128, 1, 2, .is_pingpong = true, .has_result = true},
        {128, 168, 1, 2, .is_pingpong = true, .has_result = true},
        {128, 256, 1, 2, .has_result = true},
        {256, 128, 1, 2, .has_result = true},
    };
    double best = INFINITY;
    for (int32_t i = 0; i < MD_COUNT(list); i++) {
        md_fa_wgmma v = list[i];
        v.is_library = true;
        v.stages = 8;
        best = fmin(best, md_fa_wgmma_us(facts, w, &v));
    }
    for (int32_t rows = 64; rows <= 256; rows *= 2)
        best = fmin(best, fmin(filling_us(facts, w, rows, false), filling_us(facts, w, rows, true)));
    int32_t which = 0;
    for (double rows = 16; which < ROW_CLASSES - 1 && (double)w->rows > rows; rows *= 4)
        which++;
    return best * LIBRARY[which];
}

void md_fa_wgmma_features(md_fa_features *out, double us, int32_t launches)
{
    static const double LAUNCH_US = 1.5, NEXT_LAUNCH_US = 1.2; /* what the model adds for launches */
    *out = (md_fa_features){.ops_rate = 1,
                            .parallel = 1,
                            .launches = launches,
                            .serial_us = fmax(us - LAUNCH_US - NEXT_LAUNCH_US * (launches - 1), 0.1)};
}
