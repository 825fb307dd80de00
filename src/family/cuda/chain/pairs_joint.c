/* Family pairs_joint: sums over rows and over keys on Hopper's tensor cores, where each product of a pair is computed
 * once (kernels/cuda/pairs_joint.cu): two sums towards keys and one towards rows, which is added up in memory in any
 * order, or with `order` in that of the tiles. `split`: blocks that share the runs of rows of a tile of keys. */
#include "base/status.h"
#include "expr/node.h"
#include "family/cuda/chain/cuda_pairs.h"
#include "family/cuda/chain/pairs_joint_fit.h"
#include "family/cuda/cuda.h"
#include "family/emit.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_pairs_joint; /* defined at the end of this file */

enum { DEPTH, WIDTH, STAGES, SPLIT, ORDER };
enum { OWN = 128, BLOCK = 64, N_MAPS = 4, WORDS_PER_BLOCK = 4096 };

/* What follows from a config. */
typedef struct shape {
    int32_t depth, width, stages, split, order;
} shape;

static shape shape_of(const md_fa_config *config)
{
    return (shape){.depth = config->value[DEPTH],
                   .width = config->value[WIDTH],
                   .stages = config->value[STAGES],
                   .split = config->value[SPLIT],
                   .order = config->value[ORDER]};
}

/* The sums by what they are; -1: there is none, or another one. */
typedef struct sums {
    int32_t early, late, row;
} sums;

static bool sums_of(sums *out, const md_cg_chain *c)
{
    const md_st_pairs *p = c->c->pairs;
    *out = (sums){-1, -1, -1};
    if (p->n_products != 2 || p->n_sums != 3)
        return false;
    for (int32_t i = 0; i < p->n_sums; i++)
        if (!p->sum[i].is_towards_keys)
            out->row = i;
        else if (!md_cg_pairs_uses(c, i, 1))
            out->early = i;
        else
            out->late = i;
    return out->row >= 0 && out->early >= 0 && out->late >= 0;
}

static bool is_line_of(const md_st_pairs *p, const md_st_pair_sum *s)
{
    bool r = false;
    for (int32_t k = 0; k < p->n_products; k++)
        r |= s->operand == (s->is_towards_keys ? p->product[k].of_rows : p->product[k].of_keys);
    return r;
}

static bool is_mapped(const md_cg_chain *c)
{
    bool r = true;
    for (int32_t i = 0; i < c->c->pairs->n_operands && r; i++) {
        md_kn_map map;
        md_strbuf coordinates = {0};
        r = md_fa_cuda_pairs_map(&map, &coordinates, c, i) && !coordinates.failed;
        md_strbuf_finish(&coordinates);
    }
    return r;
}

/* Weights are rounded, the late ones follow from the early ones, and those towards rows are the late ones. */
static bool pairs_of(md_cg_chain *out, sums *s, const md_fa_target *target)
{
    if (target->facts->capability != 90 || !md_fa_cuda_pairs_of(out, target) || !sums_of(s, out))
        return false;
    const md_st_pairs *p = out->c->pairs;
    for (int32_t i = 0; i < p->n_sums; i++)
        if (!is_line_of(p, &p->sum[i]) || md_cg_pairs_halves(out, i) != 1)
            return false;
    return md_fx_equal(out->program->formula, p->sum[s->row].weight, p->sum[s->late].weight) &&
           md_cg_pairs_follows(out, s->late, s->early) && is_mapped(out);
}

static bool applies(const md_fa_target *target)
{
    md_cg_chain c;
    sums s;
    return pairs_of(&c, &s, target);
}

/* Columns of the sum towards rows. */
static int32_t row_width_of(const shape *s, const md_cg_chain *c)
{
    sums sum;
    return sums_of(&sum, c) ? md_fa_cuda_pairs_part(c, sum.row, s->depth, s->width).width : 0;
}

static int64_t lines_bytes(int32_t lines, const shape *s)
{
    return md_fa_cuda_pairs_bytes(lines, s->depth) + md_fa_cuda_pairs_bytes(lines, s->width);
}

