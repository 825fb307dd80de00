/* Family chain_dot: attention for one to four rows that share keys, without tensor cores (kernels/cuda/chain_dot.cu).
 * `keys`: of a group of lanes at a time. `meet`: the blocks of a split combine their parts through memory (0), or as a
 * cluster of `meet` blocks. `fill`: blocks for each SM where keys are split by occupancy. `length`: keys of a split, so
 * that bits depend on nothing else; 0: by occupancy. */
#include "family/cuda/chain/chain_dot_fit.h"
#include "family/cuda/chain/chain_kind.h"
#include "family/cuda/cuda.h"

#include <math.h>
#include <stdio.h>

extern const md_fa_family md_fa_cuda_chain_dot; /* defined at the end of this file */

enum { DEPTH, WIDTH, ROWS, KEYS, WARPS, MEET, FILL, LENGTH };
enum { LEAST_KEYS = 64 };

typedef struct shape {
    int32_t depth, width, rows, keys, warps, meet, fill, length;
    int32_t lanes, parts, resident;
    int64_t part; /* floats of a part */
    int64_t mail, shared;
} shape;

static int32_t up_to_power(int32_t n)
{
    int32_t p = 2;
    while (p < n)
        p *= 2;
    return p;
}

static shape shape_of(const md_fa_config *config)
{
    shape s = {.depth = config->value[DEPTH],
               .width = config->value[WIDTH],
               .rows = config->value[ROWS],
               .keys = config->value[KEYS],
               .warps = config->value[WARPS],
               .meet = config->value[MEET],
               .fill = config->value[FILL],
               .length = config->value[LENGTH]};
    s.lanes = up_to_power(MD_MAX(s.depth, s.width) / 8);
    s.parts = 32 / s.lanes * s.warps;
    /* Of a thread ptxas may use 168 or 255 registers, which follows from this number. */
    s.resident = MD_MAX((s.rows == 4 && s.keys == 8 ? 2 : 3) * 4 / s.warps, 1);
    s.part = ((int64_t)s.rows * (s.width + 6) + 3) / 4 * 4; /* whole fours */
    s.mail = (s.parts * s.part * 4 + 127) / 128 * 128;
    s.shared = s.mail + (s.meet > 0 ? md_fa_few_rows_mail(s.rows, s.width) : 0);
    return s;
}

static bool fits(const shape *s)
{
    return s->shared <= 48 * 1024 && s->rows <= s->lanes && (s->meet == 0 || (s->length == 0 && s->fill == 1)) &&
           /* ptxas moves the loads of this config behind the powers */
           !(s->meet == 16 && s->keys == 8 && s->warps == 4) && (s->length == 0 || s->fill == 1) &&
           (s->length == 0 || s->length % (s->parts * s->keys) == 0);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    return target->facts->capability >= 80 && md_fa_cuda_chain_of(&c, target);
}

