/* Prints and writes the statistics of a context. */
#include "api/context.h"
#include "base/file.h"
#include "base/status.h"
#include "base/task/process.h"
#include "stats/report.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void add_rows(void *user, md_ds_op *op)
{
    md_ss_rows_add(user, op);
}

/* Rows of all ops of the context, destroyed ones included. */
static void rows_of_all(md_ss_rows *out, md_context *context)
{
    pthread_mutex_lock(&context->lock_of_ops);
    *out = (md_ss_rows){.failed = context->retired.failed, .ops.failed = context->retired.ops.failed};
    md_ss_rows_append(out, &context->retired);
    md_api_each_op(context, add_rows, out);
    md_api_add_combos(&out->combos, context);
    pthread_mutex_unlock(&context->lock_of_ops);
    md_ss_rows_sort(out);
}

static md_status stats_text(md_strbuf *out, md_context *context, const char *format)
{
    md_ss_rows rows;
    rows_of_all(&rows, context);
    char device[32];
    md_api_device_name(device, context);
    rows.device = device;
    rows.hardware = context->dev->facts.name;
    md_status s = md_ss_print(out, &rows, format);
    md_ss_rows_finish(&rows);
    return s;
}

md_status md_stats_print(md_context *context, FILE *file)
{
    md_strbuf text = {0};
    if (!context || !file)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "file" : "context");
    md_status s = stats_text(&text, context, "table");
    if (s == MD_OK && !md_file_print(file, md_strbuf_text(&text), text.size))
        s = md_fail(MD_IO, "the statistics could not be written: %s", strerror(errno));
    md_strbuf_finish(&text);
    return s;
}

md_status md_stats_report(md_context *context, const char *format, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    md_status s = stats_text(&text, context, format ? format : "table");
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}

static const char *format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".json"))
        return "json";
    return dot && !strcmp(dot, ".csv") ? "csv" : "table";
}

static md_status write_stdout(const md_strbuf *text)
{
    return md_file_print(stdout, md_strbuf_text(text), text->size)
               ? MD_OK
               : md_fail(MD_IO, "the statistics could not be written to stdout: %s", strerror(errno));
}

md_status md_stats_write(md_context *context, const char *path, const char *format)
{
    md_strbuf text = {0};
    if (!context || !path)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "path" : "context");
    md_status s = stats_text(&text, context, format ? format : format_of(path));
    if (s == MD_OK)
        s = strcmp(path, "-") ? md_file_replace(path, md_strbuf_text(&text), text.size) : write_stdout(&text);
    md_strbuf_finish(&text);
    return s;
}

/* ---- MD_STATS */

static void write_asked(void *user)
{
    md_context *c = user;
    char path[4096];
    if (getpid() != c->stats.owner && !md_ss_path_has_pid(c->stats.path))
        return; /* a child after fork: the file is its parent's */
    md_status s = md_ss_path(path, c->stats.path, c->stats.number);
    if (s == MD_OK)
        s = md_stats_write(c, path, NULL);
    if (s != MD_OK)
        md_log_at(&c->log, MD_LOG_ERROR, "MD_STATS: %s", md_last_error());
}

md_status md_api_watch_stats(md_context *c)
{
    static const int numbers[] = {
        [MD_STATS_SIGNAL_HUP] = SIGHUP, [MD_STATS_SIGNAL_USR1] = SIGUSR1, [MD_STATS_SIGNAL_USR2] = SIGUSR2};
    md_exit_watched got = {0};
    if (!c->stats.path)
        return MD_OK;
    const int wanted = numbers[c->env.stats_signal];
    MD_TRY(md_exit_watch(
        &got, &(md_exit_watch_options){.user = c, .run = write_asked, .name = c->stats.path, .signal = wanted}));
    if (wanted && !got.hears)
        md_log_at(&c->log, MD_LOG_WARN, "MD_STATS_SIGNAL: the program does something else at this signal");
    c->stats.number = got.number;
    c->stats.owner = getpid();
    return MD_OK;
}

void md_api_end_stats(md_context *c)
{
    if (!c->stats.path)
        return;
    md_exit_leave(c);
    write_asked(c);
}
