/* Messages, JSON text and progress of all commands. */
#include "common/cli.h"
#include "common/device.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

static atomic_bool has_failed;

bool cli_has_failed(void)
{
    return atomic_load(&has_failed);
}

void cli_log(void *user, md_log_level level, const char *message)
{
    (void)user;
    if (level == MD_LOG_ERROR)
        atomic_store(&has_failed, true);
    const char *asked = getenv("MD_LOG"); /* the library drops what is beyond it */
    if (level > MD_LOG_WARN && !(asked && asked[0]))
        return;
    cli_progress(NULL);
    fprintf(stderr, "mdctl: %s%s\n",
            level == MD_LOG_ERROR  ? "error: "
            : level == MD_LOG_WARN ? "warning: "
                                   : "",
            message);
}

int cli_fail_md(void)
{
    return cli_fail("%s", md_last_error());
}

int cli_write(void *user, const char *text, size_t n_bytes)
{
    return fwrite(text, 1, n_bytes, user) != n_bytes;
}

/* no-color.org: set to anything but "". */
bool cli_is_terminal(FILE *file)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(file)) && !(no_color && no_color[0]) && !(terminal && !strcmp(terminal, "dumb"));
}

/* Bytes of the UTF-8 character that begins here, 0 where there is none. */
static size_t utf8_bytes(const unsigned char *c, size_t left)
{
    size_t n = c[0] < 0x80                   ? 1
               : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
               : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
               : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if (i >= left || (c[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

void cli_json_escape(FILE *file, const char *text, size_t n_bytes)
{
    const unsigned char *c = (const unsigned char *)text, *end = c + n_bytes;
    while (c < end) {
        size_t n = utf8_bytes(c, (size_t)(end - c));
        if (*c < ' ')
            fprintf(file, "\\u%04x", (unsigned)*c);
        else if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (n)
            fwrite(c, 1, n, file);
        else
            fputc('?', file);
        c += n ? n : 1;
    }
}

void cli_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    cli_json_escape(file, text, strlen(text));
    fputc('"', file);
}

void device_json(FILE *file, const cli_device *device)
{
    fputs("\"device\": ", file);
    cli_json_text(file, device->name);
    fputs(", \"hardware\": ", file);
    cli_json_text(file, device->hardware);
    fprintf(file, ", \"version\": \"%s\"", md_version());
}

int cli_close_output(FILE *file, const char *path, int status)
{
    bool is_bad = file && ferror(file);
    if (file && fclose(file))
        is_bad = true;
    return is_bad ? cli_fail("'%s' could not be written", path) : status;
}

const char *cli_bold(void)
{
    return cli_is_terminal(stdout) ? "\033[1m" : "";
}

const char *cli_shade(double ratio)
{
    if (!cli_is_terminal(stdout))
        return "";
    return ratio < 1.1 ? "\033[32m" : ratio < 1.5 ? "\033[33m" : "\033[31m";
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

enum { PROGRESS_WIDTH = 78 };

/* The task that is under way; parts 0: none. */
static struct {
    double start_us, done, parts;
} task;

void cli_progress_part(double done, double parts)
{
    if (done <= 0.0 || task.parts <= 0.0)
        task.start_us = cli_now_us();
    task.done = done;
    task.parts = parts;
}

/* ", 2 min left", by the time that the parts so far took; "" where that says nothing yet. */
static void print_left(char out[32])
{
    enum { MINUTE_S = 60, HOUR_S = 3600 };
    const double spent_s = (cli_now_us() - task.start_us) * 1e-6;
    out[0] = 0;
    if (task.parts <= 0.0 || task.done <= 0.0)
        return;
    const double left_s = spent_s / task.done * (task.parts > task.done ? task.parts - task.done : 0.0);
    if (left_s < 2.0 * MINUTE_S)
        snprintf(out, 32, ", %.0f s left", left_s);
    else if (left_s < 2.0 * HOUR_S)
        snprintf(out, 32, ", %.0f min left", left_s / MINUTE_S);
    else
        snprintf(out, 32, ", %.0f h left", left_s / HOUR_S);
}

/* When progress begins to show: short commands have none. */
static double progress_after_us(void)
{
    const char *asked = getenv("MDCTL_PROGRESS_MS");
    return asked && asked[0] ? strtod(asked, NULL) * 1e3 : 1e6;
}

void cli_progress(const char *format, ...)
{
    static double start = 0.0;
    static bool is_shown = false;
    if (start == 0.0)
        start = cli_now_us();
    if (!cli_is_terminal(stderr) || (format && cli_now_us() - start < progress_after_us()))
        return;
    if (is_shown)
        fputs("\r\033[K", stderr);
    is_shown = format != NULL;
    if (!format)
        return;
    char line[PROGRESS_WIDTH + 1], left[32]; /* one line of any terminal, whatever the formula */
    va_list args;
    print_left(left);
    va_start(args, format);
    vsnprintf(line, sizeof line - strlen(left), format, args);
    va_end(args);
    strcat(line, left);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    fputs(line, stderr);
    fflush(stderr);
}
