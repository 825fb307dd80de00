/* What a combo says of itself. */
#include "base/strbuf.h"
#include "combo/combo.h"

static int64_t count_empty(const md_cb_part *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_items; i++)
        n += p->is_empty[i];
    return n;
}

void md_cb_explain(md_strbuf *out, const md_cb *cb, bool json)
{
    md_strbuf_printf(out, json ? "{\"items\":%lld,\"runs\":%llu,\"parts\":[" : "combo of %lld items, %llu runs\n",
                     (long long)cb->n_items, (unsigned long long)cb->n_runs);
    for (int32_t i = 0; i < cb->n_parts; i++) {
        const md_cb_part *p = &cb->part[i];
        if (json) {
            md_strbuf_printf(out, "%s{\"part\":%d,\"op\":", i ? "," : "", (int)i);
            md_strbuf_json(out, p->op->name);
            md_strbuf_printf(out, ",\"items\":%lld,\"empty\":%lld}", (long long)p->n_items, (long long)count_empty(p));
        } else {
            md_strbuf_printf(out, "  part %-3d %-20s %lld items, %lld empty\n", (int)i, p->op->name,
                             (long long)p->n_items, (long long)count_empty(p));
        }
    }
    md_strbuf_add(out, json ? "]}\n" : "");
}
