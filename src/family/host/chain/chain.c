/* Family chain: a product, the weights made of its results, and their product with values, in one pass over the keys.
 * Without few1 many rows share packed keys (kernels/host/chain.c); with it few rows read keys where they lie, over
 * splits of the keys where there are fewer rows than threads (kernels/host/chain_few.c). */
#include "base/status.h"
#include "family/cost.h"
#include "family/host/chain/host_chain.h"
#include "family/host/chain/host_chain_fit.h"

#include <math.h>

extern const md_fa_family md_fa_host_chain; /* defined at the end of this file */

enum { FEW, ROWS, KEYS, SPLIT };

static bool applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_CHAIN && !md_fa_stage(target)->chain->pairs;
}

static bool is_load(const md_cg_chain *c)
{
    return md_cg_chain_is_load(c, MD_ST_Q) && md_cg_chain_is_load(c, MD_ST_K) && md_cg_chain_is_load(c, MD_ST_V);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    bool few = config->value[FEW] == 1;
    if (!md_fa_chain_measure(&sized, target, size) || few != (config->value[ROWS] <= 8) || (few && !is_load(&sized.c)))
        return false;
    if (!few)
        return config->value[SPLIT] == 0;
    return sized.rows <= 2 * config->value[ROWS] && (config->value[SPLIT] == 0 || config->value[SPLIT] < sized.keys) &&
           (config->value[SPLIT] == 0 || config->value[KEYS] <= config->value[SPLIT]);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    *out = (md_kn_envelope){0};
}

/* ---- sizes that the kernels compute, too */

static int64_t bytes_of_row(const md_st_chain *c)
{
    return 8 * (1 + c->n_batch + c->n_rows + MD_CG_MAX_KEPT);
}

/* Registers of columns at a time with few rows: MD_RUN. */
static int64_t run_of(const md_fa_config *config)
{
    int64_t run = 16 / config->value[ROWS];
    return run < 2 ? 2 : run > 8 ? 8 : run;
}

static int64_t splits_of(const md_fa_chain *sized, const md_fa_config *config)
{
    int64_t split = config->value[SPLIT];
    return split > 0 && sized->keys > split ? (sized->keys + split - 1) / split : 1;
}

static int64_t scratch_of(const md_fa_target *target, const md_fa_chain *sized, const md_fa_config *config)
{
    int64_t lanes = md_cg_width(target->facts), rows = config->value[ROWS], keys = config->value[KEYS];
    int64_t sums = sized->c.c->n_terms > 0 ? sized->c.c->n_terms : 1, floats;
    if (config->value[FEW] == 1) {
        int64_t pitch = md_fa_up(sized->columns, run_of(config) * lanes);
        floats = (2 + sums) * md_fa_up(rows, 16) + sums * 16 + md_fa_up(rows * keys, 16) +
                 md_fa_up(rows * md_fa_up(sized->depth, lanes), 16) + md_fa_up(rows * pitch, 16);
    } else {
        int64_t height = md_fa_host_chain_height(target), most = rows + height,
                pitch = md_fa_up(sized->columns, 2 * lanes);
        floats = md_fa_up(height * keys, 16) + (2 + sums) * md_fa_up(most, 16) + sums * 16 +
                 md_fa_up(most * sized->depth, 16) + md_fa_up(keys * sized->depth, 16) + md_fa_up(keys * pitch, 16) +
                 md_fa_up(most * pitch, 16);
        rows = most;
    }
    return 4 * floats + rows * bytes_of_row(sized->c.c);
}

static int64_t tiles_of(const md_fa_chain *sized, const md_fa_config *config)
{
    return (sized->rows + config->value[ROWS] - 1) / config->value[ROWS];
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_chain sized;
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!md_fa_chain_measure(&sized, target, shape->size))
        return;
    const int64_t rows = sized.batches * sized.rows, lanes = md_cg_width(target->facts);
    out->launch[0].blocks = sized.batches * tiles_of(&sized, config) * splits_of(&sized, config);
    out->launch[0].scratch_bytes = scratch_of(target, &sized, config);
    if (md_fa_chain_pairs(&sized) * (double)(sized.depth + sized.columns) < 100e3)
        out->launch[0].grain = out->launch[0].blocks > 0 ? out->launch[0].blocks : 1;
    if (config->value[SPLIT] == 0)
        return;
    const int64_t pitch = md_fa_up(sized.columns, run_of(config) * lanes);
    out->workspace_bytes = rows * splits_of(&sized, config) * (pitch + 16) * 4;
    out->launch[1].blocks = rows;
    out->launch[1].grain = md_fa_host_grain(rows, splits_of(&sized, config) * pitch, target->facts);
    out->launch[1].scratch_bytes = pitch * 4;
}

/* ---- cost */

/* Cycles of a vector of scores beside the products. */
static double weigh_cycles(const md_fa_chain *sized)
{
    return SCORE_CYCLES + OP_CYCLES * sized->ops + EXP_CYCLES * sized->transcendental;
}

