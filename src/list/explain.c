/* What a formula over lists became. */
#include "base/status.h"
#include "list/list.h"

static void explain_text(md_strbuf *out, const md_list *list)
{
    const md_fx_list *f = list->formula;
    for (int32_t i = 0; i < f->n_steps; i++) {
        if (f->step[i].kind != MD_FX_STEP_REDUCE)
            md_strbuf_printf(out, "step %d, %s:\n  %s\n", (int)i + 1,
                             f->step[i].kind == MD_FX_STEP_ITEMS ? "every item" : "numbers for all items",
                             f->step[i].text);
        for (int32_t r = 0; r < f->n_reductions; r++)
            if (f->reduction[r].step == i)
                md_strbuf_printf(out, "step %d, %s of every item:\n  %s\n", (int)i + 1,
                                 f->reduction[r].flat ? "each 4096 elements" : "the whole",
                                 f->reduction[r].flat ? f->reduction[r].flat : f->reduction[r].whole);
    }
}

static void explain_json(md_strbuf *out, const md_list *list)
{
    const md_fx_list *f = list->formula;
    static const char *const kind[] = {"reduce", "scalars", "items"};
    md_strbuf_add(out, "{\"steps\": [");
    for (int32_t i = 0; i < f->n_steps; i++) {
        md_strbuf_printf(out, "%s{\"kind\": \"%s\", \"formulas\": [", i ? ", " : "", kind[f->step[i].kind]);
        if (f->step[i].text)
            md_strbuf_json(out, f->step[i].text);
        bool is_first = true;
        for (int32_t r = 0; r < f->n_reductions; r++) {
            if (f->reduction[r].step != i)
                continue;
            md_strbuf_add(out, is_first ? "" : ", ");
            md_strbuf_json(out, f->reduction[r].flat ? f->reduction[r].flat : f->reduction[r].whole);
            is_first = false;
        }
        md_strbuf_add(out, "]}");
    }
    md_strbuf_add(out, "]}\n");
}

md_status md_list_explain(md_list *list, int32_t json, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!list || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", list ? "write" : "list");
    if (json)
        explain_json(&text, list);
    else
        explain_text(&text, list);
    const md_status s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}
