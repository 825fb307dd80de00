/* The cost of row_split: the latency of one row, plus the p-norm of the times of memory, instructions and rows that
 * wait for others. */
#include "family/cuda/row/row_split.h"

#include "family/cost.h"
#include "family/numeric.h"

#include <math.h>

/* The constants were fitted on an H200, together with those of row_cost.c and to the same shapes; some of them again
 * with times of an H100. */

/* Latency, us: the loads; each further chunk of a slice, and each of its vectors; weights; weights that must be
 * shifted, and each of their vectors; the stores; each warp of a block, and of an SM; more than 32 blocks; strides; a
 * slot of a thread; a vector beyond the slice's end. */
static const double LOAD_US = 0.8124, CHUNK_US = 0.437, CHUNK_VECTOR_US = 0.03247, EPILOGUE_US = 0.1115,
                    SHIFTED_US = 0.4876, SHIFTED_VECTOR_US = 0.0265;
static const double STORE_US = 0.05317, BARRIER_US = 0.03036, WARP_US = 0.001872, MANY_BLOCKS_US = 1.088e-05,
                    STRIDED_US = 0.2536;
static const double THREAD_SLOT_US = 0.002224, IDLE_VECTOR_US = 0.03064;
/* Latency of an exchange, by field `exchange`: its constant part, and what each doubling of blocks adds; with a single
 * block. */
static const double EXCHANGE_US[] = {1.069, 0.8789, 0.8228, 0.3006},
                    EXCHANGE_DOUBLED_US[] = {0.01766, 0.4894, 3.46e-06, 0.04975}, ONE_BLOCK_US = 0.138;
/* The most that an SM reaches of the memory rate, in shares, and the cost of reading a slice again. */
static const double SM_BURST = 315.1, REREAD_PART = 0.9807;
/* Blocks that go from row to row without splitting; the exponent of the p-norm; the part of a row's latency for which
 * the next row of the same blocks waits; the part of the counted slots that is issued; slots of an SM against its rate
 * of fma; and slots of an exponential. */
static const double WHOLE_ROWS = 0.8584, NORM = 1.62, WAIT_PART = 0.854, ISSUED_PART = 2.2, SLOT_PART = 2.077,
                    EXP_SLOTS = 5.292;
/* Groups end together: the weight of a last wave that is not full. */
static const double TAIL_PART = 1.5;
/* The factor on memory if weights must be shifted. */
static const double SHIFTED_PART = 1.1;
/* By md_fa_cuda_align: memory against a copy of as many bytes, and instructions. */
static const double ACCESS_COST[] = {0.9337, 0.9337, 1.173}, ACCESS_SLOTS[] = {1, 1, 1.33};

/* How often a slice is read after the first time. */
static double rereads_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return config->value[MD_FA_SPLIT_KEEP] ? 0
           : row->has_elements             ? 1
           : md_fa_is_online(target)       ? 0
                                           : row->n_levels - 1;
}

/* Slots of an element. `part`: weight of its exponentials, which may be computed in several passes. */
static double element_slots(const md_fa_target *target, double part)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    return work.operations + (row->n_levels + row->has_elements) * (work.loads * 0.5 + 1) +
           work.transcendental * EXP_SLOTS * part;
}

/* The latency of one row. */
static double latency_us(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double n,
                         double resident)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    double sms = MD_MAX(target->facts->threads, 1), threads = config->value[MD_FA_SPLIT_THREADS],
           exchange = config->value[MD_FA_SPLIT_EXCHANGE];
    double vectors = ceil(ceil(n / c->blocks) / (threads * md_fa_cuda_width(target->program, target->stage)));
    double exchange_us = c->blocks > 1
                             ? EXCHANGE_US[(int32_t)exchange] + EXCHANGE_DOUBLED_US[(int32_t)exchange] * log2(c->blocks)
                             : ONE_BLOCK_US;
    double us = LOAD_US + exchange_us * (md_fa_is_online(target) ? 1 : row->n_levels);
    if (md_fa_cuda_row_has_epilogue_loads(target))
        us += config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED
                  ? EPILOGUE_US
                  : SHIFTED_US + SHIFTED_VECTOR_US * config->value[MD_FA_SPLIT_VECTORS];
    us += (row->has_elements ? STORE_US : 0) + BARRIER_US * threads / 32 +
          WARP_US * threads / 32 * fmin((double)c->blocks * (double)c->groups / sms, resident);
    us +=
        IDLE_VECTOR_US * fmax(config->value[MD_FA_SPLIT_VECTORS] - vectors, 0) +
        THREAD_SLOT_US * fmax(vectors, 1) * md_fa_cuda_width(target->program, target->stage) * element_slots(target, 1);
    return us + (config->value[MD_FA_SPLIT_BLOCKS] > 32 ? MANY_BLOCKS_US : 0) +
           (config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_STRIDED ? STRIDED_US : 0);
}

/* The loop over the chunks of a slice, if it is not kept. */
static double loop_us(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double n)
{
    double elements = (double)config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_VECTORS] *
                      md_fa_cuda_width(target->program, target->stage);
    double chunks = fmax(ceil(ceil(n / c->blocks) / elements), 1);
    return (chunks - 1) * (CHUNK_US + CHUNK_VECTOR_US * config->value[MD_FA_SPLIT_VECTORS]) *
           (1 + rereads_of(target, config));
}

/* How often a row waits for another: rows of a group one after the other, or groups (clusters) in waves. */
static double waits_of(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_cut *c, double resident)
{
    if (c->blocks > 1 && (config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_GRID ||
                          config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_TICKET))
        return ceil((double)c->rows / fmax((double)c->groups, 1)) - 1;
    double part = md_fa_cuda_cluster_part(c->blocks);
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
           latency = latency_us(target, config, &c, n, resident);
    double loop = loop_us(target, config, &c, n);
    double rate = md_fa_cuda_bytes_per_us(facts),
           slots = element_slots(target, config->value[MD_FA_SPLIT_KEEP] == 2 ? 0.6 : 1) * ISSUED_PART;
    double memory =
        fmax(bytes, 1) / rate * ACCESS_COST[config->value[MD_FA_SPLIT_ALIGN]] * md_fa_cuda_row_traffic(target);
    slots *= (double)c.rows * n * ACCESS_SLOTS[config->value[MD_FA_SPLIT_ALIGN]];
    memory *= (1 + REREAD_PART * rereads_of(target, config)) / fmin(1, busy * SM_BURST);
    if (config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED && md_fa_cuda_row_has_epilogue_loads(target))
        memory *= SHIFTED_PART;
    double instructions = slots / (md_fa_cuda_fma_per_us(facts) * SLOT_PART * busy);
    double waiting = (latency + loop) * waits_of(target, config, &c, resident) * WAIT_PART + loop;
    double us = md_fa_norm(md_fa_norm(memory, instructions, NORM), waiting, NORM);
    if (c.blocks == 1) /* nothing is split, but blocks go from row to row */
        us *= WHOLE_ROWS;
    *out = (md_fa_features){.ops_rate = SLOT_PART,
                            .ops = 2 * slots,
                            .launches = config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH ? 2 : 1,
                            .parallel = busy * sms,
                            .serial_us = latency};
    out->memory_bytes = fmin(bytes, us * rate); /* reads may be faster than a copy of as many bytes */
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
}
