/* Leases: one of several processes does a piece of long work.
 *
 * A lease is a file made by link(), which is atomic on all file systems. It names its owner: machine, boot, process and
 * the process's start time, so that a dead owner is recognised on its machine even if its number was used again. On the
 * machine of the owner, a lease ends by the clock since boot, which cannot be set. A lease of another machine ends by
 * the file server's clock: by the difference of two files' times, in either direction. If that clock is set back, a
 * lease lasts at most twice its length. */
#include "base/status.h"
#include "base/strbuf.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct md_sr_lease {
    int fd; /* of the environment, owned by the store; -1: no file was written */
    char path[MD_SR_PATH];
    char text[256]; /* the file's content; unique */
    unsigned long long until_ms, limit_ms;
};

typedef struct owner {
    char boot[40], machine[65], token[20];
    long pid;
    unsigned long long start, until_ms, limit_ms;
} owner;

static bool read_line(char *out, size_t n, const char *path)
{
    FILE *f = fopen(path, "re");
    bool is_read = f && fgets(out, (int)n, f);
    if (f)
        fclose(f);
    if (is_read)
        out[strcspn(out, " \n")] = 0;
    return is_read && out[0];
}

/* When a process started, in ticks since boot: field 22 of its stat file, counted behind the last ')', since the name
 * may hold anything. 0: no such process, or a zombie (in containers they are often never reaped). */
static unsigned long long start_of(long pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    const size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = 0;
    const char *at = strrchr(line, ')');
    unsigned long long start = 0;
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &start) == 1 ? start : 0;
}

static unsigned long long since_boot_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (unsigned long long)t.tv_sec * 1000u + (unsigned long long)t.tv_nsec / 1000000u;
}

static void describe_self(owner *o, int64_t limit_ms)
{
    char name[MD_SR_PATH];
    memset(o, 0, sizeof *o);
    if (!read_line(o->boot, sizeof o->boot, "/proc/sys/kernel/random/boot_id"))
        snprintf(o->boot, sizeof o->boot, "unknown");
    if (gethostname(o->machine, sizeof o->machine - 1) != 0 || !o->machine[0])
        snprintf(o->machine, sizeof o->machine, "unknown");
    o->pid = (long)getpid();
    o->start = start_of(o->pid);
    o->limit_ms = (unsigned long long)MD_MAX(limit_ms, 0);
    o->until_ms = since_boot_ms() + o->limit_ms;
    md_sr_fresh_name(name, "x");
    snprintf(o->token, sizeof o->token, "%.16s", name + strlen(MD_SR_FRESH "/x-"));
}

static bool parse_owner(owner *o, const char *text)
{
    memset(o, 0, sizeof *o);
    return sscanf(text, "lease 1 %39s %64s %ld %llu %llu %llu %19s", o->boot, o->machine, &o->pid, &o->start,
                  &o->until_ms, &o->limit_ms, o->token) == 7;
}

/* `age_s`: the file server's time of a new file minus that of the lease. */
static bool is_over(const owner *theirs, const owner *mine, double age_s)
{
    if (strcmp(theirs->boot, mine->boot) == 0) {
        if (since_boot_ms() >= theirs->until_ms)
            return true;
        /* /proc is readable, and the owner is not in it */
        return theirs->start && start_of(theirs->pid) != theirs->start && start_of(mine->pid) == mine->start;
    }
    if (strcmp(theirs->machine, mine->machine) == 0)
        return true; /* written before the last boot */
    return age_s * 1000.0 > (double)theirs->limit_ms || -age_s * 1000.0 > (double)theirs->limit_ms;
}

static double seconds_between(int fd, const char *older, const char *newer)
{
    struct stat a, b;
    if (fstatat(fd, older, &a, AT_SYMLINK_NOFOLLOW) != 0 || fstatat(fd, newer, &b, AT_SYMLINK_NOFOLLOW) != 0)
        return 0.0;
    return (double)(b.st_mtim.tv_sec - a.st_mtim.tv_sec) + 1e-9 * (double)(b.st_mtim.tv_nsec - a.st_mtim.tv_nsec);
}

