/* Tiles of products on Hopper's tensor cores: what follows from a config, tensor maps, geometry, cost. */
#include "family/cuda/product/wgmma_shape.h"

#include "family/cuda/cuda.h"
#include "family/cuda/product/wgmma_cost.h"

enum {
    MAPS = MD_FA_CUDA_MAPS,
    SHARED = 232448,
    RESERVE = 1024 + 320,
    IN_FLIGHT = 192 << 10,
    SMALL_STAGE = 20 << 10,
    /* Sums that a thread may hold: of a plain product, of any other, and of any other swapped one. */
    PLAIN_SUMS = 192,
    SUMS = 128,
    SWAPPED_SUMS = 160
};

static md_cg_along along(const md_cg_product *p, int32_t operand)
{
    return md_cg_product_along(p, operand);
}

static int64_t buffer_bytes(const md_fa_wgmma_shape *s)
{
    if (s->is_cluster_reduced)
        return (int64_t)s->n_products * s->rows * (s->columns + 8) * 4;
    if (s->by_words)
        return 0;
    return s->consumers * 4 *
           (s->has_result ? (int64_t)s->panels * 16 * s->panel * 2 : (int64_t)s->n_products * 16 * (s->panel + 4) * 4);
}

static void choose_stages(md_fa_wgmma_shape *s)
{
    for (s->panels = s->has_result ? 2 : 1; s->panels > 0; s->panels--) {
        int64_t buffers = buffer_bytes(s) + s->line_bytes, left = SHARED - RESERVE - buffers;
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

void md_fa_wgmma_shape_derive(md_fa_wgmma_shape *s, const md_cg_product *p)
{
    const bool is_across_transposed = along(p, s->is_swapped ? MD_CG_A : MD_CG_B) == MD_CG_ALONG_ROWS;
    const int64_t across = is_across_transposed ? (s->columns + 63) / 64 * 8192 : s->columns * 128,
                  slice_bytes = s->rows * 128 * (s->is_swapped ? p->n_products : 1) +
                                across * (s->is_swapped ? 1 : p->n_products);
    s->consumers = s->rows == 64 && !s->is_pingpong ? 1 : 2;
    s->threads = 128 * (s->consumers + 1);
    s->shares_a = s->rows > s->columns && !s->gathers;
    s->panel = panel_of(s->columns);
    s->low = !s->gathers ? 40 : s->rows > 128 ? 104 : 88;
    s->high = s->consumers == 1 ? 240 : s->gathers ? (504 - s->low) / 16 * 8 : 232;
    s->deep =
        s->rows == 64 && slice_bytes <= SMALL_STAGE ? 2 : 1; /* fewer, larger steps gain 1% if there are few rows */
    s->stage_bytes = s->deep * slice_bytes;
    s->n_products = p->n_products;
    choose_stages(s);
}

bool md_fa_wgmma_shape_fits(const md_fa_wgmma_shape *s, const md_fa_target *target, const md_cg_product *p)
{
    const int64_t ones[MD_FX_MAX_DIMS] = {0};
    md_fa_product sized;
    md_fa_product_measure(&sized, target, p, ones);
    const bool is_plain = sized.epilogue_ops + sized.epilogue_transcendental == 0 && p->n_columns == 1;
    const int32_t most = s->gathers      ? SUMS
                         : is_plain      ? PLAIN_SUMS
                         : s->is_swapped ? SWAPPED_SUMS
                                         : SUMS,
                  sums = (s->is_pingpong || s->consumers == 1 ? s->rows : s->rows / 2) / 64 * s->columns / 2 *
                         p->n_products;
    if (sums > most || (s->is_pingpong && s->rows > 128) || (s->rows == 64 && s->is_pingpong) || s->stages < 3)
        return false;
    return s->columns % 8 == 0 && !(s->cluster == 2 && !s->shares_a && s->columns % 16);
}

/* ---- Tensor maps */
/* True for 16-bit types in any layout, and for f32 contiguous along K if tf32 is allowed. */
static bool takes(const md_fa_target *target, const md_cg_product *p, int32_t dtype)
{
    bool is_along_depth = along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && along(p, MD_CG_B) == MD_CG_ALONG_DEPTH;
    return dtype == MD_BF16 || dtype == MD_F16 || (dtype == MD_F32 && target->allows_tf32 && is_along_depth);
}

static bool takes_operands(const md_cg_product *p, const md_fa_target *target)
{
    md_kn_map map[MAPS];
    return target->facts->capability == 90 && md_fa_cuda_map_operands(map, p) && takes(target, p, map[0].dtype);
}

bool md_fa_wgmma_product_of(md_cg_product *out, const md_fa_target *target)
{
    return md_fa_cuda_product_of(out, target) && takes_operands(out, target);
}

bool md_fa_wgmma_any_product_of(md_cg_product *out, const md_fa_target *target)
{
    if (!md_fa_cuda_any_product_of(out, target) || !takes_operands(out, target))
        return false;
    /* what lies behind a span is cleared line by line of K */
    return !out->has_spans ||
           (out->n_products == 1 && along(out, MD_CG_A) == MD_CG_ALONG_ROWS && along(out, MD_CG_B) == MD_CG_ALONG_ROWS);
}

bool md_fa_wgmma_maps(md_kn_map map[MAPS], const md_cg_product *p)
{
    return md_fa_cuda_map_bytes(map, p) || md_fa_cuda_map_operands(map, p);
}

bool md_fa_wgmma_map_result(md_kn_map *m, const md_cg_product *p)
{
    return md_cg_product_has_result(p) && md_fa_cuda_map_result(m, p);
}

void md_fa_wgmma_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_wgmma_shape *s,
                          const md_cg_product *p)
{
    md_kn_map map[MAPS];
    if (!(s->gathers ? md_fa_cuda_map_columns(map, p) : md_fa_wgmma_maps(map, p)))
        return;
    for (int32_t d = 0; d < target->program->formula->n_dims; d++) {
        out->lo[d] = 1;
        out->hi[d] = INT32_MAX;
    }
    for (int32_t o = s->gathers ? MD_CG_B : MD_CG_A; o <= p->n_products && !s->has_copies; o++)
        md_fa_cuda_map_needs(out, &map[o], true);
    if (s->has_result && md_fa_wgmma_map_result(&map[p->n_products + 1], p)) {
        /* Tensors that the epilogue reads along the columns are read in pairs, too. */
        uint32_t vectors = md_cg_unit_tensors(target->program, target->stage, p->columns[p->n_columns - 1]);
        md_fa_cuda_map_needs(out, &map[p->n_products + 1], !s->by_words);
        out->unit |= vectors;
        out->aligned16 |= s->by_words ? 0 : vectors;
    }
}

/* ---- Geometry and cost */
void md_fa_wgmma_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_wgmma_shape *s,
                          const md_fa_product *sized)
{
    const int64_t down = s->is_swapped ? sized->columns : sized->rows,
                  across = s->is_swapped ? sized->rows : sized->columns,
                  rows = s->rows * (s->shares_a ? 1 : s->cluster),
                  columns = s->columns * (s->shares_a ? s->cluster : 1);
    const int32_t together = s->is_cluster_reduced ? s->split : s->cluster; /* blocks of a cluster */
    const int64_t tiles = sized->batch * ((down + rows - 1) / rows) * ((across + columns - 1) / columns) *
                          (s->is_cluster_reduced ? 1 : s->split);
    md_kn_geometry *g = &out->launch[0];
    *g = md_fa_cuda_launch(MD_MIN(tiles, MD_MAX(target->facts->threads / together, 1)) * together, s->threads);
    g->cluster = together;
    g->scratch_bytes = s->shared;
    g->overlaps = s->has_copies || md_fa_cuda_product_overlaps(sized);
    md_fa_cuda_product_sum(out, target, sized, s->is_cluster_reduced ? 1 : s->split);
}

