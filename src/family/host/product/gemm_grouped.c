/* Family gemm_grouped: products whose rows look up which matrix they are multiplied by, as in a mixture of experts
 * (kernels/host/gemm_grouped.c). The first launch sorts the rows by group; how many a group has is known to kernels
 * only. */
#include "base/status.h"
#include "family/cost.h"
#include "family/host/product/host_grouped_fit.h"
#include "family/host/product/region.h"
#include "family/numeric.h"

#include "kernels/host/grouped.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, VECS, DEPTH, FEW };
enum { BLOCK = 240, RUN = 64, MOST_ROWS = 8 }; /* MD_BLOCK, MD_COLUMNS; most of MD_MAX_ROWS */
enum { WIDTH = 512, LEAST_WIDTH = 64 }; /* columns of a block */

static md_fa_host_tile tile_of(const md_fa_config *config)
{
    return (md_fa_host_tile){config->value[ROWS], config->value[VECS], config->value[DEPTH]};
}

/* True if a unit of few rows is computed without packing: lanes of B must lie along K or the columns. */
static bool takes_few(const md_cg_product *p)
{
    const md_cg_along along = md_cg_product_along(p, MD_CG_B);
    for (int32_t i = 0; i < p->n_products; i++)
        if (md_cg_product_along(p, MD_CG_B + i) != along || along == MD_CG_ALONG_NEITHER ||
            (!p->load[MD_CG_B + i] && md_cg_product_lane(p, MD_CG_B + i) < 0))
            return false;
    return true;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_product_spec *s = out;
    s->config = *config;
    return md_cg_product_of(&s->p, target->program, target->stage, MD_CG_COLUMNS_GROUPED);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_product_spec s;
    const md_fa_host_tile tile = tile_of(config);
    (void)size;
    return spec_of(&s, target, config) && md_fa_host_tile_is_legal(target, &s.p, &tile) &&
           (config->value[FEW] == 0 || takes_few(&s.p));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_product_spec *s = spec;
    const md_fa_host_tile tile = tile_of(&s->config);
    const md_tiling t = md_fa_host_tiling(target, &s->p, &tile);
    md_fa_product_group_envelope(out, target);
    md_fa_host_tile_limit(out, &t);
}

/* ---- How the work is divided */
typedef struct cut {
    md_fa_product sized;
    md_tiling tiling;
    int64_t regions, width; /* parts of the columns; columns of the widest */
} cut;

/* False: there is nothing to do. */
static bool cut_of(cut *out, const md_fa_target *target, const md_fa_product_spec *s, const int64_t *size)
{
    const md_fa_host_tile tile = tile_of(&s->config);
    md_fa_product_measure(&out->sized, target, &s->p, size);
    out->tiling = md_fa_host_tiling(target, &s->p, &tile);
    const int64_t threads = MD_MAX(target->facts->threads, 1), n = out->sized.columns,
                  wide = MD_MAX(MD_MIN(n / (2 * threads), WIDTH), LEAST_WIDTH);
    out->regions = MD_MAX(n / wide, 1);
    out->width = md_split_most(n, out->tiling.strip, out->regions);
    return out->sized.rows > 0 && n > 0;
}

/* Accumulators of the scratch of a unit with few rows. */
static int64_t run_scratch(const md_fa_target *target, const cut *c, const md_fa_config *config)
{
    const int64_t lanes = md_cg_width(target->facts), chunk = MD_MIN(c->sized.depth, MD_SUM_DEPTH * lanes);
    const int64_t sums = (c->sized.depth > MD_SPAN ? 4 : 2) * c->sized.p.n_products * MOST_ROWS * (RUN + lanes);
    return config->value[FEW] == 0 ? 0 : sums + MOST_ROWS * ((chunk + lanes - 1) / lanes * lanes) + lanes;
}

/* The same with any number of rows: few of them are packed for the whole K, and may need more than many. */
static int64_t packed_scratch(const cut *c)
{
    const int64_t most = MD_MIN(c->sized.rows, BLOCK), step = c->tiling.rows;
    int64_t all = 0;
    for (int64_t rows = step; rows < most + step; rows += step)
        all = MD_MAX(all, md_scratch_of(c->tiling, (md_split){1, 1}, MD_MIN(rows, most), c->width, c->sized.depth).all);
    return all;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_product_spec *s = spec;
    cut c;
    out->launch[1].grain = 1;
    if (!cut_of(&c, target, s, shape->size))
        return;
    const md_grouping at = md_grouping_of(c.sized.rows, md_fa_product_groups(target, shape), BLOCK);
    out->launch[0].blocks = 1;
    out->launch[1].blocks = at.most_units * c.regions;
    out->launch[1].scratch_bytes =
        MD_MAX(packed_scratch(&c), run_scratch(target, &c, &s->config)) * (c.sized.p.type == MD_F32 ? 4 : 8);
    out->workspace_bytes = at.all * (int64_t)sizeof(int64_t);
}

