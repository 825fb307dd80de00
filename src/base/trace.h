/* A timeline of what happened beside the calls (builds, measurements, choices), as a file that Perfetto and
 * chrome://tracing open: the JSON array of the Trace Event Format, one event a line, whole after every event. A NULL
 * trace takes everything and does nothing. Thread-safe. */
#ifndef MD_BASE_TRACE_H
#define MD_BASE_TRACE_H

#include <md/md.h>

typedef struct md_trace md_trace;

/** Replaces the file. IO names the path. */
md_status md_trace_open(md_trace **out, const char *path);
/** Ends the array; IO where something could not be written. NULL allowed. */
md_status md_trace_close(md_trace **trace);

typedef struct md_trace_arg {
    const char *name; /* NULL ends a list */
    const char *text; /* NULL: `number` counts */
    double number;
} md_trace_arg;

/** Something that took from start_ns to end_ns (md_clock_ns) on the calling thread. `args` may be NULL. */
void md_trace_span(md_trace *trace, const char *category, const char *name, uint64_t start_ns, uint64_t end_ns,
                   const md_trace_arg *args);
/** Something that happened now. */
void md_trace_mark(md_trace *trace, const char *category, const char *name, const md_trace_arg *args);

#endif
