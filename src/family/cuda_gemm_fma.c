/* Products of f32, in f32: src/kernels/cuda/gemm_fma.cu. What it does not take, gemm_simt does. */
#include "family/cuda.h"

#include "base/status.h"
#include "family/cuda_gemm.h"
#include "family/cuda_gemm_cost.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, SPLIT, DOWN, PIECE, DEPTH, STAGES };
enum { ACROSS = 8, LANES_DOWN = 4, MOST_DOWN = 16, BAND = 8, REGISTERS = 168, REGISTERS_TALL = 255 }; /* ACROSS: sums of a thread; BAND: MD_BAND */

static bool product_of(md_cg_product *p, const md_fa_target *target)
{
    if (!md_fa_cuda_product_of(p, target) || p->type != MD_F32 || p->n_products > 1)
        return false;
    const md_st_product *s = &target->program->stage[target->stage].product;
    for (int32_t o = 0; o <= 1; o++)
        if (!p->load[o] || md_cg_product_along(p, o) == MD_CG_ALONG_NEITHER || p->program->formula->tensor[p->load[o]->id].dtype != MD_F32)
            return false;
    return s->n_k == 1 && p->n_rows == 1 && p->n_columns == 1;
}

static bool applies(const md_fa_target *target)
{
    md_cg_product product;
    return product_of(&product, target);
}

static int32_t threads_of(const md_fa_config *config)
{
    return config->value[ROWS] / config->value[DOWN] * (config->value[COLUMNS] / ACROSS);
}

static int64_t floats_of(const md_cg_product *p, const md_fa_config *config, int32_t operand)
{
    const int32_t size = config->value[operand == MD_CG_A ? ROWS : COLUMNS], depth = config->value[DEPTH];
    return md_cg_product_along(p, operand) == MD_CG_ALONG_DEPTH ? size * (depth + 4) : size * depth;
}

static int64_t shared_of(const md_cg_product *p, const md_fa_config *config)
{
    const int64_t stages = config->value[STAGES] * (floats_of(p, config, MD_CG_A) + floats_of(p, config, MD_CG_B));
    return 4 * MD_MAX(stages, (int64_t)config->value[ROWS] * (config->value[COLUMNS] + 4));
}

/* Blocks of an SM that registers and shared memory allow. */
static int32_t blocks_of(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config)
{
    md_fa_cuda_load load = {.threads = threads_of(config), .registers = config->value[DOWN] > 8 ? REGISTERS_TALL : REGISTERS, .shared_bytes = shared_of(p, config)};
    return MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
}

static md_fa_cuda_tiles tiles_of(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config)
{
    return (md_fa_cuda_tiles){.rows = config->value[ROWS], .columns = config->value[COLUMNS], .split = config->value[SPLIT],
                              .resident = blocks_of(target, p, config), .flops = 0.8, .step_us = 0.5};
}

/* Slices that leave some work to a block, and not more blocks than pay for adding up. */
static bool is_sensible(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config, const int64_t *size)
{
    md_fa_product w;
    const double split = config->value[SPLIT], sms = MD_MAX(target->facts->threads, 1);
    if (!size || split <= 1)
        return true;
    md_fa_product_measure(&w, target, p, size);
    const double tiles = (double)w.batch * ceil((double)w.rows / config->value[ROWS]) * ceil((double)w.columns / config->value[COLUMNS]);
    return (double)w.depth / split >= 48 && tiles < 5 * sms && tiles * split <= 20 * sms;
}

