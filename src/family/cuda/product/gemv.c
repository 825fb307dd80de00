/* Family gemv: products with at most eight rows whose operands are contiguous along K (kernels/cuda/gemv.cu). */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/gemv_fit.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_ROWS, COLUMNS, UNROLL, SLICE_K, WARPS };
enum { USUAL_WARPS = 8 };

static md_dtype type_of(const md_cg_product *p)
{
    return p->program->formula->tensor[p->load[MD_CG_A]->id].dtype;
}

static bool product_of(md_cg_product *p, const md_fa_target *target)
{
    if (!md_fa_cuda_product_of(p, target) || p->type != MD_F32)
        return false;
    const md_st_product *product = &md_fa_stage(target)->product;
    for (int32_t o = 0; o <= p->n_products; o++)
        if (!p->load[o] || md_cg_product_along(p, o) != MD_CG_ALONG_DEPTH ||
            p->program->formula->tensor[p->load[o]->id].dtype != type_of(p))
            return false;
    md_dtype dtype = type_of(p);
    return product->n_k == 1 && p->n_rows <= 1 && p->n_columns == 1 &&
           (dtype == MD_BF16 || dtype == MD_F16 || dtype == MD_F32);
}

/* Warps of a block: at least as many as slices of K. */
static int32_t warps_of(const md_fa_config *config)
{
    return MD_MAX(config->value[WARPS], config->value[SLICE_K]);
}

/* True if another config is the same: with more slices than `warps`, only the usual value of `warps` is legal. */
static bool is_duplicate(const md_fa_config *config)
{
    const int32_t warps = config->value[WARPS], slices = config->value[SLICE_K];
    return warps < slices ? warps != USUAL_WARPS : warps == slices && warps > USUAL_WARPS;
}

static int32_t columns_of(const md_fa_config *config) /* columns of a block */
{
    return warps_of(config) / config->value[SLICE_K] * config->value[COLUMNS];
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_cg_product p;
    if (!product_of(&p, target) || columns_of(config) % 2)
        return false;
    if (is_duplicate(config))
        return false;
    int32_t max_rows = config->value[MAX_ROWS], sums = max_rows * config->value[COLUMNS] * p.n_products;
    int32_t vectors = config->value[COLUMNS] * config->value[UNROLL] * p.n_products;
    if (sums > 32 || vectors > 8 || 4 * vectors + sums + 8 * max_rows > 120)
        return false;
    int64_t rows = size ? md_st_points(target->program, p.n_rows, p.rows, size) : 0;
    return !size || (rows <= max_rows && (max_rows == 1 || rows > max_rows / 2));
}

static int64_t blocks_of(const md_fa_product *sized, const md_fa_config *config)
{
    return sized->batch * ((sized->columns + columns_of(config) - 1) / columns_of(config));
}

