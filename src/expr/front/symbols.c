/* The first look at a parsed formula: which names are tensors and scalars, and what the text declares about them. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"

#include <string.h>

/* Arguments in order of appearance; lets are taken out at the end. */
typedef struct symbols {
    md_front *front;
    int32_t n_seen;
    md_fx_arg seen[MD_FX_MAX_TENSORS + MD_FX_MAX_SCALARS];
} symbols;

int32_t md_front_tensor(const md_front *front, const char *name)
{
    for (int32_t i = 0; i < front->formula->n_tensors; i++)
        if (strcmp(front->formula->tensor[i].name, name) == 0)
            return i;
    return -1;
}

int32_t md_front_scalar(const md_front *front, const char *name)
{
    for (int32_t i = 0; i < front->formula->n_scalars; i++)
        if (strcmp(front->formula->scalar[i].name, name) == 0)
            return i;
    return -1;
}

const md_syntax *md_front_target(const md_front *fr, int32_t stmt)
{
    const md_syntax_item *item = fr->tree.item;
    for (; item->kind != MD_SYNTAX_ASSIGN || stmt > 0; item++)
        stmt -= item->kind == MD_SYNTAX_ASSIGN;
    return item->target;
}

bool md_syntax_is_same_element(const md_syntax *a, const md_syntax *b)
{
    bool is = a->n_args == b->n_args;
    for (int32_t i = 0; is && i < a->n_args; i++)
        is = a->arg[i]->kind == MD_SYNTAX_NAME && b->arg[i]->kind == MD_SYNTAX_NAME &&
             strcmp(a->arg[i]->name, b->arg[i]->name) == 0;
    return is;
}

static md_status add_tensor(symbols *s, const md_syntax *at)
{
    md_front *const fr = s->front;
    md_fx_formula *const f = fr->formula;
    if (md_front_scalar(fr, at->name) >= 0)
        return MD_FRONT_ERROR(fr, at, "'%s' is a scalar and has no indices", at->name);
    if (f->n_tensors == MD_FX_MAX_TENSORS)
        return MD_FRONT_ERROR(fr, at, "more than %d tensors", MD_FX_MAX_TENSORS);
    const int32_t id = f->n_tensors;
    md_fx_tensor *const t = &f->tensor[id];
    *t =
        (md_fx_tensor){.name = md_arena_text(fr->arena, at->name), .role = MD_FX_INPUT, .rank = at->n_args, .stmt = -1};
    if (!t->name)
        return md_fail_memory();
    fr->tensor[id] = (md_tensor_notes){.line = at->line, .column = at->column};
    s->seen[s->n_seen++] = (md_fx_arg){.id = id};
    f->n_tensors++;
    return MD_OK;
}

/* One appearance of a tensor: its rank and declared dtype must agree with the others. */
static md_status note_tensor(symbols *s, const md_syntax *at, int32_t *id)
{
    md_front *const fr = s->front;
    *id = md_front_tensor(fr, at->name);
    if (*id < 0) {
        MD_TRY(add_tensor(s, at));
        *id = fr->formula->n_tensors - 1;
    }
    md_fx_tensor *const t = &fr->formula->tensor[*id];
    if (t->rank != at->n_args)
        return MD_FRONT_ERROR(fr, at, "'%s' has %d %s here, but %d at %d:%d", at->name, at->n_args,
                              at->n_args == 1 ? "axis" : "axes", t->rank, fr->tensor[*id].line, fr->tensor[*id].column);
    const md_dtype declared = at->has_data_type ? fr->options.dtype : at->dtype;
    if (declared == MD_DTYPE_DEFAULT)
        return MD_OK;
    if (t->is_declared && t->dtype != declared)
        return MD_FRONT_ERROR(fr, at, "'%s' is declared %s here, but %s before", at->name, md_dtype_name(declared),
                              md_dtype_name(t->dtype));
    t->dtype = declared;
    t->is_declared = true;
    return MD_OK;
}

