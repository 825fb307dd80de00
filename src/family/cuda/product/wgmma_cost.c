/* The time of a product on Hopper's tensor cores: launch and first copy; waves of tiles, each as long as the slowest of
 * multiplying, reading and filling shared memory, in a p-norm with L2 and memory; the epilogue of the last tile. The
 * constants were fitted by random search on the logarithm of measured over modelled time, with most weight on near-best
 * kernels and on the regret of the pick. */
#include "family/cuda/product/wgmma_cost.h"

#include "family/cost.h"
#include "family/cuda/cuda.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/wgmma_fit.h"

#include <math.h>

enum { MANY = 257 };
/* The part of the SMs for which clusters of three, and of more blocks, find room: 39 clusters of 3 (of 40, one waited),
 * 30 of 4 and 15 of 8 on 132 SMs. A fact, so the search for constants does not move it. */
static const double CLUSTERED_3 = 0.89, CLUSTERED = 0.91;

typedef struct tiles {
    /* units: tiles or clusters, which are placed at once; slots: places for them; last: the part of the last wave that
     * is full; steps: of K, 128 bytes each */
    double units, slots, waves, last, steps;
    double a_rows; /* rows of A that are copied for a tile */
    double together; /* blocks of a unit */
    double a_slow, b_slow; /* factors on copies of their rows */
    int32_t item; /* bytes of an element */
} tiles;

/* Tiles of a cluster, from top to bottom. Two blocks share the operand of the tile's longer side; four share both, two
 * by two. */
static double cluster_down(const md_fa_wgmma *variant)
{
    return variant->cluster == 4 || (variant->cluster == 2 && variant->rows <= variant->columns) ? 2 : 1;
}

static double cluster_across(const md_fa_wgmma *variant)
{
    return variant->cluster / cluster_down(variant);
}

/* The factor on copies of rows of so many elements. */
static double slow_lines(int64_t elements, int32_t item, const md_fa_wgmma *variant)
{
    const int64_t bytes = elements * item;
    if (variant->is_library || variant->has_copies)
        return 1;
    return bytes % 32 ? PITCH_16 : bytes % 64 ? PITCH_32 : bytes % 128 ? PITCH_64 : 1;
}

static int32_t item_of(const md_fa_product *sized) /* bytes of an element; other types are converted */
{
    return (int32_t)MD_MAX(2, md_dtype_size(md_cg_product_dtype(&sized->p, md_cg_product_memory(&sized->p, MD_CG_A))));
}

static tiles tiles_of(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_wgmma *variant)
{
    const double sms = MD_MAX(facts->threads, 1);
    const int32_t item = item_of(sized);
    const double down = ceil((double)sized->rows / (variant->rows * cluster_down(variant))),
                 across = ceil((double)sized->columns / (variant->columns * cluster_across(variant)));
    tiles t = {.together = variant->is_cluster_reduced ? variant->split : variant->cluster,
               .a_rows = variant->rows,
               .item = item};
    t.units = (double)sized->batch * down * across * (variant->is_cluster_reduced ? 1 : variant->split);
    t.slots = floor(sms * (t.together <= 2 ? 1 : t.together == 3 ? CLUSTERED_3 : CLUSTERED) / t.together);
    t.waves = ceil(t.units / fmax(t.slots, 1));
    t.last = t.units / fmax(t.slots, 1) - (t.waves - 1);
    t.steps = ceil((double)sized->depth * item / 128 / variant->split);
    t.a_slow = slow_lines(md_fa_product_line(sized, MD_CG_A), item, variant);
    t.b_slow = slow_lines(md_fa_product_line(sized, MD_CG_B), item, variant);
    if (sized->rows <= variant->rows && variant->cluster == 1 && !variant->is_library)
        t.a_rows = ceil((double)sized->rows / 8) * 8;
    else if (sized->rows % variant->rows != 0 && !variant->is_library)
        /* only the last tiles of rows reach beyond the matrix: either a wave waits for them or they are few */
        t.a_slow *= 1 + BEYOND_ROWS * fmax(1 / t.waves, 1 / down);
    return t;
}

