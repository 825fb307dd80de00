/* Family pairs_mma: sums over rows and over keys on tensor cores by mma.sync, from sm_80 on
 * (kernels/cuda/pairs_mma.cu), with any weights and results. A tile has `warps` times `row_tiles` times 16 lines of one
 * sum's results; a step has `block` of the lines that it runs over. */
#include "base/status.h"
#include "family/cuda/chain/cuda_pairs.h"
#include "family/cuda/chain/pairs_mma_fit.h"
#include "family/cuda/cuda.h"
#include "family/emit.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_pairs_mma; /* defined at the end of this file */

enum { DEPTH, WIDTH, WARPS, ROW_TILES, BLOCK, STAGES };
/* Registers of a thread that are planned for, those for what a formula wants to know of rows, and for weights in two
 * halves. */
enum { REGISTERS = 200, NAMES = 10, SECOND_HALF = 28 };

/* What follows from a config. */
typedef struct shape {
    int32_t depth, width, warps, row_tiles, block, stages, own;
} shape;

static shape shape_of(const md_fa_config *config)
{
    shape s = {.depth = config->value[DEPTH],
               .width = config->value[WIDTH],
               .warps = config->value[WARPS],
               .row_tiles = config->value[ROW_TILES],
               .block = config->value[BLOCK],
               .stages = config->value[STAGES]};
    s.own = 16 * s.warps * s.row_tiles;
    return s;
}

/* Shared memory of a tile of one sum: its own lines, a ring of the other ones, and what is known of rows. */
static int64_t shared_of_sum(const shape *s, const md_cg_chain *c, int32_t sum)
{
    const md_fa_pair_part part = md_fa_cuda_pairs_part(c, sum, s->depth, s->width);
    int64_t own = 0, other = 0;
    int32_t elements = 0;
    for (int32_t i = 0; i < part.n_products; i++) {
        const int32_t operand = c->c->pairs->product[part.product[i]].of_rows,
                      length = md_cg_pairs_is_deep(c, operand) ? s->depth : s->width;
        own += md_fa_cuda_pairs_bytes(s->own, length);
        other += md_fa_cuda_pairs_bytes(s->block, length);
        elements += length;
    }
    if (part.other > elements)
        other += md_fa_cuda_pairs_bytes(s->block, part.width);
    return own + s->stages * other +
           md_fa_cuda_pairs_note_bytes(c) * (part.is_towards_keys ? s->stages * s->block : s->own);
}

static int64_t shared_of(const shape *s, const md_cg_chain *c)
{
    int64_t most = 0;
    for (int32_t i = 0; i < c->c->pairs->n_sums; i++)
        most = MD_MAX(most, shared_of_sum(s, c, i));
    return most;
}

/* Registers of a thread for sums, products and operands, and what the formula wants to know of rows. */
static int32_t registers_of(const shape *s, const md_cg_chain *c)
{
    int32_t most = 0;
    for (int32_t i = 0; i < c->c->pairs->n_sums; i++) {
        const md_fa_pair_part part = md_fa_cuda_pairs_part(c, i, s->depth, s->width);
        const int32_t products = s->row_tiles * s->block / 2 * part.n_products, sums = s->row_tiles * part.width / 2,
                      names = part.is_towards_keys ? 0 : 2 * s->row_tiles * c->n_kept;
        most = MD_MAX(most, products + sums + names + 4 * s->row_tiles + (part.halves - 1) * SECOND_HALF + NAMES);
    }
    return most;
}

