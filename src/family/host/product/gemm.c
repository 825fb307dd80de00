/* Family gemm: matrix products with packed operands (kernels/host/gemm.c). It takes every product stage in any
 * layout. */
#include "family/cost.h"
#include "family/host/product/host_gemm_fit.h"
#include "family/host/product/region.h"
#include "family/numeric.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, VECS, DEPTH, BLOCK };
enum { GROUP = 4, WIDTH = 2048 }; /* MD_GROUP, MD_WIDTH */
enum { PACKED_ROWS = 4, PACKED_DEPTH = 256 }; /* of the launch that packs, where they change nothing */

/* Accumulators of packed A that the private cache holds beside B. */
static int64_t near_of(const md_fa_target *target, const md_cg_product *product)
{
    return target->facts->l2_bytes / 2 / md_cg_product_acc_bytes(product);
}

md_tiling md_fa_host_tiling(const md_fa_target *target, const md_cg_product *product, const md_fa_host_tile *tile)
{
    int64_t lanes = md_cg_width(target->facts), pitch = tile->vecs * (lanes * 4 / md_cg_product_acc_bytes(product));
    bool is_along = md_cg_product_along(product, MD_CG_B) == MD_CG_ALONG_DEPTH;
    return (md_tiling){.rows = tile->rows,
                       .pitch = pitch,
                       .strip = pitch / product->n_products,
                       .group = GROUP,
                       .depth = tile->depth,
                       .lanes = lanes,
                       .near = is_along ? near_of(target, product) : 0};
}

/* True if a tile's accumulators, one register of B for each vector and one of A fit, and the accumulators are enough to
 * hide the latency of an fma. */
static bool fits_registers(const md_dev_facts *facts, int32_t rows, int32_t vecs)
{
    int32_t registers = facts->vector_bytes == 64 ? 32 : 16,
            spare = facts->vector_bytes == 16 ? 2 : 1; /* SSE needs one for the product, too */
    int32_t accumulators = rows * vecs;
    return accumulators + vecs + spare <= registers &&
           (accumulators >= (registers == 32 ? 20 : 8) || (vecs == 1 && rows >= 8));
}

bool md_fa_host_tile_is_legal(const md_fa_target *target, const md_cg_product *product, const md_fa_host_tile *tile)
{
    md_tiling t = md_fa_host_tiling(target, product, tile);
    return fits_registers(target->facts, tile->rows, tile->vecs) && t.rows <= t.lanes &&
           t.strip * product->n_products == t.pitch && (t.strip <= t.lanes || t.strip % t.lanes == 0);
}

static md_fa_host_tile tile_of(const md_fa_config *config)
{
    return (md_fa_host_tile){config->value[ROWS], config->value[VECS], config->value[DEPTH]};
}

/* Packed B is read strip by strip, so that packed A may stay near for the whole K however B lay. */
static md_tiling tiling_of(const md_fa_target *target, const md_fa_host_gemm_spec *spec)
{
    const md_fa_host_tile tile = tile_of(&spec->config);
    md_tiling t = md_fa_host_tiling(target, &spec->p, &tile);
    if (spec->packs)
        t.near = near_of(target, &spec->p);
    return t;
}

bool md_fa_host_gemm_spec_of(md_fa_host_gemm_spec *out, const md_fa_target *target, const md_fa_config *config)
{
    out->config = *config;
    out->packs = 0;
    const bool is_product = md_cg_product_of(&out->p, target->program, target->stage, MD_CG_COLUMNS_STORED);
    if (is_product)
        md_cg_product_pair_bf16(&out->p, target->facts);
    return is_product || md_cg_product_of(&out->p, target->program, target->stage, MD_CG_COLUMNS_SPANS);
}

