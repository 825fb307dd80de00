/* Finds the loads of a pointwise stage that need transposing. */
#include "family/point/point.h"

#include "codegen/codegen.h"

typedef struct finder {
    const md_fa_target *target;
    md_fa_transpose *out;
} finder;

/* True if the index runs along the whole axis. */
static bool is_along(const md_st_program *program, const md_fx_node *load, int32_t axis)
{
    const md_fx_tensor *x = &program->formula->tensor[load->id];
    return !x->at_least[axis] || program->index[load->arg[axis]->id].dim == x->dim[axis];
}

/* True if all subscripts are different plain indices, the lanes' index is among them, and the last is another one. */
static bool is_transposed(const md_st_stage *st, const md_st_program *program, const md_fx_node *n)
{
    bool has_lane = false;
    if (n->kind != MD_FX_LOAD || n->n_args < 2)
        return false;
    for (int32_t i = 0; i < n->n_args; i++) {
        if (n->arg[i]->kind != MD_FX_INDEX || !is_along(program, n, i))
            return false;
        for (int32_t k = 0; k < i; k++)
            if (md_fx_is_index(n->arg[i], n->arg[k]->id))
                return false;
        has_lane |= md_fx_is_index(n->arg[i], st->axis);
    }
    return has_lane && !md_fx_is_index(n->arg[n->n_args - 1], st->axis);
}

static bool is_same_load(const md_fx_node *a, const md_fx_node *b)
{
    return md_fx_equal(NULL, a, b);
}

static bool note(void *user, const md_fx_node *n)
{
    finder *f = user;
    const md_st_stage *st = md_fa_stage(f->target);
    md_fa_transpose *t = f->out;
    if (!is_transposed(st, f->target->program, n) || t->n == MD_FA_MAX_TRANSPOSED)
        return true;
    int32_t last = n->arg[n->n_args - 1]->id;
    if (t->n > 0 && last != t->index)
        return true; /* the table is full: this load stays a strided one */
    for (int32_t i = 0; i < t->n; i++)
        if (is_same_load(t->load[i], n))
            return true;
    t->index = last;
    t->load[t->n++] = n;
    return true;
}

static void make_transpose(void *result, const md_st_program *program, int32_t stage, const void *target)
{
    md_fa_transpose *out = result;
    (void)program, (void)stage;
    *out = (md_fa_transpose){.index = -1};
    finder f = {target, out};
    if (md_fa_stage(target)->axis >= 0 && !md_fa_has_packed(target)) /* tiles are whole elements */
        md_cg_visit(md_fa_stage(target), note, &f);
}

bool md_fa_transpose_find(md_fa_transpose *out, const md_fa_target *target)
{
    md_st_know(
        out, target->program, target->stage,
        &(md_st_fact){.which = MD_ST_KNOWN_TRANSPOSE, .n_bytes = sizeof *out, .make = make_transpose, .user = target});
    return out->n > 0;
}

void md_fa_transpose_envelope(md_kn_envelope *out, const md_fa_target *target)
{
    md_fa_transpose transpose;
    *out = (md_kn_envelope){.unit = md_cg_unit_tensors(target->program, target->stage, md_fa_stage(target)->axis)};
    md_fa_transpose_find(&transpose, target);
    for (int32_t i = 0; i < transpose.n; i++)
        out->unit |= UINT32_C(1) << transpose.load[i]->id;
}
