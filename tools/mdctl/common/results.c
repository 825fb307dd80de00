/* Reads results: files of one JSON object, or of one a line. */
#include "common/cli.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

const char *report_word(const json_t *line, const char *field)
{
    const char *text = json_string_value(json_object_get(line, field));
    return text ? text : "";
}

double report_number(const json_t *line, const char *field)
{
    return json_number_value(json_object_get(line, field));
}

void report_shape(char out[128], const json_t *line)
{
    size_t i;
    json_t *size;
    const json_t *shape = json_object_get(line, "shape");
    const char *name;
    snprintf(out, 128, "%s", json_is_string(shape) ? json_string_value(shape) : "");
    json_object_foreach(json_object_get(line, shape ? "" : "sizes"), name, size) snprintf(
        out + strlen(out), 128 - strlen(out), "%s%lld", out[0] ? " x " : "", (long long)json_integer_value(size));
    json_array_foreach(shape, i, size)
        snprintf(out + strlen(out), 128 - strlen(out), "%s%lld", i ? " x " : "", (long long)json_integer_value(size));
}

void report_family(char out[64], const char *variant)
{
    snprintf(out, 64, "%.*s", (int)strcspn(variant, "/ "), variant);
}

static bool has(const json_t *j, const char *field)
{
    return json_object_get(j, field) != NULL;
}

static report_kind kind_of(const json_t *j)
{
    return !strcmp(report_word(j, "bench"), "table")                                                     ? REPORT_HINT
           : has(j, "best_us") && has(j, "rivals") + has(j, "model") + has(j, "hybrid") + has(j, "idle") ? REPORT_REGRET
           : has(j, "peer") && report_number(j, "us") > 0.0                                              ? REPORT_TIME
           : has(j, "matrix") && has(j, "ops")                                                           ? REPORT_DEMO
           : has(j, "shapes") && has(j, "complete")                                                      ? REPORT_STATS
                                                                                                         : REPORT_OTHER;
}

static bool add(report_input *in, json_t *j)
{
    if (in->n == in->room) {
        const int room = in->room ? 2 * in->room : 256;
        report_line *more = realloc(in->line, (size_t)room * sizeof *more);
        if (!more)
            return false;
        in->line = more;
        in->room = room;
    }
    in->line[in->n] = (report_line){kind_of(j), j};
    in->count[in->line[in->n++].kind]++;
    return true;
}

/* The line belongs to `in` from here on. False after a message. */
static bool take(report_input *in, const char *path, json_t *j)
{
    const char *device = report_word(j, "device");
    if (device[0] && in->device[0] && strcmp(device, in->device)) {
        cli_fail("%s: results of '%s' beside those of '%s'; make a page of each", path, device, in->device);
        json_decref(j);
        return false;
    }
    if (device[0])
        snprintf(in->device, sizeof in->device, "%s", device);
    if (add(in, j))
        return true;
    json_decref(j);
    return cli_fail("out of memory"), false;
}

static bool read_lines(report_input *in, const char *path, FILE *f)
{
    char *text = NULL;
    size_t room = 0;
    bool ok = true;
    int n_cut = 0;
    while (ok && getline(&text, &room, f) > 0) {
        json_t *j = json_loads(text, 0, NULL);
        if (j)
            ok = take(in, path, j);
        else
            n_cut += text[strspn(text, " \t\r\n")] != 0;
    }
    free(text);
    if (n_cut)
        cli_fail("%s: %d lines are no JSON, left out", path, n_cut);
    return ok;
}

bool report_read(report_input *in, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_fail("cannot read '%s'", path), false;
    json_t *whole = json_loadf(f, 0, NULL);
    rewind(f);
    const bool ok = whole ? take(in, path, whole) : read_lines(in, path, f);
    fclose(f);
    return ok;
}

void report_free(report_input *in)
{
    for (int i = 0; i < in->n; i++)
        json_decref(in->line[i].json);
    free(in->line);
}
