/* Family chain_wgmma: attention on Hopper's tensor cores (kernels/cuda/chain_wgmma.cu). `split`: parts of the keys of a
 * tile, for few tiles; the last part to end combines them. */
#include "base/status.h"
#include "family/cuda/chain/chain_wgmma_fit.h"
#include "family/cuda/chain/chain_kind.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>
#include <math.h>

extern const md_fa_family md_fa_cuda_chain_wgmma; /* defined at the end of this file */

enum { DEPTH, WIDTH, KEYS, GROUPS, STAGES, SPLIT };
enum { SHARED = 232448, ROWS_OF_GROUP = 64 };

/* What follows from a config. */
typedef struct shape {
    int32_t depth, width, keys, groups, stages, slots, split, rows, low, high;
    int64_t shared;
} shape;

static int64_t shared_bytes(const shape *s)
{
    const int64_t k = (s->depth + 63) / 64 * 128, v = (s->width + 63) / 64 * 128;
    return 1024 + s->slots * (k * s->rows + 64 + 8 * s->rows + 24) + s->stages * ((k + v) * s->keys + 32) + 8 +
           16 * (s->groups + 1) + 24;
}

static shape shape_of(const md_fa_config *config)
{
    shape s = {.depth = config->value[DEPTH],
               .width = config->value[WIDTH],
               .keys = config->value[KEYS],
               .groups = config->value[GROUPS],
               .stages = config->value[STAGES],
               .split = config->value[SPLIT]};
    s.rows = ROWS_OF_GROUP * s.groups;
    for (s.slots = 2; s.slots > 1 && shared_bytes(&s) > SHARED; s.slots--)
        ;
    s.shared = shared_bytes(&s);
    return s;
}

/* The chain, each row of which keeps its bounds in shared memory. */
static bool chain_of(md_cg_chain *out, const md_fa_target *target)
{
    const bool r = md_fa_cuda_chain_of(out, target);
    out->keeps_bounds = true;
    return r;
}

/* Scores, their powers and sums in registers; ptxas adds some 50. Scores that look up whether a row has a key keep what
 * they found. Three warpgroups have few for parts of tiles with bounds, and two for those with long values whose scores
 * are not folded. */
static bool fits(const shape *s, const md_cg_chain *c)
{
    const bool looks_up = md_cg_chain_looks_up_rows(c->c) && !md_cg_chain_is_bounded(c);
    const int32_t places = md_fa_cuda_chain_folds(c) ? 0 : s->groups == 3 ? 24 : s->depth > 128 ? 16 : 0;
    const int32_t beside = looks_up ? 48 : places;
    const int32_t registers = s->keys / 2 + md_fa_cuda_chain_halves(c) * s->keys / 4 + s->width / 2 + beside;
    const int32_t most = s->groups == 2 ? 192 : beside > 0 ? 90 : s->keys == 128 ? 128 : 120;
    if (s->split > 1 && s->width > 128 && s->keys > 96 && !md_fa_cuda_chain_folds(c))
        return false;
    if (s->split > 1 && s->width > 192 && (!md_fa_cuda_chain_folds(c) || md_cg_chain_looks_up_rows(c->c)))
        return false;
    if (s->groups == 3 && s->split > 1 && (s->keys > 96 || s->width > 64) && c->c->n_guards > 0)
        return false;
    if (s->groups == 3 && s->keys == 128 && md_cg_chain_looks_up_rows(c->c))
        return false;
    return s->shared <= SHARED && registers <= most && (s->groups == 2 || s->depth <= 64);
}

static bool maps_of(md_kn_map map[2], md_strbuf coordinates[2], const md_cg_chain *c)
{
    bool has_maps = md_fa_cuda_chain_map(&map[0], &coordinates[0], c, MD_ST_K) &&
                    md_fa_cuda_chain_map(&map[1], &coordinates[1], c, MD_ST_V);
    return has_maps && !coordinates[0].failed && !coordinates[1].failed;
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return target->facts->capability == 90 && chain_of(&c, target) && md_fa_cuda_chain_is_mapped(&c);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    md_cg_chain c;
    if (!chain_of(&c, target) || !fits(&s, &c) || !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size))
        return false;
    if (!size)
        return true;
    if (!md_fa_chain_measure(&sized, target, size))
        return false;
    const double tiles = (double)md_fa_cuda_chain_tiles(&sized, s.rows);
    return s.split == 1 || (tiles < target->facts->threads && (double)sized.keys >= 2.0 * s.split * s.keys);
}

/* Registers of the warps that copy and of those that compute: as many as the block has in all. Those that copy look up
 * the keys of rows. */
