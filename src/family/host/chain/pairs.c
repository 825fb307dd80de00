/* Family pairs: products of rows and keys summed in both directions, in one pass over the pairs (kernels/host/pairs.c).
 * A batch is one thread's work; where there are fewer batches than threads, keys are split. */
#include "base/status.h"
#include "family/cost.h"
#include "family/host/chain/host_chain.h"
#include "family/host/chain/host_chain_fit.h"

#include <math.h>

extern const md_fa_family md_fa_host_pairs; /* defined at the end of this file */

enum { ROWS, KEYS, SPLIT };

static bool applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_CHAIN && md_fa_stage(target)->chain->pairs;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    return md_fa_chain_measure(&sized, target, size) &&
           (config->value[SPLIT] == 1 || sized.keys > (int64_t)(config->value[SPLIT] - 1) * config->value[KEYS]);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    *out = (md_kn_envelope){0};
}

/* ---- sizes that the kernels compute, too */

static int64_t padded(const md_fa_target *target, int32_t index, const int64_t *size)
{
    return md_fa_up(md_st_size(target->program, index, size), 2 * md_cg_width(target->facts));
}

/* Floats of all results towards rows. */
static int64_t floats_of_rows(const md_fa_target *target, const md_fa_chain *sized, const int64_t *size)
{
    const md_st_pairs *p = sized->c.c->pairs;
    int64_t n = 0;
    for (int32_t i = 0; i < p->n_sums; i++)
        if (!p->sum[i].is_towards_keys)
            n += md_fa_up((sized->rows + md_fa_host_chain_height(target)) * padded(target, p->sum[i].column, size), 16);
    return n;
}

static int64_t scratch_of(const md_fa_target *target, const md_fa_chain *sized, const md_fa_config *config,
                          const int64_t *size)
{
    const md_st_chain *c = sized->c.c;
    const md_st_pairs *p = c->pairs;
    const int64_t height = md_fa_host_chain_height(target), lanes = md_cg_width(target->facts),
                  rows = config->value[ROWS], keys = config->value[KEYS], all_rows = rows + height,
                  all_keys = keys + 2 * lanes;
    int64_t floats = md_fa_up(all_rows, 16) + MD_MAX(p->n_products, p->n_sums) * md_fa_up(all_rows * all_keys, 16);
    for (int32_t i = 0; i < p->n_operands; i++)
        floats +=
            md_fa_up((p->operand[i].is_of_keys ? all_keys : all_rows) * padded(target, p->operand[i].inner, size), 16);
    for (int32_t i = 0; i < p->n_products; i++)
        floats += md_fa_up(all_keys * md_st_size(target->program, p->product[i].depth, size), 16);
    for (int32_t i = 0; i < p->n_sums; i++)
        if (p->sum[i].is_towards_keys)
            floats += md_fa_up((keys + height) * padded(target, p->sum[i].column, size), 16);
    floats += md_fa_up(rows * 2 * (1 + c->n_batch + c->n_rows + MD_CG_MAX_KEPT) + 1, 16);
    return 4 * (floats + (config->value[SPLIT] == 1 ? floats_of_rows(target, sized, size) : 0));
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_chain sized;
    const int64_t split = config->value[SPLIT];
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!md_fa_chain_measure(&sized, target, shape->size))
        return;
    out->launch[0].blocks = sized.batches * split;
    out->launch[0].scratch_bytes = scratch_of(target, &sized, config, shape->size);
    if (split == 1)
        return;
    out->workspace_bytes = sized.batches * split * floats_of_rows(target, &sized, shape->size) * 4;
    out->launch[1].blocks = sized.batches;
}

/* ---- cost */

/* Elements of the lines of rows, and of keys, that a block loads for each of its rows and keys. */
static double elements_of(const md_fa_target *target, const md_st_pairs *p, bool of_keys, const int64_t *size)
{
    double n = 0;
    for (int32_t i = 0; i < p->n_operands; i++)
        if (p->operand[i].is_of_keys == of_keys)
            n += (double)padded(target, p->operand[i].inner, size);
    return n;
}

static double cycles_of(const md_fa_target *target, const md_fa_chain *sized, const md_fa_config *config,
                        const int64_t *size)
{
    const md_st_pairs *p = sized->c.c->pairs;
    const double lanes = md_cg_width(target->facts), rows = (double)sized->rows, keys = (double)sized->keys;
    /* blocks that a bound cuts are computed as a whole */
    const double cut = sized->c.c->n_bounds > 0 ? 0.5 * (config->value[ROWS] + config->value[KEYS]) : 0;
    const double pairs = rows * fmin(keys, keys * sized->part + cut);
    const double products = md_st_pair_terms(target->program, p, size) / lanes * PRODUCT_CYCLES;
    const double weights = (SCORE_CYCLES + OP_CYCLES * sized->ops + EXP_CYCLES * sized->transcendental) / lanes;
    const double loads = elements_of(target, p, false, size) / lanes * QUERY_CYCLES / config->value[KEYS];
    const double blocks = BLOCK_CYCLES / ((double)config->value[ROWS] * config->value[KEYS]);
    return pairs * (products + weights + loads + blocks) +
           keys * elements_of(target, p, true, size) / lanes * (KEY_PACK_CYCLES + VALUE_PACK_CYCLES);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const double split = config->value[SPLIT];
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = split > 1 ? 2 : 1};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0)
        return;
    const double sums = split > 1 ? 8 * (split + 1) * (double)floats_of_rows(target, &sized, size) : 0;
    out->ops =
        (double)sized.batches * cycles_of(target, &sized, config, size) * md_fa_host_ops_per_cycle(target->facts);
    out->memory_bytes = sized.bytes;
    out->cache_bytes = (double)sized.batches * sums;
    out->parallel = md_fa_host_parallel((double)sized.batches * split, target->facts);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const int32_t *v = config->value;
    return md_fa_host_chain_emit(out, target, v[SPLIT] > 1 ? 2 : 1, "host/pairs.c",
                                 &(md_fa_host_chain_fields){v[ROWS], v[KEYS], v[SPLIT]});
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){
        .group = "pairs", .field = {"rows", "keys", "split"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_pairs = {
    .name = "pairs",
    .device = MD_DEV_HOST,
    .n_fields = 3,
    .field = {{"rows", 128, 2, {128, 64}}, {"keys", 256, 3, {256, 128, 64}}, {"split", 1, 5, {1, 2, 4, 8, 16}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
