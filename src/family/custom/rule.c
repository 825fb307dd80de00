/* Parser and evaluator of whole-number expressions over sizes and tunables. */
#include "family/custom/rule.h"

#include "base/status.h"
#include "expr/diag.h"
#include "expr/front/lex.h"

#include <stdio.h>
#include <string.h>

typedef enum rule_op {
    CONSTANT,
    SIZE,
    TUNABLE, /* push a value */
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    MIN,
    MAX,
    LT,
    LE,
    GT,
    GE,
    EQ,
    NE,
    AND,
    OR, /* binary */
    NEG,
    NOT /* unary */
} rule_op;

typedef struct parser {
    const md_fa_rule_names *names;
    const char *text;
    const md_token *at;
    md_fa_rule *rule;
    int32_t depth; /* nesting of parse_level */
} parser;

static md_status parse_level(parser *p, int32_t level);

static md_status complain(const parser *p, const char *what)
{
    if (p->at->kind == MD_TOKEN_END)
        return md_fx_complain(p->text, p->at->line, p->at->column, "%s, but it ends here", what);
    return md_fx_complain(p->text, p->at->line, p->at->column, "%s before '%s'", what, p->at->text);
}

static md_status push(parser *p, rule_op op, int64_t value)
{
    md_fa_rule *r = p->rule;
    if (r->n == MD_FA_RULE_CODE)
        return md_fx_complain(p->text, p->at->line, p->at->column, "longer than %d operations", MD_FA_RULE_CODE);
    r->code[r->n].op = op;
    r->code[r->n++].value = value;
    r->uses_sizes |= op == SIZE;
    return MD_OK;
}

static bool is_word(const md_token *t, const char *word)
{
    return t->kind == MD_TOKEN_NAME && !strcmp(t->text, word);
}

/* min(a, b, ...), max(a, b, ...). */
static md_status parse_call(parser *p, rule_op op)
{
    p->at += 2;
    for (int32_t n = 0;; n++) {
        MD_TRY(parse_level(p, 0));
        if (n > 0)
            MD_TRY(push(p, op, 0));
        if (p->at->kind == MD_TOKEN_COMMA) {
            p->at++;
            continue;
        }
        if (p->at->kind != MD_TOKEN_CLOSE)
            return complain(p, "expected ',' or ')'");
        p->at++;
        return MD_OK;
    }
}

static md_status parse_name(parser *p)
{
    const md_token *t = p->at++;
    char name[2 * MD_LEX_MAX_NAME];
    snprintf(name, sizeof name, "%s", t->text);
    if (p->at->kind == MD_TOKEN_DOT && p->at[1].kind == MD_TOKEN_INTEGER) {
        snprintf(name, sizeof name, "%s.%lld", t->text, (long long)p->at[1].integer);
        p->at += 2;
    }
    const int32_t dim = md_fx_find_dim(p->names->formula, name, strlen(name));
    md_fx_nearest nearest = {.wanted = name};
    for (int32_t i = 0; i < p->names->n; i++) {
        if (!strcmp(p->names->name[i], name))
            return push(p, TUNABLE, i);
        md_fx_nearest_offer(&nearest, p->names->name[i]);
    }
    if (dim >= 0)
        return push(p, SIZE, dim);
    for (int32_t d = 0; d < p->names->formula->n_dims; d++)
        md_fx_nearest_offer(&nearest, p->names->formula->dim[d].name);
    return md_fx_complain(p->text, t->line, t->column, "'%s' is %s%s%s%s", name,
                          p->names->formula->n_tensors ? "neither a dim of the formula nor a tunable" : "no dim",
                          MD_FX_NEAREST_ARGS(nearest));
}

static md_status parse_primary(parser *p)
{
    const md_token *t = p->at;
    if (t->kind == MD_TOKEN_INTEGER) {
        p->at++;
        return push(p, CONSTANT, t->integer);
    }
    if (t->kind == MD_TOKEN_OPEN) {
        p->at++;
        MD_TRY(parse_level(p, 0));
        if (p->at->kind != MD_TOKEN_CLOSE)
            return complain(p, "expected ')'");
        p->at++;
        return MD_OK;
    }
    if ((is_word(t, "min") || is_word(t, "max")) && t[1].kind == MD_TOKEN_OPEN)
        return parse_call(p, is_word(t, "min") ? MIN : MAX);
    if (t->kind == MD_TOKEN_NAME && !is_word(t, "and") && !is_word(t, "or") && !is_word(t, "not"))
        return parse_name(p);
    return complain(p, "expected a number, a name or '('");
}

/* Levels of precedence, from the weakest. */
enum { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM, LEVEL_TERM, LEVEL_SIGN };

static const struct {
    int32_t level, token;
    const char *word;
    rule_op op;
} binary[] = {
    {LEVEL_OR, -1, "or", OR},
    {LEVEL_AND, -1, "and", AND},
    {LEVEL_COMPARE, MD_TOKEN_LT, NULL, LT},
    {LEVEL_COMPARE, MD_TOKEN_LE, NULL, LE},
    {LEVEL_COMPARE, MD_TOKEN_GT, NULL, GT},
    {LEVEL_COMPARE, MD_TOKEN_GE, NULL, GE},
    {LEVEL_COMPARE, MD_TOKEN_EQ, NULL, EQ},
    {LEVEL_COMPARE, MD_TOKEN_NE, NULL, NE},
    {LEVEL_SUM, MD_TOKEN_PLUS, NULL, ADD},
    {LEVEL_SUM, MD_TOKEN_MINUS, NULL, SUB},
    {LEVEL_TERM, MD_TOKEN_STAR, NULL, MUL},
    {LEVEL_TERM, MD_TOKEN_SLASHES, NULL, DIV},
    {LEVEL_TERM, MD_TOKEN_PERCENT, NULL, MOD},
};

