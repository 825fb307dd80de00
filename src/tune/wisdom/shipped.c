/* Reads shipped wisdom files and searches their sorted lines by bisection. */
#include "tune/wisdom/shipped.h"

#include "base/json.h"
#include "base/status.h"
#include "store/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_FILES = 64 };

typedef struct lines {
    char *text; /* ends with a newline */
    size_t n;
    const char **at; /* where lines start, in order */
    size_t n_lines;
} lines;

struct md_tn_shipped {
    int32_t n;
    lines file[MOST_FILES];
};

static size_t length_of(const char *line)
{
    return strcspn(line, "\n");
}

/* As memcmp; of two texts, one of which begins the other, the shorter comes first. */
static int compare(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const int order = memcmp(a, b, MD_MIN(n_a, n_b));
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

/* Finds where lines start; comments are left out. False where they are not sorted. */
static md_status index_lines(bool *is_sorted, lines *l)
{
    size_t capacity = 0;
    for (const char *c = l->text; c < l->text + l->n; c++)
        capacity += *c == '\n';
    l->at = calloc(capacity + 1, sizeof *l->at);
    if (!l->at)
        return md_fail_memory();
    *is_sorted = true;
    for (const char *line = l->text; line < l->text + l->n; line += length_of(line) + 1) {
        if (*line != '{')
            continue;
        const char *last = l->n_lines ? l->at[l->n_lines - 1] : NULL;
        *is_sorted = *is_sorted && (!last || compare(last, length_of(last), line, length_of(line)) <= 0);
        l->at[l->n_lines++] = line;
    }
    return MD_OK;
}

static void free_lines(lines *l)
{
    free(l->text);
    free(l->at);
    *l = (lines){0};
}

/* Takes over a text. */
static md_status take_lines(lines *l, char *text, size_t n, const char *name)
{
    bool is_sorted = false;
    if (memchr(text, 0, n)) {
        free(text);
        return md_fail(MD_CORRUPT, "'%.200s' is no text", name);
    }
    char *longer = realloc(text, n + 2);
    if (!longer) {
        free(text);
        return md_fail_memory();
    }
    l->text = longer;
    memcpy(l->text + n, "\n", 2);
    l->n = n + 1;
    md_status s = index_lines(&is_sorted, l);
    if (s == MD_OK && !is_sorted)
        s = md_fail(MD_CORRUPT, "the lines of '%.200s' are not sorted", name);
    if (s != MD_OK)
        free_lines(l);
    return s;
}

static md_status read_lines(lines *l, int folder, const char *name)
{
    char *text = NULL;
    size_t n = 0;
    MD_TRY(md_sr_file_read(&text, &n, folder, name, MD_SR_SYSTEMS, false));
    return take_lines(l, text, n, name);
}

md_status md_tn_shipped_add(md_tn_shipped **shipped, const char *text, size_t n)
{
    md_tn_shipped *x = *shipped ? *shipped : calloc(1, sizeof *x);
    char *own = malloc(n + 1);
    *shipped = x;
    if (!x || !own) {
        free(own);
        return md_fail_memory();
    }
    memcpy(own, text, n);
    own[n] = 0;
    if (x->n == MOST_FILES) {
        free(own);
        return md_fail(MD_OUT_OF_MEMORY, "more than %d texts of wisdom", (int)MOST_FILES);
    }
    MD_TRY(take_lines(&x->file[x->n], own, n, "a bundle"));
    x->n++;
    return MD_OK;
}

static md_status read_folder(md_tn_shipped *shipped, const char *path, const md_log *log)
{
    md_status s = MD_OK;
    int fd = -1;
    if (md_sr_folder_open(&fd, AT_FDCWD, path, MD_SR_SYSTEMS) != MD_OK)
        return MD_OK; /* the store warned of it */
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return MD_OK;
    }
    for (struct dirent *e; s != MD_OUT_OF_MEMORY && shipped->n < MOST_FILES && (e = readdir(folder));) {
        const size_t n = strlen(e->d_name);
        if (n < 7 || e->d_name[0] == '.' || strcmp(e->d_name + n - 6, ".jsonl") != 0)
            continue;
        s = read_lines(&shipped->file[shipped->n], dirfd(folder), e->d_name);
        shipped->n += s == MD_OK;
        if (s != MD_OK)
            md_log_at(log, MD_LOG_WARN, "wisdom in %s: %s", path, md_last_error());
    }
    closedir(folder);
    return s == MD_OUT_OF_MEMORY ? s : MD_OK;
}

md_status md_tn_shipped_open(md_tn_shipped **out, const char *path, const md_log *log)
{
    md_tn_shipped *shipped = calloc(1, sizeof *shipped);
    md_status s = shipped ? MD_OK : md_fail_memory();
    for (const char *at = path; s == MD_OK && at && *at;) {
        const size_t n = strcspn(at, ":");
        char *folder = strndup(at, n);
        s = !folder ? md_fail_memory() : n ? read_folder(shipped, folder, log) : MD_OK;
        free(folder);
        at += n + (at[n] == ':');
    }
    if (s != MD_OK)
        md_tn_shipped_close(&shipped);
    *out = shipped;
    return s;
}