void md_fa_wgmma_fix(md_fa_fixed *out, const md_fa_wgmma_shape *s, int32_t launches)
{
    md_fa_wgmma_fixed *fixed = (void *)out->bytes;
    _Static_assert(sizeof *fixed <= sizeof *out, "there is room for it");
    *fixed = (md_fa_wgmma_fixed){.takes = true,
                                 .launches = launches,
                                 .variant = {.rows = s->rows,
                                             .columns = s->columns,
                                             .split = s->split,
                                             .cluster = s->cluster,
                                             .stages = s->stages * s->deep,
                                             .is_pingpong = s->is_pingpong,
                                             .is_cluster_reduced = s->is_cluster_reduced,
                                             .has_result = s->has_result,
                                             .by_words = s->by_words,
                                             .has_copies = s->has_copies,
                                             .is_swapped = s->is_swapped}};
}

void md_fa_wgmma_features(md_fa_features *out, const md_fa_target *target, const md_fa_wgmma_fixed *fixed,
                          const int64_t *size)
{
    md_fa_product room;
    const md_fa_product *sized = fixed->takes ? md_fa_cuda_product_work(out, &room, target, size) : NULL;
    if (!sized)
        return;
    const double us = md_fa_wgmma_us(target->facts, sized, &fixed->variant, md_fa_enough_us(target));
    md_fa_cuda_product_time_features(out, us, fixed->launches);
}
