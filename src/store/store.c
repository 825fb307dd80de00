#include "store/store.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "store/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t DEFAULT_LIMIT = (int64_t)1 << 30;

/* ---- Opening */

static void warn_once(md_sr *s, const char *what)
{
    if (!atomic_exchange_explicit(&s->has_warned, true, memory_order_relaxed))
        md_log_at(s->log, MD_LOG_WARN, "store: %s: %s", what, md_last_error());
}

/* Opens <path>/<environment>. NOT_FOUND where there is none. */
static md_status open_place(md_sr *s, md_sr_place *p)
{
    int root = -1, fd = -1;
    md_status status = md_sr_folder_open(&root, AT_FDCWD, p->path, p->owner);
    if (status == MD_OK) {
        status = md_sr_folder_open(&fd, root, s->folder, p->owner);
        close(root);
    }
    if (status == MD_OK)
        atomic_store_explicit(&p->fd, fd, memory_order_release);
    return status;
}

/* The folder, perhaps made by somebody only now; -1 where there is none. */
int md_sr_place_fd(md_sr *s, md_sr_place *p)
{
    int fd = atomic_load_explicit(&p->fd, memory_order_acquire);
    if (fd >= 0 || p->is_refused)
        return fd;
    pthread_mutex_lock(&s->lock_of_places);
    if (atomic_load_explicit(&p->fd, memory_order_relaxed) < 0 && !p->is_refused) {
        const md_status status = open_place(s, p);
        if (status != MD_OK && status != MD_NOT_FOUND) {
            p->is_refused = true;
            warn_once(s, "nothing is read from this folder");
        }
    }
    pthread_mutex_unlock(&s->lock_of_places);
    return atomic_load_explicit(&p->fd, memory_order_acquire);
}

static md_status add_place(md_sr *s, const char *path, size_t n, md_sr_owner owner)
{
    if (n == 0 || s->n_places == MD_SR_MAX_PLACES)
        return MD_OK;
    md_sr_place *p = &s->place[s->n_places];
    p->path = strndup(path, n);
    if (!p->path)
        return md_fail_memory();
    while (n > 1 && p->path[n - 1] == '/')
        p->path[--n] = 0; /* "name/" would follow a link */
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
        (void)md_sr_place_fd(s, &s->place[i]); /* says at once what is refused */
    *out = status == MD_OK ? s : NULL;
    return status;
}

/* Only who wrote looks how much there is. */
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
    return !store ? 0 : store->has_user ? store->n_places : store->n_places + 1; /* 0 is the user's, there or not */
}

/* NULL where there is none. */
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

/* A reader that finds a bad file may be late: another process may just have put a good one there. So it is taken
 * aside first and looked at again. */
void md_sr_take_away(int fd, const char *path, const md_digest128 *environment)
{
    char aside[MD_SR_PATH];
    char *bytes = NULL;
    size_t n = 0;
    md_sr_entry entry;
    md_sr_fresh_name(aside, MD_SR_ASIDE);
    if (renameat(fd, path, fd, aside) != 0)
        return;
    if (environment && md_sr_file_read(&bytes, &n, fd, aside, MD_SR_USERS, false) == MD_OK &&
        !md_sr_entry_read(&entry, bytes, n, environment, NULL))
        (void)linkat(fd, aside, fd, path, 0); /* not over a still newer one */
    free(bytes);
    unlinkat(fd, aside, 0);
}

static void heal(md_sr *s, const md_sr_place *p, int fd, const char *path, const char *why)
{
    count(&s->count.healed);
    md_log_at(s->log, MD_LOG_INFO, "store: %s/%s/%s is no entry: %s", p->path, s->folder, path, why);
    if (p->owner == MD_SR_USERS)
        md_sr_take_away(fd, path, &s->environment);
}

/* The payload, moved to the head of the bytes that were read. */
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

/* Makes root and environment, with a text that says what the digest stands for. */
static md_status make_place(md_sr *s, md_sr_place *p)
{
    int root = -1, fd = -1;
    MD_TRY(md_sr_folder_make(&root, AT_FDCWD, p->path, true));
    md_status status = md_sr_folder_make(&fd, root, s->folder, false);
    close(root);
    MD_TRY(status);
    if (faccessat(fd, MD_SR_ABOUT, F_OK, 0) != 0)
        status = md_sr_file_write(fd, MD_SR_ABOUT, s->about, strlen(s->about));
    if (status != MD_OK) {
        close(fd);
        return status;
    }
    md_sr_clear_fresh(fd);
    atomic_store_explicit(&p->fd, fd, memory_order_release);
    return MD_OK;
}

md_status md_sr_writable_fd(int *fd, md_sr *s)
{
    if (!s || !s->has_user)
        return md_fail(MD_IO, "there is no folder to keep things in");
    md_sr_place *p = &s->place[0];
    md_status status = MD_OK;
    pthread_mutex_lock(&s->lock_of_places);
    if (p->is_refused)
        status = md_fail(MD_IO, "the folder %s is refused", p->path);
    else if (atomic_load_explicit(&p->fd, memory_order_relaxed) < 0)
        status = make_place(s, p);
    pthread_mutex_unlock(&s->lock_of_places);
    *fd = atomic_load_explicit(&p->fd, memory_order_acquire);
    return status;
}

static md_status put_in(md_sr *s, const char *kind, const char *full, const void *payload, size_t n)
{
    char path[MD_SR_PATH];
    void *bytes = NULL;
    size_t n_bytes = 0;
    int fd = -1;
    MD_TRY(md_sr_writable_fd(&fd, s));
    if (!md_sr_path(path, kind, md_hash128(full, strlen(full))))
        return md_fail(MD_INVALID_ARGUMENT, "'%.200s' is no kind of entry", kind);
    MD_TRY(md_sr_entry_pack(&bytes, &n_bytes, s->environment, full, payload, n));
    const md_status status = md_sr_file_write(fd, path, bytes, n_bytes);
    free(bytes);
    return status;
}

md_status md_sr_put(md_sr *store, const char *kind, const char *key, const void *payload, size_t n)
{
    if (!store || !store->has_user)
        return md_fail(MD_IO, "there is no folder to keep things in");
    char *full = full_key(kind, key);
    if (!full)
        return md_fail_memory();
    const md_status status = put_in(store, kind, full, payload, n);
    free(full);
    if (status == MD_OK) {
        count(&store->count.written);
        return MD_OK;
    }
    count(&store->count.write_failures);
    if (!store->place[0].is_refused) /* that was said */
        warn_once(store, "entries cannot be kept");
    atomic_store_explicit(&store->has_failed, true, memory_order_relaxed);
    return status;
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
