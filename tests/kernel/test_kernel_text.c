/* The tokens of a kernel's text: what may change without changing its digest, and what may not. */
#include "support/check.h"

#include "base/embed.h"
#include "base/status.h"
#include "kernel/kernel.h"

static bool is_same(const char *a, const char *b)
{
    md_digest128 x, y;
    assert_ok(md_kn_text_digest(&x, a));
    assert_ok(md_kn_text_digest(&y, b));
    return x.lo == y.lo && x.hi == y.hi;
}

static void test_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *text, *tokens;
    } row[] = {
        {"a+b", "a + b "},
        {"a/* c */b // d\n c", "a b c "},
        {"x<<=y>>2 ...", "x <<= y >> 2 ... "},
        {"1.5e-3f+.5-0x1p+3 + 1'000", "1.5e-3f + .5 - 0x1p+3 + 1'000 "},
        {"  #  define F(x) x\n#define G (x)\ny", "\n# define F( x ) x \n\n# define G ( x ) \ny "},
        {"#define A 1 \\\n  2 // no\n/* no\n#define B */ c", "\n# define A 1 2 \nc "},
        {"a # b", "a # b "},
        {"\"// no \\\" comment\" 'a' '\\''", "\"// no \\\" comment\" 'a' '\\'' "},
        {"\"ab\"\n  \"cd\" e", "\"abcd\" e "},
        {"#pragma once \"a\"\n\"b\"", "\n# pragma once \"a\" \n\"b\" "},
        {"a // b \\\n still\nc", "a c "},
        {"", ""},
        {"/* open", ""},
    };
    for (int i = 0; i < MD_COUNT(row); i++) {
        md_strbuf out = {0};
        md_kn_text_tokens(&out, row[i].text);
        assert_string_equal(md_strbuf_text(&out), row[i].tokens);
        md_strbuf_finish(&out);
    }
}

static void test_unimportant(void **state)
{
    (void)state;
    static const char text[] = "/* A. */\n#include \"b.h\"\nint f(int x) // one\n{\n    return x+1;\n}\n";
    assert_true(
        is_same(text, "// Other words, \"quoted\".\n\n\n#include \"b.h\"\n\nint f(int x) {\n\treturn x + 1; }"));
    assert_false(is_same(text, "#include \"b.h\"\nint f(int x) { return x + 2; }"));
    assert_false(is_same(text, "#include \"c.h\"\nint f(int x) { return x + 1; }"));
    assert_false(is_same("#define A\nb", "#define A b"));
    assert_false(is_same("x = \"a b\";", "x = \"ab\";"));
    assert_false(is_same("a ++ b", "a + + b"));
    assert_false(is_same("ab", "a b"));
}

/* A text with every comment and all indentation changed. */
static char *disturbed(const char *text)
{
    const size_t n = strlen(text);
    char *out = malloc(4 * n + 64), *to = out;
    assert_non_null(out);
    to += sprintf(to, "/* another head */\n\n");
    for (const char *at = text; *at; at++) {
        *to++ = *at;
        if (*at == '\n' && (at == text || at[-1] != '\\'))
            to += sprintf(to, "\n  ");
        if (*at == '*' && at > text && at[-1] == '/')
            to += sprintf(to, " new ");
    }
    *to = 0;
    return out;
}

/* Every template of the library. */
static void test_templates(void **state)
{
    (void)state;
    int32_t n = 0;
    for (const md_embedded_file *file = md_embedded_files; file->name; file++, n++) {
        char *other = disturbed(file->bytes), *plus = malloc(file->size + 16);
        assert_non_null(plus);
        sprintf(plus, "%s\n;", file->bytes);
        if (!is_same(file->bytes, other))
            fail_msg("%s: comments count", file->name);
        assert_false(is_same(file->bytes, plus));
        free(other);
        free(plus);
    }
    assert_true(n > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_unimportant),
        cmocka_unit_test(test_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
