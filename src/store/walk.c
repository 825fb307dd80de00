/* Going through a store's files: lists, checks, and what to do about size. */
#include "base/status.h"
#include "store/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRESH_S = 3600 };

/* ---- Folders in folders */

typedef md_status (*name_fn)(void *user, int folder, const char *name);

/* Every name in a folder but those that start with a dot. */
static md_status each_name(int at, const char *path, name_fn visit, void *user)
{
    const int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return MD_OK; /* gone, or no folder */
    }
    md_status status = MD_OK;
    for (struct dirent *e; status == MD_OK && (e = readdir(folder));)
        if (e->d_name[0] != '.')
            status = visit(user, dirfd(folder), e->d_name);
    closedir(folder);
    return status;
}

typedef md_status (*path_fn)(void *user, int environment, const char *kind, const char *path);
typedef struct descent {
    path_fn visit;
    void *user;
    int environment;
    const char *kind, *part;
} descent;

static md_status visit_file(void *user, int folder, const char *name)
{
    const descent *d = user;
    char path[MD_SR_PATH];
    (void)folder;
    const int n = snprintf(path, sizeof path, "%s/%s/%s", d->kind, d->part, name);
    return n < MD_SR_PATH ? d->visit(d->user, d->environment, d->kind, path) : MD_OK;
}

static md_status visit_part(void *user, int folder, const char *name)
{
    descent *d = user;
    d->part = name;
    return each_name(folder, name, visit_file, d);
}

/* All files of a kind. */
static md_status each_of_kind(int environment, const char *kind, path_fn visit, void *user)
{
    descent d = {visit, user, environment, kind, NULL};
    return each_name(environment, kind, visit_part, &d);
}

static md_status visit_kind(void *user, int folder, const char *name)
{
    descent *d = user;
    return strcmp(name, MD_SR_LEASES) ? each_of_kind(folder, name, d->visit, d->user) : MD_OK;
}

static md_status each_entry(int environment, path_fn visit, void *user)
{
    descent d = {.visit = visit, .user = user};
    return each_name(environment, ".", visit_kind, &d);
}

/* ---- What killed processes left */

static bool restore(int fd, const char *name)
{
    char path[MD_SR_PATH], *bytes = NULL, kind[MD_SR_PATH];
    size_t n = 0;
    md_sr_entry e;
    bool is_entry = md_sr_file_read(&bytes, &n, fd, name, MD_SR_USERS, false) == MD_OK &&
                    !md_sr_entry_read(&e, bytes, n, NULL, NULL);
    const char *blank = is_entry ? memchr(e.key, ' ', MD_MIN(e.n_key, sizeof kind - 1)) : NULL;
    if (blank) {
        snprintf(kind, sizeof kind, "%.*s", (int)(blank - e.key), e.key);
        if (md_sr_path(path, kind, md_hash128(e.key, e.n_key)))
            (void)linkat(fd, name, fd, path, 0);
    }
    free(bytes);
    return blank != NULL;
}

typedef struct sweep {
    int fd; /* of the environment */
    struct timespec now; /* by the file server's clock, which may be set at any time */
} sweep;

static md_status clear_one(void *user, int folder, const char *name)
{
    const sweep *s = user;
    struct stat facts;
    char path[MD_SR_PATH];
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0 ||
        snprintf(path, sizeof path, MD_SR_FRESH "/%s", name) >= MD_SR_PATH)
        return MD_OK;
    const int64_t age = (int64_t)s->now.tv_sec - facts.st_mtim.tv_sec;
    const bool is_aside = !strncmp(name, MD_SR_ASIDE, strlen(MD_SR_ASIDE));
    if (is_aside) /* of an entry's own age, and never for long */
        restore(s->fd, path);
    else if (age < FRESH_S && age > -FRESH_S)
        return MD_OK;
    unlinkat(folder, name, 0);
    return MD_OK;
}

