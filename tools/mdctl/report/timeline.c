/* A timeline from events of Chrome's trace format: MD_TRACE, or a profiler's of a step. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BARS = 3000, MOST_LANES = 24, MOST_KINDS = 16, TEXT = 160 };

typedef struct timeline {
    int n, n_lanes, n_kinds;
    page_bar bar[MOST_BARS];
    char text[MOST_BARS][TEXT];
    json_int_t lane[MOST_LANES]; /* thread or stream */
    const char *kind[MOST_KINDS];
} timeline;

/* -1: there is no room for another lane. */
static int lane_of(timeline *t, json_int_t thread)
{
    int i = 0;
    while (i < t->n_lanes && t->lane[i] != thread)
        i++;
    if (i == t->n_lanes && i < MOST_LANES)
        t->lane[t->n_lanes++] = thread;
    return i < MOST_LANES ? i : -1;
}

static int kind_of(timeline *t, const char *kind)
{
    int i = 0;
    while (i < t->n_kinds && strcmp(t->kind[i], kind) != 0)
        i++;
    if (i == t->n_kinds && i < MOST_KINDS)
        t->kind[t->n_kinds++] = kind;
    return i < MOST_KINDS ? i : MOST_KINDS - 1;
}

static void add_event(timeline *t, const json_t *event)
{
    const double from = result_number(event, "ts"), us = result_number(event, "dur");
    const int lane = us > 0.0 && t->n < MOST_BARS ? lane_of(t, json_integer_value(json_object_get(event, "tid"))) : -1;
    if (lane < 0)
        return;
    const int kind = kind_of(t, result_word(event, "cat"));
    snprintf(t->text[t->n], TEXT, "%.100s: %.2f us", result_word(event, "name"), us);
    t->bar[t->n] = (page_bar){from, from + us, lane, kind, t->text[t->n]};
    t->n++;
}

void report_timeline(page *p, const results *in)
{
    char label[96];
    timeline *t = in->count[RESULT_EVENT] ? calloc(1, sizeof *t) : NULL;
    for (int i = 0; t && i < in->n; i++)
        if (in->line[i].kind == RESULT_EVENT)
            add_event(t, in->line[i].json);
    if (t && t->n) {
        page_section(p, "Timeline",
                     "What ran when: a lane for each thread or stream, a colour for each category. Pointing at a bar "
                     "names it.");
        snprintf(label, sizeof label, "%d of %d events", t->n, in->count[RESULT_EVENT]);
        page_draw_bars(p, label, "us", t->bar, t->n);
    }
    free(t);
}
