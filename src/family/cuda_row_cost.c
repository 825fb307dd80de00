/* Row programs on a GPU: cost. Constants fit softmax, layer_norm, sum and argmax with rows of 64 .. 32768 on an H200 (November 2026). */
#include "family/cuda_row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"
#include "family/cuda.h"

#include <math.h>

/* A block's life: its loads come, levels follow each other, its stores go; exchanges between threads of a warp, and of a block of so many warps; us. */
static const double LOAD_US = 1.0, STORE_US = 0.4, WARP_US = 0.1, BLOCK_US = 0.25, EACH_WARP_US = 0.012, VECTOR_US = 0.006;
/* An SM starts a block in this time. */
static const double START_US = 0.22;
/* Issue slots of a thread besides its elements: finding its place; a step of an exchange, and one with positions. */
static const double PLACE_SLOTS = 40, STEP_SLOTS = 6, ARG_STEP_SLOTS = 22;
/* Of an element: conversion from 16 bits, a maximum, a position, an exponential, and what the hardware does at half rate. */
static const double UNPACK_SLOTS = 0.7, MAX_SLOTS = 2, ARG_SLOTS = 4, EXP_SLOTS = 8, SHORT_EXP_SLOTS = 3;
static const double SLOT_RATE = 0.95; /* of the peak, where a slot is a multiplication and addition */

static const md_st_stage *stage_of(const md_fa_target *target)
{
    return &target->program->stage[target->stage];
}

static bool is_arg(const md_st_reduction *r)
{
    return r->op == MD_FX_R_ARGMAX || r->op == MD_FX_R_ARGMIN;
}

static bool is_online(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return row->merges && stage_of(target)->row.is_online && stage_of(target)->row.n_levels > 1;
}

/* Bytes along the axis that later passes read again, of all rows, where a row is not kept. */
static double reread_bytes(const md_fa_target *target, const md_fa_cuda_row *row, double points)
{
    const md_st_stage *st = stage_of(target);
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
            bytes += (times - 1) * points * (double)md_dtype_size(target->program->formula->tensor[plan.load[i].node->id].dtype);
    }
    return bytes;
}

/* Slots of all reductions: of one element, or of one step of an exchange. */
static double reduction_slots(const md_fa_target *target, bool is_step)
{
    const md_st_row *program = &stage_of(target)->row;
    double slots = 0;
    for (int32_t i = 0; i < program->n_reductions; i++) {
        const md_st_reduction *r = &program->reduction[i];
        bool is_extreme = r->op != MD_FX_R_SUM && r->op != MD_FX_R_PROD;
        if (is_step)
            slots += is_arg(r) ? ARG_STEP_SLOTS : STEP_SLOTS;
        else
            slots += is_arg(r) ? ARG_SLOTS : is_extreme ? MAX_SLOTS : 1;
    }
    return slots;
}

static double steps_of(const md_fa_cuda_row *row)
{
    int32_t warps = row->lanes / 32;
    return log2(MD_MIN(row->lanes, 32)) + (warps > 8 ? ceil(log2(warps)) + 2 : warps > 1 ? warps * 0.5 + 2 : 0);
}

/* Slots of the whole launch. `vectors`: of a thread, those beyond the row's end included. */
static double slots_of(const md_fa_target *target, const md_fa_cuda_row *row, double rows, double vectors)
{
    const md_st_stage *st = stage_of(target);
    md_fa_host_work work;
    double width = md_fa_cuda_width(target->program, target->stage), passes = st->row.n_levels + st->row.has_elements;
    bool again = !row->keeps && st->row.has_elements && md_fa_cuda_row_can_keep(target);
    md_fa_host_count(&work, st, target->program);
    double element = reduction_slots(target, false) + work.operations + 0.3 * passes;
    element += work.transcendental * (again ? 2 : 1) * (md_fa_cuda_row_is_short(target) ? SHORT_EXP_SLOTS : EXP_SLOTS);
    element += width > 4 ? passes * UNPACK_SLOTS * work.loads : 0.5 * work.loads;
    double thread = PLACE_SLOTS + steps_of(row) * reduction_slots(target, true) + width * reduction_slots(target, false);
    if (is_online(target, row))
        thread += ceil(vectors / row->vectors) * 60 * st->row.n_reductions;
    return rows * row->lanes * (thread + vectors * (width * element + (row->access == MD_FA_CUDA_ALIGNED ? 3 : 8)));
}

