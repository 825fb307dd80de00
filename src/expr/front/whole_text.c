/* Texts of whole-number expressions as programs. Operators wait on a stack of their own, so that no text is nested too
 * deep. */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/front/lex.h"
#include "expr/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Levels of precedence, from the weakest. A bracket ends what is inside it. */
enum { LEVEL_BRACKET, LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM, LEVEL_TERM, LEVEL_SIGN };

static const struct {
    int32_t level;
    md_fx_op op; /* the operator's text stands for it */
} binary[] = {
    {LEVEL_OR, MD_FX_OR},      {LEVEL_AND, MD_FX_AND},    {LEVEL_COMPARE, MD_FX_LT}, {LEVEL_COMPARE, MD_FX_LE},
    {LEVEL_COMPARE, MD_FX_GT}, {LEVEL_COMPARE, MD_FX_GE}, {LEVEL_COMPARE, MD_FX_EQ}, {LEVEL_COMPARE, MD_FX_NE},
    {LEVEL_SUM, MD_FX_ADD},    {LEVEL_SUM, MD_FX_SUB},    {LEVEL_TERM, MD_FX_MUL},   {LEVEL_TERM, MD_FX_FLOORDIV},
    {LEVEL_TERM, MD_FX_MOD},
};

/* An operator that waits for its right operand, or a bracket that is open. */
typedef struct waiting {
    int32_t level;
    md_fx_op op; /* of a bracket: MIN or MAX; NO_OP: a parenthesis */
    int32_t n_args; /* of min( or max(, those before the last comma */
} waiting;

typedef struct parser {
    const char *text;
    const md_token *at;
    const md_fx_names *names;
    waiting *stack;
    int32_t n;
    md_fx_whole_maker maker;
} parser;

static md_status complain(const parser *p, const char *what)
{
    if (p->at->kind == MD_TOKEN_END)
        return md_fx_complain(p->text, p->at->line, p->at->column, "%s, but it ends here", what);
    return md_fx_complain(p->text, p->at->line, p->at->column, "%s before '%s'", what, p->at->text);
}

static bool is_text(const md_token *t, md_fx_op op)
{
    return t->kind != MD_TOKEN_END && !strcmp(t->text, md_fx_op_text(op));
}

bool md_fx_whole_is_word(const char *name)
{
    static const md_fx_op words[] = {MD_FX_MIN, MD_FX_MAX, MD_FX_AND, MD_FX_OR, MD_FX_NOT};
    for (int32_t i = 0; i < MD_COUNT(words); i++)
        if (!strcmp(name, md_fx_op_text(words[i])))
            return true;
    return false;
}

/* ---- Operators */

static void wait_for(parser *p, int32_t level, md_fx_op op)
{
    p->stack[p->n++] = (waiting){.level = level, .op = op};
}

static int32_t top_level(const parser *p)
{
    return p->n > 0 ? p->stack[p->n - 1].level : LEVEL_BRACKET;
}

/* Applies the operators that bind at least as strongly as `level` and have all operands. */
static void apply_down_to(parser *p, int32_t level)
{
    while (p->n > 0 && p->stack[p->n - 1].level >= level)
        md_fx_whole_apply(&p->maker, p->stack[--p->n].op);
}

/* An argument of min or max ends. */
static void end_argument(parser *p)
{
    waiting *call = &p->stack[p->n - 1];
    if (call->n_args++ > 0)
        md_fx_whole_apply(&p->maker, call->op);
}

/* ---- Operands */

static md_status take_name(parser *p)
{
    const md_token *t = p->at++;
    char name[2 * MD_LEX_MAX_NAME];
    snprintf(name, sizeof name, "%s", t->text);
    if (p->at->kind == MD_TOKEN_DOT && p->at[1].kind == MD_TOKEN_INTEGER) {
        snprintf(name, sizeof name, "%s.%lld", t->text, (long long)p->at[1].integer);
        p->at += 2;
    }
    md_fx_nearest nearest = {.wanted = name};
    for (int32_t i = 0; i < p->names->n; i++) {
        if (!strcmp(p->names->name[i], name)) {
            md_fx_whole_push(&p->maker, MD_FX_WHOLE_INPUT, i);
            return MD_OK;
        }
        md_fx_nearest_offer(&nearest, p->names->name[i]);
    }
    return md_fx_complain(p->text, t->line, t->column, "'%s' is %s%s%s%s", name, p->names->what,
                          MD_FX_NEAREST_ARGS(nearest));
}

