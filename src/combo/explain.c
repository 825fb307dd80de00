/* What a combo says of itself. */
#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "combo/decide/decide.h"
#include "combo/merge.h"

#include <string.h>

enum { MAX_GROUPS = 64 }; /* that are told apart */

/* Units of one kernel, or items that run alone for one reason. */
typedef struct group {
    int32_t part, level;
    const char *name;
    int64_t n;
} group;

typedef struct groups {
    group group[MAX_GROUPS];
    int32_t n;
    int64_t n_more; /* of groups that did not fit */
} groups;

static void count(groups *g, int32_t part, int32_t level, const char *name)
{
    for (int32_t i = 0; i < g->n; i++)
        if (g->group[i].part == part && g->group[i].level == level && !strcmp(g->group[i].name, name)) {
            g->group[i].n++;
            return;
        }
    if (g->n < MAX_GROUPS)
        g->group[g->n++] = (group){part, level, name, 1};
    else
        g->n_more++;
}

static int64_t count_empty(const md_cb_part *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_items; i++)
        n += p->is_empty[i];
    return n;
}

static void print_parts(md_strbuf *out, const md_cb *cb, bool json)
{
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
}

static void print_groups(md_strbuf *out, const groups *g, bool json, const char *what, const char *name)
{
    for (int32_t i = 0; i < g->n; i++) {
        const group *x = &g->group[i];
        if (json) {
            md_strbuf_printf(out, "%s{\"part\":%d,\"level\":%d,\"items\":%lld,\"%s\":", i ? "," : "", (int)x->part,
                             (int)x->level, (long long)x->n, name);
            md_strbuf_json(out, x->name);
            md_strbuf_add(out, "}");
        } else {
            md_strbuf_printf(out, "  %s, part %d, launch %d: %lld items, %s\n", what, (int)x->part, (int)x->level,
                             (long long)x->n, x->name);
        }
    }
    if (!json && g->n_more > 0)
        md_strbuf_printf(out, "  %s: %lld more\n", what, (long long)g->n_more);
}

static void count_groups(groups *together, groups *alone, const md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    for (int64_t i = 0; plan && i < plan->n_units; i++)
        count(together, plan->unit[i].part, plan->unit[i].level, plan->unit[i].variant->name);
    for (int64_t i = 0, p = 0; plan && i < plan->n_apart; i++) {
        while (plan->apart[i] >= cb->part[p].first + cb->part[p].n_items)
            p++;
        count(alone, (int32_t)p, 0, plan->why_apart[i]);
    }
}

/* ---- Kernels for many items */

static const char *state_of(const md_cb_group *g)
{
    const md_dev_kernel *kernel = NULL;
    const char *why = g->why;
    if (!g->text)
        return why;
    switch (md_bd_text_state(&kernel, &why, g->text)) {
    case MD_BD_READY:
        return "ready";
    case MD_BD_FAILED:
        return why;
    case MD_BD_QUEUED:
        break;
    }
    return "being built";
}

static void print_bodies(md_strbuf *out, const md_cb_kernel *k, bool json)
{
    for (int32_t i = 0; i < k->n; i++) {
        md_strbuf_add(out, i == 0 ? "" : json ? "," : " ");
        if (json)
            md_strbuf_json(out, k->body[i].variant->name);
        else
            md_strbuf_add(out, k->body[i].variant->name);
    }
}

static void print_merged(md_strbuf *out, const md_cb *cb, bool json)
{
    if (!json && cb->merged && cb->merged->n_alone > 0)
        md_strbuf_printf(
            out, "  launches of their own: %lld (the only one of their kind, or above 75 us and unlike the others)\n",
            (long long)cb->merged->n_alone);
    for (int64_t i = 0; cb->merged && i < cb->merged->n; i++) {
        const md_cb_group *g = &cb->merged->group[i];
        md_strbuf_printf(out,
                         json ? "%s{\"level\":%d,\"items\":%lld,\"blocks\":%lld,\"threads\":%d,\"param_bytes\":%d,"
                                "\"items_in\":\"%s\","
                                "\"unit\":\"%s\",\"bodies\":["
                              : "%s  one launch, level %d: %lld items, %lld blocks of %d threads, %d bytes of "
                                "parameters, items in %s, each by a "
                                "%s: ",
                         json && i ? "," : "", (int)g->level, (long long)g->n, (long long)g->blocks,
                         (int)g->kernel.threads, (int)g->kernel.table_words * 8,
                         g->kernel.is_far ? "device memory" : "parameters",
                         g->kernel.by_warps ? "warp" : "block or more");
        print_bodies(out, &g->kernel, json);
        if (json) {
            md_strbuf_add(out, "],\"state\":");
            md_strbuf_json(out, state_of(g));
            md_strbuf_add(out, "}");
        } else {
            md_strbuf_printf(out, " (%s)\n", state_of(g));
        }
    }
}

