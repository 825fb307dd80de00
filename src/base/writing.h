/* Writes that fail without a signal. A write beyond the limit of a file's size raises SIGXFSZ, and one to a pipe that
 * nobody reads SIGPIPE: both would end the application. */
#ifndef MD_BASE_WRITING_H
#define MD_BASE_WRITING_H
#include <signal.h>

typedef struct md_writing {
    sigset_t before, pending;
} md_writing;
/** Until md_writing_end, a write of this thread only fails, with EFBIG or EPIPE. What the process does at a signal is
 * not changed. */
void md_writing_begin(md_writing *w);
/** Keeps errno. */
void md_writing_end(const md_writing *w);
#endif
