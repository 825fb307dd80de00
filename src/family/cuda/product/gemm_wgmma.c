/* Family gemm_wgmma: products on Hopper's tensor cores (kernels/cuda/gemm_wgmma.cu). Operands have one 16-bit type (or
 * f32, as tf32) and a layout that the copy engine can read, or are copied first (`pad`). `cluster` without `split`: two
 * blocks share an operand. `cluster` equal to `split`: the blocks of a cluster add up the slices of a tile; otherwise a
 * second launch does. `epilogue`: 0 any epilogue; for a single 16-bit result in registers, 1 by the copy engine, or 2
 * by words at any address. */
#include "family/cuda/cuda.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/wgmma_text.h"

#include <inttypes.h>

enum { ROWS, COLUMNS, PINGPONG, CLUSTER, SPLIT, EPILOGUE, PAD };
enum { BY_SHARED, BY_ENGINE, BY_WORDS }; /* values of EPILOGUE */
enum {
    MAPS = MD_FA_CUDA_MAPS,
    DEPTH = 64,
    RASTER = 8,
    SHARED = 232448,
    RESERVE = 1024 + 320,
    IN_FLIGHT = 192 << 10,
    SMALL_STAGE = 20 << 10,
    EARLY_BYTES = 32 << 10 /* 16 KB gained as much on an H200, 64 nothing; 128 lost (data/results/sequences.md) */
};

/* Values derived from a config. */
typedef struct shape {
    /* cluster: blocks that share an operand */
    int32_t rows, columns, consumers, cluster, panel, panels, stages, threads, low, high;
    int32_t n_products, split, deep; /* deep: a stage has so many times 128 bytes of K */
    bool is_cluster_reduced; /* the blocks of a cluster add up the slices of a tile */
    /* has_result: the epilogue works in registers; by_words: and stores from there */
    bool is_pingpong, shares_a, has_result, by_words;
    int64_t stage_bytes, shared;
} shape;

static md_cg_along along(const md_cg_product *p, int32_t operand)
{
    return md_cg_product_along(p, operand);
}

static int64_t buffer_bytes(const shape *s)
{
    if (s->is_cluster_reduced)
        return (int64_t)s->n_products * s->rows * (s->columns + 8) * 4;
    if (s->by_words)
        return 0;
    return s->consumers * 4 *
           (s->has_result ? (int64_t)s->panels * 16 * s->panel * 2 : (int64_t)s->n_products * 16 * (s->panel + 4) * 4);
}

static void choose_stages(shape *s)
{
    for (s->panels = s->has_result ? 2 : 1; s->panels > 0; s->panels--) {
        int64_t buffers = buffer_bytes(s), left = SHARED - RESERVE - buffers;
        s->stages =
            (int32_t)MD_MAX(MD_MIN(left / s->stage_bytes, MD_MIN(MD_MAX(IN_FLIGHT / s->stage_bytes, 8), 16)), 0);
        s->shared = s->stages * s->stage_bytes + buffers + 1024 + s->stages * 16 + 16;
        if (s->stages >= 4)
            break;
    }
    s->panels = MD_MAX(s->panels, 1);
}

/* Columns of results that are stored at once. */
static int32_t panel_of(int32_t columns)
{
    static const int32_t list[] = {64, 32, 16, 56, 40, 24};
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        if (columns % list[i] == 0)
            return list[i];
    return 8;
}

static shape shape_of(const md_cg_product *p, const md_fa_config *config)
{
    shape s = {.rows = config->value[ROWS],
               .columns = config->value[COLUMNS] / p->n_products,
               .cluster = config->value[CLUSTER],
               .is_pingpong = config->value[PINGPONG],
               .has_result = config->value[EPILOGUE],
               .by_words = config->value[EPILOGUE] == BY_WORDS,
               .split = config->value[SPLIT]};
    s.is_cluster_reduced = s.split > 1 && s.cluster == s.split;
    if (s.is_cluster_reduced)
        s.cluster = 1;
    s.consumers = s.rows == 64 && !s.is_pingpong ? 1 : 2;
    s.threads = 128 * (s.consumers + 1);
    s.shares_a = s.rows > s.columns;
    s.panel = panel_of(s.columns);
    s.low = 40;
    s.high = s.consumers == 1 ? 240 : 232;
    int64_t b = along(p, MD_CG_B) == MD_CG_ALONG_ROWS ? (s.columns + 63) / 64 * 8192 : s.columns * 128;
    const int64_t slice_bytes = s.rows * 128 + p->n_products * b;
    s.deep = s.rows == 64 && slice_bytes <= SMALL_STAGE ? 2 : 1; /* fewer, larger steps gain 1% if there are few rows */
    s.stage_bytes = s.deep * slice_bytes;
    s.n_products = p->n_products;
    choose_stages(&s);
    return s;
}

