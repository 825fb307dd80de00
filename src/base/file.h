/* Whole files. */
#ifndef MD_BASE_FILE_H
#define MD_BASE_FILE_H
#include <md/md.h>
#include <stdbool.h>
#include <stdio.h>
/** Writes all bytes to a new file of mode 0600. IO names path and reason. */
md_status md_file_write(const char *path, const void *bytes, size_t n);
/** Writes all bytes to a new or an existing file. A regular file is replaced at once: at any moment the path holds the
 * old bytes or the new ones, also after the process was killed (unless its folder takes no new files). IO names path
 * and reason. */
md_status md_file_replace(const char *path, const void *bytes, size_t n);
typedef struct md_file_part {
    const void *bytes;
    size_t n;
} md_file_part;
/** The same of parts, one after the other. */
md_status md_file_replace_parts(const char *path, const md_file_part *part, size_t n_parts);
/** Writes all bytes at the file's position; false with errno. */
bool md_file_write_all(int fd, const void *bytes, size_t n);
/** Appends n characters and flushes; false with errno. Raises no signal. */
bool md_file_print(FILE *file, const char *text, size_t n);
/** Reads a whole file; *out is malloc'ed and 0-terminated, the caller frees it. NOT_FOUND, IO. */
md_status md_file_read(char **out, size_t *n, const char *path);
#endif
