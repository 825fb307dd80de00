/* Family gemm_fma: products of f32 on the CUDA cores (kernels/cuda/gemm_fma.cu). gemm_simt takes the others. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/fma_cost.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/gemm_fma_fit.h"
#include "family/cuda/product/wgmma_cost.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, SPLIT, THREAD_ROWS, COPY_WIDTH, DEPTH };
enum { ACROSS = 8, LANES_DOWN = 4, MOST_THREAD_ROWS = 16, RASTER = 8 }; /* ACROSS: columns of a thread */
enum { UNIT = MD_FA_CUDA_RUN_UNIT, PARTS = 16, SUM_THREADS = 128 }; /* UNIT: MD_STREAM_UNIT of the kernel */

static bool product_of(md_cg_product *p, const md_fa_target *target)
{
    if (!md_fa_cuda_product_of(p, target) || p->type != MD_F32 || p->n_products > 1)
        return false;
    const md_st_product *product = &md_fa_stage(target)->product;
    for (int32_t o = 0; o <= 1; o++)
        if (!p->load[o] || md_cg_product_along(p, o) == MD_CG_ALONG_NEITHER ||
            p->program->formula->tensor[p->load[o]->id].dtype != MD_F32)
            return false;
    return product->n_k == 1 && p->n_rows == 1 && p->n_columns == 1;
}

static int32_t threads_of(const md_fa_config *config)
{
    return config->value[ROWS] / config->value[THREAD_ROWS] * (config->value[COLUMNS] / ACROSS);
}

static int64_t shared_of(const md_fa_config *config)
{
    const int64_t rows = config->value[ROWS], columns = config->value[COLUMNS];
    return 4 * MD_MAX(2 * config->value[DEPTH] * (rows + columns + 8), rows * (columns + 4));
}

/* Blocks on an SM by registers and shared memory. */
static int32_t blocks_of(const md_fa_target *target, const md_fa_config *config)
{
    const bool is_single = config->value[COPY_WIDTH] == 1;
    /* no kernel was seen to spill with so many registers */
    const int32_t thread_rows = config->value[THREAD_ROWS], registers = thread_rows > 8   ? 255
                                                                        : is_single       ? 204
                                                                        : thread_rows > 4 ? 168
                                                                                          : 128;
    md_fa_cuda_load load = {.threads = threads_of(config), .registers = registers, .shared_bytes = shared_of(config)};
    return MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
}

/* True for stream-K: the steps of all tiles are cut into equal runs (gemm_stream_k.h). */
static bool is_stream_k(const md_fa_config *config)
{
    return config->value[SPLIT] == 0;
}

/* Blocks of stream-K: as many as run at once. */
static int64_t runs_of(const md_fa_target *target, const md_fa_config *config)
{
    return (int64_t)MD_MAX(target->facts->threads, 1) * blocks_of(target, config);
}

static md_fa_cuda_tiles tiles_of(const md_fa_target *target, const md_fa_config *config)
{
    return (md_fa_cuda_tiles){.threads = threads_of(config),
                              .shared_bytes = shared_of(config),
                              .rows = config->value[ROWS],
                              .columns = config->value[COLUMNS],
                              .split = MD_MAX(config->value[SPLIT], 1),
                              .resident = blocks_of(target, config),
                              .flops = RATE,
                              .step_us = STEP_US};
}

static bool has_odd_lines(const md_fa_product *sized)
{
    for (int32_t o = 0; o <= 1; o++)
        if (md_fa_product_line(sized, o) % 4)
            return true;
    return false;
}

/* True if copies are as wide as rows are aligned, tiles fit the sizes, slices leave some work to a block, and there are
 * not too many blocks to add up. */
static bool is_worth_trying(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config,
                            const int64_t *size)
{
    md_fa_product sized;
    const double split = config->value[SPLIT], sms = MD_MAX(target->facts->threads, 1);
    const int32_t rows = config->value[ROWS];
    if (!size)
        return true;
    if (config->value[DEPTH] != (rows > 16 ? 8 : 16)) /* with fewer rows there are fewer pieces than threads */
        return false;
    md_fa_product_measure(&sized, target, p, size);
    if ((has_odd_lines(&sized) && config->value[COPY_WIDTH] > 1) || (rows > 16 && sized.rows <= rows / 2) ||
        (rows < 64 && sized.rows > 2 * rows))
        return false;
    const double tiles =
        (double)sized.batch * ceil((double)sized.rows / rows) * ceil((double)sized.columns / config->value[COLUMNS]);
    return split <= 1 || ((double)sized.depth / split >= 48 && tiles < 5 * sms && tiles * split <= 20 * sms);
}

/* True if the threads of a block copy equal numbers of pieces, and a warp's threads form a rectangle in the tile.
 * Threads with fewer sums are for tiles of few rows. Copying single floats with so many sums was seen to spill. */
static bool is_even(const md_fa_config *config)
{
    const int32_t rows = config->value[ROWS], thread_rows = config->value[THREAD_ROWS],
                  pieces = config->value[DEPTH] / config->value[COPY_WIDTH], threads = threads_of(config);
    if (config->value[COPY_WIDTH] == 1 && threads <= (thread_rows < 16 ? 32 : 64))
        return false;
    return rows / thread_rows % LANES_DOWN == 0 && thread_rows * MOST_THREAD_ROWS >= rows && threads % pieces == 0 &&
           rows * pieces % threads == 0 && config->value[COLUMNS] * pieces % threads == 0;
}

