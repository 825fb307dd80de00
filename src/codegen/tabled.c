/* Stages whose results are a function of one narrow element: kernels make a table of all that it can be. */
#include "base/dtype.h"
#include "codegen/codegen.h"

typedef struct search {
    const md_st_store *store;
    const md_fx_node *load; /* the one that was met */
} search;

/* True for a load at the place of the store, and of the tensor that was met before, if any was. */
static bool is_at_store(const search *s, const md_fx_node *load)
{
    bool is_there = load->n_args > 0 && load->n_args == s->store->n_subscripts;
    for (int32_t i = 0; is_there && i < load->n_args; i++)
        is_there = load->arg[i]->kind == MD_FX_INDEX && md_fx_is_index(s->store->subscript[i], load->arg[i]->id);
    return is_there && (!s->load || s->load->id == load->id);
}

static bool depends_on_load(search *s, const md_fx_node *n)
{
    switch ((int)n->kind) {
    case MD_FX_CONST:
    case MD_FX_SCALAR:
        return true;
    case MD_FX_LOAD:
        if (!is_at_store(s, n))
            return false;
        s->load = n;
        return true;
    case MD_FX_OP:
    case MD_FX_CAST:
        for (int32_t i = 0; i < n->n_args; i++)
            if (!depends_on_load(s, n->arg[i]))
                return false;
        return true;
    default:
        return false; /* positions, loops, checks */
    }
}

int32_t md_cg_tabled(int32_t *from, const md_st_program *program, int32_t stage)
{
    const md_st_stage *st = &program->stage[stage];
    if (st->kind != MD_ST_POINTWISE || st->has_gather || st->has_scatter || st->axis < 0 || st->n_stores != 1 ||
        st->store[0].assign != MD_FX_SET)
        return 0;
    search s = {.store = &st->store[0]};
    if (!depends_on_load(&s, st->store[0].value) || !s.load)
        return 0;
    *from = s.load->id;
    const int bits = md_dtype_bits(program->formula->tensor[s.load->id].dtype);
    return bits <= 8 && bits == md_dtype_bits(program->formula->tensor[st->store[0].tensor].dtype) ? bits : 0;
}
