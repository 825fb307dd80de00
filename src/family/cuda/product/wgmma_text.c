/* Text of products on Hopper's tensor cores: defines, tensor maps, and instructions. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/cuda/cuda.h"
#include "family/cuda/product/wgmma_shape.h"
#include "family/cuda/wgmma.h"
#include "family/emit.h"

#include <inttypes.h>
#include <math.h>

enum {
    MAPS = MD_FA_CUDA_MAPS,
    DEPTH = 64,
    RASTER = 8,
    EARLY_BYTES = 32 << 10 /* 16 KB gained as much on an H200, 64 nothing; 128 lost (data/results/sequences.md) */
};

/* True if only the rows of A that exist are copied: copying rows beyond the end is slower (measured). */
static bool shrinks(const md_cg_product *p, const md_fa_wgmma_shape *s)
{
    return !s->is_swapped && !s->gathers && md_cg_product_along(p, MD_CG_A) == MD_CG_ALONG_DEPTH && s->cluster == 1;
}

static void set_boxes(md_kn_map map[MAPS], const md_cg_product *p, const md_fa_wgmma_shape *s)
{
    const int32_t last = p->n_products + 1;
    for (int32_t o = 0; o < last; o++) {
        const bool is_down = (o == MD_CG_A) != s->is_swapped,
                   is_k_first = md_cg_product_along(p, o) == MD_CG_ALONG_DEPTH;
        const int32_t parts = s->cluster == 2 && s->shares_a == is_down ? 2 : 1, lines = is_down ? s->rows : s->columns;
        map[o].box[0] = (uint16_t)(128 / md_fa_cuda_map_item_bytes(p));
        map[o].box[1] = (uint16_t)((is_k_first ? lines : DEPTH) / parts);
        map[o].swizzle = 128;
    }
    map[0].shrinks = shrinks(p, s);
    map[last].box[0] = (uint16_t)(s->is_swapped ? 16 : s->panel);
    map[last].box[1] = (uint16_t)(s->is_swapped ? s->panel : 16);
    map[last].swizzle = (uint8_t)(2 * map[last].box[0]);
}

/* The function md_wgmma(sums, a, b), or one of that kind. */
static void print_instruction(md_strbuf *out, const md_cg_product *p, const md_fa_wgmma_shape *s, const char *name)
{
    static const char *const order[2][2] = {{", 0, 0", ", 0, 1"}, {", 1, 0", ", 1, 1"}};
    const md_dtype dtype = md_fa_cuda_map_type(p);
    const char *type = dtype == MD_BF16 ? "bf16" : dtype == MD_F16 ? "f16" : "tf32";
    const bool is_down_across = md_cg_product_along(p, s->is_swapped ? MD_CG_B : MD_CG_A) == MD_CG_ALONG_ROWS,
               is_across_across = md_cg_product_along(p, s->is_swapped ? MD_CG_A : MD_CG_B) == MD_CG_ALONG_ROWS;
    const md_fa_cuda_wgmma wgmma = {.name = name,
                                    .a = type,
                                    .b = type,
                                    .columns = s->columns,
                                    .depth = dtype == MD_F32 ? 8 : 16,
                                    .order = dtype == MD_F32 ? NULL : order[is_down_across][is_across_across]};
    md_fa_cuda_wgmma_print(out, &wgmma);
}

/* The same for operands of 8 bits; `name`: md_wgmma, or md_wgmma_first, which takes the sums for zeros. */
static void print_byte_instruction(md_strbuf *out, const md_cg_product *p, const md_fa_wgmma_shape *s, bool is_first)
{
    static const char *const type[] = {[MD_I8] = "s8", [MD_U8] = "u8", [MD_F8E4M3] = "e4m3", [MD_F8E5M2] = "e5m2"};
    const md_dtype a = md_cg_product_dtype(p, p->load[MD_CG_A]), b = md_cg_product_dtype(p, p->load[MD_CG_B]);
    const md_fa_cuda_wgmma wgmma = {.name = is_first ? "md_wgmma_first" : "md_wgmma",
                                    .a = type[a],
                                    .b = type[b],
                                    .columns = s->slice ? s->slice : s->columns,
                                    .depth = 32,
                                    .is_in_registers = s->slice > 0,
                                    .keeps = is_first ? MD_FA_WGMMA_FIRST : MD_FA_WGMMA_ADDS,
                                    .is_integer = !md_dtype_is_real(a)};
    md_fa_cuda_wgmma_print(out, &wgmma);
}