/* Of all levels. */
static double exchanges_us(const md_fa_target *target, const md_fa_cuda_row *row)
{
    double warps = row->lanes / 32.0, one = warps > 1 ? BLOCK_US + EACH_WARP_US * warps : WARP_US;
    return one * (is_online(target, row) ? 1 : stage_of(target)->row.n_levels);
}

/* The part of the memory rate that resident blocks can ask for, each with its bytes in its time. */
static double rate_of(const md_fa_target *target, const md_fa_cuda_row *row, double blocks, double bytes, double slots)
{
    const md_dev_facts *facts = target->facts;
    const md_st_row *program = &stage_of(target)->row;
    md_fa_cuda_load load = {.blocks = blocks, .threads = row->lanes * row->rows, .registers = md_fa_cuda_row_registers(target, row) - 4};
    double sms = MD_MAX(facts->threads, 1), resident = fmax(md_fa_cuda_resident(facts, &load), 1), capacity = resident * sms;
    double share = (facts->memory_gbps > 0 ? facts->memory_gbps : 1000) * 1e3 / sms, each = bytes / fmax(blocks, 1);
    double life = LOAD_US + (program->has_elements ? STORE_US : 0) + exchanges_us(target, row);
    life += VECTOR_US * row->vectors * row->vectors + 1.5 * slots / fmax(blocks, 1) / (128 * 1.7e3); /* what its threads compute, with others beside them */
    if (blocks <= sms) /* a single block an SM: the model's launch has part of the way */
        life -= 0.8 * LOAD_US;
    double running = fmin(resident, blocks / sms), asked = running * each / life / share, started = each / START_US / share;
    double part = asked / pow(1 + pow(asked, 4), 0.25);
    double waves = ceil(blocks / capacity), fill = blocks / (waves * capacity), tail = blocks <= capacity ? 1 : fill + (1 - fill) * (1 - 1 / waves) * 0.7;
    return fmax(fmin(part, started / pow(1 + pow(started, 4), 0.25)) * tail, 1e-3);
}

void md_fa_cuda_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row *row, const int64_t *size)
{
    const md_st_stage *st = stage_of(target);
    const md_dev_facts *facts = target->facts;
    double flops = 0, bytes = 0, rows = (double)md_st_points(target->program, st->n_outer, st->outer, size);
    double n = (double)md_st_size(target->program, st->axis, size), width = md_fa_cuda_width(target->program, target->stage);
    double blocks = (double)md_fa_cuda_row_blocks(target, row, size), vectors = fmax(ceil(n / (width * row->lanes)), 1);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    *out = (md_fa_features){.ops_rate = SLOT_RATE, .launches = 1, .parallel = fmin(blocks, facts->threads), .memory_bytes = bytes};
    out->ops = 2 * slots_of(target, row, rows, vectors);
    out->serial_us = 0.2 + 0.1 * st->row.n_levels;
    if (row->is_resident) {
        out->memory_rate = rate_of(target, row, blocks, bytes, out->ops / 2);
    } else {
        md_fa_cuda_load load = {.blocks = blocks, .threads = row->lanes * row->rows, .registers = md_fa_cuda_row_registers(target, row),
                                .bytes = row->vectors * 16.0 * 1.2};
        double again = reread_bytes(target, row, rows * n), running = fmin(blocks, fmax(md_fa_cuda_resident(facts, &load), 1) * facts->threads);
        double live = running * row->rows * n * 4;
        *(live > 0.5 * (double)facts->l2_bytes ? &out->memory_bytes : &out->cache_bytes) += again;
        out->memory_rate = 0.95 * md_fa_cuda_rate(facts, &load);
        /* The first chunk's way and what follows the last one's; with several blocks after each other they overlap in part. */
        double life = LOAD_US + (st->row.has_elements ? LOAD_US + STORE_US : 0) + exchanges_us(target, row);
        out->serial_us += (life - 0.8 * LOAD_US) * (blocks > running ? 0.3 : 1);
    }
    if (row->access == MD_FA_CUDA_STRIDED)
        out->memory_rate *= 0.25;
}
