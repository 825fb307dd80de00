/* A formula's text as tokens. */
#ifndef MD_EXPR_FRONT_LEX_H
#define MD_EXPR_FRONT_LEX_H

#include "base/arena.h"

#include <md/md.h>

enum { MD_LEX_MAX_TEXT = 65536 /* of a formula */, MD_LEX_MAX_NAME = 63 };

/* X(enumerator, spelling); longer spellings first. */
#define MD_LEX_SIGNS(X)                                                                                                \
    X(SHIFT_LEFT, "<<")                                                                                                \
    X(SHIFT_RIGHT, ">>")                                                                                               \
    X(DOTDOT, "..")                                                                                                    \
    X(ADD_TO, "+=")                                                                                                    \
    X(MUL_TO, "*=")                                                                                                    \
    X(SLASHES, "//")                                                                                                   \
    X(LE, "<=")                                                                                                        \
    X(GE, ">=")                                                                                                        \
    X(EQ, "==")                                                                                                        \
    X(NE, "!=")                                                                                                        \
    X(LT, "<")                                                                                                         \
    X(GT, ">")                                                                                                         \
    X(ASSIGN, "=")                                                                                                     \
    X(PLUS, "+")                                                                                                       \
    X(MINUS, "-")                                                                                                      \
    X(STAR, "*")                                                                                                       \
    X(SLASH, "/")                                                                                                      \
    X(PERCENT, "%")                                                                                                    \
    X(AMPERSAND, "&")                                                                                                  \
    X(BAR, "|")                                                                                                        \
    X(AT, "@")                                                                                                         \
    X(CARET, "^")                                                                                                      \
    X(TILDE, "~")                                                                                                      \
    X(OPEN, "(") X(CLOSE, ")") X(LEFT, "[") X(RIGHT, "]") X(COMMA, ",") X(COLON, ":") X(SEMICOLON, ";") X(DOT, ".")

#define MD_LEX_X(name, text) MD_TOKEN_##name,
typedef enum md_token_kind {
    MD_TOKEN_END,
    MD_TOKEN_NAME,
    MD_TOKEN_INTEGER,
    MD_TOKEN_UNSIGNED, /* an integer from 2^63 on */
    MD_TOKEN_REAL,
    MD_LEX_SIGNS(MD_LEX_X) MD_TOKEN_N_KINDS
} md_token_kind;
#undef MD_LEX_X

typedef struct md_token {
    md_token_kind kind;
    int32_t line, column;
    const char *text; /* as written, of names, numbers and signs; NULL at the end */
    const char *start; /* where it stands in the text */
    int64_t integer; /* INTEGER; UNSIGNED: its bits */
    double real; /* REAL */
} md_token;

/** All tokens of the text, of whatever length, an END last. They and their texts live in the arena. */
md_status md_lex(const md_token **out, md_arena *arena, const char *text);

#endif
