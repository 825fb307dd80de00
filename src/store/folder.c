/* Opens trusted folders and files of a store, and writes files so that they appear whole or not at all. */
#include "store/folder.h"

#include "base/file.h"
#include "base/status.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TOUCH_AFTER_S = 24 * 3600 };
/* A status of this file alone: the file that was open is no longer there. */
#define STALE ((md_status)-1)
static const int64_t MOST_BYTES = (int64_t)1 << 30;

static md_status fail_path(const char *what, const char *path)
{
    const int reason = errno;
    return md_fail(reason == ENOENT   ? MD_NOT_FOUND
                   : reason == ENOMEM ? MD_OUT_OF_MEMORY
                                      : MD_IO,
                   "cannot %s '%.700s': %s", what, path, strerror(reason));
}

/* NULL if only trusted users can write it, else the reason. */
static const char *distrust(const struct stat *facts, md_sr_owner owner)
{
    if (facts->st_uid != geteuid() && !(owner == MD_SR_SYSTEMS && facts->st_uid == 0))
        return "it belongs to another user";
    return facts->st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it" : NULL;
}

md_status md_sr_folder_open(int *fd, int at, const char *path, md_sr_owner owner)
{
    struct stat facts;
    const int made = md_above_standard(
        openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (owner == MD_SR_USERS ? O_NOFOLLOW : 0)));
    if (made < 0 && (errno == ELOOP || errno == ENOTDIR) && fstatat(at, path, &facts, AT_SYMLINK_NOFOLLOW) == 0)
        return md_fail(MD_IO, "'%.700s' is %s", path, S_ISLNK(facts.st_mode) ? "a symbolic link" : "no folder");
    if (made < 0)
        return fail_path("open", path);
    const char *why = fstat(made, &facts) == 0 ? distrust(&facts, owner) : strerror(errno);
    if (!why) {
        *fd = made;
        return MD_OK;
    }
    close(made);
    return md_fail(MD_IO, "'%.700s' is not used: %s", path, why);
}

/* Writes the parent's directory entry to disk: without it a crash would lose the new name. */
static void sync_parent(int at, const char *path)
{
    char parent[4096];
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof parent)
        return;
    memcpy(parent, path, n);
    parent[n] = 0;
    const int fd = md_above_standard(openat(at, n ? parent : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static bool make_one(int at, const char *path)
{
    if (mkdirat(at, path, 0700) != 0)
        return errno == EEXIST;
    sync_parent(at, path);
    return true;
}

/* Makes all folders above the last '/'. */
static bool make_parents(int at, const char *path)
{
    char part[4096];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const size_t n = (size_t)(slash - path);
        if (n >= sizeof part) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(part, path, n);
        part[n] = 0;
        if (faccessat(at, part, F_OK, 0) != 0 && !make_one(at, part))
            return false;
    }
    return true;
}

md_status md_sr_folder_make(int *fd, int at, const char *path, bool with_parents)
{
    if ((with_parents && !make_parents(at, path)) || !make_one(at, path)) {
        fail_path("make the folder", path);
        return MD_IO;
    }
    return md_sr_folder_open(fd, at, path, MD_SR_USERS);
}

bool md_sr_parse_digest(md_digest128 *out, const char *text)
{
    unsigned long long hi = 0, lo = 0;
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32 || sscanf(text, "%16llx%16llx", &hi, &lo) != 2)
        return false;
    *out = (md_digest128){lo, hi};
    return true;
}

bool md_sr_path(char out[MD_SR_PATH], const char *kind, md_digest128 digest)
{
    char hex[33];
    md_digest_text(hex, digest);
    const int n = snprintf(out, MD_SR_PATH, "%s/%.2s/%s", kind, hex, hex);
    return n > 0 && n < MD_SR_PATH;
}

static bool read_all(char *out, size_t n, int fd)
{
    for (size_t have = 0; have < n;) {
        const ssize_t got = read(fd, out + have, n - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return false;
        }
        have += (size_t)got;
    }
    return true;
}

/* Marks a file as used. Once a day is enough for garbage collection, and costs few writes. */
static void touch(int fd, const struct stat *facts)
{
    const time_t now = time(NULL);
    if (now - facts->st_mtime > TOUCH_AFTER_S || facts->st_mtime - now > TOUCH_AFTER_S)
        (void)futimens(fd, NULL);
}

