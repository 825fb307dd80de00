/* Status names and the error message of each thread. */
#include "base/status.h"

#include "base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "md_build_config.h"

/* This is one of three mutable statics; fork.c and exit.c have the others. The local-dynamic model keeps it out of
 * static thread-local storage, which is scarce if a program loads the library late: CUDA's static runtime would fill
 * it. */
static _Thread_local char message[1024] __attribute__((tls_model("local-dynamic")));

const char *md_version(void)
{
    return MD_VERSION_TEXT;
}

const char *md_last_error(void)
{
    return message;
}

const char *md_status_name(md_status status)
{
    static const char *const names[] = {
        [MD_OK] = "ok",
        [MD_INVALID_ARGUMENT] = "invalid argument",
        [MD_OUT_OF_MEMORY] = "out of memory",
        [MD_UNSUPPORTED] = "unsupported",
        [MD_NOT_FOUND] = "not found",
        [MD_DEVICE] = "device failure",
        [MD_COMPILE] = "compilation failed",
        [MD_IO] = "input/output error",
        [MD_CORRUPT] = "corrupt data",
        [MD_TIMEOUT] = "timeout",
        [MD_INTERNAL] = "internal error",
        [MD_CANCELLED] = "cancelled",
    };
    return (unsigned)status < (unsigned)MD_COUNT(names) ? names[status] : "unknown status";
}

/* Formats after the first `used` characters. A diagnostic with a source line and a caret holds newlines. */
static void write_message(size_t used, const char *format, va_list args)
{
    /* Formatted into another buffer first: an argument may be md_last_error(). */
    char text[sizeof message];
    if (md_vsnprintf(text, sizeof text, format, args) < 0)
        text[0] = 0;
    size_t n = strnlen(text, sizeof message - 1 - used);
    memcpy(message + used, text, n);
    message[used + n] = 0;
}

md_status md_fail(md_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message(0, format, args);
    va_end(args);
    return code;
}

md_status md_fail_more(md_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_message(strnlen(message, sizeof message - 1), format, args);
    va_end(args);
    return code;
}

char md_hide_message(void)
{
    const char first = message[0];
    message[0] = 0;
    return first;
}

md_status md_show_message(char hidden, md_status status, const char *who)
{
    if (message[0])
        return status;
    message[0] = hidden;
    return status == MD_OK ? MD_OK : md_fail(status, "%s failed: %s", who, md_status_name(status));
}

md_status md_fail_memory(void)
{
    static const char text[] = "out of memory";
    memcpy(message, text, sizeof text);
    return MD_OUT_OF_MEMORY;
}
