/* What mdctl demo found: one kernel for all sizes, and ways of picking over a trace. */
#include "report/report.h"

#include <math.h>
#include <string.h>

static double at(const json_t *build, size_t i)
{
    return json_number_value(json_array_get(json_object_get(build, "at"), i));
}

static double least_at(const json_t *builds, size_t i)
{
    size_t k;
    json_t *build;
    double least = INFINITY;
    json_array_foreach(builds, k, build) if (at(build, i) > 0.0) least = fmin(least, at(build, i));
    return least;
}

static void write_matrix(page *p, const json_t *matrix)
{
    enum { MOST = 16 };
    char size[MOST][32];
    const char *column[MOST + 1] = {"kernel"};
    const json_t *builds = json_object_get(matrix, "builds"), *sampled = json_object_get(matrix, "sampled");
    const size_t n = json_array_size(sampled) < MOST ? json_array_size(sampled) : MOST;
    size_t k;
    json_t *build;
    for (size_t i = 0; i < n; i++) {
        snprintf(size[i], sizeof size[i], "%lld tokens",
                 (long long)json_integer_value(json_array_get(json_array_get(sampled, i), 0)));
        column[i + 1] = size[i];
    }
    page_table(p, "One kernel for all sizes: time over the least at the size", column, (int)n + 1);
    json_array_foreach(builds, k, build)
    {
        page_row(p, result_word(build, "build"));
        for (size_t i = 0; i < n; i++)
            if (at(build, i) > 0.0)
                page_cell(p, least_at(builds, i) / at(build, i), "%.2f", at(build, i) / least_at(builds, i));
            else
                page_cell(p, -1.0, "does not fit");
    }
    page_table_end(p);
}

static void write_op(page *p, const json_t *op)
{
    static const char *const column[] = {"build", "us", "times the best kernel of each step"};
    const double best = result_number(op, "best_us");
    size_t k;
    json_t *build;
    page_table(p, result_word(op, "op"), column, 3);
    json_array_foreach(json_object_get(op, "builds"), k,
                       build) if (result_number(build, "samples") == result_number(op, "samples"))
    {
        page_row(p, result_word(build, "build"));
        page_cell(p, -1.0, "%.1f", result_number(build, "us"));
        page_cell(p, best / result_number(build, "us"), "%.3f", result_number(build, "us") / best);
    }
    page_table_end(p);
}

void report_demo(page *p, const results *in)
{
    size_t k;
    json_t *op;
    for (int i = 0; i < in->n; i++) {
        if (in->line[i].kind != RESULT_DEMO)
            continue;
        page_section(p, "A transformer block under changing batch sizes",
                     "Each hint's kernel at the other hints' sizes; then single kernels, single hints and ways of "
                     "picking over the steps of a trace.");
        write_matrix(p, json_object_get(in->line[i].json, "matrix"));
        json_array_foreach(json_object_get(in->line[i].json, "ops"), k, op) write_op(p, op);
    }
}
