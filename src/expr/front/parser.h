/* The parser while it reads a formula. Private to parse.c, parse_token.c and parse_expression.c. */
#ifndef MD_EXPR_FRONT_PARSER_H
#define MD_EXPR_FRONT_PARSER_H

#include "expr/front/syntax.h"

typedef struct md_parser {
    md_arena *arena;
    const char *text;
    const md_token *at;
    const char *list; /* name of the list index, NULL without lists */
    bool is_across; /* inside a reduction over the items */
    int32_t n_bare;
    const char **bare; /* results written without brackets: n for n[] */
    int32_t depth, n_nodes;
} md_parser;

/** True if the token is this name. */
bool md_parse_is(const md_token *t, const char *name);
/** "expected <what> before '...'" at the parser's place. */
md_status md_parse_expected(const md_parser *p, const char *what);
/** Goes past the next token if it is of this kind. */
bool md_parse_accept(md_parser *p, md_token_kind kind);
md_status md_parse_expect(md_parser *p, md_token_kind kind);
md_status md_parse_dtype(md_parser *p, md_dtype *out);
/** A tensor with its brackets; `is_bare`: a name without them. */
md_status md_parse_tensor(md_parser *p, md_syntax **out, bool is_bare);
/** `least`: the loosest operator that may be taken; 0: any. */
md_status md_parse_expression(md_parser *p, md_syntax **out, int least);

#endif
