/* Family gemv: products with at most eight rows (kernels/host/gemv.c). With swap_ab1 it is n that has few points, and
 * the operands are swapped. */
#include "family/cost.h"
#include "family/host/product/host_gemv_fit.h"
#include "family/product.h"
#include "family/numeric.h"

#include "kernels/host/split.h"

#include <inttypes.h>
#include <math.h>

enum { SWAP_AB, COLUMNS };
enum { MOST = 8 }; /* MD_MAX_ROWS */

/* Steps of K of a chunk, MD_CHUNK: a lane of a dot product takes MD_SUM_DEPTH of them. */
static int64_t chunk_of(const md_fa_target *target)
{
    return MD_SUM_DEPTH * md_cg_width(target->facts);
}

static bool product_of(md_cg_product *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_cg_product_of(out, target->program, target->stage,
                            config->value[SWAP_AB] ? MD_CG_COLUMNS_M : MD_CG_COLUMNS_N);
}

/* True for a window of an image: columns and K of several indices each. Its elements would be read one by one, which
 * took 200 times as long as gemm, which packs them. */
static bool is_image(const md_cg_product *p, int32_t operand)
{
    return p->window[operand] && p->n_columns > 1 && md_cg_product_stage(p)->n_k > 1;
}

/* The direction in which B is contiguous. Both operands B must have the same. NEITHER: not served. */
static md_cg_along along(const md_cg_product *p)
{
    md_cg_along first = md_cg_product_along(p, MD_CG_B);
    if (p->is_paired && first != MD_CG_ALONG_DEPTH) /* sums of columns are wider than a lane of pairs */
        return MD_CG_ALONG_NEITHER;
    for (int32_t i = 0; i < p->n_products; i++)
        if (is_image(p, MD_CG_B + i) || md_cg_product_along(p, MD_CG_B + i) != first ||
            (!p->load[MD_CG_B + i] && md_cg_product_lane(p, MD_CG_B + i) < 0))
            return MD_CG_ALONG_NEITHER;
    return first;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_product_spec *s = out;
    s->config = *config;
    return product_of(&s->p, target, config);
}

static bool serves(const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product product;
    return product_of(&product, target, config) && along(&product) != MD_CG_ALONG_NEITHER;
}

static bool applies(const md_fa_target *target)
{
    return serves(target, &(md_fa_config){{0}}) || serves(target, &(md_fa_config){{1}});
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product product;
    md_cg_along walk = product_of(&product, target, config) ? along(&product) : MD_CG_ALONG_NEITHER;
    /* Dot products gain nothing from more columns at once, and shorter runs are spread better. */
    if (walk == MD_CG_ALONG_NEITHER || (walk == MD_CG_ALONG_DEPTH && config->value[COLUMNS] > 128))
        return false;
    return md_st_points(target->program, product.n_rows, product.rows, size) <= MOST;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_cg_product *p = &((const md_fa_product_spec *)spec)->p;
    out->row_points_max = MOST;
    out->n_row_dims = p->n_rows;
    for (int32_t i = 0; i < p->n_rows; i++)
        out->row_dim[i] = target->program->index[p->rows[i]].dim;
    /* Other strides would be correct but slow: gemm packs them. */
    for (int32_t i = 0; i < p->n_products; i++)
        out->unit |=
            p->load[MD_CG_B + i] ? UINT32_C(1) << p->load[MD_CG_B + i]->id : md_cg_product_unit(p, MD_CG_B + i);
}

