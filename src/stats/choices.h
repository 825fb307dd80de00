/* The choices of ops as text: lines of JSON that another process on equal hardware can take over. */
#ifndef MD_STATS_CHOICES_H
#define MD_STATS_CHOICES_H

#include "base/strbuf.h"
#include "dispatch/op.h"

typedef struct md_ss_lines {
    char **line; /* owned, as the lines */
    int64_t n;
    bool failed; /* memory was short */
} md_ss_lines; /* a zeroed struct is empty */

/** Adds a line for every shape that the op remembers. */
void md_ss_lines_add(md_ss_lines *lines, md_ds_op *op);
/** Prints a line on the format, and the lines, sorted and each once. Frees the lines. OUT_OF_MEMORY. */
md_status md_ss_lines_print(md_strbuf *out, md_ss_lines *lines);

/** Gives the ops the choices of a text: all, or none where it fails. Several texts may be joined: the first
 * line of an op and shape counts. *n_unknown: how many lines are of no op in the list. */
md_status md_ss_choices_take(int64_t *n_unknown, md_ds_op *const *op, int32_t n_ops, const char *text);

#endif
