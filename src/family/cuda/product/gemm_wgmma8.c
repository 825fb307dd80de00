/* Family gemm_wgmma8: products of 8-bit operands on Hopper's tensor cores (kernels/cuda/gemm_wgmma8.cu): integers,
 * whose sums are exact; and reals where products may be less exact than f32 (tf32), as these units are. Both operands
 * lie along K at addresses that the copy engine takes. `cluster`: blocks that share an operand. `epilogue`: 0 any; 1
 * for a single 16-bit result, in registers and by the copy engine. `slice`, of reals: columns whose sums of a stage are
 * made at once; without, those of all. */
#include "family/cuda/cuda.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/wgmma_shape.h"

enum { ROWS, COLUMNS, PINGPONG, CLUSTER, EPILOGUE, SLICE };
enum { MOST_REAL_SUMS = 64 }; /* of a thread: it holds those of two stages, too */

typedef struct wgmma8_spec {
    md_fa_wgmma_spec wgmma;
    int32_t most_depth;
    bool is_integer;
} wgmma8_spec;
_Static_assert(sizeof(wgmma8_spec) <= sizeof(md_fa_spec), "there is room for it");

static bool product_of(wgmma8_spec *out, const md_fa_target *target)
{
    md_cg_quantised_product q;
    md_kn_map map[MD_FA_CUDA_MAPS];
    md_cg_product *p = &out->wgmma.product;
    if (target->facts->capability != 90 || !md_fa_cuda_product_of(p, target) || !md_cg_quantised_of(&q, p) ||
        md_cg_quantised_has_qparams(&q) || !md_fa_cuda_map_bytes(map, p))
        return false;
    out->is_integer = q.type == MD_I32;
    out->most_depth = q.most_depth;
    return out->is_integer || target->allows_tf32;
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    wgmma8_spec *s = spec;
    if (!product_of(s, target))
        return false;
    const md_cg_product *p = &s->wgmma.product;
    s->wgmma.shape = (md_fa_wgmma_shape){.rows = config->value[ROWS],
                                         .columns = config->value[COLUMNS] / p->n_products,
                                         .cluster = config->value[CLUSTER],
                                         .is_pingpong = config->value[PINGPONG],
                                         .has_result = config->value[EPILOGUE],
                                         .slice = config->value[SLICE],
                                         .split = 1};
    md_fa_wgmma_shape_derive(&s->wgmma.shape, p);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    wgmma8_spec s;
    md_kn_map map;
    (void)size;
    if (!spec_of(&s, target, config) || !md_fa_wgmma_shape_fits(&s.wgmma.shape, target, &s.wgmma.product))
        return false;
    const md_fa_wgmma_shape *shape = &s.wgmma.shape;
    const int32_t rows = shape->is_pingpong || shape->consumers == 1 ? shape->rows : shape->rows / 2,
                  sums = rows / 64 * shape->columns / 2 * s.wgmma.product.n_products;
    const bool is_sliced = !s.is_integer && !shape->is_pingpong && rows == 64 && s.wgmma.product.n_products == 1 &&
                           shape->deep == 1 && sums > MOST_REAL_SUMS;
    return (shape->slice ? is_sliced && shape->columns % shape->slice == 0 : s.is_integer || sums <= MOST_REAL_SUMS) &&
           (!shape->has_result || md_fa_wgmma_map_result(&map, &s.wgmma.product));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const wgmma8_spec *s = spec;
    const md_st_product *product = &md_fa_stage(target)->product;
    md_fa_wgmma_envelope(out, target, &s->wgmma.shape, &s->wgmma.product);
    for (int32_t i = 0; i < product->n_k && s->is_integer; i++)
        out->hi[target->program->index[product->k[i]].dim] = s->most_depth;
}

static void fix(md_fa_fixed *out, const md_fa_target *target, const void *spec)
{
    const wgmma8_spec *s = spec;
    (void)target;
    md_fa_wgmma_fix(out, &s->wgmma.shape, 1);
}

/* The time of 16-bit operands of half the depth: a step of K has as many bytes, and takes as long. */
static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_wgmma_fixed *fixed = known;
    md_fa_product room;
    const md_fa_product *sized = fixed->takes ? md_fa_cuda_product_work(out, &room, target, size) : NULL;
    if (!sized)
        return;
    md_fa_product half = *sized;
    half.depth = (half.depth + 1) / 2;
    const double us = md_fa_wgmma_us(target->facts, &half, &fixed->variant, md_fa_enough_us(target));
    md_fa_cuda_product_time_features(out, us, fixed->launches);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const wgmma8_spec *s = spec;
    return md_fa_wgmma_emit(out, target, &s->wgmma.shape, &s->wgmma.product);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const wgmma8_spec *s = spec;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    out->launch[1].grain = 1;
    if (sized)
        md_fa_wgmma_geometry(out, target, &s->wgmma.shape, sized);
}

/* Integers are exact in any order. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    wgmma8_spec s;
    const bool is_integer = spec_of(&s, target, config) && s.is_integer;
    return (md_fa_class){
        .group = is_integer ? "gemm_integers" : "gemm_wgmma8", .is_repeatable = true, .is_invariant = true};
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .fix = fix, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_wgmma8 = {
    .name = "gemm_wgmma8",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field = {{"rows", 128, 3, {128, 256, 64}},
              {"columns", 128, 7, {128, 256, 192, 96, 64, 160, 32}},
              {"pingpong", 0, 2, {0, 1}},
              {"cluster", 1, 2, {1, 2}},
              {"epilogue", 0, 2, {1, 0}},
              {"slice", 0, 2, {0, 128}, .is_quiet = true}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
