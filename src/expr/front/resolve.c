/* Expressions with their names resolved: makes their typed nodes. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/front/infer.h"
#include "expr/node.h"
#include "expr/front/resolve.h"
#include "expr/ops.h"

#include <math.h>
#include <string.h>

/* ---- leaves ---- */

static md_status place(md_front *fr, md_fx_node **out, md_fx_kind kind, md_dtype type, int32_t id, const md_syntax *at)
{
    *out = md_fx_node_new(fr->arena, kind, type);
    if (!*out)
        return md_fail_memory();
    (*out)->id = id;
    (*out)->line = at->line;
    (*out)->column = at->column;
    return MD_OK;
}

static md_status build_constant(const md_resolver *resolver, md_fx_node **out, const md_syntax *at, bool *is_known)
{
    static const struct {
        const char *name;
        double value;
    } reals[] = {{"inf", INFINITY}, {"nan", NAN}, {"pi", 3.14159265358979323846}};
    for (int32_t i = 0; i < MD_COUNT(reals); i++)
        if (strcmp(reals[i].name, at->name) == 0)
            return md_infer_real(resolver->front, out, reals[i].value, at);
    *is_known = strcmp(at->name, "true") == 0 || strcmp(at->name, "false") == 0;
    if (!*is_known)
        return MD_OK;
    MD_TRY(place(resolver->front, out, MD_FX_CONST, MD_BOOL, 0, at));
    (*out)->integer = at->name[0] == 't';
    return MD_OK;
}

static md_status build_name(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    md_front *const fr = resolver->front;
    bool is_known = true;
    MD_TRY(build_constant(resolver, out, at, &is_known));
    if (is_known)
        return MD_OK;
    const md_scope *const s = md_scope_find(resolver->scope, at->name);
    if (s)
        return place(fr, out, MD_FX_INDEX, MD_I64, s->index, at);
    const int32_t scalar = md_front_scalar(fr, at->name);
    if (scalar < 0)
        return md_resolve_unknown_name(resolver, at);
    return place(fr, out, MD_FX_SCALAR, fr->formula->scalar[scalar].type, scalar, at);
}

static md_status build_size(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    MD_TRY(place(resolver->front, out, MD_FX_SIZE, MD_I64, -1, at));
    md_size_use *const use = md_arena_alloc(resolver->front->scratch, sizeof *use);
    if (!use)
        return md_fail_memory();
    const md_scope *const s = at->integer < 0 ? md_scope_find(resolver->scope, at->name) : NULL;
    *use = (md_size_use){.next = resolver->front->size_uses, .node = *out, .at = at, .index = s ? s->index : -1};
    resolver->front->size_uses = use;
    return MD_OK;
}

/* ---- tensors ---- */

md_status md_resolve_note_access(md_front *fr, int32_t tensor, int32_t axis, const md_fx_node *subscript, bool is_store)
{
    md_access *const a = md_arena_alloc(fr->scratch, sizeof *a);
    if (!a)
        return md_fail_memory();
    *a = (md_access){.tensor = tensor,
                     .axis = axis,
                     .index = subscript->kind == MD_FX_INDEX ? subscript->id : -1,
                     .is_store = is_store,
                     .subscript = subscript};
    *fr->last_access = a;
    fr->last_access = &a->next;
    return MD_OK;
}

static bool is_no_scalar(void *user, const md_fx_node *n)
{
    (void)user;
    return n->kind != MD_FX_SCALAR || n->type == MD_I64;
}

/* What may have been meant by a subscript that is no integer. */
static const char *integer_hint(const md_fx_node *n, const md_syntax *at)
{
    if (at->op == MD_FX_DIV)
        return "; integers divide with '//'";
    return md_fx_visit(n, is_no_scalar, NULL) ? "" : "; declare the scalar as i64";
}

