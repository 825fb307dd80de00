/* Family gemm_simt: products of any types in any layout, on the CUDA cores (kernels/cuda/gemm_simt.cu). */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/fma_cost.h"
#include "family/cuda/product/mma_tile.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/gemm_simt_fit.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, SPLIT, RASTER, DEPTH, THREAD_ROWS, THREAD_COLUMNS };
enum { USUAL_DEPTH = 16 };

typedef struct tile {
    int32_t rows, columns, thread_rows, thread_columns; /* columns are those of each product */
    int32_t threads, split, depth;
    int64_t shared;
} tile;

static tile tile_of(const md_cg_product *p, const md_fa_config *config)
{
    tile t = {.rows = config->value[ROWS],
              .columns = config->value[COLUMNS] / p->n_products,
              .split = config->value[SPLIT],
              .depth = config->value[DEPTH]};
    int64_t pitch_a = t.rows + 4, pitch_b = t.columns + 4;
    t.thread_rows = config->value[THREAD_ROWS] ? config->value[THREAD_ROWS] : t.rows >= 128 ? 8 : 4;
    t.thread_columns = config->value[THREAD_COLUMNS] ? config->value[THREAD_COLUMNS] : t.columns >= 128 ? 8 : 4;
    t.threads = t.rows / t.thread_rows * (t.columns / t.thread_columns);
    int64_t stages = 2 * t.depth * (pitch_a + p->n_products * pitch_b),
            results = (int64_t)p->n_products * t.rows * pitch_b;
    t.shared = MD_MAX(stages, results) * md_fa_cuda_product_bytes(p);
    return t;
}

static md_fa_cuda_tiles tiles_of(const md_fa_target *target, const md_cg_product *p, const tile *t)
{
    md_fa_cuda_load load = {.threads = t->threads,
                            .registers = t->thread_rows * t->thread_columns >= 64 ? 200 : 80,
                            .shared_bytes = t->shared};
    double rate = p->type == MD_F32 ? RATE_F32 : p->type == MD_F64 ? RATE_F64 : RATE_INTEGER;
    /* fma for each value read from shared memory */
    double reuse = (double)(t->thread_rows * t->thread_columns) / (t->thread_rows + t->thread_columns);
    return (md_fa_cuda_tiles){.threads = t->threads,
                              .shared_bytes = t->shared,
                              .rows = t->rows,
                              .columns = t->columns,
                              .split = t->split,
                              .resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1),
                              .flops = rate * (reuse >= 4     ? 1
                                               : reuse >= 2.6 ? REUSE_3
                                                              : REUSE_2),
                              .step_us = STEP};
}

/* True if the threads of a block copy equal numbers of pieces of four, and a warp's threads form a rectangle in the
 * tile. With slices of K the usual depth is required, so that sums have the same order. */
static bool is_even(const tile *t)
{
    const int32_t across = t->columns / t->thread_columns, down = t->rows / t->thread_rows,
                  lanes_across = MD_MIN(across, 8);
    if (t->threads < 32 || t->threads > 256 || across % lanes_across || down % (32 / lanes_across))
        return false;
    return t->rows * t->depth / 4 % t->threads == 0 && t->columns * t->depth / 4 % t->threads == 0 &&
           (t->depth == USUAL_DEPTH || t->split == 1);
}

/* True if a thread has registers for its sums and for the pieces it is copying. With more, kernels were seen to
 * spill. */
static bool has_registers(const md_cg_product *p, const tile *t)
{
    const int32_t pieces = (t->rows + p->n_products * t->columns) * t->depth / 4 / t->threads;
    return t->thread_rows * t->thread_columns * p->n_products + 12 * pieces <= 127;
}

/* What a config comes to. */
typedef struct simt_spec {
    md_fa_cuda_tiled tiled;
    tile t;
    int32_t raster;
    double computed; /* elements that a step finds from several tensors, for each step of a sum */
} simt_spec;
_Static_assert(sizeof(simt_spec) <= sizeof(md_fa_spec), "there is room for it");