void md_sr_clear_fresh(int fd)
{
    char name[MD_SR_PATH];
    struct stat facts;
    sweep s = {.fd = fd};
    if (md_sr_fresh_write(name, fd, "", 0, false) != MD_OK)
        return;
    if (fstatat(fd, name, &facts, AT_SYMLINK_NOFOLLOW) == 0) {
        s.now = facts.st_mtim;
        (void)each_name(fd, MD_SR_FRESH, clear_one, &s);
    }
    unlinkat(fd, name, 0);
}

/* ---- Entries of one kind */

typedef struct reading {
    md_sr *store;
    md_sr_owner owner;
    md_sr_visit_fn visit;
    void *user;
} reading;

static md_status read_one(void *user, int fd, const char *kind, const char *path)
{
    const reading *r = user;
    char *bytes = NULL;
    size_t n = 0;
    md_sr_entry e;
    md_status status = md_sr_file_read(&bytes, &n, fd, path, r->owner, false);
    if (status != MD_OK)
        return status == MD_OUT_OF_MEMORY ? status : MD_OK;
    const size_t n_kind = strlen(kind) + 1;
    if (!md_sr_entry_read(&e, bytes, n, &r->store->environment, NULL) && e.n_key >= n_kind) {
        char *key = strndup(e.key + n_kind, e.n_key - n_kind);
        status = key ? r->visit(r->user, key, e.payload, e.n_payload) : md_fail_memory();
        free(key);
    }
    free(bytes);
    return status;
}

md_status md_sr_each(md_sr *store, int32_t place, const char *kind, md_sr_visit_fn visit, void *user)
{
    const int32_t i = store ? place - !store->has_user : -1;
    if (i < 0 || i >= store->n_places)
        return MD_OK;
    md_sr_place *p = &store->place[i];
    const int fd = md_sr_place_fd(store, p);
    reading r = {store, p->owner, visit, user};
    return fd >= 0 ? each_of_kind(fd, kind, read_one, &r) : MD_OK;
}

/* ---- All environments */

typedef struct walker {
    bool removes;
    md_sr_file_fn visit;
    void *user;
    const char *environment, *about;
    md_digest128 digest;
} walker;

static bool parse_digest(md_digest128 *out, const char *text)
{
    unsigned long long hi = 0, lo = 0;
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32 || sscanf(text, "%16llx%16llx", &hi, &lo) != 2)
        return false;
    *out = (md_digest128){lo, hi};
    return true;
}

static const char *problem_of(md_sr_entry *e, const char *bytes, size_t n, const md_digest128 *environment,
                              const char *path)
{
    char good[MD_SR_PATH], kind[MD_SR_PATH];
    const char *why = md_sr_entry_read(e, bytes, n, environment, NULL);
    if (why)
        return why;
    const size_t n_kind = strcspn(path, "/");
    if (n_kind >= sizeof kind)
        return "under a name that is not its key's";
    memcpy(kind, path, n_kind);
    kind[n_kind] = 0;
    return md_sr_path(good, kind, md_hash128(e->key, e->n_key)) && !strcmp(good, path)
               ? NULL
               : "under a name that is not its key's";
}

