/* Reads and writes whole files. */
#include "base/file.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
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
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        bytes += written;
        n -= (size_t)written;
    }
    return true;
}

md_status md_file_write(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_io("read", path);
    size_t size = 0;
    md_status status = read_all(out, n ? n : &size, fd, path);
    close(fd);
    return status;
}
