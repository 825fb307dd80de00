/* Binds a sequence at a tuple of sizes: sizes of all tensors, kernels of all calls, memory, and launches. */
#include "base/status.h"
#include "dispatch/call/call.h"
#include "sequence/shape.h"
#include "sequence/values.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tensors */

static void set_strides(md_tensor *t)
{
    int64_t stride = 1;
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        t->stride[a] = stride;
        if (__builtin_mul_overflow(stride, MD_MAX(t->size[a], 1), &stride))
            stride = INT64_MAX; /* saturates: the check of the view's extent then refuses it */
    }
}

static md_status size_tensor(md_tensor *out, const md_sq *sq, int32_t number)
{
    const md_sq_tensor *t = &sq->tensor[number];
    char name[32];
    *out = (md_tensor){.dtype = t->dtype, .rank = t->rank};
    for (int32_t a = 0; a < t->rank; a++) {
        out->size[a] = sq->value[t->size[a]];
        if (out->size[a] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "tensor '%s': size %lld of axis %d is negative",
                           md_sq_tensor_name(name, sq, number), (long long)out->size[a], (int)a);
    }
    if (t->rank > 0 && t->stride[0] < 0)
        set_strides(out);
    for (int32_t a = 0; a < t->rank && t->stride[0] >= 0; a++) {
        out->stride[a] = sq->value[t->stride[a]];
        if (out->stride[a] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "tensor '%s': stride %lld of axis %d is negative",
                           md_sq_tensor_name(name, sq, number), (long long)out->stride[a], (int)a);
    }
    return MD_OK;
}

/* Names the view and its memory, since the view may have no name of its own. `end` -1: not known. */
static md_status fail_view(const md_sq *sq, int32_t number, int64_t at, int64_t end, size_t n_bytes)
{
    char view[32], memory[32];
    int32_t base = number;
    while (sq->tensor[base].base >= 0)
        base = sq->tensor[base].base;
    md_sq_tensor_name(view, sq, number);
    md_sq_tensor_name(memory, sq, base);
    if (end < 0)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s' leaves the memory that it is a view of, '%s'", view, memory);
    return md_fail(MD_INVALID_ARGUMENT,
                   "tensor '%s' leaves the memory that it is a view of, '%s': it takes bytes %lld to %lld of %zu", view,
                   memory, (long long)at, (long long)end, n_bytes);
}

/* Offsets in bytes from the start of the memory; views must lie within it. */
static md_status place_tensor(md_sq *sq, size_t *bytes, int32_t number)
{
    const md_sq_tensor *t = &sq->tensor[number];
    const int64_t item = (int64_t)md_dtype_size(t->dtype), reach = md_sq_reach(&sq->now[number]);
    int64_t at = 0, end = 0;
    char name[32];
    bool fits = reach >= 0;
    if (t->base >= 0) {
        const int64_t offset = t->offset >= 0 ? sq->value[t->offset] : 0;
        fits = fits && offset >= 0 && !__builtin_mul_overflow(offset, item, &at) &&
               !__builtin_add_overflow(at, sq->at[t->base], &at);
    }
    fits = fits && !__builtin_mul_overflow(reach, item, &end) && !__builtin_add_overflow(end, at, &end);
    if (fits && t->base < 0)
        bytes[t->memory] = (size_t)end;
    if (t->base >= 0 && (!fits || (reach > 0 && (size_t)end > bytes[t->memory])))
        return fail_view(sq, number, at, fits ? end : -1, bytes[t->memory]);
    if (!fits)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s' exceeds 63 bits", md_sq_tensor_name(name, sq, number));
    sq->at[number] = at;
    return MD_OK;
}

static md_status size_all(md_sq *sq, size_t *bytes, const int64_t *size)
{
    MD_TRY(md_sq_values_eval(sq->value, sq->values, size));
    for (int32_t i = 0; i < sq->n_tensors; i++) {
        if (sq->tensor[i].is_scalar)
            continue;
        MD_TRY(size_tensor(&sq->now[i], sq, i));
        MD_TRY(place_tensor(sq, bytes, i));
    }
    return MD_OK;
}