/* All tensors of an expression, in the order of the text. */
static md_status note_expression(symbols *s, const md_syntax *at, bool in_subscript)
{
    bool below = in_subscript;
    if (at->kind == MD_SYNTAX_TENSOR) {
        int32_t id;
        MD_TRY(note_tensor(s, at, &id));
        s->front->tensor[id].is_only_declared = false;
        s->front->tensor[id].is_subscript |= in_subscript;
        below = true;
    }
    if (at->kind == MD_SYNTAX_CALL && md_dtype_parse(at->name) != MD_DTYPE_DEFAULT)
        below = false; /* the operand of a conversion to an integer may be a real */
    for (int32_t i = 0; i < at->n_args; i++)
        MD_TRY(note_expression(s, at->arg[i], below));
    return MD_OK;
}

static bool reads(const md_syntax *at, const char *name)
{
    bool does = at->kind == MD_SYNTAX_TENSOR && strcmp(at->name, name) == 0;
    for (int32_t i = 0; i < at->n_args && !does; i++)
        does = reads(at->arg[i], name);
    return does;
}

/* True if nothing that was assigned before is left: hardly what is meant. */
static bool overwrites_all(const md_syntax_item *item)
{
    bool is_plain = item->assign == MD_FX_SET && !reads(item->value, item->target->name);
    for (int32_t i = 0; i < item->target->n_args && is_plain; i++)
        is_plain = item->target->arg[i]->kind == MD_SYNTAX_NAME;
    return is_plain;
}

static md_status note_target(symbols *s, const md_syntax_item *item)
{
    md_front *const fr = s->front;
    const md_syntax *const at = item->target;
    int32_t id;
    const int32_t known = md_front_tensor(fr, at->name);
    const bool is_new = known < 0 || fr->tensor[known].is_only_declared;
    MD_TRY(note_tensor(s, at, &id));
    fr->tensor[id].is_only_declared = false;
    md_fx_tensor *const t = &fr->formula->tensor[id];
    if (t->stmt >= 0 && (t->role == MD_FX_TEMP || item->is_let || overwrites_all(item)))
        return MD_FRONT_ERROR(fr, at, "'%s' is assigned twice; the first time at %d:%d", at->name,
                              fr->formula->stmt[t->stmt].line, fr->formula->stmt[t->stmt].column);
    if (t->stmt >= 0) {
        t->is_rewritten = t->is_updated = true;
        return MD_OK;
    }
    if (!is_new)
        return md_fx_complain(
            fr->text, fr->tensor[id].line, fr->tensor[id].column,
            "'%s' is read before it is written at %d:%d; to update in place, give the new value another "
            "name and pass the same memory for both",
            at->name, at->line, at->column);
    t->role = item->is_let ? MD_FX_TEMP : MD_FX_OUTPUT;
    fr->tensor[id].is_let = item->is_let;
    t->stmt = fr->formula->n_stmts;
    return MD_OK;
}

static md_status note_assignment(symbols *s, const md_syntax_item *item)
{
    md_front *const fr = s->front;
    if (fr->formula->n_stmts == MD_FX_MAX_STMTS)
        return MD_FRONT_ERROR(fr, item, "more than %d assignments", MD_FX_MAX_STMTS);
    MD_TRY(note_target(s, item));
    for (int32_t i = 0; i < item->target->n_args; i++)
        MD_TRY(note_expression(s, item->target->arg[i], true));
    MD_TRY(note_expression(s, item->value, false));
    fr->formula->stmt[fr->formula->n_stmts++] = (md_fx_stmt){.tensor = md_front_tensor(fr, item->target->name),
                                                             .assign = item->assign,
                                                             .line = item->target->line,
                                                             .column = item->target->column};
    return MD_OK;
}

