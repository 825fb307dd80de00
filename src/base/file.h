/* Files and child processes. */
#ifndef MD_BASE_FILE_H
#define MD_BASE_FILE_H
#include <md/md.h>
#include <stdbool.h>
/** Writes all bytes to a new file of mode 0600. IO names path and reason. */
md_status md_file_write(const char *path, const void *bytes, size_t n);
/** Writes all bytes, where the file is now; false with errno. */
bool md_file_write_all(int fd, const void *bytes, size_t n);
/** Reads a whole file; *out is malloc'ed and 0-terminated, the caller frees it. NOT_FOUND, IO. */
md_status md_file_read(char **out, size_t *n, const char *path);
/** Makes a private (0700) folder below TMPDIR or /tmp; its path goes to out. */
md_status md_file_temp_folder(char out[4096]);
/** Removes a folder and the plain files in it. */
void md_file_remove_folder(const char *path);
/** Runs argv[0] (PATH is searched) to its end: no shell, stdin empty, stdout and stderr collected (at most 64 KiB) into
 * *output (malloc'ed, may be NULL). *exit_code as a shell gives it. NOT_FOUND where there is no such program; TIMEOUT
 * (killed) after limit_ms > 0. Thread-safe. */
md_status md_file_run(int32_t *exit_code, char **output, const char *const *argv, int32_t limit_ms);
#endif
