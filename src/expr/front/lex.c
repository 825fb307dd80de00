/* Tokens. Numbers are read without the C library's decimal point, which follows the locale. */
#include "expr/front/lex.h"

#include "base/status.h"
#include "expr/diag.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    md_arena *arena;
    const char *text, *at;
    int32_t line, column;
    md_token *token;
    int32_t n;
} lexer;

static const struct {
    const char *text;
    md_token_kind kind;
} signs[] = {
#define SIGN_ROW(name, text) {text, MD_TOKEN_##name},
    MD_LEX_SIGNS(SIGN_ROW)
#undef SIGN_ROW
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_part(char c)
{
    return is_name_start(c) || is_digit(c);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

static void step(lexer *lx)
{
    const char c = *lx->at++;
    if (c == '\n') {
        lx->line++;
        lx->column = 1;
    } else if (((unsigned char)*lx->at & 0xC0) != 0x80) {
        lx->column++; /* characters, not bytes */
    }
}

static void skip_blanks(lexer *lx)
{
    while (*lx->at && (is_blank(*lx->at) || *lx->at == '#')) {
        if (*lx->at == '#')
            while (*lx->at && *lx->at != '\n')
                step(lx);
        else
            step(lx);
    }
}

/* Consumes n bytes as one token. */
static md_status take(lexer *lx, md_token_kind kind, size_t n)
{
    md_token *const t = &lx->token[lx->n++];
    char *const text = md_arena_alloc(lx->arena, n + 1);
    if (!text)
        return md_fail_memory();
    memcpy(text, lx->at, n);
    *t = (md_token){.kind = kind, .line = lx->line, .column = lx->column, .text = text, .start = lx->at};
    for (size_t i = 0; i < n; i++)
        step(lx);
    return MD_OK;
}

static md_status take_name(lexer *lx)
{
    size_t n = 1;
    while (is_name_part(lx->at[n]))
        n++;
    if (n > MD_LEX_MAX_NAME)
        return md_fx_complain(lx->text, lx->line, lx->column, "a name of %zu characters; the longest allowed is %d", n,
                              MD_LEX_MAX_NAME);
    return take(lx, MD_TOKEN_NAME, n);
}

/* The length of digits [. digits] [e [+-] digits]; `1..2` is a range, so two points end the number. */
static size_t number_length(const char *s, bool *is_real)
{
    size_t n = 0;
    *is_real = false;
    while (is_digit(s[n]))
        n++;
    if (s[n] == '.' && s[n + 1] != '.') {
        *is_real = true;
        for (++n; is_digit(s[n]); n++)
            ;
    }
    if (s[n] == 'e' || s[n] == 'E') {
        const size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
        if (is_digit(s[n + 1 + sign])) {
            *is_real = true;
            for (n += 1 + sign; is_digit(s[n]); n++)
                ;
        }
    }
    return n;
}

static md_status read_integer(lexer *lx, md_token *t)
{
    uint64_t value = 0;
    for (const char *s = t->text; *s; s++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s - '0', &value))
            return md_fx_complain(lx->text, t->line, t->column, "the number is larger than 18446744073709551615");
    t->kind = value > INT64_MAX ? MD_TOKEN_UNSIGNED : MD_TOKEN_INTEGER;
    t->integer = (int64_t)value;
    return MD_OK;
}

/* Rewrites the number as digits "e" exponent: text without a decimal point reads the same in every locale. */
static md_status read_real(lexer *lx, md_token *t)
{
    const size_t length = strlen(t->text);
    char *const plain = md_arena_alloc(lx->arena, length + 32);
    if (!plain)
        return md_fail_memory();
    size_t n = 0;
    long exponent = 0, shift = 0;
    bool after_point = false;
    for (const char *s = t->text; *s; s++) {
        if (*s == 'e' || *s == 'E') {
            exponent = strtol(s + 1, NULL, 10); /* saturates */
            exponent = MD_MAX(-1000000, MD_MIN(exponent, 1000000));
            break;
        }
        if (*s == '.') {
            after_point = true;
            continue;
        }
        plain[n++] = *s;
        shift -= after_point;
    }
    plain[n++] = 'e';
    exponent += shift;
    /* the sign and the digits of the exponent */
    if (exponent < 0)
        plain[n++] = '-';
    char digits[24];
    int k = 0;
    for (long left = labs(exponent); left || !k; left /= 10)
        digits[k++] = (char)('0' + left % 10);
    while (k)
        plain[n++] = digits[--k];
    t->real = strtod(plain, NULL);
    if (!isfinite(t->real))
        return md_fx_complain(lx->text, t->line, t->column, "the number is too large; infinity is written inf");
    return MD_OK;
}

static md_status take_number(lexer *lx)
{
    bool is_real;
    const size_t n = number_length(lx->at, &is_real);
    if (is_name_start(lx->at[n]))
        return md_fx_complain(lx->text, lx->line, lx->column + (int32_t)n,
                              "a number runs into the name '%c...'; put a sign between", lx->at[n]);
    MD_TRY(take(lx, is_real ? MD_TOKEN_REAL : MD_TOKEN_INTEGER, n));
    md_token *const t = &lx->token[lx->n - 1];
    return is_real ? read_real(lx, t) : read_integer(lx, t);
}

/* A point right after a name is the one of `X.0`, not the start of a number. */
static bool is_axis_point(const lexer *lx)
{
    return *lx->at == '.' && lx->n > 0 && lx->token[lx->n - 1].kind == MD_TOKEN_NAME && lx->at > lx->text &&
           is_name_part(lx->at[-1]);
}

static md_status take_sign(lexer *lx)
{
    const bool is_and = strncmp(lx->at, "&&", 2) == 0;
    if (is_and || strncmp(lx->at, "||", 2) == 0)
        return md_fx_complain(lx->text, lx->line, lx->column, "unexpected '%.2s'; write '%s'", lx->at,
                              is_and ? "and" : "or");
    if (strncmp(lx->at, "**", 2) == 0)
        return md_fx_complain(lx->text, lx->line, lx->column, "unexpected '**'; a power is written pow(a, b)");
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (strncmp(lx->at, signs[i].text, strlen(signs[i].text)) == 0)
            return take(lx, signs[i].kind, strlen(signs[i].text));
    const unsigned char c = (unsigned char)*lx->at;
    if (c == '!')
        return md_fx_complain(lx->text, lx->line, lx->column, "unexpected '!'; write 'not', or '!=' to compare");
    if (c > ' ' && c < 127)
        return md_fx_complain(lx->text, lx->line, lx->column, "unexpected character '%c'", c);
    return md_fx_complain(lx->text, lx->line, lx->column, "unexpected character 0x%02x", c);
}

static md_status take_one(lexer *lx)
{
    if (is_name_start(*lx->at))
        return take_name(lx);
    if (is_axis_point(lx) && lx->at[1] != '.')
        return take(lx, MD_TOKEN_DOT, 1);
    if (is_digit(*lx->at) || (*lx->at == '.' && is_digit(lx->at[1])))
        return take_number(lx);
    return take_sign(lx);
}

md_status md_lex(const md_token **out, md_arena *arena, const char *text)
{
    const size_t length = strlen(text);
    lexer lx = {.arena = arena, .text = text, .at = text, .line = 1, .column = 1};
    lx.token = md_arena_alloc(arena, (length + 1) * sizeof *lx.token); /* no token is empty */
    if (!lx.token)
        return md_fail_memory();
    for (skip_blanks(&lx); *lx.at; skip_blanks(&lx))
        MD_TRY(take_one(&lx));
    /* The end is placed right after the last token: a caret on an empty last line would say little. */
    const md_token *const last = lx.n ? &lx.token[lx.n - 1] : NULL;
    lx.token[lx.n] = (md_token){.kind = MD_TOKEN_END,
                                .line = last ? last->line : 1,
                                .column = last ? last->column + (int32_t)strlen(last->text) : 1};
    *out = lx.token;
    return MD_OK;
}