static md_status note_scalars(symbols *s, const md_syntax_item *item)
{
    md_front *const fr = s->front;
    md_fx_formula *const f = fr->formula;
    for (int32_t i = 0; i < item->n; i++) {
        const md_syntax_scalar *const at = &item->scalar[i];
        if (md_front_scalar(fr, at->name) >= 0)
            return MD_FRONT_ERROR(fr, at, "scalar '%s' is declared twice", at->name);
        if (md_front_tensor(fr, at->name) >= 0)
            return MD_FRONT_ERROR(fr, at, "'%s' is a tensor already", at->name);
        if (f->n_scalars == MD_FX_MAX_SCALARS)
            return MD_FRONT_ERROR(fr, at, "more than %d scalars", MD_FX_MAX_SCALARS);
        const md_dtype own = at->dtype != MD_DTYPE_DEFAULT ? at->dtype : fr->options.dtype == MD_F64 ? MD_F64 : MD_F32;
        s->seen[s->n_seen++] = (md_fx_arg){.is_scalar = true, .id = f->n_scalars};
        f->scalar[f->n_scalars] = (md_fx_scalar){.name = md_arena_text(fr->arena, at->name), .type = own};
        if (!f->scalar[f->n_scalars++].name)
            return md_fail_memory();
    }
    return MD_OK;
}

/* Gives tensors that are declared their places among the arguments. */
static md_status note_tensors(symbols *s, const md_syntax_item *item)
{
    for (int32_t i = 0; i < item->n; i++) {
        int32_t id;
        const bool is_new = md_front_tensor(s->front, item->tensor[i]->name) < 0;
        MD_TRY(note_tensor(s, item->tensor[i], &id));
        s->front->tensor[id].is_only_declared |= is_new;
    }
    return MD_OK;
}

static md_status check_used(const md_front *fr)
{
    for (int32_t i = 0; i < fr->formula->n_tensors; i++)
        if (fr->tensor[i].is_only_declared)
            return MD_FRONT_ERROR(fr, &fr->tensor[i], "'%s' is declared, but no statement reads or writes it",
                                  fr->formula->tensor[i].name);
    return MD_OK;
}

/* Inputs have their types now; outputs and temporaries get theirs from their values. */
static md_status settle_inputs(symbols *s)
{
    md_front *const fr = s->front;
    md_fx_formula *const f = fr->formula;
    for (int32_t i = 0; i < f->n_tensors; i++) {
        md_fx_tensor *const t = &f->tensor[i];
        if (t->role != MD_FX_INPUT || t->is_declared)
            continue;
        t->dtype = fr->tensor[i].is_subscript ? MD_I64 : fr->options.dtype;
        t->is_declared = true;
    }
    for (int32_t i = 0; i < s->n_seen; i++) {
        if (!s->seen[i].is_scalar && f->tensor[s->seen[i].id].role == MD_FX_TEMP)
            continue;
        if (f->n_args == MD_FX_MAX_ARGS)
            return md_fail(MD_INVALID_ARGUMENT, "the formula has more than %d arguments", MD_FX_MAX_ARGS);
        f->args[f->n_args++] = s->seen[i];
    }
    return MD_OK;
}

md_status md_front_symbols(md_front *front)
{
    symbols s = {.front = front};
    for (int32_t i = 0; i < front->tree.n_items; i++) {
        const md_syntax_item *const item = &front->tree.item[i];
        if (item->kind == MD_SYNTAX_ASSIGN)
            MD_TRY(note_assignment(&s, item));
        else if (item->kind == MD_SYNTAX_SCALARS)
            MD_TRY(note_scalars(&s, item));
        else if (item->kind == MD_SYNTAX_TENSORS)
            MD_TRY(note_tensors(&s, item));
    }
    MD_TRY(check_used(front));
    bool has_output = false;
    for (int32_t i = 0; i < front->formula->n_tensors; i++)
        has_output |= front->formula->tensor[i].role == MD_FX_OUTPUT;
    if (!has_output)
        return md_fail(MD_INVALID_ARGUMENT, front->formula->n_stmts
                                                ? "the formula has no output: every statement is a let"
                                                : "the formula has no statement");
    return settle_inputs(&s);
}