bool md_fa_host_gemm_is_legal(const md_fa_target *target, const md_fa_host_gemm_spec *spec)
{
    const md_fa_host_tile tile = tile_of(&spec->config);
    return md_fa_host_tile_is_legal(target, &spec->p, &tile);
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_host_gemm_spec_of(out, target, config);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_host_gemm_spec s;
    (void)size;
    return spec_of(&s, target, config) && md_fa_host_gemm_is_legal(target, &s);
}

static const char *height_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    (void)envelope, (void)shape;
    return "tiles have more rows than a vector has lanes, which packing cannot fill";
}

void md_fa_host_tile_limit(md_kn_envelope *out, const md_tiling *t)
{
    if (t->rows > t->lanes)
        out->rule_miss = height_miss;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_tiling t = tiling_of(target, spec);
    md_fa_host_tile_limit(out, &t);
}

/* ---- Regions of the result */
typedef struct cut {
    int64_t regions; /* of one product of the batch */
    md_split split;
    double cycles; /* cycles of one region */
} cut;

/* Rows that the tiles of m rows compute: the last tile has one of three heights. */
static double padded_rows(double m, double rows)
{
    double whole = floor(m / rows) * rows, left = m - whole, third = floor((rows + 2) / 3),
           two_thirds = floor((2 * rows + 2) / 3);
    return whole + (left == 0 ? 0 : left <= third ? third : left <= two_thirds ? two_thirds : rows);
}

/* Cycles for packing an element: transposed in registers, copied, or one by one. */
static double pack_cycles(const md_fa_target *target, const md_cg_product *p, int32_t operand)
{
    md_cg_along along = md_cg_product_along(p, operand);
    double lanes = md_cg_width(target->facts);
    if (p->window[operand] && !p->load[operand] && !p->is_paired)
        return PACK_TRANSPOSED / lanes * (md_cg_product_acc_bytes(p) == 4 ? 1 : PACK_WIDE);
    if ((!p->load[operand] && md_cg_product_lane(p, operand) < 0) || along == MD_CG_ALONG_NEITHER)
        return PACK_ELEMENT;
    double cycles = along == MD_CG_ALONG_DEPTH ? PACK_TRANSPOSED / lanes : PACK_COPIED / lanes;
    return md_cg_product_acc_bytes(p) == 4 ? cycles : PACK_WIDE * cycles;
}

double md_fa_host_region_cycles(const md_fa_target *target, const md_fa_product *sized, const md_tiling *t,
                                md_split split)
{
    double m = (double)md_split_most(sized->rows, t->rows, split.rows),
           n = (double)md_split_most(sized->columns, t->strip, split.columns);
    double k = (double)sized->depth,
           vecs = (double)t->pitch / ((double)t->lanes * 4 / md_cg_product_acc_bytes(&sized->p)),
           rows = (double)t->rows;
    if (split.rows == 1)
        m = padded_rows((double)sized->rows, rows);
    double strips = ceil(n / (double)t->strip), steps = strips * m / rows * k;
    /* A cycle does two fma or two loads. A strip of B that leaves room in L1 for the panels of A is read a little
     * faster. */
    bool is_near = (double)t->pitch * fmin(k, (double)t->depth) * md_cg_product_acc_bytes(&sized->p) <=
                   L1_PART * (double)target->facts->l1_bytes;
    double step = fmax(rows * vecs / 2, (rows + vecs) / 2) / (is_near ? NEAR_RATE : FAR_RATE);
    double blocks = ceil(fmax(k, 1) / (double)t->depth), tiles = strips * ceil(m / rows) * blocks;
    double cycles =
        /* a tile is read and written once for each block of K */
        steps * step + tiles * TILE_CYCLES + strips * m * vecs * 2 * blocks;
    cycles += m * k * pack_cycles(target, &sized->p, MD_CG_A);
    for (int32_t i = 0; i < sized->p.n_products; i++)
        cycles += n * k * pack_cycles(target, &sized->p, MD_CG_B + i);
    return cycles + m * n / (double)t->lanes * (RESULT_CYCLES + sized->epilogue_ops);
}