/* ---- Cost: rows are taken to be spread evenly over the groups. */
static double few_cycles(const md_fa_target *target, const md_fa_product *sized)
{
    const double lanes = md_cg_width(target->facts), rows = (double)sized->rows,
                 n = (double)sized->columns * sized->p.n_products;
    const double slow = sized->p.type == MD_F32 ? 1 : 2;
    const double loads = ceil(rows / MOST_ROWS) * n * (double)sized->depth / lanes * slow;
    return loads + n * (double)sized->depth / lanes * slow * rows * ROW_CYCLES + n * rows * SUM_CYCLES * slow;
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_product_spec *s = known;
    cut c;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 2};
    if (!cut_of(&c, target, s, size))
        return;
    const double rows = (double)c.sized.rows,
                 groups = fmax((double)md_st_groups(target->program, target->stage, size), 1);
    const double used = md_fa_product_used_groups(groups, rows);
    md_fa_product one = c.sized;
    one.rows = (int64_t)ceil(rows / used);
    const double cycles =
        used * (one.rows <= s->config.value[FEW] ? few_cycles(target, &one)
                                                 : md_fa_host_region_cycles(target, &one, &c.tiling, (md_split){1, 1}));
    out->ops = md_fa_product_cycles(target, cycles);
    out->transcendental = rows * (double)c.sized.columns * c.sized.epilogue_transcendental;
    out->memory_bytes = c.sized.a_bytes + (c.sized.bytes - c.sized.a_bytes) * used / groups;
    out->serial_us = rows * SORT_US;
    out->parallel = md_fa_host_parallel(used * (double)c.regions, target->facts);
}

/* ---- Text */
static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_product_spec *s)
{
    const md_fa_host_tile tile = tile_of(&s->config);
    const int32_t few = s->config.value[FEW];
    md_fa_host_tile_print(out, target, &s->p, &tile);
    md_strbuf_printf(out,
                     "#define MD_BLOCK %d\n#define MD_FEW %" PRId32 "\n#define MD_MAX_ROWS %" PRId32
                     "\n#define MD_COLUMNS %d\n#define MD_CHUNK %" PRId64 "\n#define MD_ALONG_DEPTH %d\n",
                     BLOCK, few, MD_MIN(few, MOST_ROWS), RUN, (int64_t)MD_SUM_DEPTH * md_cg_width(target->facts),
                     md_cg_product_along(&s->p, MD_CG_B) == MD_CG_ALONG_DEPTH);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    static const char *const source[] = {"host/group_rows.c", "host/gemm_grouped.c"};
    const md_fa_product_spec *s = spec;
    md_status status = MD_OK;
    *out = (md_kn_source){.n_launches = MD_COUNT(source)};
    for (int32_t i = 0; i < MD_COUNT(source) && status == MD_OK; i++) {
        md_strbuf defines = {0};
        if (i == 0)
            md_strbuf_printf(&defines, "#define MD_BLOCK %d\n", BLOCK);
        else
            print_defines(&defines, target, s);
        status = md_fa_product_emit_launch(&out->launch[i], target, &s->p, source[i], &defines);
        md_strbuf_finish(&defines);
    }
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

/* With packed operands alone the bits are those of gemm. Else they depend on how many rows a group has. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    if (config->value[FEW] == 0)
        return md_fa_class_product(target, config);
    return (md_fa_class){.group = "grouped", .field = {"few"}, .is_repeatable = true};
}

static const md_fa_kind kind = {.envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_host_gemm_grouped = {
    .name = "gemm_grouped",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .n_fields = 4,
    .field = {{"rows", 12, 4, {12, 8, 6, 4}},
              {"vecs", 2, 4, {2, 3, 4, 1}},
              {"depth", 256, 2, {256, 512}},
              {"few", 8, 3, {8, 16, 0}}}, /* rows of a group that are multiplied without packing its matrix */
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