static md_status walk_one(void *user, int fd, const char *kind, const char *path)
{
    const walker *w = user;
    struct stat facts;
    char *bytes = NULL, *key = NULL;
    size_t n = 0;
    md_sr_entry e = {0};
    if (fstatat(fd, path, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return MD_OK; /* gone meanwhile */
    md_sr_file f = {w->environment, w->about, kind, "", NULL, facts.st_size, facts.st_mtime};
    md_status status = md_sr_file_read(&bytes, &n, fd, path, MD_SR_USERS, false);
    if (status == MD_OUT_OF_MEMORY || status == MD_NOT_FOUND)
        return status == MD_NOT_FOUND ? MD_OK : status;
    f.problem = status == MD_OK ? problem_of(&e, bytes, n, &w->digest, path) : md_last_error();
    const size_t n_kind = strlen(kind) + 1;
    if (!f.problem && e.n_key >= n_kind && (key = strndup(e.key + n_kind, e.n_key - n_kind)))
        f.key = key;
    if (f.problem && w->removes)
        md_sr_take_away(fd, path, NULL);
    status = w->visit(w->user, &f);
    free(key);
    free(bytes);
    return status;
}

static md_status walk_environment(void *user, int root, const char *name)
{
    walker *w = user;
    char *about = NULL;
    size_t n = 0;
    int fd = -1;
    if (!parse_digest(&w->digest, name) || md_sr_folder_open(&fd, root, name, MD_SR_USERS) != MD_OK)
        return MD_OK;
    if (md_sr_file_read(&about, &n, fd, MD_SR_ABOUT, MD_SR_USERS, false) == MD_OK)
        about[strcspn(about, "\n")] = 0;
    w->environment = name;
    w->about = about ? about : "";
    if (w->removes)
        md_sr_clear_fresh(fd);
    const md_status status = each_entry(fd, walk_one, w);
    free(about);
    close(fd);
    return status;
}

md_status md_sr_walk(const char *root, bool removes, md_sr_file_fn visit, void *user)
{
    walker w = {.removes = removes, .visit = visit, .user = user};
    int fd = -1;
    MD_TRY(md_sr_folder_open(&fd, AT_FDCWD, root, MD_SR_USERS));
    const md_status status = each_name(fd, ".", walk_environment, &w);
    close(fd);
    return status;
}

/* ---- Size */

typedef struct old_file {
    char path[33 + MD_SR_PATH]; /* below the root */
    bool is_wisdom;
    int64_t n_bytes, used_ns;
} old_file;

typedef struct collection {
    old_file *file;
    size_t n, capacity;
    const char *environment;
    int64_t n_bytes;
} collection;

static md_status collect_one(void *user, int fd, const char *kind, const char *path)
{
    collection *c = user;
    struct stat facts;
    if (fstatat(fd, path, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode))
        return MD_OK;
    if (c->n == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 256;
        old_file *more = realloc(c->file, capacity * sizeof *more);
        if (!more)
            return md_fail_memory();
        c->file = more;
        c->capacity = capacity;
    }
    old_file *f = &c->file[c->n++];
    snprintf(f->path, sizeof f->path, "%.32s/%s", c->environment, path);
    f->is_wisdom = !strcmp(kind, MD_SR_WISDOM);
    f->n_bytes = facts.st_size;
    f->used_ns = (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec;
    c->n_bytes += f->n_bytes;
    return MD_OK;
}

static md_status collect_environment(void *user, int root, const char *name)
{
    collection *c = user;
    md_digest128 digest;
    int fd = -1;
    if (!parse_digest(&digest, name) || md_sr_folder_open(&fd, root, name, MD_SR_USERS) != MD_OK)
        return MD_OK;
    c->environment = name;
    const md_status status = each_entry(fd, collect_one, c);
    close(fd);
    return status;
}

static int by_use(const void *a, const void *b)
{
    const old_file *x = a, *y = b;
    if (x->is_wisdom != y->is_wisdom)
        return x->is_wisdom - y->is_wisdom;
    return x->used_ns != y->used_ns ? (x->used_ns < y->used_ns ? -1 : 1) : strcmp(x->path, y->path);
}

md_status md_sr_gc(md_sr_gc_result *out, const char *root, int64_t limit_bytes)
{
    collection c = {0};
    md_sr_gc_result r = {0};
    int fd = -1;
    MD_TRY(md_sr_folder_open(&fd, AT_FDCWD, root, MD_SR_USERS));
    md_status status = each_name(fd, ".", collect_environment, &c);
    if (status == MD_OK && c.n) {
        r.n_entries = (int64_t)c.n;
        r.n_bytes = c.n_bytes;
        qsort(c.file, c.n, sizeof *c.file, by_use);
        for (size_t i = 0; i < c.n && c.n_bytes - r.n_removed_bytes > limit_bytes; i++)
            if (unlinkat(fd, c.file[i].path, 0) == 0) {
                r.n_removed++;
                r.n_removed_bytes += c.file[i].n_bytes;
            }
    }
    free(c.file);
    close(fd);
    *out = r;
    return status;
}
