/* Parses expressions: recursive descent over primaries, precedence climbing over operators.
 *
 *   primary := number | name | name "(" operands ")" | tensor | binder "[" names "]" "(" operands ")"
 *            | "(" expression ")"
 *   tensor  := name ["@" name] [":" dtype] "[" [expression {"," expression}] "]" */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/catalogue.h"
#include "expr/diag.h"
#include "expr/front/parser.h"
#include "expr/ops.h"

#include <string.h>

/* ---- nodes ---- */

static md_status new_node(md_parser *p, md_syntax **out, md_syntax_kind kind, const md_token *at)
{
    if (++p->n_nodes > MD_SYNTAX_MAX_NODES)
        return md_fx_complain(p->text, at->line, at->column, "the formula has more than %d terms", MD_SYNTAX_MAX_NODES);
    md_syntax *const s = md_arena_alloc(p->arena, sizeof *s);
    if (!s)
        return md_fail_memory();
    *s = (md_syntax){.kind = kind, .name = at->text, .line = at->line, .column = at->column, .depth = 1, .nesting = 1};
    *out = s;
    return MD_OK;
}

/* A tree too deep for a recursive walk ends here. */
static md_status check_depth(const md_parser *p, const md_syntax *s)
{
    if (s->nesting > MD_SYNTAX_MAX_DEPTH)
        return md_fx_complain(p->text, s->line, s->column, "the expression is nested more than %d deep; use let",
                              MD_SYNTAX_MAX_DEPTH);
    if (s->depth > MD_SYNTAX_MAX_CHAIN)
        return md_fx_complain(p->text, s->line, s->column, "more than %d operations in a row; use let",
                              MD_SYNTAX_MAX_CHAIN);
    return MD_OK;
}

/* Gives a node its operands. */
static md_status set_args(md_parser *p, md_syntax *s, int32_t n, md_syntax *const *arg)
{
    s->n_args = n;
    s->arg = md_arena_alloc(p->arena, (size_t)MD_MAX(n, 1) * sizeof(md_syntax *));
    if (!s->arg)
        return md_fail_memory();
    for (int32_t i = 0; i < n; i++) {
        s->arg[i] = arg[i];
        s->depth = MD_MAX(s->depth, arg[i]->depth + 1);
        s->nesting = MD_MAX(s->nesting, arg[i]->nesting + 1);
    }
    return check_depth(p, s);
}

/* The same for an operator behind another one of the same row, a + b + c: it is not nested in it. */
static md_status set_sides(md_parser *p, md_syntax *s, md_syntax *const *side, bool goes_on)
{
    if (!goes_on)
        return set_args(p, s, 2, side);
    const int32_t nesting = side[0]->nesting;
    side[0]->nesting = 0;
    const md_status status = set_args(p, s, 2, side);
    side[0]->nesting = nesting;
    s->nesting = MD_MAX(s->nesting, nesting);
    return status;
}

/* expression {"," expression} close; the opening sign has been read. */
static md_status parse_operands(md_parser *p, md_syntax *s, md_token_kind close, int32_t most, const char *too_many)
{
    md_syntax *arg[MD_SYNTAX_MAX_OPERANDS];
    int32_t n = 0;
    if (!md_parse_accept(p, close)) {
        do {
            if (n == most)
                return md_fx_complain(p->text, p->at->line, p->at->column, "%s", too_many);
            MD_TRY(md_parse_expression(p, &arg[n], 0));
            n++;
        } while (md_parse_accept(p, MD_TOKEN_COMMA));
        if (!md_parse_accept(p, close))
            return md_parse_expected(p, close == MD_TOKEN_CLOSE ? "',' or ')'" : "',' or ']'");
    }
    return set_args(p, s, n, arg);
}

/* ---- primaries ---- */

/* Refuses a list index in an expression: it says which item is meant, and is no number. */
static md_status refuse_list_index(const md_parser *p, const md_token *name)
{
    if (!p->list || !md_parse_is(name, p->list))
        return MD_OK;
    return md_fx_complain(p->text, name->line, name->column,
                          "'%s' is the list index, which stands after '@' and in reductions, and is no number",
                          name->text);
}

