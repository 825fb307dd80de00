/* Family chain_mma: attention on tensor cores by mma.sync, from sm_80 on (kernels/cuda/chain_mma.cu), with any score,
 * weights and results. `row_tiles`: 16 rows each of a warp. `split`: parts of the keys of a tile, for few tiles; the
 * last part to end combines them. */
#include "family/cuda/chain/chain_mma_fit.h"
#include "family/cuda/chain/chain_kind.h"
#include "family/cuda/cuda.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_chain_mma; /* defined at the end of this file */

enum { DEPTH, WIDTH, KEYS, WARPS, ROW_TILES, STAGES, SPLIT };
/* Registers of a thread that are planned for: at most, at most with queries among them, and for what a formula wants to
 * know of rows. ptxas adds up to 90. */
enum { REGISTERS = 152, WITH_QUERIES = 146, NAMES = 26, LEAST_KEYS = 16 };

/* What follows from a config. */
typedef struct shape {
    int32_t depth, width, keys, warps, row_tiles, stages, split, rows;
    int64_t shared, part; /* bytes; floats of a part */
} shape;

static shape shape_of(const md_fa_config *config)
{
    shape s = {.depth = config->value[DEPTH],
               .width = config->value[WIDTH],
               .keys = config->value[KEYS],
               .warps = config->value[WARPS],
               .row_tiles = config->value[ROW_TILES],
               .stages = config->value[STAGES],
               .split = config->value[SPLIT]};
    const int64_t k = (s.depth + 63) / 64 * 128, v = (s.width + 63) / 64 * 128;
    s.rows = 16 * s.row_tiles * s.warps;
    s.shared = k * s.rows + s.stages * (k + v) * s.keys;
    s.part = (int64_t)s.row_tiles * 32 * s.warps * (s.width / 2 + 4);
    return s;
}

/* The weight is the power, rounded or not; others are those of dropout, say. */
static bool has_plain_weights(const md_cg_chain *c)
{
    bool is_plain = false;
    (void)md_cg_chain_weight(c, &is_plain);
    return is_plain;
}

/* Registers of a thread for scores, their powers and sums, and what the formula wants to know of rows. */
static int32_t registers_of(const shape *s, const md_cg_chain *c)
{
    return s->row_tiles * (s->keys / 2 + md_fa_cuda_chain_halves(c) * s->keys / 4 + s->width / 2 +
                           (md_fa_cuda_chain_folds(c) && has_plain_weights(c) ? 0 : (int32_t)NAMES));
}

static bool holds_queries(const shape *s, const md_cg_chain *c)
{
    return registers_of(s, c) + s->row_tiles * s->depth / 4 <= WITH_QUERIES;
}

/* True if places of keys or values are looked up, as pages are. */
static bool finds_keys(const md_cg_chain *c)
{
    return !md_cg_chain_is_linear(c, MD_ST_K) || !md_cg_chain_is_linear(c, MD_ST_V);
}

/* The smallest config always does. ptxas spills parts of long values; 64 long keys with queries that are loaded again
 * and again or have more than 192 elements; with weights of the formula's own, or of two halves, already 32 long keys;
 * 128 keys with long values; and places of keys that are looked up, beside many keys or parts of many rows or of long
 * keys. */
