/* Collects the entries of a bundle and writes it. */
#include "base/file.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "store/bundle.h"
#include "store/bundle_format.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    md_digest128 key, payload;
    char *text; /* "kind key" */
    void *bytes;
    size_t n;
} entry;

struct md_sr_bundle_maker {
    pthread_mutex_t lock;
    entry *entry;
    size_t n, capacity;
};

md_status md_sr_bundle_maker_create(md_sr_bundle_maker **out)
{
    md_sr_bundle_maker *m = calloc(1, sizeof *m);
    if (!m)
        return md_fail_memory();
    md_mutex_init(&m->lock);
    *out = m;
    return MD_OK;
}

static void free_entry(entry *e)
{
    free(e->text);
    free(e->bytes);
}

void md_sr_bundle_maker_destroy(md_sr_bundle_maker **maker)
{
    md_sr_bundle_maker *m = maker ? *maker : NULL;
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++)
        free_entry(&m->entry[i]);
    free(m->entry);
    md_mutex_finish(&m->lock);
    free(m);
    *maker = NULL;
}

static bool grow(md_sr_bundle_maker *m)
{
    if (m->n < m->capacity)
        return true;
    const size_t capacity = m->capacity ? 2 * m->capacity : 64;
    entry *grown = realloc(m->entry, capacity * sizeof *grown);
    if (!grown)
        return false;
    m->entry = grown;
    m->capacity = capacity;
    return true;
}

md_status md_sr_bundle_add(md_sr_bundle_maker *m, const char *kind, const char *key, const void *payload, size_t n)
{
    entry e = {.bytes = malloc(n ? n : 1), .n = n};
    const int n_text = asprintf(&e.text, "%s %s", kind, key);
    if (n_text < 0)
        e.text = NULL;
    if (!e.bytes || !e.text) {
        free_entry(&e);
        return md_fail_memory();
    }
    if (n)
        memcpy(e.bytes, payload, n);
    e.key = md_hash128(e.text, (size_t)n_text);
    e.payload = md_hash128(e.bytes, n);
    bool is_known = false;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < m->n && !is_known; i++)
        is_known = m->entry[i].key.lo == e.key.lo && m->entry[i].key.hi == e.key.hi;
    const bool has_room = is_known || grow(m);
    if (!is_known && has_room)
        m->entry[m->n++] = e;
    pthread_mutex_unlock(&m->lock);
    if (is_known || !has_room)
        free_entry(&e);
    return has_room ? MD_OK : md_fail_memory();
}

static int by_key(const void *a, const void *b)
{
    const md_digest128 *x = &((const entry *)a)->key, *y = &((const entry *)b)->key;
    return x->hi != y->hi ? (x->hi < y->hi ? -1 : 1) : x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : 0;
}

/* The payload of an earlier entry that is equal; NULL if there is none. */
static const md_sr_bundle_row *find_equal(const md_sr_bundle_row *row, size_t n, const entry *e)
{
    for (size_t i = 0; i < n; i++)
        if (row[i].payload.lo == e->payload.lo && row[i].payload.hi == e->payload.hi && row[i].n == e->n)
            return &row[i];
    return NULL;
}

static uint64_t round_up(uint64_t at)
{
    return (at + 15) / 16 * 16;
}

/* Lays out the file: rows, and where the payloads are. Returns the length of the file. */
static uint64_t lay_out(md_sr_bundle_row *row, const md_sr_bundle_maker *m, uint64_t first)
{
    uint64_t at = first;
    uint32_t key_at = 0;
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->entry[i];
        const md_sr_bundle_row *equal = find_equal(row, i, e);
        at = equal ? at : round_up(at);
        row[i] =
            (md_sr_bundle_row){e->key, e->payload, equal ? equal->at : at, e->n, key_at, (uint32_t)strlen(e->text)};
        key_at += row[i].n_key;
        at += equal ? 0 : e->n;
    }
    return at;
}

static char *make_bytes(size_t *n_bytes, const md_sr_bundle_maker *m)
{
    md_sr_bundle_header h = {.version = MD_SR_BUNDLE_VERSION, .n_entries = (uint32_t)m->n};
    memcpy(h.magic, MD_SR_BUNDLE_MAGIC, sizeof h.magic);
    for (size_t i = 0; i < m->n; i++)
        h.n_keys += strlen(m->entry[i].text);
    const size_t n_index = m->n * sizeof(md_sr_bundle_row) + h.n_keys;
    md_sr_bundle_row *row = calloc(m->n + 1, sizeof *row);
    if (!row)
        return NULL;
    h.n_bytes = lay_out(row, m, sizeof h + n_index);
    char *bytes = calloc(1, h.n_bytes);
    if (bytes) {
        char *index = bytes + sizeof h, *keys = index + m->n * sizeof *row;
        memcpy(index, row, m->n * sizeof *row);
        for (size_t i = 0; i < m->n; i++) {
            memcpy(keys + row[i].key_at, m->entry[i].text, row[i].n_key);
            memcpy(bytes + row[i].at, m->entry[i].bytes, m->entry[i].n);
        }
        h.digest = md_sr_bundle_seal(h, index, n_index);
        memcpy(bytes, &h, sizeof h);
        *n_bytes = h.n_bytes;
    }
    free(row);
    return bytes;
}

md_status md_sr_bundle_write(md_sr_bundle_maker *m, const char *path)
{
    size_t n = 0;
    pthread_mutex_lock(&m->lock);
    if (m->n)
        qsort(m->entry, m->n, sizeof *m->entry, by_key);
    char *bytes = make_bytes(&n, m);
    pthread_mutex_unlock(&m->lock);
    const md_status status = bytes ? md_file_replace(path, bytes, n) : md_fail_memory();
    free(bytes);
    return status;
}
