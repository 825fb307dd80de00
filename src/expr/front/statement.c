/* Statements: the indices of the left side, what is written where, and the stored type. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/front/infer.h"
#include "expr/node.h"
#include "expr/front/resolve.h"
#include "expr/ops.h"

#include <string.h>

typedef struct left_side {
    md_front *front;
    md_fx_stmt *stmt;
    const md_syntax *target;
    md_scope frame[MD_MAX_RANK * 2];
} left_side;

static const md_scope *left_scope(const left_side *l)
{
    return l->stmt->n_free ? &l->frame[l->stmt->n_free - 1] : NULL;
}

static md_status add_free(left_side *l, const md_syntax *at)
{
    md_front *const fr = l->front;
    const md_scope *const seen = left_scope(l);
    if (md_scope_find(seen, at->name))
        return MD_OK;
    if (md_front_scalar(fr, at->name) >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a scalar and cannot be an index", at->name);
    const int32_t n = l->stmt->n_free;
    if (n == MD_COUNT(l->frame))
        return MD_FRONT_ERROR(fr, at, "more than %d indices on the left side", MD_COUNT(l->frame));
    MD_TRY(md_resolve_new_index(fr, &l->stmt->free[n], at, false));
    l->frame[n] = (md_scope){.up = seen, .name = at->name, .index = l->stmt->free[n]};
    l->stmt->n_free++;
    return MD_OK;
}

/* Every bare name of the left side is an index that the statement runs over. */
static md_status collect_free(left_side *l, const md_syntax *at)
{
    if (at->kind == MD_SYNTAX_NAME)
        return md_fx_is_word(at->name) ? MD_OK : add_free(l, at);
    for (int32_t i = 0; i < at->n_args; i++)
        MD_TRY(collect_free(l, at->arg[i]));
    return MD_OK;
}

static md_status check_plain_left(left_side *l, int32_t axis)
{
    const md_syntax *const at = l->target->arg[axis];
    for (int32_t i = 0; i < axis; i++)
        if (l->target->arg[i]->kind == MD_SYNTAX_NAME && strcmp(l->target->arg[i]->name, at->name) == 0)
            return MD_FRONT_ERROR(l->front, at, "index '%s' stands twice on the left side", at->name);
    return MD_OK;
}

static md_status build_left(left_side *l)
{
    const md_resolver resolver = {
        .front = l->front, .scope = left_scope(l), .stmt = (int32_t)(l->stmt - l->front->formula->stmt)};
    for (int32_t i = 0; i < l->target->n_args; i++) {
        const md_syntax *const at = l->target->arg[i];
        md_fx_node *subscript;
        MD_TRY(md_resolve_subscript(&resolver, &subscript, at, l->target->name));
        if (subscript->kind == MD_FX_INDEX)
            MD_TRY(check_plain_left(l, i));
        else if (!md_fx_has_kind(subscript, MD_FX_LOAD))
            return MD_FRONT_ERROR(l->front, at,
                                  "a subscript on the left side is an index or reads a tensor of indices");
        else if (l->front->formula->tensor[l->stmt->tensor].role == MD_FX_TEMP)
            return MD_FRONT_ERROR(l->front, at,
                                  "a let cannot be scattered into: its other elements would have no value");
        else
            l->front->formula->tensor[l->stmt->tensor].is_updated = true;
        MD_TRY(md_resolve_note_access(l->front, l->stmt->tensor, i, subscript, true));
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
    const md_dtype own = value->is_unsigned ? MD_U64 : value->type;
    return value->kind == MD_FX_LOAD && !value->is_unsigned ? fr->formula->tensor[value->id].dtype : own;
}

/* False of an integer that wraps when it is stored. It must do so before max= and min= compare it, or what several
 * points leave in one element would depend on their order. */
static bool has_stored_type(const md_front *fr, const md_fx_node *value, md_dtype stored)
{
    if (value->type != MD_I64 || md_dtype_is_real(stored) || md_dtype_size(stored) == 8)
        return true;
    const md_fx_tensor *const loaded = value->kind == MD_FX_LOAD ? &fr->formula->tensor[value->id] : NULL;
    return (value->kind == MD_FX_CAST && value->to == stored) || (loaded && loaded->dtype == stored);
}

static md_status settle_type(md_front *fr, md_fx_stmt *stmt, md_fx_node *value)
{
    md_fx_tensor *const t = &fr->formula->tensor[stmt->tensor];
    if (!t->is_declared)
        t->dtype = storage_of(fr, value);
    if (!t->is_declared && t->role == MD_FX_TEMP)
        t->dtype = value->weak ? md_dtype_compute(t->dtype) : value->type;
    fr->tensor[stmt->tensor].is_unsigned = value->is_unsigned && !t->is_declared;
    t->is_declared |= t->role == MD_FX_OUTPUT;
    const md_dtype compute = md_dtype_compute(t->dtype);
    if (value->weak) /* real literals are rounded by the store, not before */
        MD_TRY(md_infer_convert(fr, &value, value, value->type == MD_F32 && compute != MD_F64 ? MD_F32 : compute));
    const md_syntax at = {.line = value->line, .column = value->column};
    if (value->is_unsigned && md_dtype_is_real(t->dtype))
        MD_TRY(md_infer_cast(fr, &value, stmt->assign == MD_FX_SET ? t->dtype : compute, value, &at));
    if ((stmt->assign == MD_FX_MAX_TO || stmt->assign == MD_FX_MIN_TO) && !has_stored_type(fr, value, t->dtype))
        MD_TRY(md_infer_cast(fr, &value, t->dtype, value, &at));
    stmt->value = value;
    return MD_OK;
}

/* Warns of Y[i] = sum[i](X[i]): the right side does not depend on an index of the left, and a reduction that binds the
 * same name stands there instead. Softmax, e[i,j] / sum[j](e[i,j]), has the index outside of the reduction, too. */
static md_status warn_of_shadows(md_front *fr, const md_fx_stmt *stmt, const char *output)
{
    md_fx_formula *const f = fr->formula;
    for (int32_t k = 0; k < stmt->n_free; k++) {
        int32_t shadow = stmt->free[k] + 1; /* the statement's bound indices come after it */
        while (shadow < f->n_indices && fr->outer[shadow] != stmt->free[k])
            shadow++;
        if (shadow == f->n_indices || f->n_warnings == MD_FX_MAX_WARNINGS ||
            md_fx_uses_index(stmt->value, stmt->free[k]))
            continue;
        const md_syntax *const at = fr->index_at[shadow];
        const char *const text = md_fx_remark(fr->arena, fr->text, at->line, at->column,
                                              "'%s' is bound here and hides the index '%s' of '%s', so '%s' gets the "
                                              "same value at every '%s'; give one of "
                                              "them another name, or leave '%s' out on the left side",
                                              at->name, at->name, output, output, at->name, at->name);
        if (!text)
            return md_fail_memory();
        f->warning[f->n_warnings++] = text;
    }
    return MD_OK;
}

typedef struct own_read {
    const md_fx_stmt *stmt;
    bool is_plain; /* the left side is plain indices */
} own_read;

static bool reads_what_it_writes(void *user, const md_fx_node *node)
{
    const own_read *const r = user;
    if (node->kind != MD_FX_LOAD || node->id != r->stmt->tensor)
        return true;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!r->is_plain || node->arg[i]->kind != MD_FX_INDEX || node->arg[i]->id != r->stmt->subscript[i]->id)
            return false;
    return true;
}

