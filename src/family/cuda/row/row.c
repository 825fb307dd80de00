/* Row programs on a GPU: text, envelope, geometry and registers. */
#include "family/emit.h"
#include "family/cuda/row/row.h"

#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cuda/cuda.h"

/* Registers of a thread without the elements that it holds, and what is added by merging states, wider vectors,
 * computing the place of vectors, a loop, and several rows at once. */
enum {
    BASE_REGISTERS = 32,
    MERGE_REGISTERS = 12,
    WIDE_REGISTERS = 8,
    PLACE_REGISTERS = 4,
    LOOP_REGISTERS = 6,
    ROWS_REGISTERS = 8
};
/* Fewer where groups inside a warp hold single elements and store nothing along the row; one at a time. */
enum { SINGLE_LESS = 8, READ_LESS = 13 };
enum { MOST_WIDE = 160 }; /* most registers of a thread whose elements stay unpacked */
/* Up to so many blocks an SM, all SMs get as many. */
enum { MOST_SPREAD = 8 };
enum { POSITIONS_MOST = INT32_MAX - 65536 * 16 };

static md_dtype dtype_of(const md_fa_target *target, int32_t tensor)
{
    return target->program->formula->tensor[tensor].dtype;
}

bool md_fa_cuda_row_is_single(md_fa_cuda_align align)
{
    return align >= MD_FA_CUDA_SINGLE;
}

int32_t md_fa_cuda_row_at_once(md_fa_cuda_align align)
{
    return md_fa_cuda_row_is_single(align) ? 1 << (align - MD_FA_CUDA_SINGLE) : 1;
}

int32_t md_fa_cuda_row_width(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return md_fa_cuda_row_is_single(row->align) ? 1 : md_fa_cuda_width(target->program, target->stage);
}

md_cg_row_options md_fa_cuda_row_options(const md_fa_target *target, const md_fa_cuda_row *row)
{
    const md_st_row *program = &md_fa_stage(target)->row;
    return (md_cg_row_options){
        .program = target->program,
        .stage = target->stage,
        .dialect = MD_DEV_CUDA,
        .access = row->align == MD_FA_CUDA_STRIDED ? MD_CG_STRIDED : MD_CG_UNIT,
        .is_online = row->merges && program->is_online && program->n_levels > 1,
        .keep_points = row->keeps ? md_fa_cuda_row_width(target, row) : 0,
    };
}

bool md_fa_cuda_row_can_keep(const md_fa_target *target)
{
    md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){.keeps = true});
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    return on_chip.n_kept > 0;
}

int32_t md_fa_cuda_row_epilogue_loads(const md_fa_target *target)
{
    md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){0});
    uint32_t levels = (UINT32_C(1) << md_fa_stage(target)->row.n_levels) - 1;
    md_cg_on_chip on_chip;
    int32_t n = 0;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++)
        n += on_chip.load[i].is_shared && !(on_chip.load[i].passes & levels);
    return n;
}

bool md_fa_cuda_row_has_one_load(const md_fa_target *target)
{
    const md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){0});
    const md_st_stage *st = md_fa_stage(target);
    const uint32_t unit = md_cg_unit_tensors(target->program, target->stage, st->axis);
    const int32_t width = md_fa_cuda_width(target->program, target->stage);
    bool found = false;
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        const md_cg_row_load *load = &on_chip.load[i];
        const md_fx_node *last = load->node->arg[load->node->n_args - 1];
        if (!(unit >> load->node->id & 1) || last->kind != MD_FX_INDEX)
            return false;
        if (load->is_shared)
            continue;
        if (found || !(load->passes & 1) || width * (int32_t)md_dtype_size(dtype_of(target, load->node->id)) != 16)
            return false;
        found = true;
    }
    return found;
}

/* Elements of a row that its threads can hold, with unaligned ends. */
static int64_t capacity_of(const md_fa_target *target, const md_fa_cuda_row *row)
{
    int64_t width = md_fa_cuda_row_width(target, row);
    return (int64_t)row->lanes * row->vectors * width + width - 1;
}

/* Registers for one vector of each tensor: as it was loaded (or, if `is_wide`, as the passes compute with it), and its
 * kept values. *epilogue: registers for weights that only the stores load. */
