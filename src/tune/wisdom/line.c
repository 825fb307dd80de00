/* Prints a record or a quarantine as a line of JSON, and reads one from any bytes. */
#include "tune/wisdom/line.h"

#include "base/json.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* By md_tune. */
static const char *const rigor_names[] = {"default", "off", "estimate", "measure", "exhaustive"};
enum { MAX_CANDIDATES = 100000, MAX_COUNT = 1 << 30 };

/* ---- Printing */

static void date_text(char out[32], int64_t date)
{
    struct tm when;
    const time_t seconds = (time_t)date;
    if (!gmtime_r(&seconds, &when) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &when) == 0)
        snprintf(out, 32, "1970-01-01T00:00:00Z");
}

static json_t *candidates_json(const md_tn_record *r)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < r->n_candidates; i++) {
        const md_tn_candidate *c = &r->candidate[i];
        list = md_json_add(list, json_pack("{s:o, s:s, s:f, s:f, s:i}", "name", md_json_text(c->name), "verdict",
                                           md_tn_verdict_name(c->verdict), "us", isfinite(c->us) ? c->us : 0.0,
                                           "spread", isfinite(c->spread) ? c->spread : 0.0, "count", (int)c->count));
    }
    return list;
}

/* The members that lines are sorted by come first. */
static json_t *record_json(const md_tn_record *r)
{
    char date[32];
    date_text(date, r->date);
    const int rigor = r->rigor >= 0 && r->rigor <= MD_TUNE_EXHAUSTIVE ? (int)r->rigor : 0;
    return json_pack("{s:o, s:o, s:o, s:s, s:b, s:f, s:f, s:i, s:s}", "key", md_json_text(r->key ? r->key : ""),
                     "family", md_json_text(r->family), "variant", md_json_text(r->variant), "rigor",
                     rigor_names[rigor], "complete", (int)r->is_complete, "us", r->us, "spread", r->spread, "count",
                     (int)r->count, "date", date);
}

static json_t *quarantine_json(const md_tn_line *line)
{
    return json_pack("{s:o, s:o}", "quarantine", md_json_text(line->why), "variant",
                     md_json_text(line->record.variant));
}

/* Source and origin, and what was compared last, because it is long. */
static bool add_rest(json_t *j, const md_tn_line *line)
{
    char source[33], environment[33];
    md_digest_text(source, line->record.source);
    md_digest_text(environment, line->origin.environment);
    return json_object_set_new(j, "source", json_string(source)) == 0 &&
           json_object_set_new(j, "device", md_json_text(line->origin.device)) == 0 &&
           json_object_set_new(j, "environment", json_string(environment)) == 0 &&
           (line->is_quarantine || json_object_set_new(j, "candidates", candidates_json(&line->record)) == 0);
}

void md_tn_line_print(md_strbuf *out, const md_tn_line *line)
{
    json_t *j = line->is_quarantine ? quarantine_json(line) : record_json(&line->record);
    char *text = j && add_rest(j, line) ? md_json_dump(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text)
        md_strbuf_printf(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(j);
}

/* ---- Reading. The first thing that is wrong is kept in `why`. */

typedef struct reader {
    json_t *root;
    char why[200];
} reader;

static void refuse(reader *r, const char *what, const char *name)
{
    if (!r->why[0])
        snprintf(r->why, sizeof r->why, "%s '%s'", what, name);
}

/* A text of 1 to n - 1 characters, no control characters among them. */
static void take_text(reader *r, const json_t *from, const char *name, char *out, size_t n)
{
    const char *text = json_string_value(json_object_get(from, name));
    const size_t length = text ? strlen(text) : 0;
    if (length == 0 || length >= n) {
        refuse(r, text ? "a text too long or empty in" : "no text", name);
        return;
    }
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ')
            refuse(r, "a control character in", name);
    memcpy(out, text, length + 1);
}

static double take_number(reader *r, const json_t *from, const char *name, double high)
{
    const json_t *j = json_object_get(from, name);
    const double x = json_number_value(j);
    if (!json_is_number(j) || !(x >= 0.0) || !(x <= high)) {
        refuse(r, "no number within its limits", name);
        return 0.0;
    }
    return x;
}

static int32_t take_count(reader *r, const json_t *from)
{
    if (!json_is_integer(json_object_get(from, "count")))
        refuse(r, "no whole number", "count");
    return (int32_t)take_number(r, from, "count", MAX_COUNT);
}

static md_digest128 take_digest(reader *r, const json_t *from, const char *name)
{
    char text[33] = "", again[33];
    unsigned long long hi = 0, lo = 0;
    take_text(r, from, name, text, sizeof text);
    if (strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32 && sscanf(text, "%16llx%16llx", &hi, &lo) == 2) {
        const md_digest128 d = {lo, hi};
        md_digest_text(again, d);
        if (!strcmp(text, again))
            return d;
    }
    refuse(r, "no digest", name);
    return (md_digest128){0, 0};
}

static md_tune take_rigor(reader *r, const json_t *from)
{
    const char *text = json_string_value(json_object_get(from, "rigor"));
    for (int i = MD_TUNE_ESTIMATE; text && i <= MD_TUNE_EXHAUSTIVE; i++)
        if (!strcmp(text, rigor_names[i]))
            return (md_tune)i;
    refuse(r, "neither estimate, measure nor exhaustive", "rigor");
    return MD_TUNE_ESTIMATE;
}

static int64_t take_date(reader *r, const json_t *from)
{
    const char *text = json_string_value(json_object_get(from, "date"));
    struct tm when = {0};
    char again[32] = "";
    int64_t date = 0;
    if (text && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &when)) {
        date = (int64_t)timegm(&when);
        date_text(again, date);
    }
    if (!text || strcmp(text, again) != 0)
        refuse(r, "no time like 2026-11-21T23:00:00Z", "date");
    return date;
}

