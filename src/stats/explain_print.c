/* The report that explains a choice, as text. */
#include "stats/report.h"

#include "base/plain.h"

#include <string.h>

/* "i=64 j=64, i=16 j=16": the hints of a variant, the nearest first; or why a variant without hints is in the pool. */
static void add_hints(md_strbuf *out, const json_t *variant)
{
    const json_t *hints = json_object_get(variant, "hints");
    md_strbuf_add(out, md_json_text_at(variant, "hint"));
    for (size_t h = json_is_null(json_object_get(variant, "distance")) ? 0 : 1; h < json_array_size(hints); h++)
        md_strbuf_printf(out, ", %s", json_string_value(json_array_get(hints, h)));
}

typedef struct widths {
    int name, hints;
} widths;

static void print_candidate(md_strbuf *out, const json_t *variant, const char *hints, bool is_picked, widths w)
{
    char distance[24] = "-";
    const char *unfit = md_json_text_at(variant, "unfit");
    if (!json_is_null(json_object_get(variant, "distance")))
        md_snprintf(distance, sizeof distance, "%.2f", md_json_number_at(variant, "distance"));
    md_strbuf_printf(out, "  %s  %-*s  %10.2f  %8s  %-*s  %s\n", is_picked ? "->" : "  ", w.name,
                     md_json_text_at(variant, "variant"), md_json_number_at(variant, "model_us"), distance, w.hints,
                     hints, *unfit ? unfit : "yes");
}

/* Called twice: to measure the columns, and to print. */
static void print_candidates(md_strbuf *out, const json_t *stage)
{
    const json_t *list = json_object_get(stage, "candidates");
    const size_t n = json_array_size(list);
    widths w = {9, 9}; /* of the headings */
    for (size_t i = 0; i < 2 * n; i++) {
        md_strbuf hints = {0};
        const json_t *x = json_array_get(list, i % n);
        const char *name = md_json_text_at(x, "variant");
        add_hints(&hints, x);
        out->failed |= hints.failed;
        w.name = MD_MAX(w.name, (int)strlen(name));
        w.hints = MD_MAX(w.hints, (int)hints.size);
        if (i == n)
            md_strbuf_printf(out, "      %-*s  %10s  %8s  %-*s  %s\n", w.name, "candidate", "model us", "distance",
                             w.hints, "from hint", "fits");
        if (i >= n)
            print_candidate(out, x, md_strbuf_text(&hints), !strcmp(name, md_json_text_at(stage, "pick")), w);
        md_strbuf_finish(&hints);
    }
}

static void print_pick(md_strbuf *out, const json_t *stage)
{
    const char *why = md_json_text_at(stage, "why"), *runner_up = md_json_text_at(stage, "runner_up");
    const json_t *us = json_object_get(stage, "us");
    md_strbuf_printf(out, "  pick: %s (%s)", md_json_text_at(stage, "pick"),
                     !strcmp(why, "stored")     ? "measured, stored by an earlier run"
                     : !strcmp(why, "imported") ? "imported by md_choices_import"
                                                : why);
    if (json_is_number(us))
        md_strbuf_printf(out, ", %.2f us", json_number_value(us));
    if (*runner_up)
        md_strbuf_printf(out, ", ahead of %s by %.2f%s", runner_up, md_json_number_at(stage, "margin"),
                         strcmp(md_json_text_at(stage, "margin_unit"), "time") ? " octaves" : " of its time");
    md_strbuf_add(out, "\n");
    if (*md_json_text_at(stage, "decides"))
        md_strbuf_printf(out, "  %s\n", md_json_text_at(stage, "decides"));
}

static void print_roof(md_strbuf *out, const json_t *roof)
{
    const double us = md_json_number_at(roof, "us"), model_us = md_json_number_at(roof, "model_us");
    if (json_is_object(roof))
        md_strbuf_printf(out,
                         "  roofline: %.3g us (%s), %.0f%% of it by the model; most is lost to this: %s (%.3g us)\n",
                         us, md_json_text_at(roof, "limit"), model_us > 0.0 ? 100.0 * us / model_us : 0.0,
                         md_json_text_at(roof, "reason"), md_json_number_at(roof, "lost_us"));
}

/* Where this machine calibrated itself: by what the times of the pick are multiplied. */
static void print_factor(md_strbuf *out, const json_t *stage)
{
    const json_t *x;
    size_t i;
    json_array_foreach(json_object_get(stage, "candidates"), i, x)
    {
        const double factor = md_json_number_at(x, "factor");
        if (factor != 1 && !strcmp(md_json_text_at(x, "variant"), md_json_text_at(stage, "pick")))
            md_strbuf_printf(
                out, "  its model times are multiplied by %.2f: what its family is off by on this machine\n", factor);
    }
}

