/* Log messages. A NULL logger is silent. Thread-safe. */
#ifndef MD_BASE_LOG_H
#define MD_BASE_LOG_H
#include <md/md.h>
typedef struct md_log {
    md_log_fn fn; /* NULL: silent */
    void *user;
    md_log_level level; /* messages above it are dropped */
} md_log;
void md_log_at(const md_log *log, md_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** Writes "multidispatch: message" to stderr; a md_log_fn. */
void md_log_stderr(void *user, md_log_level level, const char *message);
#endif
