/* A program's own statistics: where its time goes, what was picked, how near to the roofline that is, what was on
 * trial. */
#include "common/explained.h"
#include "report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40 };

static int by_time(const void *a, const void *b)
{
    const double x = result_number(*(json_t *const *)a, "total_us"), y = result_number(*(json_t *const *)b, "total_us");
    return (x < y) - (x > y);
}

/* The shapes of a program, the one with the most time first. */
typedef struct shapes {
    size_t n;
    json_t **of;
    double us, uncovered_us; /* of all, and of those that no hint covers */
} shapes;

static bool is_uncovered(const json_t *shape)
{
    return json_is_true(json_object_get(shape, "uncovered"));
}

static shapes shapes_of(const json_t *stats)
{
    const json_t *list = json_object_get(stats, "shapes");
    shapes out = {.n = json_array_size(list), .of = calloc(json_array_size(list) + 1, sizeof *out.of)};
    for (size_t i = 0; i < out.n && out.of; i++) {
        out.of[i] = json_array_get(list, i);
        out.us += result_number(out.of[i], "total_us");
        out.uncovered_us += is_uncovered(out.of[i]) ? result_number(out.of[i], "total_us") : 0.0;
    }
    if (out.of)
        qsort(out.of, out.n, sizeof *out.of, by_time);
    return out;
}

static void write_part(page *p, double us, double of_us)
{
    page_cell(p, -1.0, "%.1f%%", of_us > 0.0 ? 100.0 * us / of_us : 0.0);
}

static void write_roof(page *p, const json_t *shape)
{
    const roofline roof = roofline_of(json_object_get(shape, "stages"));
    const double us = result_number(shape, "us"), part = us > 0.0 ? roof.us / us : 0.0;
    if (part > 0.0)
        page_cell(p, fmin(part, 1.0), "%.0f%% of %s", 100.0 * part, roof.limit);
    else
        page_cell(p, -1.0, "-");
    page_cell(p, -1.0, "%s", roof.reason[0] ? roof.reason : "-");
}

/* The first that runs. */
static const json_t *stage_of(const json_t *shape)
{
    size_t i;
    const json_t *stages = json_object_get(shape, "stages"), *stage;
    json_array_foreach(stages, i, stage) if (strcmp(result_word(stage, "variant"), "idle") != 0) return stage;
    return NULL;
}

static void write_shape(page *p, const json_t *shape, double all_us)
{
    const json_t *stage = stage_of(shape);
    page_row(p, result_word(shape, "op"));
    page_cell(p, -1.0, "%s", result_word(shape, "shape"));
    page_cell(p, -1.0, "%.0f", result_number(shape, "calls"));
    page_cell(p, -1.0, "%.2f (%s)", result_number(shape, "us"), result_word(shape, "time"));
    write_part(p, result_number(shape, "total_us"), all_us);
    page_cell(p, -1.0, "%s (%s)", result_word(stage, "variant"), result_word(stage, "why"));
    if (result_word(stage, "runner_up")[0])
        page_cell(p, -1.0, "%s, %.1f%% behind", result_word(stage, "runner_up"),
                  100.0 * result_number(stage, "margin"));
    else
        page_cell(p, -1.0, "none");
    write_roof(p, shape);
}

static void write_shapes(page *p, const shapes *all)
{
    static const char *const column[] = {"op",        "sizes",           "calls",
                                         "us a call", "of all time",     "variant (why)",
                                         "runner-up", "of the roofline", "what costs most beyond it, by the model"};
    char caption[96];
    const size_t shown = all->n < MOST_ROWS ? all->n : MOST_ROWS;
    snprintf(caption, sizeof caption, "%zu of %zu shapes, by time", shown, all->n);
    page_table(p, caption, column, 9);
    for (size_t i = 0; i < shown; i++)
        write_shape(p, all->of[i], all->us);
    page_table_end(p);
}

static double us_of_op(const shapes *all, const char *op)
{
    double us = 0.0;
    for (size_t i = 0; i < all->n; i++)
        us += strcmp(result_word(all->of[i], "op"), op) ? 0.0 : result_number(all->of[i], "total_us");
    return us;
}

/* Ops of one name are told apart by their hints; shapes name the op only. */
static bool has_name_before(const json_t *ops, size_t at)
{
    bool is_found = false;
    for (size_t i = 0; i < at && !is_found; i++)
        is_found = !strcmp(result_word(json_array_get(ops, i), "op"), result_word(json_array_get(ops, at), "op"));
    return is_found;
}

