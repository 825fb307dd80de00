/* Family gemm_lib: products by CBLAS. An epilogue is a second launch. The library has its own threads; their number
 * (OPENBLAS_NUM_THREADS and the like) is a setting of the whole process, which we leave to the user. */
#include "base/status.h"
#include "family/cost.h"
#include "family/host/product/gemm_lib.h"
#include "family/host/product/host_lib_fit.h"
#include "family/product.h"

#include <math.h>

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

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_cg_product product;
    md_fa_product sized;
    (void)config;
    *out = (md_kn_geometries){0};
    out->launch[0].grain = out->launch[1].grain = 1;
    if (!product_of(&product, target))
        return;
    md_fa_product_measure(&sized, target, &product, shape->size);
    int64_t rows = sized.batch * sized.rows;
    if (rows == 0 || sized.columns == 0)
        return;
    out->launch[0].blocks = 1;
    if (md_fa_lib_is_direct(&product))
        return;
    out->launch[1].blocks = rows * ((sized.columns + COLUMNS - 1) / COLUMNS);
    out->launch[1].grain = sized.columns < COLUMNS ? 1 + 2 * COLUMNS / (sized.columns + 1) : 2;
    out->workspace_bytes = product.n_products * rows * sized.columns * (product.type == MD_F32 ? 4 : 8);
}

/* The library multiplies at nine tenths of the peak and packs all operands on every call. */
static double product_ops(const md_fa_target *target, double m, double n, double k)
{
    return 2 * m * n * k / RATE + md_fa_product_cycles(target, PACK_CYCLES * (m + n) * k);
}

/* True for two operands along K that OpenBLAS' kernels for small matrices take, with vectors of 64 bytes: few results,
 * and some steps. They pack nothing, but multiply in squares of four by four. */
static bool is_small(const md_fa_target *target, const md_cg_product *p, double m, double n, double k)
{
    return target->facts->vector_bytes >= 64 && p->type == MD_F32 && m * n <= 1200 && k >= 32 &&
           md_cg_product_along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && md_cg_product_along(p, MD_CG_B) == MD_CG_ALONG_DEPTH;
}

/* What one thread multiplies without waking others, where operands are found in the caches. */
static double ops_alone(const md_fa_target *target, const md_cg_product *p, double m, double n, double k)
{
    if (is_small(target, p, m, n, k))
        return 2 * ceil(m / 4) * 4 * ceil(n / 4) * 4 * k / SMALL_RATE;
    return 2 * m * n * k / ALONE_RATE +
           md_fa_product_cycles(target, ALONE_PACK_CYCLES * (m + n) * k + ALONE_RESULT_CYCLES * m * n);
}

/* Log of measured over modelled time of one of the products by which the library is calibrated. */
static double off_at(const md_fa_target *target, int32_t shape)
{
    const double ops = product_ops(target, md_dev_library_rows(shape), MD_DEV_LIBRARY_COLUMNS, MD_DEV_LIBRARY_DEPTH);
    const double us = ops / target->facts->gflops * 1e-3 + CALL_US;
    return OWN_PART * fmax(fmin(log(target->facts->library_us[shape] / us), MOST_LOG), -MOST_LOG);
}

/* The factor of this library at so many rows: between the two nearest products of those that end with a whole tile of
 * rows, or of those that do not. */
static double calibration(const md_fa_target *target, double rows)
{
    enum { TILED = MD_DEV_LIBRARY_TILED };
    const md_dev_facts *f = target->facts;
    const int32_t first = fmod(rows, 16) == 0 ? 0 : TILED, last = first + TILED - 1;
    int32_t i = first;
    for (int32_t s = first; s <= last; s++)
        if (!(f->library_us[s] > 0) || !(f->gflops > 0))
            return 1;
    while (i < last - 1 && rows > md_dev_library_rows(i + 1))
        i++;
    const double low = log2(md_dev_library_rows(i)), high = log2(md_dev_library_rows(i + 1));
    const double at = fmax(fmin((log2(fmax(rows, 1)) - low) / (high - low), 1), 0);
    return exp(off_at(target, i) * (1 - at) + off_at(target, i + 1) * at);
}

/* Operations, on one lane, that take as long as a small product of the fewest rows, which was timed; 0: packing is the
 * rule at this size, or nothing was timed. Few columns are as few rows: a matrix by a vector. */
static double unpacked_ops(const md_dev_facts *f, double rows, double columns, double k)
{
    enum { FEW = MD_DEV_LIBRARY_FEW, MOST_ROWS = MD_DEV_LIBRARY_SHAPES - FEW };
    const double m = fmin(rows, columns), n = fmax(rows, columns);
    const int32_t shape = m <= MOST_ROWS ? FEW + (int32_t)m - 1 : FEW;
    if (!(m >= 1) || m > MOST_ROWS || m * n * k > MOST_UNPACKED || !(f->library_us[shape] > 0))
        return 0;
    const double us = f->library_us[shape] * n * k / ((double)MD_DEV_LIBRARY_COLUMNS * MD_DEV_LIBRARY_DEPTH);
    return us * (m * n * k <= MOST_ALONE ? ALONE_CACHED : 1) * 1e3 * f->gflops / f->threads;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product product;
    md_fa_product sized;
    (void)config;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    if (!product_of(&product, target))
        return;
    md_fa_product_measure(&sized, target, &product, size);
    double m = (double)sized.rows, n = (double)sized.columns, k = (double)sized.depth,
           calls = (double)sized.batch * product.n_products;
    double wide = product.type == MD_F32 ? 1 : 2;
    double results = (double)sized.batch * m * n;
    const double factor = calibration(target, m), unpacked = unpacked_ops(target->facts, m, n, k);
    const bool is_alone = m * n * k <= MOST_ALONE;
    out->ops =
        calls * wide *
        (unpacked > 0 ? unpacked
                      : (is_alone ? ops_alone(target, &product, m, n, k) : product_ops(target, m, n, k)) * factor);
    out->memory_bytes = sized.bytes;
    out->serial_us = calls * (is_alone ? ALONE_US : unpacked > 0 ? 0 : CALL_US * factor);
    out->parallel = m * n * k * (double)product.n_products < 1e6 ? 1 : (double)target->facts->threads;
    if (md_fa_lib_is_direct(&product))
        return;
    out->launches = 2;
    out->ops += md_fa_product_cycles(target, results / md_cg_width(target->facts) * (6 + sized.epilogue_ops));
    out->transcendental = results * sized.epilogue_transcendental;
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
