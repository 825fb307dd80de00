/* The lock of a device among all processes of a user: only one measures at a time, because kernels of another process
 * would be measured along. The file is in a folder that no other user can write to, and must belong to this user. */
#include "tune/search/internal.h"

#include "base/env.h"
#include "base/log.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 2000 };

/* NULL if only this user can write to an open file or folder, else the reason. */
static const char *distrust(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return strerror(errno);
    if (facts.st_uid != geteuid())
        return "it belongs to another user";
    return facts.st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

/* The runtime folder, which is local to the machine, else the cache folder, which is made where it is missing. */
static bool lock_folder(char out[4096], char *const *environment)
{
    if (md_env_runtime_folder(out, environment))
        return true;
    if (!md_env_cache_folder(out, environment))
        return false;
    for (char *slash = strchr(out + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(out, 0700);
        *slash = '/';
    }
    (void)mkdir(out, 0700);
    return true;
}

/* The same name in all processes, whatever devices they show: a GPU by its UUID, a host by machine and processor. */
static void lock_name(char out[64], const md_dev_facts *facts)
{
    char host[64] = "", text[64 + sizeof facts->name + 2];
    (void)gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%s %s", host, facts->name);
    const uint64_t id = facts->board ? facts->board : md_hash64(text, strlen(text));
    snprintf(out, 64, "multidispatch-%016llx.lock", (unsigned long long)id);
}

/* Opens the lock's file. -1, and *why, if there is none that only this user can write. */
static int open_lock(char path[4096], const char **why, const md_dev *dev)
{
    char name[64];
    *why = "neither XDG_RUNTIME_DIR, XDG_CACHE_HOME nor HOME is set";
    snprintf(path, 4096, "no folder");
    if (!lock_folder(path, dev->environment))
        return -1;
    const int folder = md_above_standard(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    *why = folder < 0 ? strerror(errno) : distrust(folder);
    int fd = -1;
    if (!*why) {
        lock_name(name, &dev->facts);
        fd = md_above_standard(openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        *why = fd < 0 ? strerror(errno) : distrust(fd);
    }
    if (folder >= 0)
        close(folder);
    if (fd >= 0 && *why) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool md_tn_lock(md_tn_work *w)
{
    char path[4096];
    const char *why;
    if (w->dev->ops->is_simulated)
        return true;
    const int fd = open_lock(path, &why, w->dev);
    if (fd < 0) {
        md_log_once(
            w->dev->log, MD_LOG_NO_LOCK, MD_LOG_WARN,
            "measuring without a lock, so other processes may measure on this device at the same time: %.300s: %s",
            path, why);
        return true;
    }
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (md_tn_is_late(w)) {
            md_log_once(w->dev->log, MD_LOG_LOCKED, MD_LOG_WARN,
                        "nothing more is measured: another process of this user has measured on this device all the "
                        "time; give a larger budget, or end it (lock in %.300s)",
                        path);
            close(fd);
            return false;
        }
        nanosleep(&(struct timespec){0, POLL_US * 1000L}, NULL);
    }
    w->lock = fd;
    return true;
}

void md_tn_unlock(md_tn_work *w)
{
    if (w->lock >= 0) {
        flock(w->lock, LOCK_UN); /* a child that was forked meanwhile may have the file open, too */
        close(w->lock);
    }
    w->lock = -1;
}
