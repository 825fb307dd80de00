/* Family gemm_wgmma: products on Hopper's tensor cores (kernels/cuda/gemm_wgmma.cu). Operands have one 16-bit type (or
 * f32, as tf32) and a layout that the copy engine can read, or are copied first (`pad`). `cluster` without `split`: two
 * blocks share an operand. `cluster` equal to `split`: the blocks of a cluster add up the slices of a tile; otherwise a
 * second launch does. `epilogue`: 0 any epilogue; for a single 16-bit result in registers, 1 by the copy engine, or 2
 * by words at any address. */
#include "family/cuda/cuda.h"

#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/wgmma_shape.h"

enum { ROWS, COLUMNS, PINGPONG, CLUSTER, SPLIT, EPILOGUE, PAD };
enum { BY_SHARED, BY_ENGINE, BY_WORDS }; /* values of EPILOGUE */

static md_fa_wgmma_shape shape_of(const md_cg_product *p, const md_fa_config *config)
{
    md_fa_wgmma_shape s = {.rows = config->value[ROWS],
                           .columns = config->value[COLUMNS] / p->n_products,
                           .cluster = config->value[CLUSTER],
                           .is_pingpong = config->value[PINGPONG],
                           .has_result = config->value[EPILOGUE],
                           .by_words = config->value[EPILOGUE] == BY_WORDS,
                           .has_copies = config->value[PAD],
                           .split = config->value[SPLIT]};
    s.is_cluster_reduced = s.split > 1 && s.cluster == s.split;
    if (s.is_cluster_reduced)
        s.cluster = 1;
    md_fa_wgmma_shape_derive(&s, p);
    return s;
}

static md_fa_cuda_tiles tiles_of(const md_fa_wgmma_shape *s)
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

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_wgmma_spec *s = spec;
    if (!md_fa_wgmma_any_product_of(&s->product, target))
        return false;
    s->shape = shape_of(&s->product, config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    md_kn_map map, maps[MD_FA_CUDA_MAPS];
    if (!md_fa_wgmma_any_product_of(&p, target) || !md_fa_cuda_map_operands(maps, &p) ||
        (md_fa_cuda_map_needs_copies(maps, &p) && !config->value[PAD]))
        return false;
    const md_fa_wgmma_shape s = shape_of(&p, config);
    const md_fa_cuda_tiles tiles = tiles_of(&s);
    if (!md_fa_wgmma_shape_fits(&s, target, &p))
        return false;
    if (s.split > 1 && (s.has_result || s.is_pingpong || (s.has_copies && !s.is_cluster_reduced)))
        return false;
    if (p.has_spans && (s.split > 1 || s.has_copies))
        return false;
    if (s.cluster > 2 || (s.cluster == 2 && s.split > 1))
        return false;
    if (s.has_copies && (p.n_products == 2 || md_fa_cuda_map_item_bytes(&p) == 4))
        return false;
    if (s.has_copies && s.has_result && !s.by_words) /* Copies serve odd shapes, whose results are unaligned as well. */
        return false;
    return (!s.has_result || md_fa_wgmma_map_result(&map, &p)) &&
           md_fa_cuda_product_is_worth_trying(target, &p, &tiles, size);
}

/* Where a cluster adds up slices, the sum begins with the first slice and not with 0: that is a class of its own. */
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
    .kind = &md_fa_wgmma_kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
