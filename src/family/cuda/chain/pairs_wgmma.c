/* Family pairs_wgmma: sums over rows and over keys on Hopper's tensor cores (kernels/cuda/pairs_wgmma.cu), of weights
 * that the formula rounds to the operands' type. */
#include "base/status.h"
#include "family/cuda/chain/cuda_pairs.h"
#include "family/cuda/chain/pairs_wgmma_fit.h"
#include "family/cuda/cuda.h"
#include "family/emit.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_pairs_wgmma; /* defined at the end of this file */

enum { DEPTH, WIDTH, BLOCK, STAGES };
enum { OWN = 128, LOW = 40, HIGH = 232, REGISTERS = 192, REGISTERS_LONG = 184 };

/* What follows from a config. */
typedef struct shape {
    int32_t depth, width, block, stages;
} shape;

static shape shape_of(const md_fa_config *config)
{
    return (shape){.depth = config->value[DEPTH],
                   .width = config->value[WIDTH],
                   .block = config->value[BLOCK],
                   .stages = config->value[STAGES]};
}

/* Shared memory of a tile in the direction that needs more. */
static int64_t shared_of(const shape *s, const md_cg_chain *c)
{
    int64_t own = 0, other = 0;
    for (int32_t i = 0; i < c->c->pairs->n_products; i++) {
        const int32_t length = md_cg_pairs_is_deep(c, c->c->pairs->product[i].of_rows) ? s->depth : s->width;
        own += md_fa_cuda_pairs_bytes(OWN, length);
        other += md_fa_cuda_pairs_bytes(s->block, length);
    }
    return 1024 + own + s->stages * (other + 24) + 16 +
           md_fa_cuda_pairs_note_bytes(c) * MD_MAX(OWN, s->stages * s->block);
}

/* Registers of a thread for the sums of a direction, products and weights. */
static int32_t registers_of(const shape *s, const md_cg_chain *c, bool keys)
{
    const md_st_pairs *p = c->c->pairs;
    int32_t n = p->n_products * s->block / 2;
    for (int32_t i = 0; i < p->n_sums; i++)
        if (p->sum[i].is_towards_keys == keys)
            n += md_fa_cuda_pairs_part(c, i, s->depth, s->width).width / 2;
    return n;
}

/* True for rows of several indices whose weights have no mask: NVRTC takes more registers for their places than where a
 * mask bounds them. */
static bool is_open(const md_cg_chain *c)
{
    return c->c->n_rows > 1 && c->c->n_guards == 0 && c->c->n_bounds == 0;
}

/* Lines of more than 128 elements take registers for their pieces' places. */
static bool fits(const shape *s, const md_cg_chain *c, const md_dev_facts *facts)
{
    const int32_t most = MD_MAX(s->depth, s->width) > 128 || is_open(c) ? REGISTERS_LONG : REGISTERS;
    return registers_of(s, c, false) <= most && registers_of(s, c, true) <= most &&
           shared_of(s, c) <= facts->shared_per_block;
}

/* Every sum has rounded weights, and values that are lines of a product. */
static bool takes_sums(const md_cg_chain *c)
{
    const md_st_pairs *p = c->c->pairs;
    int32_t n[2] = {0, 0};
    for (int32_t i = 0; i < p->n_sums; i++) {
        bool is_side = false;
        for (int32_t k = 0; k < p->n_products; k++)
            is_side |= p->sum[i].operand == (p->sum[i].is_towards_keys ? p->product[k].of_rows : p->product[k].of_keys);
        if (!is_side || md_cg_pairs_halves(c, i) != 1 || ++n[p->sum[i].is_towards_keys] > 2)
            return false;
    }
    return true;
}