/* How often each kind of item was run, and how, since the combo was bound. */
static void print_statistics(md_strbuf *out, md_cb *cb, bool json)
{
    md_cb_tell(cb);
    const md_ss_combos one = {.n = cb->stats.runs > 0, .combo = &cb->stats};
    if (!json) {
        md_ss_combos_print(out, &one);
        return;
    }
    md_strbuf array = {0};
    md_json_print(&array, md_ss_combos_json(&one));
    md_strbuf_printf(out, "%.*s", (int)strcspn(md_strbuf_text(&array), "\n"), md_strbuf_text(&array)); /* one line */
    out->failed |= array.failed;
    md_strbuf_finish(&array);
}

/* One launch or many, and why. A time is the measured one where there is one. */
static void print_decision(md_strbuf *out, const md_cb_decision *d, bool json)
{
    static const char *const name[MD_CB_HOWS] = {[MD_CB_ONE] = "one launch", [MD_CB_EACH] = "a launch each"};
    const bool is_measured = d->us[MD_CB_ONE] > 0 && d->us[MD_CB_EACH] > 0;
    const double *us = is_measured ? d->us : d->model_us;
    if (!d->is_made)
        return;
    md_strbuf_printf(out,
                     json ? "\"choice\":{\"how\":\"%s\",\"why\":\"%s\",\"is_timing\":%s,\"one_us\":%.3f,"
                            "\"each_us\":%.3f,\"are_measured\":%s},"
                          : "  choice: %s, %s%s (one %.2f us, each %.2f us, %s)\n",
                     name[d->how], md_cb_decide_why(d),
                     json         ? d->is_open ? "true" : "false"
                     : d->is_open ? ", runs are being timed"
                                  : "",
                     us[MD_CB_ONE], us[MD_CB_EACH],
                     json          ? is_measured ? "true" : "false"
                     : is_measured ? "measured"
                                   : "predicted");
}

void md_cb_explain(md_strbuf *out, md_cb *cb, bool json)
{
    groups together = {0}, alone = {0};
    const md_cb_schedule *plan = cb->plan;
    count_groups(&together, &alone, cb);
    md_strbuf_printf(out, json ? "{\"items\":%lld,\"runs\":%llu,\"parts\":[" : "combo of %lld items, %llu runs\n",
                     (long long)cb->n_items, (unsigned long long)cb->n_runs);
    print_parts(out, cb, json);
    md_strbuf_printf(out, json ? "],\"form\":\"%s\"," : "  %s\n", md_cb_form(cb));
    print_decision(out, &cb->decision, json);
    md_strbuf_add(out, json ? "\"together\":[" : "");
    print_groups(out, &together, json, "together", "variant");
    md_strbuf_add(out, json ? "],\"alone\":[" : "");
    print_groups(out, &alone, json, "alone", "why");
    md_strbuf_add(out, json ? "],\"launches\":[" : "");
    print_merged(out, cb, json);
    md_strbuf_printf(out,
                     json ? "],\"shapes\":%lld,\"memory_bytes\":%zu,\"pieces\":%lld,\"statistics\":"
                          : "  %lld shapes, %zu bytes between launches, loops of up to %lld pieces\n",
                     (long long)(plan ? plan->n_shapes : 0), plan ? plan->memory_bytes : 0,
                     (long long)md_cb_pieces(cb));
    print_statistics(out, cb, json);
    md_strbuf_add(out, json ? "}\n" : "");
}
