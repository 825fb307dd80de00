/* Family gemm_swapped: products on Hopper's tensor cores as the transposed product (kernels/cuda/gemm_wgmma.cu). The
 * tile's rows, 64 or more, are columns of the result; its columns, any multiple of 8, are rows of the result. So a few
 * tokens, or an odd number of them, waste little. `rows` are those of both products together, where there are two. For
 * a single 16-bit result at addresses that the copy engine takes. */
#include "family/cuda/cuda.h"

#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/wgmma_shape.h"

enum { ROWS, COLUMNS, PINGPONG, CLUSTER };

static md_fa_wgmma_shape shape_of(const md_cg_product *p, const md_fa_config *config)
{
    md_fa_wgmma_shape s = {.rows = config->value[ROWS] / p->n_products,
                           .columns = config->value[COLUMNS],
                           .cluster = config->value[CLUSTER],
                           .is_pingpong = config->value[PINGPONG],
                           .split = 1,
                           .is_swapped = true,
                           .has_result = true};
    md_fa_wgmma_shape_derive(&s, p);
    return s;
}

static bool product_of(md_cg_product *out, const md_fa_target *target)
{
    md_kn_map map[MD_FA_CUDA_MAPS];
    return md_fa_wgmma_product_of(out, target) && md_fa_cuda_map_operands(map, out) &&
           !md_fa_cuda_map_needs_copies(map, out) && md_fa_wgmma_map_result(&map[0], out);
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_wgmma_spec *s = spec;
    if (!product_of(&s->product, target))
        return false;
    s->shape = shape_of(&s->product, config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_wgmma_spec s;
    (void)size;
    return spec_of(&s, target, config) && s.shape.rows >= 64 && md_fa_wgmma_shape_fits(&s.shape, target, &s.product);
}

/* An element's sum has the order of gemm_wgmma's. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    (void)config;
    return md_fa_cuda_product_class("gemm_wgmma");
}

const md_fa_family md_fa_cuda_gemm_swapped = {
    .name = "gemm_swapped",
    .device = MD_DEV_CUDA,
    .n_fields = 4,
    .field = {{"rows", 128, 3, {128, 256, 64}},
              {"columns", 128, 20, {128, 64,  72,  80,  88,  96,  104, 112, 120, 136,
                                    144, 152, 160, 176, 192, 208, 224, 256, 48,  32}},
              {"pingpong", 0, 2, {0, 1}},
              {"cluster", 1, 2, {1, 2}}},
    .kind = &md_fa_wgmma_kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
