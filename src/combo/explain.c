/* What a combo says of itself, as JSON, and as the text that is printed from it. */
#include "base/json.h"
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

static json_t *parts_json(const md_cb *cb)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < cb->n_parts; i++)
        list = md_json_add(list, json_pack("{s:i, s:o, s:I, s:I}", "part", i, "op", md_json_text(cb->part[i].op->name),
                                           "items", (json_int_t)cb->part[i].n_items, "empty",
                                           (json_int_t)count_empty(&cb->part[i])));
    return list;
}

static json_t *groups_json(const groups *g, const char *name)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < g->n; i++) {
        const group *x = &g->group[i];
        list = md_json_add(list, json_pack("{s:i, s:i, s:I, s:o}", "part", x->part, "level", x->level, "items",
                                           (json_int_t)x->n, name, md_json_text(x->name)));
    }
    return list;
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

static json_t *bodies_json(const md_cb_kernel *k)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < k->n; i++)
        list = md_json_add(list, md_json_text(k->body[i].variant->name));
    return list;
}

static json_t *launches_json(const md_cb *cb)
{
    json_t *list = json_array();
    for (int64_t i = 0; cb->merged && i < cb->merged->n; i++) {
        const md_cb_group *g = &cb->merged->group[i];
        const md_cb_kernel *k = &g->kernel;
        list = md_json_add(list, json_pack("{s:i, s:I, s:I, s:i, s:i, s:s, s:s, s:o, s:o}", "level", g->level, "items",
                                           (json_int_t)g->n, "blocks", (json_int_t)g->blocks, "threads", k->threads,
                                           "param_bytes", k->table_words * 8, "items_in",
                                           k->is_far ? "device memory" : "parameters", "unit",
                                           k->by_warps ? "warp" : "block or more", "bodies", bodies_json(k), "state",
                                           md_json_text(state_of(g))));
    }
    return list;
}

/* How often each kind of item was run, and how, since the combo was bound. */
static json_t *statistics_json(md_cb *cb)
{
    md_cb_tell(cb);
    return md_ss_combos_json(&(md_ss_combos){.n = cb->stats.runs > 0, .combo = &cb->stats});
}

/* One launch or many, and why; null: not decided. A time is the measured one where there is one. */
static json_t *choice_json(const md_cb_decision *d)
{
    static const char *const name[MD_CB_HOWS] = {[MD_CB_ONE] = "one launch", [MD_CB_EACH] = "a launch each"};
    const bool is_measured = d->us[MD_CB_ONE] > 0 && d->us[MD_CB_EACH] > 0;
    const double *us = is_measured ? d->us : d->model_us;
    if (!d->is_made)
        return json_null();
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:b}", "how", name[d->how], "why", md_cb_decide_why(d), "is_timing",
                     d->is_open, "one_us", md_json_real(us[MD_CB_ONE]), "each_us", md_json_real(us[MD_CB_EACH]),
                     "are_measured", is_measured);
}

static json_t *report(md_cb *cb)
{
    groups together = {0}, alone = {0};
    const md_cb_schedule *plan = cb->plan;
    count_groups(&together, &alone, cb);
    return json_pack(
        "{s:I, s:I, s:o, s:s, s:o, s:o, s:I, s:o, s:I, s:I, s:o, s:I, s:I, s:I, s:o}", "items", (json_int_t)cb->n_items,
        "runs", (json_int_t)cb->n_runs, "parts", parts_json(cb), "form", md_cb_form(cb), "choice",
        choice_json(&cb->decision), "together", groups_json(&together, "variant"), "more_together",
        (json_int_t)together.n_more, "alone", groups_json(&alone, "why"), "more_alone", (json_int_t)alone.n_more,
        "launches_alone", (json_int_t)(cb->merged ? cb->merged->n_alone : 0), "launches", launches_json(cb), "shapes",
        (json_int_t)(plan ? plan->n_shapes : 0), "memory_bytes", (json_int_t)(plan ? plan->memory_bytes : 0), "pieces",
        (json_int_t)md_cb_pieces(cb), "statistics", statistics_json(cb));
}

