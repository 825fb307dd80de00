/* Fuzz target of the front end: any text is a formula or a diagnostic, and a formula prints back to itself.
 *
 * With libFuzzer, from the root of the sources (about 20 s to build):
 *   clang -g -O1 -std=gnu11 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itests -IBUILD/src \
 *     tests/fuzz/fuzz_formula.c src/base/{arena,plain,strbuf,status,dtype,number/narrow}.c
 *     <src/expr, all .c> BUILD/src/expr/{catalogue,lists}_table.c -lm -o fuzz_formula
 *   (cat tests/fuzz/formula.dict; sed -nE 's/^[A-Z]+\([A-Z0-9_]+, ([a-z0-9_]+), .+/"\1"/p' src/expr/ops.def) >
 * words.dict
 *   ./fuzz_formula -dict=words.dict -max_len=2000 WORK data/fuzz/formula
 *
 * An input may begin with a line "#!sizes", which goes to the options. */
#include "base/status.h"
#include "base/strbuf.h"
#include "expr/list/list.h"
#include "fuzz/text.h"

/* Printing adds types, casts and blanks: a formula near a limit may exceed it when read again. */
static bool is_limit(const char *message)
{
    return strstr(message, "nested more than") || strstr(message, "the longest allowed") ||
           strstr(message, "more than") || strstr(message, "too many");
}

static void check_print(const md_fx_formula *formula)
{
    md_strbuf first = {0}, second = {0};
    md_fx_formula *again = NULL;
    md_fx_print(&first, formula);
    const md_status status = md_fx_formula_create(&again, md_strbuf_text(&first), NULL);
    if (status == MD_OK) {
        md_fx_print(&second, again);
        require(strcmp(md_strbuf_text(&first), md_strbuf_text(&second)) == 0, md_strbuf_text(&second),
                md_strbuf_text(&first));
        require(formula->n_dims == again->n_dims && formula->n_reaches == again->n_reaches, "another formula",
                md_strbuf_text(&first));
    } else {
        require(is_limit(md_last_error()), "does not parse again", md_strbuf_text(&first));
    }
    md_fx_formula_destroy(&again);
    md_strbuf_finish(&first);
    md_strbuf_finish(&second);
}

/* A step of a formula over lists is an ordinary formula, all of whose arguments are known. */
static void check_step(const md_fx_list *list, const char *text)
{
    md_fx_formula *f = NULL;
    if (!text)
        return;
    if (md_fx_formula_create(&f, text, NULL) != MD_OK)
        require(is_limit(md_last_error()), md_last_error(), text);
    for (int32_t i = 0; f && i < f->n_args; i++)
        require(md_fx_list_find(list, f->args[i].is_scalar ? f->scalar[f->args[i].id].name
                                                           : f->tensor[f->args[i].id].name) != NULL,
                "an argument that nobody knows", text);
    md_fx_formula_destroy(&f);
}

static void check_lists(const char *formula)
{
    md_fx_list *list = NULL;
    const md_status status = md_fx_list_create(&list, formula, NULL);
    require((list != NULL) == (status == MD_OK), "a list with an error", formula);
    require(list || md_last_error()[0], "no message", formula);
    for (int32_t i = 0; list && i < list->n_steps; i++)
        check_step(list, list->step[i].text);
    for (int32_t i = 0; list && i < list->n_reductions; i++) {
        check_step(list, list->reduction[i].flat);
        check_step(list, list->reduction[i].whole);
    }
    md_fx_list_destroy(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = text_of(data, size);
    char *formula = text;
    md_fx_options options = {0};
    char *const line_end = strchr(text, '\n');
    if (strncmp(text, "#!", 2) == 0 && line_end) {
        *line_end = 0;
        options.sizes = text + 2;
        formula = line_end + 1;
    }
    md_fx_formula *f = NULL;
    const md_status status = md_fx_formula_create(&f, formula, &options);
    require((f != NULL) == (status == MD_OK), "a result with an error", formula);
    if (f) {
        check_print(f);
    } else {
        require(status == MD_INVALID_ARGUMENT || status == MD_OUT_OF_MEMORY, "a status", formula);
        require(md_last_error()[0] != 0, "no message", formula);
    }
    md_fx_formula_destroy(&f);
    if (md_fx_has_lists(formula))
        check_lists(formula);
    free(text);
    return 0;
}