static int64_t shared_of(const shape *s, const md_cg_chain *c)
{
    const int64_t room = s->order ? BLOCK * row_width_of(s, c) * 4 : 0;
    return 1024 + lines_bytes(OWN, s) + 2 * OWN * 128 + room + 48 +
           s->stages * (lines_bytes(BLOCK, s) + 24 + BLOCK * md_fa_cuda_pairs_note_bytes(c));
}

/* True for a term of a bound that rows look up. */
static bool is_looked_up(const md_st_chain *c, const md_fx_node *term)
{
    bool r = false;
    for (int32_t i = 0; i < c->n_rows; i++)
        r = r || (term && term->kind != MD_FX_INDEX && md_fx_uses_index(term, c->rows[i]));
    return r;
}

/* True if weights know of keys by plain bounds alone. */
static bool is_plain(const md_cg_chain *c)
{
    bool r = c->c->n_guards == 0 || c->c->is_bounded;
    for (int32_t i = 0; i < c->c->n_bounds; i++)
        for (int32_t k = 0; k < c->c->bound[i].n; k++)
            r = r && !is_looked_up(c->c, c->c->bound[i].term[k].term);
    for (int32_t i = 0; i < c->c->pairs->n_sums; i++)
        r = r && !md_fx_uses_index(c->c->pairs->sum[i].open, c->axis);
    return r;
}

/* Long lines leave no registers for more than plain weights. */
static bool fits(const shape *s, const md_cg_chain *c, const md_dev_facts *facts)
{
    return (s->depth + s->width < 192 || is_plain(c)) && (s->depth == 64 || s->depth == 128) &&
           (s->width == 64 || s->width == 128) && shared_of(s, c) <= facts->shared_per_block;
}

/* Tiles of keys of all batches; runs of rows. */
static int64_t tiles_of(const md_fa_chain *sized)
{
    return (sized->keys + OWN - 1) / OWN * sized->batches;
}

static int64_t run_of(const md_cg_chain *c, const int64_t *size)
{
    return MD_MAX(size[c->program->index[c->c->rows[c->c->n_rows - 1]].dim], 1);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_chain c;
    sums sum;
    md_fa_chain sized;
    const shape s = shape_of(config);
    if (!pairs_of(&c, &sum, target) || !fits(&s, &c, target->facts) ||
        !md_fa_cuda_pairs_has(target, &c, s.depth, s.width, size))
        return false;
    if (s.split == 1 || !size)
        return true;
    return md_fa_chain_measure(&sized, target, size) && sized.rows / run_of(&c, size) >= s.split &&
           tiles_of(&sized) < 4 * target->facts->threads;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const shape s = shape_of(config);
    md_fa_cuda_pairs_envelope(out, target, s.depth, s.width);
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->lo[d] = MD_MAX(out->lo[d], 1); /* a tensor map has no empty dims */
}

/* ---- Text */

static void print_config(md_strbuf *out, const shape *s, const sums *sum, const md_cg_chain *c, int32_t phase)
{
    const bool is_long = s->depth + s->width > 192;
    const md_fa_define define[] = {{"DEPTH", s->depth},           {"WIDTH", s->width},   {"STAGES", s->stages},
                                   {"SPLIT", s->split},           {"ORDER", s->order},   {"LOW", is_long ? 24 : 40},
                                   {"HIGH", is_long ? 240 : 232}, {"EARLY", sum->early}, {"LATE", sum->late},
                                   {"ROWWARDS", sum->row},        {"PHASE", phase}};
    md_fa_print_defines(out, define, MD_COUNT(define));
    md_fa_cuda_pairs_print_types(out, c, phase == 3 ? 8 : 2);
}