static md_status parse_item(md_parser *p, md_syntax *s)
{
    if (!md_parse_accept(p, MD_TOKEN_AT))
        return MD_OK;
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "the list index");
    if (!md_parse_is(p->at, p->list))
        return md_fx_complain(p->text, p->at->line, p->at->column, "the list index of this formula is '%s', not '%s'",
                              p->list, p->at->text);
    s->over_list = true;
    return (++p->at, MD_OK);
}

static const char *const too_many_axes = "a tensor has at most 8 axes";

md_status md_parse_tensor(md_parser *p, md_syntax **out, bool is_bare)
{
    const md_token *const name = p->at++;
    MD_TRY(new_node(p, out, MD_SYNTAX_TENSOR, name));
    MD_TRY(refuse_list_index(p, name));
    MD_TRY(parse_item(p, *out));
    if (md_fx_is_word(name->text))
        return md_fx_complain(p->text, name->line, name->column,
                              "'%s' is a word of the language and cannot name a tensor", name->text);
    if (is_bare)
        return MD_OK;
    const bool is_typed = md_parse_accept(p, MD_TOKEN_COLON);
    (*out)->has_data_type = is_typed && md_parse_is(p->at, "data");
    if ((*out)->has_data_type)
        p->at++;
    else if (is_typed)
        MD_TRY(md_parse_dtype(p, &(*out)->dtype));
    MD_TRY(md_parse_expect(p, MD_TOKEN_LEFT));
    return parse_operands(p, *out, MD_TOKEN_RIGHT, MD_MAX_RANK, too_many_axes);
}

static md_status parse_index_name(md_parser *p, md_syntax **out)
{
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "an index name");
    MD_TRY(refuse_list_index(p, p->at));
    if (md_fx_is_word(p->at->text))
        return md_fx_complain(p->text, p->at->line, p->at->column,
                              "'%s' is a word of the language and cannot name an index", p->at->text);
    return new_node(p, out, MD_SYNTAX_NAME, p->at++);
}

/* The list index among those of a binder: the items are reduced, too. */
static md_status parse_list_index(md_parser *p, md_syntax *s)
{
    if (md_fx_op_is_scan(s->op) || s->op == MD_FX_R_MEAN || s->op == MD_FX_R_VAR || s->op == MD_FX_R_ARGMAX ||
        s->op == MD_FX_R_ARGMIN)
        return md_fx_complain(p->text, p->at->line, p->at->column,
                              "'%s' does not run over the items of a list; sum, prod, max, min, any and all do",
                              s->name);
    if (p->is_across)
        return md_fx_complain(p->text, p->at->line, p->at->column,
                              "a reduction over the items inside of another; name its result with let first");
    s->over_list = p->is_across = true;
    return (++p->at, MD_OK);
}

static md_status parse_binder(md_parser *p, md_syntax **out, md_fx_op op)
{
    md_syntax *index[MD_MAX_RANK];
    const bool was_across = p->is_across;
    MD_TRY(new_node(p, out, MD_SYNTAX_BINDER, p->at++));
    md_syntax *const s = *out;
    s->op = op;
    p->at++; /* '[' */
    do {
        if (p->list && !s->over_list && md_parse_is(p->at, p->list)) {
            MD_TRY(parse_list_index(p, s));
            continue;
        }
        if (s->n_indices == MD_MAX_RANK)
            return md_fx_complain(p->text, p->at->line, p->at->column, "at most %d indices can be bound at once",
                                  MD_MAX_RANK);
        MD_TRY(parse_index_name(p, &index[s->n_indices]));
        s->n_indices++;
    } while (md_parse_accept(p, MD_TOKEN_COMMA));
    if (!md_parse_accept(p, MD_TOKEN_RIGHT))
        return md_parse_expected(p, "',' or ']'");
    s->index = md_arena_alloc(p->arena, sizeof index);
    if (!s->index)
        return md_fail_memory();
    memcpy(s->index, index, (size_t)s->n_indices * sizeof index[0]);
    MD_TRY(md_parse_expect(p, MD_TOKEN_OPEN));
    MD_TRY(parse_operands(p, s, MD_TOKEN_CLOSE, MD_SYNTAX_MAX_OPERANDS, "too many operands"));
    p->is_across = was_across;
    return MD_OK;
}

