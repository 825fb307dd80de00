/* A program's own statistics: where its time goes, what was picked, and which shapes its hints do not cover. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 40 };

static int by_time(const void *a, const void *b)
{
    const double x = result_number(*(json_t *const *)a, "total_us"), y = result_number(*(json_t *const *)b, "total_us");
    return (x < y) - (x > y);
}

static double sum_of(json_t *const *shape, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += result_number(shape[i], "total_us");
    return sum;
}

static void write_shape(page *p, const json_t *shape, double all_us)
{
    const json_t *stage = json_array_get(json_object_get(shape, "stages"), 0);
    page_row(p, result_word(shape, "op"));
    page_cell(p, -1.0, "%s", result_word(shape, "shape"));
    page_cell(p, -1.0, "%.0f", result_number(shape, "calls"));
    page_cell(p, -1.0, "%.2f (%s)", result_number(shape, "us"), result_word(shape, "time"));
    page_cell(p, -1.0, "%.1f%%", all_us > 0.0 ? 100.0 * result_number(shape, "total_us") / all_us : 0.0);
    page_cell(p, -1.0, "%s (%s)", result_word(stage, "variant"), result_word(stage, "why"));
    if (result_word(stage, "runner_up")[0])
        page_cell(p, -1.0, "%s, %.1f%% behind", result_word(stage, "runner_up"),
                  100.0 * result_number(stage, "margin"));
    else
        page_cell(p, -1.0, "none");
    page_cell(p, json_is_true(json_object_get(shape, "uncovered")) ? 0.0 : -1.0, "%.1f%s",
              result_number(shape, "nearest"),
              json_is_true(json_object_get(shape, "uncovered")) ? ", not covered" : "");
}

static void write_shapes(page *p, json_t *const *shape, size_t n)
{
    static const char *const column[] = {"op",          "sizes",         "calls",     "us a call",
                                         "of all time", "variant (why)", "runner-up", "octaves to the next hint"};
    char caption[96];
    const double all_us = sum_of(shape, n);
    const size_t shown = n < MOST_ROWS ? n : MOST_ROWS;
    snprintf(caption, sizeof caption, "%zu of %zu shapes, by time", shown, n);
    page_table(p, caption, column, 8);
    for (size_t i = 0; i < shown; i++)
        write_shape(p, shape[i], all_us);
    page_table_end(p);
}

static void write_ops(page *p, const json_t *ops)
{
    static const char *const column[] = {"op",      "formula",  "shapes",  "variants", "calls", "found at once",
                                         "evicted", "on trial", "switched"};
    size_t i;
    json_t *op;
    page_table(p, "Ops", column, 9);
    json_array_foreach(ops, i, op)
    {
        const json_t *counts = json_object_get(op, "counts");
        const double calls = result_number(counts, "calls"), hits = result_number(counts, "hits");
        page_row(p, result_word(op, "op"));
        page_cell(p, -1.0, "%.100s", result_word(op, "formula"));
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

void report_stats(page *p, const results *in)
{
    for (int i = 0; i < in->n; i++) {
        const json_t *shapes = json_object_get(in->line[i].json, "shapes");
        const size_t n = json_array_size(shapes);
        json_t **sorted = in->line[i].kind == RESULT_STATS ? calloc(n + 1, sizeof *sorted) : NULL;
        if (!sorted)
            continue;
        for (size_t k = 0; k < n; k++)
            sorted[k] = json_array_get(shapes, k);
        qsort(sorted, n, sizeof *sorted, by_time);
        page_section(p, "A program's calls",
                     "Where its time goes, what was picked and why. mdctl hints suggest says which hints would cover "
                     "what is not covered.");
        write_shapes(p, sorted, n);
        write_ops(p, json_object_get(in->line[i].json, "ops"));
        free(sorted);
    }
}