static void print_products(md_strbuf *out, const shape *s, const md_cg_chain *c)
{
    const char *type = md_dtype_name(md_fa_cuda_pairs_type(c));
    const int32_t columns = row_width_of(s, c) / 2;
    md_fa_cuda_print_wgmma(out, "md_multiply", type, BLOCK, MD_FA_WGMMA_SCORES);
    md_fa_cuda_print_wgmma(out, "md_multiply_first", type, BLOCK, MD_FA_WGMMA_SCORES | MD_FA_WGMMA_FROM_ZERO);
    md_fa_cuda_print_wgmma(out, "md_accumulate", type, s->depth, MD_FA_WGMMA_VALUES);
    if (s->width != s->depth)
        md_fa_cuda_print_wgmma(out, "md_accumulate", type, s->width, MD_FA_WGMMA_VALUES);
    md_fa_cuda_print_wgmma(out, "md_multiply_across", type, columns, MD_FA_WGMMA_ACROSS);
    md_fa_cuda_print_wgmma(out, "md_multiply_across_first", type, columns, MD_FA_WGMMA_ACROSS | MD_FA_WGMMA_FROM_ZERO);
}

/* Maps of the operands of both products, and their copies. */
static bool print_maps(md_kn_map map[N_MAPS], md_strbuf *out, const md_cg_chain *c)
{
    static const char *const name[N_MAPS] = {"rows0", "keys0", "rows1", "keys1"};
    bool r = true;
    for (int32_t i = 0; i < N_MAPS && r; i++) {
        const md_st_pair_product *x = &c->c->pairs->product[i / 2];
        const bool of_keys = i % 2;
        md_strbuf coordinates = {0};
        r = md_fa_cuda_pairs_map(&map[i], &coordinates, c, of_keys ? x->of_keys : x->of_rows);
        map[i].axes_box[0] = 64;
        map[i].axes_box[1] = of_keys ? OWN : BLOCK;
        if (r && of_keys)
            md_fa_cuda_chain_print_copy(out, name[i], i, &map[i], &coordinates);
        else if (r)
            md_fa_cuda_pairs_print_copy(out, name[i], i, &map[i], &coordinates, c);
        md_strbuf_finish(&coordinates);
    }
    return r;
}