/* Takes one token of what comes before an operator: *is_done if it was the operand itself. */
static md_status take_operand(parser *p, bool *is_done)
{
    const md_token *t = p->at;
    *is_done = t->kind == MD_TOKEN_INTEGER;
    if (*is_done) {
        md_fx_whole_push(&p->maker, MD_FX_WHOLE_CONSTANT, t->integer);
    } else if (t->kind == MD_TOKEN_OPEN) {
        wait_for(p, LEVEL_BRACKET, MD_FX_NO_OP);
    } else if (t->kind == MD_TOKEN_MINUS) {
        wait_for(p, LEVEL_SIGN, MD_FX_NEG);
    } else if (is_text(t, MD_FX_NOT) && top_level(p) <= LEVEL_NOT) {
        wait_for(p, LEVEL_NOT, MD_FX_NOT);
    } else if ((is_text(t, MD_FX_MIN) || is_text(t, MD_FX_MAX)) && t[1].kind == MD_TOKEN_OPEN) {
        wait_for(p, LEVEL_BRACKET, is_text(t, MD_FX_MIN) ? MD_FX_MIN : MD_FX_MAX);
        p->at++;
    } else if (t->kind == MD_TOKEN_NAME && !is_text(t, MD_FX_AND) && !is_text(t, MD_FX_OR) && !is_text(t, MD_FX_NOT)) {
        *is_done = true;
        return take_name(p);
    } else {
        return complain(p, "expected a number, a name or '('");
    }
    p->at++;
    return MD_OK;
}

/* ---- Expressions */

/* Takes a binary operator: *is_there, and then an operand must follow. */
static md_status take_binary(parser *p, bool *is_there)
{
    int32_t i = 0;
    while (i < MD_COUNT(binary) && !is_text(p->at, binary[i].op))
        i++;
    *is_there = i < MD_COUNT(binary);
    if (!*is_there)
        return MD_OK;
    const bool is_comparison = binary[i].level == LEVEL_COMPARE;
    apply_down_to(p, binary[i].level + is_comparison);
    if (is_comparison && top_level(p) == LEVEL_COMPARE)
        return complain(p, "comparisons are not chained: expected 'and'");
    wait_for(p, binary[i].level, binary[i].op);
    p->at++;
    return MD_OK;
}

/* After an operand: takes a comma or a closing bracket. *is_operand: an operand must follow. *is_end: the expression
 * ends here. */
static md_status take_mark(parser *p, bool *is_operand, bool *is_end)
{
    apply_down_to(p, LEVEL_BRACKET + 1);
    const md_token_kind kind = p->at->kind;
    *is_end = p->n == 0;
    if (*is_end)
        return kind == MD_TOKEN_END || kind == MD_TOKEN_COMMA ? MD_OK : complain(p, "expected an operator or ','");
    const bool is_call = p->stack[p->n - 1].op != MD_FX_NO_OP;
    *is_operand = kind == MD_TOKEN_COMMA;
    if (kind != MD_TOKEN_CLOSE && !(is_call && *is_operand))
        return complain(p, is_call ? "expected ',' or ')'" : "expected ')'");
    if (is_call)
        end_argument(p);
    p->n -= kind == MD_TOKEN_CLOSE;
    p->at++;
    return MD_OK;
}

static md_status parse_one(md_fx_whole **out, parser *p)
{
    const md_token *first = p->at;
    bool is_operand = true, is_end = false, is_there;
    while (!is_end) {
        if (is_operand) {
            MD_TRY(take_operand(p, &is_there));
            is_operand = !is_there;
            continue;
        }
        MD_TRY(take_binary(p, &is_operand));
        if (!is_operand)
            MD_TRY(take_mark(p, &is_operand, &is_end));
    }
    const md_token *last = p->at - 1;
    *out = md_fx_whole_finish(&p->maker, first->start, (size_t)(last->start - first->start) + strlen(last->text));
    return *out ? MD_OK : md_fail_memory();
}

static md_status parse_list(parser *p, md_fx_whole **out, int32_t most, int32_t *n)
{
    for (;; p->at++) {
        if (*n == most)
            return complain(p, most == 1 ? "expected one expression, and no more" : "too many expressions");
        MD_TRY(parse_one(&out[*n], p));
        ++*n;
        if (p->at->kind == MD_TOKEN_END)
            return MD_OK;
    }
}

md_status md_fx_whole_parse(md_fx_whole **out, int32_t most, int32_t *n, const char *text, const char *what,
                            const md_fx_names *names)
{
    *n = 0;
    if (!text || !text[0])
        return MD_OK;
    parser p = {.text = text, .names = names};
    md_arena *arena = md_arena_create();
    md_status s = arena ? md_lex(&p.at, arena, text) : md_fail_memory();
    if (s == MD_OK) {
        p.stack = malloc((strlen(text) + 1) * sizeof *p.stack); /* each has a character at least */
        s = p.stack ? parse_list(&p, out, most, n) : md_fail_memory();
    }
    md_fx_whole_maker_destroy(&p.maker);
    free(p.stack);
    md_arena_destroy(&arena);
    if (s == MD_INVALID_ARGUMENT) {
        char said[512];
        snprintf(said, sizeof said, "%s", md_last_error());
        return md_fail(s, "%s: %s", what, said);
    }
    return s;
}
