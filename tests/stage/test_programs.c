/* Golden programs: programs.txt holds formulas ("> " in front of each line, "> ! " if they are to be split first)
 * and what md_st_print must say about them, up to an empty line. `test_programs --write FILE` writes the file anew
 * with what it says now; read the difference before it goes in. */
#include "base/strbuf.h"
#include "expr/catalogue.h"
#include "print_program.h"
#include "stage/stage.h"
#include "support/check.h"
#include "support/fault.h"

static FILE *written; /* --write: where to */
static const char *path = MD_TEST_DATA "/programs.txt";

/* Of a formula's text, after "! " to be split first. The n-th allocation of splitting and of the program fails;
 * 0: none. */
static md_status print_failing(md_strbuf *out, const char *text, int64_t n, int is_once)
{
    md_fx_formula *f = NULL;
    md_st_program *p = NULL;
    bool is_split = strncmp(text, "! ", 2) == 0;
    text += is_split ? 2 : 0;
    const md_catalogue_entry *e = md_catalogue_find(text);
    md_status status = md_fx_formula_create(&f, e != NULL ? e->formula : text, NULL);
    fault_at(n, is_once);
    if (status == MD_OK && is_split)
        status = md_st_split(f);
    if (status == MD_OK)
        status = md_st_program_create(&p, f);
    fault_at(0, is_once);
    if (status == MD_OK)
        print_program(out, p);
    else
        md_strbuf_printf(out, "%s\n", md_last_error());
    md_st_program_destroy(&p);
    md_fx_formula_destroy(&f);
    return status;
}

static void print_formula_program(md_strbuf *out, const char *text)
{
    (void)print_failing(out, text, 0, 0);
}

/* One block: the formula's lines joined, then what is expected of it. */
static bool read_block(FILE *file, md_strbuf *comment, md_strbuf *formula, md_strbuf *expected)
{
    char line[2048];
    bool has_any = false;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '\n' && has_any)
            return true;
        if (line[0] == '#' || line[0] == '\n') {
            md_strbuf_add(comment, line);
            continue;
        }
        has_any = true;
        if (strncmp(line, "> ", 2) == 0) {
            line[strcspn(line, "\n")] = 0;
            md_strbuf_printf(formula, "%s%s", formula->size > 0 ? " " : "", line + 2);
        } else {
            md_strbuf_add(expected, line);
        }
    }
    return has_any;
}

static void expect_golden(const char *formula, const char *expected, const md_strbuf *comment)
{
    md_strbuf found = {0};
    print_formula_program(&found, formula);
    if (written != NULL)
        fprintf(written, "%s> %s\n%s\n", md_strbuf_text(comment), formula, md_strbuf_text(&found));
    else if (strcmp(md_strbuf_text(&found), expected) != 0)
        fail_msg("%s\nexpected:\n%sfound:\n%s", formula, expected, md_strbuf_text(&found));
    md_strbuf_finish(&found);
}

/* A piece of memory that is refused is an error, or the program is the one that is expected. */
static void expect_golden_failing(const char *formula, const char *expected, const md_strbuf *comment)
{
    (void)comment;
    fault_in_arenas(1);
    for (int64_t n = 1, more = 2; more > 0; n += 1 + n / 12) {
        more = 0;
        for (int is_once = 0; is_once < 2; is_once++) {
            md_strbuf found = {0};
            const md_status status = print_failing(&found, formula, n, is_once);
            if (status != MD_OUT_OF_MEMORY && strcmp(md_strbuf_text(&found), expected) != 0)
                fail_msg("%s, allocation %d\nexpected:\n%sfound:\n%s", formula, (int)n, expected,
                         md_strbuf_text(&found));
            md_strbuf_finish(&found);
            more += status == MD_OUT_OF_MEMORY;
        }
    }
    fault_in_arenas(0);
}

static void each_block(void (*expect)(const char *formula, const char *expected, const md_strbuf *comment))
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int n = 0;; n++) {
        md_strbuf comment = {0}, formula = {0}, expected = {0};
        bool more = read_block(file, &comment, &formula, &expected);
        if (more)
            expect(md_strbuf_text(&formula), md_strbuf_text(&expected), &comment);
        md_strbuf_finish(&comment);
        md_strbuf_finish(&formula);
        md_strbuf_finish(&expected);
        if (!more) {
            assert_true(n > 40);
            break;
        }
    }
    fclose(file);
}

static void test_golden(void **state)
{
    (void)state;
    each_block(expect_golden);
}

static void test_faults(void **state)
{
    (void)state;
    if (written == NULL)
        each_block(expect_golden_failing);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_faults)};
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        written = fopen(argv[2], "w");
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (written != NULL)
        fclose(written);
    return failed;
}
