#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void say(const char *format, va_list args)
{
    cli_progress(NULL);
    fputs("mdctl: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int cli_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return CLI_USAGE;
}

int cli_fail_md(void)
{
    return cli_fail("%s", md_last_error());
}

int cli_write(void *user, const char *text, size_t n_bytes)
{
    return fwrite(text, 1, n_bytes, user) != n_bytes;
}

bool cli_is_terminal(FILE *file)
{
    return isatty(fileno(file)) && !getenv("NO_COLOR");
}

const char *cli_bold(void)
{
    return cli_is_terminal(stdout) ? "\033[1m" : "";
}

const char *cli_plain(void)
{
    return cli_is_terminal(stdout) ? "\033[0m" : "";
}

double cli_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void cli_progress(const char *format, ...)
{
    static double start = 0.0;
    static bool is_shown = false;
    if (start == 0.0)
        start = cli_now_us();
    if (!isatty(STDERR_FILENO) || (format && cli_now_us() - start < 1e6))
        return;
    if (is_shown)
        fputs("\r\033[K", stderr);
    is_shown = format != NULL;
    if (!format)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}
