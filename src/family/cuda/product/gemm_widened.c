/* Family gemm_widened: products of few rows of 16-bit activations with constant weights of 4 or 8 bits on Hopper's
 * tensor cores (kernels/cuda/gemm_widened.cu). The weights are packed once, and widened in registers, which the
 * instruction takes; scales and zero points of runs of K come to the sums in f32. Only for ops with `constant`.
 * `direct`: few rows by instructions of warps (kernels/cuda/gemm_widened_few.cu), each of so many times 16
 * columns, whose weights go straight to registers. */
#include "family/cuda/cuda.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/gemm_widened_cost.h"
#include "family/cuda/product/wgmma_cost.h"
#include "family/cuda/wgmma.h"
#include "family/emit.h"

#include <inttypes.h>
#include <math.h>

enum { ROWS, COLUMNS, DEPTHS, SPLIT, BLOCKS, DIRECT, AHEAD };
enum {
    LONGEST_RUN = 128,
    MOST_SHARED = 230400,
    RESERVE = 2048, /* bytes of shared memory that the device and the alignment of the ring take */
    LEAST_STAGES = 3,
    MOST_STAGES = 16, /* of 64 of K */
    PACK_THREADS = 256,
    MOST_THREADS = 1024,
    MOST_DIRECT = 16, /* rows of which pools have direct ones */
    MOST_TOGETHER = 64, /* rows that one tile has in pools */
    OTHER_REGISTERS = 64, /* of a thread, besides sums */
    OTHER_OF_DIRECT = 48,
    ZEROS_OF_DIRECT = 112
};

_Static_assert(sizeof(md_fa_widened) <= sizeof(md_fa_spec), "there is room for it");

static int64_t chunk_bytes(const md_fa_widened *s)
{
    return INT64_C(512) * md_dtype_bits(s->weights);
}

/* Words of a unit, and sums of tiles of 16 columns, and of their runs. */
static int32_t direct_registers(const md_fa_widened *s)
{
    return s->tiles * (s->chunks * md_dtype_bits(s->weights) + s->rows / 2 * (1 + (s->run > 0))) + s->rows * s->chunks +
           (s->has_zero ? ZEROS_OF_DIRECT : 0) + OTHER_OF_DIRECT;
}

static int32_t registers_of(const md_fa_widened *s)
{
    if (s->tiles)
        return direct_registers(s);
    return s->rows / 2 * (1 + (s->run > 0) + s->has_zero) + OTHER_REGISTERS;
}

/* The compiler counts threads of whole warpgroups. */
static int32_t warpgroups(const md_fa_widened *s)
{
    if (s->tiles)
        return s->threads;
    return 128 * (s->groups * s->depths + 1);
}

static void set_tile(md_fa_widened *s, const md_fa_config *config)
{
    s->rows = config->value[COLUMNS];
    s->width = config->value[ROWS];
    s->groups = s->width / 64;
    s->split = config->value[SPLIT];
    s->blocks = config->value[BLOCKS];
    s->depths = config->value[DEPTHS];
    s->threads = 128 * s->groups * s->depths + 32;
    s->chunks = s->run == LONGEST_RUN || s->run == 0 ? 2 : 1;
    s->tiles = config->value[DIRECT];
    s->ahead = config->value[AHEAD];
    if (s->tiles) {
        s->threads = 32 * (s->width / 16 / s->tiles) * s->depths;
        s->stages = 0;
        s->shared_bytes = INT64_C(2) * s->depths * s->rows * (s->width + 4) * 4;
        if (s->ahead > 1) /* units that are under way to each warp: words and activations */
            s->shared_bytes += (int64_t)(s->threads / 32) * s->ahead * s->chunks * 128 *
                               (s->tiles * md_dtype_bits(s->weights) + s->rows);
        return;
    }
    const int64_t stage = s->chunks * (s->rows * 128 + s->groups * chunk_bytes(s)),
                  sums = (int64_t)s->depths * s->rows * (64 * s->groups + 4) * 4;
    const int64_t most = MOST_SHARED / s->blocks - RESERVE,
                  alone = s->blocks == 1 ? MOST_SHARED / 2 : 0; /* so much that no other block has room beside it */
    s->stages = (int32_t)MD_MIN(most / (stage + 16), MOST_STAGES / s->chunks);
    s->shared_bytes = MD_MAX(MD_MAX(s->stages * stage, sums) + 1024 + s->stages * 16, alone);
}

