/* Family chain_split: attention for few rows that share keys (kernels/cuda/chain_split.cu). `row_tiles`: 8 rows each.
 * `meet`: the blocks of a split combine their parts through memory (0), or as a cluster of `meet` blocks. `length`:
 * keys of a split, so that bits depend on nothing else; 0: as many splits as fill the device. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/chain/few_rows.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>
#include <math.h>

extern const md_fa_family md_fa_cuda_chain_split; /* at the end of this file */

enum { DEPTH, WIDTH, ROW_TILES, WARPS, STAGES, MEET, LENGTH };
enum { STEP = 16, MOST_SHARED = 232448, LEAST_KEYS = 64 };

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
    md_fa_chain w;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_of(&c, target) || !fits(&s) || !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size) ||
        (s.meet > 0 && (s.length > 0 || target->facts->capability < 90)))
        return false;
    if (!size)
        return true;
    /* more rows are for chain_mma and chain_wgmma; pages are not for the latter */
    const bool is_paged = !md_cg_chain_is_linear(&c, MD_ST_K) || !md_cg_chain_is_linear(&c, MD_ST_V);
    return md_fa_chain_measure(&w, target, size) && (w.rows <= 4 * s.rows || is_paged) &&
           (s.row_tiles == 1 || w.rows > s.rows / 2) &&
           (s.meet == 0 || (md_fa_cuda_chain_tiles(&w, s.rows) * s.meet <= target->facts->threads && w.keys <= 4096));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const shape s = shape_of(config);
    md_fa_cuda_chain_envelope(out, target, s.depth, s.width, s.length > 0 ? MD_FA_CHAIN_TICKETS : MD_FA_CHAIN_ROWS);
}

/* ---- Cost. Fitted to an H200 (data/results/attention.md). */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    static const double START_US = 1.5, MEMORY_MEET_US = 1.4, CLUSTER_MEET_US = 0.7, PART_US = 0.04, TENSOR = 3;
    md_fa_chain w;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&w, target, size) || w.batches == 0 || w.rows == 0)
        return;
    const md_fa_few_rows few = few_of(target, &s);
    const double sms = MD_MAX(target->facts->threads, 1), resident = few.resident;
    const double items = (double)md_fa_cuda_chain_tiles(&w, s.rows),
                 splits = (double)md_fa_few_rows_splits(target, &w, &few), blocks = items * splits;
    const double keys = (double)w.keys * w.part, rows = ceil((double)w.rows / s.rows);
    const double waves = ceil(blocks / (sms * resident)), used = blocks / (waves * sms * resident);
    const double loaded = (double)w.batches * rows * keys * (s.depth + s.width) * 2;
    out->memory_bytes = fmax(w.bytes * w.part, 1);
    out->cache_bytes = fmax(loaded - out->memory_bytes, 0);
    /* Bytes in flight: a block holds its ring. */
    const double flight = fmin(blocks, sms * resident) / sms * (double)s.shared / 1024;
    out->memory_rate = fmax(0.05, fmin(1, flight / 96) * (0.25 + 0.75 * used));
    out->ops = 2 * items * s.rows * keys * (s.depth + s.width) / TENSOR;
    out->parallel = fmax(1, fmin(blocks, sms));
    out->serial_us = START_US;
    if (splits > 1)
        out->serial_us += s.meet > 0 ? CLUSTER_MEET_US : MEMORY_MEET_US + PART_US * splits;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_strbuf defines = {0};
    md_cg_chain c;
    const shape s = shape_of(config);
    *out = (md_kn_source){0};
    if (!md_fa_cuda_chain_of(&c, target) || !legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "chain_split has no kernel of these parameters");
    md_strbuf_printf(&defines,
                     "#define MD_DEPTH %" PRId32 "\n#define MD_WIDTH %" PRId32 "\n#define MD_ROW_TILES %" PRId32
                     "\n#define MD_WARPS %" PRId32 "\n#define MD_STAGES %" PRId32
                     "\n#define MD_CLUSTERED %d\n#define MD_LENGTH %" PRId32 "\n#define MD_MAIL %" PRId64 "\n",
                     s.depth, s.width, s.row_tiles, s.warps, s.stages, s.meet > 0, s.length, s.mail);
    return md_fa_cuda_chain_emit(out, target, &(md_fa_cuda_chain_text){.source = "cuda/chain_split.cu"}, &defines);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *size)
{
    const shape s = shape_of(config);
    const md_fa_few_rows few = few_of(target, &s);
    md_fa_few_rows_geometry(out, target, size, &few);
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
    .applies = applies,
    .legal = legal,
    .takes = md_fa_cuda_chain_takes,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