/* size(index) or size(tensor.axis): the operand is a name, not an expression. */
static md_status parse_size(md_parser *p, md_syntax **out)
{
    MD_TRY(new_node(p, out, MD_SYNTAX_SIZE, p->at));
    p->at += 2; /* size ( */
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "an index name");
    MD_TRY(refuse_list_index(p, p->at));
    (*out)->name = p->at->text;
    (*out)->line = p->at->line;
    (*out)->column = p->at->column;
    (*out)->integer = -1;
    p->at++;
    if (md_parse_accept(p, MD_TOKEN_DOT)) {
        if (p->at->kind != MD_TOKEN_INTEGER)
            return md_parse_expected(p, "an axis number");
        (*out)->integer = (p->at++)->integer;
    }
    return md_parse_expect(p, MD_TOKEN_CLOSE);
}

/* name[...](...) can only be meant as a reduction or scan. */
static md_status complain_of_binder(const md_parser *p, const md_token *name)
{
    if (md_catalogue_find(name->text))
        return md_fx_complain(p->text, name->line, name->column,
                              "there is no reduction '%s'; the catalogue has an op of that name, whose formula can be "
                              "written here",
                              name->text);
    md_fx_nearest near = {.wanted = name->text};
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++)
        if (md_fx_op_is_binder(op))
            md_fx_nearest_offer(&near, md_fx_op_text(op));
    return md_fx_complain(p->text, name->line, name->column, "there is no reduction '%s'%s%s%s", name->text,
                          MD_FX_NEAREST_ARGS(near));
}

static md_status parse_word(md_parser *p, md_syntax **out)
{
    const md_token *const name = p->at, *const next = p->at + 1;
    const md_fx_op binder = md_fx_binder_named(name->text);
    if (binder && next->kind == MD_TOKEN_LEFT)
        return parse_binder(p, out, binder);
    if (md_parse_is(name, "size") && next->kind == MD_TOKEN_OPEN)
        return parse_size(p, out);
    if (next->kind == MD_TOKEN_LEFT || next->kind == MD_TOKEN_COLON || next->kind == MD_TOKEN_AT) {
        MD_TRY(md_parse_tensor(p, out, false));
        return p->at->kind == MD_TOKEN_OPEN ? complain_of_binder(p, name) : MD_OK;
    }
    MD_TRY(refuse_list_index(p, name));
    p->at++;
    for (int32_t i = 0; i < p->n_bare && next->kind != MD_TOKEN_OPEN; i++)
        if (strcmp(p->bare[i], name->text) == 0)
            return new_node(p, out, MD_SYNTAX_TENSOR, name);
    MD_TRY(new_node(p, out, next->kind == MD_TOKEN_OPEN ? MD_SYNTAX_CALL : MD_SYNTAX_NAME, name));
    if (!md_parse_accept(p, MD_TOKEN_OPEN))
        return MD_OK;
    return parse_operands(p, *out, MD_TOKEN_CLOSE, MD_SYNTAX_MAX_OPERANDS, "too many operands");
}

static md_status parse_primary(md_parser *p, md_syntax **out)
{
    const md_token *const t = p->at;
    if (t->kind == MD_TOKEN_NAME && !md_parse_is(t, "and") && !md_parse_is(t, "or") && !md_parse_is(t, "let") &&
        !md_parse_is(t, "scalar"))
        return parse_word(p, out);
    if (t->kind == MD_TOKEN_INTEGER || t->kind == MD_TOKEN_UNSIGNED || t->kind == MD_TOKEN_REAL) {
        MD_TRY(new_node(p, out, t->kind == MD_TOKEN_REAL ? MD_SYNTAX_REAL : MD_SYNTAX_INTEGER, p->at++));
        (*out)->dtype = t->kind == MD_TOKEN_UNSIGNED ? MD_U64 : MD_DTYPE_DEFAULT;
        (*out)->integer = t->integer;
        (*out)->real = t->real;
        return MD_OK;
    }
    if (md_parse_accept(p, MD_TOKEN_OPEN)) {
        MD_TRY(md_parse_expression(p, out, 0));
        return md_parse_expect(p, MD_TOKEN_CLOSE);
    }
    return md_parse_expected(p, "an expression");
}

/* ---- expressions ---- */

