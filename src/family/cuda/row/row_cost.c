/* The cost of row programs on a GPU: the latency of one block, plus the p-norm of the times of memory, instructions,
 * waves of blocks and starting blocks. The constants were fitted to softmax, layer_norm, sum, argmax and var on an H200
 * (November 2026), with the kernels near the best of each shape; exponentials and vectors beyond the row's end again
 * with times of an H100. */
#include "family/cuda/row/row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"
#include "family/cuda/cuda.h"

#include <math.h>

/* Latency of a block, us: its loads; its stores; the exchange of a level between threads of a warp, or of a block, and
 * for each warp of it; for each vector of a thread, its load and each pass over it; for each slot of a thread; for each
 * vector beyond the row's end; for each warp of a block of several rows; for strides. */
static const double LOAD_US = 0.008711, STORE_US = 0.115, WARP_US = 0.0001779, BLOCK_US = 0.1578,
                    EACH_WARP_US = 0.00188;
static const double LOAD_VECTOR_US = 0.02188, VECTOR_US = 0.001321, THREAD_SLOT_US = 0.00017, IDLE_VECTOR_US = 0.04,
                    ROWS_US = 0.009196, STRIDED_US = 0.2531;
/* Latency of each vector of a thread: of weights, and of an argmax or argmin, which depend on the vector before. */
static const double EPILOGUE_VECTOR_US = 0.1872, ARG_VECTOR_US = 0.03299;
/* Argmax and argmin of rows in registers: each vector of a thread beyond ARG_HELD adds this part to the whole time. */
static const double ARG_HELD_PART = 0.07, ARG_HELD = 4;
/* Stages that only reduce, in one pass: the weight of a vector beyond the row's end (against 1 for three passes), and
 * the latency of a vector of 4-byte elements. */
static const double IDLE_READ_PART = 0.1974, READ_VECTOR_US = 0.06927;
/* Latency of weights that the stores use; if they must be shifted, also for each vector, up to a limit. */
static const double EPILOGUE_US = 0.08184, SHIFTED_US = 0.3133, SHIFTED_VECTOR_US = 0.2487, SHIFTED_MOST_US = 2.436;
/* Latency of a loop: a chunk of a row, each of its vectors, merging it, the pass of the stores; the part of it that a
 * later pass takes; each vector of a chunk whose weights must be shifted. */
static const double CHUNK_US = 0.3222, CHUNK_VECTOR_US = 0.03945, MERGE_US = 0.9735, LOOP_STORE_US = 0.4327,
                    LATER_PASS = 0.1024, LOOP_SHIFTED_US = 0.28;
/* The time in which an SM starts a block. */
static const double START_US = 0.1069;
/* Memory rates against that of copies: rows in registers; loops; the second pass of a loop if it finds its row in the
 * L2; the part of the L2 that serves it; and the most that an SM reaches, in shares. */
static const double ROW_RATE = 0.9921, LOOP_RATE = 0.7263, L2_RATE = 0.7621, L2_PART = 1.096, SM_BURST = 315.7;
/* The least time, as a part of the time in which a copy moves as many bytes. */
static const double LEAST_PART = 0.7024, LEAST_READ_PART = 0.7208;
/* The exponents of the p-norm (1: the times add up; large: the longest counts), and how much lower they are if an SM
 * has one block; the weights of later waves and of a lone block; uneven SMs and a last wave that is not full; and
 * threads that hold more than 32 elements, for each 32. */
static const double ROW_NORM = 1.599, LOOP_NORM = 1.492, ROW_ALONE = 1.278, LOOP_ALONE = 0.5572, WAIT_PART = 0.6089,
                    ALONE_PART = 0.07212, BALANCE_PART = 0.458, TAIL_PART = 1.226, MANY_PART = 0.02274;
/* An element whose neighbours are not next to it in memory takes a sector of 32 bytes, of which the neighbouring rows of a
 * block use more. It costs issue slots (a load of a warp touches 32 lines) and latency: of a block, and of each element of a
 * vector. Fitted to 293 kernels that add up columns, on an H100: 14% root mean square, 36% before. */
static const double SECTOR_BYTES = 32, SECTOR_SHARED = 0.55, SECTOR_SLOTS = 105, SECTOR_BLOCK_US = 0.29,
                    SECTOR_ELEMENT_US = 0.033;
/* By md_fa_cuda_align: memory, and instructions. */
static const double ACCESS_COST[] = {0.5272, 0.6686, 1.117}, ACCESS_SLOTS[] = {0.5516, 0.9211, 2.549};
/* Issue slots of a thread besides those of its elements: computing its place; a step of an exchange, and such a step of
 * argmax or argmin. */
