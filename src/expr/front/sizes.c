/* "b=8, n=64..128": sizes and ranges by name. Commas and blanks separate. */
#include "base/status.h"
#include "expr/formula.h"
#include "expr/front/lex.h"

#include <stdbool.h>

typedef struct reader {
    const char *text, *at;
} reader;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static void skip_blanks(reader *r)
{
    while (is_blank(*r->at))
        r->at++;
}

static md_status wrong(const reader *r, const char *what)
{
    const int32_t at = (int32_t)(r->at - r->text) + 1;
    if (!*r->at)
        return md_fail(MD_INVALID_ARGUMENT, "sizes \"%.200s\": expected %s at the end", r->text, what);
    return md_fail(MD_INVALID_ARGUMENT, "sizes \"%.200s\": expected %s at column %d, not '%.20s'", r->text, what, at,
                   r->at);
}

static md_status read_name(reader *r, char *name)
{
    size_t n = 0;
    const char *const start = r->at;
    if (*start >= '0' && *start <= '9')
        return wrong(r, "a name");
    while (is_name_part(*r->at)) {
        if (n == MD_LEX_MAX_NAME)
            return md_fail(MD_INVALID_ARGUMENT, "sizes: the name '%.20s...' is longer than %d characters", start,
                           MD_LEX_MAX_NAME);
        name[n++] = *r->at++;
    }
    name[n] = 0;
    return n ? MD_OK : wrong(r, "a name");
}

static md_status read_number(reader *r, const char *name, int64_t *out)
{
    int64_t value = 0;
    if (*r->at == '-')
        return md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' is negative", name);
    if (*r->at < '0' || *r->at > '9')
        return wrong(r, "a number");
    for (; *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *r->at - '0', &value))
            return md_fail(MD_INVALID_ARGUMENT, "sizes: '%s' is larger than 9223372036854775807", name);
    *out = value;
    return MD_OK;
}

static md_status read_entry(reader *r, md_fx_size_fn fn, void *user)
{
    char name[MD_LEX_MAX_NAME + 1];
    int64_t lo = 0, hi;
    MD_TRY(read_name(r, name));
    skip_blanks(r);
    if (*r->at != '=')
        return wrong(r, "'='");
    r->at++;
    skip_blanks(r);
    MD_TRY(read_number(r, name, &lo));
    hi = lo;
    if (r->at[0] == '.' && r->at[1] == '.') {
        r->at += 2;
        hi = INT64_MAX; /* "64.." has no end */
        if (*r->at >= '0' && *r->at <= '9')
            MD_TRY(read_number(r, name, &hi));
    }
    if (*r->at && *r->at != ',' && !is_blank(*r->at))
        return wrong(r, "',' or a range");
    if (hi < lo)
        return md_fail(MD_INVALID_ARGUMENT, "sizes: the range %lld..%lld of '%s' is empty", (long long)lo,
                       (long long)hi, name);
    return fn(user, name, lo, hi);
}

md_status md_fx_sizes_parse(const char *text, md_fx_size_fn fn, void *user)
{
    reader r = {.text = text, .at = text};
    bool after_comma = false;
    for (;;) {
        skip_blanks(&r);
        if (!*r.at)
            return after_comma ? wrong(&r, "a name") : MD_OK;
        MD_TRY(read_entry(&r, fn, user));
        skip_blanks(&r);
        after_comma = *r.at == ',';
        r.at += after_comma;
    }
}