static double norm4(double a, double b)
{
    return sqrt(sqrt(a * a * a * a + b * b * b * b));
}

static double clock_of(const md_dev_facts *facts) /* cycles in a us */
{
    return facts->gflops / (MD_MAX(facts->threads, 1) * 256.0) * CLOCK * 1e3;
}

/* One step of K of a tile without its copies: multiplying and reading shared memory. */
static double multiply_us(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_wgmma *variant)
{
    const double columns = (double)variant->columns * sized->p.n_products;
    const double multiply = variant->rows * columns * 64 / 4096 * MATH;
    const double read = variant->rows / 64.0 * 4 * (64 * 32 * sized->p.n_products + columns * 32) / 128 * SHARED;
    return norm4(multiply, read) / clock_of(facts) + STEP;
}

/* The cost of a copy for each of the blocks that share it, relative to a copy of its own. */
static double shared_copy(const md_fa_wgmma *variant, double blocks)
{
    const double together = variant->rows > 64 || variant->is_library ? SHARED_COPY : SHARED_COPY_64;
    return 1 / blocks + together * (1 - 1 / blocks);
}

static double fill_us(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_wgmma *variant, const tiles *t,
                      double busy)
{
    /* transposed tiles are copied 64 columns at a time */
    const bool is_b_transposed = md_cg_product_along(&sized->p, MD_CG_B) == MD_CG_ALONG_ROWS;
    const double columns = is_b_transposed && !variant->is_library
                               ? ceil(variant->columns / 64.0) * 64 * (variant->columns % 64 != 0 ? PART_PANEL : 1)
                               : variant->columns;
    const double a = t->a_rows * (variant->is_swapped ? sized->p.n_products : 1) * t->a_slow *
                     shared_copy(variant, cluster_across(variant)),
                 b = columns * (variant->is_swapped ? 1 : sized->p.n_products) * t->b_slow *
                     shared_copy(variant, cluster_down(variant));
    return (a + b) * 128 / 64 * FILL * (1 + BUSY * busy * t->slots * t->together / MD_MAX(facts->threads, 1)) /
           clock_of(facts);
}

static double epilogue_math(const md_fa_product *sized)
{
    return MATH_OPERATION * sized->epilogue_ops + MATH_FUNCTION * sized->epilogue_transcendental;
}

double md_fa_cuda_product_epilogue_us(const md_fa_product *sized)
{
    return EPILOGUE_ELEMENT * epilogue_math(sized);
}

static double words_factor(int64_t columns)
{
    return WORDS_OF[columns % 2 ? 0 : columns % 4 ? 1 : columns % 8 ? 2 : 3];
}

/* The epilogue of a tile: from its last product to its stored results. */
static double epilogue_us(const md_fa_product *sized, const md_fa_wgmma *variant)
{
    const int32_t groups = variant->is_pingpong || variant->rows == 64 ? 1 : 2;
    const double elements = (double)variant->rows * variant->columns * sized->p.n_products / (128 * groups);
    const double element_factor = variant->by_words             ? EPILOGUE_WORDS * words_factor(sized->columns)
                                  : variant->has_result         ? 1
                                  : variant->is_cluster_reduced ? EPILOGUE_CLUSTER
                                                                : EPILOGUE_SHARED;
    const double panel = variant->columns % 64 == 0   ? 64
                         : variant->columns % 32 == 0 ? 32
                         : variant->columns % 16 == 0 ? 16
                         : variant->columns % 56 == 0 ? 56
                                                      : 8;
    const double panels = variant->has_result ? variant->rows / 64.0 / groups * variant->columns / panel : 0;
    const double slow =
        1 + STORE_PITCH * (slow_lines(variant->is_swapped ? sized->rows : sized->columns, 2, variant) - 1);
    /* two products have one result */
    const double math =
        epilogue_math(sized) / (sized->p.n_products * (variant->is_cluster_reduced ? variant->split : 1));
    return EPILOGUE + EPILOGUE_ELEMENT * elements * (element_factor + math) +
           (EPILOGUE_PANEL * slow + (panel == 56 && groups > 1 ? ODD_PANEL : 0)) * panels;
}

