/* Several results of a stage together, neighbours along an index that is not the lanes': what the steps of a reduction
 * share is read once. x<grouped> is first + g, g from 0 to MD_GROUP - 1. */
#include "codegen/expression/printer.h"

#include <inttypes.h>

void md_cg_group_open(md_cg *cg, md_strbuf *sink)
{
    md_strbuf_add(sink, "MD_FOR (g, MD_GROUP) {\n");
    if (cg->o.is_cells)
        md_strbuf_add(sink, "MD_CELL(g)\n");
    else
        md_strbuf_printf(sink, "const int64_t x%" PRId32 " = first + g;\n", cg->o.grouped);
    md_cg_open(cg, sink, cg->o.grouped);
    cg->group.is_open = false;
}

void md_cg_group_close(md_cg *cg, md_strbuf *sink)
{
    md_cg_close(cg);
    md_strbuf_add(sink, "}\n");
    cg->group.is_open = true;
}

/* Evaluates what the results of a group share, in front of the loop over them. Loads keep their subscripts, and what a
 * guard keeps from lanes stays in its arm. */
static void share(md_cg *cg, const md_fx_node *node)
{
    md_cg_value_number *v = cg->status == MD_OK ? md_cg_number(cg, node) : NULL;
    if (!v || node->n_args == 0)
        return;
    if (!md_fx_uses_index(node, cg->o.grouped) && !md_cg_is_guarded(cg, v))
        (void)md_cg_eval(cg, node);
    else if (node->kind != MD_FX_LOAD && node->kind != MD_FX_REDUCE)
        for (int32_t i = 0; i < node->n_args; i++)
            share(cg, node->arg[i]);
}

void md_cg_group_share(md_cg *cg, const md_fx_node *body)
{
    cg->group.is_open = false;
    if (!cg->o.is_cells) /* whose indices all differ */
        share(cg, body);
    cg->group.is_open = true;
}

md_cg_name md_cg_group_result(md_cg *cg, md_cg_value_number *v, const char *text)
{
    md_cg_group *group = &cg->group;
    if (text) {
        group->reduction[group->n] = v;
        group->text[group->n++] = text;
    }
    return (md_cg_name){text, cg->o.is_cells};
}

/* Reductions that stand alone. Those inside others belong to them; what a guard keeps from lanes stays in its arm. */
static void reduce_outermost(md_cg *cg, const md_fx_node *node)
{
    md_cg_value_number *v = cg->status == MD_OK ? md_cg_number(cg, node) : NULL;
    if (!v || cg->group.n == MD_CG_MAX_GROUPED)
        return;
    if (node->kind == MD_FX_REDUCE) {
        bool is_done =
            (!cg->o.is_cells && !md_cg_varies(cg, v)) || node->op == MD_FX_R_ARGMAX || node->op == MD_FX_R_ARGMIN;
        for (int32_t i = 0; i < cg->group.n; i++)
            is_done |= cg->group.reduction[i] == v;
        if (!is_done)
            (void)md_cg_reduce(cg, v);
        return;
    }
    if (node->kind == MD_FX_OP && node->op == MD_FX_WHERE) {
        reduce_outermost(cg, node->arg[0]);
        return;
    }
    for (int32_t i = 0; i < node->n_args; i++)
        reduce_outermost(cg, node->arg[i]);
}

void md_cg_begin_group(md_cg *cg, const md_fx_node *value)
{
    cg->group = (md_cg_group){.is_open = true};
    reduce_outermost(cg, value);
    md_cg_group_open(cg, cg->body);
    for (int32_t i = 0; i < cg->group.n; i++) {
        md_cg_value_number *v = cg->group.reduction[i];
        const char *type = md_cg_type_in(cg, v->node->type, cg->o.is_cells);
        md_cg_know(cg, v, md_cg_declare(cg, type, cg->o.is_cells, false, cg->group.text[i]), false);
    }
}

void md_cg_end_group(md_cg *cg)
{
    md_cg_group_close(cg, cg->body);
    cg->group = (md_cg_group){0};
}
