/* Reads and writes whole files. */
#include "base/file.h"

#include "base/status.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static md_status fail_io(const char *what, const char *path)
{
    int reason = errno;
    return md_fail(reason == ENOENT ? MD_NOT_FOUND : MD_IO, "cannot %s %.700s: %s", what, path, strerror(reason));
}

bool md_file_write_all(int fd, const void *from, size_t n)
{
    const char *bytes = from;
    ssize_t written = 0;
    md_writing writing;
    md_writing_begin(&writing);
    while (n > 0) {
        written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            break;
        bytes += written;
        n -= (size_t)written;
    }
    md_writing_end(&writing);
    return n == 0;
}

bool md_file_print(FILE *file, const char *text, size_t n)
{
    md_writing writing;
    md_writing_begin(&writing);
    const bool is_good = fwrite(text, 1, n, file) == n && fflush(file) == 0;
    md_writing_end(&writing);
    return is_good;
}

md_status md_file_write(const char *path, const void *bytes, size_t n)
{
    int fd = md_above_standard(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd < 0) {
        fail_io("make", path);
        return MD_IO; /* not NOT_FOUND: here ENOENT means that the folder is missing */
    }
    bool is_written = md_file_write_all(fd, bytes, n);
    int reason = errno;
    if (close(fd) != 0 && is_written) {
        is_written = false;
        reason = errno;
    }
    if (is_written)
        return MD_OK;
    unlink(path);
    errno = reason;
    return fail_io("write", path);
}

/* False with errno. */
static bool write_parts(int fd, const md_file_part *part, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++)
        if (!md_file_write_all(fd, part[i].bytes, part[i].n))
            return false;
    return true;
}

/* False with errno. */
static bool write_and_close(int fd, const md_file_part *part, size_t n_parts)
{
    const bool is_written = write_parts(fd, part, n_parts);
    const int reason = errno;
    const bool is_closed = close(fd) == 0;
    if (!is_written)
        errno = reason;
    return is_written && is_closed;
}

/* A file without a name, which goes with a process that is killed, gets one when it is complete. False where the system
 * has no such files. */
static bool write_unnamed(const char *beside, mode_t mode, const md_file_part *part, size_t n_parts)
{
    char folder[4096], unnamed[32];
    const char *slash = strrchr(beside, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - beside) + 1 : 1, slash ? beside : ".");
    const int fd = md_above_standard(open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
    if (fd < 0)
        return false;
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
    const bool is_there = (mode == 0 || fchmod(fd, mode) == 0) && write_parts(fd, part, n_parts) &&
                          linkat(AT_FDCWD, unnamed, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0;
    if (close(fd) == 0 && is_there)
        return true;
    if (is_there)
        unlink(beside);
    return false;
}

/* Mode 0: that of new files. False with errno. */
static bool write_beside(const char *beside, mode_t mode, const md_file_part *part, size_t n_parts)
{
    unlink(beside); /* the leftover of a thread that was killed */
    if (write_unnamed(beside, mode, part, n_parts))
        return true;
    const int fd = md_above_standard(open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd < 0)
        return false;
    if (mode)
        (void)fchmod(fd, mode);
    if (write_and_close(fd, part, n_parts))
        return true;
    const int reason = errno;
    unlink(beside);
    errno = reason;
    return false;
}

static md_status write_in_place(const char *path, const md_file_part *part, size_t n_parts)
{
    const int fd = md_above_standard(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (fd >= 0 && write_and_close(fd, part, n_parts))
        return MD_OK;
    const int reason = errno;
    return md_fail(MD_IO, fd < 0 ? "cannot write '%.700s': %s" : "'%.700s' could not be written: %s", path,
                   strerror(reason));
}

md_status md_file_replace_parts(const char *path, const md_file_part *part, size_t n_parts)
{
    char real[PATH_MAX], beside[PATH_MAX + 32];
    struct stat facts;
    const bool exists = stat(path, &facts) == 0;
    if (exists && !S_ISREG(facts.st_mode)) /* a terminal or a pipe is written in place */
        return write_in_place(path, part, n_parts);
    const char *target = exists && realpath(path, real) ? real : path; /* a link stays a link */
    /* no other thread uses this name */
    const int length = snprintf(beside, sizeof beside, "%s.%d.tmp", target, (int)gettid());
    errno = path[0] ? ENAMETOOLONG : ENOENT;
    if (path[0] && length < (int)sizeof beside &&
        write_beside(beside, exists ? facts.st_mode & 0777 : 0, part, n_parts)) {
        if (rename(beside, target) == 0)
            return MD_OK;
        const int why = errno;
        unlink(beside);
        errno = why;
    }
    if (exists && errno != ENOSPC && errno != EDQUOT) /* the folder takes no new file */
        return write_in_place(path, part, n_parts);
    const int reason = errno;
    return md_fail(MD_IO, "cannot write '%.700s': %s", path, strerror(reason));
}

md_status md_file_replace(const char *path, const void *bytes, size_t n)
{
    return md_file_replace_parts(path, &(md_file_part){bytes, n}, 1);
}

/* Reads to the end and ignores the reported size: pipes and files of /proc report 0. */
static md_status read_all(char **out, size_t *n, int fd, const char *path)
{
    size_t capacity = 4096, size = 0;
    char *text = malloc(capacity);
    while (text) {
        ssize_t got = read(fd, text + size, capacity - size - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            fail_io("read", path);
            free(text);
            return MD_IO;
        }
        if (got == 0) {
            text[size] = 0;
            *out = text;
            *n = size;
            return MD_OK;
        }
        size += (size_t)got;
        if (capacity - size < 2) {
            capacity *= 2;
            char *larger = realloc(text, capacity);
            if (!larger)
                free(text);
            text = larger;
        }
    }
    return md_fail_memory();
}

md_status md_file_read(char **out, size_t *n, const char *path)
{
    int fd = md_above_standard(open(path, O_RDONLY | O_CLOEXEC));
    if (fd < 0)
        return fail_io("read", path);
    size_t size = 0;
    md_status status = read_all(out, n ? n : &size, fd, path);
    close(fd);
    return status;
}
