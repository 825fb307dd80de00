/* Family gemm_lib: products by CBLAS. An epilogue is a second launch. The library has its own threads; their number
 * (OPENBLAS_NUM_THREADS and the like) is a setting of the whole process, which we leave to the user. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"
#include "family/host/product/gemm_lib.h"
#include "family/product.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "md_build_config.h"

enum { COLUMNS = 4096 }; /* columns of a block of the epilogue, MD_COLUMNS */

static bool product_of(md_cg_product *out, const md_fa_target *target)
{
    return md_cg_product_of(out, target->program, target->stage, MD_CG_COLUMNS_STORED);
}

static bool applies(const md_fa_target *target)
{
    md_cg_product product;
    uint32_t unit, contiguous;
    return MD_HAVE_BLAS && product_of(&product, target) && md_fa_lib_needs(&unit, &contiguous, &product);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    (void)config, (void)size;
    return applies(target);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product product;
    (void)config;
    *out = (md_kn_envelope){0};
    if (!product_of(&product, target))
        return;
    md_fa_lib_needs(&out->unit, &out->contiguous, &product);
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->hi[d] = INT32_MAX; /* CBLAS counts in int */
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_cg_product product;
    md_fa_product w;
    (void)config;
    *out = (md_kn_plan_geometry){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!product_of(&product, target))
        return;
    md_fa_product_measure(&w, target, &product, shape->size);
    int64_t rows = w.batch * w.rows;
    if (rows == 0 || w.columns == 0)
        return;
    out->launch[0].blocks = 1;
    if (md_fa_lib_is_direct(&product))
        return;
    out->launch[1].blocks = rows * ((w.columns + COLUMNS - 1) / COLUMNS);
    out->launch[1].grain = w.columns < COLUMNS ? 1 + 2 * COLUMNS / (w.columns + 1) : 2;
    out->workspace_bytes = product.n_products * rows * w.columns * (product.type == MD_F32 ? 4 : 8);
}

/* Fitted to OpenBLAS 0.3.21 on two cores with AVX-512: it multiplies at nine tenths of the peak and packs all operands
 * on every call. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product product;
    md_fa_product w;
    (void)config;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!product_of(&product, target))
        return;
    md_fa_product_measure(&w, target, &product, size);
    double m = (double)w.rows, n = (double)w.columns, k = (double)w.depth, calls = (double)w.batch * product.n_products;
    double wide = product.type == MD_F32 ? 1 : 2;
    double results = (double)w.batch * m * n;
    out->ops = calls * (2 * m * n * k * wide / 0.92 + md_fa_product_cycles(target, 1.1 * (m + n) * k * wide));
    out->memory_bytes = w.bytes;
    out->serial_us = calls * 2;
    out->parallel = m * n * k * (double)product.n_products < 1e6 ? 1 : (double)target->facts->threads;
    if (md_fa_lib_is_direct(&product))
        return;
    out->launches = 2;
    out->ops += md_fa_product_cycles(target, results / md_cg_width(target->facts) * (6 + w.epilogue_ops));
    out->transcendental = results * w.epilogue_transcendental;
    out->memory_bytes += 2 * results * 4 * wide * product.n_products;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product product;
    md_strbuf defines = {0};
    (void)config;
    if (!MD_HAVE_BLAS)
        return md_fail(MD_UNSUPPORTED, "built without CBLAS");
    if (!product_of(&product, target))
        return md_fail(MD_INTERNAL, "family gemm_lib does not take this stage");
    if (!md_fa_lib_is_direct(&product)) {
        md_strbuf_printf(&defines, "#define MD_COLUMNS %d\n", COLUMNS);
        MD_TRY(md_fa_product_emit(out, target, &product, "host/epilogue.c", &defines));
        out->launch[1] = out->launch[0];
    }
    out->n_launches = md_fa_lib_is_direct(&product) ? 1 : 2;
    out->launch[0] = (md_kn_launch_source){.code = MD_KN_FUNCTION, .function = md_fa_lib_run};
    return MD_OK;
}

const md_fa_family md_fa_host_gemm_lib = {
    .name = "gemm_lib",
    .device = MD_DEV_HOST,
    .is_library = true,
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
