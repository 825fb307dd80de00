/* Exports wisdom as text, and merges text into it. */
#include "base/grow.h"
#include "base/status.h"
#include "tune/wisdom/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Export: the lines of memory and stores, each key once, sorted. */

typedef struct gathering {
    md_tn_wisdom *wisdom;
    md_table *names; /* store key -> the key itself */
    char **line;
    size_t n;
    bool has_failed;
} gathering;

static void add_line(gathering *g, const md_tn_line *line)
{
    md_strbuf text = {0};
    md_tn_line_print(&text, line);
    if (text.failed || !md_grow(&g->line, g->n, sizeof *g->line)) {
        g->has_failed = true;
        md_strbuf_finish(&text);
        return;
    }
    g->line[g->n++] = text.text;
}

static void add_name(gathering *g, const char *name)
{
    if (md_table_find(g->names, name, strlen(name)))
        return;
    char *own = strdup(name);
    if (!own || md_table_put(g->names, name, strlen(name), own, NULL) != MD_OK) {
        free(own);
        g->has_failed = true;
    }
}

static md_status name_in_store(void *user, const char *key, const void *payload, size_t n)
{
    (void)payload;
    (void)n;
    add_name(user, key);
    return MD_OK;
}

static void name_in_memory(void *user, const void *key, size_t n, void *value)
{
    char *name = strndup(key, n);
    (void)value;
    if (name)
        add_name(user, name);
    else
        ((gathering *)user)->has_failed = true;
    free(name);
}

static void print_record(void *user, const void *key, size_t n, void *value)
{
    gathering *g = user;
    const char *name = value, *family = strrchr(name, '\n');
    md_tn_line line = {.origin = g->wisdom->origin};
    (void)key;
    (void)n;
    char *first = family ? strndup(name, (size_t)(family - name)) : NULL;
    g->has_failed = g->has_failed || (family && !first);
    if (first && md_tn_wisdom_find(&line.record, g->wisdom, first, family + 1, MD_TUNE_ESTIMATE) == MD_OK)
        add_line(g, &line);
    md_tn_record_finish(&line.record);
    free(first);
}

