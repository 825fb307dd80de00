/* Results that are one line a row: first calls, costs of calls, passes of steps, attention, models. */
#include "report/report.h"

#include <string.h>

enum { MOST_WORDS = 6, MOST_VALUES = 5, MOST_ROWS = 400 };

/* A kind of line: it has all fields of `words` and `values` whose names do not begin with '?', and becomes a row. */
typedef struct kind {
    const char *heading, *meaning;
    const char *words[MOST_WORDS]; /* fields that name the row: texts or numbers */
    struct {
        const char *field, *title;
        int decimals; /* below 0: so many significant digits */
    } values[MOST_VALUES];
    const char *if_field, *if_word; /* only where this field says so; NULL: all */
} kind;

static const kind kinds[] = {
    {"Models",
     "Whole models by torch.compile: the time of all batches once warm, and the first call with its compiling.",
     {"model", "way", "?dtype"},
     {{"sum_ms", "ms", 2},
      {"first_s", "first call, s", 2},
      {"others_s", "first calls of the other shapes, s", 2},
      {"?worst", "largest error", -2}},
     NULL,
     NULL},
    {"Training steps",
     "Forward, loss and backward of whole models.",
     {"model", "way", "?dtype"},
     {{"median_ms", "ms, median", 3}, {"min_ms", "least", 3}, {"?steps", "steps", 0}},
     NULL,
     NULL},
    {"Passes of steps with changing sizes",
     "The same steps again and again: the first pass meets all sizes for the first time.",
     {"?run", "what", "pass"},
     {{"total_ms", "ms", 1},
      {"p50", "a step, median us", 1},
      {"?p99", "99%", 1},
      {"max", "worst", 1},
      {"?host_p50", "of the host, median us", 1}},
     NULL,
     NULL},
    {"Passes of a trace",
     "A model under the batch sizes of a trace, pass by pass.",
     {"way", "pass"},
     {{"total_ms", "ms", 1}, {"median_ms", "a step, median ms", 3}, {"worst_ms", "worst", 2}, {"?graphs", "graphs", 0}},
     NULL,
     NULL},
    {"First calls",
     "What the first call takes, compiling and all.",
     {"way"},
     {{"first_s", "s", 2}, {"difference", "difference to eager", -2}},
     NULL,
     NULL},
    {"First calls of new shapes",
     "What a shape that was not met before adds to its first call.",
     {"case"},
     {{"over_warm_us_p50", "us, median", 1},
      {"p90", "90%", 1},
      {"p99", "99%", 1},
      {"max", "worst", 1},
      {"n", "shapes", 0}},
     NULL,
     NULL},
    {"Cost of a call",
     "What a repeated call takes over the bare launch of its kernel, in pairs.",
     {"case", "?what"},
     {{"over_ns", "ns over the launch", 0}, {"lo", "from", 0}, {"hi", "to", 0}, {"raw_ns", "the launch, ns", 0}},
     NULL,
     NULL},
    {"Calls from Python",
     "Host time of a call, beside PyTorch's.",
     {"name", "unit"},
     {{"median", "median", -3}, {"least", "least", -3}},
     "part",
     "calls"},
    {"Attention",
     "By kind and sizes; the fastest of a shape is what counts.",
     {"kind", "b", "q", "k", "backend"},
     {{"us", "us", 2}, {"tflops", "TFLOP/s", 1}, {"?gbps", "GB/s", 0}},
     NULL,
     NULL},
    {"Lists of tensors",
     "A list as one launch beside a call for each item.",
     {"op", "items"},
     {{"combo_us", "us, one launch", 1}, {"calls_us", "us, single calls", 1}, {"ratio", "ratio", 2}},
     NULL,
     NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *name_of(const char *field)
{
    return field + (*field == '?');
}

static bool has_all(const json_t *line, const kind *k)
{
    bool ok = !k->if_field || !strcmp(result_word(line, k->if_field), k->if_word);
    for (int i = 0; i < MOST_WORDS && k->words[i] && ok; i++)
        ok = *k->words[i] == '?' || json_object_get(line, k->words[i]) != NULL;
    for (int i = 0; i < MOST_VALUES && k->values[i].field && ok; i++)
        ok = *k->values[i].field == '?' || json_is_number(json_object_get(line, k->values[i].field));
    return ok;
}

/* "bf16", "3" or "" */
static void word_of(char out[96], const json_t *line, const char *field)
{
    const json_t *value = json_object_get(line, name_of(field));
    out[0] = 0;
    if (json_is_string(value))
        snprintf(out, 96, "%s", json_string_value(value));
    else if (json_is_number(value))
        snprintf(out, 96, "%.10g", json_number_value(value));
}

static void begin_table(page *p, const kind *k)
{
    const char *column[MOST_WORDS + MOST_VALUES];
    int n = 0;
    for (int i = 0; i < MOST_WORDS && k->words[i]; i++)
        column[n++] = name_of(k->words[i]);
    for (int i = 0; i < MOST_VALUES && k->values[i].field; i++)
        column[n++] = k->values[i].title;
    page_section(p, k->heading, k->meaning);
    page_table(p, k->heading, column, n);
}

static void write_row(page *p, const kind *k, const json_t *line)
{
    char text[96];
    word_of(text, line, k->words[0]);
    page_row(p, text);
    for (int i = 1; i < MOST_WORDS && k->words[i]; i++) {
        word_of(text, line, k->words[i]);
        page_cell(p, -1.0, "%s", text);
    }
    for (int i = 0; i < MOST_VALUES && k->values[i].field; i++) {
        const json_t *value = json_object_get(line, name_of(k->values[i].field));
        const int decimals = k->values[i].decimals;
        if (json_is_number(value) && decimals < 0)
            page_cell(p, -1.0, "%.*g", -decimals, json_number_value(value));
        else if (json_is_number(value))
            page_cell(p, -1.0, "%.*f", decimals, json_number_value(value));
        else
            page_cell(p, -1.0, "-");
    }
}

/* Of several kinds that a line could be, the first. */
static const kind *kind_of(const json_t *line)
{
    for (int i = 0; i < KINDS; i++)
        if (has_all(line, &kinds[i]))
            return &kinds[i];
    return NULL;
}

bool report_is_row(const json_t *line)
{
    return kind_of(line) != NULL;
}

void report_tables(page *p, const results *in)
{
    for (int k = 0; k < KINDS; k++) {
        int n = 0;
        for (int i = 0; i < in->n && n < MOST_ROWS; i++) {
            if (in->line[i].kind != RESULT_OTHER || kind_of(in->line[i].json) != &kinds[k])
                continue;
            if (n++ == 0)
                begin_table(p, &kinds[k]);
            write_row(p, &kinds[k], in->line[i].json);
        }
        if (n)
            page_table_end(p);
    }
}
