/* Reduces the text of a kernel to its tokens, so that its digest does not depend on comments and white space. */
#include "kernel/kernel.h"

#include "base/status.h"

#include <ctype.h>
#include <string.h>

typedef struct lexer {
    md_strbuf *out;
    const char *at;
    bool is_line_start; /* nothing but white space and comments since the last line break */
    bool is_directive; /* inside a preprocessor line */
    bool is_define; /* of a macro */
    int32_t n_tokens; /* of the preprocessor line so far: "#", "define", the name */
    bool is_after_string; /* the last token was a string literal */
} lexer;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* Behind a comment or a backslash in front of a line break; the same place where there is neither. */
static const char *skip_unseen(const char *at)
{
    if (at[0] == '\\' && at[1] == '\n')
        return at + 2;
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    if (at[0] == '/' && at[1] == '/') {
        while (*at && *at != '\n')
            at += at[0] == '\\' && at[1] ? 2 : 1;
    }
    return at;
}

static const char *end_of_literal(const char *at)
{
    const char quote = *at++;
    while (*at && *at != quote && *at != '\n')
        at += at[0] == '\\' && at[1] ? 2 : 1;
    return at + (*at == quote);
}

static const char *end_of_number(const char *at)
{
    for (; is_word(*at) || *at == '.' || (*at == '\'' && is_word(at[1])); at++)
        if (strchr("eEpP", *at) && (at[1] == '+' || at[1] == '-'))
            at++;
    return at;
}

static const char *end_of_sign(const char *at)
{
    static const char *const longer[] = {"<<=", ">>=", "...", "<<<", ">>>", "->*", "##", "++", "--",
                                         "->",  "<<",  ">>",  "<=",  ">=",  "==",  "!=", "&&", "||",
                                         "+=",  "-=",  "*=",  "/=",  "%=",  "&=",  "|=", "^=", "::"};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (!strncmp(at, longer[i], strlen(longer[i])))
            return at + strlen(longer[i]);
    return at + 1;
}

static const char *end_of_token(const char *at)
{
    if (*at == '"' || *at == '\'')
        return end_of_literal(at);
    if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1])))
        return end_of_number(at);
    if (!is_word(*at))
        return end_of_sign(at);
    while (is_word(*at))
        at++;
    return at;
}

static void start_directive(lexer *l)
{
    md_strbuf_add(l->out, "\n");
    l->is_directive = true;
    l->is_define = false;
    l->n_tokens = 0;
}

static void add_token(lexer *l)
{
    const char *end = end_of_token(l->at);
    const bool is_string = *l->at == '"';
    if (*l->at == '#' && l->is_line_start)
        start_directive(l);
    if (l->is_directive && l->n_tokens == 1)
        l->is_define = end - l->at == 6 && !memcmp(l->at, "define", 6);
    /* "#define F(x)" is a function, "#define F (x)" is not. */
    const bool is_function = l->is_directive && l->is_define && l->n_tokens == 2 && *end == '(';
    /* the compiler joins string literals that follow each other */
    if (is_string && l->is_after_string && !l->out->failed) {
        l->out->size -= 2;
        l->at++;
    }
    md_strbuf_bytes(l->out, l->at, (size_t)(end - l->at));
    md_strbuf_add(l->out, is_function ? "" : " ");
    l->n_tokens++;
    l->is_after_string = is_string;
    l->is_line_start = false;
    l->at = end;
}

static void end_line(lexer *l)
{
    if (l->is_directive)
        md_strbuf_add(l->out, "\n");
    l->is_after_string &= !l->is_directive;
    l->is_directive = false;
    l->is_line_start = true;
}

void md_kn_text_tokens(md_strbuf *out, const char *text)
{
    lexer l = {.out = out, .at = text, .is_line_start = true};
    while (*l.at) {
        const char *behind = skip_unseen(l.at);
        if (behind != l.at) {
            l.at = behind;
        } else if (*l.at == '\n') {
            end_line(&l);
            l.at++;
        } else if (isspace((unsigned char)*l.at)) {
            l.at++;
        } else {
            add_token(&l);
        }
    }
}

md_status md_kn_text_digest(md_digest128 *out, const char *text)
{
    md_strbuf tokens = {0};
    md_kn_text_tokens(&tokens, text);
    const bool has_failed = tokens.failed;
    if (!has_failed)
        *out = md_hash128(md_strbuf_text(&tokens), tokens.size);
    md_strbuf_finish(&tokens);
    return has_failed ? md_fail_memory() : MD_OK;
}
