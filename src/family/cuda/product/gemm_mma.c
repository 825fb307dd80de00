/* Family gemm_mma: products of 16-bit operands by mma.sync (kernels/cuda/gemm_mma.cu), in any layout, size and
 * alignment. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/mma_tile.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/gemm_mma_fit.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, STAGES, SPLIT, RASTER, WARP_COLUMNS };
enum { DEPTH = 64 };

typedef md_fa_cuda_mma_tile tile;

tile md_fa_cuda_mma_tile_of(const md_cg_product *p, const md_fa_cuda_mma_fields *f)
{
    tile t = {.rows = f->rows, .columns = f->columns / p->n_products, .stages = f->stages, .split = f->split};
    t.warps_rows = t.rows >= 64 ? 2 : 1;
    t.warps_columns = t.columns >= f->warp_columns ? t.columns / f->warp_columns : 1;
    t.threads = 32 * t.warps_rows * t.warps_columns;
    int64_t stages = (int64_t)t.stages * (t.rows + p->n_products * t.columns) * DEPTH * 2;
    t.shared = MD_MAX(stages, (int64_t)p->n_products * t.rows * (t.columns + 4) * 4);
    return t;
}

md_dtype md_fa_cuda_mma_type(const md_cg_product *p)
{
    md_dtype first = MD_F32;
    for (int32_t o = 0; o <= p->n_products; o++) {
        const md_fx_node *load = md_cg_product_memory(p, o);
        md_dtype dtype = load ? p->program->formula->tensor[load->id].dtype : MD_F32;
        if ((dtype != MD_BF16 && dtype != MD_F16) || (o > 0 && dtype != first))
            return MD_F32;
        first = dtype;
    }
    return p->type == MD_F32 ? first : MD_F32;
}

md_fa_cuda_tiles md_fa_cuda_mma_tiles(const md_fa_target *target, const tile *t)
{
    md_fa_cuda_load load = {.threads = t->threads, .registers = 128, .shared_bytes = t->shared};
    double rate = t->rows >= 128 && t->columns >= 64 ? LARGE : t->rows >= 64 && t->columns >= 64 ? MIDDLING : SMALL;
    return (md_fa_cuda_tiles){.threads = t->threads,
                              .shared_bytes = t->shared,
                              .rows = t->rows,
                              .columns = t->columns,
                              .split = t->split,
                              .resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1),
                              .flops = 16 * rate,
                              .step_us = STEP};
}

bool md_fa_cuda_mma_is_legal(const md_fa_target *target, const md_cg_product *p, const tile *t)
{
    if (t->rows * t->columns * p->n_products > (p->n_products == 2 ? 48 : 96) * t->threads) /* accumulators */
        return false;
    if (t->threads > 256) /* 128 registers were too few (measured) */
        return false;
    if (t->threads < 64 || t->columns < 16 || t->rows * 8 > 8 * t->threads || t->columns * 8 > 8 * t->threads ||
        t->rows > 4 * t->columns || t->columns > 8 * t->rows || t->rows * 8 % t->threads || t->columns * 8 % t->threads)
        return false;
    return t->shared <= target->facts->shared_per_block;
}

/* What a config comes to. */
typedef struct mma_spec {
    md_fa_cuda_tiled tiled;
    tile t;
    int32_t raster;
} mma_spec;
_Static_assert(sizeof(mma_spec) <= sizeof(md_fa_spec), "there is room for it");

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    mma_spec *s = out;
    const int32_t *v = config->value;
    if (!md_fa_cuda_any_product_of(&s->tiled.p, target) || md_fa_cuda_mma_type(&s->tiled.p) == MD_F32)
        return false;
    s->t = md_fa_cuda_mma_tile_of(&s->tiled.p,
                                  &(md_fa_cuda_mma_fields){v[ROWS], v[COLUMNS], v[STAGES], v[SPLIT], v[WARP_COLUMNS]});
    s->tiled.tiles = md_fa_cuda_mma_tiles(target, &s->t);
    s->raster = v[RASTER];
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    mma_spec s;
    if (!spec_of(&s, target, config) ||
        (s.raster != 8 && !md_fa_cuda_product_has_waves(target, &s.tiled.p, &s.tiled.tiles, size)))
        return false;
    return md_fa_cuda_mma_is_legal(target, &s.tiled.p, &s.t) &&
           md_fa_cuda_product_is_worth_trying(target, &s.tiled.p, &s.tiled.tiles, size);
}

/* The time of functions in the epilogue. Tiles of a wave compute them at once, but 128 threads issue as much as an SM
 * can. With slices, the launch that adds them up spreads the time over all threads. */
