/* Keeps a store small: removes the entries that were unused longest. */
#include "base/grow.h"
#include "base/status.h"
#include "store/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct old_file {
    char path[33 + MD_SR_PATH]; /* below the root */
    bool is_wisdom;
    int64_t n_bytes, used_ns;
} old_file;

typedef struct collection {
    old_file *file;
    size_t n;
    const char *environment;
    int64_t n_bytes;
} collection;

static md_status collect_one(void *user, int fd, const char *kind, const char *path)
{
    collection *c = user;
    struct stat facts;
    if (fstatat(fd, path, &facts, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(facts.st_mode))
        return MD_OK;
    if (!md_grow(&c->file, c->n, sizeof *c->file))
        return md_fail_memory();
    old_file *f = &c->file[c->n++];
    snprintf(f->path, sizeof f->path, "%.32s/%s", c->environment, path);
    f->is_wisdom = !strcmp(kind, MD_SR_WISDOM) || !strcmp(kind, MD_SR_MEASURED) || !strcmp(kind, MD_SR_COMBO);
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
    if (!md_sr_parse_digest(&digest, name) || md_sr_folder_open(&fd, root, name, MD_SR_USERS) != MD_OK)
        return MD_OK;
    c->environment = name;
    const md_status status = md_sr_each_entry(fd, collect_one, c);
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
    md_status status = md_sr_each_name(fd, ".", collect_environment, &c);
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