/* The ring and the sums of a tile have room. */
static bool fits(const md_fa_widened *s, const md_dev_facts *facts)
{
    if (s->tiles ? s->width / 16 % s->tiles != 0 : s->groups == 0 || s->ahead != 1)
        return false;
    const int32_t registers = facts->registers_per_sm / (warpgroups(s) * s->blocks) / 8 * 8;
    return s->threads <= MOST_THREADS && registers_of(s) <= MD_MIN(registers, 255) &&
           (s->tiles || s->stages >= MD_MAX(LEAST_STAGES, s->depths)) && s->shared_bytes <= MOST_SHARED / s->blocks;
}

static bool has_plain_rows(const md_cg_product *p)
{
    md_kn_map map;
    return md_cg_product_along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && md_fa_cuda_map_operand(&map, p, MD_CG_A) &&
           (map.dtype == MD_BF16 || map.dtype == MD_F16);
}

/* The type of scales or zeros that are loads of one, and count runs of the spec's length. */
static md_dtype qparam_of(const md_fa_widened *s, const md_cg_quantised_product *q, bool is_zero)
{
    const md_fx_node *load = md_cg_quantised_qparam(&q->operand[MD_CG_B], is_zero);
    const md_dtype dtype = load ? md_cg_product_dtype(&s->p, load) : MD_F64;
    return (dtype == MD_F32 || dtype == MD_BF16 || dtype == MD_F16) && q->operand[MD_CG_B].run == s->run ? dtype
                                                                                                         : MD_F64;
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_widened *s = out;
    md_cg_quantised_product q;
    *s = (md_fa_widened){.split = 0};
    if (target->facts->capability != 90 || !target->constants || !md_fa_cuda_product_of(&s->p, target) ||
        !md_cg_quantised_of(&q, &s->p) || q.type == MD_I32 || q.has_scale[0] || s->p.n_products != 1 ||
        md_fa_stage(target)->product.n_k != 1 || !has_plain_rows(&s->p))
        return false;
    s->weights = md_cg_product_dtype(&s->p, s->p.load[MD_CG_B]);
    s->packs = md_fa_product_constants(target, &s->p);
    s->type = q.type;
    s->has_scale = q.has_scale[1];
    s->has_zero = q.has_zero;
    const bool has_runs = md_cg_quantised_has_qparams(&q) && q.run < MD_CG_LONGEST_RUN;
    s->run = has_runs ? md_cg_common_divisor(q.run, LONGEST_RUN) : 0;
    s->most_depth = md_cg_quantised_has_qparams(&q) && !has_runs ? q.run : INT32_MAX;
    s->scale = qparam_of(s, &q, false);
    s->zero = qparam_of(s, &q, true);
    set_tile(s, config);
    return s->packs != 0 && md_dtype_bits(s->weights) <= 8;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_widened s;
    md_fa_product sized;
    if (!spec_of(&s, target, config) || !fits(&s, target->facts))
        return false;
    if (!size)
        return true;
    md_fa_product_measure(&sized, target, &s.p, size);
    /* at most half of a tile's rows are none */
    return s.rows == 8 || s.rows < 2 * sized.rows;
}

