/* Family gemm_quantised: products of operands of 4, 8 and 16 bits by mma.sync (kernels/cuda/gemm_quantised.cu):
 * integers, whose sums are exact; reals of 8 bits; weights of few bits that are widened in registers, with scales and
 * zero points of runs of K. */
#include "family/cuda/cuda.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/gemm_quantised_fit.h"
#include "family/cuda/product/wgmma_cost.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, STAGES, SPLIT, DEPTH, WARPS_DEPTH };
enum { QPARAM_A, QPARAM_B, QPARAM_ZERO }; /* scales of A, of B; zeros */
enum {
    WARP_COLUMNS = 32,
    RASTER = 8,
    STEP_DEPTH = 32,
    MOST_SUMS = 64,
    FEW_SUMS = 16,
    FEW_PIECES = 6,
    MOST_WITH_QPARAMS = 32,
    MOST_THREADS = 256
};

typedef struct quantised_spec {
    md_fa_cuda_tiled tiled;
    md_dtype type; /* in which loads are multiplied */
    int32_t run, most_depth; /* as md_cg_quantised_product; a run is at most a stage, a step without scales */
    int32_t whole_run; /* which a stage may have a part of */
    int32_t rows, columns, stages, split, depth, warps_rows, warps_columns, warps_depth;
    int32_t blocks; /* of an SM that registers must leave room for */
    bool has_scale[2], has_zero;
    md_dtype qparam[3]; /* of scales of A and of B, of zeros, if those of runs may lie side by side; F64: others */
} quantised_spec;
_Static_assert(sizeof(quantised_spec) <= sizeof(md_fa_spec), "there is room for it");

static bool has_qparams(const quantised_spec *s)
{
    return s->has_scale[0] || s->has_scale[1] || s->has_zero;
}

static md_dtype dtype_of(const quantised_spec *s, int32_t operand)
{
    return md_cg_product_dtype(&s->tiled.p, s->tiled.p.load[operand]);
}

static int64_t line_bytes(const quantised_spec *s, int32_t operand)
{
    return (int64_t)s->depth * md_dtype_bits(dtype_of(s, operand)) / 8;
}

/* True if qparams of a line's runs are what one asynchronous copy moves, of a tensor where they lie side by side. */
static bool lies(const quantised_spec *s, int32_t qparam)
{
    const int64_t bytes = (int64_t)md_dtype_size(s->qparam[qparam]) * (s->depth / s->run);
    return s->qparam[qparam] != MD_F64 && (bytes == 4 || bytes == 8 || bytes == 16);
}

static int64_t qparam_bytes(const quantised_spec *s, int32_t qparam)
{
    return s->depth / s->run * (lies(s, qparam) ? (int64_t)md_dtype_size(s->qparam[qparam]) : 4);
}

static int64_t shared_of(const quantised_spec *s)
{
    const int64_t products = s->tiled.p.n_products, qparams = s->rows * s->has_scale[0] * qparam_bytes(s, QPARAM_A) +
                                                              products * s->columns *
                                                                  (s->has_scale[1] * qparam_bytes(s, QPARAM_B) +
                                                                   s->has_zero * qparam_bytes(s, QPARAM_ZERO));
    const int64_t stage = (s->rows * line_bytes(s, MD_CG_A) + products * s->columns * line_bytes(s, MD_CG_B) + qparams +
                           15) /
                          16 * 16,
                  results = products * s->rows * (s->columns + 4) * 4 * s->warps_depth;
    return MD_MAX(s->stages * stage, results);
}

/* The type of scales or zeros that are loads of one type, and count runs of the spec's length. */
static md_dtype qparam_of(const quantised_spec *s, const md_cg_quantised_product *q, int32_t qparam)
{
    const int32_t last = qparam == QPARAM_A ? MD_CG_A : s->tiled.p.n_products;
    md_dtype type = MD_F64;
    for (int32_t o = qparam == QPARAM_A ? MD_CG_A : MD_CG_B; o <= last; o++) {
        const md_fx_node *load = md_cg_quantised_qparam(&q->operand[o], qparam == QPARAM_ZERO);
        const md_dtype dtype = load ? md_cg_product_dtype(&s->tiled.p, load) : MD_F64;
        if ((dtype != MD_F32 && dtype != MD_BF16 && dtype != MD_F16) || q->operand[o].run != s->run ||
            (type != MD_F64 && type != dtype))
            return MD_F64;
        type = dtype;
    }
    return type;
}

/* Pieces of 16 bytes of an operand in a stage, and of both. */
static int64_t pieces_of_operand(const quantised_spec *s, int32_t operand)
{
    const int64_t lines = operand == MD_CG_A ? s->rows : (int64_t)s->tiled.p.n_products * s->columns;
    return lines * line_bytes(s, operand) / 16;
}

