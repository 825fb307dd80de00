/* Stored picks, times and swaps as text: a first line that names the format, then
 *   pick ENVIRONMENT STAGE SHAPE US MHZ THROTTLED DATE VARIANT
 *   swap ENVIRONMENT STAGE SHAPE US MHZ THROTTLED DATE VARIANT OP TO
 *   time ENVIRONMENT STAGE CLOCK US MHZ THROTTLED DATE N SIZE... VARIANT */
#include "base/plain.h"
#include "base/status.h"
#include "tune/stored/stored.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "measured 1\n"

static void print_conditions(md_strbuf *out, const char *word, int32_t stage, uint64_t environment)
{
    md_strbuf_printf(out, "%s %016" PRIx64 " %" PRId32, word, environment, stage);
}

static void print_rest(md_strbuf *out, double us, const md_tn_conditions *at)
{
    char number[40];
    md_snprintf(number, sizeof number, "%.6g", us);
    md_strbuf_printf(out, " %s %" PRId32 " %" PRId32 " %" PRId64, number, at->mhz, at->is_throttled, at->date);
}

static void print_pick(md_strbuf *out, const char *word, const md_tn_stored_pick *p)
{
    print_conditions(out, word, p->stage, p->at.environment);
    md_strbuf_printf(out, " %016" PRIx64 "%016" PRIx64, p->shape.hi, p->shape.lo);
    print_rest(out, p->us, &p->at);
    md_strbuf_printf(out, " %s", p->variant);
}

void md_tn_stored_print(md_strbuf *out, const md_tn_stored_list *list)
{
    md_strbuf_add(out, FORMAT);
    for (int32_t i = 0; i < list->n_picks; i++) {
        print_pick(out, "pick", &list->pick[i]);
        md_strbuf_add(out, "\n");
    }
    for (int32_t i = 0; i < list->n_swaps; i++) {
        print_pick(out, "swap", &list->swap[i].of);
        md_strbuf_printf(out, " %" PRId32 " %s\n", list->swap[i].op, list->swap[i].to);
    }
    for (int32_t i = 0; i < list->n_times; i++) {
        const md_tn_stored_time *t = &list->time[i];
        print_conditions(out, "time", t->stage, t->at.environment);
        md_strbuf_printf(out, " %" PRId32, t->clock);
        print_rest(out, t->us, &t->at);
        md_strbuf_printf(out, " %" PRId32, t->n_sizes);
        for (int32_t k = 0; k < t->n_sizes; k++)
            md_strbuf_printf(out, " %" PRId64, t->size[k]);
        md_strbuf_printf(out, " %s\n", t->variant);
    }
}

/* ---- Reading */

typedef struct cursor {
    const char *at, *end; /* of the line */
    bool is_bad;
} cursor;

/* The next word, up to the blank behind it. "" at the end, which is bad. */
static void next_word(char out[MD_FA_NAME], cursor *c)
{
    const char *blank = memchr(c->at, ' ', (size_t)(c->end - c->at));
    const size_t n = (size_t)((blank ? blank : c->end) - c->at);
    out[0] = 0;
    if (n == 0 || n >= MD_FA_NAME || memchr(c->at, 0, n)) {
        c->is_bad = true;
        return;
    }
    memcpy(out, c->at, n);
    out[n] = 0;
    c->at += n + (blank != NULL);
}

static int64_t next_number(cursor *c, int64_t low, int64_t high)
{
    char word[MD_FA_NAME], *end = NULL;
    next_word(word, c);
    const long long x = strtoll(word, &end, 10);
    c->is_bad |= *end != 0 || x < low || x > high;
    return x;
}

static uint64_t next_digest(cursor *c, size_t from, const char *word)
{
    char digits[17] = "", *end = NULL;
    if (strlen(word) < from + 16) {
        c->is_bad = true;
        return 0;
    }
    memcpy(digits, word + from, 16);
    const uint64_t x = strtoull(digits, &end, 16);
    c->is_bad |= *end != 0;
    return x;
}