/* All waves. Copies of a tile run during the epilogue of the tile before; with ping-pong, so do the products. */
static double waves_us(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_wgmma *variant,
                       const tiles *t, double multiply)
{
    const double epilogue = epilogue_us(sized, variant);
    const double next = variant->is_pingpong ? fmax(multiply, (multiply + epilogue) / 2) : multiply + epilogue;
    const double copies =
        t->steps + (sized->depth * t->item % 128 != 0 && !variant->has_copies && !variant->is_library ? BEYOND_K : 0);
    const double full = copies * fill_us(facts, sized, variant, t, 1),
                 last = copies * fill_us(facts, sized, variant, t, t->last);
    double us = norm4(multiply, t->waves > 1 ? full : last) + epilogue;
    if (variant->is_cluster_reduced) /* blocks wait for each other between tiles: nothing overlaps */
        return t->waves * us + (t->waves - 1) * REDUCED_WAVE;
    if (t->waves > 1)
        us += (t->waves - 2) * norm4(next, full) + norm4(next, last);
    return us;
}

void md_fa_wgmma_tile_us(double *step, double *end, const md_dev_facts *facts, const md_fa_product *work,
                         const md_fa_wgmma *variant)
{
    md_fa_product many = *work; /* as where all blocks copy whole tiles */
    many.batch = 1;
    many.rows = many.columns = many.depth = 1 << 16;
    const tiles t = tiles_of(facts, &many, variant);
    *step = norm4(multiply_us(facts, &many, variant), fill_us(facts, &many, variant, &t, 1));
    *end = epilogue_us(&many, variant);
}

static double copies_us(const md_fa_product *sized)
{
    return COPIES + (double)sized->batch * (double)(sized->rows + sized->columns) * (double)sized->depth *
                        item_of(sized) / COPIES_GBPS * 1e-3;
}

/* The transposed product. */
static md_fa_product swap(const md_fa_product *sized)
{
    md_fa_product out = *sized;
    out.rows = sized->columns;
    out.columns = sized->rows;
    out.p.along[MD_CG_A] = sized->p.along[MD_CG_B];
    out.p.along[MD_CG_B] = sized->p.along[MD_CG_A];
    out.p.load[MD_CG_A] = sized->p.load[MD_CG_B];
    out.p.load[MD_CG_B] = sized->p.load[MD_CG_A];
    return out;
}

/* What comes on top of multiplying: of a cluster, of adding up slices, of copies; and what is saved. */
typedef struct extras {
    double cluster, sum, copies, first_tile, overlap;
} extras;

static extras extras_of(const md_fa_product *sized, const md_fa_wgmma *variant, const tiles *t)
{
    extras e = {.cluster = variant->cluster > 1 ? CLUSTER : 0, .copies = variant->has_copies ? copies_us(sized) : 0};
    if (variant->is_cluster_reduced)
        e.sum = CLUSTER_BLOCK * variant->split;
    else if (variant->split > 1)
        e.sum = (variant->is_library ? LIBRARY_SUM : SUM) + SUM_SLICE * variant->split +
                (double)sized->batch * (double)sized->rows * (double)sized->columns * sized->p.n_products * 8 *
                    variant->split / SUM_GBPS * 1e-3;
    e.first_tile = variant->is_library && MD_MIN(sized->rows, sized->columns) >= MANY ? LIBRARY_STEP * t->steps : 0;
    e.overlap = variant->is_library || !md_fa_cuda_product_overlaps(sized) ? 0 : OVERLAP;
    return e;
}

static double with_extras(double all, const extras *e)
{
    return START + all + e->cluster + e->sum + e->copies - e->first_tile - e->overlap;
}

static double memory_us(const md_dev_facts *facts, const md_fa_product *sized, const md_fa_wgmma *variant,
                        const tiles *t)
{
    const double lines =
        variant->is_swapped ? variant->rows : variant->columns; /* of the operands over the result's columns */
    const double under_way =
        fmin(t->units, t->slots) * t->together * variant->stages * 128.0 * lines * sized->p.n_products;
    return sized->bytes / (facts->memory_gbps * MEMORY) * 1e-3 *
           fmax(1, variant->stages > 0 ? IN_FLIGHT / under_way : 0);
}