static bool count_load(void *user, const md_fx_node *node)
{
    *(int32_t *)user += node->kind == MD_FX_LOAD;
    return true;
}

/* True for weights with scales, and the like. */
static bool is_of_several(const md_cg_product *p, int32_t operand)
{
    int32_t loads = 0;
    if (p->load[operand] || p->window[operand])
        return false;
    (void)md_fx_visit(p->operand[operand], count_load, &loads);
    return loads > 1;
}

static double computed_of(const md_cg_product *p, const tile *t)
{
    double computed = is_of_several(p, MD_CG_A) / (double)t->columns;
    for (int32_t o = MD_CG_B; o <= p->n_products; o++)
        computed += is_of_several(p, o) / (double)t->rows;
    return computed;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    simt_spec *s = out;
    if (!md_fa_cuda_any_product_of(&s->tiled.p, target))
        return false;
    s->t = tile_of(&s->tiled.p, config);
    s->tiled.tiles = tiles_of(target, &s->tiled.p, &s->t);
    s->raster = config->value[RASTER];
    s->computed = computed_of(&s->tiled.p, &s->t);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    simt_spec s;
    if (!spec_of(&s, target, config))
        return false;
    const md_cg_product *p = &s.tiled.p;
    const tile *t = &s.t;
    if (p->type != MD_F32 && t->thread_rows * t->thread_columns * p->n_products > 32)
        return false;
    /* in such narrow tiles the copy of one operand takes all registers */
    if (t->rows > 2 * t->columns || t->columns > 4 * t->rows)
        return false;
    if ((config->value[THREAD_ROWS] && config->value[THREAD_ROWS] == (t->rows >= 128 ? 8 : 4)) ||
        (config->value[THREAD_COLUMNS] && config->value[THREAD_COLUMNS] == (t->columns >= 128 ? 8 : 4)))
        return false; /* such a config is the same as the default */
    if (s.raster != 8 && !md_fa_cuda_product_has_waves(target, p, &s.tiled.tiles, size))
        return false;
    return is_even(t) && has_registers(p, t) && t->shared <= target->facts->shared_per_block &&
           md_fa_cuda_product_is_worth_trying(target, p, &s.tiled.tiles, size);
}

/* True if operands are copied in pieces of 16 bytes. */
static bool has_direct_operands(const md_fa_product *sized)
{
    for (int32_t o = 0; o <= sized->p.n_products; o++)
        if (!sized->p.load[o] || sized->p.program->formula->tensor[sized->p.load[o]->id].dtype != sized->p.type)
            return false;
    return !md_fa_cuda_product_is_ragged(sized);
}

enum { MANY_SUMS = 64 }; /* of a thread: few blocks have room on an SM */

static bool is_narrow(const md_fa_product *sized)
{
    return sized->p.load[0] && md_dtype_size(sized->p.program->formula->tensor[sized->p.load[0]->id].dtype) < 4;
}