static int64_t pieces_of(const quantised_spec *s)
{
    return pieces_of_operand(s, MD_CG_A) + pieces_of_operand(s, MD_CG_B);
}

/* True if half the registers do: few sums and pieces, and no qparams wait in them. */
static bool needs_few_registers(const quantised_spec *s, int32_t threads)
{
    const bool all_lie = (!s->has_scale[0] || lies(s, QPARAM_A)) && (!s->has_scale[1] || lies(s, QPARAM_B)) &&
                         (!s->has_zero || lies(s, QPARAM_ZERO));
    return s->tiled.p.n_products == 1 && all_lie && pieces_of(s) <= FEW_PIECES * threads &&
           s->rows * s->columns * s->warps_depth <= FEW_SUMS * threads;
}

/* Registers that a thread is expected to take; with qparams kernels were seen to take all. */
static int32_t registers_of(const quantised_spec *s, int32_t threads, bool has_room)
{
    enum { OTHERS = 64, MOST = 255, FEW = 128 };
    const int64_t sums = (int64_t)s->rows * s->columns * s->tiled.p.n_products * s->warps_depth / threads,
                  pieces = 4 * pieces_of(s) / threads;
    if (has_room)
        return FEW;
    return has_qparams(s) ? MOST : (int32_t)MD_MIN(OTHERS + sums + pieces, MOST);
}

static void set_tile(quantised_spec *s, const md_fa_target *target, const md_fa_config *config,
                     const md_cg_quantised_product *q)
{
    const int32_t *v = config->value;
    s->rows = v[ROWS];
    s->columns = v[COLUMNS] / s->tiled.p.n_products;
    s->stages = v[STAGES];
    s->split = v[SPLIT];
    s->depth = v[DEPTH];
    s->warps_depth = v[WARPS_DEPTH];
    s->whole_run = q->run;
    s->run = has_qparams(s) ? md_cg_common_divisor(q->run, s->depth) : STEP_DEPTH;
    for (int32_t i = QPARAM_A; i <= QPARAM_ZERO; i++)
        s->qparam[i] = qparam_of(s, q, i);
    s->warps_rows = s->rows >= 64 ? 2 : 1;
    s->warps_columns = MD_MAX(s->columns * s->tiled.p.n_products / WARP_COLUMNS, 1);
    md_fa_cuda_tiles *t = &s->tiled.tiles;
    const int32_t threads = 32 * s->warps_rows * s->warps_columns * s->warps_depth,
                  blocks = MD_MAX(MOST_THREADS / threads, 1);
    const bool has_room = needs_few_registers(s, threads);
    s->blocks = has_room ? 2 * blocks : blocks;
    const md_fa_cuda_load load = {
        .threads = threads, .registers = registers_of(s, threads, has_room), .shared_bytes = shared_of(s)};
    *t = (md_fa_cuda_tiles){.threads = threads,
                            .shared_bytes = load.shared_bytes,
                            .rows = s->rows,
                            .columns = s->columns,
                            .split = s->split,
                            .resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1)};
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    quantised_spec *s = out;
    md_cg_quantised_product q;
    if (!md_fa_cuda_product_of(&s->tiled.p, target) || !md_cg_quantised_of(&q, &s->tiled.p))
        return false;
    s->type = q.type;
    s->most_depth = q.most_depth;
    s->has_scale[0] = q.has_scale[0];
    s->has_scale[1] = q.has_scale[1];
    s->has_zero = q.has_zero;
    set_tile(s, target, config, &q);
    /* More indices of K have no limit that an envelope can state. */
    return s->most_depth == INT32_MAX || md_fa_stage(target)->product.n_k == 1;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    quantised_spec s;
    if (!spec_of(&s, target, config))
        return false;
    const int32_t threads = s.tiled.tiles.threads, sums = s.rows * s.columns * s.tiled.p.n_products * s.warps_depth;
    if (threads > MOST_THREADS || threads < 64 || s.columns < 16 || s.rows > 4 * s.columns ||
        sums > (has_qparams(&s) ? MOST_WITH_QPARAMS : MOST_SUMS) * threads || s.depth / STEP_DEPTH % s.warps_depth)
        return false;
    if (s.warps_depth > 1 && s.rows > 64) /* they are for few rows, where there are few tiles */
        return false;
    return s.tiled.tiles.shared_bytes <= target->facts->shared_per_block &&
           md_fa_cuda_product_is_worth_trying(target, &s.tiled.p, &s.tiled.tiles, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const quantised_spec *s = spec;
    const md_st_product *product = &md_fa_stage(target)->product;
    if (s->most_depth < INT32_MAX)
        out->hi[target->program->index[product->k[0]].dim] = s->most_depth;
}

