/* Which of the last indices can run as one axis. */
#include "base/dtype.h"
#include "codegen/codegen.h"

#include <string.h>

typedef struct merge {
    const md_st_program *program;
    int32_t n;
    const int32_t *index; /* slowest first */
    uint32_t tensors;
    bool is_legal;
    bool may_repeat, repeats; /* loads may run over the last index alone; some do */
} merge;

static bool is_merged(const merge *m, const md_fx_node *n)
{
    for (int32_t i = 0; i < m->n; i++)
        if (md_fx_is_index(n, m->index[i]))
            return true;
    return false;
}

/* The last axis is the last index, and no other axis is merged. */
static bool is_cycle(const merge *m, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    const md_fx_tensor *t = &m->program->formula->tensor[tensor];
    if (!m->may_repeat || rank == 0 || !md_fx_is_index(subscript[rank - 1], m->index[m->n - 1]) ||
        t->at_least[rank - 1] || md_dtype_is_packed(t->dtype))
        return false;
    for (int32_t i = 0; i < rank - 1; i++)
        if (md_fx_uses_any_index(subscript[i], m->n, m->index))
            return false;
    return true;
}

/* The merged indices are the last axes, in order and exactly as long, or do not occur. */
static void note_access(merge *m, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    const md_fx_tensor *t = &m->program->formula->tensor[tensor];
    bool is_suffix = rank >= m->n;
    for (int32_t i = 0; is_suffix && i < m->n; i++) {
        int32_t axis = rank - m->n + i;
        is_suffix = md_fx_is_index(subscript[axis], m->index[i]) && !t->at_least[axis];
    }
    for (int32_t i = 0; i < (is_suffix ? rank - m->n : rank); i++)
        m->is_legal &= !md_fx_uses_any_index(subscript[i], m->n, m->index);
    if (is_suffix)
        m->tensors |= UINT32_C(1) << tensor;
}

static bool note_node(void *user, const md_fx_node *n)
{
    merge *m = user;
    if (n->kind == MD_FX_LOAD) {
        if (m->n > 1 && is_cycle(m, n->id, n->n_args, n->arg))
            m->repeats = true;
        else
            note_access(m, n->id, n->n_args, n->arg);
        return m->is_legal;
    }
    for (int32_t i = 0; i < n->n_args; i++)
        m->is_legal &= !is_merged(m, n->arg[i]);
    m->is_legal &= n->kind != MD_FX_SCAN && n->kind != MD_FX_REDUCE;
    return m->is_legal;
}

static bool can_merge(merge *m, const md_st_stage *st)
{
    m->tensors = 0;
    m->is_legal = true;
    m->repeats = false;
    md_cg_visit(st, note_node, m);
    for (int32_t i = 0; i < st->n_stores; i++) {
        const md_st_store *s = &st->store[i];
        m->is_legal &= !is_merged(m, s->value);
        note_access(m, s->tensor, s->n_subscripts, s->subscript);
        for (int32_t a = 0; a < s->n_subscripts; a++)
            m->is_legal &=
                s->subscript[a]->kind == MD_FX_INDEX || !md_fx_uses_any_index(s->subscript[a], m->n, m->index);
    }
    return m->is_legal && m->repeats == m->may_repeat;
}

/* An answer of md_cg_flat, as the program keeps it. */
typedef struct flat {
    int32_t n, index[MD_MAX_RANK * 2];
    uint32_t tensors;
} flat;

static void make_flat(void *result, const md_st_program *program, int32_t stage, const void *user)
{
    const md_st_stage *st = &program->stage[stage];
    int32_t all[MD_MAX_RANK * 2 + 1], n = 0;
    flat *out = result;
    *out = (flat){.n = 1, .index = {st->axis}};
    if (st->axis < 0)
        return;
    for (int32_t i = 0; i < st->n_outer; i++)
        all[n++] = st->outer[i];
    all[n++] = st->axis;
    for (int32_t first = n > MD_MAX_RANK * 2; first < n - 1; first++) {
        merge m = {.program = program, .n = n - first, .index = all + first, .may_repeat = user != NULL};
        if (!can_merge(&m, st))
            continue;
        for (int32_t i = 0; i < m.n; i++)
            out->index[i] = m.index[i];
        out->tensors = m.tensors;
        out->n = m.n;
        return;
    }
}

static int32_t look(int32_t out[MD_MAX_RANK * 2], uint32_t *tensors, const md_st_program *program, int32_t stage,
                    const md_st_fact *fact)
{
    flat room;
    const flat *f = md_st_look(&room, program, stage, fact);
    *tensors = f->tensors;
    memcpy(out, f->index, (size_t)f->n * sizeof *out);
    return f->n;
}

int32_t md_cg_flat(int32_t out[MD_MAX_RANK * 2], uint32_t *tensors, const md_st_program *program, int32_t stage)
{
    return look(out, tensors, program, stage,
                &(md_st_fact){.which = MD_ST_KNOWN_FLAT, .n_bytes = sizeof(flat), .make = make_flat});
}

int32_t md_cg_cyclic(int32_t out[MD_MAX_RANK * 2], uint32_t *tensors, const md_st_program *program, int32_t stage)
{
    return look(
        out, tensors, program, stage,
        &(md_st_fact){.which = MD_ST_KNOWN_CYCLIC, .n_bytes = sizeof(flat), .make = make_flat, .user = "cyclic"});
}