static char *base_of(const md_sq *sq, const md_sq_shape *shape, int32_t memory)
{
    const md_sq_memory *m = &sq->memory[memory];
    if (m->role == MD_SEQUENCE_CONSTANT)
        return m->data;
    if (m->external >= 0)
        return (char *)(uintptr_t)sq->word[m->external];
    return (char *)sq->arena + shape->offset[m->place];
}

static void address_all(md_sq *sq, const md_sq_shape *shape)
{
    for (int32_t i = 0; i < sq->n_tensors; i++)
        if (!sq->tensor[i].is_scalar)
            sq->now[i].data = base_of(sq, shape, sq->tensor[i].memory) + sq->at[i];
}

static md_status check_addresses(const md_sq *sq)
{
    char name[32];
    for (int32_t i = 0; i < sq->n_tensors; i++)
        if (!sq->tensor[i].is_scalar && (uintptr_t)sq->now[i].data % md_dtype_size(sq->tensor[i].dtype))
            return md_fail(MD_INVALID_ARGUMENT, "tensor '%s' is not aligned to its elements",
                           md_sq_tensor_name(name, sq, i));
    return MD_OK;
}

md_status md_sq_check_externals(const md_sq *sq, const md_sq_shape *shape)
{
    char name[32];
    for (int32_t k = 0; k < sq->n_externals; k++)
        if (!sq->word[k] && shape->external_bytes[k])
            return md_fail(MD_INVALID_ARGUMENT, "sequence %s: data %d, tensor '%s', is NULL", sq->name, (int)k,
                           md_sq_tensor_name(name, sq, sq->external[k].tensor));
    return MD_OK;
}

/* ---- Calls */

static md_status name_step(md_status status, const md_sq *sq, int32_t step)
{
    const md_ds_op *op = sq->step[step].op;
    return status == MD_OK ? MD_OK
                           : md_fail_more(status, " (call %d of sequence %s, %s)", (int)step, sq->name,
                                          op ? op->name : "a callback");
}

/* True if all addresses of a step are known to lie in the device's memory, so that binding need not ask the driver
 * again, which costs more than all other checks. `now`: binding has just asked, and the addresses are noted. */
static bool are_checked(md_sq *sq, const md_sq_step *step, bool now)
{
    bool all = true;
    for (int32_t i = 0; i < step->n_args; i++) {
        if (step->arg[i].kind != MD_SQ_TENSOR)
            continue;
        md_sq_memory *m = &sq->memory[sq->tensor[step->arg[i].tensor].memory];
        const uint64_t address = m->external >= 0 ? sq->word[m->external] : (uint64_t)(uintptr_t)m->data;
        if (m->role == MD_SEQUENCE_TEMPORARY)
            continue;
        if (now)
            m->checked = address;
        all &= m->checked == address && address != 0;
    }
    return all;
}

/* Binds a step to the op that serves it: its merged one where the tensors are contiguous and nothing is copied. */
static md_status bind_step(md_ds_bound *bound, md_ds_op **op, const md_sq *sq, const md_sq_step *step)
{
    md_arg arg[MD_FX_MAX_ARGS];
    md_ds_merged_args room;
    md_sq_args_of(arg, sq, step);
    *op = md_ds_merged_of(step->op);
    const md_arg *merged = *op ? md_sq_args_for(&room, *op, step, arg) : NULL;
    if (merged && md_ds_bind(bound, *op, merged, step->n_args) == MD_OK && bound->copies.n == 0)
        return MD_OK;
    *op = step->op;
    return md_ds_bind(bound, *op, arg, step->n_args);
}

/* Chooses the kernels of a step. *bound becomes its bound call, unless it is a callback. */
static md_status choose(md_ds_bound *bound, md_sq_shape *shape, md_sq *sq, int32_t i, bool is_patient)
{
    md_sq_part *part = &shape->part[i];
    part->form = MD_SQ_CALLBACK;
    if (!sq->step[i].op)
        return MD_OK;
    MD_TRY(bind_step(bound, &part->op, sq, &sq->step[i]));
    md_ds_op *op = part->op;
    part->form = MD_SQ_NOTHING;
    if (bound->is_empty)
        return MD_OK;
    if (!are_checked(sq, &sq->step[i], false)) {
        MD_TRY(md_ds_check_pointers(op, bound));
        (void)are_checked(sq, &sq->step[i], true);
    }
    bound->is_patient = is_patient;
    MD_TRY(md_ds_find(&part->entry, op, NULL, bound));
    part->plan = md_ds_plan_to_serve(part->entry);
    part->form = MD_SQ_CALL;
    for (int32_t s = 0; s < op->n_stages; s++)
        if (!part->plan->stage[s].is_idle)
            shape->choice =
                (shape->choice ^ (uint64_t)(op->serial << 16 | (uint64_t)(part->plan->stage[s].pick.variant + 1))) *
                0x9e3779b97f4a7c15u;
    return MD_OK;
}