double md_fa_wgmma_us(const md_dev_facts *facts, const md_fa_product *work, const md_fa_wgmma *variant,
                      double enough_us)
{
    md_fa_product swapped;
    const md_fa_product *sized = variant->is_swapped ? (swapped = swap(work), &swapped) : work;
    const tiles t = tiles_of(facts, sized, variant);
    const extras e = extras_of(sized, variant, &t);
    const double memory = memory_us(facts, sized, variant, &t), multiply = t.steps * multiply_us(facts, sized, variant),
                 pair = sized->p.n_products == 2 ? PAIR : 1, turned = variant->is_swapped ? SWAPPED : 1;
    /* the norm is not less than either time, and a wave not shorter than its products */
    double least = with_extras(MD_MAX(memory, t.waves * multiply * pair * turned), &e);
    if (least > enough_us)
        return least;
    const double waves = waves_us(facts, sized, variant, &t, multiply) * pair * turned;
    least = with_extras(MD_MAX(memory, waves), &e);
    if (least > enough_us)
        return least;
    const double all = md_fa_norm(waves, memory, NORM);
    return with_extras(all * (1 + THROTTLED * fmin(all / THROTTLED_US, 1)), &e);
}

/* The time of cuBLASLt relative to the best tile's, by rows: up to 16, 64, 256, 1024, more. */
enum { ROW_CLASSES = 5 };

/* The best time of tiles whose columns (a multiple of 8) fill 1 to MAX_WAVES waves, with so many rows. */
enum { MAX_WAVES = 3 };
static double filling_us(const md_dev_facts *facts, const md_fa_product *sized, int32_t rows, bool is_b_transposed)
{
    const double sms = MD_MAX(facts->threads, 1), lines = (double)(is_b_transposed ? sized->columns : sized->rows),
                 other = (double)(is_b_transposed ? sized->rows : sized->columns);
    double best = INFINITY;
    for (int32_t waves = 1; waves <= MAX_WAVES; waves++) {
        const double parts = floor(waves * sms / ((double)sized->batch * ceil(lines / rows)));
        const double columns = parts < 1 ? INFINITY : ceil(other / parts / 8) * 8;
        if (columns > 256 || rows * columns > 256 * 160)
            continue;
        const int32_t c = (int32_t)MD_MAX(columns, 16);
        const md_fa_wgmma variant = {.rows = is_b_transposed ? c : rows,
                                     .columns = is_b_transposed ? rows : c,
                                     .split = 1,
                                     .cluster = 1 + (rows > 64),
                                     .stages = 8,
                                     .is_pingpong = rows == 128 && c <= 176,
                                     .has_result = true,
                                     .is_library = true};
        best = fmin(best, md_fa_wgmma_us(facts, sized, &variant, best * MARGIN));
        if (parts * columns >= 2 * other) /* more waves would have the same tiles */
            break;
    }
    return best;
}

double md_fa_wgmma_best_us(const md_dev_facts *facts, const md_fa_product *sized)
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
        md_fa_wgmma variant = list[i];
        variant.is_library = true;
        variant.stages = 8;
        best = fmin(best, md_fa_wgmma_us(facts, sized, &variant, best * MARGIN));
    }
    for (int32_t rows = 64; rows <= 256; rows *= 2)
        best = fmin(best, fmin(filling_us(facts, sized, rows, false), filling_us(facts, sized, rows, true)));
    int32_t which = 0;
    for (double rows = 16; which < ROW_CLASSES - 1 && (double)sized->rows > rows; rows *= 4)
        which++;
    return best * LIBRARY[which];
}

void md_fa_cuda_product_time_features(md_fa_features *out, double us, int32_t launches)
{
    *out = (md_fa_features){.ops_rate = 1,
                            .parallel = 1,
                            .launches = launches,
                            .serial_us =
                                fmax(us - MD_FA_CUDA_LAUNCH_US - MD_FA_CUDA_NEXT_LAUNCH_US * (launches - 1), 0.1)};
}
