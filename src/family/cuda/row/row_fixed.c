/* The cost of row programs on a GPU: what follows from a config whatever the sizes, mostly by counting instructions. */
#include "family/cuda/row/row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row_fixed_fit.h"

#include <math.h>

static bool is_online(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return row->merges && md_fa_stage(target)->row.is_online && md_fa_stage(target)->row.n_levels > 1;
}

/* Bytes of an element that later passes read again if rows are not kept. */
static double reread_bytes(const md_fa_target *target, const md_fa_cuda_row *row)
{
    const md_st_stage *st = md_fa_stage(target);
    md_cg_row_options options = md_fa_cuda_row_options(target, row);
    md_cg_on_chip on_chip;
    double bytes = 0;
    uint32_t levels = (UINT32_C(1) << st->row.n_levels) - 1;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        uint32_t passes = on_chip.load[i].passes;
        int32_t times = 0;
        for (int32_t l = 0; l <= st->row.n_levels; l++)
            times += (int32_t)(passes >> l & 1);
        if (options.is_online)
            times = (int32_t)(passes >> st->row.n_levels & 1) + ((passes & levels) != 0);
        if (!on_chip.load[i].is_shared)
            bytes += (times - 1) * md_dtype_bytes(target->program->formula->tensor[on_chip.load[i].node->id].dtype);
    }
    return bytes;
}

static bool has_arg(const md_st_row *program)
{
    for (int32_t i = 0; i < program->n_reductions; i++)
        if (md_cg_is_arg(program->reduction[i].op))
            return true;
    return false;
}

static bool is_read_once(const md_st_row *program)
{
    return program->n_levels == 1 && !program->has_elements && !has_arg(program);
}

typedef struct traffic {
    const md_fa_target *target;
    uint32_t unit;
    double bytes, sectors;
} traffic;

static bool note_traffic(void *user, const md_fx_node *node)
{
    traffic *t = user;
    if (node->kind != MD_FX_LOAD || node->n_args == 0 || !md_fx_uses_index(node, md_fa_stage(t->target)->axis))
        return true;
    double bytes = md_dtype_bytes(t->target->program->formula->tensor[node->id].dtype);
    t->bytes += bytes;
    t->sectors += t->unit >> node->id & 1 ? bytes : SECTOR_BYTES;
    return true;
}

static void make_traffic(void *out, const md_st_program *program, int32_t stage, const void *target)
{
    const md_st_stage *st = &program->stage[stage];
    traffic t = {.target = target, .unit = md_cg_unit_tensors(program, stage, st->axis)};
    md_cg_visit(st, note_traffic, &t);
    *(double *)out = t.bytes > 0 ? fmax(t.sectors / t.bytes, 1) : 1;
}

double md_fa_cuda_row_traffic(const md_fa_target *target)
{
    double factor = 1;
    md_st_know(
        &factor, target->program, target->stage,
        &(md_st_fact){.which = MD_ST_KNOWN_TRAFFIC, .n_bytes = sizeof factor, .make = make_traffic, .user = target});
    return factor;
}

/* Issue slots of all reductions: for an element, or for a step of an exchange. */
static double reduction_slots(const md_fa_target *target, bool is_step)
{
    const md_st_row *program = &md_fa_stage(target)->row;
    double slots = 0;
    for (int32_t i = 0; i < program->n_reductions; i++) {
        const md_st_reduction *r = &program->reduction[i];
        bool is_extreme = r->op != MD_FX_R_SUM && r->op != MD_FX_R_PROD;
        if (is_step)
            slots += md_cg_is_arg(r->op) ? ARG_STEP_SLOTS : STEP_SLOTS;
        else
            slots += md_cg_is_arg(r->op) ? ARG_SLOTS : is_extreme ? MAX_SLOTS : 1;
    }
    return slots;
}

static double steps_of(const md_fa_cuda_row *row)
{
    int32_t warps = row->lanes / 32;
    return log2(MD_MIN(row->lanes, 32)) + (warps > 8 ? ceil(log2(warps)) + 2 : warps > 1 ? warps * 0.5 + 2 : 0);
}