/* Keeps copies of the arguments, in which each run changes the addresses. */
static md_status keep_args(md_sq_shape *shape, md_sq *sq, int32_t step)
{
    const md_sq_step *s = &sq->step[step];
    md_sq_part *part = &shape->part[step];
    part->tensor = calloc((size_t)s->n_args + 1, sizeof *part->tensor);
    part->arg = calloc((size_t)s->n_args + 1, sizeof *part->arg);
    if (!part->tensor || !part->arg)
        return md_fail_memory();
    md_sq_args_of(part->arg, sq, s);
    for (int32_t i = 0; i < s->n_args; i++) {
        const md_sq_tensor *t =
            s->arg[i].kind == MD_SQ_TENSOR || s->arg[i].kind == MD_SQ_EXTERNAL ? &sq->tensor[s->arg[i].tensor] : NULL;
        uint64_t *word =
            (uint64_t *)(void *)(t && t->dtype == MD_F64 ? (void *)&part->arg[i].real : (void *)&part->arg[i].integer);
        int32_t external = t && t->is_scalar ? t->external : -1;
        if (s->arg[i].kind == MD_SQ_TENSOR) {
            part->tensor[i] = *part->arg[i].tensor;
            part->arg[i].tensor = &part->tensor[i];
            word = (uint64_t *)(void *)&part->tensor[i].data;
            external = sq->memory[t->memory].external;
        }
        if (external >= 0)
            MD_TRY(md_sq_add_patch(
                shape, &(md_sq_patch){.external = external, .word = word, .plus = *word - sq->word[external]}));
    }
    return MD_OK;
}

/* *bound: the step's call; `op` serves it at the addresses that hold now. */
static md_status make_bound_step(md_sq_shape *shape, md_sq *sq, int32_t i, const md_ds_op *op, const md_ds_bound *bound)
{
    md_sq_part *part = &shape->part[i];
    bool is_made = false;
    const bool is_plain = op == part->op && !part->plan->by_reference && bound->copies.n == 0 && !sq->runtime->verifies;
    if (is_plain && part->plan->n_packing == 0) /* calls find the packed operands of their addresses */
        MD_TRY(md_sq_make_launches(&is_made, shape, sq, i, bound));
    part->form = is_made                                                          ? MD_SQ_LAUNCHES
                 : is_plain && !part->plan->is_stand_in && !part->plan->n_packing ? MD_SQ_PLAN
                                                                                  : MD_SQ_CALL;
    return is_made ? MD_OK : keep_args(shape, sq, i);
}

/* The launches of a step. *bound: what `choose` made of it if addresses are still the same, else room to bind it
 * again. */
static md_status make_step(md_sq_shape *shape, md_sq *sq, int32_t i, md_ds_bound *bound, bool is_bound)
{
    const md_sq_part *part = &shape->part[i];
    md_ds_op *op = part->op;
    if (part->form == MD_SQ_CALLBACK)
        return keep_args(shape, sq, i);
    if (part->form == MD_SQ_NOTHING)
        return MD_OK;
    if (!is_bound)
        MD_TRY(bind_step(bound, &op, sq, &sq->step[i]));
    return make_bound_step(shape, sq, i, op, bound);
}

/* ---- All */

