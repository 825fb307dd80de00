/* Parses statements.
 *
 *   formula   := [statement] {";" [statement]}
 *   statement := "scalar" name [":" dtype] {"," ...} | "size" dim "=" range {"," ...}
 *              | "tensor" tensor {"," tensor} | ["let"] tensor assign expression | ["let"] name "=" expression
 * The last form is for formulas with lists: n means n[].
 *   assign    := "=" | "+=" | "*=" | "max=" | "min=" */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/front/parser.h"
#include "expr/ops.h"

#include <string.h>

static md_status parse_assign(md_parser *p, md_fx_assign *out)
{
    if (md_parse_accept(p, MD_TOKEN_ASSIGN)) {
        *out = MD_FX_SET;
    } else if (md_parse_accept(p, MD_TOKEN_ADD_TO)) {
        *out = MD_FX_ADD_TO;
    } else if (md_parse_accept(p, MD_TOKEN_MUL_TO)) {
        *out = MD_FX_MUL_TO;
    } else if ((md_parse_is(p->at, "max") || md_parse_is(p->at, "min")) && p->at[1].kind == MD_TOKEN_ASSIGN) {
        *out = md_parse_is(p->at, "max") ? MD_FX_MAX_TO : MD_FX_MIN_TO;
        p->at += 2;
    } else {
        return md_parse_expected(p, "'='");
    }
    return MD_OK;
}

static md_status parse_assignment(md_parser *p, md_syntax_item *item)
{
    item->is_let = md_parse_is(p->at, "let");
    p->at += item->is_let;
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, item->is_let ? "a name" : "a statement");
    const md_token_kind next = p->at[1].kind;
    const bool is_bare = p->list && next == MD_TOKEN_ASSIGN;
    if (next != MD_TOKEN_LEFT && next != MD_TOKEN_COLON && next != MD_TOKEN_AT && !is_bare) {
        p->at++;
        return md_parse_expected(p, "'[' (a scalar result is written L[])");
    }
    const char *const name = p->at->text;
    MD_TRY(md_parse_tensor(p, &item->target, is_bare));
    MD_TRY(parse_assign(p, &item->assign));
    MD_TRY(md_parse_expression(p, &item->value, 0));
    if (is_bare)
        p->bare[p->n_bare++] = name;
    if (p->at->kind != MD_TOKEN_SEMICOLON && p->at->kind != MD_TOKEN_END)
        return md_parse_expected(p, "an operator or ';'");
    return MD_OK;
}

static md_status parse_scalar(md_parser *p, md_syntax_scalar *out)
{
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "a name");
    if (md_fx_is_word(p->at->text))
        return md_fx_complain(p->text, p->at->line, p->at->column,
                              "'%s' is a word of the language and cannot name a scalar", p->at->text);
    *out = (md_syntax_scalar){.name = p->at->text, .line = p->at->line, .column = p->at->column};
    p->at++;
    if (!md_parse_accept(p, MD_TOKEN_COLON))
        return MD_OK;
    const md_token *const at = p->at;
    MD_TRY(md_parse_dtype(p, &out->dtype));
    if (out->dtype != MD_F32 && out->dtype != MD_F64 && out->dtype != MD_I64)
        return md_fx_complain(p->text, at->line, at->column, "a scalar is f32, f64 or i64, not %s", at->text);
    return MD_OK;
}

static md_status parse_dim_name(md_parser *p, const char **out)
{
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "the name of a dim");
    *out = (p->at++)->text;
    if (!md_parse_accept(p, MD_TOKEN_DOT))
        return MD_OK;
    if (p->at->kind != MD_TOKEN_INTEGER)
        return md_parse_expected(p, "an axis number");
    *out = md_arena_printf(p->arena, "%s.%s", *out, (p->at++)->text);
    return *out ? MD_OK : md_fail_memory();
}

static md_status parse_dim_size(md_parser *p, md_syntax_size *out)
{
    *out = (md_syntax_size){.line = p->at->line, .column = p->at->column};
    MD_TRY(parse_dim_name(p, &out->name));
    MD_TRY(md_parse_expect(p, MD_TOKEN_ASSIGN));
    if (p->at->kind != MD_TOKEN_INTEGER)
        return md_parse_expected(p, "a size");
    out->lo = out->hi = (p->at++)->integer;
    if (!md_parse_accept(p, MD_TOKEN_DOTDOT))
        return MD_OK;
    out->hi = p->at->kind == MD_TOKEN_INTEGER ? (p->at++)->integer : INT64_MAX;
    if (out->hi < out->lo)
        return md_fx_complain(p->text, out->line, out->column, "the range of '%s' is empty", out->name);
    return MD_OK;
}

