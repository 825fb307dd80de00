/* Reads lines of JSON with times. A line that is none is counted and left out: a run may have ended in the middle. */
#include "common/recorded.h"
#include "common/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void copy_text(char *to, size_t n, const json_t *from)
{
    snprintf(to, n, "%s", json_is_string(from) ? json_string_value(from) : "");
}

static void copy_shape(char to[96], const json_t *shape)
{
    size_t i;
    json_t *size;
    to[0] = 0;
    json_array_foreach(shape, i, size)
        snprintf(to + strlen(to), 96 - strlen(to), "%s%lld", i ? ", " : "", (long long)json_integer_value(size));
}

static bool is_same_case(const recorded_line *a, const recorded_line *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->dtype, b->dtype) && !strcmp(a->shape, b->shape);
}

/* "torch.bfloat16" of the judges is bf16. */
static void copy_dtype(char to[16], const json_t *from)
{
    static const char *const names[][2] = {
        {"torch.bfloat16", "bf16"}, {"torch.float16", "f16"}, {"torch.float32", "f32"}};
    copy_text(to, 16, from);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(to, names[i][0]))
            snprintf(to, 16, "%s", names[i][1]);
}

static bool line_of(recorded_line *out, const json_t *j)
{
    const json_t *us = json_object_get(j, "us"), *lo = json_object_get(j, "lo"), *hi = json_object_get(j, "hi");
    memset(out, 0, sizeof *out);
    if (!json_is_number(us) || !json_is_string(json_object_get(j, "op")) || !json_is_array(json_object_get(j, "shape")))
        return false;
    copy_text(out->op, sizeof out->op, json_object_get(j, "op"));
    copy_dtype(out->dtype, json_object_get(j, "dtype"));
    copy_text(out->peer, sizeof out->peer, json_object_get(j, "peer"));
    copy_text(out->variant, sizeof out->variant, json_object_get(j, "variant"));
    copy_shape(out->shape, json_object_get(j, "shape"));
    out->us = json_number_value(us);
    out->lo = json_is_number(lo) ? json_number_value(lo) : out->us;
    out->hi = json_is_number(hi) ? json_number_value(hi) : out->us;
    out->bytes = json_number_value(json_object_get(j, "bytes"));
    return out->us > 0.0;
}

static bool add_line(recorded *r, const recorded_line *line)
{
    if (r->n == r->room) {
        const int room = r->room ? 2 * r->room : 256;
        recorded_line *more = realloc(r->line, (size_t)room * sizeof *more);
        if (!more)
            return false;
        r->line = more;
        r->room = room;
    }
    r->line[r->n] = *line;
    r->line[r->n].is_pick = !strcmp(line->peer, "md") && !recorded_pick(r, line);
    r->n++;
    return true;
}

/* False after a message. */
static bool take(recorded *r, const char *path, int number, const json_t *j)
{
    char device[64];
    recorded_line line;
    if (!line_of(&line, j)) {
        r->n_other++;
        return true;
    }
    copy_text(device, sizeof device, json_object_get(j, "device"));
    if (device[0] && r->device[0] && strcmp(device, r->device)) {
        cli_fail("%s:%d: times of '%s' among those of '%s'; give each device a file", path, number, device, r->device);
        return false;
    }
    if (device[0])
        memcpy(r->device, device, sizeof device);
    return add_line(r, &line) || (cli_fail("out of memory"), false);
}

bool recorded_read(recorded *out, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    bool ok = true;
    memset(out, 0, sizeof *out);
    FILE *f = fopen(path, "r");
    if (!f)
        return cli_fail("cannot read '%s'", path), false;
    for (int number = 1; ok && getline(&text, &room, f) > 0; number++) {
        json_t *j = json_loads(text, 0, NULL);
        ok = take(out, path, number, j);
        json_decref(j);
    }
    free(text);
    fclose(f);
    if (ok && out->n == 0)
        ok = (cli_fail("'%s' holds no times", path), false);
    if (!ok)
        recorded_free(out);
    return ok;
}

void recorded_free(recorded *r)
{
    free(r->line);
    *r = (recorded){0};
}

const recorded_line *recorded_pick(const recorded *r, const recorded_line *like)
{
    for (int i = 0; i < r->n; i++)
        if (r->line[i].is_pick && is_same_case(&r->line[i], like))
            return &r->line[i];
    return NULL;
}