/* ---- Tensor maps */
static bool map_result(md_kn_map *m, const md_cg_product *p)
{
    return md_cg_product_has_result(p) && md_fa_cuda_map_result(m, p);
}

/* True for 16-bit types in any layout, and for f32 contiguous along K if tf32 is allowed. */
static bool takes(const md_fa_target *target, const md_cg_product *p, int32_t dtype)
{
    bool is_along_depth = along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && along(p, MD_CG_B) == MD_CG_ALONG_DEPTH;
    return dtype == MD_BF16 || dtype == MD_F16 || (dtype == MD_F32 && target->allows_tf32 && is_along_depth);
}

/* True if only the rows of A that exist are copied: copying rows beyond the end is slower (measured). */
static bool shrinks(const md_cg_product *p, const shape *s)
{
    return along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && s->cluster == 1;
}

static void set_boxes(md_kn_map map[MAPS], const md_cg_product *p, const shape *s)
{
    const int32_t rows[] = {s->rows, s->columns, s->columns}, last = p->n_products + 1;
    for (int32_t o = 0; o < last; o++) {
        int32_t parts = s->cluster == 2 && s->shares_a == (o == 0) ? 2 : 1;
        bool is_k_first = along(p, o) == MD_CG_ALONG_DEPTH;
        map[o].box[0] = (uint16_t)(128 / md_fa_cuda_map_item_bytes(p));
        map[o].box[1] = (uint16_t)((is_k_first ? rows[o] : DEPTH) / parts);
        map[o].swizzle = 128;
    }
    map[0].shrinks = shrinks(p, s);
    map[last].box[0] = (uint16_t)s->panel;
    map[last].box[1] = 16;
    map[last].swizzle = (uint8_t)(2 * s->panel);
}

static bool product_of(md_cg_product *out, const md_fa_target *target)
{
    md_kn_map map[MAPS];
    return target->facts->capability == 90 && md_fa_cuda_product_of(out, target) && md_fa_cuda_map_operands(map, out) &&
           takes(target, out, map[0].dtype);
}

/* ---- The family */
static bool applies(const md_fa_target *target)
{
    md_cg_product product;
    return product_of(&product, target);
}

