/* Temporary folders. Their owner holds a lock on them, which the system releases when the owner ends, however it ends:
 * so a folder that can be locked is a leftover. */
#include "base/temp.h"

#include "base/env.h"
#include "base/status.h"
#include "base/writing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "multidispatch-tmp-"

static int open_folder(int at, const char *path)
{
    return md_above_standard(openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* Locks a new folder. False if a sweep of another process has removed it first. */
static bool lock_new(md_temp *t)
{
    struct stat facts;
    t->fd = open_folder(AT_FDCWD, t->path);
    if (t->fd < 0)
        return false;
    (void)flock(t->fd, LOCK_EX); /* without locks (some network file systems) the folder is never swept */
    if (fstat(t->fd, &facts) == 0 && facts.st_nlink > 0 && facts.st_uid == geteuid())
        return true;
    close(t->fd);
    t->fd = -1;
    return false;
}

/* ---- Where they are made */

/* True if those who may write into a folder may also rename and remove what others have there. */
static bool is_open(const struct stat *facts, mode_t who)
{
    return (facts->st_mode & who) && !(facts->st_mode & S_ISVTX);
}

/* The system's user for owners that it does not know: inside a container, those of the outside. */
static bool is_system(uid_t owner)
{
    enum { UNKNOWN = 65534 };
    return owner == 0 || owner == UNKNOWN;
}

/* Others could put a folder of theirs in the place of one of ours. NULL: they cannot, else why. */
static const char *distrust(const char *root)
{
    char path[PATH_MAX];
    struct stat facts;
    if (!realpath(root, path) || stat(path, &facts) != 0)
        return NULL; /* making a folder says why */
    if (facts.st_uid != geteuid() && !is_system(facts.st_uid))
        return "it belongs to another user";
    if (is_open(&facts, S_IWGRP | S_IWOTH))
        return "others may write to it, and it has no sticky bit";
    for (char *slash; (slash = strrchr(path, '/')) != NULL && slash != path;) {
        *slash = 0;
        if (stat(path, &facts) == 0 && is_open(&facts, S_IWOTH))
            return "others may write to a folder above it, which has no sticky bit";
    }
    return NULL;
}

/* The last one may be written to where nothing else may: in containers whose root is read-only. */
static const char *const standard_roots[] = {"/tmp", "/var/tmp", "/dev/shm"};

/* TMPDIR's folder, if it is one to trust, else those of the system that are. Returns how many. */
static int32_t find_roots(const char *out[MD_COUNT(standard_roots)], char *const *environment)
{
    const char *own = md_env_foreign(environment, "TMPDIR");
    int32_t n = 0;
    if (own && !distrust(own))
        out[n++] = own;
    for (int32_t i = 0; i < MD_COUNT(standard_roots) && (n == 0 || out[0] != own); i++)
        if (!distrust(standard_roots[i]))
            out[n++] = standard_roots[i];
    return n;
}

md_status md_temp_check(char *const *environment)
{
    const char *own = md_env_foreign(environment, "TMPDIR"), *why = own ? distrust(own) : NULL;
    return why ? md_fail(MD_IO, "%.700s (TMPDIR) is not used: %s", own, why) : MD_OK;
}

static md_status make_in(md_temp *out, const char *root)
{
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        const int n = snprintf(out->path, sizeof out->path, "%s/" PREFIX "XXXXXX", root);
        if (n < 0 || (size_t)n >= sizeof out->path)
            return md_fail(MD_IO, "TMPDIR is longer than %zu characters", sizeof out->path - 32);
        if (!mkdtemp(out->path)) {
            const int reason = errno;
            return md_fail(MD_IO, "cannot make a temporary folder in %.700s (TMPDIR): %s", root, strerror(reason));
        }
        if (lock_new(out))
            return MD_OK;
        rmdir(out->path);
    }
    return md_fail(MD_IO, "cannot keep a temporary folder in %.700s (TMPDIR)", root);
}

md_status md_temp_make(md_temp *out, char *const *environment)
{
    const char *root[MD_COUNT(standard_roots)];
    const int32_t n = find_roots(root, environment);
    out->fd = -1;
    for (int32_t i = 0; i < n; i++)
        if (make_in(out, root[i]) == MD_OK)
            return MD_OK;
    return n > 0 ? make_in(out, root[0]) /* says why */
                 : md_fail(MD_IO, "no folder for temporary files: %s is not used: %s", standard_roots[0],
                           distrust(standard_roots[0]));
}

static void remove_files(int fd)
{
    const int own = dup(fd);
    DIR *folder = own >= 0 ? fdopendir(own) : NULL;
    if (!folder && own >= 0)
        close(own);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));)
        unlinkat(fd, entry->d_name, 0); /* fails for "." and "..", which is right */
    closedir(folder);
}

void md_temp_remove(md_temp *folder)
{
    if (folder->fd < 0)
        return;
    remove_files(folder->fd);
    rmdir(folder->path);
    close(folder->fd);
    folder->fd = -1;
}

static void sweep_one(int root, const char *name)
{
    struct stat facts;
    const int fd = open_folder(root, name);
    if (fd < 0)
        return;
    if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        remove_files(fd);
        unlinkat(root, name, AT_REMOVEDIR);
    }
    close(fd);
}

void md_temp_sweep(char *const *environment)
{
    const char *path[MD_COUNT(standard_roots)];
    const int32_t n = find_roots(path, environment);
    for (int32_t i = 0; i < n; i++) {
        DIR *root = opendir(path[i]);
        if (!root)
            continue;
        for (struct dirent *entry; (entry = readdir(root));)
            if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
                sweep_one(dirfd(root), entry->d_name);
        closedir(root);
    }
}