/* The launch that computes. `defines` is freed here. */
static md_status emit_main(md_kn_launch_source *out, const md_fa_target *target, const shape *s, const sums *sum,
                           const md_cg_chain *c, md_strbuf *defines)
{
    md_kn_map map[N_MAPS];
    md_strbuf expr = {0}, copies = {0};
    const bool has_maps = print_maps(map, &copies, c);
    md_status status =
        has_maps ? md_fa_begin_launch(out, target) : md_fail(MD_INTERNAL, "the copy engine does not take the operands");
    print_products(defines, s, c);
    if (status == MD_OK)
        status = md_fa_cuda_map_params(out, target, N_MAPS, map, (md_fa_cuda_more_params){0});
    if (status == MD_OK)
        status = md_cg_pairs_print_cuda(defines, &expr, c, out->param, out->n_params);
    if (status == MD_OK)
        status = md_cg_pairs_print_late(defines, &expr, c, sum->late, sum->early);
    md_cg_pairs_print_notes(&expr, c);
    md_strbuf_add(&expr, md_strbuf_text(&copies));
    md_strbuf_finish(&copies);
    return md_fa_end_launch(status, out, MD_DEV_CUDA, "cuda/pairs_joint.cu", defines, &expr);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    static const md_kn_param workspace = {.kind = MD_KN_WORKSPACE};
    const shape s = shape_of(config);
    md_cg_chain c;
    sums sum;
    md_status status = MD_OK;
    *out = (md_kn_source){0};
    if (!legal(target, config, NULL) || !pairs_of(&c, &sum, target))
        return md_fail(MD_UNSUPPORTED, "there is no such kernel");
    out->n_launches = 3;
    for (int32_t i = 0; i < 3 && status == MD_OK; i++) {
        md_strbuf defines = {0};
        print_config(&defines, &s, &sum, &c, i + 1);
        status = i == 1 ? emit_main(&out->launch[i], target, &s, &sum, &c, &defines)
                        : md_fa_chain_emit(&out->launch[i], target, &workspace, 1, "cuda/pairs_joint.cu", &defines);
    }
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

/* Blocks of rows of all batches. */
static int64_t blocks_of(const md_cg_chain *c, const md_fa_chain *sized, const int64_t *size)
{
    const int64_t run = run_of(c, size);
    return sized->batches * (sized->rows / run) * ((run + BLOCK - 1) / BLOCK);
}

/* Floats in memory: of rows; of the keys of one part of all tiles. */
static int64_t row_floats_of(const shape *s, const md_fa_chain *sized, const int64_t *size)
{
    return blocks_of(&sized->c, sized, size) * BLOCK * row_width_of(s, &sized->c);
}

static int64_t key_floats_of(const shape *s, const md_fa_chain *sized)
{
    sums sum;
    if (s->split == 1 || !sums_of(&sum, &sized->c))
        return 0;
    return tiles_of(sized) * OWN *
           (md_fa_cuda_pairs_part(&sized->c, sum.early, s->depth, s->width).width +
            md_fa_cuda_pairs_part(&sized->c, sum.late, s->depth, s->width).width);
}

/* Blocks of the launches before and after. */
static md_kn_geometry sweep(int64_t words)
{
    md_kn_geometry g = md_fa_cuda_launch((words + WORDS_PER_BLOCK - 1) / WORDS_PER_BLOCK, 256);
    g.overlaps = true;
    return g;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *at)
{
    const shape s = shape_of(config);
    md_fa_chain sized;
    *out = (md_kn_geometries){0};
    if (!md_fa_chain_measure(&sized, target, at->size) || sized.batches == 0)
        return;
    const int64_t rows = row_floats_of(&s, &sized, at->size), keys = key_floats_of(&s, &sized);
    const int64_t turns = s.order ? blocks_of(&sized.c, &sized, at->size) + 1 : 0;
    out->workspace_bytes = (rows + keys * s.split + turns) * 4;
    out->launch[0] = sweep(s.order ? turns : rows);
    out->launch[1] = md_fa_cuda_launch(tiles_of(&sized) * s.split, 384);
    out->launch[1].overlaps = true;
    out->launch[2] = sweep(rows + keys);
    out->launch[1].scratch_bytes = shared_of(&s, &sized.c);
}

/* ---- Cost */

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_chain sized;
    const shape s = shape_of(config);
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 3};
    if (!md_fa_chain_measure(&sized, target, size) || sized.batches == 0 || sized.rows == 0)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), run = (double)run_of(&sized.c, size),
                 runs = (double)sized.rows / run, all = (double)tiles_of(&sized) * s.split;
    const double steps = ceil(run / BLOCK) * runs / s.split, /* of a tile all of whose keys all rows have */
        cut = sized.part < 1 ? 0.5 * (OWN + BLOCK) / run : 0, part = fmin(1, sized.part + cut);
    const double terms = 3.0 * s.depth + 2.0 * s.width; /* the sum towards rows has the depth's width, usually */
    const double product = 2.0 * terms * OWN * BLOCK / (fmax(target->facts->gflops, 1) * 1e3 * TENSOR * RATE / sms),
                 all_us = product + (sized.ops * OP_US + sized.transcendental * EXP_US) * OWN * BLOCK,
                 step = fmax(all_us, s.order ? ORDER_US : 0);
    const double longest = steps * fmin(1, 2 * part) * step + TILE_US,
                 mean = all / sms * (steps * part * step + TILE_US);
    const double floats = (double)row_floats_of(&s, &sized, size) + (double)key_floats_of(&s, &sized) * s.split;
    out->serial_us = START_US + fmax(mean + LAST_PART * longest, longest) + floats * FLOAT_US;
    out->parallel = fmin(fmax(all, 1), sms);
    out->memory_bytes = sized.bytes;
    out->memory_rate = fmin(1, all / sms + 0.05);
}

/* Without `order` tiles add to memory in any order. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (!config->value[ORDER])
        return (md_fa_class){0};
    return (md_fa_class){.group = "pairs_joint", .field = {"split"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_pairs_joint = {
    .name = "pairs_joint",
    .device = MD_DEV_CUDA,
    .n_fields = 5,
    .field = {{"depth", 128, MD_FA_CHAIN_LENGTHS},
              {"width", 128, MD_FA_CHAIN_LENGTHS},
              {"stages", 3, 2, {3, 2}},
              {"split", 1, 3, {1, 2, 4}},
              {"order", 0, 2, {0, 1}}},
    .applies = applies,
    .takes = md_fa_cuda_pairs_takes,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
