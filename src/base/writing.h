/* Writes that do no harm to the application: they fail without a signal, and go to no file that it meant for other
 * things. A write beyond the limit of a file's size raises SIGXFSZ, and one to a pipe that
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
/** For each descriptor that the library opens: in a process whose stdin, stdout or stderr is closed it might be one of
 * those, and messages would be written into it. Returns another number for it then; -1 stays -1. Keeps errno. */
int md_above_standard(int fd);
#endif
