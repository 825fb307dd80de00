/* Ends building: the life of each temporary, and outputs that take the place of an input which ends there. */
#include "base/status.h"
#include "sequence/sequence.h"
#include "sequence/values.h"

#include <stdlib.h>

static bool is_temporary(const md_sq *sq, const md_sq_arg *arg)
{
    return arg->kind == MD_SQ_TENSOR && sq->memory[sq->tensor[arg->tensor].memory].role == MD_SEQUENCE_TEMPORARY;
}

static const md_fx_tensor *formula_tensor(const md_sq_step *step, int32_t i)
{
    return &step->op->formula->tensor[step->op->formula->args[i].id];
}

/* An output that is updated is read, too. A callback may write whatever it is given. */
static bool is_read(const md_sq_step *step, int32_t i)
{
    return step->op && (formula_tensor(step, i)->role == MD_FX_INPUT || formula_tensor(step, i)->is_updated);
}

static bool is_written(const md_sq_step *step, int32_t i)
{
    return !step->op || formula_tensor(step, i)->role == MD_FX_OUTPUT;
}

static md_status check_read(const md_sq *sq, int32_t step, const md_sq_arg *arg, const bool *written)
{
    char name[32];
    if (written[sq->tensor[arg->tensor].memory])
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "call %d (%s) reads tensor '%s', which no call before it writes", (int)step,
                   sq->step[step].op->name, md_sq_tensor_name(name, sq, arg->tensor));
}

/* Notes that a step reads or writes its tensors. Reads are noted first, since a call reads before it writes. */
static md_status live_step(md_sq *sq, int32_t at, bool *written)
{
    const md_sq_step *step = &sq->step[at];
    for (int32_t i = 0; i < step->n_args; i++)
        if (is_temporary(sq, &step->arg[i]) && is_read(step, i))
            MD_TRY(check_read(sq, at, &step->arg[i], written));
    for (int32_t i = 0; i < step->n_args; i++) {
        if (!is_temporary(sq, &step->arg[i]))
            continue;
        const int32_t memory = sq->tensor[step->arg[i].tensor].memory;
        md_sq_memory *m = &sq->memory[memory];
        written[memory] |= is_written(step, i);
        m->first = m->first < 0 ? at : m->first;
        m->last = at;
    }
    return MD_OK;
}

/* True if two tensors of one dtype and rank have the same bytes at all sizes. */
static bool same_layout(const md_sq_tensor *a, const md_sq_tensor *b)
{
    if (a->base >= 0 || b->base >= 0 || (a->stride[0] < 0) != (b->stride[0] < 0))
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->size[i] != b->size[i] || (a->stride[0] >= 0 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

static int32_t times_used(const md_sq *sq, const md_sq_step *step, int32_t memory)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->n_args; i++)
        n += step->arg[i].kind == MD_SQ_TENSOR && sq->tensor[step->arg[i].tensor].memory == memory;
    return n;
}

/* True if output o of a call may lie where input i lies: the input ends here, the output begins here, both are whole
 * and alike, and the op reads an element only to compute the same one. */
static bool can_share(const md_sq *sq, int32_t at, int32_t o, int32_t i)
{
    const md_sq_step *step = &sq->step[at];
    const md_sq_tensor *to = &sq->tensor[step->arg[o].tensor], *from = &sq->tensor[step->arg[i].tensor];
    const md_sq_memory *out = &sq->memory[to->memory], *in = &sq->memory[from->memory];
    if (to->memory == from->memory || out->first != at || sq->memory[in->place].last != at)
        return false;
    return times_used(sq, step, to->memory) == 1 && times_used(sq, step, from->memory) == 1 &&
           !formula_tensor(step, o)->is_updated &&
           md_st_may_alias(step->op->program, step->op->formula->args[o].id, step->op->formula->args[i].id) &&
           same_layout(to, from);
}

static void share_places(md_sq *sq, int32_t at)
{
    const md_sq_step *step = &sq->step[at];
    for (int32_t o = 0; step->op && o < step->n_args; o++) {
        if (!is_temporary(sq, &step->arg[o]) || !is_written(step, o))
            continue;
        for (int32_t i = 0; i < step->n_args; i++) {
            if (!is_temporary(sq, &step->arg[i]) || is_written(step, i) || !can_share(sq, at, o, i))
                continue;
            md_sq_memory *out = &sq->memory[sq->tensor[step->arg[o].tensor].memory];
            out->place = sq->memory[sq->tensor[step->arg[i].tensor].memory].place;
            md_sq_memory *place = &sq->memory[out->place];
            place->last = out->last > place->last ? out->last : place->last;
            sq->count.n_in_place++;
            break;
        }
    }
}

md_status md_sq_finish(md_sq *sq)
{
    md_status s = MD_OK;
    if (sq->is_finished)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s is finished already", sq->name);
    bool *written = calloc((size_t)sq->n_memories + 1, sizeof *written);
    sq->value = calloc((size_t)md_sq_values_count(sq->values) + 1, sizeof *sq->value);
    sq->now = calloc((size_t)sq->n_tensors + 1, sizeof *sq->now);
    sq->at = calloc((size_t)sq->n_tensors + 1, sizeof *sq->at);
    sq->word = calloc((size_t)sq->n_externals + 1, sizeof *sq->word);
    sq->last_word = calloc((size_t)sq->n_externals + 1, sizeof *sq->last_word);
    sq->n_moves = calloc((size_t)sq->n_externals + 1, sizeof *sq->n_moves);
    sq->n_still = -1;
    if (!written || !sq->value || !sq->now || !sq->at || !sq->word || !sq->last_word || !sq->n_moves)
        s = md_fail_memory();
    for (int32_t i = 0; i < sq->n_memories; i++)
        sq->memory[i].first = sq->memory[i].last = -1;
    for (int32_t at = 0; at < sq->n_steps && s == MD_OK; at++)
        s = live_step(sq, at, written);
    free(written);
    if (s != MD_OK) {
        md_sq_free_run_state(sq);
        return s;
    }
    for (int32_t at = 0; at < sq->n_steps; at++)
        share_places(sq, at);
    sq->is_finished = true;
    return MD_OK;
}
