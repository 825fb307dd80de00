/* What each way of picking loses to the fastest variant, over many shapes. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_name[] = {"model", "distance", "measure", "hybrid", "idle", "default", "hinted"};
enum { MODES = sizeof mode_name / sizeof *mode_name };

typedef struct losses {
    int n;
    double *of;
} losses;

static losses losses_of(const results *in, const char *mode, const char *op, const char *dtype)
{
    losses out = {.of = calloc((size_t)in->count[RESULT_REGRET] + 1, sizeof *out.of)};
    for (int i = 0; out.of && i < in->n; i++) {
        const json_t *j = in->line[i].json, *said = json_object_get(j, mode);
        if (in->line[i].kind == RESULT_REGRET && said && (!op || !strcmp(op, result_word(j, "op"))) &&
            (!dtype || !strcmp(dtype, result_dtype(j)))) {
            const double loss = result_number(said, "regret");
            out.of[out.n++] = loss > 0.0 ? loss : 0.0;
        }
    }
    return out;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share_within(const losses *l, double limit)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += l->of[i] <= limit;
    return (double)n / l->n;
}

static void write_losses(page *p, const char *name, losses *l)
{
    double sum = 0.0;
    qsort(l->of, (size_t)l->n, sizeof *l->of, by_value);
    for (int i = 0; i < l->n; i++)
        sum += l->of[i];
    page_row(p, name);
    page_cell(p, -1.0, "%d", l->n);
    page_cell(p, 1.0 / (1.0 + 5.0 * sum / l->n), "%.2f%%", 100.0 * sum / l->n);
    page_cell(p, 1.0 / (1.0 + l->of[l->n - 1]), "%.0f%%", 100.0 * l->of[l->n - 1]);
    page_cell(p, share_within(l, 0.01), "%.1f%%", 100.0 * share_within(l, 0.01));
    page_cell(p, share_within(l, 0.05), "%.1f%%", 100.0 * share_within(l, 0.05));
}

/* Of all ops (op NULL), or of one. */
static void write_modes(page *p, const results *in, const char *op, const char *dtype)
{
    static const char *const column[] = {"picked by", "shapes", "mean loss", "worst", "within 1%", "within 5%"};
    char caption[128];
    snprintf(caption, sizeof caption, "%s%s%s", op ? op : "all ops", op ? ", " : "", op ? dtype : "");
    page_table(p, caption, column, 6);
    for (int m = 0; m < MODES; m++) {
        losses l = losses_of(in, mode_name[m], op, dtype);
        if (l.n)
            write_losses(p, mode_name[m], &l);
        free(l.of);
    }
    page_table_end(p);
}

static void write_curves(page *p, const results *in)
{
    char *script = NULL;
    size_t size = 0;
    const char *separator = "plot ";
    FILE *to = open_memstream(&script, &size);
    if (!to)
        return;
    for (int m = 0; m < MODES; m++) {
        losses l = losses_of(in, mode_name[m], NULL, NULL);
        if (l.n) {
            qsort(l.of, (size_t)l.n, sizeof *l.of, by_value);
            fprintf(to, "$%s << EOD\n", mode_name[m]);
            for (int i = 0; i < l.n; i++)
                fprintf(to, "%g %g\n", 100.0 * l.of[i] + 0.01, 100.0 * (i + 1) / l.n);
            fputs("EOD\n", to);
        }
        free(l.of);
    }
    fputs("set logscale x\nset xrange [0.1:]\nset xlabel 'loss to the fastest variant, percent'\nset ylabel 'percent "
          "of shapes within it'\n",
          to);
    for (int m = 0; m < MODES; m++) {
        losses l = losses_of(in, mode_name[m], NULL, NULL);
        if (l.n) {
            fprintf(to, "%s$%s with steps lw 2 title '%s'", separator, mode_name[m], mode_name[m]);
            separator = ", ";
        }
        free(l.of);
    }
    fputs("\n", to);
    fclose(to);
    page_plot(p, "How many shapes lose at most so much, by way of picking", script);
    free(script);
}

void report_regret(page *p, const results *in)
{
    if (in->count[RESULT_REGRET] == 0)
        return;
    page_section(p, "Picks", "What each way of picking loses to the fastest variant that was timed at the shape.");
    write_curves(p, in);
    write_modes(p, in, NULL, NULL);
    for (int i = 0; i < in->n; i++) {
        bool is_first = in->line[i].kind == RESULT_REGRET;
        for (int k = 0; k < i && is_first; k++)
            is_first = in->line[k].kind != RESULT_REGRET ||
                       strcmp(result_word(in->line[k].json, "op"), result_word(in->line[i].json, "op")) != 0 ||
                       strcmp(result_dtype(in->line[k].json), result_dtype(in->line[i].json)) != 0;
        if (is_first)
            write_modes(p, in, result_word(in->line[i].json, "op"), result_dtype(in->line[i].json));
    }
}
