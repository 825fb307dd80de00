/* Family gemm_window: products of 16-bit operands by mma.sync of which one is a window of a tensor, as in a convolution
 * (kernels/cuda/gemm_window.cu). */
#include "family/cuda/cuda.h"

#include "family/cuda/product/gemm_window_fit.h"
#include "family/cuda/product/mma_tile.h"

enum { ROWS, COLUMNS, STAGES, SPLIT };
enum { WARP_COLUMNS = 32, RASTER = 8, MOST_KEPT = 96, MOST_PARTS = 4 };

typedef struct window_spec {
    md_fa_cuda_tiled tiled; /* its product says what the window lies along */
    md_fa_cuda_mma_tile t;
} window_spec;

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    window_spec *s = out;
    const int32_t *v = config->value;
    md_cg_product *p = &s->tiled.p;
    if (!md_fa_cuda_product_of(p, target) || p->is_grouped || p->n_products != 1)
        return false;
    const int32_t window = md_cg_product_window(p);
    p->gathers_windows = true;
    if (window < 0 || md_fa_cuda_mma_type(p) == MD_F32 || !md_cg_product_window_is_small(p, window))
        return false;
    p->along[window] = md_cg_product_window_along(p, window);
    s->t = md_fa_cuda_mma_tile_of(p, &(md_fa_cuda_mma_fields){v[ROWS], v[COLUMNS], v[STAGES], v[SPLIT], WARP_COLUMNS});
    s->tiled.tiles = md_fa_cuda_mma_tiles(target, &s->t);
    return true;
}

/* A thread's sums, and the pieces of both operands that wait in registers while a block of K is multiplied; the rows
 * of a window along K that it knows. */
static bool fits_registers(const md_cg_product *p, const md_fa_cuda_mma_tile *t)
{
    const int32_t window = md_cg_product_window(p), rows = window == MD_CG_A ? t->rows : t->columns;
    return (md_cg_product_along(p, window) == MD_CG_ALONG_ROWS || rows * 8 <= MOST_PARTS * t->threads) &&
           t->rows * t->columns + (t->rows + t->columns) * 32 <= MOST_KEPT * t->threads;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    window_spec s;
    return spec_of(&s, target, config) && fits_registers(&s.tiled.p, &s.t) &&
           md_fa_cuda_mma_is_legal(target, &s.tiled.p, &s.t) &&
           md_fa_cuda_product_is_worth_trying(target, &s.tiled.p, &s.tiled.tiles, size);
}

static bool is_along_depth(const md_cg_product *p)
{
    return md_cg_product_along(p, md_cg_product_window(p)) == MD_CG_ALONG_DEPTH;
}

/* The time of a step of K in which a thread finds its pieces: along K they are copied whole where eight elements of the
 * last index are a piece. */
static double gather_us(const md_cg_product *p, const md_fa_cuda_mma_tile *t, const int64_t *size)
{
    const md_st_product *s = md_cg_product_stage(p);
    const int32_t window = md_cg_product_window(p), rows = window == MD_CG_A ? t->rows : t->columns;
    const bool is_whole = md_st_size(p->program, s->k[s->n_k - 1], size) % 8 == 0;
    const double piece = !is_along_depth(p) ? PIECE_GATHERED : is_whole ? PIECE_COPIED : PIECE_SINGLE;
    return piece * rows * 8 / t->threads;
}

/* Blocks that an SM holds together find a part of their pieces in turn. */
static double gathering_us(const md_fa_target *target, const md_fa_product *sized, const window_spec *s,
                           const md_fa_cuda_tiles *t, const int64_t *size)
{
    const double sms = MD_MAX(target->facts->threads, 1), split = MD_MAX(t->split, 1),
                 blocks = (double)sized->batch * ceil((double)sized->rows / t->rows) *
                          ceil((double)sized->columns / t->columns) * split,
                 waves = ceil(blocks / (sms * MD_MAX(t->resident, 1))), turns = ceil(blocks / sms);
    return gather_us(&s->tiled.p, &s->t, size) * ceil((double)sized->depth / split / 64) *
           (waves + IN_TURN * (turns - waves));
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const window_spec *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    md_fa_cuda_tiles tiles = s->tiled.tiles;
    const md_fa_cuda_load load = {
        .threads = tiles.threads, .registers = (int32_t)REGISTERS, .shared_bytes = tiles.shared_bytes};
    tiles.resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
    tiles.flops *= is_along_depth(&s->tiled.p) ? PART_OF_RATE : PART_GATHERED;
    md_fa_cuda_product_features(out, target, sized, &tiles);
    out->serial_us += gathering_us(target, sized, s, &tiles, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const window_spec *s = spec;
    md_strbuf defines = {0};
    md_fa_cuda_mma_print(&defines, &s->tiled.p, &s->t);
    md_strbuf_printf(&defines, "#define MD_RASTER %d\n", RASTER);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_window.cu", .lanes = 4, .split = s->t.split};
    return md_fa_cuda_product_emit(out, target, &s->tiled.p, &text, &defines);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return md_fa_cuda_product_class("gemm_mma");
}

static const md_fa_kind kind = {
    .checks_config = true, .features = features, .emit = emit, .geometry = md_fa_cuda_tiled_geometry};

const md_fa_family md_fa_cuda_gemm_window = {
    .name = "gemm_window",
    .device = MD_DEV_CUDA,
    .n_fields = 4,
    .field = {{"rows", 128, 3, {128, 64, 32}},
              {"columns", 128, 3, {128, 64, 32}},
              {"stages", 3, 2, {3, 4}},
              {"split", 1, 5, {1, 2, 4, 8, 16}}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