static void print_byte_instructions(md_strbuf *out, const md_cg_product *p, const md_fa_wgmma_shape *s)
{
    const bool is_real = md_dtype_is_real(md_cg_product_dtype(p, p->load[MD_CG_A]));
    md_strbuf_printf(out, "#define MD_IS_INTEGER %d\n#define MD_SLICE %" PRId32 "\n", !is_real, s->slice);
    print_byte_instruction(out, p, s, false);
    if (is_real)
        print_byte_instruction(out, p, s, true);
}

/* Tensors that the epilogue reads along the columns. */
static uint32_t read_along_columns(const md_cg_product *p)
{
    uint32_t tensors = md_cg_unit_tensors(p->program, p->stage, p->columns[p->n_columns - 1]);
    for (int32_t o = 0; o <= p->n_products; o++)
        tensors &= ~(UINT32_C(1) << md_cg_product_memory(p, o)->id);
    return tensors & ~(UINT32_C(1) << p->program->stage[p->stage].store[0].tensor);
}

static void print_defines(md_strbuf *out, const md_cg_product *p, const md_fa_wgmma_shape *s, const md_kn_map *map,
                          bool is_rolled)
{
    const struct {
        const char *name;
        int32_t value;
    } list[] = {{"BM", s->rows},
                {"BN", s->columns},
                {"STAGES", s->stages},
                {"DEEP", s->deep},
                {"CONSUMERS", s->consumers},
                {"PINGPONG", s->is_pingpong},
                {"CLUSTER", s->cluster},
                {"SHARE_A", s->shares_a},
                {"SWAPPED", s->is_swapped},
                {"BATCH_0", map[0].n_dims[2] > 0},
                {"BATCH_1", map[1].n_dims[2] > 0},
                {"RASTER", RASTER},
                {"LOW", s->low},
                {"HIGH", s->high},
                {"PANEL", s->panel},
                {"PANELS", s->panels},
                {"RESULT", s->by_words ? 2 : s->has_result},
                {"ROLLED_PANELS", is_rolled},
                {"EARLY", map[0].is_copy ? 0 : EARLY_BYTES},
                {"SHRINKS", shrinks(p, s)},
                {"OPERAND_BYTES", md_fa_cuda_map_item_bytes(p)},
                {"CLUSTER_REDUCE", s->is_cluster_reduced},
                {"READS", s->has_result && read_along_columns(p)},
                {"ALIGNED", s->has_result && !s->by_words}};
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId32 "\n", list[i].name, list[i].value);
    if (s->sorts_here > 0)
        md_strbuf_printf(out, "#define MD_SORTS_HERE %" PRId32 "\n", s->sorts_here);
    md_fa_cuda_product_print_along(out, p);
    if (md_fa_cuda_map_item_bytes(p) == 1)
        print_byte_instructions(out, p, s);
    else
        print_instruction(out, p, s, "md_wgmma");
}

void md_fa_wgmma_pick_table(md_fa_wgmma_tile_time time[2], const md_fa_target *target, const md_cg_product *p,
                            const md_fa_wgmma_shape *s, const md_fa_wgmma_shape *second)
{
    const int64_t none[MD_FX_MAX_DIMS] = {0};
    md_fa_product sized;
    md_fa_product_measure(&sized, target, p, none);
    for (int32_t i = 0; i < 2; i++) {
        const md_fa_wgmma_shape *tile = i ? second : s;
        double step, end;
        const md_fa_wgmma variant = {.rows = tile->rows,
                                     .columns = tile->columns,
                                     .split = 1,
                                     .cluster = 1,
                                     .stages = tile->stages * tile->deep,
                                     .has_result = tile->has_result};
        md_fa_wgmma_tile_us(&step, &end, target->facts, &sized, &variant);
        time[i] = (md_fa_wgmma_tile_time){(int32_t)lround(step * 1e3), (int32_t)lround(end * 1e3)};
    }
}