void md_fa_host_tile_print(md_strbuf *defines, const md_fa_target *target, const md_cg_product *product,
                           const md_fa_host_tile *tile)
{
    md_strbuf_printf(defines,
                     "#define MD_ROWS %" PRId32 "\n#define MD_VECS %" PRId32 "\n#define MD_DEPTH %" PRId32
                     "\n#define MD_GROUP %d\n#define MD_NEAR %" PRId64 "\n",
                     tile->rows, tile->vecs, tile->depth, GROUP, md_fa_host_tiling(target, product, tile).near);
}

static int64_t clip(int64_t n, int64_t lo, int64_t hi)
{
    return n < lo ? lo : n > hi ? hi : n;
}

static double packing_cycles(const md_fa_target *target, const md_fa_product *sized, const md_tiling *t, md_split split)
{
    double cycles = 0;
    for (int32_t i = 0; i < sized->p.n_products; i++)
        cycles += pack_cycles(target, &sized->p, MD_CG_B + i);
    return cycles * (double)sized->depth * (double)md_split_most(sized->columns, t->strip, split.columns);
}

/* Of packed B. */
static int64_t strips_of(const md_fa_product *sized, const md_tiling *t)
{
    return (sized->columns + t->strip - 1) / t->strip;
}

static int64_t packed_bytes(const md_fa_product *sized, const md_tiling *t)
{
    return (strips_of(sized, t) * sized->depth * t->pitch * md_cg_product_acc_bytes(&sized->p) + 63) / 64 * 64;
}

/* Chooses the number of regions with the least estimated time, the smallest among nearly equal ones. */
static cut cut_of(const md_fa_target *target, const md_fa_product *sized, const md_fa_host_gemm_spec *spec)
{
    md_tiling t = tiling_of(target, spec);
    int64_t block = spec->config.value[BLOCK], threads = target->facts->threads > 1 ? target->facts->threads : 1;
    int64_t least = md_split_parts(sized->rows, block) * md_split_parts(sized->columns, WIDTH);
    int64_t most = clip(4 * threads / clip(sized->batch, 1, 4 * threads), 1, 4 * threads);
    cut best = {0};
    double best_time = 0;
    for (int64_t regions = least; regions <= (least > most ? least : most); regions++) {
        md_split split = md_split_of(regions, sized->rows, sized->columns, block, WIDTH);
        if (split.rows == 0)
            continue;
        double cycles = md_fa_host_region_cycles(target, sized, &t, split) -
                        (spec->packs ? packing_cycles(target, sized, &t, split) : 0),
               blocks = (double)regions * (double)sized->batch;
        double time = ceil(blocks / (double)threads) * cycles + (blocks > 1 ? WAKE_CYCLES : 0);
        if (best.regions == 0 || time < best_time * 0.99) {
            best_time = time;
            best = (cut){regions, split, cycles};
        }
    }
    return best;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_host_gemm_spec *s = spec;
    md_fa_product sized;
    md_fa_product_measure(&sized, target, &s->p, shape->size);
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    cut plan = cut_of(target, &sized, s);
    md_scratch scratch = md_scratch_of(tiling_of(target, s), plan.split, sized.rows, sized.columns, sized.depth);
    const int32_t main = s->packs != 0;
    out->launch[main].blocks = plan.regions * sized.batch;
    out->launch[main].scratch_bytes = scratch.all * md_cg_product_acc_bytes(&s->p);
    if (!s->packs)
        return;
    const md_tiling t = tiling_of(target, s);
    out->launch[0].blocks = strips_of(&sized, &t);
    out->packed_bytes = packed_bytes(&sized, &t);
    out->workspace_bytes = out->packed_bytes;
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_host_gemm_spec *s = known;
    md_fa_product sized;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    md_fa_product_measure(&sized, target, &s->p, size);
    if (sized.batch == 0 || sized.rows == 0 || sized.columns == 0)
        return;
    sized.depth = sized.span;
    cut plan = cut_of(target, &sized, s);
    double blocks = (double)plan.regions * (double)sized.batch,
           results = (double)sized.batch * (double)sized.rows * (double)sized.columns;
    out->ops = md_fa_product_cycles(target, plan.cycles * blocks);
    out->transcendental = results * sized.epilogue_transcendental;
    out->memory_bytes = sized.bytes;
    if (s->packs) {
        const md_tiling t = tiling_of(target, s);
        out->memory_bytes += (double)packed_bytes(&sized, &t) - md_fa_product_b_bytes(&sized);
    }
    out->cache_bytes = sized.a_bytes * (double)(plan.split.columns - 1) +
                       fmax(sized.bytes - sized.a_bytes, 0) * (double)(plan.split.rows - 1);
    out->parallel = md_fa_host_parallel(blocks, target->facts);
}

