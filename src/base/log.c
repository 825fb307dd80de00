/* Formats messages and passes them to the log function. */
#include "base/log.h"

#include "base/hash.h"
#include "base/writing.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void log_v(const md_log *log, md_log_level level, const char *format, va_list args)
{
    char message[2048];
    if (vsnprintf(message, sizeof message, format, args) >= 0)
        log->fn(log->user, level, message);
}

void md_log_at(const md_log *log, md_log_level level, const char *format, ...)
{
    if (!log || !log->fn || level > log->level)
        return;
    va_list args;
    va_start(args, format);
    log_v(log, level, format, args);
    va_end(args);
}

void md_log_once(const md_log *log, md_log_condition condition, md_log_level level, const char *format, ...)
{
    const uint32_t bit = UINT32_C(1) << condition;
    if (!log || !log->fn)
        return;
    if (log->said && atomic_fetch_or_explicit(&log->said->conditions, bit, memory_order_relaxed) & bit)
        level = MD_LOG_DEBUG;
    if (level > log->level)
        return;
    va_list args;
    va_start(args, format);
    log_v(log, level, format, args);
    va_end(args);
}

void md_log_text_once(const md_log *log, md_log_level level, const char *text)
{
    if (!log || !log->fn)
        return;
    const uint64_t hash = md_hash64(text, strlen(text)), bit = UINT64_C(1) << (hash & 63);
    if (log->said && atomic_fetch_or_explicit(&log->said->texts[hash >> 62], bit, memory_order_relaxed) & bit)
        level = MD_LOG_DEBUG;
    md_log_at(log, level, "%s", text);
}

void md_log_stderr(void *user, md_log_level level, const char *message)
{
    (void)user;
    static const char *const names[] = {"", "error: ", "warning: ", "", ""};
    md_writing writing;
    md_writing_begin(&writing);
    /* One call, so that lines of several threads do not mix. */
    fprintf(stderr, "multidispatch: %s%s\n", (unsigned)level < 5u ? names[level] : "", message);
    md_writing_end(&writing);
}
