/* Family chain_dot: attention for one to four rows that share keys, without tensor cores (kernels/cuda/chain_dot.cu).
 * `keys`: of a group of lanes at a time. `meet`: the blocks of a split combine their parts through memory (0), or as a
 * cluster of `meet` blocks. `fill`: blocks for each SM where keys are split by occupancy. `length`: keys of a split, so
 * that bits depend on nothing else; 0: by occupancy. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/chain/cuda_chain.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>
#include <math.h>

extern const md_fa_family md_fa_cuda_chain_dot; /* at the end of this file */

enum { DEPTH, WIDTH, ROWS, KEYS, WARPS, MEET, FILL, LENGTH };
enum { MAIL_ROOM = 16, LEAST_KEYS = 64 }; /* MAIL_ROOM: chain_meet.h */

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
    s.shared = s.mail + (s.meet > 0 ? (int64_t)(s.rows * s.width / 4 + MAIL_ROOM) * 24 + 8 : 0);
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

static int64_t items_of(const md_fa_chain *w, const shape *s)
{
    return w->batches * ((w->rows + s->rows - 1) / s->rows);
}

/* Splits of the keys of each item. */
static int64_t splits_of(const md_fa_target *target, const md_fa_chain *w, const shape *s)
{
    const int64_t items = MD_MAX(items_of(w, s), 1), unit = s->parts * s->keys,
                  places = MD_MAX(target->facts->threads, 1) * (int64_t)s->fill;
    if (s->meet > 0)
        return s->meet;
    if (s->length > 0)
        return MD_MAX((w->keys + s->length - 1) / s->length, 1);
    if (items > MD_FA_CHAIN_TICKETS || 2 * items > places)
        return 1;
    return MD_MAX(MD_MIN(places / items, (w->keys + MD_MAX(unit, LEAST_KEYS) - 1) / MD_MAX(unit, LEAST_KEYS)), 1);
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
    const int64_t items = items_of(&w, &s);
    return w.rows <= s.rows && (s.rows == 1 || w.rows > s.rows / 2) &&
           (s.meet == 0 || (items * s.meet <= target->facts->threads * s.resident && w.keys <= 32768)) &&
           (s.fill == 1 || splits_of(target, &w, &s) > 1);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_chain c;
    const shape s = shape_of(config);
    if (!md_fa_cuda_chain_of(&c, target))
        return;
    md_fa_cuda_chain_envelope(out, target, &c, s.depth, s.width);
    if (s.length > 0)
        md_fa_cuda_chain_limit_rows(out, &c, MD_FA_CHAIN_TICKETS);
}

/* ---- Cost. From runs on an H200 with four rows (data/results/attention.md): slower than chain_split everywhere. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    static const double START_US = 2.0, MEMORY_MEET_US = 1.8, CLUSTER_MEET_US = 1.1, PART_US = 0.05;
    md_fa_chain w;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!md_fa_chain_measure(&w, target, size) || w.batches == 0 || w.rows == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), places = sms * s.resident;
    const double items = (double)items_of(&w, &s), splits = (double)splits_of(target, &w, &s), blocks = items * splits;
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
    md_fa_chain w;
    const shape s = shape_of(config);
    *out = (md_kn_geometries){0};
    out->launch[0].grain = 1;
    if (!md_fa_chain_measure(&w, target, size->size) || w.batches == 0 || w.rows == 0)
        return;
    const int64_t items = items_of(&w, &s), splits = splits_of(target, &w, &s);
    md_kn_geometry *g = &out->launch[0];
    *g = md_fa_cuda_chain_grid(splits, items, 32 * s.warps);
    g->scratch_bytes = s.shared;
    g->overlaps = true;
    g->cluster = s.meet > 0 ? (int32_t)splits : 1;
    if (splits > 1 && s.meet == 0)
        out->workspace_bytes = items * splits * s.part * 4;
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