static bool fits(const shape *s, const md_cg_chain *c)
{
    return registers_of(s, c) <= REGISTERS || (s->row_tiles == 1 && s->block == 16);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return target->facts->capability >= 80 && md_fa_cuda_pairs_of(&c, target);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_pairs_of(&c, target) || !md_fa_cuda_pairs_has(target, &c, s.depth, s.width, size) ||
        s.block < 2 * s.warps || !fits(&s, &c) || shared_of(&s, &c) > target->facts->shared_per_block)
        return false;
    if (!size)
        return true;
    /* else half of the block's lines would be enough */
    return md_fa_chain_measure(&sized, target, size) && (s.own == 64 || MD_MAX(sized.rows, sized.keys) > s.own / 2);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const shape s = shape_of(config);
    md_fa_cuda_pairs_envelope(out, target, s.depth, s.width);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const shape s = shape_of(config);
    md_strbuf defines = {0};
    if (!legal(target, config, NULL)) {
        *out = (md_kn_source){0};
        return md_fail(MD_UNSUPPORTED, "there is no such kernel");
    }
    const md_fa_define define[] = {{"DEPTH", s.depth}, {"WIDTH", s.width},         {"BLOCK", s.block},
                                   {"WARPS", s.warps}, {"ROW_TILES", s.row_tiles}, {"STAGES", s.stages}};
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    return md_fa_cuda_pairs_emit(out, target, "cuda/pairs_mma.cu", &defines);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *at)
{
    const shape s = shape_of(config);
    md_fa_chain sized;
    int64_t tiles[2];
    *out = (md_kn_geometries){0};
    if (!md_fa_chain_measure(&sized, target, at->size) || sized.batches == 0)
        return;
    md_fa_cuda_pairs_tiles(tiles, &sized, s.own);
    const int64_t blocks = MD_MAX(tiles[0], tiles[1]) * sized.batches * sized.c.c->pairs->n_sums;
    md_fa_cuda_pairs_launch(out, blocks, 32 * s.warps, shared_of(&s, &sized.c));
}

/* ---- Cost */

/* us of all tiles of a sum, if one SM had them one after the other. */
static double sum_us(double *longest, const md_fa_target *target, const shape *s, const md_fa_chain *sized, int32_t sum,
                     double resident)
{
    const md_fa_pair_part part = md_fa_cuda_pairs_part(&sized->c, sum, s->depth, s->width);
    const double own = (double)(part.is_towards_keys ? sized->keys : sized->rows),
                 others = (double)(part.is_towards_keys ? sized->rows : sized->keys),
                 tiles = ceil(own / s->own) * (double)sized->batches;
    const double cut = sized->part < 1 ? 0.5 * s->own + s->block : 0;
    const double steps = ceil(fmin(others, others * sized->part + cut) / s->block);
    const double sms = MD_MAX(target->facts->threads, 1), gflops = fmax(target->facts->gflops, 1);
    const double rate = RATE * (s->row_tiles == 2 ? 1 : ONE_ROW_TILE) * s->block / (s->block + STEP_LINES) *
                        fmin(1, s->warps * resident / 8);
    const double pairs = (double)s->own * s->block, n_sums = sized->c.c->pairs->n_sums;
    const double weights = (sized->ops * OP_US + sized->transcendental * EXP_US) / n_sums;
    const double step_us = pairs * (2.0 * part.terms / (gflops * 1e3 * TENSOR / sms * rate) + weights);
    *longest = fmax(*longest, others * fmin(1, 2 * sized->part) / s->block * step_us * resident + TILE_US);
    return tiles * (steps * step_us + TILE_US / resident);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1),
                 resident = md_fa_cuda_chain_resident(target, shared_of(&s, &sized.c), s.warps);
    double us = 0, longest = 0;
    for (int32_t i = 0; i < sized.c.c->pairs->n_sums; i++)
        us += sum_us(&longest, target, &s, &sized, i, resident);
    out->serial_us = START_US + fmax(us / sms + LAST_PART * longest, longest);
    md_fa_cuda_pairs_features(out, target, &sized, s.own);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "pairs_mma", .field = {"block"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_pairs_mma = {
    .name = "pairs_mma",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"warps", 4, 2, {4, 8}},
              {"row_tiles", 1, 2, {1, 2}},
              {"block", 32, 3, {32, 16, 64}},
              {"stages", 2, 2, {2, 3}}},
    .applies = applies,
    .takes = md_fa_cuda_pairs_takes,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