static bool fits(const shape *s, const md_cg_chain *c)
{
    const bool is_plain = has_plain_weights(c) && md_fa_cuda_chain_halves(c) == 1;
    if (s->split > 1 && s->width > 192)
        return false;
    if (s->keys >= 128 && s->width > 80)
        return false;
    if (finds_keys(c) && (s->keys >= 128 || (s->split > 1 && (s->depth > 128 || s->row_tiles > 1))))
        return false;
    if (s->depth > 128 && (is_plain ? s->keys >= 64 && (s->depth > 192 || !holds_queries(s, c)) : s->keys > LEAST_KEYS))
        return false;
    return registers_of(s, c) <= REGISTERS || (s->row_tiles == 1 && s->keys == LEAST_KEYS);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return target->facts->capability >= 80 && md_fa_cuda_chain_any(&c, target);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_any(&c, target) || s.shared > target->facts->shared_per_block || !fits(&s, &c) ||
        !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size))
        return false;
    if (!size)
        return true;
    /* chain_wgmma is faster, where it is */
    if (target->facts->capability == 90 && md_fa_cuda_chain_of(&c, target) && md_fa_cuda_chain_is_mapped(&c))
        return false;
    if (!md_fa_chain_measure(&sized, target, size))
        return false;
    const double tiles = (double)md_fa_cuda_chain_tiles(&sized, s.rows);
    /* else half of the block's rows would be enough */
    const bool is_low = s.rows == 64 || sized.rows > s.rows / 2;
    return is_low && (s.split == 1 || (tiles < target->facts->threads && (double)sized.keys >= 2.0 * s.split * s.keys));
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_chain_spec *out = spec;
    md_cg_chain c;
    const shape s = shape_of(config);
    *out = (md_fa_chain_spec){.text.source = "cuda/chain_mma.cu",
                              .depth = s.depth,
                              .width = s.width,
                              .most_rows = s.split > 1 ? MD_FA_CHAIN_TICKETS : MD_FA_CHAIN_ROWS,
                              .rows = s.rows,
                              .split = s.split,
                              .threads = 32 * s.warps,
                              .shared = s.shared,
                              .part = s.part};
    if (!md_fa_cuda_chain_any(&c, target))
        return false;
    md_fa_chain_define(out, "DEPTH", s.depth);
    md_fa_chain_define(out, "WIDTH", s.width);
    md_fa_chain_define(out, "BN", s.keys);
    md_fa_chain_define(out, "WARPS", s.warps);
    md_fa_chain_define(out, "ROW_TILES", s.row_tiles);
    md_fa_chain_define(out, "STAGES", s.stages);
    md_fa_chain_define(out, "SPLIT", s.split);
    md_fa_chain_define(out, "HOLDS", holds_queries(&s, &c));
    return true;
}

/* ---- Cost */

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0 || sized.rows == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), gflops = fmax(target->facts->gflops, 1);
    const double resident = md_fa_cuda_chain_resident(target, s.shared, s.warps), places = sms * resident;
    const double tiles = (double)md_fa_cuda_chain_tiles(&sized, s.rows) * s.split,
                 keys = ceil((double)sized.keys / s.keys) * s.keys;
    const double halves = md_fa_cuda_chain_halves(&sized.c), flops = 2.0 * s.rows * keys * (s.depth + halves * s.width);
    const double rate =
        RATE * (s.row_tiles == 2 ? 1 : ONE_ROW_TILE) * s.keys / (s.keys + START_KEYS) * fmin(1, s.warps * resident / 8);
    const double full_us =
        resident * (flops / (gflops * 1e3 * TENSOR / sms * rate) + sized.ops * s.rows * keys * SCORE_OP_US) / s.split;
    const double part = fmin(1, sized.part + (sized.part < 1 ? 0.5 * s.keys / keys : 0));
    const double most = part < 1 ? fmax(1, tiles * part / places + 0.5) : ceil(tiles / places);
    out->serial_us =
        START_US + most * full_us * fmin(1, fmax(tiles / places, 1 / resident)) + fmax(1, tiles / places) * TILE_US;
    if (s.split > 1)
        out->serial_us += MEET_US + s.split * PART_US;
    out->parallel = fmin(tiles, sms);
    out->memory_bytes = sized.bytes;
    out->memory_rate = fmin(1, tiles / sms + 0.05);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    return md_fa_cuda_chain_class("chain_mma", config->value[SPLIT]);
}

const md_fa_family md_fa_cuda_chain_mma = {
    .name = "chain_mma",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"keys", 64, 4, {64, 32, 128, 16}},
              {"warps", 4, 2, {4, 8}},
              {"row_tiles", 1, 2, {1, 2}},
              {"stages", 2, 2, {2, 3}},
              {"split", 1, 4, {1, 2, 4, 8}}},
    .kind = &md_fa_cuda_chain_kind,
    .spec_of = spec_of,
    .applies = applies,
    .takes = md_fa_cuda_chain_takes,
    .legal = legal,
    .features = features,
    .numeric = numeric,
};
