/* Names to things: indices by scope, tensors, scalars, functions. Makes the typed nodes of every statement. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/diag.h"
#include "expr/front.h"
#include "expr/infer.h"
#include "expr/node.h"
#include "expr/words.h"

#include <math.h>
#include <string.h>

/* A visible index. Frames live on the stack of the walk. */
typedef struct scope {
    const struct scope *up;
    const char *name;
    int32_t index;
    bool is_bound; /* by a reduction */
    bool is_scanned; /* a scan runs along it here */
} scope;

typedef struct context {
    md_front *front;
    const scope *scope;
    int32_t stmt;
    const char *subscript_of; /* NULL outside of subscripts */
} context;

static md_status build(const context *c, md_fx_node **out, const md_syntax *at);

/* ---- indices ---- */

static const scope *find_index(const scope *s, const char *name)
{
    for (; s; s = s->up)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

static md_status new_index(md_front *fr, int32_t *out, const md_syntax *at, bool is_bound)
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
    for (int32_t i = 0; i < at->n_indices; ++i)
        if (strcmp(at->index[i]->name, name) == 0)
            return true;
    for (int32_t i = 0; i < at->n_args; ++i) {
        const bool is_subscript = at->kind == MD_SYNTAX_TENSOR && at->arg[i]->kind == MD_SYNTAX_NAME;
        if ((is_subscript && strcmp(at->arg[i]->name, name) == 0) || is_index_somewhere(at->arg[i], name))
            return true;
    }
    return false;
}

/* Whether any statement uses the name as an index: then that is what the user means by it. */
static bool is_index_name(const md_front *fr, const char *name)
{
    for (int32_t i = 0; i < fr->tree.n_items; ++i) {
        const md_syntax_item *const item = &fr->tree.item[i];
        if (item->kind == MD_SYNTAX_ASSIGN && (is_index_somewhere(item->target, name) || is_index_somewhere(item->value, name)))
            return true;
    }
    return false;
}

