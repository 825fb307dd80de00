/* Log messages. A NULL logger is silent. Thread-safe. */
#ifndef MD_BASE_LOG_H
#define MD_BASE_LOG_H
#include <md/md.h>
#include <stdatomic.h>

/* Conditions that are worth one line a context, not one for each op or kernel that meets them. */
typedef enum md_log_condition {
    MD_LOG_NO_COMPILER,
    MD_LOG_NOT_BUILT, /* a kernel could not be built */
    MD_LOG_BY_REFERENCE, /* a stage has no kernel at all */
    MD_LOG_NO_LOCK, /* other processes may measure on the device at the same time */
    MD_LOG_LOCKED, /* another process measures on the device */
    MD_LOG_THROTTLED, /* the device is too hot, or takes too much power, for its clock */
    MD_LOG_UNLOCKED, /* the device's clock moves */
    MD_LOG_N_CONDITIONS
} md_log_condition;

/* What a context has logged already. */
typedef struct md_log_said {
    _Atomic uint32_t conditions; /* bits */
    _Atomic uint64_t texts[4]; /* bits by hash */
} md_log_said;

typedef struct md_log {
    md_log_fn fn; /* NULL: silent */
    void *user;
    md_log_level level; /* messages above it are dropped */
    md_log_said *said; /* NULL: nothing is remembered */
} md_log;

void md_log_at(const md_log *log, md_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** Logs a condition at `level` the first time, and as MD_LOG_DEBUG later. */
void md_log_once(const md_log *log, md_log_condition condition, md_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** Logs a text at `level` the first time, and as MD_LOG_DEBUG later. Of texts with one hash (8 bits) only the first
 * counts. */
void md_log_text_once(const md_log *log, md_log_level level, const char *text);
/** Writes "multidispatch: message" to stderr; a md_log_fn. */
void md_log_stderr(void *user, md_log_level level, const char *message);
#endif