static double epilogue_us(const md_fa_target *target, const md_fa_product *sized, const tile *t,
                          const md_fa_cuda_tiles *tiles)
{
    enum { ISSUING_THREADS = 128 };
    const double blocks =
        (double)sized->batch * ceil((double)sized->rows / t->rows) * ceil((double)sized->columns / t->columns);
    const double sms = MD_MAX(target->facts->threads, 1), waves = ceil(blocks / (sms * MD_MAX(tiles->resident, 1)));
    if (t->split > 1)
        return 0;
    return EPILOGUE * md_fa_cuda_product_epilogue_us(sized) * t->rows * t->columns *
           fmax(waves / t->threads, blocks / sms / ISSUING_THREADS);
}

/* Elements that are read as pieces: of planes the rows of an image are apart. */
static int64_t line_of(const md_fa_product *sized, int32_t operand, const int64_t *size)
{
    const md_fx_node *load = md_cg_product_memory(&sized->p, operand);
    const md_fx_tensor *x = load ? &sized->p.program->formula->tensor[load->id] : NULL;
    return x && x->is_apart ? size[x->dim[x->rank - 1]] : md_fa_product_line(sized, operand);
}

/* The time of a step of K that a thread spends on pieces of unaligned rows, and of elements that lie apart. */
static double pieces_us(const md_fa_product *sized, const tile *t, const int64_t *size)
{
    double us = 0;
    for (int32_t o = 0; o <= sized->p.n_products; o++) {
        const int64_t line = line_of(sized, o, size);
        const double pieces = (double)(o == 0 ? t->rows : t->columns) * (DEPTH / 8) / t->threads;
        us += pieces * (md_cg_product_along(&sized->p, o) == MD_CG_ALONG_NEITHER ? PIECE_APART
                        : line % 2                                               ? PIECE_ODD
                        : line % 8                                               ? PIECE_EVEN
                                                                                 : 0);
    }
    return us;
}

static double store_us(const md_fa_target *target, const md_fa_product *sized, const tile *t)
{
    const double tiles =
        (double)sized->batch * ceil((double)sized->rows / t->rows) * ceil((double)sized->columns / t->columns);
    return t->split > 1 ? 0
                        : ceil(tiles / MD_MAX(target->facts->threads, 1)) * t->rows * t->columns * sized->p.n_products *
                              STORE[sized->columns % 2   ? 2
                                    : sized->columns % 4 ? 1
                                                         : 0];
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const mma_spec *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    md_fa_cuda_tiles tiles = s->tiled.tiles;
    tiles.step_us += pieces_us(sized, &s->t, size);
    md_fa_cuda_product_features(out, target, sized, &tiles);
    out->serial_us += START + epilogue_us(target, sized, &s->t, &tiles) + store_us(target, sized, &s->t);
    if (md_fa_cuda_product_is_ragged(sized))
        out->memory_rate *= RAGGED_MEMORY;
}

void md_fa_cuda_mma_print(md_strbuf *out, const md_cg_product *p, const tile *t)
{
    md_strbuf_printf(out,
                     "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32 "\n#define MD_WARPS_M %" PRId32
                     "\n#define MD_WARPS_N %" PRId32 "\n#define MD_STAGES %" PRId32 "\n#define MD_OPERAND_TYPE %s\n",
                     t->rows, t->columns, t->warps_rows, t->warps_columns, t->stages,
                     md_fa_cuda_mma_type(p) == MD_BF16 ? "bf16" : "f16");
    md_fa_cuda_product_print_along(out, p);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const mma_spec *s = spec;
    md_strbuf defines = {0};
    md_fa_cuda_mma_print(&defines, &s->tiled.p, &s->t);
    md_strbuf_printf(&defines, "#define MD_RASTER %" PRId32 "\n", s->raster);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_mma.cu", .lanes = 4, .split = s->t.split};
    return md_fa_cuda_product_emit(out, target, &s->tiled.p, &text, &defines);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return md_fa_cuda_product_class("gemm_mma");
}

static const md_fa_kind kind = {
    .checks_config = true, .features = features, .emit = emit, .geometry = md_fa_cuda_tiled_geometry};

const md_fa_family md_fa_cuda_gemm_mma = {
    .name = "gemm_mma",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field = {{"rows", 64, 4, {128, 64, 32, 16}},
              {"columns", 64, 3, {128, 64, 32}},
              {"stages", 3, 2, {3, 4, 2, 5}, 2},
              {"split", 1, 5, {1, 2, 4, 8, 16}},
              {"raster", 8, 1, {8, 2, 4, 16}, 3}, /* rows of tiles in a band, which is traversed column by column */
              {"warp_columns", 32, 1, {32, 16}, 1}}, /* columns of a warp */
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
