/* Family chain_split: attention for few rows that share keys (kernels/cuda/chain_split.cu). `row_tiles`: 8 rows each.
 * `meet`: the blocks of a split combine their parts through memory (0), or as a cluster of `meet` blocks. `length`:
 * keys of a split, so that bits depend on nothing else; 0: as many splits as fill the device. */
#include "family/cuda/chain/chain_kind.h"
#include "family/cuda/chain/chain_split_fit.h"
#include "family/cuda/cuda.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_chain_split; /* defined at the end of this file */

enum { DEPTH, WIDTH, ROW_TILES, WARPS, STAGES, MEET, LENGTH };
enum { STEP = 16, MOST_SHARED = 232448, LEAST_KEYS = 64, MANY_SUMS = 48 };

typedef struct shape {
    int32_t depth, width, row_tiles, warps, stages, meet, length, rows;
    int64_t part; /* floats of a part */
    int64_t mail, shared;
} shape;

static shape shape_of(const md_fa_config *config)
{
    shape s = {.depth = config->value[DEPTH],
               .width = config->value[WIDTH],
               .row_tiles = config->value[ROW_TILES],
               .warps = config->value[WARPS],
               .stages = config->value[STAGES],
               .meet = config->value[MEET],
               .length = config->value[LENGTH]};
    const int64_t stage = ((s.depth + 63) / 64 + (s.width + 63) / 64) * STEP * 128;
    s.rows = 8 * s.row_tiles;
    s.part = (int64_t)s.rows * (s.width + 4) + 2 * s.rows;
    s.mail = MD_MAX(s.warps * s.stages * stage, s.warps * s.part * 4);
    s.shared = s.mail + (s.meet > 0 ? md_fa_few_rows_mail(s.rows, s.width) : 0);
    return s;
}

/* Queries and sums in registers. */
static bool fits(const shape *s)
{
    const int32_t sums = s->row_tiles * (s->width / 4 + s->depth / 8);
    return s->shared <= MOST_SHARED && sums <= (s->warps == 8 ? 150 : 160);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return target->facts->capability >= 80 && md_fa_cuda_chain_of(&c, target);
}

static md_fa_few_rows few_of(const md_fa_target *target, const shape *s)
{
    return (md_fa_few_rows){.rows = s->rows,
                            .threads = 32 * s->warps,
                            .meet = s->meet,
                            .length = s->length,
                            .resident = md_fa_cuda_chain_resident(target, s->shared, s->warps),
                            .unit = LEAST_KEYS,
                            .part = s->part,
                            .shared = s->shared};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_of(&c, target) || !fits(&s) || !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size) ||
        (s.meet > 0 && (s.length > 0 || target->facts->capability < 90)))
        return false;
    if (!size)
        return true;
    /* more rows are for chain_mma and chain_wgmma; pages are not for the latter */
    const bool is_paged = !md_cg_chain_is_linear(&c, MD_ST_K) || !md_cg_chain_is_linear(&c, MD_ST_V);
    return md_fa_chain_measure(&sized, target, size) && (sized.rows <= 4 * s.rows || is_paged) &&
           (s.row_tiles == 1 || sized.rows > s.rows / 2) &&
           (s.meet == 0 ||
            (md_fa_cuda_chain_tiles(&sized, s.rows) * s.meet <= target->facts->threads && sized.keys <= 4096));
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_chain_spec *out = spec;
    md_cg_chain c;
    const shape s = shape_of(config);
    *out = (md_fa_chain_spec){.text.source = "cuda/chain_split.cu",
                              .depth = s.depth,
                              .width = s.width,
                              .most_rows = s.length > 0 ? MD_FA_CHAIN_TICKETS : MD_FA_CHAIN_ROWS,
                              .few = few_of(target, &s)};
    md_fa_chain_define(out, "DEPTH", s.depth);
    md_fa_chain_define(out, "WIDTH", s.width);
    md_fa_chain_define(out, "ROW_TILES", s.row_tiles);
    md_fa_chain_define(out, "WARPS", s.warps);
    md_fa_chain_define(out, "STAGES", s.stages);
    md_fa_chain_define(out, "CLUSTERED", s.meet > 0);
    md_fa_chain_define(out, "LENGTH", s.length);
    md_fa_chain_define(out, "MAIL", s.mail);
    return md_fa_cuda_chain_of(&c, target);
}

/* ---- Cost */

