/* Writes the timeline of MD_TRACE, one JSON event a line. */
#include "base/trace.h"

#include "base/clock.h"
#include "base/task/fork.h"
#include "base/json.h"
#include "base/status.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct md_trace {
    FILE *file;
    pthread_mutex_t lock;
    uint64_t start_ns;
    bool is_empty, failed;
    bool is_parents; /* in a child after fork: only the parent writes */
    char path[]; /* for messages */
};

static void leave_to_parent(void *user)
{
    ((md_trace *)user)->is_parents = true;
}

md_status md_trace_open(md_trace **out, const char *path)
{
    md_trace *t = calloc(1, sizeof *t + strlen(path) + 1);
    if (!t)
        return md_fail_memory();
    const int fd = md_above_standard(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    t->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!t->file) {
        md_status s = md_fail(MD_IO, "MD_TRACE: cannot write '%s': %s", path, strerror(errno));
        free(t);
        return s;
    }
    memcpy(t->path, path, strlen(path) + 1);
    md_mutex_init(&t->lock);
    md_fork_watch(t, leave_to_parent);
    t->start_ns = md_clock_ns();
    t->is_empty = true;
    *out = t;
    return MD_OK;
}

md_status md_trace_close(md_trace **trace)
{
    if (!trace || !*trace)
        return MD_OK;
    md_trace *t = *trace;
    md_writing writing;
    md_writing_begin(&writing);
    bool ok = t->is_parents || (fputs(t->is_empty ? "[]\n" : "\n]\n", t->file) >= 0 && !t->failed);
    ok = fclose(t->file) == 0 && ok;
    md_writing_end(&writing);
    md_status s = ok ? MD_OK : md_fail(MD_IO, "MD_TRACE: '%s' could not be written", t->path);
    md_fork_leave(t);
    md_mutex_finish(&t->lock);
    free(t);
    *trace = NULL;
    return s;
}

static json_t *json_of_args(const md_trace_arg *args)
{
    json_t *list = json_object();
    for (; args && args->name; args++)
        if (json_object_set_new(list, args->name, args->text ? md_json_text(args->text) : md_json_real(args->number)))
            break; /* memory is short: the event loses arguments */
    return list;
}

static void write_event(md_trace *t, json_t *event)
{
    char *line = event ? md_json_dump(event, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    md_writing writing;
    json_decref(event);
    pthread_mutex_lock(&t->lock);
    md_writing_begin(&writing);
    if (!line || fprintf(t->file, "%s%s", t->is_empty ? "[\n" : ",\n", line) < 0 || fflush(t->file))
        t->failed = true;
    else
        t->is_empty = false;
    md_writing_end(&writing);
    pthread_mutex_unlock(&t->lock);
    free(line);
}

static double us_since(const md_trace *t, uint64_t ns)
{
    return ns > t->start_ns ? (double)(ns - t->start_ns) / 1e3 : 0.0;
}

void md_trace_span(md_trace *t, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns,
                   const md_trace_arg *args)
{
    if (!t || t->is_parents)
        return;
    write_event(t, json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:o}", "ph", "X", "cat", category, "name",
                             md_json_text(name), "ts", json_real(us_since(t, start_ns)), "dur",
                             json_real((double)(end_ns - start_ns) / 1e3), "pid", (int)getpid(), "tid", (int)gettid(),
                             "args", json_of_args(args)));
}

void md_trace_mark(md_trace *t, const char *category, const char *name, const md_trace_arg *args)
{
    if (!t || t->is_parents)
        return;
    write_event(t, json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o}", "ph", "i", "s", "t", "cat", category, "name",
                             md_json_text(name), "ts", json_real(us_since(t, md_clock_ns())), "pid", (int)getpid(),
                             "tid", (int)gettid(), "args", json_of_args(args)));
}
