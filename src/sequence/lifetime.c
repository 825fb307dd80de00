/* The lifetime of a sequence's shapes, and what binding and running both ask. */
#include "sequence/shape.h"

#include <stdlib.h>

void md_sq_shape_flush(md_sq_shape *shape)
{
    const uint64_t n = shape->n_runs;
    shape->n_runs = 0;
    for (int32_t i = 0; n && i < shape->n_parts; i++) {
        const md_sq_part *part = &shape->part[i];
        if (part->form != MD_SQ_LAUNCHES && part->form != MD_SQ_PLAN)
            continue;
        atomic_fetch_add_explicit(&part->entry->calls, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&part->op->count.calls, n, memory_order_relaxed);
    }
}

static void free_part(md_sq_part *part)
{
    if (part->entry)
        md_ds_shape_entry_release(part->entry);
    free(part->extent);
    free(part->tensor);
    free(part->arg);
}

void md_sq_shape_free(md_sq_shape *shape, md_sq *sq)
{
    md_sq_shape_flush(shape);
    md_sq_drop_graph(shape, sq);
    md_sq_drop_segments(shape, sq);
    for (int32_t i = 0; shape->part && i < shape->n_parts; i++)
        free_part(&shape->part[i]);
    for (int32_t i = 0; i < shape->n_launches; i++)
        free(shape->launch[i].params);
    for (int32_t i = 0; i < shape->n_patches; i++)
        free(shape->patch[i].map);
    free(shape->key);
    free(shape->word);
    free(shape->graph_word);
    free(shape->n_moves);
    free(shape->is_moving);
    free(shape->external_bytes);
    free(shape->offset);
    free(shape->bytes);
    free(shape->part);
    free(shape->report);
    free(shape->launch);
    free(shape->patch);
    free(shape);
}

void md_sq_set_ability(md_sq_shape *shape)
{
    bool has_calls = false;
    shape->is_final = true;
    for (int32_t i = 0; i < shape->n_parts; i++) {
        const md_sq_part *part = &shape->part[i];
        has_calls |= part->form == MD_SQ_CALL || part->form == MD_SQ_CALLBACK;
        shape->is_final &= !part->plan || !part->plan->is_stand_in;
    }
    shape->is_capturable = shape->is_final && !has_calls;
}

static bool has_same_kernels(const md_ds_plan *a, const md_ds_plan *b, int32_t n_stages)
{
    bool is_same = !a->by_reference && !b->by_reference && a->workspace_bytes == b->workspace_bytes;
    for (int32_t s = 0; s < n_stages; s++)
        is_same = is_same && a->stage[s].is_idle == b->stage[s].is_idle &&
                  a->stage[s].pick.variant == b->stage[s].pick.variant &&
                  a->stage[s].workspace_offset == b->stage[s].workspace_offset;
    return is_same;
}

bool md_sq_shape_is_stale(md_sq_shape *shape)
{
    bool is_new = false;
    for (int32_t i = 0; i < shape->n_parts; i++) {
        md_sq_part *part = &shape->part[i];
        const md_ds_plan *now = part->entry ? md_ds_plan_of(part->entry) : NULL;
        if (now == part->plan)
            continue;
        if (part->form != MD_SQ_LAUNCHES || !has_same_kernels(now, part->plan, part->op->n_stages))
            return true;
        part->plan = md_ds_plan_to_serve(part->entry);
        is_new = true;
    }
    if (is_new)
        md_sq_set_ability(shape);
    return false;
}

void md_sq_evict_all(md_sq *sq)
{
    while (sq->newest) {
        md_sq_shape *s = sq->newest;
        sq->newest = s->older;
        (void)md_table_remove(sq->shapes, s->key, s->key_bytes);
        md_sq_shape_free(s, sq);
    }
    sq->last = NULL;
    md_sq_drop_spares(sq);
}

void md_sq_args_of(md_arg *arg, const md_sq *sq, const md_sq_step *step)
{
    for (int32_t i = 0; i < step->n_args; i++) {
        const md_sq_arg *a = &step->arg[i];
        const md_kn_word word = {.i =
                                     a->kind == MD_SQ_EXTERNAL ? (int64_t)sq->word[sq->tensor[a->tensor].external] : 0};
        if (a->kind == MD_SQ_TENSOR)
            arg[i] = md_t(&sq->now[a->tensor]);
        else if (a->kind == MD_SQ_INTEGER)
            arg[i] = md_i(sq->value[a->value]);
        else if (a->kind == MD_SQ_REAL)
            arg[i] = md_s(a->real);
        else
            arg[i] = sq->tensor[a->tensor].dtype == MD_F64 ? md_s(word.d) : md_i(word.i);
    }
}

const md_arg *md_sq_args_for(md_ds_merged_args *room, const md_ds_op *op, const md_sq_step *step, const md_arg *args)
{
    if (op == step->op)
        return args;
    return md_ds_merged_take(room, step->op, args, step->n_args) ? room->arg : NULL;
}

bool md_sq_externals_overlap(const md_sq *sq, const uint64_t *word, const size_t *bytes)
{
    for (int32_t a = 0; a < sq->n_externals; a++) {
        if (!sq->external[a].is_written || !bytes[a])
            continue;
        for (int32_t b = 0; b < sq->n_externals; b++)
            if (b != a && bytes[b] && word[a] < word[b] + bytes[b] && word[b] < word[a] + bytes[a])
                return true;
    }
    return false;
}