static md_fa_cuda_tiles tiles_of(const shape *s)
{
    /* wgmma with few columns waits for operands; a tile of half the rows reads twice as much. Tensor cores have 16
     * times the f32 rate. */
    double rate = s->columns >= 128 ? 0.92 : s->columns >= 64 ? 0.7 : 0.5;
    return (md_fa_cuda_tiles){.rows = s->rows,
                              .columns = s->columns,
                              .split = s->split,
                              .is_cluster_reduced = s->is_cluster_reduced,
                              .resident = 1,
                              .flops = 16 * rate,
                              .step_us = 0.01 + (double)s->stage_bytes / 5e6};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    md_kn_map map, maps[MAPS];
    if (!product_of(&p, target) || !md_fa_cuda_map_operands(maps, &p) ||
        (md_fa_cuda_map_needs_copies(maps, &p) && !config->value[PAD]))
        return false;
    shape s = shape_of(&p, config);
    md_fa_cuda_tiles tiles = tiles_of(&s);
    int32_t accumulators =
        (s.is_pingpong || s.consumers == 1 ? s.rows : s.rows / 2) / 64 * s.columns / 2 * p.n_products;
    md_fa_product w;
    const int64_t ones[MD_FX_MAX_DIMS] = {0};
    md_fa_product_measure(&w, target, &p, ones);
    bool is_plain = w.epilogue_ops + w.epilogue_transcendental == 0 && p.n_columns == 1;
    if (accumulators > (is_plain ? 192 : 128) || (s.is_pingpong && s.rows > 128) || (s.rows == 64 && s.is_pingpong) ||
        s.stages < 3)
        return false;
    if (s.split > 1 && (s.has_result || s.is_pingpong || (config->value[PAD] && !s.is_cluster_reduced)))
        return false;
    if (s.cluster > 2 || (s.cluster == 2 && s.split > 1))
        return false;
    if (s.columns % 8 || (s.cluster == 2 && !s.shares_a && s.columns % 16) ||
        (config->value[PAD] && (p.n_products == 2 || md_fa_cuda_map_item_bytes(&p) == 4)))
        return false;
    if (config->value[PAD] && s.has_result && !s.by_words) /* pad is for odd shapes, whose results are unaligned, too */
        return false;
    return (!s.has_result || map_result(&map, &p)) && md_fa_cuda_product_is_worth_trying(target, &p, &tiles, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    md_kn_map map[MAPS];
    *out = (md_kn_envelope){0};
    if (!md_fa_cuda_product_of(&p, target) || !md_fa_cuda_map_operands(map, &p))
        return;
    for (int32_t d = 0; d < target->program->formula->n_dims; d++) {
        out->lo[d] = 1;
        out->hi[d] = INT32_MAX;
    }
    for (int32_t o = 0; o <= p.n_products && !config->value[PAD]; o++)
        md_fa_cuda_map_needs(out, &map[o], true);
    if (config->value[EPILOGUE] && map_result(&map[p.n_products + 1], &p)) {
        /* What the epilogue reads along the columns is read in pairs, too. */
        uint32_t vectors = md_cg_unit_tensors(target->program, target->stage, p.columns[p.n_columns - 1]);
        md_fa_cuda_map_needs(out, &map[p.n_products + 1], config->value[EPILOGUE] == BY_ENGINE);
        out->unit |= vectors;
        out->aligned16 |= config->value[EPILOGUE] == BY_ENGINE ? vectors : 0;
    }
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape_at)
{
    md_cg_product p;
    md_fa_product w;
    *out = (md_kn_plan_geometry){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!product_of(&p, target))
        return;
    md_fa_product_measure(&w, target, &p, shape_at->size);
    if (w.batch == 0 || w.rows == 0 || w.columns == 0)
        return;
    shape s = shape_of(&p, config);
    int64_t rows = s.rows * (s.shares_a ? 1 : s.cluster), columns = s.columns * (s.shares_a ? s.cluster : 1);
    int32_t together = s.is_cluster_reduced ? s.split : s.cluster; /* blocks of a cluster */
    int64_t tiles = w.batch * ((w.rows + rows - 1) / rows) * ((w.columns + columns - 1) / columns) *
                    (s.is_cluster_reduced ? 1 : s.split);
    md_kn_geometry *g = &out->launch[0];
    *g = md_fa_cuda_launch(MD_MIN(tiles, MD_MAX(target->facts->threads / together, 1)) * together, s.threads);
    g->cluster = together;
    g->scratch_bytes = s.shared;
    g->overlaps = config->value[PAD] || md_fa_cuda_product_overlaps(&w);
    md_fa_cuda_product_sum(out, target, &w, s.is_cluster_reduced ? 1 : s.split);
    md_kn_map map[MAPS];
    if (config->value[PAD] && md_fa_cuda_map_operands(map, &p))
        md_fa_cuda_product_copies(out, &w, map);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    md_fa_product w;
    if (!product_of(&p, target) || !md_fa_cuda_product_has_work(out, &w, target, &p, size))
        return;
    shape s = shape_of(&p, config);
    const md_fa_wgmma v = {.rows = s.rows,
                           .columns = s.columns,
                           .split = s.split,
                           .cluster = s.cluster,
                           .stages = s.stages * s.deep,
                           .is_pingpong = s.is_pingpong,
                           .is_cluster_reduced = s.is_cluster_reduced,
                           .has_result = s.has_result,
                           .by_words = s.by_words,
                           .has_copies = config->value[PAD]};
    md_fa_cuda_product_time_features(out, md_fa_wgmma_us(target->facts, &w, &v),
                                     1 + v.has_copies + (s.split > 1 && !s.is_cluster_reduced));
}

/* Tensors that the epilogue reads along the columns. */
static uint32_t read_along_columns(const md_cg_product *p)
{
    uint32_t tensors = md_cg_unit_tensors(p->program, p->stage, p->columns[p->n_columns - 1]);
    for (int32_t o = 0; o <= p->n_products; o++)
        tensors &= ~(UINT32_C(1) << p->load[o]->id);
    return tensors & ~(UINT32_C(1) << p->program->stage[p->stage].store[0].tensor);
}

static void print_defines(md_strbuf *out, const md_cg_product *p, const shape *s, const md_kn_map *map, bool is_rolled)
{
    const struct {
        const char *name;
        int32_t value;
    } list[] = {{"BM", s->rows},
                {"BN", s->columns},
                {"STAGES", s->stages},
                {"DEEP", s->deep},
                {"CONSUMERS", s->consumers},
                {"PINGPONG", s->is_pingpong},
                {"CLUSTER", s->cluster},
                {"SHARE_A", s->shares_a},
                {"BATCH_0", map[0].n_dims[2] > 0},
                {"BATCH_1", map[1].n_dims[2] > 0},
                {"RASTER", RASTER},
                {"LOW", s->low},
                {"HIGH", s->high},
                {"PANEL", s->panel},
                {"PANELS", s->panels},
                {"RESULT", s->by_words ? 2 : s->has_result},
                {"ROLLED_PANELS", is_rolled},
                {"EARLY", map[0].is_copy ? 0 : EARLY_BYTES},
                {"SHRINKS", shrinks(p, s)},
                {"OPERAND_BYTES", md_fa_cuda_map_item_bytes(p)},
                {"CLUSTER_REDUCE", s->is_cluster_reduced},
                {"READS", s->has_result && read_along_columns(p)},
                {"ALIGNED", s->has_result && !s->by_words}};
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId32 "\n", list[i].name, list[i].value);
    md_fa_cuda_product_print_along(out, p);
    md_fa_wgmma_print_instruction(out, p, s->columns);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    md_fa_product w;
    md_strbuf defines = {0};
    md_kn_map map[MAPS];
    const int64_t ones[MD_FX_MAX_DIMS] = {0};
    if (!product_of(&p, target) || !md_fa_cuda_map_operands(map, &p))
        return md_fail(MD_INTERNAL, "family gemm_wgmma does not take this stage");
    shape s = shape_of(&p, config);
    if (s.has_result && !map_result(&map[p.n_products + 1], &p))
        return md_fail(MD_UNSUPPORTED, "epilogue1 is for one result of 16 bits");
    if (!legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "gemm_wgmma has no kernel of these parameters");
    set_boxes(map, &p, &s);
    map[0].is_copy = map[1].is_copy = (uint8_t)config->value[PAD];
    md_fa_product_measure(&w, target, &p, ones);
    /* Loads at any address have long texts, so those panels are a loop. */
    print_defines(&defines, &p, &s, map,
                  !s.has_result || w.epilogue_ops > 2 || w.epilogue_transcendental > 0 ||
                      (s.by_words && read_along_columns(&p)));
    md_fa_cuda_product_text text = {.source = "cuda/gemm_wgmma.cu",
                                    /* pad: unaligned results, too */
                                    .lanes = s.has_result         ? 2
                                             : config->value[PAD] ? 4
                                                                  : md_fa_cuda_width(target->program, target->stage),
                                    .has_result = s.has_result,
                                    .split = s.split,
                                    .is_cluster_reduced = s.is_cluster_reduced,
                                    .has_copies = config->value[PAD],
                                    .n_maps = p.n_products + (s.has_result && !s.by_words ? 2 : 1),
                                    .map = map};
    return md_fa_cuda_product_emit(out, target, &p, &text, &defines);
}

/* Slices that a cluster adds up do not start from 0. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const bool is_cluster_reduced = config->value[SPLIT] > 1 && config->value[SPLIT] == config->value[CLUSTER];
    (void)target;
    return md_fa_cuda_product_class(is_cluster_reduced ? "gemm_wgmma_met" : "gemm_wgmma");
}

const md_fa_family md_fa_cuda_gemm_wgmma = {
    .name = "gemm_wgmma",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field = {{"rows", 128, 3, {128, 256, 64}},
              {"columns", 128, 13, {256, 128, 192, 64, 160, 168, 176, 144, 224, 208, 96, 32, 16}},
              {"pingpong", 0, 2, {0, 1}},
              {"cluster", 1, 5, {1, 2, 3, 4, 8}},
              {"split", 1, 6, {1, 2, 3, 4, 8, 16}},
              {"epilogue", 0, 3, {1, 0, 2}},
              {"pad", 0, 2, {0, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