/* ---- Cost: these kernels wait for instructions more than for anything else. */

/* Instructions in which a warp widens what each thread has of a line in a step. */
static double widening(const quantised_spec *s, int32_t operand)
{
    const md_dtype dtype = dtype_of(s, operand);
    const int32_t bits = md_dtype_bits(dtype);
    if (s->type == MD_I32)
        return bits == 4 ? WIDEN_HALVES / 2 : 0;
    return bits == 16 ? 0 : bits == 4 ? WIDEN_HALVES : s->type == MD_F16 ? WIDEN_TO_F16 : WIDEN_BYTES;
}

/* True if lines of an operand along K begin anywhere: their pieces are loaded element by element. */
static bool is_odd(const quantised_spec *s, int32_t operand, int64_t depth)
{
    return depth * md_dtype_bits(dtype_of(s, operand)) % 128;
}

/* Instructions of all warps of a block to copy an operand's pieces of a stage. */
static double copying(const quantised_spec *s, int32_t operand, int64_t depth)
{
    const int32_t bits = md_dtype_bits(dtype_of(s, operand));
    const double a_piece = !is_odd(s, operand, depth) ? PIECE
                           : bits < 8                 ? ODD_PART * 128 / bits
                                                      : (bits > 8 ? ODD_HALF : ODD_ELEMENT) * 128 / bits;
    return a_piece * (double)pieces_of_operand(s, operand) / 32;
}

/* Qparams of a stage that lie side by side, in lines that begin anywhere: these are loaded one by one. */
static double odd_qparams(const quantised_spec *s, int64_t depth)
{
    double n = 0;
    for (int32_t i = QPARAM_A; i <= QPARAM_ZERO; i++) {
        const int32_t lines = i == QPARAM_A ? s->rows : s->tiled.p.n_products * s->columns, runs = s->depth / s->run;
        if (lies(s, i) && (depth + s->whole_run - 1) / s->whole_run % runs)
            n += (double)lines * runs;
    }
    return n;
}

/* Instructions of all warps of a block for a stage. */
static double instructions(const quantised_spec *s, int64_t depth)
{
    const double sums = (double)s->rows / 16 * s->columns / 8 * s->tiled.p.n_products, /* of warps */
        lines_a = (double)s->rows / 8 * s->warps_columns,
                 lines_b = (double)s->columns / 8 * s->tiled.p.n_products * s->warps_rows;
    double step = lines_a * (1 + widening(s, MD_CG_A)) + lines_b * (1 + widening(s, MD_CG_B)) + sums * 2 * MULTIPLY;
    if (has_qparams(s))
        step += (sums * QPARAM_SUMS + lines_b * QPARAM_LINE) * STEP_DEPTH / MD_MIN(s->run, s->depth / s->warps_depth);
    return step * s->depth / STEP_DEPTH + copying(s, MD_CG_A, depth) + copying(s, MD_CG_B, depth) +
           ODD_QPARAM * odd_qparams(s, depth) / 32;
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const quantised_spec *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    const double sms = MD_MAX(target->facts->threads, 1),
                 results = (double)sized->batch * (double)sized->rows * (double)sized->columns * sized->p.n_products;
    const double blocks = (double)sized->batch * ceil((double)sized->rows / s->rows) *
                          ceil((double)sized->columns / s->columns) * s->split,
                 stages = ceil((double)sized->depth / s->depth / s->split);
    const double clock = target->facts->gflops / (sms * FLOPS_A_CLOCK), /* GHz */
        rounds = ceil(blocks / sms), together = fmin(rounds, s->tiled.tiles.resident),
                 warps = fmin(together * s->tiled.tiles.threads / 32, ENOUGH_WARPS);
    const double issued = ISSUED * pow(warps / ENOUGH_WARPS, FEWER_WARPS),
                 issue = rounds * stages * instructions(s, sized->depth) / (issued * clock * 1e3),
                 memory = sized->bytes / (md_fa_cuda_bytes_per_us(target->facts) * MEMORY),
                 waiting =
                     ceil(blocks / (sms * s->tiled.tiles.resident)) * stages *
                     ((is_odd(s, MD_CG_A, sized->depth) || is_odd(s, MD_CG_B, sized->depth) ? ODD_LATENCY : LATENCY) +
                      (odd_qparams(s, sized->depth) > 0 ? ODD_QPARAM_LATENCY : 0));
    const double us = sqrt(issue * issue + memory * memory + waiting * waiting) + START +
                      (s->split > 1 ? SUM + results * s->split / SUM_RATE : 0) +
                      md_fa_cuda_product_epilogue_us(sized) * results / (sms * 128);
    md_fa_cuda_product_time_features(out, us, s->split > 1 ? 2 : 1);
}

