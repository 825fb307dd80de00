/* Collects the entries of a bundle and writes it. */
#include "base/file.h"
#include "base/grow.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "store/bundle.h"
#include "store/bundle_format.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct entry {
    md_digest128 key, payload;
    char *text; /* "kind key" */
    const void *bytes;
    void *owned; /* `bytes`, to be freed; NULL: they are lent */
    size_t n;
    void *packed; /* compressed, while the file is made; NULL: it is written as it is */
    size_t n_packed;
    bool is_kept;
} entry;

struct md_sr_bundle_maker {
    pthread_mutex_t lock;
    entry *entry;
    size_t n;
    char only[32]; /* "kind ": of these only what is kept is written; "": everything */
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
    free(e->owned);
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

static int by_key(const void *a, const void *b)
{
    const md_digest128 *x = &((const entry *)a)->key, *y = &((const entry *)b)->key;
    return x->hi != y->hi ? (x->hi < y->hi ? -1 : 1) : x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : 0;
}

/* The lock is held; NULL if there is none. */
static entry *find(const md_sr_bundle_maker *m, md_digest128 key)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->entry[i].key.lo == key.lo && m->entry[i].key.hi == key.hi)
            return &m->entry[i];
    return NULL;
}

/* The digests, and a copy of the payload unless it is lent. */
static md_status make_entry(entry *e, const md_sr_bundle_entry *from, bool is_lent)
{
    const size_t n = from->n;
    *e = (entry){.owned = is_lent ? NULL : malloc(n ? n : 1), .n = n};
    const int n_text = asprintf(&e->text, "%s %s", from->kind, from->key);
    if (n_text < 0)
        e->text = NULL;
    if (!e->text || (!is_lent && !e->owned)) {
        free_entry(e);
        return md_fail_memory();
    }
    if (!is_lent && n)
        memcpy(e->owned, from->payload, n);
    e->bytes = is_lent ? from->payload : e->owned;
    e->key = md_hash128(e->text, (size_t)n_text);
    e->payload = md_hash128(e->bytes, n);
    return MD_OK;
}

static md_status put(md_sr_bundle_maker *m, const md_sr_bundle_entry *from, bool replaces, bool is_lent)
{
    entry e;
    MD_TRY(make_entry(&e, from, is_lent));
    pthread_mutex_lock(&m->lock);
    entry *known = find(m, e.key);
    const bool has_room = known || md_grow(&m->entry, m->n, sizeof *m->entry);
    entry unused = e;
    if (known && replaces) {
        e.is_kept = known->is_kept;
        unused = *known;
        *known = e;
    } else if (!known && has_room) {
        m->entry[m->n++] = e;
        unused = (entry){0};
    }
    pthread_mutex_unlock(&m->lock);
    free_entry(&unused);
    return has_room ? MD_OK : md_fail_memory();
}

md_status md_sr_bundle_add(md_sr_bundle_maker *m, const char *kind, const char *key, const void *payload, size_t n)
{
    return put(m, &(md_sr_bundle_entry){kind, key, payload, n}, false, false);
}

md_status md_sr_bundle_set(md_sr_bundle_maker *m, const char *kind, const char *key, const void *payload, size_t n)
{
    return put(m, &(md_sr_bundle_entry){kind, key, payload, n}, true, false);
}

md_status md_sr_bundle_lend(md_sr_bundle_maker *m, const char *kind, const char *key, const void *payload, size_t n)
{
    return put(m, &(md_sr_bundle_entry){kind, key, payload, n}, true, true);
}

static md_status copy_one(void *user, const md_sr_bundle_entry *e)
{
    MD_TRY(put(user, e, false, false));
    md_sr_bundle_keep(user, e->kind, e->key);
    return MD_OK;
}

md_status md_sr_bundle_copy(md_sr_bundle_maker *m, const md_sr_bundle *bundle)
{
    return md_sr_bundle_each(bundle, NULL, copy_one, m);
}

void md_sr_bundle_keep_only(md_sr_bundle_maker *m, const char *kind)
{
    pthread_mutex_lock(&m->lock);
    snprintf(m->only, sizeof m->only, "%.30s ", kind);
    pthread_mutex_unlock(&m->lock);
}

void md_sr_bundle_keep(md_sr_bundle_maker *m, const char *kind, const char *key)
{
    char text[512];
    const int n = snprintf(text, sizeof text, "%s %s", kind, key);
    pthread_mutex_lock(&m->lock);
    entry *e = n > 0 && (size_t)n < sizeof text ? find(m, md_hash128(text, (size_t)n)) : NULL;
    if (e)
        e->is_kept = true;
    pthread_mutex_unlock(&m->lock);
}

/* The lock is held. What is not written goes to the end; returns the number of entries that are. */
static size_t sort_kept(md_sr_bundle_maker *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        entry *e = &m->entry[i];
        if (m->only[0] && !e->is_kept && !strncmp(e->text, m->only, strlen(m->only)))
            continue;
        const entry other = m->entry[n];
        m->entry[n++] = *e;
        *e = other;
    }
    if (n)
        qsort(m->entry, n, sizeof *m->entry, by_key);
    return n;
}

/* The payload of an earlier entry that is equal; NULL if there is none. */
static const md_sr_bundle_row *find_equal(const md_sr_bundle_row *row, size_t n, const entry *e)
{
    for (size_t i = 0; i < n; i++)
        if (row[i].payload.lo == e->payload.lo && row[i].payload.hi == e->payload.hi && row[i].n == e->n)
            return &row[i];
    return NULL;
}