/* Removes a lease that is over, unless another process has replaced it meanwhile. True if the name is free. */
static bool clear_if_over(int fd, const char *path, const char *mine_name, const owner *mine)
{
    char aside[MD_SR_PATH], *text = NULL, *again = NULL;
    size_t n = 0, n_again = 0;
    owner theirs;
    const md_status status = md_sr_file_read(&text, &n, fd, path, MD_SR_USERS, false);
    if (status != MD_OK)
        return status == MD_NOT_FOUND;
    /* A file that cannot be parsed is no lease and is removed. */
    if (parse_owner(&theirs, text) && !is_over(&theirs, mine, seconds_between(fd, path, mine_name))) {
        free(text);
        return false;
    }
    md_sr_fresh_name(aside, "over");
    bool is_clear = renameat(fd, path, fd, aside) == 0;
    if (is_clear && (md_sr_file_read(&again, &n_again, fd, aside, MD_SR_USERS, false) != MD_OK || n_again != n ||
                     memcmp(again, text, n) != 0)) {
        md_sr_put_back(fd, aside, path); /* another process took the lease meanwhile */
        is_clear = false;
    }
    unlinkat(fd, aside, 0);
    free(text);
    free(again);
    return is_clear;
}

/* One process at a time takes leases: else a third could take the name while a file that was moved aside by mistake is
 * given back. -1 where the file system has no locks. */
static int lock_leases(int fd)
{
    if (mkdirat(fd, MD_SR_LEASES, 0700) != 0 && errno != EEXIST)
        return -1;
    const int lock = openat(fd, MD_SR_LEASES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0)
        if (errno != EINTR) {
            close(lock);
            return -1;
        }
    return lock;
}

static void unlock_leases(int lock)
{
    if (lock < 0)
        return;
    flock(lock, LOCK_UN); /* a child that was forked meanwhile may have the folder open, too */
    close(lock);
}

/* Where locks exclude nobody, as on some network file systems, a file does: who ends a lease holds it meanwhile. One
 * that is older than any such work is taken away. */
static bool may_end_leases(int fd, const char *mine_name)
{
    static const double OLD_S = 10.0;
    static const char over[] = MD_SR_LEASES "/over";
    if (linkat(fd, mine_name, fd, over, 0) == 0)
        return true;
    if (errno != EEXIST) /* no hard links: then there are no leases either */
        return true;
    const double age_s = seconds_between(fd, over, mine_name);
    if (age_s > OLD_S || -age_s > OLD_S)
        unlinkat(fd, over, 0);
    return false;
}

static bool end_if_over(int fd, const char *path, const char *mine_name, const owner *mine)
{
    if (!may_end_leases(fd, mine_name))
        return false;
    const bool is_clear = clear_if_over(fd, path, mine_name, mine);
    unlinkat(fd, MD_SR_LEASES "/over", 0);
    return is_clear;
}

/* Writes what becomes the lease if it gets its name. Its time runs from now on. */
static md_status write_own(char name[MD_SR_PATH], owner *mine, md_sr_lease *l, int64_t limit_ms)
{
    describe_self(mine, limit_ms);
    l->until_ms = mine->until_ms;
    l->limit_ms = mine->limit_ms;
    snprintf(l->text, sizeof l->text, "lease 1 %s %s %ld %llu %llu %llu %s\n", mine->boot, mine->machine, mine->pid,
             mine->start, mine->until_ms, mine->limit_ms, mine->token);
    return md_sr_fresh_write(name, l->fd, l->text, strlen(l->text), false);
}

