/* Scans of few long columns in one pass (cuda/scan_columns.cu): how many blocks, how much on chip, what it costs. */
#include "base/dtype.h"
#include "codegen/codegen.h"
#include "family/cost.h"
#include "family/cuda/row/scan.h"
#include "family/cuda/row/scan_columns_fit.h"

#include <math.h>

/* ACROSS: a block's vectors of columns. A group has THREADS / GROUP_SHARE tiles. COUNTED: tiles whose states fit the
 * stream's counters. MOST_BYTES: of a thread's elements in registers. FEW_BYTES: so many leave room for a quarter more
 * threads. */
enum { ACROSS = 8, GROUP_SHARE = 8, COUNTED = 65535, STATE_BYTES = 16, MOST_BYTES = 256, FEW_BYTES = 160 };

typedef struct tiles {
    int64_t chains, n; /* side by side; of all chains */
    int64_t width, length; /* of a chain: its columns, and the elements of its axis */
    int64_t group; /* tiles of a group */
} tiles;

/* Blocks of all tiles of columns, as cuda/scan_columns.cu counts them. */
static tiles tiles_of(const md_fa_target *target, const md_fa_cuda_column_tile *tile, const md_fa_cuda_scan_size *s)
{
    tiles t = {.width = md_fa_cuda_width(target->program, target->stage) * ACROSS,
               .length = (int64_t)(tile->threads / ACROSS) * tile->items * tile->rounds,
               .group = tile->threads / GROUP_SHARE};
    t.chains = s->lanes > 0 && s->n > 0 ? s->rows / s->lanes * ((s->lanes + t.width - 1) / t.width) : 0;
    t.n = t.chains * ((s->n + t.length - 1) / t.length);
    return t;
}

static int64_t thread_bytes(const md_fa_target *target, int32_t items)
{
    return items * md_fa_cuda_width(target->program, target->stage) * md_fa_cuda_scan_value(target);
}

/* What the template has in shared memory besides elements: totals of runs and of shares of tiles. */
static int64_t totals_bytes(const md_fa_target *target, const md_fa_cuda_column_tile *tile)
{
    const int64_t width = md_fa_cuda_width(target->program, target->stage) * ACROSS;
    return (tile->threads / ACROSS * (width + 1) + width + 2 * tile->threads) * md_fa_cuda_scan_total(target);
}

typedef struct operands {
    const md_fa_target *target;
    int32_t lane, width, pieces;
    bool are_plain; /* vectors along the lanes of whole pieces, or one element for all lanes, whatever the values */
} operands;

static bool note_operand(void *user, const md_fx_node *node)
{
    operands *o = user;
    const md_st_program *program = o->target->program;
    o->are_plain &= node->kind == MD_FX_LOAD || node->kind == MD_FX_CONST || node->kind == MD_FX_INDEX ||
                    node->kind == MD_FX_CAST || (node->kind == MD_FX_OP && node->op != MD_FX_WHERE);
    if (node->kind != MD_FX_LOAD || !o->are_plain)
        return true;
    const md_dtype dtype = program->formula->tensor[node->id].dtype;
    const int32_t last = node->n_args - 1, bytes = (int32_t)md_dtype_size(dtype) * o->width;
    for (int32_t i = 0; i < last; i++)
        o->are_plain &= !md_fx_uses_index(node->arg[i], o->lane);
    o->are_plain &= !md_dtype_is_packed(dtype);
    if (last < 0 || !md_fx_uses_index(node->arg[last], o->lane))
        return true;
    o->are_plain &= node->arg[last]->kind == MD_FX_INDEX && bytes % 16 == 0 &&
                    (md_cg_unit_tensors(program, o->target->stage, o->lane) >> node->id & 1);
    o->pieces += bytes / 16;
    return true;
}