/* Up to 16 rows are made by warps, too; a tile has all rows, as others would widen its weights again. */
static bool takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size)
{
    md_cg_product p;
    if (!size || !md_fa_cuda_product_of(&p, target))
        return true;
    const int64_t rows = md_st_points(target->program, p.n_rows, p.rows, size);
    const bool is_few = rows <= MOST_DIRECT;
    switch (field) {
    case ROWS:
        return value >= 64 || is_few;
    case COLUMNS:
        return rows <= 8 ? value == 8 : value >= MD_MIN(rows, MOST_TOGETHER);
    case DEPTHS:
        return value <= 4 || is_few;
    case DIRECT:
        return value == 0 || is_few;
    case AHEAD:
        return value == 1 || is_few;
    default:
        return true;
    }
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_widened *s = spec;
    md_kn_map map;
    for (int32_t d = 0; d < target->program->formula->n_dims; d++) {
        out->lo[d] = 1;
        out->hi[d] = INT32_MAX;
    }
    out->hi[target->program->index[md_fa_stage(target)->product.k[0]].dim] = s->most_depth;
    if (md_fa_cuda_map_operand(&map, &s->p, MD_CG_A))
        md_fa_cuda_map_needs(out, &map, true);
}

/* ---- Sizes and cost */
static int64_t packed_bytes(const md_fa_widened *s, const md_fa_product *sized)
{
    return (sized->columns + 63) / 64 * md_fa_widened_chunks(s, sized->depth) * chunk_bytes(s);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_widened *s = known;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    const double sms = MD_MAX(target->facts->threads, 1), results = (double)sized->rows * (double)sized->columns,
                 epilogue = md_fa_cuda_product_epilogue_us(sized) * results / (sms * 128);
    md_fa_cuda_product_time_features(out, md_fa_widened_us(s, target->facts, sized) + epilogue, 1);
}
/* ---- Text */
static void print_instruction(md_strbuf *out, const md_fa_widened *s)
{
    const char *type = s->type == MD_BF16 ? "bf16" : "f16";
    const md_fa_cuda_wgmma wgmma = {.name = "md_wgmma",
                                    .a = type,
                                    .b = type,
                                    .columns = s->rows,
                                    .depth = 16,
                                    .keeps = MD_FA_WGMMA_ASKED,
                                    .is_in_registers = true,
                                    .order = ", 0"};
    md_fa_cuda_wgmma_print(out, &wgmma);
}

/* What both launches want: variants with equal ones share what is packed. */
static void print_packing(md_strbuf *out, const md_fa_widened *s)
{
    static const char *const kind[] = {
        [MD_F8E4M3] = "F8E4M3", [MD_F8E5M2] = "F8E5M2", [MD_I8] = "I8", [MD_U8] = "U8", [MD_I4] = "I4", [MD_U4] = "U4"};
    const md_fa_define list[] = {{"BK", MD_FA_WIDENED_DEPTH}, {"CHUNKS", s->chunks}, {"IS_INTEGER", 0}};
    md_fa_print_defines(out, list, MD_COUNT(list));
    md_strbuf_printf(out, "#define MD_KIND_1 MD_OF_%s\n#define MD_MULTIPLY %s\n", kind[s->weights],
                     s->type == MD_BF16 ? "bf16" : "f16");
}

static void print_qparam(md_strbuf *out, const char *lies, const char *kind, md_dtype dtype)
{
    md_strbuf_printf(out, "#define MD_%s %d\n#define MD_%s MD_OF_%s\n", lies, dtype != MD_F64, kind,
                     dtype == MD_BF16  ? "BF16"
                     : dtype == MD_F16 ? "F16"
                                       : "F32");
}