/* The operator with two operands that a token is; MD_FX_NO_OP: none. */
static md_fx_op binary_at(const md_token *t)
{
    static const md_fx_op by_sign[MD_TOKEN_N_KINDS] = {[MD_TOKEN_LT] = MD_FX_LT,
                                                       [MD_TOKEN_LE] = MD_FX_LE,
                                                       [MD_TOKEN_GT] = MD_FX_GT,
                                                       [MD_TOKEN_GE] = MD_FX_GE,
                                                       [MD_TOKEN_EQ] = MD_FX_EQ,
                                                       [MD_TOKEN_NE] = MD_FX_NE,
                                                       [MD_TOKEN_BAR] = MD_FX_BIT_OR,
                                                       [MD_TOKEN_CARET] = MD_FX_BIT_XOR,
                                                       [MD_TOKEN_AMPERSAND] = MD_FX_BIT_AND,
                                                       [MD_TOKEN_SHIFT_LEFT] = MD_FX_SHL,
                                                       [MD_TOKEN_SHIFT_RIGHT] = MD_FX_SHR,
                                                       [MD_TOKEN_PLUS] = MD_FX_ADD,
                                                       [MD_TOKEN_MINUS] = MD_FX_SUB,
                                                       [MD_TOKEN_STAR] = MD_FX_MUL,
                                                       [MD_TOKEN_SLASH] = MD_FX_DIV,
                                                       [MD_TOKEN_SLASHES] = MD_FX_FLOORDIV,
                                                       [MD_TOKEN_PERCENT] = MD_FX_MOD};
    return md_parse_is(t, "or") ? MD_FX_OR : md_parse_is(t, "and") ? MD_FX_AND : by_sign[t->kind];
}

/* "-", "~" or "not" before an operand. */
static md_status parse_prefix(md_parser *p, md_syntax **out, md_fx_op op)
{
    md_syntax *operand;
    MD_TRY(new_node(p, out, MD_SYNTAX_OP, p->at++));
    (*out)->op = op;
    MD_TRY(md_parse_expression(p, &operand, (int)md_fx_op_info(op)->level));
    return set_args(p, *out, 1, &operand);
}

static md_status parse_operand(md_parser *p, md_syntax **out, int least)
{
    if (p->at->kind == MD_TOKEN_MINUS)
        return parse_prefix(p, out, MD_FX_NEG);
    if (p->at->kind == MD_TOKEN_TILDE)
        return parse_prefix(p, out, MD_FX_BIT_NOT);
    if (md_parse_is(p->at, "not")) {
        if (least > MD_FX_LEVEL_NOT)
            return md_fx_complain(p->text, p->at->line, p->at->column, "'not' needs parentheses here");
        return parse_prefix(p, out, MD_FX_NOT);
    }
    return parse_primary(p, out);
}

/* `least`: the loosest operator that may be taken. Comparisons do not chain; all else groups to the left. */
static md_status parse_binaries(md_parser *p, md_syntax **out, int least)
{
    MD_TRY(parse_operand(p, out, least));
    bool was_compared = false, goes_on = false;
    for (md_fx_op op; (op = binary_at(p->at)) && (int)md_fx_op_info(op)->level >= least;) {
        const bool compares = md_fx_op_info(op)->level == MD_FX_LEVEL_COMPARE;
        /* `not` binds more loosely than a comparison, which it has taken already. */
        md_syntax *side[2] = {*out, NULL};
        if (compares && was_compared)
            return md_fx_complain(p->text, p->at->line, p->at->column,
                                  "comparisons do not chain; write 'a < b and b < c'");
        was_compared = compares;
        MD_TRY(new_node(p, out, MD_SYNTAX_OP, p->at++));
        (*out)->op = op;
        MD_TRY(md_parse_expression(p, &side[1], (int)md_fx_op_info(op)->level + 1));
        MD_TRY(set_sides(p, *out, side, goes_on));
        goes_on = true;
    }
    return MD_OK;
}

md_status md_parse_expression(md_parser *p, md_syntax **out, int least)
{
    if (p->depth == MD_SYNTAX_MAX_DEPTH)
        return md_fx_complain(p->text, p->at->line, p->at->column,
                              "the expression is nested more than %d deep; use let", MD_SYNTAX_MAX_DEPTH);
    p->depth++;
    MD_TRY(parse_binaries(p, out, least));
    --p->depth;
    return MD_OK;
}