static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_host_gemm_spec *s)
{
    const md_fa_host_tile tile = tile_of(&s->config);
    md_fa_host_tile_print(out, target, &s->p, &tile);
    md_strbuf_printf(out, "#define MD_BLOCK %" PRId32 "\n#define MD_WIDTH %d\n", s->config.value[BLOCK], WIDTH);
}

/* All variants with as many columns in a strip have one text that packs, and read what it made. */
static md_status emit_packing(md_kn_source *out, const md_fa_target *target, const md_fa_host_gemm_spec *s)
{
    md_strbuf defines = {0};
    const md_fa_host_tile tile = {PACKED_ROWS, s->config.value[VECS], PACKED_DEPTH};
    md_fa_host_tile_print(&defines, target, &s->p, &tile);
    out->launch[0].role = "gemm_pack";
    const md_status status = md_fa_product_emit_packed(&out->launch[0], target, &s->p, "host/gemm_pack.c", &defines);
    md_strbuf_finish(&defines);
    return status;
}

static md_status emit_packed(md_kn_source *out, const md_fa_target *target, const md_fa_host_gemm_spec *s)
{
    md_strbuf defines = {0};
    const md_tiling t = tiling_of(target, s);
    print_defines(&defines, target, s);
    md_strbuf_printf(&defines, "#undef MD_NEAR\n#define MD_NEAR %" PRId64 "\n#define MD_PACKED_ONCE 1\n", t.near);
    out->n_launches = 2;
    out->packs = s->packs;
    md_status status = emit_packing(out, target, s);
    if (status == MD_OK)
        status = md_fa_product_emit_packed(&out->launch[1], target, &s->p, "host/gemm.c", &defines);
    md_strbuf_finish(&defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_host_gemm_spec *s = spec;
    md_strbuf defines = {0};
    if (s->packs)
        return emit_packed(out, target, s);
    print_defines(&defines, target, s);
    return md_fa_product_emit(out, target, &s->p, "host/gemm.c", &defines);
}

/* Pairs of bf16 are added by an instruction that rounds in its own way. */
md_fa_class md_fa_host_gemm_class(const md_fa_target *target, const md_fa_config *config)
{
    md_fa_host_gemm_spec s;
    md_fa_class class = md_fa_class_product(target, config);
    if (md_fa_host_gemm_spec_of(&s, target, config) && md_cg_product_pairs_bf16(&s.p))
        class.group = "product_pairs";
    return class;
}

const md_fa_kind md_fa_host_gemm_kind = {
    .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_host_gemm = {
    .name = "gemm",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .n_fields = 4,
    .field = {{"rows", 12, 4, {12, 8, 6, 4}},
              {"vecs", 2, 4, {2, 3, 4, 1}},
              {"depth", 256, 2, {256, 512}},
              {"block", 480, 3, {480, 240, 120}}},
    .kind = &md_fa_host_gemm_kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = md_fa_host_gemm_class,
};
