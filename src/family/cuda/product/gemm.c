/* What the GPU families of matrix products share: text, the launches that copy operands or add up slices, geometry and
 * cost. */
#include "family/cuda/product/gemm.h"

#include "base/status.h"
#include "family/cuda/cuda.h"
#include "family/cuda/product/gemm_fit.h"
#include "family/emit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SUM_THREADS = 256, SUM_LANES = 4, COPY_THREADS = 256, COPY_AT_ONCE = 2 };

bool md_fa_cuda_product_of(md_cg_product *out, const md_fa_target *target)
{
    bool is_product = md_cg_product_of(out, target->program, target->stage, MD_CG_COLUMNS_STORED);
    out->dialect = MD_DEV_CUDA;
    return is_product;
}

bool md_fa_cuda_any_product_of(md_cg_product *out, const md_fa_target *target)
{
    const bool is_product = md_fa_cuda_product_of(out, target) ||
                            md_cg_product_of(out, target->program, target->stage, MD_CG_COLUMNS_SPANS);
    out->dialect = MD_DEV_CUDA;
    return is_product;
}

int32_t md_fa_cuda_product_bytes(const md_cg_product *product)
{
    return product->type == MD_F32 ? 4 : 8;
}

void md_fa_cuda_product_print_along(md_strbuf *out, const md_cg_product *product)
{
    static const int number[] = {[MD_CG_ALONG_NEITHER] = 0, [MD_CG_ALONG_DEPTH] = 1, [MD_CG_ALONG_ROWS] = 2};
    for (int32_t o = 0; o < MD_CG_MAX_OPERANDS; o++)
        md_strbuf_printf(out, "#define MD_ALONG_%" PRId32 " %d\n", o,
                         o <= product->n_products ? number[md_cg_product_along(product, o)] : 0);
}

md_fa_class md_fa_cuda_product_class(const char *group)
{
    return (md_fa_class){.group = group, .field = {"split"}, .is_repeatable = true, .is_invariant = true};
}

/* ---- Text */
/* True if only 16-bit results are stored: exponentials then need fewer bits (math.h). */
static bool has_short_results(const md_fa_target *target)
{
    const md_st_stage *stage = md_fa_stage(target);
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (md_dtype_size(target->program->formula->tensor[stage->store[i].tensor].dtype) > 2)
            return false;
    return true;
}

static md_status print_launch(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                              const md_fa_cuda_product_text *text, const char *defines)
{
    md_strbuf expr = {0}, config = {0};
    MD_TRY(
        md_fa_cuda_map_params(out, target, text->n_maps, text->map, (md_fa_cuda_more_params){.packed = text->packs}));
    out->code = MD_KN_TEXT;
    out->role = text->role;
    snprintf(out->entry, sizeof out->entry, "md_kernel");
    md_strbuf_printf(&config, "%s#define MD_VL %" PRId32 "\n%s", defines, text->lanes,
                     has_short_results(target) ? "#define MD_SHORT_RESULTS 1\n" : "");
    md_status status = md_cg_product_print(&config, &expr, product, out->param, out->n_params);
    if (status == MD_OK && text->has_result)
        status = md_cg_product_print_result(&config, &expr, product);
    return md_fa_end_launch(status, out, MD_DEV_CUDA, text->source, &config, &expr);
}

md_status md_fa_cuda_product_emit_sum(md_kn_launch_source *out, const md_fa_target *target,
                                      const md_cg_product *product, int32_t slices)
{
    char defines[128];
    snprintf(defines, sizeof defines, "#define MD_SPLIT 1\n#define MD_SLICES %" PRId32 "\n#define MD_THREADS %d\n",
             slices, SUM_THREADS);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_sum.cu", .role = "gemm_sum", .lanes = SUM_LANES};
    return print_launch(out, target, product, &text, defines);
}

static md_status print_copies(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                              const md_kn_map *map)
{
    md_strbuf defines = {0};
    md_strbuf_printf(
        &defines,
        "#define MD_THREADS %d\n#define MD_AT_ONCE %d\n#define MD_COPY_LINE %d\n#define MD_DOWN(v) md_down1_%s(v)\n",
        COPY_THREADS, COPY_AT_ONCE, MD_KN_COPY_LINE, map[0].dtype == MD_BF16 ? "bf16" : "f16");
    for (int32_t o = 0; o < 2; o++)
        md_strbuf_printf(&defines, "#define MD_BATCH_%" PRId32 " %d\n#define MD_AS_IS_%" PRId32 " %d\n", o,
                         map[o].n_dims[2] > 0, o,
                         target->program->formula->tensor[product->load[o]->id].dtype == (md_dtype)map[o].dtype);
    md_fa_cuda_product_print_along(&defines, product);
    md_fa_cuda_product_text text = {.source = "cuda/gemm_pad.cu", .role = "gemm_pad", .lanes = SUM_LANES};
    md_status status =
        defines.failed ? md_fail_memory() : print_launch(out, target, product, &text, md_strbuf_text(&defines));
    md_strbuf_finish(&defines);
    return status;
}