static void write_time(page *p, const json_t *ops, size_t at, const shapes *all)
{
    if (has_name_before(ops, at)) {
        page_cell(p, -1.0, "above");
        page_cell(p, -1.0, "above");
        return;
    }
    const double us = us_of_op(all, result_word(json_array_get(ops, at), "op"));
    page_cell(p, -1.0, "%.3f", us / 1e3);
    write_part(p, us, all->us);
}

static void write_ops(page *p, const json_t *ops, const shapes *all)
{
    static const char *const column[] = {"op",    "formula",       "ms",      "of all time", "shapes",  "variants",
                                         "calls", "found at once", "evicted", "on trial",    "switched"};
    size_t i;
    json_t *op;
    page_table(p, "Time by op", column, 11);
    json_array_foreach(ops, i, op)
    {
        const json_t *counts = json_object_get(op, "counts");
        const double calls = result_number(counts, "calls"), hits = result_number(counts, "hits");
        page_row(p, result_word(op, "op"));
        page_cell(p, -1.0, "%.100s", result_word(op, "formula"));
        write_time(p, ops, i, all);
        page_cell(p, -1.0, "%.0f", result_number(op, "shapes"));
        page_cell(p, -1.0, "%.0f", result_number(op, "variants"));
        page_cell(p, -1.0, "%.0f", calls);
        page_cell(p, calls > 0.0 ? hits / calls : -1.0, "%.1f%%", calls > 0.0 ? 100.0 * hits / calls : 0.0);
        page_cell(p, -1.0, "%.0f", result_number(counts, "evictions"));
        page_cell(p, -1.0, "%.0f", result_number(counts, "trials"));
        page_cell(p, -1.0, "%.0f", result_number(counts, "switches"));
    }
    page_table_end(p);
}

static void write_uncovered(page *p, const shapes *all)
{
    static const char *const column[] = {"op", "sizes", "of all time", "octaves to the nearest hint"};
    char caption[128];
    int n = 0;
    snprintf(caption, sizeof caption, "Shapes that no hint covers: %.1f%% of the time",
             all->us > 0.0 ? 100.0 * all->uncovered_us / all->us : 0.0);
    for (size_t i = 0; i < all->n && n < MOST_ROWS; i++) {
        if (!is_uncovered(all->of[i]))
            continue;
        if (n++ == 0)
            page_table(p, caption, column, 4);
        page_row(p, result_word(all->of[i], "op"));
        page_cell(p, -1.0, "%s", result_word(all->of[i], "shape"));
        write_part(p, result_number(all->of[i], "total_us"), all->us);
        page_cell(p, -1.0, "%.1f", result_number(all->of[i], "nearest"));
    }
    if (n)
        page_table_end(p);
    else
        page_paragraph(p, "A hint covers every shape.");
}

static void write_trials(page *p, const shapes *all)
{
    static const char *const column[] = {"op",          "sizes",    "serves",    "rivals",
                                         "their calls", "switches", "demotions", "over"};
    int n = 0;
    for (size_t i = 0; i < all->n && n < MOST_ROWS; i++) {
        const json_t *trial = json_object_get(all->of[i], "trial");
        if (!json_is_object(trial))
            continue;
        if (n++ == 0)
            page_table(p, "On trial (hybrid)", column, 8);
        page_row(p, result_word(all->of[i], "op"));
        page_cell(p, -1.0, "%s", result_word(all->of[i], "shape"));
        page_cell(p, -1.0, "%s", result_word(stage_of(all->of[i]), "variant"));
        page_cell(p, -1.0, "%.0f", result_number(trial, "rivals"));
        page_cell(p, -1.0, "%.0f", result_number(trial, "timed"));
        page_cell(p, -1.0, "%.0f", result_number(trial, "switches"));
        page_cell(p, -1.0, "%.0f", result_number(trial, "demotions"));
        page_cell(p, -1.0, "%s", json_is_true(json_object_get(trial, "over")) ? "yes" : "no");
    }
    if (n)
        page_table_end(p);
}

void report_stats(page *p, const results *in)
{
    for (int i = 0; i < in->n; i++) {
        const json_t *stats = in->line[i].json;
        if (in->line[i].kind != RESULT_STATS)
            continue;
        shapes all = shapes_of(stats);
        if (!all.of)
            continue;
        page_section(p, "A program's calls",
                     "Where its time goes, what was picked and why, and which part of the roofline that reaches: the "
                     "least time for the shape's bytes or operations on this device over the time of a call.");
        write_ops(p, json_object_get(stats, "ops"), &all);
        write_shapes(p, &all);
        write_uncovered(p, &all);
        report_suggested(p, stats);
        write_trials(p, &all);
        free(all.of);
    }
}