/* One subscript, as an i64 node. */
md_status md_resolve_subscript(const md_resolver *resolver, md_fx_node **out, const md_syntax *at, const char *tensor)
{
    md_resolver inner = *resolver;
    inner.subscript_of = tensor;
    MD_TRY(md_resolve_node(&inner, out, at));
    if ((*out)->type != MD_I64)
        return MD_FRONT_ERROR(resolver->front, at, "a subscript of '%s' must be an integer, not %s%s", tensor,
                              md_dtype_name((*out)->type), integer_hint(*out, at));
    return md_infer_convert(resolver->front, out, *out, MD_I64);
}

/* A tensor may be read only in statements after the one that writes it. */
static md_status check_read(const md_resolver *resolver, int32_t tensor, const md_syntax *at)
{
    const md_fx_formula *const f = resolver->front->formula;
    const md_syntax *const target =
        f->tensor[tensor].stmt == resolver->stmt ? md_front_target(resolver->front, resolver->stmt) : NULL;
    if (target)
        return MD_FRONT_ERROR(
            resolver->front, at,
            "'%s' is read in the statement that writes it; to update in place, give the new value another "
            "name and pass the same memory for both",
            at->name);
    return MD_OK; /* reads before the statement were found with the symbols */
}

static md_status build_tensor(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    md_front *const fr = resolver->front;
    const int32_t id = md_front_tensor(fr, at->name);
    MD_TRY(check_read(resolver, id, at));
    MD_TRY(place(fr, out, MD_FX_LOAD, md_dtype_compute(fr->formula->tensor[id].dtype), id, at));
    const md_fx_node **const arg = md_arena_alloc(fr->arena, MD_MAX_RANK * sizeof *arg);
    if (!arg)
        return md_fail_memory();
    for (int32_t i = 0; i < at->n_args; i++) {
        md_fx_node *subscript;
        MD_TRY(md_resolve_subscript(resolver, &subscript, at->arg[i], fr->formula->tensor[id].name));
        MD_TRY(md_resolve_note_access(fr, id, i, subscript, false));
        arg[i] = subscript;
    }
    (*out)->n_args = at->n_args;
    (*out)->arg = arg;
    (*out)->is_unsigned = fr->formula->tensor[id].dtype == MD_U64 || fr->tensor[id].is_unsigned;
    return MD_OK;
}

/* ---- calls ---- */

static md_status check_count(const md_resolver *resolver, const md_syntax *at, int32_t wanted)
{
    if (at->n_args == wanted)
        return MD_OK;
    return MD_FRONT_ERROR(resolver->front, at, "'%s' takes %d operand%s, not %d", at->name, wanted,
                          wanted == 1 ? "" : "s", at->n_args);
}

static md_status build_op(const md_resolver *resolver, md_fx_node **out, md_fx_op op, const md_syntax *at)
{
    md_fx_node *arg[3];
    for (int32_t i = 0; i < at->n_args; i++)
        MD_TRY(md_resolve_node(resolver, &arg[i], at->arg[i]));
    if (op == MD_FX_WHERE)
        md_front_note_concatenation(resolver->front, arg);
    return md_infer_op(resolver->front, out, op, at->n_args, arg, at);
}

/* rand(seed, i, ...): the seed becomes the random bits of the next two indices, again and again, whose highest 24 are a
 * number in [0, 1). */
