/* What other hints would bring a program, by the model: where its statistics come from such a device as is here. */
#include "common/cli.h"
#include "common/device.h"
#include "common/met.h"
#include "report/report.h"

#include <string.h>

typedef struct suggestion {
    json_t *json; /* owned; NULL: none */
} suggestion;

static int keep(void *user, const char *text, size_t n_bytes)
{
    suggestion *s = user;
    json_decref(s->json);
    s->json = json_loadb(text, n_bytes, 0, NULL);
    return s->json == NULL;
}

/* A context on such a device as the statistics say; NULL where there is none here. */
static md_context *context_like(const json_t *stats)
{
    const char *const device = result_word(stats, "device");
    md_context *context = NULL;
    if (!device[0] || md_context_create(&context, &(md_context_options){.device = device, .log = cli_log}) != MD_OK)
        return NULL;
    const cli_device here = device_of(context);
    if (strcmp(here.hardware, result_word(stats, "hardware")) != 0)
        md_context_destroy(&context);
    return context;
}

static void write_suggestion(page *p, const char *op, const json_t *found)
{
    const json_t *today = json_object_get(found, "today"), *suggested = json_object_get(found, "suggested");
    page_row(p, op);
    page_cell(p, -1.0, "%.2f%% (%.1f%%)", 100.0 * result_number(today, "mean_regret"),
              100.0 * result_number(today, "worst_regret"));
    page_cell(p, -1.0, "%.2f%% (%.1f%%)", 100.0 * result_number(suggested, "mean_regret"),
              100.0 * result_number(suggested, "worst_regret"));
    page_cell(p, -1.0, "%s", result_word(found, "hints"));
}

static void suggest(page *p, md_context *context, const json_t *stats, const json_t *op)
{
    met shapes = {0};
    suggestion found = {0};
    md_op_options options = {0};
    met_collect(&shapes, stats, result_word(op, "op"), false);
    met_options(&options, op);
    const md_suggest_options asked = {shapes.shape, shapes.n, 0, 1, keep, &found};
    if (shapes.n && result_word(op, "hints")[0] &&
        md_hints_suggest(context, result_word(op, "formula"), &options, &asked) == MD_OK)
        write_suggestion(p, result_word(op, "op"), found.json);
    json_decref(found.json);
    met_finish(&shapes);
}

void report_suggested(page *p, const json_t *stats)
{
    static const char *const column[] = {"op", "loss with today's hints, mean (worst)", "with other hints",
                                         "these hints"};
    const json_t *ops = json_object_get(stats, "ops"), *op;
    md_context *context = context_like(stats);
    size_t i;
    if (!context) {
        page_paragraph(p, "What other hints would bring is known where these statistics come from: mdctl report or "
                          "mdctl hints suggest on that device.");
        return;
    }
    page_table(p, "What other hints would bring: the loss to the best kernel of each shape, by the model", column, 4);
    json_array_foreach(ops, i, op) if (!met_is_repeated(ops, i)) suggest(p, context, stats, op);
    page_table_end(p);
    md_context_destroy(&context);
}
