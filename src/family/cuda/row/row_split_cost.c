/* What row_split costs: the time of one row through a group of blocks, then the highest of memory, instructions and
 * rows that wait for rows. */
#include "family/cuda/row/row_split.h"

#include "family/cost.h"
#include "family/numeric.h"

#include <math.h>

/* Constants were fit on an H200, with those of row_cost.c and from the same shapes. */

/* The loads come; each further chunk of a slice; weights, such as have to be shifted, and each vector of a thread's;
 * the stores go; what each warp of a block, and of an SM, adds; room for many blocks; strides; a slot of a thread; a
 * vector beyond the slice's end: us. */
static const double LOAD_US = 0.9256, CHUNK_US = 0.437, CHUNK_VECTOR_US = 0.03247, EPILOGUE_US = 0.1115,
                    SHIFTED_US = 0.2229, SHIFTED_VECTOR_US = 0.04319;
static const double STORE_US = 0.05317, BARRIER_US = 0.03036, WARP_US = 0.001872, ROOM_US = 1.088e-05,
                    STRIDED_US = 0.2536;
static const double THREAD_SLOT_US = 0.002284, IDLE_VECTOR_US = 0.03064;
/* A meeting, by EXCHANGE: of any number of blocks, and what twice as many add. */
static const double MEETING_US[] = {1.069, 0.8789, 0.8228, 0.3006}, WIDER_US[] = {0.01766, 0.4894, 3.46e-06, 0.04975},
                    ALONE_US = 0.138;
/* Against the rate of copies, and what an SM draws of its share; reading a slice again. */
static const double RATE = 0.9486, SM_BURST = 315.1, AGAIN_PART = 0.9807;
/* How times add up, the part of a row's way that the next row of the same blocks waits for, and of the instructions
 * counted here those that are issued. */
static const double WHOLE_ROWS = 0.8584, NORM = 1.309, WAIT_PART = 1.091, ISSUED_PART = 0.5514, SLOT_PART = 2.077,
                    EXP_SLOTS = 5.292;
/* Of groups that end together: what a last wave that is not whole counts. */
static const double TAIL_PART = 1.5;
/* Memory, where weights of 16 bits have to be shifted. */
static const double SHIFTED_PART = 1.2;
static const double ACCESS_COST[] = {0.736, 0.9918, 1.113}, ACCESS_SLOTS[] = {0.5484, 1.916, 2.549};

/* How often a slice is read beside the first time. */
static double again_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return config->value[MD_FA_SPLIT_KEEP] ? 0
           : row->has_elements             ? 1
           : md_fa_is_online(target)       ? 0
                                           : row->n_levels - 1;
}

/* Of an element; `part`: of its exponentials that are computed again. */
static double element_slots(const md_fa_target *target, double part)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    return work.operations + (row->n_levels + row->has_elements) * (work.loads * 0.5 + 1) +
           work.transcendental * EXP_SLOTS * part;
}

/* One row's. */
static double way_us(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double n,
                     double resident)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    double sms = MD_MAX(target->facts->threads, 1), threads = config->value[MD_FA_SPLIT_THREADS],
           exchange = config->value[MD_FA_SPLIT_EXCHANGE];
    double vectors = ceil(ceil(n / c->blocks) / (threads * md_fa_cuda_width(target->program, target->stage)));
    double meeting =
        c->blocks > 1 ? MEETING_US[(int32_t)exchange] + WIDER_US[(int32_t)exchange] * log2(c->blocks) : ALONE_US;
    double us = LOAD_US + meeting * (md_fa_is_online(target) ? 1 : row->n_levels);
    if (md_fa_cuda_row_has_epilogue_loads(target))
        us += config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED
                  ? EPILOGUE_US
                  : SHIFTED_US + SHIFTED_VECTOR_US * config->value[MD_FA_SPLIT_VECTORS];
    us += (row->has_elements ? STORE_US : 0) + BARRIER_US * threads / 32 +
          WARP_US * threads / 32 * fmin((double)c->blocks * (double)c->groups / sms, resident);
    us +=
        IDLE_VECTOR_US * fmax(config->value[MD_FA_SPLIT_VECTORS] - vectors, 0) +
        THREAD_SLOT_US * fmax(vectors, 1) * md_fa_cuda_width(target->program, target->stage) * element_slots(target, 1);
    return us + (config->value[MD_FA_SPLIT_BLOCKS] > 32 ? ROOM_US : 0) +
           (config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_STRIDED ? STRIDED_US : 0);
}