static bool belongs(const char *variant, const char *family)
{
    const size_t n = strlen(family);
    return !strncmp(variant, family, n) && (variant[n] == '/' || variant[n] == 0);
}

/* A variant's name. */
static void take_name(reader *r, const json_t *from, const char *field, char out[MD_FA_NAME])
{
    take_text(r, from, field, out, MD_FA_NAME);
    if (!r->why[0] && !md_fa_is_current(out))
        refuse(r, "of another version of this library: it has no variant", out);
    if (r->why[0])
        out[0] = 0;
}

static void take_candidate(reader *r, const json_t *from, md_tn_candidate *c)
{
    const char *verdict = json_string_value(json_object_get(from, "verdict"));
    take_name(r, from, "name", c->name);
    if (!verdict || !md_tn_verdict_parse(&c->verdict, verdict))
        refuse(r, "no verdict", "verdict");
    c->us = take_number(r, from, "us", 1e15);
    c->spread = take_number(r, from, "spread", 1e15);
    c->count = take_count(r, from);
}

static md_status take_candidates(reader *r, md_tn_record *out)
{
    const json_t *list = json_object_get(r->root, "candidates");
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > MAX_CANDIDATES) {
        refuse(r, "no list", "candidates");
        return MD_OK;
    }
    out->candidate = n ? calloc(n, sizeof *out->candidate) : NULL;
    if (n && !out->candidate)
        return md_fail_memory();
    for (size_t i = 0; i < n && !r->why[0]; i++)
        take_candidate(r, json_array_get(list, i), &out->candidate[i]);
    out->n_candidates = (int32_t)n;
    return MD_OK;
}

static md_status take_record(reader *r, md_tn_record *out)
{
    const char *key = json_string_value(json_object_get(r->root, "key"));
    if (!key || !key[0])
        refuse(r, "no text", "key");
    take_text(r, r->root, "family", out->family, sizeof out->family);
    if (!belongs(out->variant, out->family))
        refuse(r, "a variant of another family than", out->family);
    out->us = take_number(r, r->root, "us", 1e15);
    out->spread = take_number(r, r->root, "spread", 1e15);
    out->count = take_count(r, r->root);
    out->rigor = take_rigor(r, r->root);
    out->is_complete = json_is_true(json_object_get(r->root, "complete"));
    if (!json_is_boolean(json_object_get(r->root, "complete")))
        refuse(r, "neither true nor false", "complete");
    if (out->count > 0 &&
        out->us <= 0.0) /* count 0: an estimate of the model, since nothing of the family was measured */
        refuse(r, "measured, but no time in", "us");
    out->date = take_date(r, r->root);
    MD_TRY(take_candidates(r, out));
    out->key = key && !r->why[0] ? strdup(key) : NULL;
    return key && !r->why[0] && !out->key ? md_fail_memory() : MD_OK;
}

static md_status take_line(reader *r, md_tn_line *out)
{
    take_text(r, r->root, "device", out->origin.device, sizeof out->origin.device);
    take_name(r, r->root, "variant", out->record.variant);
    out->origin.environment = take_digest(r, r->root, "environment");
    out->record.source = take_digest(r, r->root, "source");
    out->is_quarantine = json_object_get(r->root, "quarantine") != NULL;
    if (!out->is_quarantine)
        return take_record(r, &out->record);
    take_text(r, r->root, "quarantine", out->why, sizeof out->why);
    return MD_OK;
}

md_status md_tn_line_read(md_tn_line *out, const char *text, size_t n)
{
    reader r = {0};
    json_error_t error;
    memset(out, 0, sizeof *out);
    r.root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(r.root)) {
        json_decref(r.root);
        return md_fail(MD_CORRUPT, "no JSON object: %.120s", r.root ? "another value" : error.text);
    }
    md_status s = take_line(&r, out);
    json_decref(r.root);
    if (s == MD_OK && r.why[0])
        s = md_fail(MD_CORRUPT, "%s", r.why);
    if (s != MD_OK)
        md_tn_line_finish(out);
    return s;
}

void md_tn_line_finish(md_tn_line *line)
{
    md_tn_record_finish(&line->record);
    memset(line, 0, sizeof *line);
}
