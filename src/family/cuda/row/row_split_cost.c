/* The cost of row_split: the latency of one row, plus the p-norm of the times of memory, instructions and rows that
 * wait for others. */
#include "family/cuda/row/row_split.h"

#include "family/cost.h"
#include "family/numeric.h"
#include "family/cuda/row/row_split_fit.h"

#include <math.h>

/* The constants were fitted on an H200, together with those of row_cost.c and to the same shapes; some of them again
 * with times of an H100. */

/* What is fixed of a config whatever the sizes. */
typedef struct fixed {
    int32_t threads, vectors, exchange;
    md_fa_cuda_align align;
    bool has_elements, has_epilogue_loads, is_for_many_blocks;
    int32_t passes; /* levels that are exchanged */
    double width; /* of a vector, in elements */
    double resident; /* blocks on an SM */
    double rereads; /* how often a slice is read after the first time */
    double traffic; /* md_fa_cuda_row_traffic */
    double latency_slots, issued_slots; /* of an element: all, and those that are issued */
} fixed;
_Static_assert(sizeof(fixed) <= sizeof(md_fa_fixed), "there is room for it");

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

void md_fa_cuda_split_fix(md_fa_fixed *out, const md_fa_target *target, const md_fa_config *config)
{
    const int32_t *v = config->value;
    const md_st_row *row = &md_fa_stage(target)->row;
    const md_fa_cuda_load load = {.threads = v[MD_FA_SPLIT_THREADS],
                                  .registers = MD_MIN(md_fa_cuda_split_registers(target, config, 1),
                                                      md_fa_cuda_split_register_limit(target, config))};
    *(fixed *)(void *)out->bytes =
        (fixed){.threads = v[MD_FA_SPLIT_THREADS],
                .vectors = v[MD_FA_SPLIT_VECTORS],
                .exchange = v[MD_FA_SPLIT_EXCHANGE],
                .align = (md_fa_cuda_align)v[MD_FA_SPLIT_ALIGN],
                .has_elements = row->has_elements,
                .has_epilogue_loads = md_fa_cuda_row_epilogue_loads(target) > 0,
                .is_for_many_blocks = v[MD_FA_SPLIT_BLOCKS] > 32,
                .passes = md_fa_is_online(target) ? 1 : row->n_levels,
                .width = md_fa_cuda_width(target->program, target->stage),
                .resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1),
                .rereads = rereads_of(target, config),
                .traffic = md_fa_cuda_row_traffic(target),
                .latency_slots = element_slots(target, 1),
                .issued_slots = element_slots(target, v[MD_FA_SPLIT_KEEP] == 2 ? 0.6 : 1) * ISSUED_PART};
}

/* A launch: how rows are cut, elements of a row, bytes and slots of all rows, and the part of the SMs that is busy. */
typedef struct launch {
    const md_fa_target *target;
    const fixed *fixed;
    md_fa_cuda_cut cut;
    double n, bytes, slots, sms, busy;
} launch;

static void count_launch(launch *l, const md_fa_target *target, const fixed *f, const md_fa_config *config,
                         const int64_t *size)
{
    md_fa_cuda_row_work room;
    const md_fa_cuda_row_work *w = md_fa_cuda_row_work_of(&room, target, size);
    *l = (launch){.target = target,
                  .fixed = f,
                  .cut = md_fa_cuda_split_cut_of(target, config, size),
                  .n = (double)w->n,
                  .bytes = w->bytes,
                  .sms = MD_MAX(target->facts->threads, 1)};
    l->busy = fmin(fmax((double)l->cut.blocks * (double)l->cut.groups, 1) / l->sms, 1);
    l->slots = f->issued_slots * ((double)l->cut.rows * l->n * ACCESS_SLOTS[f->align]);
}