/* The loop over a slice, where it is not kept. */
static double loop_us(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double n)
{
    double lot = (double)config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_VECTORS] *
                 md_fa_cuda_width(target->program, target->stage);
    double chunks = fmax(ceil(ceil(n / c->blocks) / lot), 1);
    return (chunks - 1) * (CHUNK_US + CHUNK_VECTOR_US * config->value[MD_FA_SPLIT_VECTORS]) *
           (1 + again_of(target, config));
}

/* Groups that wait for groups to end (clusters), or rows of a group for the one before. */
static double waits_of(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double resident)
{
    if (c->blocks > 1 && (config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_GRID ||
                          config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_TICKET))
        return ceil((double)c->rows / fmax((double)c->groups, 1)) - 1;
    /* GPCs of 16 or 18 SMs are not filled by large clusters */
    double part = c->blocks > 8 ? 0.85 : c->blocks > 2 ? 0.92 : 1;
    double at_once = fmax(floor(resident * MD_MAX(target->facts->threads, 1) * part / c->blocks), 1);
    double waves = (double)c->rows / at_once, whole = ceil(waves);
    return waves > 1 ? waves - 1 + TAIL_PART * (whole - waves) / whole : 0;
}

void md_fa_cuda_split_features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                               const int64_t *size)
{
    const md_dev_facts *facts = target->facts;
    md_fa_cuda_cut c = md_fa_cuda_split_cut_of(target, config, size);
    double flops = 0, bytes = 0, n = (double)md_st_size(target->program, md_fa_stage(target)->axis, size);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    md_fa_cuda_load load = {.threads = config->value[MD_FA_SPLIT_THREADS],
                            .registers = MD_MIN(md_fa_cuda_split_registers(target, config, 1),
                                                md_fa_cuda_split_register_limit(target, config))};
    double resident = MD_MAX(md_fa_cuda_resident(facts, &load), 1), sms = MD_MAX(facts->threads, 1);
    double busy = fmin(fmax((double)c.blocks * (double)c.groups, 1) / sms, 1),
           way = way_us(target, config, &c, n, resident);
    double loop = loop_us(target, config, &c, n);
    double rate = (facts->memory_gbps > 0 ? facts->memory_gbps : 1000.0) * 1e3,
           slots = element_slots(target, config->value[MD_FA_SPLIT_KEEP] == 2 ? 0.6 : 1) * ISSUED_PART;
    double memory =
        fmax(bytes, 1) / rate * ACCESS_COST[config->value[MD_FA_SPLIT_ALIGN]] * md_fa_cuda_row_apart(target) / RATE;
    slots *= (double)c.rows * n * ACCESS_SLOTS[config->value[MD_FA_SPLIT_ALIGN]];
    memory *= (1 + AGAIN_PART * again_of(target, config)) / fmin(1, busy * SM_BURST);
    if (config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED && md_fa_cuda_row_has_epilogue_loads(target) &&
        md_fa_cuda_width(target->program, target->stage) > 4)
        memory *= SHIFTED_PART;
    double instructions = slots / ((facts->gflops > 0 ? facts->gflops : 10000.0) * 1e3 / 2 * SLOT_PART * busy);
    double waiting = (way + loop) * waits_of(target, config, &c, resident) * WAIT_PART + loop;
    double us = pow(pow(memory, NORM) + pow(instructions, NORM) + pow(waiting, NORM), 1 / NORM);
    if (c.blocks == 1) /* nothing is split, but blocks go from row to row */
        us *= WHOLE_ROWS;
    *out = (md_fa_features){.ops_rate = SLOT_PART,
                            .ops = 2 * slots,
                            .launches = config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH ? 2 : 1,
                            .parallel = busy * sms,
                            .serial_us = way};
    out->memory_bytes = fmin(bytes, us * rate); /* what is only read may come faster than a copy's bytes */
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
}