static md_sq_shape *make_shape(const md_sq *sq, const int64_t *size)
{
    md_sq_shape *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    const size_t n_externals = (size_t)sq->n_externals + 1, n_memories = (size_t)sq->n_memories + 1;
    s->word = calloc(n_externals, sizeof *s->word);
    s->graph_word = calloc(n_externals, sizeof *s->graph_word);
    s->n_moves = calloc(n_externals, sizeof *s->n_moves);
    s->is_moving = calloc(n_externals, sizeof *s->is_moving);
    s->external_bytes = calloc(n_externals, sizeof *s->external_bytes);
    s->offset = calloc(n_memories, sizeof *s->offset);
    s->bytes = calloc(n_memories, sizeof *s->bytes);
    s->part = calloc((size_t)sq->n_steps + 1, sizeof *s->part);
    s->report = calloc((size_t)sq->n_steps + 1, sizeof *s->report);
    memcpy(s->size, size, (size_t)sq->n_dims * sizeof *size);
    s->n_parts = sq->n_steps;
    s->choice = 0x1234567;
    return s;
}

static md_status make_all(md_sq_shape *shape, md_sq *sq, md_sq_layout *plan, const md_sq_find_how *how)
{
    md_ds_bound bound;
    for (int32_t i = 0; i < sq->n_steps; i++)
        MD_TRY(name_step(choose(&bound, shape, sq, i, how->is_patient), sq, i));
    MD_TRY(md_sq_plan_workspaces(plan, shape, sq));
    address_all(sq, shape);
    shape->generation = sq->generation;
    for (int32_t i = 0; i < sq->n_steps; i++)
        MD_TRY(name_step(make_step(shape, sq, i, &bound, false), sq, i));
    return MD_OK;
}

/* Runs each step as soon as it is bound: the device works while the next ones are. If the arena moves meanwhile, the
 * shape keeps the older generation, so that it is bound anew at the next run. */
static md_status start_all(md_sq_shape *shape, md_sq *sq, md_sq_layout *plan, md_sq_find_how *how)
{
    md_ds_bound bound;
    shape->generation = sq->generation;
    for (int32_t i = 0; i < sq->n_steps; i++) {
        const uint64_t generation = sq->generation;
        MD_TRY(name_step(choose(&bound, shape, sq, i, how->is_patient), sq, i));
        MD_TRY(md_sq_plan_workspace(plan, shape, sq, i));
        if (sq->generation != shape->generation)
            address_all(sq, shape);
        MD_TRY(name_step(make_step(shape, sq, i, &bound, sq->generation == generation), sq, i));
        MD_TRY(how->start(sq, shape, i, how->stream));
    }
    how->has_run = true;
    return MD_OK;
}

static md_status bind_all(md_sq_shape *shape, md_sq *sq, md_sq_layout *plan, md_sq_find_how *how)
{
    MD_TRY(size_all(sq, shape->bytes, shape->size));
    MD_TRY(md_sq_lay_out(plan, shape, sq));
    memcpy(shape->word, sq->word, (size_t)sq->n_externals * sizeof *sq->word);
    address_all(sq, shape);
    MD_TRY(md_sq_check_externals(sq, shape));
    MD_TRY(check_addresses(sq));
    MD_TRY(how->start ? start_all(shape, sq, plan, how) : make_all(shape, sq, plan, how));
    md_sq_set_ability(shape);
    shape->graph_key = md_sq_graph_key(shape);
    shape->is_overlapping = md_sq_externals_overlap(sq, sq->word, shape->external_bytes);
    return MD_OK;
}

md_status md_sq_bind(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how)
{
    md_sq_shape *shape = make_shape(sq, size);
    if (!shape)
        return md_fail_memory();
    md_sq_layout plan = {calloc((size_t)sq->n_memories + (size_t)sq->n_steps + 1, sizeof *plan.piece),
                         calloc((size_t)sq->n_memories + 1, sizeof *plan.of), 0, 0};
    md_status s = plan.piece && plan.of && shape->word && shape->graph_word && shape->n_moves && shape->is_moving &&
                          shape->external_bytes && shape->offset && shape->bytes && shape->part && shape->report
                      ? bind_all(shape, sq, &plan, how)
                      : md_fail_memory();
    md_sq_drop_memos(shape);
    free(plan.piece);
    free(plan.of);
    if (s != MD_OK) {
        md_sq_shape_free(shape, sq);
        return s;
    }
    md_sq_expect_moves(shape, sq);
    sq->count.n_binds++;
    *out = shape;
    return MD_OK;
}
