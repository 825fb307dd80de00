/* Writes the timeline of MD_TRACE, one JSON event a line.
 *
 * In a regular file the next event overwrites the end of the array, so the file is whole after each one: Python ends
 * without destroying its contexts. Contexts that have a file open at the same time add to it; the first empties it. */
#include "base/trace.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/task/fork.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct md_trace {
    int fd;
    pthread_mutex_t lock;
    bool is_stream; /* a pipe or a device: the array ends with md_trace_close */
    bool is_empty; /* of a stream */
    bool failed;
    bool is_parents; /* in a child after fork: only the parent writes */
    char path[]; /* for messages */
};

static const char empty[] = "[\n]\n", end[] = "\n]\n";
enum { EMPTY_BYTES = sizeof empty - 1, END_BYTES = sizeof end - 1 };

static void leave_to_parent(void *user)
{
    ((md_trace *)user)->is_parents = true;
}

/* Locks the file against other traces that have it open. A file system without locks serves one trace. */
static void lock_file(int fd, short type)
{
    struct flock all = {.l_type = type, .l_whence = SEEK_SET};
    while (fcntl(fd, F_OFD_SETLKW, &all) != 0 && errno == EINTR) {
    }
}

/* Empties the file unless another trace has it open. The shared lock says so until the file is closed. */
static bool begin_file(int fd)
{
    const bool is_first = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    bool ok = true;
    if (is_first)
        ok = ftruncate(fd, 0) == 0 && pwrite(fd, empty, EMPTY_BYTES, 0) == EMPTY_BYTES;
    (void)flock(fd, LOCK_SH);
    return ok;
}

static bool begin(md_trace *t)
{
    struct stat about;
    if (fstat(t->fd, &about) != 0)
        return false;
    t->is_stream = t->is_empty = !S_ISREG(about.st_mode);
    md_writing writing;
    md_writing_begin(&writing);
    const bool ok = t->is_stream || begin_file(t->fd);
    md_writing_end(&writing);
    return ok;
}

md_status md_trace_open(md_trace **out, const char *path)
{
    md_trace *t = calloc(1, sizeof *t + strlen(path) + 1);
    if (!t)
        return md_fail_memory();
    t->fd = md_above_standard(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (t->fd < 0 || !begin(t)) {
        md_status s = md_fail(MD_IO, "MD_TRACE: cannot write '%s': %s", path, strerror(errno));
        if (t->fd >= 0)
            close(t->fd);
        free(t);
        return s;
    }
    memcpy(t->path, path, strlen(path) + 1);
    md_mutex_init(&t->lock);
    md_fork_watch(t, leave_to_parent);
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
    bool ok = !t->failed;
    if (t->is_stream && !t->is_parents)
        ok = md_file_write_all(t->fd, t->is_empty ? "[]\n" : end, END_BYTES) && ok;
    ok = close(t->fd) == 0 && ok;
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

/* Adds an event to a file that may hold those of others; where it does not fit, the file keeps what it had. */
static bool add_to_file(int fd, md_strbuf *event)
{
    lock_file(fd, F_WRLCK);
    const off_t size = lseek(fd, 0, SEEK_END);
    const bool is_first = size < EMPTY_BYTES + END_BYTES;
    const off_t at = is_first ? 1 : size - END_BYTES;
    md_strbuf_add(event, end);
    const char *text = md_strbuf_text(event) + is_first; /* begins with a comma */
    const ssize_t n = (ssize_t)event->size - is_first;
    bool ok = !event->failed && size >= EMPTY_BYTES;
    if (ok && pwrite(fd, text, (size_t)n, at) != n) {
        ok = false;
        (void)!pwrite(fd, end, END_BYTES, at);
        (void)!ftruncate(fd, at + END_BYTES);
    }
    lock_file(fd, F_UNLCK);
    return ok;
}

static bool add_to_stream(md_trace *t, md_strbuf *event)
{
    if (event->failed || !md_file_write_all(t->fd, t->is_empty ? "[" : ",", 1) ||
        !md_file_write_all(t->fd, event->text + 1, event->size - 1))
        return false;
    t->is_empty = false;
    return true;
}

static void write_event(md_trace *t, json_t *event)
{
    char *line = event ? md_json_dump(event, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    md_strbuf text = {0};
    md_writing writing;
    json_decref(event);
    md_strbuf_add(&text, ",\n");
    md_strbuf_add(&text, line ? line : "");
    pthread_mutex_lock(&t->lock);
    md_writing_begin(&writing);
    if (!line || !(t->is_stream ? add_to_stream(t, &text) : add_to_file(t->fd, &text)))
        t->failed = true;
    md_writing_end(&writing);
    pthread_mutex_unlock(&t->lock);
    md_strbuf_finish(&text);
    free(line);
}

/* Of one clock for all traces of a machine. */
static json_t *us_of(uint64_t ns)
{
    return json_real((double)ns / 1e3);
}

void md_trace_span(md_trace *t, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns,
                   const md_trace_arg *args)
{
    if (!t || t->is_parents)
        return;
    write_event(t, json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:o}", "ph", "X", "cat", category, "name",
                             md_json_text(name), "ts", us_of(start_ns), "dur", us_of(end_ns - start_ns), "pid",
                             (int)getpid(), "tid", (int)gettid(), "args", json_of_args(args)));
}

void md_trace_mark(md_trace *t, const char *category, const char *name, const md_trace_arg *args)
{
    if (!t || t->is_parents)
        return;
    write_event(t, json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o}", "ph", "i", "s", "t", "cat", category, "name",
                             md_json_text(name), "ts", us_of(md_clock_ns()), "pid", (int)getpid(), "tid", (int)gettid(),
                             "args", json_of_args(args)));
}