static double next_us(cursor *c)
{
    char word[MD_FA_NAME], *end = NULL;
    next_word(word, c);
    const double us = md_strtod(word, &end);
    c->is_bad |= *end != 0 || !(us > 0.0) || !isfinite(us);
    return us;
}

static void read_rest(double *us, md_tn_conditions *at, cursor *c)
{
    *us = next_us(c);
    at->mhz = (int32_t)next_number(c, 0, INT32_MAX);
    at->is_throttled = (int32_t)next_number(c, 0, 1);
    at->date = next_number(c, 0, INT64_MAX);
}

static void take_pick(md_tn_stored_pick *p, cursor *c)
{
    char word[MD_FA_NAME];
    next_word(word, c);
    p->at.environment = next_digest(c, 0, word);
    p->stage = (int32_t)next_number(c, 0, MD_ST_MAX_STAGES - 1);
    next_word(word, c);
    p->shape = (md_digest128){.hi = next_digest(c, 0, word), .lo = next_digest(c, 16, word)};
    read_rest(&p->us, &p->at, c);
    next_word(p->variant, c);
}

static bool read_swap(md_tn_stored_list *list, cursor *c)
{
    md_tn_stored_swap s;
    memset(&s, 0, sizeof s);
    take_pick(&s.of, c);
    s.op = (int32_t)next_number(c, 0, INT32_MAX);
    next_word(s.to, c);
    if (c->is_bad || c->at != c->end)
        return false;
    md_tn_stored_add_swap(list, &s);
    return true;
}

static bool read_pick(md_tn_stored_list *list, cursor *c)
{
    md_tn_stored_pick p;
    memset(&p, 0, sizeof p);
    take_pick(&p, c);
    if (c->is_bad || c->at != c->end)
        return false;
    md_tn_stored_add_pick(list, &p);
    return true;
}

static bool read_time(md_tn_stored_list *list, cursor *c)
{
    char word[MD_FA_NAME];
    md_tn_stored_time t;
    memset(&t, 0, sizeof t);
    next_word(word, c);
    t.at.environment = next_digest(c, 0, word);
    t.stage = (int32_t)next_number(c, 0, MD_ST_MAX_STAGES - 1);
    t.clock = (int32_t)next_number(c, 0, MD_TN_CLOCK_ESTIMATE);
    read_rest(&t.us, &t.at, c);
    t.n_sizes = (int32_t)next_number(c, 0, MD_TN_MAX_AXES);
    for (int32_t k = 0; k < t.n_sizes && !c->is_bad; k++)
        t.size[k] = next_number(c, 0, INT64_MAX);
    next_word(t.variant, c);
    if (c->is_bad || c->at != c->end)
        return false;
    md_tn_stored_add_time(list, &t);
    return true;
}

static bool read_line(md_tn_stored_list *list, const char *line, size_t n)
{
    char word[MD_FA_NAME];
    cursor c = {line, line + n, false};
    next_word(word, &c);
    return !strcmp(word, "pick")   ? read_pick(list, &c)
           : !strcmp(word, "time") ? read_time(list, &c)
           : !strcmp(word, "swap") ? read_swap(list, &c)
                                   : false;
}

int32_t md_tn_stored_read(md_tn_stored_list *list, char problem[200], const char *text, size_t n)
{
    const size_t head = strlen(FORMAT);
    int32_t n_bad = 0, number = 1;
    problem[0] = 0;
    if (n < head || memcmp(text, FORMAT, head) != 0) {
        snprintf(problem, 200, "it does not begin with '%.*s'", (int)head - 1, FORMAT);
        return -1;
    }
    for (const char *at = text + head, *end = text + n; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        number++;
        if (!newline || !read_line(list, at, length)) {
            if (n_bad++ == 0)
                snprintf(problem, 200, "line %d is no pick, time or swap: %.*s", number, (int)MD_MIN(length, 120), at);
        }
        at += length + 1;
    }
    return n_bad;
}
