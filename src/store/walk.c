/* Reads and checks all entries of a kind, or all entries of all environments. */
#include "base/status.h"
#include "store/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return fd >= 0 ? md_sr_each_of_kind(fd, kind, read_one, &r) : MD_OK;
}

typedef struct walker {
    bool removes;
    md_sr_file_fn visit;
    void *user;
    const char *environment, *about;
    md_digest128 digest;
} walker;

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
    const bool has_key = !f.problem && e.n_key >= n_kind;
    if (has_key)
        key = strndup(e.key + n_kind, e.n_key - n_kind);
    f.key = key ? key : "";
    if (f.problem && w->removes)
        md_sr_take_away(fd, path, NULL);
    status = has_key && !key ? md_fail_memory() : w->visit(w->user, &f);
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
    if (!md_sr_parse_digest(&w->digest, name) || md_sr_folder_open(&fd, root, name, MD_SR_USERS) != MD_OK)
        return MD_OK;
    md_status status = md_sr_file_read(&about, &n, fd, MD_SR_ABOUT, MD_SR_USERS, false);
    if (status == MD_OK)
        about[strcspn(about, "\n")] = 0;
    w->environment = name;
    w->about = about ? about : "";
    if (w->removes)
        md_sr_clear_fresh(fd);
    /* a folder without a description is not used: nobody could say whose entries it has */
    if (status != MD_OUT_OF_MEMORY)
        status = md_sr_each_entry(fd, walk_one, w);
    free(about);
    close(fd);
    return status;
}

md_status md_sr_walk(const char *root, bool removes, md_sr_file_fn visit, void *user)
{
    walker w = {.removes = removes, .visit = visit, .user = user};
    int fd = -1;
    MD_TRY(md_sr_folder_open(&fd, AT_FDCWD, root, MD_SR_USERS));
    const md_status status = md_sr_each_name(fd, ".", walk_environment, &w);
    close(fd);
    return status;
}