static void print_qparams(md_strbuf *out, const quantised_spec *s)
{
    static const char *const name[] = {"SCALE_LIES_0", "SCALE_LIES_1", "ZERO_LIES"}, *const kind[] = {"SCALE_KIND_0",
                                                                                                      "SCALE_KIND_1",
                                                                                                      "ZERO_KIND"};
    for (int32_t i = QPARAM_A; i <= QPARAM_ZERO; i++)
        md_strbuf_printf(out, "#define MD_%s %d\n#define MD_%s MD_OF_%s\n", name[i], lies(s, i), kind[i],
                         !lies(s, i) || s->qparam[i] == MD_F32 ? "F32"
                         : s->qparam[i] == MD_BF16             ? "BF16"
                                                               : "F16");
}

static void print_defines(md_strbuf *out, const quantised_spec *s)
{
    static const char *const kind[] = {
        [MD_BF16] = "BF16", [MD_F16] = "F16", [MD_F8E4M3] = "F8E4M3", [MD_F8E5M2] = "F8E5M2",
        [MD_I8] = "I8",     [MD_U8] = "U8",   [MD_I4] = "I4",         [MD_U4] = "U4"};
    const struct {
        const char *name;
        int32_t value;
    } list[] = {{"BM", s->rows},
                {"BN", s->columns},
                {"BK", s->depth},
                {"WARPS_M", s->warps_rows},
                {"WARPS_N", s->warps_columns},
                {"WARPS_K", s->warps_depth},
                {"STAGES", s->stages},
                {"RASTER", RASTER},
                {"BLOCKS", s->blocks},
                {"IS_INTEGER", s->type == MD_I32},
                {"RUN", s->run},
                {"HAS_SCALE_0", s->has_scale[0]},
                {"HAS_SCALE_1", s->has_scale[1]},
                {"HAS_ZERO", s->has_zero}};
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId32 "\n", list[i].name, list[i].value);
    for (int32_t o = MD_CG_A; o <= MD_CG_B; o++)
        md_strbuf_printf(out, "#define MD_KIND_%" PRId32 " MD_OF_%s\n#define MD_SIGN_%" PRId32 " %s\n", o,
                         kind[dtype_of(s, o)], o, md_dtype_is_unsigned(dtype_of(s, o)) ? "u8" : "s8");
    print_qparams(out, s);
    md_strbuf_printf(out, "#define MD_MULTIPLY %s\n", s->type == MD_I32 ? "s32" : s->type == MD_BF16 ? "bf16" : "f16");
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const quantised_spec *s = spec;
    md_strbuf defines = {0};
    md_cg_product p;
    md_cg_quantised_product q;
    if (!md_fa_cuda_product_of(&p, target) || !md_cg_quantised_of(&q, &p))
        return md_fail(MD_INTERNAL, "operands of few bits are none any more");
    p.quantised = &q;
    print_defines(&defines, s);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_quantised.cu", .lanes = 4, .split = s->split};
    return md_fa_cuda_product_emit(out, target, &p, &text, &defines);
}

/* Integers are exact in any order. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    quantised_spec s;
    const bool is_exact = spec_of(&s, target, config) && s.type == MD_I32 && !has_qparams(&s);
    return is_exact ? (md_fa_class){.group = "gemm_integers", .is_repeatable = true, .is_invariant = true}
                    : (md_fa_class){.group = "gemm_quantised",
                                    .field = {"split", "depth", "warps_depth"},
                                    .is_repeatable = true,
                                    .is_invariant = true};
}

static const md_fa_kind kind = {.checks_config = true,
                                .envelope = envelope,
                                .features = features,
                                .emit = emit,
                                .geometry = md_fa_cuda_tiled_geometry};

const md_fa_family md_fa_cuda_gemm_quantised = {
    .name = "gemm_quantised",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .n_fields = 6,
    .field = {{"rows", 64, 4, {128, 64, 32, 16}},
              {"columns", 64, 4, {128, 64, 32, 16}},
              {"stages", 4, 3, {4, 3, 8}},
              {"split", 1, 4, {1, 2, 4, 8}},
              {"depth", 128, 2, {128, 256}}, /* steps of K of a stage */
              {"warps_depth", 1, 4, {1, 2, 4, 8}}}, /* warps that share them */
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
