/* Opens and closes a store, and reads and writes its entries. */
#include "base/status.h"
#include "base/task/fork.h"
#include "store/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t DEFAULT_LIMIT = (int64_t)1 << 30;

/* ---- Opening */

static md_status add_place(md_sr *s, const char *path, size_t n, md_sr_owner owner)
{
    if (n == 0 || s->n_places == MD_SR_MAX_PLACES)
        return MD_OK;
    md_sr_place *p = &s->place[s->n_places];
    p->path = strndup(path, n);
    if (!p->path)
        return md_fail_memory();
    while (n > 1 && p->path[n - 1] == '/')
        p->path[--n] = 0; /* "name/" would follow a symbolic link */
    p->owner = owner;
    s->n_places++;
    return MD_OK;
}

static md_status add_places(md_sr *s, const md_sr_options *o)
{
    if (o->root && o->root[0])
        MD_TRY(add_place(s, o->root, strlen(o->root), MD_SR_USERS));
    s->has_user = s->n_places > 0;
    for (const char *at = o->system_path; at && *at;) {
        const size_t n = strcspn(at, ":");
        MD_TRY(add_place(s, at, n, MD_SR_SYSTEMS));
        at += n + (at[n] == ':');
    }
    return MD_OK;
}

md_status md_sr_open(md_sr **out, const md_sr_options *options)
{
    md_sr *s = calloc(1, sizeof *s);
    if (!s)
        return md_fail_memory();
    md_mutex_init(&s->lock_of_places);
    s->log = options->log;
    s->limit_bytes = options->limit_bytes ? options->limit_bytes : DEFAULT_LIMIT;
    for (int32_t i = 0; i < MD_SR_MAX_PLACES; i++)
        atomic_init(&s->place[i].fd, -1);
    const char *about = options->environment ? options->environment : "";
    s->environment = md_hash128(about, strlen(about));
    md_digest_text(s->folder, s->environment);
    s->about = strdup(about);
    md_status status = s->about ? add_places(s, options) : md_fail_memory();
    if (status != MD_OK)
        md_sr_close(&s);
    for (int32_t i = 0; status == MD_OK && i < s->n_places; i++)
        (void)md_sr_place_fd(s, &s->place[i]); /* warns at once about a refused folder */
    *out = status == MD_OK ? s : NULL;
    return status;
}

/* Collects garbage, but only in a store that wrote something. */
static void keep_small(md_sr *s)
{
    md_sr_gc_result result;
    if (s->limit_bytes > 0 && atomic_load_explicit(&s->count.written, memory_order_relaxed))
        (void)md_sr_gc(&result, s->place[0].path, s->limit_bytes);
}

void md_sr_close(md_sr **store)
{
    if (!store || !*store)
        return;
    md_sr *s = *store;
    keep_small(s);
    for (int32_t i = 0; i < s->n_places; i++) {
        const int fd = atomic_load_explicit(&s->place[i].fd, memory_order_relaxed);
        if (fd >= 0)
            close(fd);
        free(s->place[i].path);
    }
    md_mutex_finish(&s->lock_of_places);
    free(s->about);
    free(s);
    *store = NULL;
}

/* ---- Facts */

const md_sr_counters *md_sr_count(const md_sr *store)
{
    static const md_sr_counters none = {0};
    return store ? &store->count : &none;
}

const char *md_sr_root(const md_sr *store)
{
    return store && store->has_user ? store->place[0].path : "";
}

md_digest128 md_sr_environment(const md_sr *store)
{
    return store ? store->environment : (md_digest128){0, 0};
}

bool md_sr_is_writable(const md_sr *store)
{
    return store && store->has_user && !store->place[0].is_refused &&
           !atomic_load_explicit(&store->has_failed, memory_order_relaxed);
}

int32_t md_sr_n_places(const md_sr *store)
{
    return !store            ? 0
           : store->has_user ? store->n_places
                             : store->n_places + 1; /* place 0 is the user's, even if there is none */
}

static md_sr_place *place_of(md_sr *s, int32_t i)
{
    i -= s && !s->has_user;
    return s && i >= 0 && i < s->n_places ? &s->place[i] : NULL;
}

/* ---- Reading */

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static char *full_key(const char *kind, const char *key)
{
    char *full = NULL;
    return asprintf(&full, "%s %s", kind, key) < 0 ? NULL : full;
}

/* Counts a file that is no entry, and takes it away from the user's folder. */
static void heal(md_sr *s, const md_sr_place *p, int fd, const char *path, const char *why)
{
    count(&s->count.healed);
    md_log_at(s->log, MD_LOG_INFO, "store: %s/%s/%s is no entry: %s", p->path, s->folder, path, why);
    if (p->owner == MD_SR_USERS)
        md_sr_take_away(fd, path, &s->environment);
}

/* Moves the payload to the start of the bytes that were read. */
static void *unpack(char *bytes, const md_sr_entry *entry, size_t *n)
{
    *n = entry->n_payload;
    memmove(bytes, entry->payload, entry->n_payload);
    bytes[entry->n_payload] = 0;
    return bytes;
}

