/* The cost of row programs on a GPU: the latency of one block, plus the p-norm of the times of memory, instructions,
 * waves of blocks and starting blocks. The constants were fitted to softmax, layer_norm, sum, argmax and var on an H200
 * (November 2026), with the kernels near the best of each shape; exponentials and vectors beyond the row's end again
 * with times of an H100. */
#include "family/cuda/row/row.h"

#include "base/status.h"
#include "family/cost.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row_fit.h"

#include <math.h>

/* The stage at some sizes. */
const md_fa_cuda_row_work *md_fa_cuda_row_work_of(md_fa_cuda_row_work *room, const md_fa_target *target,
                                                  const int64_t *size)
{
    md_fa_memo *memo = target->memo;
    const md_st_stage *st = md_fa_stage(target);
    _Static_assert(sizeof *room <= sizeof memo->row_bytes, "a memo has room for it");
    if (memo && memo->row)
        return memo->row;
    md_fa_cuda_row_work *w = memo ? (void *)memo->row_bytes : room;
    w->rows = md_st_points(target->program, st->n_outer, st->outer, size);
    w->n = md_st_size(target->program, st->axis, size);
    md_fa_work(&w->flops, &w->bytes, target, size);
    if (memo)
        memo->row = w;
    return w;
}

enum { SHORT_ROW = 512 };

/* ---- Time */

/* A launch. Slots and bytes are those of all its blocks; `waves` are of blocks that run at once. */
typedef struct launch {
    const md_fa_target *target;
    const md_st_row *program;
    const md_fa_cuda_row_fixed *fixed;
    /* vectors: of a thread; chunks: of them; idle: vectors beyond the row's end, weighted; held: vectors at once */
    double rows, n, blocks, vectors, chunks, idle, held;
    double sms, waves, bytes, slots;
} launch;

/* Issue slots of the launch without vectors beyond the row's end. */
static double slots_of(const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    double thread = f->thread_slots;
    if (f->is_online)
        thread += l->chunks * 60 * l->program->n_reductions;
    thread += l->vectors * f->vector_slots;
    if (f->align == MD_FA_CUDA_ANY && f->epilogue_loads > 1 && f->width > 4 && f->lanes <= 16)
        thread *= WEIGHTS_SLOTS;
    return l->rows * f->lanes * (thread * ACCESS_SLOTS[f->align] + l->vectors * f->width * f->exponential_slots);
}

static void count_launch(launch *l, const md_fa_target *target, const md_fa_cuda_row_fixed *f, const int64_t *size)
{
    md_fa_cuda_row_work room;
    const md_fa_cuda_row_work *w = md_fa_cuda_row_work_of(&room, target, size);
    *l = (launch){.target = target,
                  .program = &md_fa_stage(target)->row,
                  .fixed = f,
                  .rows = (double)w->rows,
                  .n = (double)w->n,
                  .bytes = w->bytes,
                  .blocks = fmax((double)(w->rows / f->rows + (w->rows % f->rows != 0)), 1),
                  .sms = MD_MAX(target->facts->threads, 1)};
    l->vectors = fmax(ceil(l->n / (f->width * f->lanes)), 1);
    l->chunks = ceil(l->vectors / f->vectors);
    /* each pass goes over them; a thread that has its row alone skips them */
    l->idle = fmax(f->vectors - l->vectors, 0) * f->idle_part * (f->lanes > 1 ? 1 : 0.3);
    l->held = fmin(l->vectors, f->vectors);
    l->waves = l->blocks / (l->sms * f->resident);
    l->slots = slots_of(l) + l->idle * f->threads * l->blocks * IDLE_SLOTS;
}

static double slots_of_device(const md_fa_target *target) /* issue slots of all SMs in a us */
{
    return md_fa_cuda_fma_per_us(target->facts) * SLOT_PART;
}

/* The latency of a block that runs alone, without the loop over its chunks. */
static double latency_us(const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    const md_st_row *program = l->program;
    double us = f->exchanges_us + l->slots / l->blocks / (slots_of_device(l->target) / l->sms) * LATENCY_PART;
    us += f->latency_us;
    if (f->epilogue_loads > 0)
        us += f->align == MD_FA_CUDA_ALIGNED ? EPILOGUE_US
                                             : fmin(SHIFTED_US + SHIFTED_VECTOR_US * l->held, SHIFTED_MOST_US) *
                                                   (f->epilogue_loads > 1 ? 1 : ONE_SHIFTED);
    if (!f->is_resident)
        return us + (program->has_elements ? LOOP_STORE_US : 0);
    double more = f->epilogue_loads > 0 ? EPILOGUE_VECTOR_US * fmax(l->held - 2, 0) : 0;
    more += f->has_arg ? ARG_VECTOR_US * f->width / 4 * l->held : 0;
    more += f->rows > 1 ? ROWS_US * f->rows * f->lanes / 32 : 0;
    more += f->scattered_us * l->held;
    return us + more +
           l->held * (f->is_read_once && f->width <= 4
                          ? READ_VECTOR_US
                          : LOAD_VECTOR_US + VECTOR_US * (program->n_levels + program->has_elements)) +
           IDLE_VECTOR_US * l->idle + THREAD_SLOT_US * l->slots / (l->blocks * f->lanes * f->rows);
}