static int32_t vector_registers(int32_t *epilogue, const md_fa_target *target, const md_fa_cuda_row *row, bool is_wide)
{
    md_cg_row_options options = md_fa_cuda_row_options(target, row);
    md_cg_on_chip on_chip;
    int32_t loaded = 0, kept = 0, weights = 0, width = md_fa_cuda_row_width(target, row);
    const int32_t least = md_fa_cuda_row_is_single(row->align) ? 4 : 1; /* each single element takes a register */
    uint32_t levels = (UINT32_C(1) << md_fa_stage(target)->row.n_levels) - 1;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        uint32_t passes = on_chip.load[i].passes;
        bool is_early = !on_chip.load[i].is_shared || (passes & levels) != 0,
             is_used_again = (passes & (passes - 1)) != 0;
        int32_t size = (int32_t)md_dtype_size(dtype_of(target, on_chip.load[i].node->id));
        *(is_early ? &loaded : &weights) += MD_MAX(width * (is_wide && is_used_again ? MD_MAX(size, 4) : size), least);
    }
    for (int32_t i = 0; i < on_chip.n_kept; i++)
        kept += width * (on_chip.kept[i].node->type == MD_F64 ? 8 : 4);
    *epilogue = (weights + 3) / 4;
    return (MD_MAX(loaded, kept) + 3) / 4;
}

static int32_t registers_of(const md_fa_target *target, const md_fa_cuda_row *row, bool is_wide)
{
    bool is_online = row->merges && md_fa_stage(target)->row.is_online && md_fa_stage(target)->row.n_levels > 1;
    int32_t base = BASE_REGISTERS + (is_online ? MERGE_REGISTERS : 0) +
                   (md_fa_cuda_row_width(target, row) > 4 ? WIDE_REGISTERS : 0);
    base += (row->align == MD_FA_CUDA_ANY || row->align == MD_FA_CUDA_STRIDED ? PLACE_REGISTERS : 0) +
            (row->is_resident ? 0 : LOOP_REGISTERS);
    int32_t extra = md_fa_stage(target)->row.n_reductions * md_fa_cuda_row_width(target, row), epilogue = 0,
            held = vector_registers(&epilogue, target, row, is_wide) * row->vectors;
    const int32_t at_once = md_fa_cuda_row_at_once(row->align), rows = at_once > 1 ? ROWS_REGISTERS : 0,
                  weights = row->is_resident && at_once == 1 ? MD_MIN(row->vectors, 2) : row->vectors;
    if (row->spreads && row->lanes <= 32 && md_fa_cuda_row_is_single(row->align) &&
        !md_fa_stage(target)->row.has_elements)
        base -= at_once == 1 ? READ_LESS : SINGLE_LESS;
    if (row->holds_weights)
        return base + MD_MIN(extra, 32) + held + md_fa_cuda_row_epilogue_loads(target) * row->vectors;
    return base + MD_MIN(extra, 32) + held * at_once + epilogue * weights + rows;
}

/* Blocks of an SM if a thread has so many registers. */
static int32_t blocks_with(const md_fa_cuda_row *row, int32_t registers)
{
    /* quarter_warps: warps for which a quarter of an SM has registers */
    int32_t threads = row->lanes * row->rows, quarter_warps = 512 / ((MD_MAX(registers, 1) + 7) / 8 * 8);
    return MD_MIN(quarter_warps * 4 / (threads / 32), 2048 / threads);
}

/* True if 16-bit elements stay unpacked between passes. The estimate of registers is high. */
static bool is_unpacked_once(const md_fa_target *target, const md_fa_cuda_row *row)
{
    int32_t wide = registers_of(target, row, true), loaded = registers_of(target, row, false);
    if (!row->is_resident || row->align == MD_FA_CUDA_STRIDED || wide > MOST_WIDE)
        return false;
    if (row->align == MD_FA_CUDA_ANY) /* such rows need more registers and wait longer for memory */
        return blocks_with(row, wide) == blocks_with(row, loaded) && blocks_with(row, wide) > 0;
    return blocks_with(row, wide - 24) > 0;
}

int32_t md_fa_cuda_row_registers(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return registers_of(target, row, is_unpacked_once(target, row));
}

