/* Products of f32, in f32: src/kernels/cuda/gemm_fma.cu. What it does not take, gemm_simt does. */
#include "family/cuda.h"

#include "base/status.h"
#include "family/cuda_gemm.h"

#include <inttypes.h>

enum { ROWS, COLUMNS, SPLIT, DEPTH, STAGES };
enum { THREAD = 8, BAND = 8, REGISTERS = 128, REGISTERS_80 = 168 }; /* THREAD: sums a thread down and across; BAND: MD_BAND; sm_80: with fewer it spills */

static bool product_of(md_cg_product *p, const md_fa_target *target)
{
    if (!md_fa_cuda_product_of(p, target) || p->type != MD_F32 || p->n_products > 1)
        return false;
    const md_st_product *s = &target->program->stage[target->stage].product;
    for (int32_t o = 0; o <= 1; o++)
        if (!p->load[o] || md_cg_product_along(p, o) == MD_CG_ALONG_NEITHER || p->program->formula->tensor[p->load[o]->id].dtype != MD_F32)
            return false;
    return s->n_k == 1 && p->n_rows == 1 && p->n_columns == 1;
}

static bool applies(const md_fa_target *target)
{
    md_cg_product product;
    return product_of(&product, target);
}

static bool is_wide(const md_fa_config *config)
{
    return config->value[COLUMNS] == 256;
}

static int32_t threads_of(const md_fa_config *config)
{
    return config->value[ROWS] / THREAD * (config->value[COLUMNS] / (is_wide(config) ? 2 * THREAD : THREAD));
}

static int64_t floats_of(const md_cg_product *p, const md_fa_config *config, int32_t operand)
{
    const int32_t size = config->value[operand == MD_CG_A ? ROWS : COLUMNS], depth = config->value[DEPTH];
    return md_cg_product_along(p, operand) == MD_CG_ALONG_DEPTH ? size * (depth + 4) : size * depth;
}

static int64_t shared_of(const md_cg_product *p, const md_fa_config *config)
{
    const int64_t stages = config->value[STAGES] * (floats_of(p, config, MD_CG_A) + floats_of(p, config, MD_CG_B));
    return 4 * MD_MAX(stages, (int64_t)config->value[ROWS] * (config->value[COLUMNS] + 4));
}

/* Blocks of an SM that registers and shared memory allow. */
static int32_t blocks_of(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config)
{
    md_fa_cuda_load load = {.threads = threads_of(config), .registers = is_wide(config) ? 255 : target->facts->capability >= 90 ? REGISTERS : REGISTERS_80, .shared_bytes = shared_of(p, config)};
    return MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
}

static md_fa_cuda_tiles tiles_of(const md_fa_target *target, const md_cg_product *p, const md_fa_config *config)
{
    return (md_fa_cuda_tiles){.rows = config->value[ROWS], .columns = config->value[COLUMNS], .split = config->value[SPLIT],
                              .resident = blocks_of(target, p, config), .flops = 0.8, .step_us = 0.5};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    if (!product_of(&p, target) || size) /* only where it is asked for by name: not proven */
        return false;
    md_fa_cuda_tiles tiles = tiles_of(target, &p, config);
    return shared_of(&p, config) <= target->facts->shared_per_block && md_fa_cuda_product_sensible(target, &p, &tiles, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    (void)config;
    *out = (md_kn_envelope){0};
    if (!product_of(&p, target))
        return;
    for (int32_t o = 0; o <= 1; o++) {
        out->unit |= UINT32_C(1) << p.load[o]->id;
        out->aligned16 |= UINT32_C(1) << p.load[o]->id;
    }
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config, const md_kn_shape *shape)
{
    md_cg_product p;
    *out = (md_kn_plan_geometry){0};
    if (!product_of(&p, target))
        return;
    md_fa_cuda_tiles tiles = tiles_of(target, &p, config);
    md_fa_cuda_product_geometry(out, target, &p, &tiles, threads_of(config), shared_of(&p, config), shape->size);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    md_fa_product w;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!product_of(&p, target))
        return;
    md_fa_product_measure(&w, target, &p, size);
    if (w.batch == 0 || w.rows == 0 || w.columns == 0)
        return;
    md_fa_cuda_tiles tiles = tiles_of(target, &p, config);
    md_fa_cuda_product_features(out, target, &w, &tiles);
    out->serial_us += 1 + (tiles.split > 1 ? 0.3 * tiles.split : 0);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    md_strbuf defines = {0};
    if (!product_of(&p, target))
        return md_fail(MD_INTERNAL, "family gemm_fma does not take this stage");
    if (!legal(target, config, NULL))
        return md_fail(MD_UNSUPPORTED, "gemm_fma has no kernel of these parameters");
    md_strbuf_printf(&defines,
                     "#define MD_BM %" PRId32 "\n#define MD_BN %" PRId32 "\n#define MD_BK %" PRId32 "\n#define MD_STAGES %" PRId32 "\n#define MD_BLOCKS %" PRId32
                     "\n#define MD_BAND %d\n",
                     config->value[ROWS], config->value[COLUMNS], config->value[DEPTH], config->value[STAGES], blocks_of(target, &p, config), BAND);
    md_fa_cuda_product_print_along(&defines, &p);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_fma.cu", .lanes = 4, .split = config->value[SPLIT]};
    return md_fa_cuda_product_emit(out, target, &p, &text, &defines);
}

const md_fa_family md_fa_cuda_gemm_fma = {
    .name = "gemm_fma",
    .device = MD_DEV_CUDA,
    .n_fields = 5,
    .field = {{"rows", 128, 2, {128, 64}}, {"columns", 128, 3, {128, 64, 256}}, {"split", 1, 10, {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}}, {"depth", 16, 3, {16, 32, 8}}, {"stages", 3, 3, {3, 4, 2}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