/* The latency of the loop of a block that runs alone. */
static double loop_us(const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    if (f->is_resident)
        return 0;
    double passes = (f->is_online ? 1 : l->program->n_levels) + l->program->has_elements;
    double each = CHUNK_VECTOR_US + f->scattered_us + (f->has_arg ? ARG_VECTOR_US * f->width / 4 : 0);
    double chunk = CHUNK_US + each * l->held + IDLE_VECTOR_US * l->idle + (f->is_online ? MERGE_US : 0);
    const double shifted = f->epilogue_loads > 0 && f->align != MD_FA_CUDA_ALIGNED ? LOOP_SHIFTED_US * l->held : 0;
    return (chunk * (1 + LATER_PASS * (passes - 1)) + shifted) * l->chunks;
}

/* Bytes that loops read again; those from the L2 count as fewer. *missed: those from memory. */
static double reread_costs(double *missed, const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    *missed = 0;
    if (f->is_resident)
        return 0;
    double again = f->reread_bytes * (l->rows * l->n);
    double live = fmin(l->blocks, f->resident * l->sms) * f->rows * l->n * (f->width > 4 ? 2 : 4);
    *missed = again * fmax(1 - L2_PART * (double)l->target->facts->l2_bytes / fmax(live, 1), 0);
    return *missed + (again - *missed) / L2_RATE;
}

static double memory_us(double *missed, const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    double rate = md_fa_cuda_bytes_per_us(l->target->facts) / ACCESS_COST[f->align] / f->traffic,
           busy = fmin(l->blocks / l->sms, 1);
    return l->bytes / rate / fmin(busy * SM_BURST, 1) / (f->is_resident ? ROW_RATE : LOOP_RATE) +
           reread_costs(missed, l) / rate;
}

/* The times that the p-norm takes together. */
typedef struct times {
    double memory, instructions, waiting, starting, latency, missed; /* missed: bytes that are read again from memory */
} times;

static times times_of(const launch *l)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    const double busy = fmin(l->blocks / l->sms, 1), loop = loop_us(l);
    times t = {.latency = latency_us(l), .instructions = l->slots * ISSUED_PART / (slots_of_device(l->target) * busy)};
    t.memory = fmax(memory_us(&t.missed, l), 1e-6);
    t.latency += FIRST_BLOCKS_US * fmin(l->blocks / l->sms, f->resident);
    if (f->resident < 2) /* with one block, an SM has nothing else to do while it waits */
        t.latency *= 1 + ALONE_PART;
    t.waiting = (t.latency + loop) * fmax(l->waves - 1, 0) * WAIT_PART + loop;
    t.starting = fmax(l->blocks / l->sms - f->resident, 0) * START_US;
    return t;
}

/* No p-norm is less than its longest time. */
static double least_us(const times *t)
{
    return MD_MAX(MD_MAX(t->memory, t->instructions), MD_MAX(t->waiting, t->starting));
}

static double rows_us(const launch *l, const times *t)
{
    const md_fa_cuda_row_fixed *f = l->fixed;
    double norm = 1 + ((f->is_resident ? ROW_NORM : LOOP_NORM) - 1) *
                          fmax(1 - (f->is_resident ? ROW_ALONE : LOOP_ALONE) / f->resident, 0);
    double us =
        md_fa_norm(md_fa_norm(t->memory, t->instructions, norm), md_fa_norm(t->waiting, t->starting, norm), norm);
    double waves = ceil(l->waves);
    if (l->waves <= 1 && l->blocks > l->sms) /* all blocks run at once, but some SMs have one more than others */
        us *= 1 + BALANCE_PART * (ceil(l->blocks / l->sms) / (l->blocks / l->sms) - 1);
    if (l->waves > 1)
        us *= 1 + (waves - l->waves) / waves * TAIL_PART / waves;
    us *= 1 + MANY_PART * fmax(l->held * f->width / 32 - 1, 0);
    if (f->is_resident && f->align == MD_FA_CUDA_ANY && f->lanes > 1 && f->lanes <= 32 && l->n <= SHORT_ROW)
        us *= WARP_ANY + WARP_ANY_WEIGHT * f->epilogue_loads + WARP_ANY_STORE * l->program->has_elements +
              (f->width > 4 ? WARP_ANY_SHORT : 0);
    if (f->is_resident && f->has_arg)
        us *= 1 + ARG_HELD_PART * fmax(l->held - ARG_HELD, 0);
    return fmax(us, (l->bytes + t->missed) / md_fa_cuda_bytes_per_us(l->target->facts) *
                        (l->program->has_elements ? LEAST_PART : LEAST_READ_PART));
}

void md_fa_cuda_row_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row_fixed *f,
                             const int64_t *size)
{
    launch l;
    count_launch(&l, target, f, size);
    const times t = times_of(&l);
    const double least = least_us(&t), latency = t.latency;
    /* row_thread, with one lane, takes less than this says */
    const bool may_be_least =
        f->lanes > 1 && l.bytes > 0 && MD_FA_CUDA_LAUNCH_US + least + latency > md_fa_enough_us(target);
    const double us = may_be_least ? least : rows_us(&l, &t);
    *out =
        (md_fa_features){.ops_rate = SLOT_PART, .launches = 1, .parallel = fmin(l.blocks, l.sms), .serial_us = latency};
    out->ops = 2 * l.slots * ISSUED_PART;
    /* reads may be faster than a copy of as many bytes */
    out->memory_bytes = fmin(l.bytes, us * md_fa_cuda_bytes_per_us(target->facts));
    out->memory_rate = fmax(out->memory_bytes / md_fa_cuda_bytes_per_us(target->facts) / us, 1e-9);
}