/* Blocks of an SM for which the compiler leaves registers: as many as fit with the estimated number. Without it the
 * compiler stops at about 64 registers and spills. */
static int32_t min_blocks(const md_fa_target *target, const md_fa_cuda_row *row)
{
    const int32_t most = MD_MIN(MD_MAX(blocks_with(row, md_fa_cuda_row_registers(target, row)), 1), 16);
    return row->occupancy == 0 ? most : row->occupancy == 1 ? MD_MAX(most / 2, 1) : 1;
}

bool md_fa_cuda_row_has_occupancy(const md_fa_target *target, const md_fa_cuda_row *row)
{
    md_fa_cuda_row usual = *row, half = *row;
    usual.occupancy = 0;
    half.occupancy = 1;
    return row->occupancy == 0 || (min_blocks(target, row) < min_blocks(target, &usual) &&
                                   (row->occupancy == 1 || min_blocks(target, &half) > 1));
}

bool md_fa_cuda_row_is_short(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    for (int32_t i = 0; i < st->n_stores; i++) {
        md_dtype type = dtype_of(target, st->store[i].tensor);
        if (type != MD_F16 && type != MD_BF16)
            return false;
    }
    return true;
}

/* True if rows may begin or end inside a vector. False if the envelope promises rows of whole vectors. */
static bool has_ends(const md_fa_target *target, const md_fa_cuda_row *row)
{
    if (md_fa_cuda_row_is_single(row->align))
        return false;
    const md_st_stage *st = md_fa_stage(target);
    uint32_t unit = md_cg_unit_tensors(target->program, target->stage, st->axis);
    int32_t dim = target->program->index[st->axis].dim;
    for (int32_t i = 0; row->align == MD_FA_CUDA_ALIGNED && i < st->n_tensors; i++) {
        const md_fx_tensor *t = &target->program->formula->tensor[st->tensor[i]];
        int32_t last = t->rank - 1;
        if ((unit >> st->tensor[i] & 1) && last >= 0 && t->dim[last] == dim && !t->at_least[last] &&
            md_fa_cuda_row_width(target, row) * (int32_t)md_dtype_size(t->dtype) <= 16)
            return false;
    }
    return true;
}

static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_cuda_row *row)
{
    const md_fa_define define[] = {
        {"VL", md_fa_cuda_row_width(target, row)},
        {"ALIGNED", row->align == MD_FA_CUDA_ALIGNED || md_fa_cuda_row_is_single(row->align)},
        {"WIDE", row->align == MD_FA_CUDA_STRIDED},
        {"BOUNDARY", 1},
        {"HAS_ENDS", has_ends(target, row)},
        {"UNPACK_ONCE", is_unpacked_once(target, row)},
        {"GUARDED", row->align != MD_FA_CUDA_STRIDED},
        {"GROUP", row->lanes},
        {"VECTORS", row->vectors},
        {"BLOCK_ROWS", row->rows},
        {"AT_ONCE", md_fa_cuda_row_at_once(row->align)},
        {"MIN_BLOCKS", min_blocks(target, row)},
    };
    md_fa_print_defines(out, define, MD_COUNT(define));
    if (md_fa_cuda_row_is_short(target))
        md_strbuf_add(out, "#define MD_SHORT_RESULTS 1\n");
    if (row->align == MD_FA_CUDA_STRIDED) /* a kernel for any strides may be slow */
        md_strbuf_add(out, "#define MD_ALLOW_STACK 1\n");
}

