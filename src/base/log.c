/* Formats messages and passes them to the log function. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void md_log_at(const md_log *log, md_log_level level, const char *format, ...)
{
    if (!log || !log->fn || level > log->level)
        return;
    char message[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (n >= 0)
        log->fn(log->user, level, message);
}

void md_log_stderr(void *user, md_log_level level, const char *message)
{
    (void)user;
    static const char *const names[] = {"", "error: ", "warning: ", "", ""};
    /* One call, so that lines of several threads do not mix. */
    fprintf(stderr, "multidispatch: %s%s\n", (unsigned)level < 5u ? names[level] : "", message);
}
