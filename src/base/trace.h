/* A timeline of builds, measurements and choices, as a file for Perfetto and chrome://tracing: the JSON array of the
 * Trace Event Format, one event a line. A regular file is a whole array after every event; traces that are open at the
 * same time, also of other processes, share it. A NULL trace ignores all events. Thread-safe. */
#ifndef MD_BASE_TRACE_H
#define MD_BASE_TRACE_H

#include <md/md.h>

typedef struct md_trace md_trace;

/** Opens a trace, and empties the file unless another trace has it open. IO names the path. */
md_status md_trace_open(md_trace **out, const char *path);
/** Ends the array and closes the file; IO if an event could not be written. *trace may be NULL. */
md_status md_trace_close(md_trace **trace);

typedef struct md_trace_arg {
    const char *name; /* NULL ends a list */
    const char *text; /* NULL: `number` is the value */
    double number;
} md_trace_arg;

/** An event on the calling thread from start_ns to end_ns (md_clock_ns). `args` may be NULL. */
void md_trace_span(md_trace *trace, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns,
                   const md_trace_arg *args);
/** An event at this instant. */
void md_trace_mark(md_trace *trace, const char *category, const char *name, const md_trace_arg *args);

#endif
