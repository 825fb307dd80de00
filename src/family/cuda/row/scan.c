/* What the scan families of GPUs share: text of a launch, envelope, and the sizes and work of a scan. */
#include "family/emit.h"
#include "family/cuda/row/scan.h"

#include "base/status.h"
#include "codegen/row/scan_cuda.h"
#include "family/cost.h"

#include <inttypes.h>

void md_fa_cuda_scan_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_cuda_scan *scan)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t lane = scan->is_column ? st->outer[st->n_outer - 1] : st->axis;
    *out = (md_kn_envelope){0};
    if (!scan->is_strided)
        out->unit = md_cg_unit_tensors(target->program, target->stage, lane);
    if (scan->is_aligned)
        out->aligned = out->unit;
}

md_status md_fa_cuda_scan_print(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_cuda_scan *scan)
{
    md_strbuf defines = {0}, expr = {0};
    MD_TRY(md_fa_begin_launch(launch, target));
    for (int32_t i = 0; i < scan->n_extra; i++)
        launch->param[launch->n_params++] = scan->extra[i];
    md_cg_scan_options options = {.program = target->program,
                                  .stage = target->stage,
                                  .dialect = MD_DEV_CUDA,
                                  .access = scan->is_strided ? MD_CG_STRIDED : MD_CG_UNIT,
                                  .is_column = scan->is_column,
                                  .n_params = launch->n_params,
                                  .param = launch->param};
    md_strbuf_printf(
        &defines,
        "#define MD_VL %d\n#define MD_ALIGNED %d\n#define MD_THREADS %d\n#define MD_ITEMS %d\n#define MD_PHASE %d\n",
        (int)md_fa_cuda_width(target->program, target->stage), scan->is_aligned, (int)scan->threads, (int)scan->items,
        (int)scan->phase);
    if (scan->is_strided)
        /* for the kernel that takes any strides: one must always build */
        md_strbuf_add(&defines, "#define MD_ALLOW_STACK 1\n");
    if (scan->rounds > 1)
        md_strbuf_printf(&defines, "#define MD_ROUNDS %d\n", (int)scan->rounds);
    if (scan->pieces > 0)
        md_strbuf_printf(&defines, "#define MD_PIECES %d\n", (int)scan->pieces);
    if (scan->ring > 0)
        md_strbuf_printf(&defines, "#define MD_RING %d\n#define MD_STAGE_BYTES %" PRId64 "\n", (int)scan->ring,
                         scan->stage_bytes);
    if (scan->group > 0)
        md_strbuf_printf(&defines, "#define MD_GROUP %d\n", (int)scan->group);
    md_status status = md_cg_scan_cuda_print(&defines, &expr, &options);
    return md_fa_end_launch(status, launch, MD_DEV_CUDA, scan->source, &defines, &expr);
}

bool md_fa_cuda_columns_fit(const md_fa_target *target, int32_t items)
{
    const int32_t width = md_fa_cuda_width(target->program, target->stage);
    if (!md_fa_cuda_is_recurrence(target))
        return items * width <= 32;
    /* the totals of a block's columns are in shared memory */
    return width <= 8 && items * width <= 16;
}

bool md_fa_cuda_scan_row_fits(const md_fa_target *target, int32_t items)
{
    return !md_fa_cuda_is_recurrence(target) || items * md_fa_cuda_width(target->program, target->stage) <= 32;
}

void md_fa_cuda_scan_measure(md_fa_cuda_scan_size *out, const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    double flops = 0;
    md_fa_host_work work;
    *out = (md_fa_cuda_scan_size){
        .rows = md_st_points(target->program, st->n_outer, st->outer, size),
        .n = md_st_size(target->program, st->axis, size),
        .lanes = st->n_outer > 0 ? md_st_size(target->program, st->outer[st->n_outer - 1], size) : 1};
    md_fa_work(&flops, &out->bytes, target, size);
    out->stored = md_fa_stored_bytes(target, size);
    md_fa_host_count(&work, st, target->program);
    out->ops = work.operations + 2 * (work.loads + work.stores);
    out->transcendental = work.transcendental;
    out->scattered = work.scattered;
}

int64_t md_fa_cuda_scan_tiles(int64_t n, int32_t width, int64_t vectors)
{
    int64_t all = (n + 2 * (int64_t)(width - 1)) / width;
    return n > 0 ? (all + vectors - 1) / vectors : 0;
}

bool md_fa_cuda_is_recurrence(const md_fa_target *target)
{
    return md_fx_is_recurrence(md_fa_stage(target)->scan.op);
}

int64_t md_fa_cuda_scan_total(const md_fa_target *target)
{
    return md_fa_cuda_is_recurrence(target) ? 16 : 8;
}

int64_t md_fa_cuda_scan_value(const md_fa_target *target)
{
    md_dtype type = md_fa_stage(target)->scan.type;
    return (type == MD_F64 || type == MD_I64 ? 8 : 4) * (md_fa_cuda_is_recurrence(target) ? 2 : 1);
}