void md_tn_shipped_close(md_tn_shipped **shipped)
{
    if (!shipped || !*shipped)
        return;
    for (int32_t i = 0; i < (*shipped)->n; i++)
        free_lines(&(*shipped)->file[i]);
    free(*shipped);
    *shipped = NULL;
}

static int by_line(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return compare(x, length_of(x), y, length_of(y));
}

void md_tn_shipped_print(md_strbuf *out, const md_tn_shipped *shipped, const char *device)
{
    size_t n = 0, n_all = 0;
    for (int32_t i = 0; shipped && i < shipped->n; i++)
        n_all += shipped->file[i].n_lines;
    const char **line = calloc(n_all + 1, sizeof *line);
    out->failed = out->failed || !line;
    for (int32_t i = 0; line && shipped && i < shipped->n; i++)
        for (size_t k = 0; k < shipped->file[i].n_lines; k++) {
            md_tn_line l;
            if (md_tn_line_read(&l, shipped->file[i].at[k], length_of(shipped->file[i].at[k])) != MD_OK)
                continue;
            if (!strcmp(l.origin.device, device) && !l.is_quarantine)
                line[n++] = shipped->file[i].at[k];
            md_tn_line_finish(&l);
        }
    if (n)
        qsort(line, n, sizeof *line, by_line);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || by_line(&line[i], &line[i - 1]) != 0)
            md_strbuf_bytes(out, line[i], length_of(line[i]) + 1);
    free(line);
}

/* ---- Searching */

/* The beginning of lines of this key and family (line.c). */
static char *beginning(const char *key, const char *family)
{
    json_t *j = json_pack("{s:o, s:o}", "key", md_json_text(key), "family", md_json_text(family));
    char *text = j ? md_json_dump(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text)
        text[strlen(text) - 1] = ','; /* '}' */
    return text;
}

static size_t first_not_before(const lines *l, const char *start, size_t n)
{
    size_t lo = 0, hi = l->n_lines;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (compare(l->at[middle], MD_MIN(length_of(l->at[middle]), n), start, n) < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Reads a line of this device. False if it is none, or a quarantine. */
static bool read_line(md_tn_record *out, const char *text, const md_tn_origin *here)
{
    md_tn_line line;
    if (md_tn_line_read(&line, text, length_of(text)) != MD_OK)
        return false;
    const md_digest128 *theirs = &line.origin.environment, *ours = &here->environment;
    const bool is_ours = theirs->lo == ours->lo && theirs->hi == ours->hi,
               is_related = !strcmp(line.origin.device, here->device);
    if (line.is_quarantine || (!is_ours && !is_related)) {
        md_tn_line_finish(&line);
        return false;
    }
    *out = line.record;
    if (!is_ours) {
        out->rigor = MD_TUNE_ESTIMATE;
        out->is_complete = true;
    }
    return true;
}

static void consider(md_tn_record *best, const char *text, const md_tn_origin *here)
{
    md_tn_record r;
    if (!read_line(&r, text, here))
        return;
    if (best->key && !md_tn_record_beats(&r, best)) {
        md_tn_record_finish(&r);
        return;
    }
    md_tn_record_finish(best);
    *best = r;
}

bool md_tn_shipped_find(md_tn_record *out, const md_tn_shipped *shipped, const md_tn_origin *here, const char *key,
                        const char *family)
{
    md_tn_record best = {0};
    if (!shipped || !shipped->n)
        return false;
    char *start = beginning(key, family);
    const size_t n = start ? strlen(start) : 0;
    for (int32_t i = 0; start && i < shipped->n; i++) {
        const lines *l = &shipped->file[i];
        for (size_t k = first_not_before(l, start, n); k < l->n_lines && !strncmp(l->at[k], start, n); k++)
            consider(&best, l->at[k], here);
    }
    free(start);
    if (!best.key)
        return false;
    *out = best;
    return true;
}

/* The beginning of lines whose key begins so. */
static char *beginning_of_key(const char *beginning)
{
    json_t *j = json_pack("{s:o}", "key", md_json_text(beginning));
    char *text = j ? md_json_dump(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text)
        text[strlen(text) - 2] = 0; /* '"}' */
    return text;
}

bool md_tn_shipped_each(const md_tn_shipped *shipped, const md_tn_origin *here, const char *beginning,
                        void (*visit)(void *user, const md_tn_record *record), void *user)
{
    if (!shipped || !shipped->n)
        return true;
    char *start = beginning_of_key(beginning);
    const size_t n = start ? strlen(start) : 0;
    for (int32_t i = 0; start && i < shipped->n; i++) {
        const lines *l = &shipped->file[i];
        for (size_t k = first_not_before(l, start, n); k < l->n_lines && !strncmp(l->at[k], start, n); k++) {
            md_tn_record r;
            if (!read_line(&r, l->at[k], here))
                continue;
            visit(user, &r);
            md_tn_record_finish(&r);
        }
    }
    free(start);
    return start != NULL;
}
