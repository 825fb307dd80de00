/* Family gemm_dot: small products, a group of lanes for each few results (kernels/cuda/gemm_dot.cu). */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/product/gemm_dot_fit.h"

#include <inttypes.h>
#include <math.h>

enum { LANES, ROWS, COLUMNS };
enum { THREADS = 128, LOADS = 16 /* of a lane in flight */ };

/* A group makes `results` of each product; a lane takes `unroll` steps of K at a time. */
typedef struct group {
    int32_t lanes, rows, columns, results, loads, unroll, threads;
} group;

static group group_of(const md_cg_product *p, const md_fa_config *config)
{
    group g = {.lanes = config->value[LANES], .rows = config->value[ROWS], .columns = config->value[COLUMNS]};
    g.results = g.rows * g.columns;
    g.loads = g.rows + g.columns * p->n_products;
    g.unroll = MD_MAX(LOADS / g.loads, 1);
    g.threads = MD_MAX(g.lanes, THREADS);
    return g;
}

typedef struct dot_spec {
    md_cg_product p;
    group g;
} dot_spec;

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    dot_spec *s = out;
    if (!md_fa_cuda_product_of(&s->p, target))
        return false;
    for (int32_t o = 0; o <= s->p.n_products; o++)
        if (!s->p.load[o])
            return false;
    s->g = group_of(&s->p, config);
    return md_fa_stage(target)->product.n_k == 1 && s->p.n_rows <= 1 && s->p.n_columns == 1;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    dot_spec s;
    md_fa_product sized;
    if (!spec_of(&s, target, config))
        return false;
    const group g = s.g;
    /* one result a group was slower than two wherever it was measured, even for one row and one column */
    if (g.results == 1 || g.results > g.lanes || g.results * s.p.n_products > 16 ||
        (s.p.type != MD_F32 && g.results > 4))
        return false;
    if (!size)
        return true;
    md_fa_product_measure(&sized, target, &s.p, size);
    return sized.rows > g.rows / 2 && (sized.columns > g.columns / 2 || g.columns <= 2) && sized.depth > g.lanes / 4;
}

static int64_t blocks_of(const md_fa_product *sized, const group *g)
{
    const int64_t tiles =
        sized->batch * ((sized->rows + g->rows - 1) / g->rows) * ((sized->columns + g->columns - 1) / g->columns);
    const int64_t groups = g->threads / g->lanes;
    return (tiles + groups - 1) / groups;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const dot_spec *s = spec;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    if (!sized)
        return;
    out->launch[0] = md_fa_cuda_launch(blocks_of(sized, &s->g), s->g.threads);
    out->launch[0].overlaps = md_fa_cuda_product_overlaps(sized);
}

enum { RESIDENT = 1923 /* threads of an SM */, SECTOR_BYTES = 32 };

/* Cycles of a load of one element a lane, for all rows of the operand. */
static double load_cycles(const md_fa_product *sized, const group *g, int32_t operand)
{
    const double lanes = MD_MIN(g->lanes, 32),
                 item = (double)md_dtype_size(sized->p.program->formula->tensor[sized->p.load[operand]->id].dtype);
    const double sectors = lanes * fmax(1, 32 / lanes * item / SECTOR_BYTES);
    return LOAD[item > 2] + (md_cg_product_along(&sized->p, operand) == MD_CG_ALONG_DEPTH ? 0 : SECTOR * sectors);
}

static double dot_us(const md_fa_target *target, const md_fa_product *sized, const group *g)
{
    const double sms = MD_MAX(target->facts->threads, 1), sums = (double)g->results * sized->p.n_products,
                 exchanges = sums * log2(MD_MIN(g->lanes, 32));
    const double of_sm = ceil((double)blocks_of(sized, g) / sms), waves = ceil(of_sm / (RESIDENT / g->threads)),
                 warps = of_sm * g->threads / 32;
    const double steps = ceil((double)sized->depth / g->lanes), rounds = ceil(steps / g->unroll);
    const double step = g->rows * load_cycles(sized, g, MD_CG_A) +
                        g->columns * sized->p.n_products * load_cycles(sized, g, MD_CG_B) + STEP * sums;
    const double cycles =
        warps * (steps * step + ADD_LANES * exchanges + (g->lanes > 32 ? ADD_WARPS * sums : 0) + WARP);
    return START + waves * rounds * ROUND + (waves - 1) * WAVE + cycles / CLOCK + ADD * exchanges +
           MEMORY * sized->bytes / target->facts->memory_gbps * 1e-3 +
           (sized->epilogue_transcendental > 0 ? FUNCTION : 0);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (sized)
        md_fa_cuda_product_time_features(out, dot_us(target, sized, &((const dot_spec *)known)->g), 1);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const dot_spec *s = spec;
    md_strbuf defines = {0};
    md_strbuf_printf(&defines,
                     "#define MD_GROUP %" PRId32 "\n#define MD_ROWS %" PRId32 "\n#define MD_COLUMNS %" PRId32
                     "\n#define MD_UNROLL_K %" PRId32 "\n",
                     s->g.lanes, s->g.rows, s->g.columns, s->g.unroll);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_dot.cu", .lanes = 1};
    return md_fa_cuda_product_emit(out, target, &s->p, &text, &defines);
}

/* A lane adds every so many-th product in order, then lanes are added in pairs. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "gemm_dot", .field = {"lanes"}, .is_repeatable = true, .is_invariant = true};
}

static const md_fa_kind kind = {.checks_config = true, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_dot = {
    .name = "gemm_dot",
    .device = MD_DEV_CUDA,
    .n_fields = 3,
    .field = {{"lanes", 32, 7, {32, 4, 8, 16, 64, 128, 256}}, {"rows", 1, 3, {1, 2, 4}}, {"columns", 2, 3, {1, 2, 4}}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