static md_status find_in(void **out, size_t *n, md_sr *s, md_sr_place *p, const char *kind, const char *full)
{
    char path[MD_SR_PATH], *bytes = NULL;
    size_t size = 0;
    md_sr_entry entry;
    const int fd = md_sr_place_fd(s, p);
    if (fd < 0 || !md_sr_path(path, kind, md_hash128(full, strlen(full))))
        return MD_NOT_FOUND;
    const md_status status = md_sr_file_read(&bytes, &size, fd, path, p->owner, p->owner == MD_SR_USERS);
    if (status == MD_OUT_OF_MEMORY)
        return status;
    const char *why = status == MD_OK ? md_sr_entry_read(&entry, bytes, size, &s->environment, full) : md_last_error();
    if (!why) {
        *out = unpack(bytes, &entry, n);
        return MD_OK;
    }
    if (status != MD_NOT_FOUND)
        heal(s, p, fd, path, why);
    free(bytes);
    return MD_NOT_FOUND;
}

static md_status not_found(const char *kind, const char *key)
{
    return md_fail(MD_NOT_FOUND, "the store has no %s '%.200s'", kind, key);
}

md_status md_sr_find_at(void **out, size_t *n, md_sr *store, int32_t place, const char *kind, const char *key)
{
    md_sr_place *p = place_of(store, place);
    if (!p)
        return not_found(kind, key);
    char *full = full_key(kind, key);
    const md_status status = full ? find_in(out, n, store, p, kind, full) : md_fail_memory();
    free(full);
    return status == MD_NOT_FOUND ? not_found(kind, key) : status;
}

md_status md_sr_find(void **out, size_t *n, md_sr *store, const char *kind, const char *key)
{
    md_status status = MD_NOT_FOUND;
    char *full = full_key(kind, key);
    if (!full)
        return md_fail_memory();
    for (int32_t i = 0; store && status == MD_NOT_FOUND && i < store->n_places; i++)
        status = find_in(out, n, store, &store->place[i], kind, full);
    free(full);
    if (store && status != MD_OUT_OF_MEMORY)
        count(status == MD_OK ? &store->count.hits : &store->count.misses);
    return status == MD_NOT_FOUND ? not_found(kind, key) : status;
}

/* ---- Writing */

/* Replaces the file while the lease is held, which is asked for when the new one is on disk: that may take long. */
static md_status replace_held(bool *is_done, int fd, const char *path, const md_sr_payload *packed)
{
    char name[MD_SR_PATH];
    MD_TRY(md_sr_fresh_write(name, fd, packed->bytes, packed->n, true));
    *is_done = md_sr_lease_is_held(packed->lease);
    if (*is_done)
        return md_sr_fresh_rename(fd, name, path);
    unlinkat(fd, name, 0);
    return MD_OK;
}

static md_status put_file(bool *is_done, int fd, const char *path, const md_sr_payload *packed)
{
    if (packed->is_added)
        return md_sr_file_add(is_done, fd, path, packed->bytes, packed->n);
    if (packed->lease)
        return replace_held(is_done, fd, path, packed);
    *is_done = true;
    return md_sr_file_write(fd, path, packed->bytes, packed->n);
}

static md_status put_in(bool *is_done, md_sr *s, const char *kind, const char *full, const md_sr_payload *payload)
{
    char path[MD_SR_PATH];
    void *bytes = NULL;
    md_sr_payload packed = *payload;
    int fd = -1;
    MD_TRY(md_sr_writable_fd(&fd, s));
    if (!md_sr_path(path, kind, md_hash128(full, strlen(full))))
        return md_fail(MD_INVALID_ARGUMENT, "'%.200s' is no kind of entry", kind);
    MD_TRY(md_sr_entry_pack(&bytes, &packed.n, s->environment, full, payload->bytes, payload->n));
    packed.bytes = bytes;
    const md_status status = put_file(is_done, fd, path, &packed);
    free(bytes);
    return status;
}

md_status md_sr_put_counted(bool *is_done, md_sr *store, const char *kind, const char *key,
                            const md_sr_payload *payload)
{
    if (!store || !store->has_user)
        return md_fail(MD_IO, "there is no folder to keep things in");
    char *full = full_key(kind, key);
    if (!full)
        return md_fail_memory();
    const md_status status = put_in(is_done, store, kind, full, payload);
    free(full);
    if (status == MD_OK) {
        if (*is_done)
            count(&store->count.written);
        return MD_OK;
    }
    count(&store->count.write_failures);
    if (!store->place[0].is_refused) /* a refused folder has its own warning */
        md_sr_warn_once(store, "entries cannot be kept");
    atomic_store_explicit(&store->has_failed, true, memory_order_relaxed);
    return status;
}

md_status md_sr_put(md_sr *store, const char *kind, const char *key, const void *payload, size_t n)
{
    bool is_done;
    return md_sr_put_counted(&is_done, store, kind, key, &(md_sr_payload){.bytes = payload, .n = n});
}

void md_sr_discard(md_sr *store, const char *kind, const char *key)
{
    char path[MD_SR_PATH];
    char *full = store && store->has_user ? full_key(kind, key) : NULL;
    const int fd = full ? md_sr_place_fd(store, &store->place[0]) : -1;
    if (fd >= 0 && md_sr_path(path, kind, md_hash128(full, strlen(full)))) {
        count(&store->count.healed);
        md_sr_take_away(fd, path, NULL);
    }
    free(full);
}