/* What a launch has to do at some sizes. */
typedef struct work {
    double splits, blocks, rows, keys; /* rows of a block; keys of a split */
    double resident; /* blocks on an SM at a time */
} work;

/* Blocks that run on an SM at a time: registers allow for more than a launch plans its splits for. */
static double resident_of(const md_fa_target *target, const shape *s)
{
    const int32_t sums = s->row_tiles * (s->width / 4 + s->depth / 8), warps = sums > MANY_SUMS ? 8 : 16;
    const int64_t fit = MD_MAX(target->facts->shared_per_sm, 1) / (s->shared + 1024);
    return (double)MD_MAX(MD_MIN(fit, warps / s->warps), 1);
}

static work work_of(const md_fa_target *target, const shape *s, const md_fa_chain *sized)
{
    const md_fa_few_rows few = few_of(target, s);
    work w = {.splits = (double)md_fa_few_rows_splits(target, sized, &few), .resident = resident_of(target, s)};
    w.blocks = (double)md_fa_cuda_chain_tiles(sized, s->rows) * w.splits;
    w.rows = fmin((double)sized->rows, s->rows);
    w.keys = (double)sized->keys * sized->part / w.splits;
    return w;
}

/* us of `n` blocks of an SM that run together: warps take turns, and each step has a time of its own. */
static double wave_us(const shape *s, const work *w, double n)
{
    const double steps = ceil(w->keys / (STEP * s->warps)), length = s->row_tiles * (s->depth + s->width) / 256.0;
    const double units = s->warps * w->rows * s->width / 4096;
    return steps * fmax(STEP_US + STEP_TILE_US * length, n * s->warps * (TURN_US + TURN_TILE_US * length)) + BLOCK_US +
           SUMS_US * units * n;
}

/* us of all blocks, as many waves as there are and a part of one. */
static double waves_us(const shape *s, const work *w, double sms)
{
    const double places = sms * w->resident, whole = floor(w->blocks / places);
    const double rest = ceil((w->blocks - whole * places) / sms);
    return whole * wave_us(s, w, w->resident) + (rest > 0 ? wave_us(s, w, rest) : 0);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0 || sized.rows == 0)
        return;
    const work w = work_of(target, &s, &sized);
    const double sms = MD_MAX(target->facts->threads, 1), tiles = ceil((double)sized.rows / s.rows);
    const double loaded = (double)sized.batches * tiles * w.keys * w.splits * (s.depth + s.width) * 2;
    out->memory_bytes = fmax(sized.bytes * sized.part, 1);
    out->cache_bytes = fmax(loaded - out->memory_bytes, 0) / CACHE_GAIN;
    /* Bytes in flight: a block holds its ring. Blocks of clusters lie together, and share ways to the memory. */
    const double flight = fmin(w.blocks / sms, w.resident) * (double)s.shared / 1024,
                 most = s.meet > 0 ? fmin(CLUSTER_RATE, w.blocks / sms * CLUSTER_SHARE) : 1;
    out->memory_rate = fmax(0.01, fmin(most, flight / FULL_FLIGHT_KB));
    /* The blocks take their time or that of the bytes, whichever is longer: as operations at the device's peak. */
    out->ops = waves_us(&s, &w, sms) * target->facts->gflops * 1e3;
    out->parallel = sms;
    out->serial_us = START_US;
    if (w.splits > 1 && s.meet > 0)
        out->serial_us += CLUSTER_MEET_US * ceil(w.blocks / (sms * w.resident));
    else if (w.splits > 1)
        out->serial_us += MEMORY_MEET_US + PART_US * w.splits * ceil(w.rows * s.width / (128.0 * s.warps));
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    const bool is_fixed = config->value[LENGTH] > 0;
    return (md_fa_class){.group = is_fixed ? "chain_split_length" : "chain_split",
                         .field = {"warps", "meet", "length", "row_tiles"},
                         .is_repeatable = true,
                         .is_invariant = is_fixed};
}

const md_fa_family md_fa_cuda_chain_split = {
    .name = "chain_split",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"row_tiles", 1, 3, {1, 2, 4}},
              {"warps", 4, 2, {4, 8}},
              {"stages", 3, 2, {3, 4}},
              {"meet", 0, 3, {0, 8, 4}},
              {"length", 0, 3, {0, 512, 2048}}},
    .kind = &md_fa_cuda_chain_kind,
    .spec_of = spec_of,
    .applies = applies,
    .takes = md_fa_cuda_chain_takes,
    .legal = legal,
    .features = features,
    .numeric = numeric,
};