/* Issue slots of a thread. */
static void count_slots(md_fa_cuda_row_fixed *out, const md_fa_target *target, const md_fa_cuda_row *row)
{
    const md_st_stage *st = md_fa_stage(target);
    md_fa_host_work work;
    double width = out->width, passes = st->row.n_levels + st->row.has_elements;
    bool again = !row->keeps && st->row.has_elements && md_fa_cuda_row_can_keep(target);
    md_fa_host_count(&work, st, target->program);
    double element = reduction_slots(target, false) + work.operations + 0.3 * passes;
    element += out->scattered_us > 0 ? SECTOR_SLOTS * work.loads : 0;
    element += width > 4 ? passes * UNPACK_SLOTS * work.loads : 0.5 * work.loads;
    out->exponential_slots =
        work.transcendental * (again ? 2 : 1) * (md_fa_cuda_row_is_short(target) ? SHORT_EXP_SLOTS : EXP_SLOTS);
    out->thread_slots =
        PLACE_SLOTS + steps_of(row) * reduction_slots(target, true) + width * reduction_slots(target, false);
    out->vector_slots = width * element + (row->align == MD_FA_CUDA_ALIGNED ? 3 : 8);
}

/* The exchanges of all levels, us. */
static double exchanges_us(const md_fa_target *target, const md_fa_cuda_row *row)
{
    double warps = row->lanes / 32.0, one = warps > 1 ? BLOCK_US + EACH_WARP_US * warps : WARP_US;
    return one * (is_online(target, row) ? 1 : md_fa_stage(target)->row.n_levels);
}

void md_fa_cuda_row_fix(md_fa_fixed *out, const md_fa_target *target, const void *spec)
{
    const md_fa_cuda_row *row = spec;
    const md_st_row *program = &md_fa_stage(target)->row;
    /* threads that have a row each read neighbours together */
    const double sectors = row->lanes > 1 ? md_fa_cuda_row_traffic(target) : 1,
                 width = md_fa_cuda_row_width(target, row);
    const bool is_scattered = sectors > 1;
    const md_fa_cuda_load load = {.threads = row->lanes * row->rows,
                                  .registers = md_fa_cuda_row_registers(target, row)};
    md_fa_cuda_row_fixed *f = (void *)out->bytes;
    _Static_assert(sizeof *f <= sizeof *out, "there is room for it");
    *f = (md_fa_cuda_row_fixed){.lanes = row->lanes,
                                .vectors = row->vectors,
                                .rows = row->rows * md_fa_cuda_row_at_once(row->align),
                                .at_once = md_fa_cuda_row_at_once(row->align),
                                .threads = load.threads,
                                .align = row->align,
                                .is_resident = row->is_resident,
                                .is_online = is_online(target, row),
                                .is_read_once = is_read_once(program),
                                .has_arg = has_arg(program),
                                .epilogue_loads = md_fa_cuda_row_epilogue_loads(target),
                                .width = width,
                                .resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1),
                                .traffic = fmax(sectors / pow(row->rows, SECTOR_SHARED), 1),
                                .scattered_us = is_scattered ? SECTOR_ELEMENT_US * width : 0,
                                .exchanges_us = exchanges_us(target, row),
                                .reread_bytes = row->is_resident ? 0 : reread_bytes(target, row)};
    f->idle_part = f->is_read_once ? IDLE_READ_PART : (program->n_levels + program->has_elements) / 3.0;
    f->latency_us = (program->has_elements ? STORE_US : 0) + (row->align == MD_FA_CUDA_STRIDED ? STRIDED_US : 0) +
                    LOAD_US +
                    (!is_scattered                           ? 0
                     : row->is_resident && row->vectors == 1 ? SECTOR_ONE_VECTOR_US
                                                             : SECTOR_BLOCK_US);
    count_slots(f, target, row);
}
