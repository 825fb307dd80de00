/* What the parsers of statements and of expressions ask of single tokens. */
#include "base/dtype.h"
#include "expr/catalogue.h"
#include "expr/diag.h"
#include "expr/front/parser.h"

#include <string.h>

static const char *const sign_text[MD_TOKEN_N_KINDS] = {
#define SIGN_TEXT(name, text) [MD_TOKEN_##name] = text,
    MD_LEX_SIGNS(SIGN_TEXT)
#undef SIGN_TEXT
};

bool md_parse_is(const md_token *t, const char *name)
{
    return t->kind == MD_TOKEN_NAME && strcmp(t->text, name) == 0;
}

md_status md_parse_expected(const md_parser *p, const char *what)
{
    if (p->at->kind == MD_TOKEN_END)
        return md_fx_complain(p->text, p->at->line, p->at->column, "expected %s, but the formula ends here", what);
    return md_fx_complain(p->text, p->at->line, p->at->column, "expected %s before '%s'", what, p->at->text);
}

bool md_parse_accept(md_parser *p, md_token_kind kind)
{
    if (p->at->kind != kind)
        return false;
    p->at++;
    return true;
}

md_status md_parse_expect(md_parser *p, md_token_kind kind)
{
    char what[8] = "'";
    if (md_parse_accept(p, kind))
        return MD_OK;
    strcat(strcat(what, sign_text[kind]), "'");
    return md_parse_expected(p, what);
}

md_status md_parse_dtype(md_parser *p, md_dtype *out)
{
    if (p->at->kind != MD_TOKEN_NAME)
        return md_parse_expected(p, "a dtype");
    const md_dtype t = md_dtype_parse(p->at->text);
    if (t == MD_DTYPE_DEFAULT) {
        md_fx_nearest near = {.wanted = p->at->text};
        for (int32_t k = 0; md_dtype_nth(k) != MD_DTYPE_DEFAULT; k++)
            md_fx_nearest_offer(&near, md_dtype_name(md_dtype_nth(k)));
        return md_fx_complain(p->text, p->at->line, p->at->column, "'%s' is no dtype%s%s%s", p->at->text,
                              MD_FX_NEAREST_ARGS(near));
    }
    p->at++;
    *out = t;
    return MD_OK;
}
