/* Reports orders as JSON, and prints their lines from that. */
#include "stats/report.h"

static json_t *order_json(const md_ds_compiled *c, const struct md_st_order *order, const int64_t *size)
{
    md_st_order_facts f;
    md_st_order_work(&f, order, size);
    return json_pack("{s:s, s:o, s:b, s:o, s:o, s:o}", "tensor", c->formula->tensor[f.tensor].name, "order",
                     md_json_text(f.text), "as_written", f.is_written, "operations",
                     md_json_real(f.is_written ? f.written : f.operations), "written_operations",
                     md_json_real(f.written), "largest_temporary", md_json_real(f.largest));
}

json_t *md_ss_orders_json(const md_ds_compiled *compiled, const int64_t *size)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < compiled->orders.n; i++)
        list = md_json_add(list, order_json(compiled, compiled->orders.order[i], size));
    return list;
}

void md_ss_orders_print(md_strbuf *out, const json_t *orders, const char *at)
{
    for (size_t i = 0; i < json_array_size(orders); i++) {
        const json_t *o = json_array_get(orders, i);
        const char *tensor = md_json_text_at(o, "tensor"), *text = md_json_text_at(o, "order");
        md_strbuf_printf(out, "order of the sum in %s: %s\n  %s%s%.4g operations", tensor, text, at, *at ? ": " : "",
                         md_json_number_at(o, "operations"));
        if (md_json_is(o, "as_written"))
            md_strbuf_add(out, ", as it is written\n");
        else
            md_strbuf_printf(out, ", %.4g as it is written; largest temporary %.4g elements\n",
                             md_json_number_at(o, "written_operations"), md_json_number_at(o, "largest_temporary"));
    }
}