static void share_registers(shape *s, const md_cg_chain *c)
{
    const bool looks_up = md_cg_chain_looks_up_rows(c->c);
    s->high = s->groups == 2 ? (looks_up ? 224 : 232) : s->keys == 128 ? 160 : 152;
    s->low = s->groups == 2 ? (looks_up ? 56 : 40) : s->keys == 128 ? 32 : 56;
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_chain_spec *out = spec;
    md_cg_chain c;
    shape s = shape_of(config);
    if (!chain_of(&c, target))
        return false;
    share_registers(&s, &c);
    *out = (md_fa_chain_spec){.text.source = "cuda/chain_wgmma.cu",
                              .depth = s.depth,
                              .width = s.width,
                              .most_rows = s.split > 1 ? MD_FA_CHAIN_TICKETS / s.groups : MD_FA_CHAIN_ROWS,
                              .least_size = 1, /* a tensor map has no empty dims */
                              .rows = s.rows,
                              .split = s.split,
                              .threads = 128 * (s.groups + 1),
                              .most_blocks = MD_MAX(target->facts->threads, 1),
                              .shared = s.shared,
                              .part = (int64_t)s.groups * 128 * (s.width / 2 + 4)};
    md_fa_chain_define(out, "DEPTH", s.depth);
    md_fa_chain_define(out, "WIDTH", s.width);
    md_fa_chain_define(out, "BN", s.keys);
    md_fa_chain_define(out, "GROUPS", s.groups);
    md_fa_chain_define(out, "STAGES", s.stages);
    md_fa_chain_define(out, "SLOTS", s.slots);
    md_fa_chain_define(out, "SPLIT", s.split);
    md_fa_chain_define(out, "LOW", s.low);
    md_fa_chain_define(out, "HIGH", s.high);
    return true;
}

/* ---- Cost */

/* The part of the tensor cores' rate that a long tile reaches. */
static double rate_of(const shape *s)
{
    const double length = (double)(s->depth + s->width) / 2, per_block = (double)s->keys / (s->keys + START_KEYS);
    const double best = length >= 192  ? RATE_192
                        : length >= 96 ? RATE_96
                        : length >= 64 ? (s->groups == 3 ? RATE_64_THREE : RATE_64)
                                       : RATE_LEAST;
    return best * per_block * (s->slots == 1 && length < 192 ? ONE_SLOT : 1);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0 || sized.rows == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), gflops = fmax(target->facts->gflops, 1);
    const double tiles = (double)md_fa_cuda_chain_tiles(&sized, s.rows) * s.split,
                 keys = ceil((double)sized.keys / s.keys) * s.keys;
    const double flops = 2.0 * s.rows * keys * (s.depth + s.width) / s.split; /* of a tile that has all keys */
    const double full_us =
        flops / (gflops * 1e3 * TENSOR / sms * rate_of(&s)) + sized.ops * s.rows * keys / s.split * SCORE_OP_US;
    const double part = fmin(1, sized.part + (sized.part < 1 ? 0.5 * s.keys / keys : 0));
    /* Tiles of different lengths, the longest first, end at nearly the same time. */
    const double most = part < 1 ? fmax(1, tiles * part / sms + 0.5) : ceil(tiles / sms);
    /* The tiles take their time or that of the bytes, whichever is longer: as operations at the device's peak. */
    out->ops = (most * full_us + fmax(1, tiles / sms) * (s.groups == 3 ? TILE_3_US : TILE_US)) * gflops * 1e3;
    out->parallel = sms;
    out->serial_us = START_US;
    if (s.split > 1)
        out->serial_us += MEET_US + s.split * PART_US;
    out->memory_bytes = sized.bytes;
    out->memory_rate = fmin(MEMORY_RATE, tiles / sms * FLIGHT + 0.05);
}

/* ---- Text */

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_chain c;
    md_kn_map map[2];
    md_strbuf coordinates[2] = {{0}, {0}}, defines = {0}, text = {0};
    const shape s = shape_of(config);
    md_fa_chain_spec spec;
    *out = (md_kn_source){0};
    if (!spec_of(&spec, target, config) || !chain_of(&c, target) || !legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "chain_wgmma has no kernel of these parameters");
    if (!maps_of(map, coordinates, &c))
        return md_fail(MD_INTERNAL, "the copy engine does not take the operands");
    const char *type = md_dtype_name(md_fa_cuda_chain_type(&c));
    for (int32_t i = 0; i < 2; i++) {
        map[i].axes_box[0] = 64;
        map[i].axes_box[1] = (uint16_t)s.keys;
        md_fa_cuda_chain_print_copy(&text, i ? "values" : "keys", i, &map[i], &coordinates[i]);
        md_strbuf_finish(&coordinates[i]);
    }
    md_fa_cuda_print_wgmma(&text, "md_scores", type, s.keys, MD_FA_WGMMA_SCORES);
    md_fa_cuda_print_wgmma(&text, "md_values", type, s.width, MD_FA_WGMMA_VALUES);
    md_fa_chain_print_defines(&defines, &spec);
    spec.text.n_maps = 2;
    spec.text.map = map;
    spec.text.functions = &text;
    spec.text.keeps_bounds = true;
    md_status status = md_fa_cuda_chain_emit(out, target, &spec.text, &defines);
    md_strbuf_finish(&text);
    return status;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    return md_fa_cuda_chain_class("chain_wgmma", config->value[SPLIT]);
}

const md_fa_family md_fa_cuda_chain_wgmma = {
    .name = "chain_wgmma",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"keys", 128, 5, {128, 80, 64, 112, 96}},
              {"groups", 2, 2, {2, 3}},
              {"stages", 2, 2, {2, 3}},
              {"split", 1, 4, {1, 2, 3, 4}}},
    .kind = &md_fa_cuda_chain_kind,
    .spec_of = spec_of,
    .applies = applies,
    .takes = md_fa_cuda_chain_takes,
    .legal = legal,
    .features = features,
    .emit = emit,
    .numeric = numeric,
};