/* The entries after `scalar` or `size`. */
static md_status parse_declarations(md_parser *p, md_syntax_item *item)
{
    const bool is_scalar = item->kind == MD_SYNTAX_SCALARS;
    p->at++;
    void *const entries =
        md_arena_alloc(p->arena, MD_SYNTAX_MAX_DECLARATIONS * (is_scalar ? sizeof *item->scalar : sizeof *item->size));
    if (!entries)
        return md_fail_memory();
    item->scalar = is_scalar ? entries : NULL;
    item->size = is_scalar ? NULL : entries;
    do {
        if (item->n == MD_SYNTAX_MAX_DECLARATIONS)
            return md_fx_complain(p->text, p->at->line, p->at->column, "more than %d declarations in one statement",
                                  MD_SYNTAX_MAX_DECLARATIONS);
        MD_TRY(is_scalar ? parse_scalar(p, &item->scalar[item->n]) : parse_dim_size(p, &item->size[item->n]));
        item->n++;
    } while (md_parse_accept(p, MD_TOKEN_COMMA));
    if (p->at->kind != MD_TOKEN_SEMICOLON && p->at->kind != MD_TOKEN_END)
        return md_parse_expected(p, "',' or ';'");
    return MD_OK;
}

/* Tensors in the order in which a call passes them; what stands between the brackets only counts their axes. */
static md_status parse_tensors(md_parser *p, md_syntax_item *item)
{
    p->at++;
    item->tensor = md_arena_alloc(p->arena, MD_SYNTAX_MAX_DECLARATIONS * sizeof *item->tensor);
    if (!item->tensor)
        return md_fail_memory();
    do {
        if (item->n == MD_SYNTAX_MAX_DECLARATIONS)
            return md_fx_complain(p->text, p->at->line, p->at->column, "more than %d declarations in one statement",
                                  MD_SYNTAX_MAX_DECLARATIONS);
        if (p->at->kind != MD_TOKEN_NAME)
            return md_parse_expected(p, "a name");
        MD_TRY(md_parse_tensor(p, &item->tensor[item->n++], false));
    } while (md_parse_accept(p, MD_TOKEN_COMMA));
    if (p->at->kind != MD_TOKEN_SEMICOLON && p->at->kind != MD_TOKEN_END)
        return md_parse_expected(p, "',' or ';'");
    return MD_OK;
}

static md_status parse_statement(md_parser *p, md_syntax_item *item)
{
    *item = (md_syntax_item){.line = p->at->line, .column = p->at->column};
    if (md_parse_is(p->at, "scalar"))
        item->kind = MD_SYNTAX_SCALARS;
    else if (md_parse_is(p->at, "size"))
        item->kind = MD_SYNTAX_SIZES;
    if (md_parse_is(p->at, "tensor") && p->at[1].kind == MD_TOKEN_NAME) {
        item->kind = MD_SYNTAX_TENSORS;
        return parse_tensors(p, item);
    }
    return item->kind == MD_SYNTAX_ASSIGN ? parse_assignment(p, item) : parse_declarations(p, item);
}

/* The list index stands after the first '@'. */
static void find_list_index(md_syntax_tree *out, const md_token *t)
{
    for (; t->kind != MD_TOKEN_END && !out->list; t++)
        if (t->kind == MD_TOKEN_AT && t[1].kind == MD_TOKEN_NAME) {
            out->list = t[1].text;
            out->list_line = t->line;
            out->list_column = t->column;
        }
}

md_status md_syntax_parse(md_syntax_tree *out, md_arena *arena, const char *text)
{
    md_parser p = {.arena = arena, .text = text};
    if (strlen(text) > MD_LEX_MAX_TEXT)
        return md_fail(MD_INVALID_ARGUMENT, "a formula of %zu bytes; the longest allowed is %d", strlen(text),
                       MD_LEX_MAX_TEXT);
    MD_TRY(md_lex(&p.at, arena, text));
    p.bare = md_arena_alloc(arena, MD_SYNTAX_MAX_STATEMENTS * sizeof *p.bare);
    if (!p.bare)
        return md_fail_memory();
    *out = (md_syntax_tree){.text = text, .item = md_arena_alloc(arena, MD_SYNTAX_MAX_STATEMENTS * sizeof *out->item)};
    if (!out->item)
        return md_fail_memory();
    find_list_index(out, p.at);
    p.list = out->list;
    for (;;) {
        while (md_parse_accept(&p, MD_TOKEN_SEMICOLON))
            ;
        if (p.at->kind == MD_TOKEN_END)
            return MD_OK;
        if (out->n_items == MD_SYNTAX_MAX_STATEMENTS)
            return md_fx_complain(text, p.at->line, p.at->column, "more than %d statements", MD_SYNTAX_MAX_STATEMENTS);
        MD_TRY(parse_statement(&p, &out->item[out->n_items]));
        out->n_items++;
    }
}
