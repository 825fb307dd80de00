/* Prints and writes the statistics of a context. */
#include "api/context.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>

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
    pthread_mutex_unlock(&context->lock_of_ops);
    md_ss_rows_sort(out);
}

static md_status stats_text(md_strbuf *out, md_context *context, const char *format)
{
    md_ss_rows rows;
    rows_of_all(&rows, context);
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
    if (s == MD_OK && fwrite(md_strbuf_text(&text), 1, text.size, file) != text.size)
        s = md_fail(MD_IO, "the statistics could not be written");
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

/* Replaces an existing file: statistics are written to the same path many times. */
static md_status write_file(const char *path, const md_strbuf *text)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!file)
        return md_fail(MD_IO, "statistics: cannot write '%s': %s", path, strerror(errno));
    bool ok = fwrite(md_strbuf_text(text), 1, text->size, file) == text->size && !fflush(file);
    if (file != stdout && fclose(file))
        ok = false;
    return ok ? MD_OK : md_fail(MD_IO, "statistics: '%s' could not be written", path);
}

md_status md_stats_write(md_context *context, const char *path, const char *format)
{
    md_strbuf text = {0};
    if (!context || !path)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "path" : "context");
    md_status s = stats_text(&text, context, format ? format : format_of(path));
    if (s == MD_OK)
        s = write_file(path, &text);
    md_strbuf_finish(&text);
    return s;
}