static md_status read_open(char **out, size_t *n, int fd, const char *path, md_sr_owner owner, bool touches)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return fail_path("read", path);
    const char *why = !S_ISREG(facts.st_mode)      ? "it is no plain file"
                      : facts.st_size > MOST_BYTES ? "it is too large"
                                                   : distrust(&facts, owner);
    if (why)
        return md_fail(MD_IO, "'%s' is not used: %s", path, why);
    char *bytes = malloc((size_t)facts.st_size + 1);
    if (!bytes)
        return md_fail_memory();
    if (!read_all(bytes, (size_t)facts.st_size, fd)) {
        const bool is_stale = errno == ESTALE;
        fail_path("read", path);
        free(bytes);
        return is_stale ? STALE : MD_IO;
    }
    if (touches)
        touch(fd, &facts);
    bytes[facts.st_size] = 0;
    *out = bytes;
    *n = (size_t)facts.st_size;
    return MD_OK;
}

static md_status read_once(char **out, size_t *n, int at, const char *path, md_sr_owner owner, bool touches)
{
    /* O_NONBLOCK: opening a pipe of that name would wait for its writer. */
    const int fd = md_above_standard(openat(at, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0) {
        const bool is_stale = errno == ESTALE;
        const md_status status = fail_path("open", path);
        return is_stale ? STALE : status;
    }
    const md_status status = read_open(out, n, fd, path, owner, touches);
    close(fd);
    return status;
}

/* On a network file system a file that another machine replaced is stale: the name has a newer one. */
md_status md_sr_file_read(char **out, size_t *n, int at, const char *path, md_sr_owner owner, bool touches)
{
    enum { TRIES = 20 };
    md_status status = STALE;
    for (int i = 0; i < TRIES && status == STALE; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = i * 500000L}, NULL);
        status = read_once(out, n, at, path, owner, touches);
    }
    return status == STALE ? MD_NOT_FOUND : status; /* it says nothing against the entry */
}

void md_sr_fresh_name(char out[MD_SR_PATH], const char *prefix)
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        bits = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid() << 20 ^ (uintptr_t)&bits;
    }
    snprintf(out, MD_SR_PATH, MD_SR_FRESH "/%s-%016" PRIx64, prefix, bits);
}

bool md_sr_put_back(int at, const char *aside, const char *path)
{
    return linkat(at, aside, at, path, 0) == 0;
}

md_status md_sr_fresh_write(char name[MD_SR_PATH], int at, const void *bytes, size_t n, bool survives)
{
    /* Not O_EXCL: on NFS such a file has no time stamp until it is open, and other machines took it for an old one. */
    enum { HOW = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC };
    md_sr_fresh_name(name, "new");
    int fd = md_above_standard(openat(at, name, HOW, 0600));
    if (fd < 0 && errno == ENOENT && make_one(at, MD_SR_FRESH))
        fd = md_above_standard(openat(at, name, HOW, 0600));
    if (fd < 0) {
        fail_path("make", name);
        return MD_IO;
    }
    bool is_good = md_file_write_all(fd, bytes, n) && (!survives || fsync(fd) == 0);
    int reason = errno;
    if (close(fd) != 0 && is_good) { /* network file systems report a full disk here */
        is_good = false;
        reason = errno;
    }
    if (is_good)
        return MD_OK;
    unlinkat(at, name, 0);
    errno = reason;
    fail_path("write", name);
    return MD_IO;
}

md_status md_sr_file_add(bool *is_new, int at, const char *path, const void *bytes, size_t n)
{
    char name[MD_SR_PATH];
    MD_TRY(md_sr_fresh_write(name, at, bytes, n, true));
    *is_new = linkat(at, name, at, path, 0) == 0;
    if (!*is_new && errno == ENOENT && make_parents(at, path))
        *is_new = linkat(at, name, at, path, 0) == 0;
    int reason = *is_new ? 0 : errno;
    const bool may_have_links = reason == EEXIST || reason == ENOENT || reason == ESTALE || reason == EIO;
    if (reason && !may_have_links && renameat(at, name, at, path) == 0) {
        *is_new = true;
        reason = 0;
    }
    if (*is_new)
        sync_parent(at, path);
    unlinkat(at, name, 0);
    if (*is_new || reason == EEXIST)
        return MD_OK;
    errno = reason;
    fail_path("write", path);
    return MD_IO;
}

md_status md_sr_fresh_rename(int at, const char *fresh, const char *path)
{
    bool is_there = renameat(at, fresh, at, path) == 0;
    if (!is_there && errno == ENOENT && make_parents(at, path))
        is_there = renameat(at, fresh, at, path) == 0;
    if (is_there) {
        sync_parent(at, path);
        return MD_OK;
    }
    const int reason = errno;
    unlinkat(at, fresh, 0);
    errno = reason;
    fail_path("write", path);
    return MD_IO;
}

md_status md_sr_file_write(int at, const char *path, const void *bytes, size_t n)
{
    char name[MD_SR_PATH];
    MD_TRY(md_sr_fresh_write(name, at, bytes, n, true));
    return md_sr_fresh_rename(at, name, path);
}