static void print_stage(md_strbuf *out, size_t number, const json_t *stage)
{
    const char *numeric = md_json_text_at(stage, "numeric"), *class = md_json_text_at(stage, "numeric_class");
    const double additions = md_json_number_at(stage, "additions");
    md_strbuf_printf(out, "stage %zu: %s; %.4g MFLOP, %.4g MB", number, md_json_text_at(stage, "kind"),
                     md_json_number_at(stage, "flops") / 1e6, md_json_number_at(stage, "bytes") / 1e6);
    if (additions > 0.0)
        md_strbuf_printf(out, "; at most %.0f additions a term", additions);
    md_strbuf_add(out, "\n");
    if (strcmp(numeric, md_ds_numeric_name(MD_NUMERIC_FAST)) != 0)
        md_strbuf_printf(out, "  numeric policy %s: class %s serves this shape\n", numeric,
                         *class ? class : "of what is pinned");
    print_candidates(out, stage);
    if (*md_json_text_at(stage, "fused"))
        md_strbuf_printf(out, "  serves: %s\n", md_json_text_at(stage, "fused"));
    if (!strcmp(md_json_text_at(stage, "pick"), "idle")) {
        if (!*md_json_text_at(stage, "fused"))
            md_strbuf_add(out, "  idle: another stage serves\n");
        return;
    }
    print_pick(out, stage);
    print_factor(out, stage);
    print_roof(out, json_object_get(stage, "roof"));
    if (!strcmp(md_json_text_at(stage, "pick"), "reference"))
        md_strbuf_add(
            out, "  warning: no kernel could be built: the reference evaluator serves, slowly (the log says why)\n");
    else if (md_json_is(stage, "slow"))
        md_strbuf_add(out, "  warning: a plain loop nest serves this stage: it is slow; another way to write the "
                           "formula may fit a faster family\n");
    const json_t *chip;
    size_t i;
    json_array_foreach(json_object_get(stage, "times_of_other_chips"), i, chip) md_strbuf_printf(
        out, "  the model is corrected by %.0f times of %s; expected error %.0f%%\n", md_json_number_at(chip, "times"),
        md_json_text_at(chip, "chip"), 100 * md_json_number_at(chip, "expected_error"));
    if (md_json_is(stage, "lopsided"))
        md_strbuf_add(out,
                      "  note: diagonal hints cannot see lopsided shapes; give hints by dim, or MD_SELECT=model\n");
}

static void print_trial(md_strbuf *out, const json_t *trial)
{
    const json_t *list = json_object_get(trial, "variants");
    if (json_is_null(trial))
        return;
    md_strbuf_printf(out, "on trial%s: %d others, which served %lld calls; %lld switches, %lld demotions\n",
                     md_json_is(trial, "over") ? ", over for now" : "", (int)json_array_size(list) - 1,
                     md_json_integer_at(trial, "timed"), md_json_integer_at(trial, "switches"),
                     md_json_integer_at(trial, "demotions"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        const long long n = md_json_integer_at(x, "times");
        md_strbuf_printf(out, "  %-10s %s: expected %.2f",
                         i == 0                 ? "serves"
                         : md_json_is(x, "out") ? "out"
                         : n                    ? "races"
                                                : "waits",
                         md_json_text_at(x, "variant"), md_json_number_at(x, "expected"));
        if (n)
            md_strbuf_printf(out, ", took %.2f us (%lld times)", md_json_number_at(x, "us"), n);
        if (md_json_number_at(x, "beside_us") > 0.0)
            md_strbuf_printf(out, ", beside calls %.2f us", md_json_number_at(x, "beside_us"));
        md_strbuf_add(out, "\n");
    }
}

void md_ss_explain_print(md_strbuf *out, const json_t *j)
{
    const json_t *warnings = json_object_get(j, "warnings"), *stages = json_object_get(j, "stages");
    md_strbuf_printf(out, "%s: %s\nat %s, %.2f octaves from the nearest hint%s\n", md_json_text_at(j, "op"),
                     md_json_text_at(j, "formula"), md_json_text_at(j, "shape"), md_json_number_at(j, "nearest"),
                     md_json_is(j, "uncovered") ? ": no hint covers it" : "");
    for (size_t i = 0; i < json_array_size(warnings); i++)
        md_strbuf_printf(out, "warning: %s\n", json_string_value(json_array_get(warnings, i)));
    md_ss_orders_print(out, json_object_get(j, "orders"), "");
    if (md_json_is(j, "has_temporaries"))
        md_strbuf_printf(
            out, "memory of a call: %lld bytes at its peak for temporaries and workspace, %lld without sharing\n",
            md_json_integer_at(j, "memory_bytes"), md_json_integer_at(j, "unshared_bytes"));
    print_trial(out, json_object_get(j, "trial"));
    for (size_t s = 0; s < json_array_size(stages); s++)
        print_stage(out, s, json_array_get(stages, s));
}
