/* The indices of cells, and where their integers have 32 bits. */
#include "family/cuda/point/cells.h"

#include "codegen/narrow.h"

md_fa_cells_form md_fa_cells_form_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_stage *st = md_fa_stage(target);
    md_fa_cells_form f = {.step = -1};
    for (int32_t i = 0; i < st->n_outer; i++)
        f.all[f.n++] = st->outer[i];
    if (st->axis >= 0)
        f.all[f.n++] = st->axis;
    f.n_inner = MD_MIN(config->value[MD_FA_CELLS_PLANE], f.n);
    f.n_outer = MD_MAX(f.n - f.n_inner - 1, 0);
    if (f.n > f.n_inner)
        f.step = f.all[f.n_outer];
    return f;
}

const int32_t *md_fa_cells_inner(const md_fa_cells_form *f)
{
    return f->all + f->n - f->n_inner;
}

uint32_t md_fa_cells_loaded(const md_st_stage *st)
{
    uint32_t tensors = 0;
    for (int32_t i = 0; i < st->n_tensors; i++)
        tensors |= st->is_stored[i] ? 0 : UINT32_C(1) << st->tensor[i];
    return tensors;
}

/* ---- Integers of 32 bits */

/* A search for integers that 32 bits do not hold, where sizes are at most this. */
typedef struct narrow {
    const md_st_program *program;
    int64_t most;
    int32_t n_nodes;
} narrow;

/* The range of an integer; false where it or what it is made of does not fit. */
static bool fits(narrow *s, const md_fx_node *n, md_range_interval *out)
{
    md_range_interval arg[3] = {{0, 1}, {0, 1}, {0, 1}};
    *out = (md_range_interval){0, 1};
    if (++s->n_nodes > MD_CG_NARROW_NODES)
        return false;
    for (int32_t i = 0; i < n->n_args; i++)
        if (!fits(s, n->arg[i], &arg[MD_MIN(i, 2)]))
            return false;
    if (n->type != MD_I64)
        return true;
    if (n->kind == MD_FX_CONST)
        *out = (md_range_interval){n->integer, n->integer};
    else if (n->kind == MD_FX_INDEX || n->kind == MD_FX_SIZE)
        *out = (md_range_interval){0, s->most};
    else if (n->kind == MD_FX_CHECK)
        *out = arg[0];
    else if (n->kind != MD_FX_OP || n->n_args > 3 || !md_cg_range_of_op(out, n, arg))
        return false;
    return out->lo > INT32_MIN / 2 && out->hi < INT32_MAX / 2;
}

int64_t md_fa_cells_narrow_size(const md_fa_target *target)
{
    static const int64_t sizes[] = {1 << 24, 1 << 14};
    const md_st_stage *st = md_fa_stage(target);
    md_range_interval range;
    for (int32_t i = 0; i < MD_COUNT(sizes); i++) {
        narrow s = {.program = target->program, .most = sizes[i]};
        bool all = true;
        for (int32_t k = 0; all && k < st->n_stores; k++)
            all = fits(&s, st->store[k].value, &range);
        if (all)
            return sizes[i];
    }
    return 0;
}