static void print_defines(md_strbuf *out, const md_fa_widened *s)
{
    const md_fa_define list[] = {{"GROUPS", s->groups},       {"DEPTHS", s->depths},     {"BN", s->rows},
                                 {"STAGES", s->stages},       {"BLOCKS", s->blocks},     {"RUN", s->run},
                                 {"HAS_SCALE", s->has_scale}, {"HAS_ZERO", s->has_zero}, {"TILES", s->tiles},
                                 {"WIDTH", s->width},         {"AHEAD", s->ahead}};
    print_packing(out, s);
    md_fa_print_defines(out, list, MD_COUNT(list));
    print_qparam(out, "SCALE_LIES_1", "SCALE_KIND_1", s->scale);
    print_qparam(out, "ZERO_LIES", "ZERO_KIND", s->zero);
    if (!s->tiles)
        print_instruction(out, s);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_widened *s = spec;
    md_strbuf defines = {0}, packing = {0};
    md_cg_product p = s->p;
    md_cg_quantised_product q;
    md_kn_map map;
    if (!fits(s, target->facts))
        return md_fail(MD_UNSUPPORTED, "the tile has more sums than registers, or than shared memory holds");
    if (!md_fa_cuda_product_of(&p, target) || !md_cg_quantised_of(&q, &p) || !md_fa_cuda_map_operand(&map, &p, MD_CG_A))
        return md_fail(MD_INTERNAL, "operands of few bits are none any more");
    map.box[0] = MD_FA_WIDENED_DEPTH;
    map.box[1] = (uint16_t)s->rows;
    map.box[2] = 1;
    map.swizzle = 128;
    p.quantised = &q;
    print_defines(&defines, s);
    print_packing(&packing, s);
    md_strbuf_add(&packing, "#define MD_SPLIT 1\n");
    const md_fa_cuda_product_text text = {.source = s->tiles ? "cuda/gemm_widened_few.cu" : "cuda/gemm_widened.cu",
                                          .lanes = 4,
                                          .split = s->split,
                                          .is_cluster_reduced = true,
                                          .begin = "cuda/gemm_widen_pack.cu",
                                          .begin_role = "gemm_widen_pack",
                                          .begin_defines = md_strbuf_text(&packing),
                                          .packs = true,
                                          .n_maps = s->tiles ? 0 : 1,
                                          .map = &map};
    const md_status status =
        packing.failed ? md_fail_memory() : md_fa_cuda_product_emit(out, target, &p, &text, &defines);
    md_strbuf_finish(&packing);
    out->packs = s->packs;
    return status;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_widened *s = spec;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    out->launch[1].grain = 1;
    if (!sized)
        return;
    out->packed_bytes = packed_bytes(s, sized);
    out->workspace_bytes = out->packed_bytes;
    out->launch[0] =
        md_fa_cuda_launch(MD_MIN((out->packed_bytes / 16 + PACK_THREADS - 1) / PACK_THREADS, 1 << 20), PACK_THREADS);
    md_kn_geometry *g = &out->launch[1];
    int64_t blocks = (int64_t)md_fa_widened_blocks(s, sized);
    if (s->tiles)
        blocks = MD_MIN(blocks, md_fa_widened_at_once(s, target->facts));
    *g = md_fa_cuda_launch(blocks, s->threads);
    g->cluster = s->split;
    g->scratch_bytes = s->shared_bytes;
    g->overlaps = md_fa_cuda_product_overlaps(sized);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    return (md_fa_class){.group = config->value[DIRECT] ? "gemm_widened_few" : "gemm_widened",
                         .field = {"depths", "split"},
                         .is_repeatable = true,
                         .is_invariant = true};
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemm_widened = {
    .name = "gemm_widened",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .n_fields = 7,
    .field = {{"rows", 128, 4, {128, 64, 256, 32, 16}, 1}, /* of the instruction: columns of the result */
              {"columns", 16, 9, {16, 8, 32, 64, 24, 48, 40, 96, 128}},
              {"depths", 1, 5, {1, 2, 4, 8, 16}},
              {"split", 1, 5, {1, 2, 3, 4, 8}},
              {"blocks", 1, 4, {1, 2, 3, 4, 6}, 1}, /* of an SM */
              {"direct", 0, 3, {0, 4, 2, 1}, 1, .is_quiet = true},
              {"ahead", 1, 3, {1, 2, 3, 4, 0}, 2, .is_quiet = true}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .takes = takes,
    .numeric = numeric,
};