static bool pairs_of(md_cg_chain *out, const md_fa_target *target)
{
    return target->facts->capability == 90 && md_fa_cuda_pairs_of(out, target) && takes_sums(out);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return pairs_of(&c, target);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_chain c;
    const shape s = shape_of(config);
    return pairs_of(&c, target) && fits(&s, &c, target->facts) &&
           md_fa_cuda_pairs_has(target, &c, s.depth, s.width, size);
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
    md_cg_chain c;
    if (!legal(target, config, NULL) || !pairs_of(&c, target)) {
        *out = (md_kn_source){0};
        return md_fail(MD_UNSUPPORTED, "there is no such kernel");
    }
    const char *type = md_dtype_name(md_fa_cuda_pairs_type(&c));
    const md_fa_define define[] = {{"DEPTH", s.depth},   {"WIDTH", s.width}, {"BLOCK", s.block},
                                   {"STAGES", s.stages}, {"LOW", LOW},       {"HIGH", HIGH}};
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    md_fa_cuda_print_wgmma(&defines, "md_multiply", type, s.block, MD_FA_WGMMA_SCORES);
    md_fa_cuda_print_wgmma(&defines, "md_accumulate", type, s.depth, MD_FA_WGMMA_VALUES);
    if (s.width != s.depth)
        md_fa_cuda_print_wgmma(&defines, "md_accumulate", type, s.width, MD_FA_WGMMA_VALUES);
    return md_fa_cuda_pairs_emit(out, target, "cuda/pairs_wgmma.cu", &defines);
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
    md_fa_cuda_pairs_tiles(tiles, &sized, OWN);
    const int64_t kinds = (tiles[0] > 0) + (tiles[1] > 0);
    md_fa_cuda_pairs_launch(out, MD_MAX(tiles[0], tiles[1]) * sized.batches * kinds, 384, shared_of(&s, &sized.c));
}

/* ---- Cost */

/* us of all tiles of a direction, if one SM had them one after the other. */
static double direction_us(double *longest, const md_fa_target *target, const shape *s, const md_fa_chain *sized,
                           bool keys)
{
    const md_st_pairs *p = sized->c.c->pairs;
    const double own = (double)(keys ? sized->keys : sized->rows), others = (double)(keys ? sized->rows : sized->keys);
    const double tiles = ceil(own / OWN) * (double)sized->batches, sms = MD_MAX(target->facts->threads, 1);
    double terms = 0, n = 0;
    for (int32_t i = 0; i < p->n_products; i++)
        terms += md_cg_pairs_is_deep(&sized->c, p->product[i].of_rows) ? s->depth : s->width;
    for (int32_t i = 0; i < p->n_sums; i++)
        if (p->sum[i].is_towards_keys == keys) {
            terms += md_fa_cuda_pairs_part(&sized->c, i, s->depth, s->width).width;
            n++;
        }
    if (n == 0)
        return 0;
    const double cut = sized->part < 1 ? 0.5 * OWN + s->block : 0,
                 seen = ceil(fmin(others, others * sized->part + cut) / s->block) * s->block;
    const double weights = (sized->ops * OP_US + sized->transcendental * EXP_US) * n / p->n_sums,
                 rate = TENSOR * RATE * (s->stages == 2 ? TWO_STAGES : 1) * s->block / (s->block + STEP_LINES),
                 product = 2.0 * terms / (fmax(target->facts->gflops, 1) * 1e3 * rate / sms);
    *longest = fmax(*longest, others * fmin(1, 2 * sized->part) * OWN * (product + weights) + TILE_US);
    return tiles * (seen * OWN * (product + weights) + TILE_US);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0)
        return;
    double longest = 0, us = 0;
    for (int32_t keys = 0; keys < 2; keys++)
        us += direction_us(&longest, target, &s, &sized, keys);
    out->serial_us = START_US + fmax(us / MD_MAX(target->facts->threads, 1) + LAST_PART * longest, longest);
    md_fa_cuda_pairs_features(out, target, &sized, OWN);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "pairs_wgmma", .field = {"block"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_pairs_wgmma = {
    .name = "pairs_wgmma",
    .device = MD_DEV_CUDA,
    .n_fields = 4,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"block", 64, 2, {64, 32}},
              {"stages", 3, 3, {3, 2, 4}}},
    .applies = applies,
    .takes = md_fa_cuda_pairs_takes,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