/* ---- The text of the report */

static void print_groups(md_strbuf *out, const json_t *j, const char *what, const char *more, const char *name)
{
    const json_t *list = json_object_get(j, what);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        md_strbuf_printf(out, "  %s, part %lld, launch %lld: %lld items, %s\n", what, md_json_integer_at(x, "part"),
                         md_json_integer_at(x, "level"), md_json_integer_at(x, "items"), md_json_text_at(x, name));
    }
    if (md_json_integer_at(j, more))
        md_strbuf_printf(out, "  %s: %lld more\n", what, md_json_integer_at(j, more));
}

static void print_launch(md_strbuf *out, const json_t *x)
{
    const json_t *bodies = json_object_get(x, "bodies");
    md_strbuf_printf(out,
                     "  one launch, level %lld: %lld items, %lld blocks of %lld threads, %lld bytes of parameters, "
                     "items in %s, each by a %s:",
                     md_json_integer_at(x, "level"), md_json_integer_at(x, "items"), md_json_integer_at(x, "blocks"),
                     md_json_integer_at(x, "threads"), md_json_integer_at(x, "param_bytes"),
                     md_json_text_at(x, "items_in"), md_json_text_at(x, "unit"));
    for (size_t i = 0; i < json_array_size(bodies); i++)
        md_strbuf_printf(out, " %s", json_string_value(json_array_get(bodies, i)));
    md_strbuf_printf(out, " (%s)\n", md_json_text_at(x, "state"));
}

static void print_choice(md_strbuf *out, const json_t *choice)
{
    if (!json_is_null(choice))
        md_strbuf_printf(out, "  choice: %s, %s%s (one %.2f us, each %.2f us, %s)\n", md_json_text_at(choice, "how"),
                         md_json_text_at(choice, "why"),
                         md_json_is(choice, "is_timing") ? ", runs are being timed" : "",
                         md_json_number_at(choice, "one_us"), md_json_number_at(choice, "each_us"),
                         md_json_is(choice, "are_measured") ? "measured" : "predicted");
}

static void print_report(md_strbuf *out, const json_t *j)
{
    const json_t *parts = json_object_get(j, "parts"), *launches = json_object_get(j, "launches");
    md_strbuf_printf(out, "combo of %lld items, %lld runs\n", md_json_integer_at(j, "items"),
                     md_json_integer_at(j, "runs"));
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *p = json_array_get(parts, i);
        md_strbuf_printf(out, "  part %-3zu %-20s %lld items, %lld empty\n", i, md_json_text_at(p, "op"),
                         md_json_integer_at(p, "items"), md_json_integer_at(p, "empty"));
    }
    md_strbuf_printf(out, "  %s\n", md_json_text_at(j, "form"));
    print_choice(out, json_object_get(j, "choice"));
    print_groups(out, j, "together", "more_together", "variant");
    print_groups(out, j, "alone", "more_alone", "why");
    if (md_json_integer_at(j, "launches_alone"))
        md_strbuf_printf(
            out, "  launches of their own: %lld (the only one of their kind, or above 75 us and unlike the others)\n",
            md_json_integer_at(j, "launches_alone"));
    for (size_t i = 0; i < json_array_size(launches); i++)
        print_launch(out, json_array_get(launches, i));
    md_strbuf_printf(out, "  %lld shapes, %lld bytes between launches, loops of up to %lld pieces\n",
                     md_json_integer_at(j, "shapes"), md_json_integer_at(j, "memory_bytes"),
                     md_json_integer_at(j, "pieces"));
    md_ss_combos_print(out, json_object_get(j, "statistics"));
}

md_status md_cb_explain(md_strbuf *out, md_cb *cb, bool json)
{
    return md_json_report(out, report(cb), json, print_report);
}
