/* Reads results: files of one JSON object, or of one a line. */
#include "common/results.h"
#include "common/cli.h"

#include <stdlib.h>
#include <string.h>

const char *result_word(const json_t *line, const char *field)
{
    const char *text = json_string_value(json_object_get(line, field));
    return text ? text : "";
}

double result_number(const json_t *line, const char *field)
{
    return json_number_value(json_object_get(line, field));
}

void result_shape(char out[128], const json_t *line)
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

static bool has(const json_t *j, const char *field)
{
    return json_object_get(j, field) != NULL;
}

const char *result_dtype(const json_t *line)
{
    static const char *const names[][2] = {
        {"torch.bfloat16", "bf16"}, {"torch.float16", "f16"}, {"torch.float32", "f32"}};
    const char *said = result_word(line, "dtype");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(said, names[i][0]))
            return names[i][1];
    return said;
}

static result_kind kind_of(const json_t *j)
{
    return !strcmp(result_word(j, "bench"), "table")        ? RESULT_HINT
           : has(j, "best") && has(j, "best_us")            ? RESULT_REGRET
           : has(j, "peer") && result_number(j, "us") > 0.0 ? RESULT_TIME
           : has(j, "matrix") && has(j, "ops")              ? RESULT_DEMO
           : has(j, "shapes") && has(j, "complete")         ? RESULT_STATS
           : has(j, "ph") && has(j, "ts")                   ? RESULT_EVENT
                                                            : RESULT_OTHER;
}

static bool add(results *in, json_t *j)
{
    if (in->n == in->room) {
        const int room = in->room ? 2 * in->room : 256;
        result_line *more = realloc(in->line, (size_t)room * sizeof *more);
        if (!more)
            return false;
        in->line = more;
        in->room = room;
    }
    in->line[in->n] = (result_line){kind_of(j), j};
    in->count[in->line[in->n++].kind]++;
    return true;
}

/* PyTorch calls the first GPU cuda and the host cpu. */
static const char *device_of(const char *said)
{
    return !strcmp(said, "cuda") ? "cuda:0" : !strcmp(said, "cpu") ? "host" : said;
}

/* False after a message: a line says something else than those before it. */
static bool agrees(results *in, const char *path, const json_t *j)
{
    static const char *const field[RESULT_FACTS] = {"device", "hardware", "version"};
    for (int i = 0; i < RESULT_FACTS; i++) {
        const char *said = result_word(j, field[i]);
        if (i == RESULT_DEVICE)
            said = device_of(said);
        if (said[0] && in->fact[i][0] && strcmp(said, in->fact[i]))
            return cli_fail("%s: results of %s'%s' beside those of '%s'; give each %s a file", path,
                            i == RESULT_VERSION ? "version " : "", said, in->fact[i], field[i]),
                   false;
        if (said[0])
            snprintf(in->fact[i], sizeof in->fact[i], "%s", said);
    }
    return true;
}

/* The line belongs to `in` from here on. False after a message. */
static bool take(results *in, const char *path, json_t *j)
{
    if (!agrees(in, path, j)) {
        json_decref(j);
        return false;
    }
    if (add(in, j))
        return true;
    json_decref(j);
    return cli_fail("out of memory"), false;
}

/* A list of lines, or of a timeline's events, is taken one by one. */
static bool take_whole(results *in, const char *path, json_t *whole)
{
    const json_t *list = json_is_array(whole) ? whole : json_object_get(whole, "traceEvents");
    size_t i;
    json_t *line;
    bool ok = true;
    if (!json_is_array(list))
        return take(in, path, whole);
    json_array_foreach(list, i, line) ok = ok && take(in, path, json_incref(line));
    json_decref(whole);
    return ok;
}

/* Lines of a list that was cut off end with commas, and its brackets stand alone. */
static bool is_punctuation(char *text)
{
    size_t n = strlen(text);
    while (n && strchr(", \t\r\n", text[n - 1]))
        text[--n] = 0;
    return !n || !strcmp(text, "[") || !strcmp(text, "]");
}

static bool read_lines(results *in, const char *path, FILE *f)
{
    char *text = NULL;
    size_t room = 0;
    bool ok = true;
    int n_cut = 0;
    while (ok && getline(&text, &room, f) > 0) {
        json_t *j = is_punctuation(text) ? NULL : json_loads(text, 0, NULL);
        if (json_is_object(j))
            ok = take(in, path, j);
        else
            n_cut += !is_punctuation(text);
    }
    free(text);
    if (ferror(f)) /* a folder, say */
        return cli_fail("cannot read '%s'", path), false;
    if (n_cut)
        cli_fail("%s: %d lines are no JSON, left out", path, n_cut);
    return ok;
}

bool results_read(results *in, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_fail("cannot read '%s'", path), false;
    json_t *whole = json_loadf(f, 0, NULL);
    rewind(f);
    const bool ok = whole ? take_whole(in, path, whole) : read_lines(in, path, f);
    fclose(f);
    return ok;
}

void results_free(results *in)
{
    for (int i = 0; i < in->n; i++)
        json_decref(in->line[i].json);
    free(in->line);
}