md_status md_fa_cuda_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                                  const md_fa_cuda_product_text *text, md_strbuf *defines)
{
    const int32_t main = text->has_copies || text->begin;
    const bool has_sum = text->split > 1 && !text->is_cluster_reduced;
    out->n_launches = main + (has_sum || text->end ? 2 : 1);
    md_strbuf_printf(defines, "#define MD_SPLIT %" PRId32 "\n", MD_MAX(text->split, 1));
    md_status status = defines->failed
                           ? md_fail_memory()
                           : print_launch(&out->launch[main], target, product, text, md_strbuf_text(defines));
    if (status == MD_OK && text->has_copies)
        status = print_copies(&out->launch[0], target, product, text->map);
    if (status == MD_OK && text->begin) {
        md_fa_cuda_product_text begin = {
            .source = text->begin, .role = text->begin_role, .lanes = SUM_LANES, .packs = text->packs};
        status = print_launch(&out->launch[0], target, product, &begin,
                              text->begin_defines ? text->begin_defines : md_strbuf_text(defines));
    }
    if (status == MD_OK && text->end) {
        md_fa_cuda_product_text end = {.source = text->end, .lanes = SUM_LANES};
        status = print_launch(&out->launch[main + 1], target, product, &end, md_strbuf_text(defines));
    }
    if (status == MD_OK && has_sum)
        status = md_fa_cuda_product_emit_sum(&out->launch[main + 1], target, product, text->split);
    md_strbuf_finish(defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

bool md_fa_cuda_product_overlaps(const md_fa_product *sized)
{
    const double flops = 2.0 * (double)sized->batch * (double)sized->rows * (double)sized->columns *
                         (double)sized->depth * sized->p.n_products,
                 flops_us = flops / FLOPS_A_US, bytes_us = sized->bytes / BYTES_A_US;
    for (int32_t i = 0; i < MD_COUNT(MOST_MEMORY_US); i++)
        if (flops_us < MOST_ARITHMETIC_US[i] && bytes_us < MOST_MEMORY_US[i])
            return true;
    return flops_us < MEMORY_BOUND * bytes_us;
}

void md_fa_cuda_product_sum(md_kn_geometries *out, const md_fa_target *target, const md_fa_product *work, int32_t split)
{
    if (split <= 1)
        return;
    int64_t lines = work->batch * work->rows, vectors = lines * ((work->columns + SUM_LANES - 1) / SUM_LANES);
    int64_t blocks = (vectors + SUM_THREADS - 1) / SUM_THREADS, most = INT64_C(8) * MD_MAX(target->facts->threads, 1);
    md_kn_geometry *g = &out->launch[1];
    *g = md_fa_cuda_launch(MD_MIN(blocks, most), SUM_THREADS);
    g->overlaps = true;
    out->workspace_bytes = split * work->p.n_products * lines * work->columns * md_fa_cuda_product_bytes(&work->p);
}

static int64_t copy_bytes(int64_t lines, int64_t length)
{
    const int64_t line = (2 * length + MD_KN_COPY_LINE - 1) / MD_KN_COPY_LINE * MD_KN_COPY_LINE;
    return (lines * line + 255) / 256 * 256;
}

void md_fa_cuda_product_copies(md_kn_geometries *out, const md_fa_product *work, const md_kn_map map[2])
{
    int64_t bytes = 0, units = 0;
    for (int32_t o = 0; o < 2; o++) {
        int64_t rows = o == 0 ? work->rows : work->columns;
        bool is_k_first = md_cg_product_along(&work->p, o) == MD_CG_ALONG_DEPTH;
        int64_t lines = (map[o].n_dims[2] > 0 ? work->batch : 1) * (is_k_first ? rows : work->depth),
                length = is_k_first ? work->depth : rows;
        bytes += copy_bytes(lines, length);
        units += (lines * ((length + 7) / 8) + COPY_THREADS * COPY_AT_ONCE - 1) / (COPY_THREADS * COPY_AT_ONCE);
    }
    out->workspace_bytes = bytes;
    out->launch[1] = out->launch[0];
    out->launch[0] = md_fa_cuda_launch(MD_MIN(units, 1 << 20), COPY_THREADS);
}

/* ---- Costs */
bool md_fa_cuda_product_is_ragged(const md_fa_product *sized)
{
    for (int32_t o = 0; o <= 1; o++)
        if (md_fa_product_line(sized, o) % 8)
            return true;
    return false;
}

static double tiles_of(const md_fa_product *sized, const md_fa_cuda_tiles *t)
{
    return (double)sized->batch * ceil((double)sized->rows / t->rows) * ceil((double)sized->columns / t->columns);
}

const md_fa_product *md_fa_cuda_product_at(md_fa_product *room, const md_fa_target *target, const int64_t *size)
{
    md_cg_product product;
    md_fa_memo *memo = target->memo;
    _Static_assert(sizeof *room <= sizeof memo->product_bytes, "a memo has room for it");
    if (memo && memo->product)
        return memo->product;
    if (!md_fa_cuda_any_product_of(&product, target))
        return NULL;
    md_fa_product *made = memo ? (void *)memo->product_bytes : room;
    md_fa_product_measure(made, target, &product, size);
    made->depth = made->span;
    if (memo)
        memo->product = made;
    return made;
}

const md_fa_product *md_fa_cuda_product_work(md_fa_features *out, md_fa_product *room, const md_fa_target *target,
                                             const int64_t *size)
{
    const md_fa_product *sized = md_fa_cuda_product_at(room, target, size);
    if (!sized)
        return NULL;
    *out = (md_fa_features){.ops_rate = 1, .parallel = 1, .launches = 1};
    return sized->batch > 0 && sized->rows > 0 && sized->columns > 0 ? sized : NULL;
}

void md_fa_cuda_product_features(md_fa_features *out, const md_fa_target *target, const md_fa_product *sized,
                                 const md_fa_cuda_tiles *t)
{
    double sms = MD_MAX(target->facts->threads, 1), tiles = tiles_of(sized, t), split = MD_MAX(t->split, 1),
           blocks = tiles * split;
    double area = (double)t->rows * t->columns * sized->p.n_products,
           results = (double)sized->batch * (double)sized->rows * (double)sized->columns;
    double wave = sms * MD_MAX(t->resident, 1), waves = ceil(blocks / wave);
    double depth = ceil((double)sized->depth / split / 64) * 64;
    out->ops = 2 * area * tiles * fmax(depth * split, 1);
    out->ops_rate = 1;
    /* The peak is taken to be that of the units used; `parallel` is the number of SMs that are busy on average. */
    double busy = waves <= 1 ? fmin(blocks, sms) : sms * blocks / (waves * wave);
    /* Long launches run at the clock that the power limit allows. */
    double us = out->ops / (t->flops * fmax(target->facts->gflops, 1)) * 1e-3;
    out->ops /= t->flops * (1 - THROTTLED * fmin(us / THROTTLED_US, 1));
    out->parallel = fmax(busy, 1e-3);
    out->transcendental = results * sized->epilogue_transcendental;
    out->memory_bytes = sized->bytes;
    out->cache_bytes = blocks * depth * (t->rows + t->columns * sized->p.n_products) * 2.0 - sized->bytes;
    out->cache_bytes = fmax(out->cache_bytes, 0) * L2_SHARE;
    out->serial_us = waves * depth / 64 * t->step_us + SERIAL_US;
    out->launches = 1;
    out->memory_rate = fmin(1, 2 * fmin(blocks, sms) / sms + IDLE_RATE); /* an SM reaches a few times its share */
    if (split > 1 && !t->is_cluster_reduced) {
        out->launches = 2;
        out->memory_bytes += results * 4 * sized->p.n_products * split; /* written, then read mostly from L2 */
        out->cache_bytes += results * 4 * sized->p.n_products * split;
    }
}

bool md_fa_cuda_product_is_worth_trying(const md_fa_target *target, const md_cg_product *product,
                                        const md_fa_cuda_tiles *t, const int64_t *size)
{
    md_fa_product sized;
    if (!size)
        return true;
    md_fa_product_measure(&sized, target, product, size);
    double sms = MD_MAX(target->facts->threads, 1);
    return t->split <= 1 || ((double)sized.span / t->split >= 128 && tiles_of(&sized, t) < sms &&
                             tiles_of(&sized, t) * t->split <= 4 * sms);
}

bool md_fa_cuda_product_has_waves(const md_fa_target *target, const md_cg_product *product, const md_fa_cuda_tiles *t,
                                  const int64_t *size)
{
    md_fa_product sized;
    if (!size)
        return true;
    md_fa_product_measure(&sized, target, product, size);
    return sized.rows > t->rows && tiles_of(&sized, t) > MD_MAX(target->facts->threads, 1) * t->resident;
}

const md_fa_product *md_fa_cuda_product_launched(md_kn_geometries *out, md_fa_product *room, const md_fa_target *target,
                                                 const int64_t *size)
{
    const md_fa_product *sized = md_fa_cuda_product_at(room, target, size);
    *out = (md_kn_geometries){0};
    out->launch[0].grain = 1;
    return sized && sized->batch > 0 && sized->rows > 0 && sized->columns > 0 ? sized : NULL;
}

void md_fa_cuda_tiled_geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec,
                               const md_kn_shape *shape)
{
    const md_fa_cuda_tiles *tiles = &((const md_fa_cuda_tiled *)spec)->tiles;
    md_fa_product room;
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    out->launch[1].grain = 1;
    if (!sized)
        return;
    md_kn_geometry *g = &out->launch[0];
    *g = md_fa_cuda_launch(sized->batch * ((sized->rows + tiles->rows - 1) / tiles->rows) *
                               ((sized->columns + tiles->columns - 1) / tiles->columns) * tiles->split,
                           tiles->threads);
    g->scratch_bytes = tiles->shared_bytes;
    g->overlaps = md_fa_cuda_product_overlaps(sized);
    md_fa_cuda_product_sum(out, target, sized, tiles->split);
}
