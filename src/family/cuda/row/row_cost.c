/* The cost of row programs on a GPU: the latency of one block, plus the p-norm of the times of memory, instructions,
 * waves of blocks and starting blocks. The constants were fitted to softmax, layer_norm, sum, argmax and var on an H200
 * (November 2026), with the kernels near the best of each shape; exponentials and vectors beyond the row's end again
 * with times of an H100. */
#include "family/cuda/row/row.h"

#include "base/status.h"
#include "family/cost.h"
#include "family/cuda/cuda.h"

#include <math.h>

/* Latency of a block, us: for each vector of a thread, its load and each pass over it; for each slot of a thread; for
 * each vector beyond the row's end; for each warp of a block of several rows. */
static const double LOAD_VECTOR_US = 0.02188, VECTOR_US = 0.001321, THREAD_SLOT_US = 0.00017, IDLE_VECTOR_US = 0.04,
                    ROWS_US = 0.009196;
/* Latency of each vector of a thread: of weights, and of an argmax or argmin, which depend on the vector before. */
static const double EPILOGUE_VECTOR_US = 0.1872, ARG_VECTOR_US = 0.03299;
/* Argmax and argmin of rows in registers: each vector of a thread beyond ARG_HELD adds this part to the whole time. */
static const double ARG_HELD_PART = 0.07, ARG_HELD = 4;
/* Stages that only reduce, in one pass: the latency of a vector of 4-byte elements. */
static const double READ_VECTOR_US = 0.06927;
/* Latency of weights that the stores use; if they must be shifted, also for each vector, up to a limit. */
static const double EPILOGUE_US = 0.08184, SHIFTED_US = 0.3133, SHIFTED_VECTOR_US = 0.2487, SHIFTED_MOST_US = 2.436;
/* Latency of a loop: a chunk of a row, each of its vectors, merging it, the pass of the stores; the part of it that a
 * later pass takes; each vector of a chunk whose weights must be shifted. */
static const double CHUNK_US = 0.3222, CHUNK_VECTOR_US = 0.03945, MERGE_US = 0.9735, LOOP_STORE_US = 0.4327,
                    LATER_PASS = 0.1024, LOOP_SHIFTED_US = 0.28;
/* The time in which an SM starts a block. */
static const double START_US = 0.1069;
/* One weight takes this part of what two take that are shifted (rms_norm, 160 kernels of two boards). */
static const double ONE_SHIFTED = 0.6;
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
/* Two weights that are shifted in groups of few lanes, 16-bit elements: 45 kernels took 1.2 times as long as
 * modelled. */
static const double WEIGHTS_SLOTS = 1.15;
/* By md_fa_cuda_align: memory, and instructions. */
static const double ACCESS_COST[] = {0.5272, 0.6686, 1.117}, ACCESS_SLOTS[] = {0.5516, 0.9211, 2.549};
/* Issue slots of a vector beyond the row's end; the part of all slots that costs issue time; and the part that adds to
 * a block's latency. */
static const double IDLE_SLOTS = 114, ISSUED_PART = 0.42, LATENCY_PART = 0.03893;
/* Issue slots an SM has, against the device's rate of fma. */
static const double SLOT_PART = 1.14;

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

static double slots_of_device(const md_fa_target *target) /* in a us */
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