/* Issued instructions over those of fma. */
static double issued_of(const md_fa_config *config)
{
    const int32_t rows = config->value[ROWS], columns = config->value[COLUMNS],
                  thread_rows = config->value[THREAD_ROWS];
    const double issued = thread_rows == 4                ? SHORTEST
                          : thread_rows == 8              ? (rows < 64 ? FEW_ROWS : SHORT)
                          : rows == 128 && columns == 128 ? SQUARE
                                                          : TALL;
    return config->value[COPY_WIDTH] > 1 ? issued : issued * SINGLE;
}

static md_fa_cuda_fma cost_of(const md_fa_target *target, const md_fa_config *config)
{
    return (md_fa_cuda_fma){.rows = config->value[ROWS],
                            .columns = config->value[COLUMNS],
                            .threads = threads_of(config),
                            .sums = config->value[THREAD_ROWS] * ACROSS,
                            .at_once = blocks_of(target, config),
                            .split = MD_MAX(config->value[SPLIT], 1),
                            .sum = SUM_US,
                            .depth = config->value[DEPTH],
                            .runs = is_stream_k(config) ? runs_of(target, config) : 0,
                            .issued = issued_of(config),
                            .alone = ALONE + ALONE_SUM * config->value[THREAD_ROWS] * ACROSS,
                            .least_steps = LEAST_STEPS};
}

/* What a config comes to. */
typedef struct fma_spec {
    md_fa_cuda_tiled tiled;
    md_fa_config config;
    md_fa_cuda_fma cost;
} fma_spec;
_Static_assert(sizeof(fma_spec) <= sizeof(md_fa_spec), "there is room for it");

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    fma_spec *s = out;
    if (!product_of(&s->tiled.p, target))
        return false;
    s->tiled.tiles = tiles_of(target, config);
    s->config = *config;
    s->cost = cost_of(target, config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    return product_of(&p, target) && is_even(config) && shared_of(config) <= target->facts->shared_per_block &&
           is_worth_trying(target, &p, config, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const fma_spec *s = spec;
    (void)target;
    for (int32_t o = 0; o <= 1; o++) {
        out->unit |= UINT32_C(1) << s->tiled.p.load[o]->id;
        if (s->config.value[COPY_WIDTH] == 4)
            out->aligned16 |= UINT32_C(1) << s->tiled.p.load[o]->id;
    }
}

static void stream_geometry(md_kn_geometries *out, const md_fa_target *target, const md_cg_product *p,
                            const md_fa_config *config, const int64_t *size)
{
    md_fa_product sized;
    md_fa_product_measure(&sized, target, p, size);
    md_kn_geometry *g = &out->launch[0];
    if (g->blocks == 0)
        return;
    const int64_t tiles = g->blocks;
    g->blocks = MD_MIN(tiles * MD_MAX((sized.depth + UNIT - 1) / UNIT, 1), runs_of(target, config));
    g->grid[0] = md_fa_cuda_grid(g->blocks);
    out->workspace_bytes = 2 * g->blocks * config->value[ROWS] * config->value[COLUMNS] * 4;
    out->launch[1] = md_fa_cuda_launch(MD_MIN(tiles, g->blocks) * PARTS, SUM_THREADS);
    out->launch[1].overlaps = true;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const fma_spec *s = spec;
    md_fa_cuda_tiled_geometry(out, target, spec, shape);
    if (is_stream_k(&s->config))
        stream_geometry(out, target, &s->tiled.p, &s->config, shape->size);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const fma_spec *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (sized)
        md_fa_cuda_product_time_features(out, md_fa_cuda_fma_us(target, sized, &s->cost),
                                         s->config.value[SPLIT] == 1 ? 1 : 2);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const fma_spec *s = spec;
    const md_fa_config *config = &s->config;
    md_strbuf defines = {0};
    md_strbuf_printf(&defines,
                     "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32 "\n#define MD_BK %" PRId32
                     "\n#define MD_TM %" PRId32 "\n#define MD_TN %d\n#define MD_COPY_WIDTH %" PRId32
                     "\n#define MD_BLOCKS %" PRId32 "\n#define MD_RASTER %d\n",
                     config->value[ROWS], config->value[COLUMNS], config->value[DEPTH], config->value[THREAD_ROWS],
                     ACROSS, config->value[COPY_WIDTH], s->tiled.tiles.resident, RASTER);
    md_fa_cuda_product_print_along(&defines, &s->tiled.p);
    md_strbuf_printf(&defines, "#define MD_STREAM_K %" PRId64 "\n#define MD_PARTS %d\n#define MD_THREADS %d\n",
                     is_stream_k(config) ? runs_of(target, config) : 0, PARTS, SUM_THREADS);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_fma.cu",
                                    .lanes = 4,
                                    .split = config->value[SPLIT],
                                    .end = is_stream_k(config) ? "cuda/gemm_stream_k.cu" : NULL};
    return md_fa_cuda_product_emit(out, target, &s->tiled.p, &text, &defines);
}

/* Slices are whole steps of K. With `split0` they depend on the number of tiles. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (config->value[SPLIT] == 0)
        return (md_fa_class){.is_repeatable = true};
    return (md_fa_class){.group = "gemm_fma", .field = {"split", "depth"}, .is_repeatable = true, .is_invariant = true};
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_fma = {
    .name = "gemm_fma",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field = {{"rows", 128, 4, {128, 64, 32, 16}},
              {"columns", 128, 2, {128, 64}},
              {"split", 1, 11, {1, 0, 2, 3, 4, 5, 6, 7, 8, 12, 16}},
              {"thread_rows", 16, 3, {16, 8, 4}}, /* rows of a thread */
              {"copy_width", 4, 2, {4, 1}}, /* floats of a copy */
              {"depth", 8, 2, {8, 16}}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
