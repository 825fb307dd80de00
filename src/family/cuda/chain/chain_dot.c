/* Family chain_dot: attention for one to four rows that share keys, without tensor cores (kernels/cuda/chain_dot.cu).
 * `keys`: of a group of lanes at a time. `meet`: the blocks of a split combine their parts through memory (0), or as a
 * cluster of `meet` blocks. `fill`: blocks for each SM where keys are split by occupancy. `length`: keys of a split, so
 * that bits depend on nothing else; 0: by occupancy. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/chain/few_rows.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>
#include <math.h>

extern const md_fa_family md_fa_cuda_chain_dot; /* at the end of this file */

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
    /* ptxas is held to what that leaves a thread: 168 or 255 registers */
    s.resident = MD_MAX((s.rows == 4 && s.keys == 8 ? 2 : 3) * 4 / s.warps, 1);
    s.part = ((int64_t)s.rows * (s.width + 6) + 3) / 4 * 4; /* whole fours */
    s.mail = (s.parts * s.part * 4 + 127) / 128 * 128;
    s.shared = s.mail + (s.meet > 0 ? md_fa_few_rows_mail(s.rows, s.width) : 0);
    return s;
}

static bool fits(const shape *s)
{
    return s->shared <= 48 * 1024 && s->rows <= s->lanes && (s->meet == 0 || (s->length == 0 && s->fill == 1)) &&
           !(s->meet == 16 && s->keys == 8 && s->warps == 4) && /* ptxas moves its loads behind the powers */
           (s->length == 0 || s->fill == 1) && (s->length == 0 || s->length % (s->parts * s->keys) == 0);
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
    md_fa_chain w;
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_of(&c, target) || !fits(&s) || !md_fa_cuda_chain_has(target, &c, s.depth, s.width, size) ||
        (s.meet > 0 && target->facts->capability < 90))
        return false;
    if (target->facts->capability >= 100 && (s.keys == 8 || (s.rows == 4 && s.warps == 4))) /* ptxas spills */
        return false;
    if (!size)
        return true;
    if (!md_fa_chain_measure(&w, target, size))
        return false;
    const md_fa_few_rows few = few_of(&s);
    const int64_t items = md_fa_cuda_chain_tiles(&w, s.rows);
    return w.rows <= s.rows && (s.rows == 1 || w.rows > s.rows / 2) &&
           (s.meet == 0 || (items * s.meet <= target->facts->threads * s.resident && w.keys <= 32768)) &&
           (s.fill == 1 || md_fa_few_rows_splits(target, &w, &few) > 1);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const shape s = shape_of(config);
    md_fa_cuda_chain_envelope(out, target, s.depth, s.width, s.length > 0 ? MD_FA_CHAIN_TICKETS : MD_FA_CHAIN_ROWS);
}

/* ---- Cost. From runs on an H200 (data/results/attention.md): with four rows slower than chain_split at the shapes
 * timed; with one row of 8 heads faster at 1 x 8,192, slower at 1 x 1,024 and 64 x 4,096. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    static const double START_US = 2.0, MEMORY_MEET_US = 1.8, CLUSTER_MEET_US = 1.1, PART_US = 0.05;
    md_fa_chain w;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&w, target, size) || w.batches == 0 || w.rows == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), places = sms * s.resident;
    const md_fa_few_rows few = few_of(&s);
    const double items = (double)md_fa_cuda_chain_tiles(&w, s.rows),
                 splits = (double)md_fa_few_rows_splits(target, &w, &few), blocks = items * splits;
    const double keys = (double)w.keys * w.part, waves = ceil(blocks / places), used = blocks / (waves * places);
    const double here = fmin(blocks, places) / sms; /* blocks on an SM */
    out->memory_bytes = fmax(w.bytes * w.part, 1);
    out->cache_bytes = fmax(items * keys * (s.depth + s.width) * 2 - out->memory_bytes, 0);
    const double flight = here * 32 * s.warps * s.keys * 16 * 1.5 / 1024; /* KB of an SM */
    out->memory_rate = fmax(0.05, 0.8 * fmin(1, flight / 96) * fmin(1, blocks / sms) * (0.25 + 0.75 * used));
    /* A key and a value of a row are two operations an element, and half as many to unpack and exchange. */
    out->ops = 2.0 * items * keys * (s.depth + s.width) * (s.rows + 1.5);
    out->ops_rate = 0.6;
    out->parallel = fmax(1, fmin(blocks, sms));
    out->serial_us = START_US;
    if (splits > 1)
        out->serial_us += s.meet > 0 ? CLUSTER_MEET_US : MEMORY_MEET_US + PART_US * splits;
}

static void print_defines(md_strbuf *out, const shape *s, const md_cg_chain *c)
{
    bool is_plain;
    const struct {
        const char *name;
        int64_t value;
    } list[] = {{"DEPTH", s->depth},
                {"WIDTH", s->width},
                {"ROWS", s->rows},
                {"KEYS", s->keys},
                {"TEAM", s->lanes},
                {"WARPS", s->warps},
                {"RESIDENT", s->resident},
                {"CLUSTERED", s->meet > 0},
                {"LENGTH", s->length},
                {"MAIL", s->mail},
                {"ROUNDS", md_cg_chain_weight(c, &is_plain) != MD_F32}};
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId64 "\n", list[i].name, list[i].value);
    md_strbuf_printf(out, "#define md_chain_up md_up1_%s\n", md_dtype_name(md_fa_cuda_chain_type(c)));
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_strbuf defines = {0};
    md_cg_chain c;
    const shape s = shape_of(config);
    *out = (md_kn_source){0};
    if (!md_fa_cuda_chain_of(&c, target) || !legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "chain_dot has no kernel of these parameters");
    print_defines(&defines, &s, &c);
    return md_fa_cuda_chain_emit(out, target, &(md_fa_cuda_chain_text){.source = "cuda/chain_dot.cu"}, &defines);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *size)
{
    const shape s = shape_of(config);
    const md_fa_few_rows few = few_of(&s);
    md_fa_few_rows_geometry(out, target, size, &few);
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
    .applies = applies,
    .takes = md_fa_cuda_chain_takes,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
