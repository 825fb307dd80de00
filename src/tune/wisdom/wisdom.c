/* Records in memory, stores and shipped files: finding the best, keeping the better one, quarantine, leases. */
#include "tune/wisdom/wisdom.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "tune/wisdom/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_MS = 600000 };

static void drop_record(void *value)
{
    md_tn_record_finish(value);
    free(value);
}

md_status md_tn_wisdom_create(md_tn_wisdom **out)
{
    md_tn_wisdom *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    md_mutex_init(&w->lock);
    w->records = md_table_create();
    w->quarantine = md_table_create();
    snprintf(w->origin.device, sizeof w->origin.device, "unknown");
    if (!w->records || !w->quarantine) {
        md_tn_wisdom_destroy(&w);
        return md_fail_memory();
    }
    *out = w;
    return MD_OK;
}

void md_tn_wisdom_destroy(md_tn_wisdom **wisdom)
{
    if (!wisdom || !*wisdom)
        return;
    for (int i = 0; i < MD_TN_MAX_LEASES; i++)
        md_sr_lease_release(&(*wisdom)->lease[i]);
    md_tn_shipped_close(&(*wisdom)->shipped);
    md_table_destroy(&(*wisdom)->records, drop_record);
    md_table_destroy(&(*wisdom)->quarantine, free);
    md_mutex_finish(&(*wisdom)->lock);
    free(*wisdom);
    *wisdom = NULL;
}

void md_tn_wisdom_use_store(md_tn_wisdom *wisdom, md_sr *store, const char *device)
{
    wisdom->store = store;
    wisdom->origin.environment = md_sr_environment(store);
    if (device && device[0])
        snprintf(wisdom->origin.device, sizeof wisdom->origin.device, "%s", device);
}

md_status md_tn_wisdom_use_texts(md_tn_wisdom *wisdom, const char *path, const md_log *log)
{
    return path && path[0] ? md_tn_shipped_open(&wisdom->shipped, path, log) : MD_OK;
}

void md_tn_wisdom_set_environment(md_tn_wisdom *wisdom, md_digest128 environment)
{
    wisdom->origin.environment = environment;
}

void md_tn_wisdom_use_bundles(md_tn_wisdom *wisdom, md_sr_bundle *const *bundle, int32_t n,
                              _Atomic(md_sr_bundle_maker *) *maker, const char *facts)
{
    wisdom->bundle = bundle;
    wisdom->n_bundles = n;
    wisdom->maker = maker;
    snprintf(wisdom->facts, sizeof wisdom->facts, "%s", facts);
}

void md_tn_wisdom_print_texts(md_strbuf *out, const md_tn_wisdom *wisdom)
{
    md_tn_shipped_print(out, wisdom->shipped, wisdom->origin.device);
}