static int64_t runs_of(const md_fa_product *sized, const md_fa_config *config)
{
    return (sized->columns + config->value[COLUMNS] - 1) / config->value[COLUMNS];
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_cg_product *p = &((const md_fa_product_spec *)spec)->p;
    const md_fa_config *config = &((const md_fa_product_spec *)spec)->config;
    md_fa_product sized;
    md_fa_product_measure(&sized, target, p, shape->size);
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    int64_t lanes = md_cg_width(target->facts), most = chunk_of(target),
            chunk = sized.depth < most ? sized.depth : most, blocks = runs_of(&sized, config) * sized.batch;
    int64_t sums = (sized.depth > MD_SPAN ? 4 : 2) * p->n_products * MOST * (config->value[COLUMNS] + lanes),
            x = sized.rows * ((chunk + lanes - 1) / lanes * lanes);
    int64_t threads = target->facts->threads > 1 ? target->facts->threads : 1;
    out->launch[0].blocks = blocks;
    /* Blocks of a grain share the copy of A; several grains for each thread even out the load. Tiny products run on the
     * calling thread. */
    double work = (double)sized.rows * (double)sized.columns * (double)sized.depth * (double)sized.batch;
    out->launch[0].grain = work < 100e3 ? blocks : (blocks + threads * 4 - 1) / (threads * 4);
    out->launch[0].scratch_bytes = (sums + x + lanes) * (p->type == MD_F32 ? 4 : 8);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_cg_product *p = &((const md_fa_product_spec *)known)->p;
    const md_fa_config *config = &((const md_fa_product_spec *)known)->config;
    md_fa_product sized;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    md_fa_product_measure(&sized, target, p, size);
    double lanes = md_cg_width(target->facts), n = (double)sized.columns * (double)sized.batch,
           rows = (double)sized.rows, k = (double)sized.depth;
    double runs = (double)runs_of(&sized, config) * (double)sized.batch, slow = md_cg_product_acc_bytes(&sized.p) / 4;
    bool is_depth = along(p) == MD_CG_ALONG_DEPTH;
    /* Cycles for a register of B: one load, then one fma for each row. Sums are reduced at the end, or read and written
     * every eight steps of K. */
    double cycles = (double)p->n_products * n * k / lanes * slow * (1 + rows * (is_depth ? DOT_CYCLES : COLUMN_CYCLES));
    if (is_depth)
        cycles += (double)p->n_products * n * rows * SUM_CYCLES * slow;
    else if (fmod((double)sized.columns, lanes) != 0)
        cycles += (double)p->n_products * (double)sized.batch * k * rows * COLUMN_TAIL_CYCLES * slow;
    cycles += runs * (RUN_CYCLES + rows * k / lanes) + n * rows / lanes * (RESULT_CYCLES + sized.epilogue_ops);
    out->ops = md_fa_product_cycles(target, cycles);
    out->transcendental = n * rows * sized.epilogue_transcendental;
    /* The processor's prefetcher starts again for each run of a row of B. */
    double run_bytes = fmin((double)sized.columns, (double)config->value[COLUMNS]) * 4;
    out->memory_bytes = sized.bytes * (is_depth ? 1 : 1 + RESTART_BYTES / (run_bytes + LINE_BYTES));
    out->parallel = md_fa_host_parallel(runs, target->facts);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_product_spec *s = spec;
    md_strbuf defines = {0};
    md_strbuf_printf(&defines,
                     "#define MD_MAX_ROWS %d\n#define MD_COLUMNS %" PRId32 "\n#define MD_CHUNK %" PRId64
                     "\n#define MD_ALONG_DEPTH %d\n",
                     MOST, s->config.value[COLUMNS], chunk_of(target), along(&s->p) == MD_CG_ALONG_DEPTH);
    return md_fa_product_emit(out, target, &s->p, "host/gemv.c", &defines);
}

/* Dot products have lanes along K and serve only few rows: a class of its own, not invariant. Otherwise K is added in
 * order; for f32 that is by fma, as in gemm. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    md_cg_product p;
    if (!product_of(&p, target, config))
        return (md_fa_class){0};
    if (md_cg_product_along(&p, MD_CG_B) != MD_CG_ALONG_DEPTH && p.type == MD_F32)
        return md_fa_class_product(target, config);
    return (md_fa_class){.group = "dots", .field = {"swap_ab"}, .is_repeatable = true};
}

static const md_fa_kind kind = {.envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_host_gemv = {
    .name = "gemv",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .n_fields = 2,
    .field = {{"swap_ab", 0, 2, {0, 1}}, {"columns", 128, 5, {512, 1024, 256, 128, 64}}},
    .kind = &kind,
    .spec_of = spec_of,
    .applies = applies,
    .legal = legal,
    .numeric = numeric,
};
