/* Temporary folders. Their owner holds a lock on them, which the system releases when the owner ends, however it ends:
 * so a folder that can be locked is a leftover. */
#include "base/temp.h"

#include "base/env.h"
#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
    return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Locks a new folder. False if a sweep of another process has removed it first. */
static bool lock_new(md_temp *t)
{
    struct stat facts;
    t->fd = open_folder(AT_FDCWD, t->path);
    if (t->fd < 0)
        return false;
    (void)flock(t->fd, LOCK_EX); /* without locks (some network file systems) the folder is never swept */
    if (fstat(t->fd, &facts) == 0 && facts.st_nlink > 0)
        return true;
    close(t->fd);
    t->fd = -1;
    return false;
}

md_status md_temp_make(md_temp *out)
{
    enum { TRIES = 8 };
    const char *root = md_env_temp_root();
    for (int i = 0; i < TRIES; i++) {
        const int n = snprintf(out->path, sizeof out->path, "%s/" PREFIX "XXXXXX", root);
        out->fd = -1;
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

void md_temp_sweep(void)
{
    DIR *root = opendir(md_env_temp_root());
    if (!root)
        return;
    for (struct dirent *entry; (entry = readdir(root));)
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0)
            sweep_one(dirfd(root), entry->d_name);
    closedir(root);
}
