/* Indices by scope, and what is said of names that mean nothing where they stand. */
#include "base/status.h"
#include "expr/catalogue.h"
#include "expr/front/resolve.h"
#include "expr/ops.h"

#include <string.h>

const md_scope *md_scope_find(const md_scope *s, const char *name)
{
    for (; s; s = s->up)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

md_status md_resolve_new_index(md_front *fr, int32_t *out, const md_syntax *at, bool is_bound)
{
    md_fx_formula *const f = fr->formula;
    if (f->n_indices == MD_FX_MAX_INDICES)
        return MD_FRONT_ERROR(fr, at, "more than %d indices", MD_FX_MAX_INDICES);
    *out = f->n_indices++;
    f->index[*out] = (md_fx_index){.name = md_arena_text(fr->arena, at->name), .dim = -1, .is_bound = is_bound};
    fr->outer[*out] = -1;
    fr->index_at[*out] = at;
    return f->index[*out].name ? MD_OK : md_fail_memory();
}

static bool is_index_somewhere(const md_syntax *at, const char *name)
{
    for (int32_t i = 0; i < at->n_indices; i++)
        if (strcmp(at->index[i]->name, name) == 0)
            return true;
    for (int32_t i = 0; i < at->n_args; i++) {
        const bool is_subscript = at->kind == MD_SYNTAX_TENSOR && at->arg[i]->kind == MD_SYNTAX_NAME;
        if ((is_subscript && strcmp(at->arg[i]->name, name) == 0) || is_index_somewhere(at->arg[i], name))
            return true;
    }
    return false;
}

/* True if any statement uses the name as an index: then that is what the user means by it. */
static bool is_index_name(const md_front *fr, const char *name)
{
    for (int32_t i = 0; i < fr->tree.n_items; i++) {
        const md_syntax_item *const item = &fr->tree.item[i];
        if (item->kind == MD_SYNTAX_ASSIGN &&
            (is_index_somewhere(item->target, name) || is_index_somewhere(item->value, name)))
            return true;
    }
    return false;
}

md_status md_resolve_unknown_name(const md_resolver *resolver, const md_syntax *at)
{
    md_front *const fr = resolver->front;
    md_fx_nearest near = {.wanted = at->name};
    for (const md_scope *s = resolver->scope; s; s = s->up)
        md_fx_nearest_offer(&near, s->name);
    if (resolver->subscript_of || is_index_name(fr, at->name))
        return MD_FRONT_ERROR(fr, at, "index '%s' is not bound and not on the left side%s%s%s", at->name,
                              MD_FX_NEAREST_ARGS(near));
    if (md_fx_function_named(at->name) || md_fx_binder_named(at->name))
        return MD_FRONT_ERROR(fr, at, "'%s' needs its operands in parentheses", at->name);
    const int32_t tensor = md_front_tensor(fr, at->name);
    if (tensor >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a tensor: its indices are missing, %s[..]", at->name, at->name);
    for (int32_t i = 0; i < fr->formula->n_scalars; i++)
        md_fx_nearest_offer(&near, fr->formula->scalar[i].name);
    for (int32_t i = 0; i < fr->formula->n_tensors; i++)
        md_fx_nearest_offer(&near, fr->formula->tensor[i].name);
    return MD_FRONT_ERROR(fr, at, "unknown name '%s'; a tensor needs its indices, a parameter 'scalar %s;'%s%s%s",
                          at->name, at->name, MD_FX_NEAREST_ARGS(near));
}

md_status md_resolve_unknown_function(const md_resolver *resolver, const md_syntax *at)
{
    md_front *const fr = resolver->front;
    if (md_fx_binder_named(at->name))
        return MD_FRONT_ERROR(fr, at, "'%s' needs the index it runs over: %s[k](..)", at->name, at->name);
    if (md_front_tensor(fr, at->name) >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a tensor: indices stand in brackets, %s[..]", at->name, at->name);
    const char *const here = md_fx_word_here(at->name);
    if (here)
        return MD_FRONT_ERROR(fr, at, "unknown function '%s'; here it is written %s", at->name, here);
    md_fx_nearest near = {.wanted = at->name};
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++)
        if (md_fx_op_is_function(op) || md_fx_op_is_binder(op))
            md_fx_nearest_offer(&near, md_fx_op_text(op));
    if (md_catalogue_find(at->name))
        return MD_FRONT_ERROR(
            fr, at, "unknown function '%s'; the catalogue has an op of that name, whose formula can be written here",
            at->name);
    return MD_FRONT_ERROR(fr, at, "unknown function '%s'%s%s%s", at->name, MD_FX_NEAREST_ARGS(near));
}
