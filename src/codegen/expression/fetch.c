/* Loads that a GPU's thread makes ahead of all arithmetic, so that many are under way at once. */
#include "codegen/expression/printer.h"

typedef struct search {
    const md_st_program *program;
    const md_fx_node **out;
    int32_t n;
} search;

/* Affine subscripts stay inside whatever the values are; those that read memory are checked where they are used. */
static bool is_affine(const md_st_program *program, const md_fx_node *load)
{
    md_fx_affine a;
    for (int32_t i = 0; i < load->n_args; i++)
        if (!md_fx_affine_of(&a, program->formula, load->arg[i]))
            return false;
    return true;
}

static void note_load(search *s, const md_fx_node *load)
{
    for (int32_t i = 0; i < s->n; i++)
        if (md_fx_equal(s->program->formula, s->out[i], load))
            return;
    if (s->n < MD_CG_MAX_FETCHED)
        s->out[s->n++] = load;
}

/* Arms of a where may read outside where they are not taken. A pointwise stage has no reductions and no scans. */
static void walk(search *s, const md_fx_node *n)
{
    bool chooses = n->kind == MD_FX_OP && n->op == MD_FX_WHERE;
    if (n->kind == MD_FX_LOAD && is_affine(s->program, n)) {
        note_load(s, n);
        return;
    }
    for (int32_t i = 0; i < (chooses ? 1 : n->n_args); i++)
        walk(s, n->arg[i]);
}

int32_t md_cg_fetchable(const md_fx_node *out[MD_CG_MAX_FETCHED], const md_st_program *program, int32_t stage)
{
    const md_st_stage *st = &program->stage[stage];
    search s = {program, out, 0};
    for (int32_t i = 0; i < st->n_stores; i++)
        walk(&s, st->store[i].value);
    return s.n;
}

const char *md_cg_fetch(md_cg *cg, const md_fx_node *load, const char **type, bool *is_uniform)
{
    const char *dtype = md_dtype_name(cg->formula->tensor[load->id].dtype);
    md_cg_place at;
    md_cg_locate(&at, cg, load->id, load->n_args, load->arg);
    *is_uniform = at.motion == MD_CG_FIXED;
    if (cg->status != MD_OK)
        return NULL;
    *type = *is_uniform ? md_cg_scalar_type(load->type) : md_cg_format(cg, "md_raw_%s", dtype);
    switch (at.motion) {
    case MD_CG_FIXED:
        return md_cg_format(cg, "md_load_%s_s(%s, %s)", dtype, at.pointer, at.offset);
    case MD_CG_CONSECUTIVE:
        return md_cg_format(cg, "md_fetch_%s_unit%s(%s, %s, md_n)", dtype, md_cg_unit_suffix(cg, &at), at.pointer,
                            at.offset);
    case MD_CG_STEPS:
        return md_cg_format(cg, "md_fetch_%s_strided(%s, %s, %s, md_n)", dtype, at.pointer, at.offset, at.stride);
    case MD_CG_SCATTERED:
        break;
    }
    md_cg_error(cg, md_fail(MD_INTERNAL, "a load from offsets is fetched where it is used"));
    return NULL;
}