/* Rows of all tiles, up to whole units of each: the last tile may be short. */
static double whole_rows(const md_fa_chain *sized, const md_fa_config *config, double unit)
{
    const double rows = config->value[ROWS], others = (double)tiles_of(sized, config) - 1;
    return unit * (others * ceil(rows / unit) + ceil(((double)sized->rows - others * rows) / unit));
}

static double many_cycles(const md_fa_target *target, const md_fa_chain *sized, const md_fa_config *config)
{
    double lanes = md_cg_width(target->facts), height = (double)md_fa_host_chain_height(target),
           rows = config->value[ROWS], keys = (double)sized->keys * sized->part, n = (double)sized->rows;
    double panels = whole_rows(sized, config, height / 3), depth = (double)sized->depth,
           columns = (double)md_fa_up(sized->columns, 2 * md_cg_width(target->facts)),
           tiles = (double)tiles_of(sized, config);
    /* a tile computes whole blocks of keys: half of one too many where bounds cut it */
    keys = fmin((double)sized->keys, keys + (sized->c.c->n_bounds > 0 ? height / 2 : 0));
    double packed = fmin((double)sized->keys, keys + (sized->c.c->n_bounds > 0 ? CUT_PART * rows : 0));
    double products = panels * keys * (depth + columns) / lanes * PRODUCT_CYCLES;
    double packing = tiles * packed * (depth * KEY_PACK_CYCLES + columns * VALUE_PACK_CYCLES) / lanes +
                     n * depth * QUERY_CYCLES / lanes;
    double blocks = ceil(keys / config->value[KEYS]) * whole_rows(sized, config, height) / height;
    return (double)sized->batches * (products + packing + n * keys / lanes * weigh_cycles(sized) +
                                     blocks * (BLOCK_ROW_CYCLES * height + BLOCK_CYCLES) +
                                     n * (columns * RESULT_VECTOR_CYCLES / lanes + RESULT_CYCLES));
}

static double few_cycles(const md_fa_target *target, const md_fa_chain *sized, const md_fa_config *config)
{
    double lanes = md_cg_width(target->facts), rows = config->value[ROWS], n = fmin((double)sized->rows, rows),
           keys = (double)sized->keys * sized->part, depth = (double)md_fa_up(sized->depth, md_cg_width(target->facts));
    /* a tile computes whole vectors of keys: half of one too many where bounds cut it */
    keys = fmin((double)sized->keys, keys + (sized->c.c->n_bounds > 0 ? lanes / 2 : 0));
    double run = (double)run_of(config) * lanes, columns = ceil((double)sized->columns / run) * run;
    double scores = n * keys * (depth / lanes * FEW_SCORE_VECTOR_CYCLES + FEW_SCORE_CYCLES);
    double values = keys * (columns / lanes * (FEW_VALUE_CYCLES + FEW_VALUE_ROW_CYCLES * rows) +
                            FEW_RUN_CYCLES * ceil((double)sized->columns / run));
    double splits = (double)splits_of(sized, config), tiles = (double)tiles_of(sized, config);
    double cycles = tiles * (scores + values + n * keys / lanes * weigh_cycles(sized) +
                             splits * (SPLIT_CYCLES + n * columns * SPLIT_COLUMN_CYCLES));
    if (config->value[SPLIT] > 0)
        cycles += (double)sized->rows * splits * columns / lanes * MEET_CYCLES;
    return (double)sized->batches * cycles;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = config->value[SPLIT] > 0 ? 2 : 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0 || sized.rows == 0)
        return;
    bool few = config->value[FEW] == 1;
    double cycles = few ? few_cycles(target, &sized, config) : many_cycles(target, &sized, config);
    double tiles = (double)tiles_of(&sized, config);
    out->ops = cycles * md_fa_host_ops_per_cycle(target->facts);
    out->memory_bytes = sized.bytes;
    out->cache_bytes = (tiles - 1) * 4 * (double)sized.batches * (double)sized.keys * sized.part *
                       (double)(sized.depth + sized.columns);
    out->parallel =
        md_fa_host_parallel((double)sized.batches * tiles * (double)splits_of(&sized, config), target->facts);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const int32_t *v = config->value;
    return md_fa_host_chain_emit(out, target, v[SPLIT] > 0 ? 2 : 1, v[FEW] == 1 ? "host/chain_few.c" : "host/chain.c",
                                 &(md_fa_host_chain_fields){v[ROWS], v[KEYS], v[SPLIT]});
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){
        .group = "chain", .field = {"few", "keys", "split"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_chain = {
    .name = "chain",
    .device = MD_DEV_HOST,
    .n_fields = 4,
    .field = {{"few", 0, 2, {0, 1}},
              {"rows", 128, 6, {128, 256, 64, 32, 8, 4}},
              {"keys", 128, 3, {128, 64, 256}},
              {"split", 0, 5, {0, 512, 1024, 2048, 4096}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
