/* Fuzz target of wisdom as text: any line is read or refused with a reason; what is read prints to a line that reads
 * the same; a file is taken whole or not at all. Built as fuzz_op.c, with -Isrc. */
#include "base/status.h"
#include "tune/wisdom/wisdom.h"
#include "tune/wisdom/line.h"
#include "fuzz/text.h"

static void check_line(const char *text, size_t n)
{
    md_tn_line line, again;
    md_strbuf first = {0}, second = {0};
    if (md_tn_line_read(&line, text, n) != MD_OK) {
        require(md_last_error()[0] != 0, "no reason", "");
        return;
    }
    md_tn_line_print(&first, &line);
    require(!first.failed, "it does not print", "");
    require(md_tn_line_read(&again, md_strbuf_text(&first), first.size) == MD_OK, "what was printed is refused", "");
    md_tn_line_print(&second, &again);
    require(!strcmp(md_strbuf_text(&first), md_strbuf_text(&second)), "it prints differently when read again", "");
    md_tn_line_finish(&line);
    md_tn_line_finish(&again);
    md_strbuf_finish(&first);
    md_strbuf_finish(&second);
}

static void check_file(const char *text, size_t n)
{
    md_tn_wisdom *w = NULL;
    md_strbuf problems = {0}, out = {0};
    md_tn_merged m;
    require(md_tn_wisdom_create(&w) == MD_OK, "no wisdom", "");
    const md_status status = md_tn_wisdom_merge(&m, &problems, w, text, n);
    require((status == MD_CORRUPT) == (m.n_bad > 0) && (m.n_bad > 0) == (problems.size > 0), "bad lines are not told",
            "");
    require(md_tn_wisdom_print(&out, w) == MD_OK, "it does not print", "");
    require(status == MD_OK || out.size == 0, "half a file was taken", "");
    md_tn_wisdom_destroy(&w);
    md_strbuf_finish(&problems);
    md_strbuf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = text_of(data, size);
    check_line(text, strcspn(text, "\n"));
    check_file(text, size);
    free(text);
    return 0;
}