/* Links the file of that name, or tells why not. */
static md_status link_own(bool *is_ours, const md_sr_lease *l, const char *name, const owner *mine)
{
    *is_ours = linkat(l->fd, name, l->fd, l->path, 0) == 0;
    if (!*is_ours && errno != EEXIST)
        return md_fail(MD_IO, "cannot make a lease: %s", strerror(errno));
    if (!*is_ours && end_if_over(l->fd, l->path, name, mine))
        *is_ours = linkat(l->fd, name, l->fd, l->path, 0) == 0;
    return MD_OK;
}

/* *is_ours: the lease is ours now. IO: no file can be written. */
static md_status take(bool *is_ours, md_sr_lease *l, int64_t limit_ms)
{
    enum { LATE = 8 }; /* of a lease that waited for the lock, this part of its time may be gone */
    char name[MD_SR_PATH];
    owner mine;
    MD_TRY(write_own(name, &mine, l, limit_ms));
    const int lock = lock_leases(l->fd);
    md_status status = MD_OK;
    if (mine.until_ms < since_boot_ms() + mine.limit_ms - mine.limit_ms / LATE) {
        unlinkat(l->fd, name, 0);
        status = write_own(name, &mine, l, limit_ms);
    }
    if (status == MD_OK)
        status = link_own(is_ours, l, name, &mine);
    unlock_leases(lock);
    unlinkat(l->fd, name, 0);
    return status;
}

md_status md_sr_lease_take(md_sr_lease **out, md_sr *store, const char *key, int64_t limit_ms)
{
    char hex[33];
    bool is_ours = true;
    md_sr_lease *l = calloc(1, sizeof *l);
    if (!l)
        return md_fail_memory();
    md_digest_text(hex, md_hash128(key, strlen(key)));
    snprintf(l->path, sizeof l->path, MD_SR_LEASES "/%s", hex);
    if (md_sr_writable_fd(&l->fd, store) != MD_OK || take(&is_ours, l, limit_ms) != MD_OK)
        l->fd = -1; /* there is no folder, or it is not writable: everyone gets the lease */
    if (!is_ours) {
        free(l);
        l = NULL;
    }
    *out = l;
    return MD_OK;
}

md_status md_sr_lease_to_write(md_sr_lease **out, md_sr *store, const char *what, const char *name)
{
    enum { LIMIT_MS = 5000, WAIT_MS = 8000, STEP_MS = 2 }; /* a lease of a dead machine ends meanwhile */
    md_strbuf key = {0};
    *out = NULL;
    md_strbuf_printf(&key, "%s %s", what, name);
    md_status s = key.failed ? md_fail_memory() : MD_OK;
    for (int ms = 0; s == MD_OK && ms < WAIT_MS && !*out; ms += STEP_MS) {
        s = md_sr_lease_take(out, store, md_strbuf_text(&key), LIMIT_MS);
        if (s == MD_OK && !*out)
            nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000}, NULL);
    }
    md_strbuf_finish(&key);
    return s;
}

/* True if the file is ours still: it may have ended, and another process may hold it now. It takes no memory: a lease
 * that cannot be given back stops all others until its time is over. */
static bool is_ours_still(const md_sr_lease *l)
{
    char text[sizeof l->text + 1];
    const int file = openat(l->fd, l->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    const ssize_t n = read(file, text, sizeof text);
    close(file);
    return n == (ssize_t)strlen(l->text) && !memcmp(text, l->text, (size_t)n);
}

/* Half of the time is left for what follows. The clock is asked last: on a network file system each look may take
 * seconds. */
bool md_sr_lease_is_held(const md_sr_lease *l)
{
    return l->fd < 0 || (is_ours_still(l) && since_boot_ms() < l->until_ms - l->limit_ms / 2);
}

void md_sr_lease_release(md_sr_lease **lease)
{
    if (!lease || !*lease)
        return;
    md_sr_lease *l = *lease;
    if (l->fd >= 0 && is_ours_still(l))
        unlinkat(l->fd, l->path, 0);
    free(l);
    *lease = NULL;
}
