/* "b=8, n=64..128". */
#include "front_check.h"

typedef struct seen {
    md_strbuf text;
    const char *refuse; /* the callback fails at this name */
} seen;

static md_status note(void *user, const char *name, int64_t lo, int64_t hi)
{
    seen *const s = user;
    if (s->refuse && strcmp(s->refuse, name) == 0)
        return MD_NOT_FOUND;
    md_strbuf_printf(&s->text, "%s:%lld:%lld ", name, (long long)lo, (long long)hi);
    return MD_OK;
}

static void test_good(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"  \n\t ", ""},
        {"b=8", "b:8:8 "},
        {"b = 8 , n=64..128", "b:8:8 n:64:128 "},
        {"i=8192 j=4096", "i:8192:8192 j:4096:4096 "},
        {"i=1,j=2,", NULL},
        {"b=1.., n=0", "b:1:9223372036854775807 n:0:0 "},
        {"E.0=50257 x_1=9223372036854775807", "E.0:50257:50257 x_1:9223372036854775807:9223372036854775807 "},
        {"a=3..3", "a:3:3 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        seen s = {0};
        if (cases[i][1]) {
            assert_ok(md_fx_sizes_parse(cases[i][0], note, &s));
            assert_string_equal(md_strbuf_text(&s.text), cases[i][1]);
        } else {
            assert_fails(md_fx_sizes_parse(cases[i][0], note, &s), MD_INVALID_ARGUMENT, "expected a name");
        }
        md_strbuf_finish(&s.text);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"b", "sizes \"b\": expected '=' at the end"},
        {"b=", "sizes \"b=\": expected a number at the end"},
        {"b=x", "sizes \"b=x\": expected a number at column 3, not 'x'"},
        {"=3", "sizes \"=3\": expected a name at column 1, not '=3'"},
        {"3=b", "sizes \"3=b\": expected a name at column 1, not '3=b'"},
        {"b=3;n=4", "sizes \"b=3;n=4\": expected ',' or a range at column 4, not ';n=4'"},
        {"b=3.5", "sizes \"b=3.5\": expected ',' or a range at column 4, not '.5'"},
        {"b=3..x", "sizes \"b=3..x\": expected ',' or a range at column 6, not 'x'"},
        {"b=-3", "sizes: 'b' is negative"},
        {"b=9..8", "sizes: the range 9..8 of 'b' is empty"},
        {"b=9223372036854775808", "sizes: 'b' is larger than 9223372036854775807"},
        {"b=1..99999999999999999999999999", "sizes: 'b' is larger than 9223372036854775807"},
        {"b=8,,n=4", "sizes \"b=8,,n=4\": expected a name at column 5, not ',n=4'"},
        {"a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on=1",
         "sizes: the name 'a_name_that_goes_on_...' is longer than 63 characters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        seen s = {0};
        assert_int_equal(md_fx_sizes_parse(cases[i][0], note, &s), MD_INVALID_ARGUMENT);
        assert_string_equal(md_last_error(), cases[i][1]);
        md_strbuf_finish(&s.text);
    }
}

static void test_callback_stops(void **state)
{
    (void)state;
    seen s = {.refuse = "n"};
    assert_int_equal(md_fx_sizes_parse("b=1 n=2 k=3", note, &s), MD_NOT_FOUND);
    assert_string_equal(md_strbuf_text(&s.text), "b:1:1 ");
    md_strbuf_finish(&s.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_callback_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