static double f32_us(const md_fa_target *target, const md_fa_product *sized, const simt_spec *s, int32_t at_once)
{
    const tile *t = &s->t;
    const int32_t sums = t->thread_rows * t->thread_columns;
    const bool is_single = !has_direct_operands(sized), is_window = md_cg_product_window(&sized->p) >= 0;
    md_fa_cuda_fma c = {.rows = t->rows,
                        .columns = t->columns,
                        .threads = t->threads,
                        .sums = sums,
                        .at_once = at_once,
                        .split = t->split,
                        .sum = SUM_US + (sized->epilogue_transcendental > 0 ? SUM_FUNCTION_US : 0),
                        .depth = t->depth,
                        .issued = (sums >= 64   ? MANY_SUMS_ISSUED
                                   : sums >= 32 ? SOME_SUMS_ISSUED
                                                : FEW_SUMS_ISSUED) *
                                  (is_single ? SINGLE_ISSUED[is_narrow(sized)] : 1) * (is_window ? WINDOW_ISSUED : 1) *
                                  (1 + COMPUTED_ISSUED * s->computed),
                        .alone = (WAIT + sums) * (is_single ? SINGLE_WAIT[is_narrow(sized)] : 1) *
                                 (is_window ? WINDOW_WAIT : 1) * (1 + COMPUTED_WAIT * s->computed)};
    const double tiles =
        (double)sized->batch * ceil((double)sized->rows / t->rows) * ceil((double)sized->columns / t->columns);
    const double blocks = ceil(tiles * t->split / MD_MAX(target->facts->threads, 1)), /* of the busiest SM */
        waves = ceil(blocks / MD_MAX(at_once, 1));
    /* functions of a further block on the SM begin while others run, if tiles are small (41 kernels with gelu) */
    const double in_turn = sums < MANY_SUMS ? FIRST_TILE + FURTHER_TILE * (blocks - 1) : LARGE_TILE * blocks;
    const double epilogue =
        t->split > 1 ? 0 : md_fa_cuda_product_epilogue_us(sized) * t->rows * t->columns / t->threads * in_turn;
    return md_fa_cuda_fma_us(target, sized, &c) + epilogue +
           (sums < MANY_SUMS ? BLOCK_US * (blocks - 1) + WAVE_US * (waves - 1) : 0);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const simt_spec *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    md_fa_cuda_tiles tiles = s->tiled.tiles;
    if (sized->p.type == MD_F32) {
        md_fa_cuda_product_time_features(out, f32_us(target, sized, s, tiles.resident), s->t.split > 1 ? 2 : 1);
        return;
    }
    if (!has_direct_operands(sized)) { /* measured: 7 us for 64 steps of K if elements are copied one by one */
        tiles.step_us = SINGLE_STEP;
        tiles.flops *= SINGLE_RATE;
    }
    md_fa_cuda_product_features(out, target, sized, &tiles);
    out->serial_us += START + (s->t.split > 1 ? SLICE * s->t.split : 0);
}

void md_fa_cuda_simt_print_direct(md_strbuf *out, const md_cg_product *p)
{
    const md_fx_formula *f = p->program->formula;
    for (int32_t o = 0; o < MD_CG_MAX_OPERANDS; o++)
        md_strbuf_printf(out, "#define MD_DIRECT_%" PRId32 " %d\n", o,
                         o <= p->n_products && p->load[o] && f->tensor[p->load[o]->id].dtype == p->type);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const simt_spec *s = spec;
    const tile *t = &s->t;
    md_strbuf defines = {0};
    md_strbuf_printf(&defines,
                     "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32 "\n#define MD_TM %" PRId32
                     "\n#define MD_TN %" PRId32 "\n#define MD_BK %" PRId32 "\n#define MD_RASTER %" PRId32 "\n",
                     t->rows, t->columns, t->thread_rows, t->thread_columns, t->depth, s->raster);
    md_fa_cuda_product_print_along(&defines, &s->tiled.p);
    md_fa_cuda_simt_print_direct(&defines, &s->tiled.p);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_simt.cu", .lanes = 4, .split = t->split};
    return md_fa_cuda_product_emit(out, target, &s->tiled.p, &text, &defines);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return md_fa_cuda_product_class("gemm_simt");
}

static const md_fa_kind kind = {
    .checks_config = true, .features = features, .emit = emit, .geometry = md_fa_cuda_tiled_geometry};

const md_fa_family md_fa_cuda_gemm_simt = {
    .name = "gemm_simt",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .n_fields = 7,
    .field = {{"rows", 64, 3, {128, 64, 32}},
              {"columns", 64, 3, {128, 64, 32}},
              {"split", 1, 5, {1, 2, 4, 8, 16}},
              {"raster", 8, 1, {8, 2, 4, 16, 1}, 4}, /* rows of tiles in a band, which is traversed column by column */
              {"depth", USUAL_DEPTH, 1, {USUAL_DEPTH, 8, 32}, 2},
              {"thread_rows", 0, 1, {0, 4, 8}, 2}, /* of a thread; 0: depends on the tile */
              {"thread_columns", 0, 1, {0, 4, 8}, 2}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
