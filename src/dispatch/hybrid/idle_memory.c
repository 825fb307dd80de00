/* Made-up inputs of a background race: where they lie, and what is in them. */
#include "dispatch/hybrid/internal.h"

#include "base/dtype.h"
#include "base/status.h"
#include "tune/bench/bench.h"
#include "tune/bench/data.h"

#include <stdlib.h>
#include <string.h>

/* SHARE: one part in so many of the free memory may be taken. */
enum {
    ALIGNMENT = 256,
    PIECE = 1 << 16 /* copied from the host, which holds the driver's lock */,
    MOST_COPIED = 1 << 25 /* on the device at a time: about 20 us, for which a call may have to wait */,
    SHARE = 20,
    MOST_SETS = 1 << 20
};

/* ---- Where made-up inputs lie */

/* Bytes from the first to the last element; 0: empty; -1: it cannot be told. */
static int64_t bytes_of(const md_fx_tensor *x, const md_kn_shape *shape, int32_t t)
{
    int64_t last = 0;
    for (int32_t a = 0; a < x->rank; a++) {
        if (shape->extent[t][a] == 0)
            return 0;
        if (shape->stride[t][a] < 0)
            return -1;
        last += (shape->extent[t][a] - 1) * shape->stride[t][a];
    }
    return md_dtype_span(x->dtype, last + 1);
}

/* Offset from a boundary of 64 bytes that gives the tensor the alignment bits of the shape. A tensor may lack them
 * because of its strides; then any address will do, else the address is at fault. */
static int64_t offset_of(const md_fx_tensor *x, const md_kn_shape *shape, int32_t t)
{
    const int64_t item = (int64_t)md_dtype_size(x->dtype);
    bool at64 = true, at16 = true;
    for (int32_t a = 0; a + 1 < x->rank; a++) {
        at64 &= shape->extent[t][a] <= 1 || shape->stride[t][a] * item % 64 == 0;
        at16 &= shape->extent[t][a] <= 1 || shape->stride[t][a] * item % 16 == 0;
    }
    at16 &= x->rank == 0 || shape->extent[t][x->rank - 1] * item % 16 == 0;
    if (!at64 || shape->aligned >> t & 1)
        return !at16 || at64 || shape->aligned16 >> t & 1 ? 0 : item;
    return shape->aligned16 >> t & 1 ? 16 : item;
}

static md_status lay_out(md_ds_idle_memory *m)
{
    const md_st_program *p = m->op->program;
    const md_st_stage *s = &p->stage[m->stage];
    const double most = md_ds_is_async(m->op->runtime) ? MD_DS_IDLE_BENCH_BYTES : MD_DS_IDLE_HOST_BYTES;
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const int32_t t = s->tensor[i];
        const md_fx_tensor *x = &p->formula->tensor[t];
        const int64_t n_bytes = bytes_of(x, &m->shape, t);
        if (!md_dtype_is_real(x->dtype) || n_bytes < 0)
            return md_fail(MD_UNSUPPORTED, "made-up values could be wrong ones");
        m->at[t] = m->set_bytes + offset_of(x, &m->shape, t);
        m->set_bytes += (n_bytes + 16 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if ((double)m->set_bytes > most)
            return md_fail(MD_UNSUPPORTED, "too large to be timed in the background");
    }
    return s->has_scatter || s->has_gather || m->set_bytes == 0
               ? md_fail(MD_UNSUPPORTED, "made-up values could be wrong ones")
               : MD_OK;
}

static void make_call(md_ds_idle_memory *m)
{
    const md_ds_op *op = m->op;
    m->call.shape = &m->shape;
    m->call.report = op->report.kernel;
    m->call.program = op->program;
    m->call.stage = &op->program->stage[m->stage];
    m->call.device = op->runtime->dev;
    m->call.stream = op->runtime->dev->tuning;
    m->call.threads = op->runtime->dev->facts.threads;
    md_tn_data_scalars(m->call.scalar, op->formula);
}