/* The store's quarantine includes that in memory, and that of other processes. */
static md_status print_quarantine(void *user, const char *key, const void *payload, size_t n)
{
    md_tn_line line;
    (void)key;
    const md_status s = md_tn_line_read(&line, payload, n);
    if (s == MD_OK) {
        add_line(user, &line);
        md_tn_line_finish(&line);
    }
    return s == MD_OUT_OF_MEMORY ? s : MD_OK; /* records that say nothing are left out */
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

md_status md_tn_wisdom_print(md_strbuf *out, md_tn_wisdom *wisdom)
{
    gathering g = {.wisdom = wisdom, .names = md_table_create()};
    const uint64_t unread = atomic_load(&wisdom->count.unread);
    if (!g.names)
        return md_fail_memory();
    for (int32_t place = 0; place < md_sr_n_places(wisdom->store); place++) {
        if (md_sr_each(wisdom->store, place, MD_TN_WISDOM_KIND, name_in_store, &g) != MD_OK ||
            md_sr_each(wisdom->store, place, MD_TN_QUARANTINE_KIND, print_quarantine, &g) != MD_OK)
            g.has_failed = true;
    }
    pthread_mutex_lock(&wisdom->lock);
    md_table_each(wisdom->records, name_in_memory, &g);
    pthread_mutex_unlock(&wisdom->lock);
    md_table_each(g.names, print_record, &g);
    if (g.n)
        qsort(g.line, g.n, sizeof *g.line, by_text);
    for (size_t i = 0; i < g.n; i++) {
        if (i == 0 || strcmp(g.line[i], g.line[i - 1]) != 0)
            md_strbuf_add(out, g.line[i]);
    }
    for (size_t i = 0; i < g.n; i++)
        free(g.line[i]);
    free(g.line);
    md_table_destroy(&g.names, free);
    g.has_failed = g.has_failed || atomic_load(&wisdom->count.unread) != unread;
    return g.has_failed || out->failed ? md_fail_memory() : MD_OK;
}

md_status md_tn_wisdom_print_one(md_strbuf *out, md_tn_wisdom *wisdom, const char *key, const char *family)
{
    md_tn_line line = {.origin = wisdom->origin};
    const md_status s = md_tn_wisdom_find(&line.record, wisdom, key, family, MD_TUNE_ESTIMATE);
    if (s != MD_OK)
        return s == MD_NOT_FOUND ? MD_OK : s;
    md_tn_line_print(out, &line);
    md_tn_record_finish(&line.record);
    return out->failed ? md_fail_memory() : MD_OK;
}

/* ---- Merge */

typedef struct text_lines {
    const char *at, *end;
    int64_t number;
} text_lines;

/* The next line that is not empty or a comment ('#'). */
static bool next_line(const char **line, size_t *n, text_lines *t)
{
    while (t->at < t->end) {
        const char *start = t->at, *stop = memchr(start, '\n', (size_t)(t->end - start));
        stop = stop ? stop : t->end;
        t->at = stop < t->end ? stop + 1 : stop;
        t->number++;
        while (start < stop && (*start == ' ' || *start == '\t' || *start == '\r'))
            start++;
        while (stop > start && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
            stop--;
        if (start == stop || *start == '#')
            continue;
        *line = start;
        *n = (size_t)(stop - start);
        return true;
    }
    return false;
}

static md_status take(md_tn_merged *out, md_tn_wisdom *w, md_tn_line *line)
{
    const md_digest128 *theirs = &line->origin.environment, *ours = &w->origin.environment;
    const bool is_ours = theirs->lo == ours->lo && theirs->hi == ours->hi;
    /* a line of another device, whatever its environment */
    if (strcmp(line->origin.device, w->origin.device) != 0) {
        out->n_foreign++;
        return MD_OK;
    }
    if (line->is_quarantine) /* holds only where the text is compiled the same way */
        return is_ours ? md_tn_wisdom_quarantine(w, line->record.variant, line->record.source, line->why) : MD_OK;
    if (!is_ours) {
        line->record.rigor = MD_TUNE_ESTIMATE;
        line->record.is_complete = true;
    }
    const uint64_t before = w->count.stored;
    MD_TRY(md_tn_wisdom_put(w, &line->record));
    if (w->count.stored != before) {
        out->n_taken++;
        out->n_related += !is_ours;
    }
    return MD_OK;
}

/* Reads all lines, and takes them if `w` is given. */
static md_status pass(md_tn_merged *out, md_strbuf *problems, md_tn_wisdom *w, const char *text, size_t n)
{
    text_lines t = {.at = text, .end = text + n};
    const char *at = NULL;
    size_t size = 0;
    md_status s = MD_OK;
    while (s == MD_OK && next_line(&at, &size, &t)) {
        md_tn_line line;
        s = md_tn_line_read(&line, at, size);
        if (s == MD_CORRUPT) {
            out->n_bad++;
            if (problems)
                md_strbuf_printf(problems, "line %lld: %s\n", (long long)t.number, md_last_error());
            s = MD_OK;
            continue;
        }
        if (s != MD_OK)
            break;
        out->n_lines += !w;
        s = w ? take(out, w, &line) : MD_OK;
        md_tn_line_finish(&line);
    }
    return s;
}

md_status md_tn_wisdom_merge(md_tn_merged *out, md_strbuf *problems, md_tn_wisdom *wisdom, const char *text, size_t n)
{
    *out = (md_tn_merged){0};
    MD_TRY(pass(out, problems, NULL, text, n));
    if (out->n_bad)
        return md_fail(MD_CORRUPT, "%lld of %lld lines are no wisdom, so nothing is taken", (long long)out->n_bad,
                       (long long)(out->n_bad + out->n_lines));
    return pass(out, NULL, wisdom, text, n);
}