/* The bytes compressed to fewer than `most`; NULL where they do not become that few. */
static void *packed(size_t *n_packed, const void *bytes, size_t n, size_t most, int level)
{
    uLongf room = most;
    void *out = malloc(most + 1);
    if (out && compress2(out, &room, bytes, (uLong)n, level) == Z_OK && room < most) {
        *n_packed = room;
        return out;
    }
    free(out);
    return NULL;
}

/* Equal bytes and one version of zlib give equal compressed bytes. Large ones are weights of packages: numbers, which
 * take long and hardly become fewer. Their beginning is tried alone first. */
static void pack(entry *e)
{
    enum { LARGE = 1 << 20, LEVEL = 9, LEVEL_OF_LARGE = 1 };
    const bool is_large = e->n >= LARGE;
    const size_t most = is_large ? e->n - e->n / 8 : e->n;
    size_t n = e->n;
    void *first = is_large ? packed(&n, e->bytes, LARGE, LARGE - LARGE / 8, LEVEL_OF_LARGE) : NULL;
    e->packed = !is_large || first ? packed(&n, e->bytes, e->n, most, is_large ? LEVEL_OF_LARGE : LEVEL) : NULL;
    e->n_packed = e->packed ? n : e->n;
    free(first);
}

static void drop_packed(md_sr_bundle_maker *m)
{
    for (size_t i = 0; i < m->n; i++) {
        free(m->entry[i].packed);
        m->entry[i].packed = NULL;
    }
}

static uint64_t round_up(uint64_t at)
{
    return (at + 15) / 16 * 16;
}

/* Compresses the payloads and lays out the file: rows, and where the payloads are. Returns the length of the file. */
static uint64_t lay_out(md_sr_bundle_row *row, md_sr_bundle_maker *m, uint64_t first)
{
    uint64_t at = first;
    uint32_t key_at = 0;
    for (size_t i = 0; i < m->n; i++) {
        entry *e = &m->entry[i];
        const md_sr_bundle_row *equal = find_equal(row, i, e);
        at = equal ? at : round_up(at);
        if (!equal)
            pack(e);
        row[i] = (md_sr_bundle_row){.key = e->key,
                                    .payload = e->payload,
                                    .at = equal ? equal->at : at,
                                    .n = e->n,
                                    .n_stored = equal ? equal->n_stored : e->n_packed,
                                    .key_at = key_at,
                                    .n_key = (uint32_t)strlen(e->text)};
        key_at += row[i].n_key;
        at += equal ? 0 : row[i].n_stored;
    }
    return at;
}

/* Header, index and the texts of the keys. */
static char *make_head(const md_sr_bundle_row *row, const md_sr_bundle_maker *m, md_sr_bundle_header *h, size_t n_index)
{
    char *head = malloc(sizeof *h + n_index);
    if (!head)
        return NULL;
    char *index = head + sizeof *h, *keys = index + m->n * sizeof *row;
    memcpy(index, row, m->n * sizeof *row);
    for (size_t i = 0; i < m->n; i++)
        memcpy(keys + row[i].key_at, m->entry[i].text, row[i].n_key);
    h->digest = md_sr_bundle_seal(*h, index, n_index);
    memcpy(head, h, sizeof *h);
    return head;
}

/* What lies behind the head: payloads, and zeros between them. Returns the number of parts. */
static size_t list_payloads(md_file_part *part, const md_sr_bundle_row *row, const md_sr_bundle_maker *m, uint64_t at)
{
    static const char zeros[16];
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        const entry *e = &m->entry[i];
        if (row[i].at < at) /* equal to an earlier one */
            continue;
        part[n++] = (md_file_part){zeros, row[i].at - at};
        part[n++] = (md_file_part){e->packed ? e->packed : e->bytes, row[i].n_stored};
        at = row[i].at + row[i].n_stored;
    }
    return n;
}

/* The lock is held: payloads go into the file from where they lie. */
static md_status write_entries(md_sr_bundle_maker *m, const char *path)
{
    md_sr_bundle_header h = {.version = MD_SR_BUNDLE_VERSION, .n_entries = (uint32_t)m->n};
    memcpy(h.magic, MD_SR_BUNDLE_MAGIC, sizeof h.magic);
    for (size_t i = 0; i < m->n; i++)
        h.n_keys += strlen(m->entry[i].text);
    const size_t n_index = m->n * sizeof(md_sr_bundle_row) + h.n_keys, n_head = sizeof h + n_index;
    md_sr_bundle_row *row = calloc(m->n + 1, sizeof *row);
    md_file_part *part = calloc(2 * m->n + 1, sizeof *part);
    char *head = NULL;
    if (row && part) {
        h.n_bytes = lay_out(row, m, n_head);
        head = make_head(row, m, &h, n_index);
    }
    if (head)
        part[0] = (md_file_part){head, n_head};
    const md_status status =
        head ? md_file_replace_parts(path, part, 1 + list_payloads(part + 1, row, m, n_head)) : md_fail_memory();
    drop_packed(m);
    free(head);
    free(part);
    free(row);
    return status;
}

md_status md_sr_bundle_write(md_sr_bundle_maker *m, const char *path)
{
    pthread_mutex_lock(&m->lock);
    const size_t n_all = m->n;
    m->n = sort_kept(m);
    const md_status status = write_entries(m, path);
    m->n = n_all;
    pthread_mutex_unlock(&m->lock);
    return status;
}
