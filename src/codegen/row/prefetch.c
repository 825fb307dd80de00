/* Asking memory for what the bodies of a row or scan program load in vectors, and no other row does. */
#include "codegen/expression/printer.h"
#include "codegen/row/row.h"

#include "base/status.h"

#include <inttypes.h>

typedef struct load_list {
    const md_cg *cg;
    int32_t n;
    const md_fx_node *load[8];
} load_list;

/* Plain vectors along the lanes that move with an outer index; in columns, with the axis. */
static bool is_own(const md_cg *cg, const md_fx_node *load)
{
    bool has_outer = cg->stage->n_outer == 0;
    for (int32_t i = 0; i < load->n_args; i++) {
        if (load->arg[i]->kind != MD_FX_INDEX)
            return false;
        has_outer |= load->arg[i]->id != cg->o.lane;
    }
    return has_outer && load->n_args > 0 && load->arg[load->n_args - 1]->id == cg->o.lane &&
           md_fx_uses_index(load, cg->stage->axis);
}

static bool note_load(void *user, const md_fx_node *node)
{
    load_list *list = user;
    bool is_new = node->kind == MD_FX_LOAD && is_own(list->cg, node) && list->n < MD_COUNT(list->load);
    for (int32_t i = 0; i < list->n; i++)
        is_new &= !md_fx_equal(list->cg->formula, list->load[i], node);
    if (is_new)
        list->load[list->n++] = node;
    return true;
}

void md_cg_print_prefetch(md_strbuf *out, md_cg *cg, int32_t n, const md_fx_node *const *body, const char *ask)
{
    load_list list = {.cg = cg};
    for (int32_t i = 0; i < n; i++)
        (void)md_fx_visit(body[i], note_load, &list);
    md_strbuf_printf(out, "MD_INLINE void md_prefetch(MD_X_DECL const md_params *p, int64_t x%" PRId32 ")\n{\n",
                     cg->stage->axis);
    md_cg_begin(cg, out);
    for (int32_t i = 0; i < list.n; i++) {
        const md_fx_node *load = list.load[i];
        md_cg_place at;
        md_cg_locate(&at, cg, load->id, load->n_args, load->arg);
        const md_dtype dtype = cg->formula->tensor[load->id].dtype;
        if (md_cg_status(cg) == MD_OK && at.motion == MD_CG_CONSECUTIVE)
            md_strbuf_printf(out, "%s((const char *)%s + (%s) * %d%s);\n", ask, at.pointer, at.offset,
                             (int)md_dtype_size(dtype), md_dtype_is_packed(dtype) ? " / 2" : "");
    }
    md_strbuf_add(out, "}\n");
}