md_status md_fa_cuda_row_emit_with(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_row *row,
                                   md_strbuf *defines)
{
    const md_cg_row_options options = md_fa_cuda_row_options(target, row);
    *out = (md_kn_source){.n_launches = 1};
    print_defines(defines, target, row);
    md_status status = md_fa_emit_row(&out->launch[0], target, &options, row->source, defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

md_status md_fa_cuda_row_emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    md_strbuf defines = {0};
    return md_fa_cuda_row_emit_with(out, target, spec, &defines);
}

/* ---- Legality and envelope */

bool md_fa_cuda_row_is_aligned(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    uint32_t unit = md_cg_unit_tensors(target->program, target->stage, st->axis);
    for (int32_t i = 0; i < st->n_tensors; i++) {
        const md_fx_tensor *t = &target->program->formula->tensor[st->tensor[i]];
        if ((unit >> st->tensor[i] & 1) && t->rank > 1 &&
            size[t->dim[t->rank - 1]] * (int64_t)md_dtype_size(t->dtype) % 16 != 0)
            return false;
    }
    return true;
}

bool md_fa_cuda_row_fits(const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size)
{
    if (row->align != MD_FA_CUDA_STRIDED &&
        (row->align == MD_FA_CUDA_ALIGNED) != md_fa_cuda_row_is_aligned(target, size))
        return false;
    int32_t registers = md_fa_cuda_row_registers(target, row);
    return registers <= 200 && (registers - 8) * row->lanes * row->rows <= 65536; /* the estimate is high by about 8 */
}

void md_fa_cuda_row_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_cuda_row *row = spec;
    const md_st_stage *st = md_fa_stage(target);
    int32_t dim = target->program->index[st->axis].dim;
    *out = (md_kn_envelope){0};
    if (row->align != MD_FA_CUDA_STRIDED) {
        out->unit = md_cg_unit_tensors(target->program, target->stage, st->axis);
        out->hi[dim] = POSITIONS_MOST;
    }
    if (row->align == MD_FA_CUDA_ALIGNED)
        out->aligned16 = out->unit;
    for (int32_t i = 0; i < st->row.n_reductions; i++)
        if (md_cg_is_arg(st->row.reduction[i].op)) /* positions are 32-bit numbers */
            out->hi[dim] = POSITIONS_MOST;
    if (row->is_resident) {
        out->row_points_max = capacity_of(target, row);
        out->n_row_dims = 1;
        out->row_dim[0] = dim;
    }
}

/* ---- Launches */

int64_t md_fa_cuda_row_blocks(const md_fa_target *target, md_fa_cuda_align align, int32_t lanes, int64_t rows,
                              int64_t of_block)
{
    const int64_t blocks = rows / of_block + (rows % of_block != 0), sms = MD_MAX(target->facts->threads, 1);
    if (!md_fa_cuda_row_is_single(align) || lanes > 32 || blocks > sms * MOST_SPREAD)
        return blocks;
    const int64_t of_warp = 32 / lanes, warps = rows / of_warp + (rows % of_warp != 0);
    return MD_MIN((blocks + sms - 1) / sms * sms, MD_MAX(warps, blocks));
}

static int64_t blocks_of(const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const int64_t rows = md_st_points(target->program, st->n_outer, st->outer, size),
                  of_block = (int64_t)row->rows * md_fa_cuda_row_at_once(row->align);
    return row->spreads ? md_fa_cuda_row_blocks(target, row->align, row->lanes, rows, of_block)
                        : rows / of_block + (rows % of_block != 0);
}

void md_fa_cuda_row_geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec,
                             const md_kn_shape *shape)
{
    const md_fa_cuda_row *row = spec;
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->blocks = blocks_of(target, row, shape->size);
    launch->grain = 1;
    bool is_flat = launch->blocks <= INT32_MAX;
    launch->grid[0] = is_flat ? (int32_t)launch->blocks : 1 << 30;
    launch->grid[1] = is_flat ? 1 : (int32_t)MD_MIN((launch->blocks >> 30) + 1, 65535);
    launch->grid[2] = 1;
    launch->block[0] = row->lanes * row->rows;
    launch->block[1] = launch->block[2] = 1;
    launch->overlaps = true;
}

/* The thread of an element and its place there depend on its distance from the first element at an aligned address.
 * That is the row's first if tensors are aligned or lanes go element by element. A thread adds its vectors in order,
 * then come the row's ends, then the threads: the number of vectors loaded at once does not matter. */
md_fa_class md_fa_cuda_row_class(bool has_chunks, bool is_placed)
{
    return (md_fa_class){.group = has_chunks  ? (is_placed ? "row_chunks_placed" : "row_chunks")
                                  : is_placed ? "row_placed"
                                              : "row",
                         .field = {"lanes", has_chunks ? "vecs" : "keep"},
                         .is_repeatable = true,
                         .is_invariant = !is_placed};
}