static md_status build_rand(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    md_front *const fr = resolver->front;
    md_fx_node *arg[3], *count, *mask, *unit;
    if (at->n_args < 2)
        return MD_FRONT_ERROR(fr, at, "'rand' takes a seed and indices: rand(seed, i, j)");
    for (int32_t i = 0; i < at->n_args; i++) {
        md_fx_node **const to = i == 0 ? &arg[0] : &arg[2 - i % 2];
        MD_TRY(md_resolve_node(resolver, to, at->arg[i]));
        if (md_dtype_is_real((*to)->type))
            return MD_FRONT_ERROR(fr, at->arg[i], "'rand' takes integers, a seed and indices, not %s%s",
                                  md_dtype_name((*to)->type), integer_hint(*to, at->arg[i]));
        if (i % 2 == 1 && i == at->n_args - 1)
            MD_TRY(md_infer_integer(fr, &arg[2], 0, at));
        if (i > 0 && (i % 2 == 0 || i == at->n_args - 1))
            MD_TRY(md_infer_op(fr, &arg[0], MD_FX_PHILOX, 3, arg, at));
    }
    MD_TRY(md_infer_integer(fr, &count, 40, at));
    MD_TRY(md_infer_integer(fr, &mask, 0xffffff, at));
    MD_TRY(md_infer_real(fr, &unit, 0x1p-24, at));
    MD_TRY(md_infer_op(fr, out, MD_FX_SHR, 2, (md_fx_node *[]){arg[0], count}, at));
    MD_TRY(md_infer_op(fr, out, MD_FX_BIT_AND, 2, (md_fx_node *[]){*out, mask}, at));
    MD_TRY(md_infer_cast(fr, out, MD_F32, *out, at));
    return md_infer_op(fr, out, MD_FX_MUL, 2, (md_fx_node *[]){*out, unit}, at);
}

static md_status build_call(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    const md_dtype to = md_dtype_parse(at->name);
    /* remainder and rand are no words of the language: they may name tensors */
    const bool is_modulo = strcmp(at->name, "remainder") == 0;
    const md_fx_op op = is_modulo ? MD_FX_MOD : md_fx_function_named(at->name);
    if (to != MD_DTYPE_DEFAULT) {
        md_fx_node *arg;
        MD_TRY(check_count(resolver, at, 1));
        MD_TRY(md_resolve_node(resolver, &arg, at->arg[0]));
        return md_infer_cast(resolver->front, out, to, arg, at);
    }
    if (op == MD_FX_NO_OP && strcmp(at->name, "rand") == 0)
        return build_rand(resolver, out, at);
    if (op == MD_FX_NO_OP)
        return md_resolve_unknown_function(resolver, at);
    MD_TRY(check_count(resolver, at, md_fx_op_info(op)->arity));
    return build_op(resolver, out, op, at);
}

/* ---- reductions and scans ---- */

/* Options after the operands, from number `first` on: bare names. */
static md_status read_options(const md_resolver *resolver, md_fx_node *node, const md_syntax *at, int32_t first)
{
    const bool is_scan = node->kind == MD_FX_SCAN;
    const struct {
        const char *name;
        bool applies;
        bool *flag;
    } options[] = {{"unbiased", node->op == MD_FX_R_VAR, &node->unbiased},
                   {"exclusive", is_scan, &node->exclusive},
                   {"reverse", is_scan, &node->reverse}};
    for (int32_t i = first; i < at->n_args; i++) {
        const md_syntax *const a = at->arg[i];
        bool is_known = false;
        for (int32_t k = 0; k < MD_COUNT(options) && a->kind == MD_SYNTAX_NAME; k++) {
            if (!options[k].applies || strcmp(options[k].name, a->name) != 0)
                continue;
            *options[k].flag = is_known = true;
        }
        if (!is_known)
            return MD_FRONT_ERROR(resolver->front, a, "'%s' takes %s%s", at->name,
                                  md_fx_is_recurrence(node->op) ? "two operands and a condition" : "one operand",
                                  is_scan                   ? ", then the options 'exclusive' and 'reverse'"
                                  : node->op == MD_FX_R_VAR ? ", then the option 'unbiased'"
                                                            : "");
    }
    return MD_OK;
}

static md_status finish_binder(const md_resolver *resolver, md_fx_node **out, const md_syntax *at, const int32_t *bound)
{
    md_fx_node *arg[3];
    int32_t n;
    if (at->n_args == 0)
        return MD_FRONT_ERROR(resolver->front, at, "'%s' has no operand", at->name);
    MD_TRY(md_recurrence_operands(resolver->front, at, &n));
    for (int32_t i = 0; i < n; i++)
        MD_TRY(md_resolve_node(resolver, &arg[i], at->arg[i]));
    MD_TRY(md_fx_is_recurrence(at->op) ? md_infer_recurrence(resolver->front, out, n, arg, at)
                                       : md_infer_binder(resolver->front, out, at->op, arg[0], at));
    (*out)->n_bound = at->n_indices;
    memcpy((*out)->bound, bound, (size_t)at->n_indices * sizeof *bound);
    MD_TRY(read_options(resolver, *out, at, n));
    return md_infer_finish_binder(resolver->front, out);
}