/* The latency of one row. */
static double latency_us(const launch *l)
{
    const fixed *f = l->fixed;
    const md_fa_cuda_cut *c = &l->cut;
    double threads = f->threads, vectors = ceil(ceil(l->n / c->blocks) / (threads * f->width));
    double exchange_us =
        c->blocks > 1 ? EXCHANGE_US[f->exchange] + EXCHANGE_DOUBLED_US[f->exchange] * log2(c->blocks) : ONE_BLOCK_US;
    double us = LOAD_US + exchange_us * f->passes;
    if (f->has_epilogue_loads)
        us += f->align == MD_FA_CUDA_ALIGNED ? EPILOGUE_US : SHIFTED_US + SHIFTED_VECTOR_US * f->vectors;
    us += (f->has_elements ? STORE_US : 0) + BARRIER_US * threads / 32 +
          WARP_US * threads / 32 * fmin((double)c->blocks * (double)c->groups / l->sms, f->resident);
    us += IDLE_VECTOR_US * fmax(f->vectors - vectors, 0) +
          THREAD_SLOT_US * fmax(vectors, 1) * f->width * f->latency_slots;
    return us + (f->is_for_many_blocks ? MANY_BLOCKS_US : 0) + (f->align == MD_FA_CUDA_STRIDED ? STRIDED_US : 0);
}

/* The loop over the chunks of a slice, if it is not kept. */
static double loop_us(const launch *l)
{
    const fixed *f = l->fixed;
    double elements = (double)f->threads * f->vectors * f->width;
    double chunks = fmax(ceil(ceil(l->n / l->cut.blocks) / elements), 1);
    return (chunks - 1) * (CHUNK_US + CHUNK_VECTOR_US * f->vectors) * (1 + f->rereads);
}

/* How often a row waits for another: rows of a group one after the other, or groups (clusters) in waves. */
static double waits_of(const launch *l)
{
    const fixed *f = l->fixed;
    const md_fa_cuda_cut *c = &l->cut;
    if (c->blocks > 1 && (f->exchange == MD_FA_SPLIT_BY_GRID || f->exchange == MD_FA_SPLIT_BY_TICKET))
        return ceil((double)c->rows / fmax((double)c->groups, 1)) - 1;
    double part = md_fa_cuda_cluster_part(c->blocks);
    double at_once = fmax(floor(f->resident * l->sms * part / c->blocks), 1);
    double waves = (double)c->rows / at_once, whole = ceil(waves);
    return waves > 1 ? waves - 1 + TAIL_PART * (whole - waves) / whole : 0;
}

/* Without starting the kernel and the latency of a row. */
static double rows_us(const launch *l, double latency)
{
    const fixed *f = l->fixed;
    const md_dev_facts *facts = l->target->facts;
    double loop = loop_us(l);
    double memory = fmax(l->bytes, 1) / md_fa_cuda_bytes_per_us(facts) * ACCESS_COST[f->align] * f->traffic;
    memory *= (1 + REREAD_PART * f->rereads) / fmin(1, l->busy * SM_BURST);
    if (f->align != MD_FA_CUDA_ALIGNED && f->has_epilogue_loads)
        memory *= SHIFTED_PART;
    double instructions = l->slots / (md_fa_cuda_fma_per_us(facts) * SLOT_PART * l->busy);
    double waiting = (latency + loop) * waits_of(l) * WAIT_PART + loop;
    double part = l->cut.blocks == 1 ? WHOLE_ROWS : 1; /* nothing is split, but blocks go from row to row */
    double least = MD_MAX(MD_MAX(memory, instructions), waiting) * part;
    if (l->bytes > 0 && MD_FA_CUDA_LAUNCH_US + least + latency > md_fa_enough_us(l->target))
        return least;
    return md_fa_norm(md_fa_norm(memory, instructions, NORM), waiting, NORM) * part;
}

void md_fa_cuda_split_features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                               const int64_t *size)
{
    md_fa_fixed room;
    launch l;
    if (!target->fixed)
        md_fa_cuda_split_fix(&room, target, config);
    const fixed *f = (const void *)(target->fixed ? target->fixed : &room)->bytes;
    count_launch(&l, target, f, config, size);
    double latency = latency_us(&l), us = rows_us(&l, latency), rate = md_fa_cuda_bytes_per_us(target->facts);
    *out = (md_fa_features){.ops_rate = SLOT_PART,
                            .ops = 2 * l.slots,
                            .launches = f->exchange == MD_FA_SPLIT_BY_LAUNCH ? 2 : 1,
                            .parallel = l.busy * l.sms,
                            .serial_us = latency + (f->traffic > 1 ? SCATTERED_US : 0)};
    out->memory_bytes = fmin(l.bytes, us * rate); /* reads may be faster than a copy of as many bytes */
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
}