/* A later statement to a tensor may read the very element that it writes, and no other one: they are written in any
 * order. */
static md_status check_own_reads(const md_front *fr, const md_fx_stmt *stmt, const md_syntax *target)
{
    own_read r = {.stmt = stmt, .is_plain = true};
    for (int32_t i = 0; i < target->n_args; i++)
        r.is_plain &= stmt->subscript[i]->kind == MD_FX_INDEX;
    bool is_right = md_fx_visit(stmt->value, reads_what_it_writes, &r);
    for (int32_t i = 0; i < target->n_args; i++)
        is_right &= md_fx_visit(stmt->subscript[i], reads_what_it_writes, &r);
    if (!is_right)
        return MD_FRONT_ERROR(fr, target,
                              "the right side reads elements of '%s' that this statement may write at other indices; "
                              "read them in a let before it",
                              target->name);
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
    for (int32_t i = 0; i < item->target->n_args; i++)
        MD_TRY(collect_free(&left, item->target->arg[i]));
    MD_TRY(build_left(&left));
    const md_resolver resolver = {.front = fr, .scope = left_scope(&left), .stmt = i_stmt};
    const md_syntax *text;
    md_fx_node *value;
    MD_TRY(md_front_recurrence(fr, &text, i_stmt, item));
    MD_TRY(md_resolve_node(&resolver, &value, text));
    stmt->value = value;
    MD_TRY(check_own_reads(fr, stmt, item->target));
    MD_TRY(settle_type(fr, stmt, value));
    if (item->assign != MD_FX_SET && md_dtype_is_packed(fr->formula->tensor[stmt->tensor].dtype))
        return MD_FRONT_ERROR(fr, item->target, "'%s' is packed (%s): its elements are set with '=', not changed",
                              item->target->name, md_dtype_name(fr->formula->tensor[stmt->tensor].dtype));
    return warn_of_shadows(fr, stmt, item->target->name);
}

md_status md_front_resolve(md_front *front)
{
    int32_t i_stmt = 0;
    for (int32_t i = 0; i < front->tree.n_items; i++)
        if (front->tree.item[i].kind == MD_SYNTAX_ASSIGN)
            MD_TRY(resolve_statement(front, i_stmt++, &front->tree.item[i]));
    return MD_OK;
}
