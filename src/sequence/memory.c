/* The arena of a sequence: where temporaries and workspaces lie at a tuple of sizes, and its growth. */
#include "base/status.h"
#include "device/temporary.h"
#include "dispatch/select/plan.h"
#include "sequence/shape.h"

#include <stdlib.h>

/* Waits until the device is done with the old arena, and copies its contents into the new one. */
static md_status move_arena(md_sq *sq, void *to)
{
    md_dev *dev = sq->runtime->dev;
    MD_TRY(dev->ops->sync(dev, sq->last_stream));
    return dev->ops->copy(dev, to, sq->arena, sq->arena_bytes);
}

/* Frees the arena once the device is done with it. If a graph that the caller captured uses it, it is retired
 * instead. */
static md_status drop_arena(md_sq *sq)
{
    md_dev *dev = sq->runtime->dev;
    if (sq->arena && sq->is_captured) {
        struct md_sq_retired *r = malloc(sizeof *r);
        if (!r)
            return md_fail_memory();
        *r = (struct md_sq_retired){sq->retired, sq->arena, sq->arena_bytes};
        sq->retired = r;
    } else if (sq->arena) {
        MD_TRY(dev->ops->sync(dev, sq->has_run ? sq->last_stream : NULL));
        md_dev_give_temporary(dev, NULL, sq->arena, sq->arena_bytes);
    }
    sq->arena = NULL;
    sq->arena_bytes = 0;
    sq->is_captured = false;
    sq->generation++;
    return MD_OK;
}

/* Allocates memory for work on any stream. An allocator of the caller's gives memory of its default stream, which may
 * still run work on what was freed before. */
static md_status take_arena(void **out, md_dev *dev, size_t n_bytes)
{
    MD_TRY(md_dev_take_temporary(out, dev, NULL, n_bytes));
    const md_status status = dev->memory.alloc ? dev->ops->sync(dev, NULL) : MD_OK;
    if (status != MD_OK)
        md_dev_give_temporary(dev, NULL, *out, n_bytes);
    return status;
}

/* Replaces the arena by a larger one. `moves`: its contents are copied, since calls of this run have written them. */
static md_status grow_arena(md_sq *sq, size_t n_bytes, bool moves)
{
    md_dev *dev = sq->runtime->dev;
    const size_t most = sq->options.max_arena_bytes ? (size_t)sq->options.max_arena_bytes : SIZE_MAX;
    /* grows by more than is needed: each growth makes all shapes bind anew */
    size_t larger = sq->arena && n_bytes < most / 2 ? n_bytes + n_bytes / 4 : n_bytes;
    void *p = NULL;
    if (n_bytes == SIZE_MAX)
        return md_fail(MD_OUT_OF_MEMORY, "the memory of sequence %s exceeds 63 bits", sq->name);
    if (n_bytes > most)
        return md_fail(MD_OUT_OF_MEMORY,
                       "sequence %s needs %zu bytes between its calls; option max_arena_bytes is %lld", sq->name,
                       n_bytes, (long long)sq->options.max_arena_bytes);
    if (!moves)
        MD_TRY(drop_arena(sq));
    if (take_arena(&p, dev, larger) != MD_OK) {
        larger = n_bytes;
        MD_TRY(take_arena(&p, dev, n_bytes));
    }
    const md_status status = moves ? move_arena(sq, p) : MD_OK;
    if (status != MD_OK || (moves && drop_arena(sq) != MD_OK)) {
        md_dev_give_temporary(dev, NULL, p, larger);
        return status != MD_OK ? status : MD_OUT_OF_MEMORY;
    }
    n_bytes = larger;
    sq->arena = p;
    sq->arena_bytes = n_bytes;
    return MD_OK;
}

static size_t place_bytes(const md_sq *sq, const size_t *bytes, int32_t place)
{
    size_t most = 0;
    for (int32_t m = 0; m < sq->n_memories; m++)
        if (sq->memory[m].place == place && sq->memory[m].first >= 0)
            most = MD_MAX(most, bytes[m]);
    return md_ds_align(most);
}

md_status md_sq_lay_out(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq)
{
    size_t end;
    for (int32_t m = 0; m < sq->n_memories; m++) {
        const md_sq_memory *memory = &sq->memory[m];
        plan->of[m] = -1;
        if (memory->role != MD_SEQUENCE_TEMPORARY || memory->place != m || memory->first < 0)
            continue;
        plan->of[m] = plan->n;
        plan->piece[plan->n++] = (md_ds_piece){memory->first, memory->last, place_bytes(sq, shape->bytes, m), 0};
        shape->sum_bytes += plan->piece[plan->n - 1].n_bytes;
    }
    plan->n_memories = plan->n;
    MD_TRY(md_ds_place_pieces(&end, plan->piece, 0, plan->n));
    for (int32_t m = 0; m < sq->n_memories; m++)
        shape->offset[m] = plan->of[m] >= 0 ? plan->piece[plan->of[m]].offset : 0;
    for (int32_t k = 0; k < sq->n_externals; k++) {
        const int32_t t = sq->external[k].tensor;
        shape->external_bytes[k] = sq->external[k].is_scalar ? 0 : shape->bytes[sq->tensor[t].memory];
    }
    end = MD_MAX(end, MD_DS_ALIGNMENT);
    return sq->arena_bytes < end ? grow_arena(sq, end, false) : MD_OK;
}

md_status md_sq_plan_workspaces(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq)
{
    size_t end;
    for (int32_t i = 0; i < sq->n_steps; i++) {
        const md_sq_part *part = &shape->part[i];
        const size_t n_bytes = part->plan ? md_ds_align(part->plan->workspace_bytes) : 0;
        plan->piece[plan->n++] = (md_ds_piece){i, i, n_bytes, 0};
        shape->sum_bytes += n_bytes;
    }
    MD_TRY(md_ds_place_pieces(&end, plan->piece, plan->n_memories, plan->n));
    for (int32_t i = 0; i < sq->n_steps; i++)
        shape->part[i].memory = plan->piece[plan->n_memories + i].offset;
    return sq->arena_bytes < end ? grow_arena(sq, end, false) : MD_OK;
}

md_status md_sq_plan_workspace(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq, int32_t step)
{
    size_t end = 0;
    md_sq_part *part = &shape->part[step];
    md_ds_piece *piece = &plan->piece[plan->n_memories];
    const size_t n_bytes = part->plan ? md_ds_align(part->plan->workspace_bytes) : 0;
    if (n_bytes == 0)
        return MD_OK;
    *piece = (md_ds_piece){step, step, n_bytes, 0};
    shape->sum_bytes += n_bytes;
    MD_TRY(md_ds_place_pieces(&end, plan->piece, plan->n_memories, plan->n_memories + 1));
    part->memory = piece->offset;
    return sq->arena_bytes < end ? grow_arena(sq, end, step > 0) : MD_OK;
}
