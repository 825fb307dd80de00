/* One process measures on a device at a time: else each would measure the kernels of the other, too. */
#include "tune/search/job.h"

#include "base/env.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { POLL_US = 2000 };

/* The same file in all processes, whatever devices they show: a GPU by its UUID, the host by its name. */
static void lock_path(char *out, size_t n, const md_dev_facts *facts)
{
    const uint64_t id = facts->board ? facts->board : md_hash64(facts->name, strlen(facts->name));
    snprintf(out, n, "%s/multidispatch-%lu-%016llx.lock", md_env_temp_root(), (unsigned long)getuid(),
             (unsigned long long)id);
}

bool md_tn_lock(md_tn_work *w)
{
    char path[4096];
    if (w->dev->ops->is_simulated)
        return true;
    lock_path(path, sizeof path, &w->dev->facts);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return true; /* no place for a lock: measure without */
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (md_tn_is_late(w)) {
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
        flock(w->lock, LOCK_UN); /* also where a child, forked meanwhile, has the file too */
        close(w->lock);
    }
    w->lock = -1;
}
