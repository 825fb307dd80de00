/* Writes that fail without a signal. */
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

/* Both signals are sent to the thread whose call failed. One that was pending before stays pending. */
void md_writing_begin(md_writing *w)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGXFSZ);
    sigaddset(&ours, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &ours, &w->before);
    sigpending(&w->pending);
}

void md_writing_end(const md_writing *w)
{
    static const int numbers[] = {SIGXFSZ, SIGPIPE};
    const int error = errno;
    sigset_t now;
    sigpending(&now);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, numbers[i]);
        if (sigismember(&now, numbers[i]) && !sigismember(&w->pending, numbers[i]))
            (void)sigtimedwait(&one, NULL, &(struct timespec){0, 0});
    }
    pthread_sigmask(SIG_SETMASK, &w->before, NULL);
    errno = error;
}

int md_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), reason = errno;
    close(fd);
    errno = reason;
    return moved;
}
