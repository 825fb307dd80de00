/* What a formula over lists became. */
#include "base/json.h"
#include "base/status.h"
#include "list/list.h"

static json_t *step_json(const md_fx_list *list, int32_t i)
{
    static const char *const kind[] = {"reduce", "scalars", "items"};
    json_t *formulas = json_array(), *of = json_array();
    if (list->step[i].text) {
        formulas = md_json_add(formulas, md_json_text(list->step[i].text));
        of = md_json_add(of,
                         json_string(list->step[i].kind == MD_FX_STEP_ITEMS ? "every item" : "numbers for all items"));
    }
    for (int32_t r = 0; r < list->n_reductions; r++) {
        const char *flat = list->reduction[r].flat;
        if (list->reduction[r].step != i)
            continue;
        formulas = md_json_add(formulas, md_json_text(flat ? flat : list->reduction[r].whole));
        of = md_json_add(of, json_string(flat ? "each 4096 elements of every item" : "the whole of every item"));
    }
    return json_pack("{s:s, s:o, s:o}", "kind", kind[list->step[i].kind], "formulas", formulas, "of", of);
}

static void print_report(md_strbuf *out, const json_t *report)
{
    const json_t *steps = json_object_get(report, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i), *formulas = json_object_get(step, "formulas");
        for (size_t k = 0; k < json_array_size(formulas); k++)
            md_strbuf_printf(out, "step %zu, %s:\n  %s\n", i + 1,
                             json_string_value(json_array_get(json_object_get(step, "of"), k)),
                             json_string_value(json_array_get(formulas, k)));
    }
}

md_status md_list_explain(md_list *list, int32_t json, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!list || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", list ? "write" : "list");
    json_t *steps = json_array();
    for (int32_t i = 0; i < list->formula->n_steps; i++)
        steps = md_json_add(steps, step_json(list->formula, i));
    md_status s = md_json_report(&text, json_pack("{s:o}", "steps", steps), json != 0, print_report);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}