static bool spec_of(void *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_product_spec *s = out;
    s->config = *config;
    return product_of(&s->p, target);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_product_spec *s = spec;
    out->row_points_max = s->config.value[MAX_ROWS];
    out->n_row_dims = s->p.n_rows;
    for (int32_t i = 0; i < s->p.n_rows; i++)
        out->row_dim[i] = target->program->index[s->p.rows[i]].dim;
    for (int32_t o = 0; o <= s->p.n_products; o++) {
        out->unit |= UINT32_C(1) << s->p.load[o]->id;
        out->aligned16 |= UINT32_C(1) << s->p.load[o]->id;
    }
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_config *config = &((const md_fa_product_spec *)spec)->config;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    if (!sized)
        return;
    out->launch[0] = md_fa_cuda_launch(blocks_of(sized, config), 32 * warps_of(config));
    out->launch[0].overlaps = true;
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_config *config = &((const md_fa_product_spec *)known)->config;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_work(out, &room, target, size);
    if (!sized)
        return;
    const md_cg_product *p = &sized->p;
    int32_t max_rows = config->value[MAX_ROWS],
            vectors = config->value[COLUMNS] * config->value[UNROLL] * p->n_products;
    const double bytes = (double)sized->depth * (double)md_dtype_size(type_of(p)),
                 bytes_at_once = 512.0 * config->value[SLICE_K] * config->value[UNROLL];
    /* if K is short, part of a thread's loads are unused */
    const double steps = ceil(bytes / bytes_at_once), useful = bytes / (steps * bytes_at_once);
    md_fa_cuda_load load = {.blocks = (double)blocks_of(sized, config),
                            .threads = 32 * warps_of(config),
                            .registers = 48 + 4 * vectors + max_rows * (config->value[COLUMNS] * p->n_products + 8),
                            .bytes = 16.0 * vectors * useful};
    double results = (double)sized->batch * (double)sized->columns * max_rows;
    out->memory_bytes = sized->bytes;
    /* f32: a vector has half as many elements, so each read of the rows serves half as many products */
    if (type_of(p) == MD_F32)
        out->memory_bytes *= (config->value[COLUMNS] == 1 ? LONE_F32 : PAIR_F32) * (1 + ROW_F32 * (max_rows - 1));
    /* With one column a warp, the rows are read as often as the columns. */
    out->memory_rate = (config->value[COLUMNS] == 1 ? LONE_RATE : RATE) * md_fa_cuda_rate(target->facts, &load);
    /* 16-bit rows are converted to f32 anew for each column */
    out->ops = 2 * results * (double)sized->depth * p->n_products *
                   (type_of(p) == MD_F32 ? WIDEN_F32
                    : max_rows == 1      ? WIDEN_ONE
                                         : WIDEN) +
               results * RESULT_OPS;
    out->ops_rate = OPS_RATE;
    out->parallel = fmin(load.blocks, MD_MAX(target->facts->threads, 1));
    /* measured: each warp has many loads in flight */
    out->serial_us = START + FUNCTION * sized->epilogue_transcendental + BATCH * steps +
                     (type_of(p) == MD_F32 ? SHARE_F32 : SHARES) * config->value[SLICE_K] +
                     (vectors > 4 ? MANY_VECTORS : 0);
    const double memory = out->memory_bytes / (target->facts->memory_gbps * fmin(out->memory_rate, 1)) * 1e-3;
    const double under_way = FIRST_BATCH + (steps - 1) * (NEXT_BATCH + NEXT_VECTOR * vectors);
    if (type_of(p) == MD_F32)
        out->serial_us = fmax(out->serial_us, under_way - memory);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_product_spec *s = spec;
    const md_fa_config *config = &s->config;
    md_strbuf defines = {0};
    md_dtype dtype = type_of(&s->p);
    md_strbuf_printf(&defines,
                     "#define MD_MAX_ROWS %" PRId32 "\n#define MD_COLUMNS %" PRId32 "\n#define MD_UNROLL_K %" PRId32
                     "\n#define MD_SLICE_K %" PRId32 "\n#define MD_WARPS %" PRId32
                     "\n#define MD_OPERAND_BYTES %d\n#define MD_WIDEN(h) md_up1_%s(h)\n",
                     config->value[MAX_ROWS], config->value[COLUMNS], config->value[UNROLL], config->value[SLICE_K],
                     warps_of(config), dtype == MD_F32 ? 4 : 2, dtype == MD_F16 ? "f16" : "bf16");
    md_fa_cuda_product_text text = {.source = "cuda/gemv.cu", .lanes = columns_of(config) % 4 ? 2 : 4};
    return md_fa_cuda_product_emit(out, target, &s->p, &text, &defines);
}

/* Not invariant, since only few rows are served. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "dots", .field = {"slice_k"}, .is_repeatable = true};
}

static const md_fa_kind kind = {
    .checks_config = true, .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};

const md_fa_family md_fa_cuda_gemv = {
    .name = "gemv",
    .device = MD_DEV_CUDA,
    .n_fields = 5,
    .field = {{"max_rows", 8, 4, {1, 2, 4, 8}},
              {"columns", 2, 3, {1, 2, 4, 3, 6, 8}, 3},
              {"unroll", 2, 4, {1, 2, 4, 8, 3, 5, 6, 7}, 4},
              {"slice_k", 2, 4, {1, 2, 4, 8, 16}, 1},
              {"warps", USUAL_WARPS, 1, {USUAL_WARPS, 2, 4, 16}, 3}},
    .kind = &kind,
    .spec_of = spec_of,
    .legal = legal,
    .numeric = numeric,
};