static const double PLACE_SLOTS = 157.6, STEP_SLOTS = 19.16, ARG_STEP_SLOTS = 52;
/* Issue slots of an element: conversion from 16 bits, max or min, argmax or argmin, an exponential, and an exponential
 * for 16-bit results. */
static const double UNPACK_SLOTS = 2.411, MAX_SLOTS = 2.396, ARG_SLOTS = 9.244, EXP_SLOTS = 16.3, SHORT_EXP_SLOTS = 4;
/* Issue slots of a vector beyond the row's end; the part of all slots that costs issue time; and the part that adds to
 * a block's latency. */
static const double IDLE_SLOTS = 114, ISSUED_PART = 0.42, LATENCY_PART = 0.03893;
/* Issue slots an SM has, against the device's rate of fma. */
static const double SLOT_PART = 1.14;

static bool is_online(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return row->merges && md_fa_stage(target)->row.is_online && md_fa_stage(target)->row.n_levels > 1;
}

/* Bytes that later passes read again, of all rows, if rows are not kept. */
static double reread_bytes(const md_fa_target *target, const md_fa_cuda_row *row, double points)
{
    const md_st_stage *st = md_fa_stage(target);
    md_cg_row_options options = md_fa_cuda_row_options(target, row);
    md_cg_row_plan plan;
    double bytes = 0;
    uint32_t levels = (UINT32_C(1) << st->row.n_levels) - 1;
    md_cg_row_plan_make(&plan, &options);
    for (int32_t i = 0; i < plan.n_loads; i++) {
        uint32_t passes = plan.load[i].passes;
        int32_t times = 0;
        for (int32_t l = 0; l <= st->row.n_levels; l++)
            times += (int32_t)(passes >> l & 1);
        if (options.is_online)
            times = (int32_t)(passes >> st->row.n_levels & 1) + ((passes & levels) != 0);
        if (!plan.load[i].is_shared)
            bytes +=
                (times - 1) * points * md_dtype_bytes(target->program->formula->tensor[plan.load[i].node->id].dtype);
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
    traffic *p = user;
    if (node->kind != MD_FX_LOAD || node->n_args == 0 || !md_fx_uses_index(node, md_fa_stage(p->target)->axis))
        return true;
    double bytes = md_dtype_bytes(p->target->program->formula->tensor[node->id].dtype);
    p->bytes += bytes;
    p->sectors += p->unit >> node->id & 1 ? bytes : SECTOR_BYTES;
    return true;
}

static void make_traffic(void *out, const md_st_program *program, int32_t stage, const void *target)
{
    const md_st_stage *st = &program->stage[stage];
    traffic p = {.target = target, .unit = md_cg_unit_tensors(program, stage, st->axis)};
    md_cg_visit(st, note_traffic, &p);
    *(double *)out = p.bytes > 0 ? fmax(p.sectors / p.bytes, 1) : 1;
}

double md_fa_cuda_row_traffic(const md_fa_target *target)
{
    double factor = 1;
    md_st_know(
        &factor, target->program, target->stage,
        &(md_st_fact){.which = MD_ST_KNOWN_TRAFFIC, .n_bytes = sizeof factor, .make = make_traffic, .user = target});
    return factor;
}

/* True if elements of a row are not next to each other in memory. */
static bool is_scattered(const md_fa_target *target)
{
    return md_fa_cuda_row_traffic(target) > 1;
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

/* Issue slots of the launch. `vectors`: of a thread, those beyond the row's end included. */
static double slots_of(const md_fa_target *target, const md_fa_cuda_row *row, double rows, double vectors)
{
    const md_st_stage *st = md_fa_stage(target);
    md_fa_host_work work;
    double width = md_fa_cuda_width(target->program, target->stage), passes = st->row.n_levels + st->row.has_elements;
    bool again = !row->keeps && st->row.has_elements && md_fa_cuda_row_can_keep(target);
    md_fa_host_count(&work, st, target->program);
    double element = reduction_slots(target, false) + work.operations + 0.3 * passes +
                     (is_scattered(target) ? SECTOR_SLOTS * work.loads : 0);
    const double exponentials =
        work.transcendental * (again ? 2 : 1) * (md_fa_cuda_row_is_short(target) ? SHORT_EXP_SLOTS : EXP_SLOTS);
    element += width > 4 ? passes * UNPACK_SLOTS * work.loads : 0.5 * work.loads;
    double thread =
        PLACE_SLOTS + steps_of(row) * reduction_slots(target, true) + width * reduction_slots(target, false);
    if (is_online(target, row))
        thread += ceil(vectors / row->vectors) * 60 * st->row.n_reductions;
    thread += vectors * (width * element + (row->align == MD_FA_CUDA_ALIGNED ? 3 : 8));
    return rows * row->lanes * (thread * ACCESS_SLOTS[row->align] + vectors * width * exponentials);
}

/* ---- Time */

/* A launch. Slots and bytes are those of all its blocks; `waves` are of blocks that run at once. */
typedef struct launch {
    const md_fa_target *target;
    const md_fa_cuda_row *row;
    /* vectors: of a thread; chunks: of them; idle: vectors beyond the row's end, weighted */
    double rows, n, width, blocks, vectors, chunks, idle;
    double sms, resident, waves, bytes, slots;
    bool has_epilogue_loads;
} launch;

static void count_launch(launch *l, const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    double flops = 0;
    *l = (launch){.target = target,
                  .row = row,
                  .rows = (double)md_st_points(target->program, st->n_outer, st->outer, size),
                  .n = (double)md_st_size(target->program, st->axis, size),
                  .width = md_fa_cuda_width(target->program, target->stage),
                  .blocks = fmax((double)md_fa_cuda_row_blocks(target, row, size), 1),
                  .sms = MD_MAX(target->facts->threads, 1)};
    md_fa_cuda_load load = {
        .blocks = l->blocks, .threads = row->lanes * row->rows, .registers = md_fa_cuda_row_registers(target, row)};
    md_st_work(&flops, &l->bytes, target->program, target->stage, size);
    l->vectors = fmax(ceil(l->n / (l->width * row->lanes)), 1);
    l->chunks = ceil(l->vectors / row->vectors);
    l->has_epilogue_loads = md_fa_cuda_row_has_epilogue_loads(target);
    /* each pass goes over them */
    l->idle = fmax(row->vectors - l->vectors, 0) *
              (is_read_once(&st->row) ? IDLE_READ_PART : (st->row.n_levels + st->row.has_elements) / 3.0);
    l->resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
    l->waves = l->blocks / (l->sms * l->resident);
    l->slots = slots_of(target, row, l->rows, l->vectors) + l->idle * load.threads * l->blocks * IDLE_SLOTS;
}

static double slots_of_device(const md_fa_target *target) /* in a us */
{
    return md_fa_cuda_fma_per_us(target->facts) * SLOT_PART;
}

/* The exchanges of all levels, us. */
static double exchanges_us(const launch *l)
{
    double warps = l->row->lanes / 32.0, one = warps > 1 ? BLOCK_US + EACH_WARP_US * warps : WARP_US;
    return one * (is_online(l->target, l->row) ? 1 : md_fa_stage(l->target)->row.n_levels);
}

/* us of a thread's vector whose elements are loaded one by one. */
static double scattered_us(const launch *l)
{
    return is_scattered(l->target) ? SECTOR_ELEMENT_US * l->width : 0;
}

/* The latency of a block that runs alone, without the loop over its chunks. */
static double latency_us(const launch *l)
{
    const md_st_row *program = &md_fa_stage(l->target)->row;
    double us = exchanges_us(l) + l->slots / l->blocks / (slots_of_device(l->target) / l->sms) * LATENCY_PART;
    us += (program->has_elements ? STORE_US : 0) + (l->row->align == MD_FA_CUDA_STRIDED ? STRIDED_US : 0) + LOAD_US;
    us += is_scattered(l->target) ? SECTOR_BLOCK_US : 0;
    if (l->has_epilogue_loads)
        us += l->row->align == MD_FA_CUDA_ALIGNED
                  ? EPILOGUE_US
                  : fmin(SHIFTED_US + SHIFTED_VECTOR_US * fmin(l->vectors, l->row->vectors), SHIFTED_MOST_US);
    if (!l->row->is_resident)
        return us + (program->has_elements ? LOOP_STORE_US : 0);
    double held = fmin(l->vectors, l->row->vectors),
           more = l->has_epilogue_loads ? EPILOGUE_VECTOR_US * fmax(held - 2, 0) : 0;
    more += has_arg(program) ? ARG_VECTOR_US * l->width / 4 * held : 0;
    more += l->row->rows > 1 ? ROWS_US * l->row->rows * l->row->lanes / 32 : 0;
    more += scattered_us(l) * held;
    return us + more +
           held * (is_read_once(program) && l->width <= 4
                       ? READ_VECTOR_US
                       : LOAD_VECTOR_US + VECTOR_US * (program->n_levels + program->has_elements)) +
           IDLE_VECTOR_US * l->idle + THREAD_SLOT_US * l->slots / (l->blocks * l->row->lanes * l->row->rows);
}

/* The latency of the loop of a block that runs alone. */
static double loop_us(const launch *l)
{
    const md_st_row *program = &md_fa_stage(l->target)->row;
    bool online = is_online(l->target, l->row);
    double passes = (online ? 1 : program->n_levels) + program->has_elements;
    double each = CHUNK_VECTOR_US + scattered_us(l) + (has_arg(program) ? ARG_VECTOR_US * l->width / 4 : 0);
    double chunk =
        CHUNK_US + each * fmin(l->vectors, l->row->vectors) + IDLE_VECTOR_US * l->idle + (online ? MERGE_US : 0);
    const double shifted = l->has_epilogue_loads && l->row->align != MD_FA_CUDA_ALIGNED
                               ? LOOP_SHIFTED_US * fmin(l->vectors, l->row->vectors)
                               : 0;
    return l->row->is_resident ? 0 : (chunk * (1 + LATER_PASS * (passes - 1)) + shifted) * l->chunks;
}

/* Bytes that loops read again; those from the L2 count as fewer. *missed: those from memory. */
static double reread_costs(double *missed, const launch *l)
{
    *missed = 0;
    if (l->row->is_resident)
        return 0;
    double again = reread_bytes(l->target, l->row, l->rows * l->n);
    double live = fmin(l->blocks, l->resident * l->sms) * l->row->rows * l->n * (l->width > 4 ? 2 : 4);
    *missed = again * fmax(1 - L2_PART * (double)l->target->facts->l2_bytes / fmax(live, 1), 0);
    return *missed + (again - *missed) / L2_RATE;
}

static double memory_us(const launch *l)
{
    double missed,
        rate = md_fa_cuda_bytes_per_us(l->target->facts) / ACCESS_COST[l->row->align] /
               fmax(md_fa_cuda_row_traffic(l->target) / pow(l->row->rows, SECTOR_SHARED), 1),
        busy = fmin(l->blocks / l->sms, 1);
    return l->bytes / rate / fmin(busy * SM_BURST, 1) / (l->row->is_resident ? ROW_RATE : LOOP_RATE) +
           reread_costs(&missed, l) / rate;
}

void md_fa_cuda_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row *row,
                             const int64_t *size)
{
    launch l;
    count_launch(&l, target, row, size);
    double norm = 1 + ((row->is_resident ? ROW_NORM : LOOP_NORM) - 1) *
                          fmax(1 - (row->is_resident ? ROW_ALONE : LOOP_ALONE) / l.resident, 0);
    double busy = fmin(l.blocks / l.sms, 1), latency = latency_us(&l), loop = loop_us(&l);
    double memory = fmax(memory_us(&l), 1e-6), instructions = l.slots * ISSUED_PART / (slots_of_device(target) * busy);
    if (l.resident < 2) /* with one block, an SM has nothing else to do while it waits */
        latency *= 1 + ALONE_PART;
    double waiting = (latency + loop) * fmax(l.waves - 1, 0) * WAIT_PART + loop,
           starting = fmax(l.blocks / l.sms - l.resident, 0) * START_US;
    double us = md_fa_norm(md_fa_norm(memory, instructions, norm), md_fa_norm(waiting, starting, norm), norm);
    double waves = ceil(l.waves);
    if (l.waves <= 1 && l.blocks > l.sms) /* all blocks run at once, but some SMs have one more than others */
        us *= 1 + BALANCE_PART * (ceil(l.blocks / l.sms) / (l.blocks / l.sms) - 1);
    if (l.waves > 1)
        us *= 1 + (waves - l.waves) / waves * TAIL_PART / waves;
    us *= 1 + MANY_PART * fmax(fmin(row->vectors, l.vectors) * l.width / 32 - 1, 0);
    if (row->is_resident && has_arg(&md_fa_stage(target)->row))
        us *= 1 + ARG_HELD_PART * fmax(fmin(row->vectors, l.vectors) - ARG_HELD, 0);
    double missed;
    (void)reread_costs(&missed, &l);
    us = fmax(us, (l.bytes + missed) / md_fa_cuda_bytes_per_us(target->facts) *
                      (md_fa_stage(target)->row.has_elements ? LEAST_PART : LEAST_READ_PART));
    *out =
        (md_fa_features){.ops_rate = SLOT_PART, .launches = 1, .parallel = fmin(l.blocks, l.sms), .serial_us = latency};
    out->ops = 2 * l.slots * ISSUED_PART;
    /* reads may be faster than a copy of as many bytes */
    out->memory_bytes = fmin(l.bytes, us * md_fa_cuda_bytes_per_us(target->facts));
    out->memory_rate = fmax(out->memory_bytes / md_fa_cuda_bytes_per_us(target->facts) / us, 1e-9);
}