int32_t md_fa_cuda_column_pieces(const md_fa_target *target, const md_fa_cuda_column_tile *tile)
{
    const md_st_stage *st = md_fa_stage(target);
    operands o = {.target = target,
                  .lane = st->outer[st->n_outer - 1],
                  .width = md_fa_cuda_width(target->program, target->stage),
                  .are_plain = tile->is_aligned};
    /* a recurrence that starts anew selects between values, and needs registers for that */
    if (md_fx_is_recurrence(st->scan.op) && st->scan.body->n_args > 2)
        return 0;
    /* no registers are left to convert elements from shared memory */
    if (o.width > 4 && thread_bytes(target, tile->items) > FEW_BYTES)
        return 0;
    (void)md_fx_visit(st->scan.body, note_operand, &o);
    return o.are_plain ? o.pieces : 0;
}

static int64_t kept_bytes(const md_fa_target *target, const md_fa_cuda_column_tile *tile)
{
    const int64_t pieces = tile->rounds > 1 ? md_fa_cuda_column_pieces(target, tile) : 0;
    return (int64_t)tile->threads * (tile->rounds - 1) *
           (pieces > 0 ? tile->items * pieces * 16 : thread_bytes(target, tile->items));
}

bool md_fa_cuda_column_tile_fits(const md_fa_target *target, const md_fa_cuda_column_tile *tile)
{
    return (tile->threads == 128 || tile->threads == 256) && tile->rounds <= 4 &&
           thread_bytes(target, tile->items) <= MOST_BYTES &&
           kept_bytes(target, tile) + totals_bytes(target, tile) + 1024 <= target->facts->shared_per_block;
}

void md_fa_cuda_place_column_tiles(md_kn_geometries *out, const md_fa_target *target,
                                   const md_fa_cuda_column_tile *tile, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    const tiles t = tiles_of(target, tile, &s);
    int64_t in_workspace = t.n > COUNTED ? t.n + 1 : 0, groups = t.n / t.group + t.chains;
    *out = (md_kn_geometries){.workspace_bytes = in_workspace * STATE_BYTES +
                                                 (t.n + groups) * t.width * md_fa_cuda_scan_total(target)};
    out->launch[0] = md_fa_cuda_launch((in_workspace + tile->threads - 1) / tile->threads, tile->threads);
    out->launch[1] = md_fa_cuda_launch(t.n, tile->threads);
    out->launch[1].scratch_bytes = kept_bytes(target, tile);
}

/* Each tensor is touched once. A block waits for notes and memory whatever its tile's length; others use memory
 * meanwhile. */
void md_fa_cuda_column_tile_features(md_fa_features *out, const md_fa_target *target,
                                     const md_fa_cuda_column_tile *tile, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    const tiles t = tiles_of(target, tile, &s);
    const double points = (double)s.rows * (double)s.n, sms = MD_MAX(target->facts->threads, 1);
    const md_fa_cuda_load load = {.threads = tile->threads,
                                  .registers = thread_bytes(target, tile->items) > FEW_BYTES ? 128 : 96,
                                  .shared_bytes = kept_bytes(target, tile) + totals_bytes(target, tile)};
    const double resident = MD_MAX(md_fa_cuda_resident(target->facts, &load), 1);
    const double copy = s.bytes / (COPY_PART * md_fa_cuda_bytes_per_us(target->facts)), blocks = (double)MD_MAX(t.n, 1);
    const double drawn = fmax(sms / (SM_BURST * fmin(blocks, sms)), MORE), waves = fmax(blocks / (sms * resident), 1);
    const double groups = ceil((double)t.n / (double)MD_MAX(t.chains, 1) / (double)t.group);
    const double each = TILE_US[resident < 2 ? 2 : resident < 3 || tile->threads > 128];
    const double us = fmax(copy * drawn + START_US + waves * each + groups * GROUP_US, groups * HOP_US);
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads, .launches = 1 + (t.n > COUNTED)};
    out->memory_bytes = s.bytes;
    out->memory_rate = fmax(copy / us, 1e-9);
    out->serial_us = 3.0;
    out->ops = points * (s.ops + 8);
    out->transcendental = points * s.transcendental;
}