static md_fa_few_rows few_of(const shape *s)
{
    return (md_fa_few_rows){.rows = s->rows,
                            .threads = 32 * s->warps,
                            .meet = s->meet,
                            .length = s->length,
                            .resident = s->fill,
                            .unit = MD_MAX(s->parts * s->keys, LEAST_KEYS),
                            .part = s->part,
                            .shared = s->shared};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_of(&c, target) || !fits(&s) || !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size) ||
        (s.meet > 0 && target->facts->capability < 90))
        return false;
    /* ptxas spills in these configs */
    if (target->facts->capability >= 100 && (s.keys == 8 || (s.rows == 4 && s.warps == 4)))
        return false;
    if (!size)
        return true;
    if (!md_fa_chain_measure(&sized, target, size))
        return false;
    const md_fa_few_rows few = few_of(&s);
    const int64_t items = md_fa_cuda_chain_tiles(&sized, s.rows);
    return sized.rows <= s.rows && (s.rows == 1 || sized.rows > s.rows / 2) &&
           (s.meet == 0 || (items * s.meet <= target->facts->threads * s.resident && sized.keys <= 32768)) &&
           (s.fill == 1 || md_fa_few_rows_splits(target, &sized, &few) > 1);
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_chain_spec *out = spec;
    md_cg_chain c;
    bool is_plain;
    const shape s = shape_of(config);
    *out = (md_fa_chain_spec){.text.source = "cuda/chain_dot.cu",
                              .depth = s.depth,
                              .width = s.width,
                              .most_rows = s.length > 0 ? MD_FA_CHAIN_TICKETS : MD_FA_CHAIN_ROWS,
                              .few = few_of(&s)};
    if (!md_fa_cuda_chain_of(&c, target))
        return false;
    md_fa_chain_define(out, "DEPTH", s.depth);
    md_fa_chain_define(out, "WIDTH", s.width);
    md_fa_chain_define(out, "ROWS", s.rows);
    md_fa_chain_define(out, "KEYS", s.keys);
    md_fa_chain_define(out, "TEAM", s.lanes);
    md_fa_chain_define(out, "WARPS", s.warps);
    md_fa_chain_define(out, "RESIDENT", s.resident);
    md_fa_chain_define(out, "CLUSTERED", s.meet > 0);
    md_fa_chain_define(out, "LENGTH", s.length);
    md_fa_chain_define(out, "MAIL", s.mail);
    md_fa_chain_define(out, "ROUNDS", md_cg_chain_weight(&c, &is_plain) != MD_F32);
    snprintf(out->function, sizeof out->function, "#define md_chain_up md_up1_%s\n",
             md_dtype_name(md_fa_cuda_chain_type(&c)));
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
    const double sms = MD_MAX(target->facts->threads, 1), places = sms * s.resident;
    const md_fa_few_rows few = few_of(&s);
    const double items = (double)md_fa_cuda_chain_tiles(&sized, s.rows),
                 splits = (double)md_fa_few_rows_splits(target, &sized, &few), blocks = items * splits;
    const double keys = (double)sized.keys * sized.part, waves = ceil(blocks / places),
                 used = blocks / (waves * places);
    const double here = fmin(blocks, places) / sms; /* blocks on an SM */
    out->memory_bytes = fmax(sized.bytes * sized.part, 1);
    out->cache_bytes = fmax(items * keys * (s.depth + s.width) * 2 - out->memory_bytes, 0);
    const double flight = here * 32 * s.warps * s.keys * 16 * LOADS_AHEAD / 1024; /* KB of an SM */
    out->memory_rate = fmax(0.05, MEMORY_RATE * fmin(1, flight / FULL_FLIGHT_KB) * fmin(1, blocks / sms) *
                                      (LEAST_USE + (1 - LEAST_USE) * used));
    out->ops = 2.0 * items * keys * (s.depth + s.width) * (s.rows + UNPACKING_ROWS);
    out->ops_rate = OPS_RATE;
    out->parallel = fmax(1, fmin(blocks, sms));
    out->serial_us = START_US + waves * BLOCK_US;
    if (splits > 1)
        out->serial_us += s.meet > 0 ? CLUSTER_MEET_US : MEMORY_MEET_US + PART_US * splits;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    const bool is_fixed = config->value[LENGTH] > 0;
    return (md_fa_class){.group = is_fixed ? "chain_dot_length" : NULL,
                         .field = {"keys", "warps", "length"},
                         .is_repeatable = true,
                         .is_invariant = is_fixed};
}

const md_fa_family md_fa_cuda_chain_dot = {
    .name = "chain_dot",
    .device = MD_DEV_CUDA,
    .n_fields = 8,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"rows", 4, 3, {4, 1, 2}},
              {"keys", 4, 2, {4, 8}},
              {"warps", 4, 2, {4, 8}},
              {"meet", 0, 4, {0, 8, 16, 4}},
              {"fill", 1, 3, {1, 2, 3}},
              {"length", 0, 3, {0, 512, 2048}}},
    .kind = &md_fa_cuda_chain_kind,
    .spec_of = spec_of,
    .applies = applies,
    .takes = md_fa_cuda_chain_takes,
    .legal = legal,
    .features = features,
    .numeric = numeric,
};