/* Two tiles, and what the device knows of their times. */
static void print_second(md_strbuf *out, const md_fa_target *target, const md_cg_product *p, const md_fa_wgmma_shape *s,
                         const md_fa_wgmma_shape *second)
{
    const md_fa_define list[] = {{"PICKS", 1},
                                 {"PICK_BLOCKS", MD_MAX(target->facts->threads, 1)},
                                 {"FIRST_CONSUMERS", s->consumers},
                                 {"SECOND_BM", second->rows},
                                 {"SECOND_BN", second->columns},
                                 {"SECOND_STAGES", second->stages},
                                 {"SECOND_DEEP", second->deep},
                                 {"SECOND_PANEL", second->panel},
                                 {"SECOND_PANELS", second->panels}};
    md_fa_print_defines(out, list, MD_COUNT(list));
    md_fa_wgmma_tile_time time[2];
    md_fa_wgmma_pick_table(time, target, p, s, second);
    md_strbuf_printf(out,
                     "#define MD_PICK_TABLE {{%" PRId32 ", %" PRId32 ", %" PRId32 "}, {%" PRId32 ", %" PRId32
                     ", %" PRId32 "}}\n",
                     s->columns, time[0].step_ns, time[0].end_ns, second->columns, time[1].step_ns, time[1].end_ns);
    print_instruction(out, p, second, "md_wgmma_second");
}

md_status md_fa_wgmma_emit(md_kn_source *out, const md_fa_target *target, const md_fa_wgmma_shape *s,
                           const md_cg_product *p)
{
    return md_fa_wgmma_emit_picked(out, target, s, NULL, p);
}

md_status md_fa_wgmma_emit_picked(md_kn_source *out, const md_fa_target *target, const md_fa_wgmma_shape *s,
                                  const md_fa_wgmma_shape *second, const md_cg_product *p)
{
    md_fa_product sized;
    md_strbuf defines = {0};
    md_kn_map map[2 * MAPS];
    const int64_t ones[MD_FX_MAX_DIMS] = {0};
    if (!(s->gathers ? md_fa_cuda_map_columns(map, p) : md_fa_wgmma_maps(map, p)))
        return md_fail(MD_INTERNAL, "the copy engine does not take the operands");
    if (s->has_result && !md_fa_wgmma_map_result(&map[p->n_products + 1], p))
        return md_fail(MD_UNSUPPORTED, "an epilogue in registers is for one result of 16 bits");
    set_boxes(map, p, s);
    map[0].is_copy = map[1].is_copy = (uint8_t)s->has_copies;
    for (int32_t i = 1; i <= p->n_products && second; i++) {
        map[p->n_products + i] = map[i];
        map[p->n_products + i].box[1] = (uint16_t)MD_MIN(map[i].box[1], second->columns);
    }
    md_fa_product_measure(&sized, target, p, ones);
    /* Loads at any address have long texts, so those panels are a loop. */
    print_defines(&defines, p, s, map,
                  !s->has_result || sized.epilogue_ops > 2 || sized.epilogue_transcendental > 0 ||
                      (s->by_words && read_along_columns(p)));
    if (second)
        print_second(&defines, target, p, s, second);
    md_fa_cuda_product_text text = {.source = s->gathers                          ? "cuda/gemm_wgmma_rows.cu"
                                              : md_fa_cuda_map_item_bytes(p) == 1 ? "cuda/gemm_wgmma8.cu"
                                                                                  : "cuda/gemm_wgmma.cu",
                                    .begin = p->is_grouped && s->sorts_here == 0 ? "cuda/group_rows.cu" : NULL,
                                    /* padded copies: unaligned results, too */
                                    .lanes = s->has_result   ? 2
                                             : s->has_copies ? 4
                                                             : md_fa_cuda_width(target->program, target->stage),
                                    .has_result = s->has_result,
                                    .split = s->split,
                                    .is_cluster_reduced = s->is_cluster_reduced,
                                    .has_copies = s->has_copies,
                                    .n_maps = (second ? 2 : 1) * (p->n_products - s->gathers + 1) +
                                              (s->has_result && !s->by_words && !p->is_grouped),
                                    .map = map + s->gathers};
    return md_fa_cuda_product_emit(out, target, p, &text, &defines);
}
