/* Bad files and what killed processes left: taken away, or given their name back. */
#include "base/status.h"
#include "store/internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRESH_S = 3600 };

/* Another process may have replaced the bad file by a good one meanwhile. So the file is renamed first and read
 * again. */
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
        md_sr_put_back(fd, aside, path);
    free(bytes);
    unlinkat(fd, aside, 0);
}

/* Links an entry back to its name, unless that name has a file again. True if the file is an entry. */
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
            md_sr_put_back(fd, name, path);
    }
    free(bytes);
    return blank != NULL;
}

typedef struct sweep {
    int fd; /* of the environment */
    struct timespec now; /* by the file server's clock */
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
    if (is_aside) /* its time stamp is the entry's own, so age says nothing */
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
        (void)md_sr_each_name(fd, MD_SR_FRESH, clear_one, &s);
    }
    unlinkat(fd, name, 0);
}