md_status md_tn_wisdom_use_text(md_tn_wisdom *wisdom, const char *text, size_t n)
{
    return md_tn_shipped_add(&wisdom->shipped, text, n);
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- Records in memory, by "key \n family" */

/* "" where memory is short. */
static const char *name_of(md_strbuf *out, const char *key, const char *family)
{
    md_strbuf_printf(out, "%s\n%s", key, family);
    return md_strbuf_text(out);
}

/* True if `a` replaces `b`: it beats it, and of two that beat each other it is the newer one. */
static bool takes_place(const md_tn_record *a, const md_tn_record *b)
{
    if (!md_tn_record_beats(a, b))
        return false;
    return !md_tn_record_beats(b, a) || a->date >= b->date;
}

/* The lock is held. *is_new: the record is new or replaced another. */
static md_status remember(bool *is_new, md_tn_wisdom *w, const char *name, const md_tn_record *record)
{
    const md_tn_record *there = md_table_find(w->records, name, strlen(name));
    void *old = NULL;
    *is_new = !there || takes_place(record, there);
    if (!*is_new)
        return MD_OK;
    md_tn_record *own = malloc(sizeof *own);
    if (!own)
        return md_fail_memory();
    md_status s = md_tn_record_copy(own, record);
    if (s == MD_OK)
        s = md_table_put(w->records, name, strlen(name), own, &old);
    if (s != MD_OK) {
        drop_record(own);
        return s;
    }
    if (old)
        drop_record(old);
    return MD_OK;
}

static bool recall(md_tn_record *out, md_tn_wisdom *w, const char *name, md_tune min_rigor)
{
    pthread_mutex_lock(&w->lock);
    const md_tn_record *r = md_table_find(w->records, name, strlen(name));
    const bool is_known = r && r->rigor >= min_rigor, is_copied = is_known && md_tn_record_copy(out, r) == MD_OK;
    pthread_mutex_unlock(&w->lock);
    if (is_known && !is_copied)
        count(&w->count.unread);
    return is_copied;
}

/* ---- Records in the store */

/* Reads the entry of a name. False where it is none; finish it otherwise. */
static bool read_record(md_tn_record *out, md_tn_wisdom *w, const char *name, const void *text, size_t n)
{
    md_tn_line line;
    md_strbuf again = {0};
    const md_status s = md_tn_line_read(&line, text, n);
    if (s == MD_OUT_OF_MEMORY)
        count(&w->count.unread);
    if (s == MD_OUT_OF_MEMORY)
        return false;
    const char *own = s == MD_OK ? name_of(&again, line.record.key, line.record.family) : "";
    const bool is_read = s == MD_OK && !line.is_quarantine && !again.failed && !strcmp(own, name);
    if (!is_read)
        count(again.failed ? &w->count.unread : &w->count.unreadable);
    if (is_read)
        *out = line.record;
    else if (s == MD_OK)
        md_tn_line_finish(&line);
    md_strbuf_finish(&again);
    return is_read;
}

static bool load_record(md_tn_record *out, md_tn_wisdom *w, int32_t place, const char *name)
{
    void *text = NULL;
    size_t n = 0;
    const md_status s = md_sr_find_at(&text, &n, w->store, place, MD_TN_WISDOM_KIND, name);
    if (s == MD_OUT_OF_MEMORY)
        count(&w->count.unread);
    const bool is_read = s == MD_OK && read_record(out, w, name, text, n);
    free(text);
    return is_read;
}

static bool load_shipped(md_tn_record *out, md_tn_wisdom *w, const char *name)
{
    const char *family = strrchr(name, '\n');
    char *key = family && w->shipped ? strndup(name, (size_t)(family - name)) : NULL;
    const bool is_found = key && md_tn_shipped_find(out, w->shipped, &w->origin, key, family + 1);
    free(key);
    return is_found;
}

/* The record of most rigor; of equal rigor the user's store before systems' stores before shipped files. */
static bool load_best(md_tn_record *out, md_tn_wisdom *w, const char *name)
{
    bool is_found = false;
    const int32_t n = md_sr_n_places(w->store);
    for (int32_t place = 0; place <= n; place++) {
        md_tn_record r = {0};
        if (!(place < n ? load_record(&r, w, place, name) : load_shipped(&r, w, name)))
            continue;
        if (is_found && r.rigor <= out->rigor) {
            md_tn_record_finish(&r);
            continue;
        }
        if (is_found)
            md_tn_record_finish(out);
        *out = r;
        is_found = true;
    }
    return is_found;
}

md_status md_tn_wisdom_find(md_tn_record *out, md_tn_wisdom *w, const char *key, const char *family, md_tune min_rigor)
{
    md_strbuf buffer = {0};
    md_tn_record r = {0};
    bool is_new = false;
    const char *name = name_of(&buffer, key, family);
    if (buffer.failed) {
        md_strbuf_finish(&buffer);
        count(&w->count.unread);
        return md_fail_memory();
    }
    bool is_found = recall(out, w, name, min_rigor);
    if (!is_found && load_best(&r, w, name)) {
        pthread_mutex_lock(&w->lock);
        (void)remember(&is_new, w, name, &r);
        pthread_mutex_unlock(&w->lock);
        is_found = r.rigor >= min_rigor;
        if (is_found)
            *out = r;
        else
            md_tn_record_finish(&r);
    }
    md_strbuf_finish(&buffer);
    count(is_found ? &w->count.found : &w->count.missing);
    return is_found ? MD_OK : md_fail(MD_NOT_FOUND, "nothing is known of %s here", family);
}

void md_tn_wisdom_each_text(md_tn_wisdom *w, const char *beginning,
                            void (*visit)(void *user, const md_tn_record *record), void *user)
{
    if (!md_tn_shipped_each(w->shipped, &w->origin, beginning, visit, user))
        count(&w->count.unread);
}

typedef struct keeping {
    md_tn_wisdom *wisdom;
    const char *name;
    const md_tn_record *record;
} keeping;

/* A md_sr_merge_fn: the better record stays. One that could not be read for want of memory may be the better one. */
static md_status keep_better(void **out, size_t *n_out, void *user, const void *there, size_t n)
{
    const keeping *k = user;
    md_tn_record old = {0};
    md_strbuf text = {0};
    const uint64_t unread = atomic_load(&k->wisdom->count.unread);
    const bool is_there = there && read_record(&old, k->wisdom, k->name, there, n);
    const bool is_better = !is_there || takes_place(k->record, &old);
    md_tn_record_finish(&old);
    if (atomic_load(&k->wisdom->count.unread) != unread || !is_better)
        return MD_OK;
    md_tn_line_print(&text, &(md_tn_line){.origin = k->wisdom->origin, .record = *k->record});
    if (text.failed) {
        md_strbuf_finish(&text);
        return md_fail_memory();
    }
    *out = text.text;
    *n_out = text.size;
    return MD_OK;
}

static void keep(md_tn_wisdom *w, const char *name, const md_tn_record *record)
{
    (void)md_sr_update(w->store, MD_TN_WISDOM_KIND, name, keep_better, &(keeping){w, name, record});
}

md_status md_tn_wisdom_put(md_tn_wisdom *w, const md_tn_record *record)
{
    md_strbuf buffer = {0};
    bool is_new = false;
    const char *name = name_of(&buffer, record->key, record->family);
    md_tn_record there = {0};
    const bool is_there = load_best(&there, w, name);
    pthread_mutex_lock(&w->lock);
    if (is_there)
        (void)remember(&is_new, w, name, &there);
    md_status s = buffer.failed ? md_fail_memory() : remember(&is_new, w, name, record);
    pthread_mutex_unlock(&w->lock);
    if (s == MD_OK && is_new) {
        count(&w->count.stored);
        if (md_sr_root(w->store)[0])
            keep(w, name, record);
    }
    md_tn_record_finish(&there);
    md_strbuf_finish(&buffer);
    return s;
}

/* ---- Quarantine */

static void quarantine_name(char out[MD_FA_NAME + 40], const char *variant, md_digest128 source)
{
    char digest[33];
    md_digest_text(digest, source);
    snprintf(out, MD_FA_NAME + 40, "%.*s\n%s", MD_FA_NAME - 1, variant, digest);
}

static bool is_stored(md_tn_wisdom *w, const char *variant, md_digest128 source)
{
    char name[MD_FA_NAME + 40];
    void *bytes = NULL;
    size_t n = 0;
    bool is_there = false;
    quarantine_name(name, variant, source);
    for (int32_t place = 0; !is_there && place < md_sr_n_places(w->store); place++)
        is_there = md_sr_find_at(&bytes, &n, w->store, place, MD_TN_QUARANTINE_KIND, name) == MD_OK;
    free(bytes);
    return is_there;
}

bool md_tn_wisdom_is_quarantined(md_tn_wisdom *w, const char *variant, md_digest128 source)
{
    char name[MD_FA_NAME + 40];
    quarantine_name(name, variant, source);
    pthread_mutex_lock(&w->lock);
    bool is_there = md_table_find(w->quarantine, name, strlen(name)) != NULL;
    pthread_mutex_unlock(&w->lock);
    return is_there || is_stored(w, variant, source);
}

md_status md_tn_wisdom_quarantine(md_tn_wisdom *w, const char *variant, md_digest128 source, const char *why)
{
    char name[MD_FA_NAME + 40];
    char *text = strdup(why[0] ? why : "unknown");
    void *old = NULL;
    if (!text)
        return md_fail_memory();
    quarantine_name(name, variant, source);
    pthread_mutex_lock(&w->lock);
    md_status s = md_table_put(w->quarantine, name, strlen(name), text, &old);
    pthread_mutex_unlock(&w->lock);
    free(s == MD_OK ? old : text);
    if (s == MD_OK && md_sr_root(w->store)[0]) {
        md_strbuf line = {0};
        md_tn_line l = {.origin = w->origin, .is_quarantine = true, .record.source = source};
        snprintf(l.record.variant, sizeof l.record.variant, "%s", variant);
        snprintf(l.why, sizeof l.why, "%s", why[0] ? why : "unknown");
        md_tn_line_print(&line, &l);
        if (!line.failed)
            (void)md_sr_put(w->store, MD_TN_QUARANTINE_KIND, name, md_strbuf_text(&line), line.size);
        md_strbuf_finish(&line);
    }
    return s;
}

/* ---- Leases */

bool md_tn_wisdom_lease(int *lease, md_tn_wisdom *w, const char *key)
{
    md_sr_lease *taken = NULL;
    *lease = -1;
    if (!md_sr_is_writable(w->store))
        return true; /* no other process can see it */
    if (md_sr_lease_take(&taken, w->store, key, LEASE_MS) != MD_OK)
        return true;
    if (!taken)
        return false;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < MD_TN_MAX_LEASES && *lease < 0; i++)
        if (!w->lease[i]) {
            w->lease[i] = taken;
            *lease = i;
        }
    pthread_mutex_unlock(&w->lock);
    if (*lease < 0)
        md_sr_lease_release(&taken); /* more than are ever held at a time */
    return true;
}

void md_tn_wisdom_unlease(md_tn_wisdom *w, int lease)
{
    if (lease < 0 || lease >= MD_TN_MAX_LEASES)
        return;
    pthread_mutex_lock(&w->lock);
    md_sr_lease *held = w->lease[lease];
    w->lease[lease] = NULL;
    pthread_mutex_unlock(&w->lock);
    md_sr_lease_release(&held);
}