/* Whether a tile's pieces go round evenly among its threads, and a warp's threads make a rectangle in it. Threads with fewer sums are for tiles of few rows. */
static bool is_even(const md_fa_config *config)
{
    const int32_t rows = config->value[ROWS], down = config->value[DOWN], pieces = config->value[DEPTH] / config->value[PIECE], threads = threads_of(config);
    return rows / down % LANES_DOWN == 0 && down * MOST_DOWN >= rows && threads % pieces == 0 && rows * pieces % threads == 0 &&
           config->value[COLUMNS] * pieces % threads == 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    if (!product_of(&p, target))
        return false;
    return is_even(config) && shared_of(&p, config) <= target->facts->shared_per_block && is_sensible(target, &p, config, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    *out = (md_kn_envelope){0};
    if (!product_of(&p, target))
        return;
    for (int32_t o = 0; o <= 1; o++) {
        out->unit |= UINT32_C(1) << p.load[o]->id;
        if (config->value[PIECE] == 4)
            out->aligned16 |= UINT32_C(1) << p.load[o]->id;
    }
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config, const md_kn_shape *shape)
{
    md_cg_product p;
    *out = (md_kn_plan_geometry){0};
    if (!product_of(&p, target))
        return;
    md_fa_cuda_tiles tiles = tiles_of(target, &p, config);
    md_fa_cuda_product_geometry(out, target, &p, &tiles, threads_of(config), shared_of(&p, config), shape->size);
}

/* Microseconds of K steps of blocks that an SM has at once: as long as it issues their instructions, and as one block waits for itself. Fit on an H200
 * to 11 shapes of 256 to 4096, within 10% for most. */
static double blocks_us(double blocks, const md_fa_config *config, double steps)
{
    static const double CLOCK = 1755, ISSUED = 1.38, ALONE = 1.9, NORM = 1.5; /* cycles a us; of fma's share of all instructions; waits */
    const double own = steps * config->value[DOWN] * ACROSS / CLOCK;
    return pow(pow(blocks * threads_of(config) / 128.0 * own * ISSUED, NORM) + pow(own * ALONE, NORM), 1 / NORM);
}

static double product_us(const md_fa_target *target, const md_fa_product *w, const md_fa_config *config)
{
    static const double START = 2.5, SUM = 1.5, SUM_GBPS = 4500;
    const double split = config->value[SPLIT], depth = config->value[DEPTH];
    const double tiles = (double)w->batch * ceil((double)w->rows / config->value[ROWS]) * ceil((double)w->columns / config->value[COLUMNS]) * split;
    const double most = ceil(tiles / MD_MAX(target->facts->threads, 1)), at_once = blocks_of(target, &w->p, config);
    const double steps = ceil((double)w->depth / depth / split) * depth, rounds = floor(most / at_once), rest = most - rounds * at_once;
    const double compute = rounds * blocks_us(at_once, config, steps) + (rest > 0 ? blocks_us(rest, config, steps) : 0);
    const double slices = (double)w->batch * (double)w->rows * (double)w->columns * 8 * split / SUM_GBPS * 1e-3;
    return START + fmax(compute, w->bytes / target->facts->memory_gbps * 1e-3) + (split > 1 ? SUM + slices : 0);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    md_fa_product w;
    if (product_of(&p, target) && md_fa_cuda_product_has_work(out, &w, target, &p, size))
        md_fa_wgmma_features(out, product_us(target, &w, config), config->value[SPLIT] > 1 ? 2 : 1);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    md_strbuf defines = {0};
    if (!product_of(&p, target))
        return md_fail(MD_INTERNAL, "family gemm_fma does not take this stage");
    if (!legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "gemm_fma has no kernel of these parameters");
    md_strbuf_printf(&defines,
                     "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32 "\n#define MD_BK %" PRId32 "\n#define MD_TM %" PRId32 "\n#define MD_TN %d\n#define MD_PIECE %" PRId32
                     "\n#define MD_STAGES %" PRId32 "\n#define MD_BLOCKS %" PRId32 "\n#define MD_BAND %d\n",
                     config->value[ROWS], config->value[COLUMNS], config->value[DEPTH], config->value[DOWN], ACROSS, config->value[PIECE], config->value[STAGES],
                     blocks_of(target, &p, config), BAND);
    md_fa_cuda_product_print_along(&defines, &p);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_fma.cu", .lanes = 4, .split = config->value[SPLIT]};
    return md_fa_cuda_product_emit(out, target, &p, &text, &defines);
}

const md_fa_family md_fa_cuda_gemm_fma = {
    .name = "gemm_fma",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field = {{"rows", 128, 4, {128, 64, 32, 16}},
              {"columns", 128, 2, {128, 64}},
              {"split", 1, 10, {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}},
              {"down", 16, 3, {16, 8, 4}}, /* rows of a thread */
              {"piece", 4, 2, {4, 1}}, /* floats of a copy */
              {"depth", 16, 1, {16, 32, 8}, 2},
              {"stages", 3, 1, {3, 4, 2}, 2}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