static md_status unknown_name(const context *c, const md_syntax *at)
{
    md_front *const fr = c->front;
    md_fx_nearest near = {.wanted = at->name};
    for (const scope *s = c->scope; s; s = s->up)
        md_fx_nearest_offer(&near, s->name);
    if (c->subscript_of || is_index_name(fr, at->name))
        return MD_FRONT_ERROR(fr, at, "index '%s' is not bound and not on the left side%s%s%s", at->name,
                              MD_FX_NEAREST_ARGS(near));
    if (md_fx_function_named(at->name) || md_fx_binder_named(at->name))
        return MD_FRONT_ERROR(fr, at, "'%s' needs its operands in parentheses", at->name);
    const int32_t tensor = md_front_tensor(fr, at->name);
    if (tensor >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a tensor: its indices are missing, %s[..]", at->name, at->name);
    for (int32_t i = 0; i < fr->formula->n_scalars; ++i)
        md_fx_nearest_offer(&near, fr->formula->scalar[i].name);
    for (int32_t i = 0; i < fr->formula->n_tensors; ++i)
        md_fx_nearest_offer(&near, fr->formula->tensor[i].name);
    return MD_FRONT_ERROR(fr, at, "unknown name '%s'; a tensor needs its indices, a parameter 'scalar %s;'%s%s%s", at->name,
                          at->name, MD_FX_NEAREST_ARGS(near));
}

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

static md_status build_constant(const context *c, md_fx_node **out, const md_syntax *at, bool *is_known)
{
    static const struct {
        const char *name;
        double value;
    } reals[] = {{"inf", INFINITY}, {"nan", NAN}, {"pi", 3.14159265358979323846}};
    for (int32_t i = 0; i < MD_COUNT(reals); ++i)
        if (strcmp(reals[i].name, at->name) == 0)
            return md_infer_real(c->front, out, reals[i].value, at);
    *is_known = strcmp(at->name, "true") == 0 || strcmp(at->name, "false") == 0;
    if (!*is_known)
        return MD_OK;
    MD_TRY(place(c->front, out, MD_FX_CONST, MD_BOOL, 0, at));
    (*out)->integer = at->name[0] == 't';
    return MD_OK;
}

static md_status build_name(const context *c, md_fx_node **out, const md_syntax *at)
{
    md_front *const fr = c->front;
    bool is_known = true;
    MD_TRY(build_constant(c, out, at, &is_known));
    if (is_known)
        return MD_OK;
    const scope *const s = find_index(c->scope, at->name);
    if (s)
        return place(fr, out, MD_FX_INDEX, MD_I64, s->index, at);
    const int32_t scalar = md_front_scalar(fr, at->name);
    if (scalar < 0)
        return unknown_name(c, at);
    if (c->subscript_of)
        return MD_FRONT_ERROR(fr, at, "scalar '%s' in a subscript of '%s': where an element lies may not depend on scalars",
                              at->name, c->subscript_of);
    return place(fr, out, MD_FX_SCALAR, fr->formula->scalar[scalar].type, scalar, at);
}

static md_status build_size(const context *c, md_fx_node **out, const md_syntax *at)
{
    MD_TRY(place(c->front, out, MD_FX_SIZE, MD_I64, -1, at));
    md_size_use *const use = md_arena_alloc(c->front->scratch, sizeof *use);
    if (!use)
        return md_fail_memory();
    const scope *const s = at->integer < 0 ? find_index(c->scope, at->name) : NULL;
    *use = (md_size_use){.next = c->front->size_uses, .node = *out, .at = at, .index = s ? s->index : -1};
    c->front->size_uses = use;
    return MD_OK;
}

/* ---- tensors ---- */

static md_status note_access(md_front *fr, int32_t tensor, int32_t axis, const md_fx_node *subscript, bool is_store)
{
    md_access *const a = md_arena_alloc(fr->scratch, sizeof *a);
    if (!a)
        return md_fail_memory();
    *a = (md_access){.tensor = tensor,
                     .axis = axis,
                     .index = subscript->kind == MD_FX_INDEX ? subscript->id : -1,
                     .is_store = is_store};
    *fr->last_access = a;
    fr->last_access = &a->next;
    return MD_OK;
}

/* One subscript, as an i64 node. */
static md_status build_subscript(const context *c, md_fx_node **out, const md_syntax *at, const char *tensor)
{
    context inner = *c;
    inner.subscript_of = tensor;
    MD_TRY(build(&inner, out, at));
    if ((*out)->type != MD_I64)
        return MD_FRONT_ERROR(c->front, at, "a subscript of '%s' must be an integer, not %s%s", tensor,
                              md_dtype_name((*out)->type),
                              at->op == MD_FX_DIV ? "; integers divide with '//'" : "");
    return md_infer_convert(c->front, out, *out, MD_I64);
}

/* A tensor may be read only in statements behind the one that writes it. */
static md_status check_read(const context *c, int32_t tensor, const md_syntax *at)
{
    const md_fx_formula *const f = c->front->formula;
    if (f->tensor[tensor].stmt == c->stmt)
        return MD_FRONT_ERROR(c->front, at,
                              "'%s' is read in the statement that writes it; to update in place, give the new value another "
                              "name and pass the same memory for both",
                              at->name);
    return MD_OK; /* reads before the statement were found with the symbols */
}

static md_status build_tensor(const context *c, md_fx_node **out, const md_syntax *at)
{
    md_front *const fr = c->front;
    const int32_t id = md_front_tensor(fr, at->name);
    MD_TRY(check_read(c, id, at));
    MD_TRY(place(fr, out, MD_FX_LOAD, md_dtype_compute(fr->formula->tensor[id].dtype), id, at));
    const md_fx_node **const arg = md_arena_alloc(fr->arena, MD_MAX_RANK * sizeof(*arg));
    if (!arg)
        return md_fail_memory();
    for (int32_t i = 0; i < at->n_args; ++i) {
        md_fx_node *subscript;
        MD_TRY(build_subscript(c, &subscript, at->arg[i], fr->formula->tensor[id].name));
        MD_TRY(note_access(fr, id, i, subscript, false));
        arg[i] = subscript;
    }
    (*out)->n_args = at->n_args;
    (*out)->arg = arg;
    return MD_OK;
}

/* ---- calls ---- */

static md_status unknown_function(const context *c, const md_syntax *at)
{
    md_front *const fr = c->front;
    if (md_fx_binder_named(at->name))
        return MD_FRONT_ERROR(fr, at, "'%s' needs the index it runs over: %s[k](..)", at->name, at->name);
    if (md_front_tensor(fr, at->name) >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a tensor: indices stand in brackets, %s[..]", at->name, at->name);
    md_fx_nearest near = {.wanted = at->name};
    for (int op = MD_FX_WHERE; op < MD_FX_N_OPS; ++op)
        md_fx_nearest_offer(&near, md_fx_op_text((md_fx_op)op));
    return MD_FRONT_ERROR(fr, at, "unknown function '%s'%s%s%s", at->name, MD_FX_NEAREST_ARGS(near));
}

static md_status check_count(const context *c, const md_syntax *at, int32_t wanted)
{
    if (at->n_args == wanted)
        return MD_OK;
    return MD_FRONT_ERROR(c->front, at, "'%s' takes %d operand%s, not %d", at->name, wanted, wanted == 1 ? "" : "s", at->n_args);
}

static md_status build_op(const context *c, md_fx_node **out, md_fx_op op, const md_syntax *at)
{
    md_fx_node *arg[3];
    for (int32_t i = 0; i < at->n_args; ++i)
        MD_TRY(build(c, &arg[i], at->arg[i]));
    return md_infer_op(c->front, out, op, at->n_args, arg, at);
}

static md_status build_call(const context *c, md_fx_node **out, const md_syntax *at)
{
    const md_dtype to = md_dtype_parse(at->name);
    const md_fx_op op = md_fx_function_named(at->name);
    if (to > MD_BOOL)
        return MD_FRONT_ERROR(c->front, at, "dtype %s is reserved: nothing computes with it yet", at->name);
    if (to != MD_DTYPE_DEFAULT) {
        md_fx_node *arg;
        MD_TRY(check_count(c, at, 1));
        MD_TRY(build(c, &arg, at->arg[0]));
        return md_infer_cast(c->front, out, to, arg, at);
    }
    if (op == MD_FX_NO_OP)
        return unknown_function(c, at);
    MD_TRY(check_count(c, at, md_fx_op_arity(op)));
    return build_op(c, out, op, at);
}

/* ---- reductions and scans ---- */

/* Options behind the body: bare names. */
static md_status read_options(const context *c, md_fx_node *node, const md_syntax *at)
{
    const bool is_scan = node->kind == MD_FX_SCAN;
    const struct {
        const char *name;
        bool applies;
        bool *flag;
    } options[] = {{"unbiased", node->op == MD_FX_R_VAR, &node->unbiased},
                   {"exclusive", is_scan, &node->exclusive},
                   {"reverse", is_scan, &node->reverse}};
    for (int32_t i = 1; i < at->n_args; ++i) {
        const md_syntax *const a = at->arg[i];
        bool is_known = false;
        for (int32_t k = 0; k < MD_COUNT(options) && a->kind == MD_SYNTAX_NAME; ++k) {
            if (!options[k].applies || strcmp(options[k].name, a->name) != 0)
                continue;
            *options[k].flag = is_known = true;
        }
        if (!is_known)
            return MD_FRONT_ERROR(c->front, a, "'%s' takes one operand%s", at->name,
                                  is_scan                      ? ", then the options 'exclusive' and 'reverse'"
                                  : node->op == MD_FX_R_VAR ? ", then the option 'unbiased'"
                                                               : "");
    }
    return MD_OK;
}

static md_status finish_binder(const context *c, md_fx_node **out, const md_syntax *at, const int32_t *bound)
{
    md_fx_node *body;
    if (at->n_args == 0)
        return MD_FRONT_ERROR(c->front, at, "'%s' has no operand", at->name);
    MD_TRY(build(c, &body, at->arg[0]));
    MD_TRY(md_infer_binder(c->front, out, at->op, body, at));
    (*out)->n_bound = at->n_indices;
    memcpy((*out)->bound, bound, (size_t)at->n_indices * sizeof(*bound));
    return read_options(c, *out, at);
}

static md_status build_reduction(const context *c, md_fx_node **out, const md_syntax *at)
{
    context inner = *c;
    scope frame[MD_MAX_RANK];
    int32_t bound[MD_MAX_RANK];
    if ((at->op == MD_FX_R_ARGMAX || at->op == MD_FX_R_ARGMIN) && at->n_indices != 1)
        return MD_FRONT_ERROR(c->front, at->index[1], "'%s' runs over one index", at->name);
    for (int32_t i = 0; i < at->n_indices; ++i) {
        const md_syntax *const name = at->index[i];
        const scope *const seen = find_index(inner.scope, name->name);
        if (seen && seen->is_bound)
            return MD_FRONT_ERROR(c->front, name, "index '%s' is bound already; give this one another name", name->name);
        if (md_front_scalar(c->front, name->name) >= 0)
            return MD_FRONT_ERROR(c->front, name, "'%s' is a scalar and cannot be an index", name->name);
        MD_TRY(new_index(c->front, &bound[i], name, true));
        c->front->outer[bound[i]] = seen ? seen->index : -1;
        frame[i] = (scope){.up = inner.scope, .name = name->name, .index = bound[i], .is_bound = true};
        inner.scope = &frame[i];
    }
    return finish_binder(&inner, out, at, bound);
}

/* A scan runs along an index of the left side, so its body sees that very index. */
static md_status build_scan(const context *c, md_fx_node **out, const md_syntax *at)
{
    if (at->n_indices != 1)
        return MD_FRONT_ERROR(c->front, at->index[1], "'%s' runs along one index", at->name);
    const md_syntax *const name = at->index[0];
    const scope *const seen = find_index(c->scope, name->name);
    if (!seen || seen->is_bound)
        return MD_FRONT_ERROR(c->front, name, "'%s' runs along an index of the left side; '%s' is %s", at->name, name->name,
                              seen ? "bound by a reduction" : "not one");
    if (seen->is_scanned)
        return MD_FRONT_ERROR(c->front, name, "a scan along '%s' stands around this one already; use let", name->name);
    const scope frame = {.up = c->scope, .name = seen->name, .index = seen->index, .is_scanned = true};
    context inner = *c;
    inner.scope = &frame;
    return finish_binder(&inner, out, at, &seen->index);
}

static md_status build_binder(const context *c, md_fx_node **out, const md_syntax *at)
{
    if (c->subscript_of)
        return MD_FRONT_ERROR(c->front, at, "'%s' in a subscript of '%s'; name its result with let first", at->name,
                              c->subscript_of);
    return md_fx_op_is_scan(at->op) ? build_scan(c, out, at) : build_reduction(c, out, at);
}

static md_status build(const context *c, md_fx_node **out, const md_syntax *at)
{
    switch (at->kind) {
    case MD_SYNTAX_INTEGER:
        return md_infer_integer(c->front, out, at->integer, at);
    case MD_SYNTAX_REAL:
        return md_infer_real(c->front, out, at->real, at);
    case MD_SYNTAX_NAME:
        return build_name(c, out, at);
    case MD_SYNTAX_TENSOR:
        return build_tensor(c, out, at);
    case MD_SYNTAX_CALL:
        return build_call(c, out, at);
    case MD_SYNTAX_SIZE:
        return build_size(c, out, at);
    case MD_SYNTAX_BINDER:
        return build_binder(c, out, at);
    case MD_SYNTAX_OP:
        return build_op(c, out, at->op, at);
    }
    return md_fail(MD_INTERNAL, "syntax kind %d", (int)at->kind);
}

/* ---- statements ---- */

typedef struct left_side {
    md_front *front;
    md_fx_stmt *stmt;
    const md_syntax *target;
    scope frame[MD_MAX_RANK * 2];
} left_side;

static const scope *left_scope(const left_side *l)
{
    return l->stmt->n_free ? &l->frame[l->stmt->n_free - 1] : NULL;
}

static md_status add_free(left_side *l, const md_syntax *at)
{
    md_front *const fr = l->front;
    const scope *const seen = left_scope(l);
    if (find_index(seen, at->name))
        return MD_OK;
    if (md_front_scalar(fr, at->name) >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a scalar and cannot be an index", at->name);
    const int32_t n = l->stmt->n_free;
    if (n == MD_COUNT(l->frame))
        return MD_FRONT_ERROR(fr, at, "more than %d indices on the left side", MD_COUNT(l->frame));
    MD_TRY(new_index(fr, &l->stmt->free[n], at, false));
    l->frame[n] = (scope){.up = seen, .name = at->name, .index = l->stmt->free[n]};
    ++l->stmt->n_free;
    return MD_OK;
}

/* Every bare name of the left side is an index that the statement runs over. */
static md_status collect_free(left_side *l, const md_syntax *at)
{
    if (at->kind == MD_SYNTAX_NAME)
        return md_fx_is_word(at->name) ? MD_OK : add_free(l, at);
    for (int32_t i = 0; i < at->n_args; ++i)
        MD_TRY(collect_free(l, at->arg[i]));
    return MD_OK;
}

static md_status check_plain_left(left_side *l, int32_t axis)
{
    const md_syntax *const at = l->target->arg[axis];
    for (int32_t i = 0; i < axis; ++i)
        if (l->target->arg[i]->kind == MD_SYNTAX_NAME && strcmp(l->target->arg[i]->name, at->name) == 0)
            return MD_FRONT_ERROR(l->front, at, "index '%s' stands twice on the left side", at->name);
    return MD_OK;
}

static md_status build_left(left_side *l)
{
    const context c = {.front = l->front, .scope = left_scope(l), .stmt = (int32_t)(l->stmt - l->front->formula->stmt)};
    for (int32_t i = 0; i < l->target->n_args; ++i) {
        const md_syntax *const at = l->target->arg[i];
        md_fx_node *subscript;
        MD_TRY(build_subscript(&c, &subscript, at, l->target->name));
        if (subscript->kind == MD_FX_INDEX)
            MD_TRY(check_plain_left(l, i));
        else if (!md_fx_has_kind(subscript, MD_FX_LOAD))
            return MD_FRONT_ERROR(l->front, at, "a subscript on the left side is an index or reads a tensor of indices");
        else if (l->front->formula->tensor[l->stmt->tensor].role == MD_FX_TEMP)
            return MD_FRONT_ERROR(l->front, at, "a let cannot be scattered into: its other elements would have no value");
        else
            l->front->formula->tensor[l->stmt->tensor].is_updated = true;
        MD_TRY(note_access(l->front, l->stmt->tensor, i, subscript, true));
        l->stmt->subscript[i] = subscript;
    }
    return MD_OK;
}

/* The stored type of an output that the text does not declare. */
static md_dtype storage_of(const md_front *fr, const md_fx_node *value)
{
    const md_dtype fallback = fr->options.dtype;
    if (value->type == MD_F32)
        return md_dtype_is_real(fallback) ? fallback : MD_F32;
    if (value->weak)
        return fallback;
    /* A copy of integers keeps their type: i32 stays i32. */
    return value->kind == MD_FX_LOAD ? fr->formula->tensor[value->id].dtype : value->type;
}

static md_status settle_type(md_front *fr, md_fx_stmt *stmt, md_fx_node *value)
{
    md_fx_tensor *const t = &fr->formula->tensor[stmt->tensor];
    if (!t->is_declared)
        t->dtype = storage_of(fr, value);
    if (!t->is_declared && t->role == MD_FX_TEMP)
        t->dtype = value->weak ? md_dtype_compute(t->dtype) : value->type;
    t->is_declared |= t->role == MD_FX_OUTPUT;
    const md_dtype compute = md_dtype_compute(t->dtype);
    if (value->weak) /* real literals are rounded by the store, not before */
        MD_TRY(md_infer_convert(fr, &value, value, value->type == MD_F32 && compute != MD_F64 ? MD_F32 : compute));
    stmt->value = value;
    return MD_OK;
}

static md_status resolve_statement(md_front *fr, int32_t i_stmt, const md_syntax_item *item)
{
    md_fx_stmt *const stmt = &fr->formula->stmt[i_stmt];
    left_side left = {.front = fr, .stmt = stmt, .target = item->target};
    if (item->is_let && item->assign != MD_FX_SET)
        return MD_FRONT_ERROR(fr, item->target, "a let is assigned with '='");
    if (item->assign != MD_FX_SET)
        fr->formula->tensor[stmt->tensor].is_updated = true;
    for (int32_t i = 0; i < item->target->n_args; ++i)
        MD_TRY(collect_free(&left, item->target->arg[i]));
    MD_TRY(build_left(&left));
    const context c = {.front = fr, .scope = left_scope(&left), .stmt = i_stmt};
    md_fx_node *value;
    MD_TRY(build(&c, &value, item->value));
    return settle_type(fr, stmt, value);
}

md_status md_front_resolve(md_front *front)
{
    int32_t i_stmt = 0;
    for (int32_t i = 0; i < front->tree.n_items; ++i)
        if (front->tree.item[i].kind == MD_SYNTAX_ASSIGN)
            MD_TRY(resolve_statement(front, i_stmt++, &front->tree.item[i]));
    return MD_OK;
}