static md_status build_reduction(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    md_resolver inner = *resolver;
    md_scope frame[MD_MAX_RANK];
    int32_t bound[MD_MAX_RANK];
    for (int32_t i = 0; i < at->n_indices; i++) {
        const md_syntax *const name = at->index[i];
        const md_scope *const seen = md_scope_find(inner.scope, name->name);
        if (seen && seen->is_bound)
            return MD_FRONT_ERROR(resolver->front, name, "index '%s' is bound already; give this one another name",
                                  name->name);
        if (md_front_scalar(resolver->front, name->name) >= 0)
            return MD_FRONT_ERROR(resolver->front, name, "'%s' is a scalar and cannot be an index", name->name);
        MD_TRY(md_resolve_new_index(resolver->front, &bound[i], name, true));
        resolver->front->outer[bound[i]] = seen ? seen->index : -1;
        frame[i] = (md_scope){.up = inner.scope, .name = name->name, .index = bound[i], .is_bound = true};
        inner.scope = &frame[i];
    }
    return finish_binder(&inner, out, at, bound);
}

/* A scan runs along an index of the left side, so its body sees that very index. */
static md_status build_scan(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    if (at->n_indices != 1)
        return MD_FRONT_ERROR(resolver->front, at->index[1], "'%s' runs along one index", at->name);
    const md_syntax *const name = at->index[0];
    const md_scope *const seen = md_scope_find(resolver->scope, name->name);
    if (!seen || seen->is_bound)
        return MD_FRONT_ERROR(resolver->front, name, "'%s' runs along an index of the left side; '%s' is %s", at->name,
                              name->name, seen ? "bound by a reduction" : "not one");
    if (seen->is_scanned)
        return MD_FRONT_ERROR(resolver->front, name, "a scan along '%s' stands around this one already; use let",
                              name->name);
    const md_scope frame = {.up = resolver->scope, .name = seen->name, .index = seen->index, .is_scanned = true};
    md_resolver inner = *resolver;
    inner.scope = &frame;
    return finish_binder(&inner, out, at, &seen->index);
}

static md_status build_binder(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    if (resolver->subscript_of)
        return MD_FRONT_ERROR(resolver->front, at, "'%s' in a subscript of '%s'; name its result with let first",
                              at->name, resolver->subscript_of);
    return md_fx_op_is_scan(at->op) ? build_scan(resolver, out, at) : build_reduction(resolver, out, at);
}

/* ---- all kinds ---- */

md_status md_resolve_node(const md_resolver *resolver, md_fx_node **out, const md_syntax *at)
{
    switch (at->kind) {
    case MD_SYNTAX_INTEGER:
        MD_TRY(md_infer_integer(resolver->front, out, at->integer, at));
        (*out)->is_unsigned = at->dtype == MD_U64;
        (*out)->weak = !(*out)->is_unsigned;
        return MD_OK;
    case MD_SYNTAX_REAL:
        return md_infer_real(resolver->front, out, at->real, at);
    case MD_SYNTAX_NAME:
        return build_name(resolver, out, at);
    case MD_SYNTAX_TENSOR:
        return build_tensor(resolver, out, at);
    case MD_SYNTAX_CALL:
        return build_call(resolver, out, at);
    case MD_SYNTAX_SIZE:
        return build_size(resolver, out, at);
    case MD_SYNTAX_BINDER:
        return build_binder(resolver, out, at);
    case MD_SYNTAX_OP:
        return build_op(resolver, out, at->op, at);
    }
    return md_fail(MD_INTERNAL, "syntax kind %d", (int)at->kind);
}