static int32_t find_binary(const md_token *t, int32_t level)
{
    for (int32_t i = 0; i < MD_COUNT(binary); i++)
        if (binary[i].level == level &&
            (binary[i].word ? is_word(t, binary[i].word) : (int32_t)t->kind == binary[i].token))
            return i;
    return -1;
}

static md_status parse_unary(parser *p, int32_t level, bool is_there, rule_op op)
{
    if (!is_there)
        return parse_level(p, level + 1);
    p->at++;
    MD_TRY(parse_level(p, level));
    return push(p, op, 0);
}

static md_status parse_level(parser *p, int32_t level)
{
    int32_t i, n = 0;
    if (level == LEVEL_NOT)
        return parse_unary(p, level, is_word(p->at, "not"), NOT);
    if (level == LEVEL_SIGN)
        return p->at->kind == MD_TOKEN_MINUS ? parse_unary(p, level, true, NEG) : parse_primary(p);
    if (level == LEVEL_OR && ++p->depth > MD_FA_RULE_DEPTH)
        return md_fx_complain(p->text, p->at->line, p->at->column, "more than %d parentheses in each other",
                              MD_FA_RULE_DEPTH);
    MD_TRY(parse_level(p, level + 1));
    while ((i = find_binary(p->at, level)) >= 0) {
        if (level == LEVEL_COMPARE && n++)
            return complain(p, "comparisons are not chained: expected 'and'");
        p->at++;
        MD_TRY(parse_level(p, level + 1));
        MD_TRY(push(p, binary[i].op, 0));
    }
    p->depth -= level == LEVEL_OR;
    return MD_OK;
}

static md_status parse_list(parser *p, md_fa_rule *out, int32_t most, int32_t *n)
{
    for (;;) {
        if (*n == most)
            return complain(p, most == 1 ? "expected one expression, and no more" : "too many expressions");
        p->rule = &out[*n];
        *p->rule = (md_fa_rule){0};
        MD_TRY(parse_level(p, 0));
        (*n)++;
        if (p->at->kind == MD_TOKEN_END)
            return MD_OK;
        if (p->at->kind != MD_TOKEN_COMMA)
            return complain(p, "expected an operator or ','");
        p->at++;
    }
}

md_status md_fa_rule_parse(md_fa_rule *out, int32_t most, int32_t *n, const char *text, const char *what,
                           const md_fa_rule_names *names)
{
    const md_token *tokens = NULL;
    *n = 0;
    if (!text || !text[0])
        return MD_OK;
    md_arena *arena = md_arena_create();
    if (!arena)
        return md_fail_memory();
    md_status s = md_lex(&tokens, arena, text);
    parser p = {.names = names, .text = text, .at = tokens};
    if (s == MD_OK)
        s = parse_list(&p, out, most, n);
    md_arena_destroy(&arena);
    if (s == MD_INVALID_ARGUMENT) {
        char said[512];
        snprintf(said, sizeof said, "%s", md_last_error());
        return md_fail(s, "%s: %s", what, said);
    }
    return s;
}

/* ---- Values */

static bool divide(int64_t *out, int64_t a, int64_t b, bool is_rest)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    int64_t q = a / b, r = a % b;
    bool is_below = r != 0 && (r < 0) != (b < 0);
    *out = is_rest ? r + (is_below ? b : 0) : q - is_below;
    return true;
}

static bool apply(int64_t *out, rule_op op, int64_t a, int64_t b)
{
    switch (op) {
    case ADD:
        return !__builtin_add_overflow(a, b, out);
    case SUB:
        return !__builtin_sub_overflow(a, b, out);
    case MUL:
        return !__builtin_mul_overflow(a, b, out);
    case DIV:
        return divide(out, a, b, false);
    case MOD:
        return divide(out, a, b, true);
    case MIN:
        *out = a < b ? a : b;
        return true;
    case MAX:
        *out = a > b ? a : b;
        return true;
    case LT:
        *out = a < b;
        return true;
    case LE:
        *out = a <= b;
        return true;
    case GT:
        *out = a > b;
        return true;
    case GE:
        *out = a >= b;
        return true;
    case EQ:
        *out = a == b;
        return true;
    case NE:
        *out = a != b;
        return true;
    case AND:
        *out = a && b;
        return true;
    case OR:
        *out = a || b;
        return true;
    default:
        return false;
    }
}

bool md_fa_rule_eval(int64_t *out, const md_fa_rule *rule, const int64_t *size, const int32_t *tunable)
{
    int64_t stack[MD_FA_RULE_CODE];
    int32_t n = 0;
    for (int32_t i = 0; i < rule->n; i++) {
        rule_op op = (rule_op)rule->code[i].op;
        int64_t value = rule->code[i].value;
        if (op <= TUNABLE) {
            stack[n++] = op == CONSTANT ? value : op == SIZE ? size[value] : tunable[value];
        } else if (op >= NEG) {
            if (op == NEG && stack[n - 1] == INT64_MIN)
                return false;
            stack[n - 1] = op == NEG ? -stack[n - 1] : !stack[n - 1];
        } else {
            n--;
            if (!apply(&stack[n - 1], op, stack[n - 1], stack[n]))
                return false;
        }
    }
    *out = n > 0 ? stack[n - 1] : 0;
    return n > 0;
}