static int64_t round_up(int64_t n_bytes)
{
    return (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

md_status md_ds_idle_memory_plan(md_ds_idle_memory *out, md_ds_op *op, int32_t stage, const md_kn_shape *shape,
                                 const md_kn_geometries *most)
{
    md_dev *dev = op->runtime->dev;
    *out = (md_ds_idle_memory){.op = op,
                               .stage = stage,
                               .shape = *shape,
                               .workspace_bytes = round_up(most->workspace_bytes),
                               .packed_bytes = round_up(most->packed_bytes)};
    MD_TRY(lay_out(out));
    out->n_sets =
        md_tn_cold_sets(dev, (double)out->set_bytes, out->packed_bytes > 0 ? MD_DS_IDLE_PACKED_SETS : MOST_SETS);
    const int64_t limit = (dev->ops->free_bytes ? dev->ops->free_bytes(dev) : dev->facts.global_bytes) / SHARE;
    if (out->n_sets * (out->set_bytes + out->packed_bytes) + out->workspace_bytes > limit && limit > 0)
        return md_fail(MD_OUT_OF_MEMORY, "too little memory is free to time in the background");
    make_call(out);
    return MD_OK;
}

/* ---- Contents */

/* Reals in [-1, 1) of the narrowest dtype of the stage: wider ones read from the same bytes are finite, too. */
static void write_piece(const md_ds_idle_memory *m, void *piece)
{
    const md_st_stage *s = &m->op->program->stage[m->stage];
    md_dtype narrow = m->op->formula->tensor[s->tensor[0]].dtype;
    for (int32_t i = 1; i < s->n_tensors; i++) {
        const md_dtype other = m->op->formula->tensor[s->tensor[i]].dtype;
        if (md_dtype_bits(other) < md_dtype_bits(narrow))
            narrow = other;
    }
    for (int64_t i = 0; i < md_dtype_capacity(narrow, PIECE); i++)
        md_dtype_store(narrow, piece, i, (double)((uint64_t)i * 2654435761u % 1021) / 510.5 - 1.0);
}

static md_status copy(md_dev *dev, void *to, const void *from, int64_t n_bytes)
{
    return dev->ops->copy_background ? dev->ops->copy_background(dev, dev->tuning, to, from, (size_t)n_bytes)
                                     : dev->ops->copy(dev, to, from, (size_t)n_bytes);
}

/* Copies one piece from the host; then the device doubles what it has. */
static md_status fill(md_ds_idle_memory *m, int64_t n_bytes)
{
    md_dev *dev = m->op->runtime->dev;
    int64_t done = MD_MIN(n_bytes, (int64_t)PIECE);
    void *piece = malloc(PIECE);
    if (!piece)
        return md_fail_memory();
    write_piece(m, piece);
    md_status s = copy(dev, m->memory, piece, done);
    for (int64_t n; s == MD_OK && done < n_bytes; done += n) {
        n = MD_MIN(MD_MIN(done, MOST_COPIED), n_bytes - done);
        s = copy(dev, m->memory + done, m->memory, n);
    }
    free(piece);
    return s;
}

/* The workspace of the tuning stream, or memory of its own where streams have none. */
static md_status get_memory(void **out, md_ds_idle_memory *m, int64_t n_bytes)
{
    md_dev *dev = m->op->runtime->dev;
    if (dev->ops->workspace)
        return dev->ops->workspace(out, dev, dev->tuning, (size_t)n_bytes);
    if (!m->own)
        MD_TRY(dev->ops->alloc(&m->own, dev, (size_t)n_bytes));
    *out = m->own;
    return MD_OK;
}

md_status md_ds_idle_memory_get(md_ds_idle_memory *m)
{
    void *p = NULL;
    const int64_t n_bytes = m->n_sets * m->set_bytes;
    MD_TRY(get_memory(&p, m, n_bytes + m->workspace_bytes + m->n_sets * m->packed_bytes + ALIGNMENT));
    char *memory = (char *)(((uintptr_t)p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (memory == m->memory)
        return MD_OK;
    m->memory = memory;
    memset(m->packed_by, 0, sizeof m->packed_by);
    m->call.packed_by = NULL;
    return fill(m, n_bytes);
}

void md_ds_idle_memory_finish(md_ds_idle_memory *m)
{
    md_dev *dev = m->op->runtime->dev;
    if (m->own)
        dev->ops->free(dev, m->own);
    m->own = m->memory = NULL;
}

/* The packed operands of the next set; who packed those of the last one is noted. */
static void take_packed(md_ds_idle_memory *m)
{
    m->packed_by[m->last] = m->call.packed_by;
    m->call.packed = (char *)m->call.workspace + m->workspace_bytes + m->next * m->packed_bytes;
    m->call.packed_by = m->packed_by[m->next];
    m->last = m->next;
}

md_kn_call *md_ds_idle_memory_next(void *memory)
{
    md_ds_idle_memory *m = memory;
    const md_st_stage *s = &m->op->program->stage[m->stage];
    char *set = m->memory + m->next * m->set_bytes;
    for (int32_t i = 0; i < s->n_tensors; i++)
        m->call.data[s->tensor[i]] = set + m->at[s->tensor[i]];
    m->call.workspace = m->memory + m->n_sets * m->set_bytes;
    m->call.counters = NULL;
    if (m->packed_bytes > 0)
        take_packed(m);
    m->next = (m->next + 1) % m->n_sets;
    return &m->call;
}
