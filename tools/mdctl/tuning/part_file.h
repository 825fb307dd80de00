/* The file of a part: a head, lines of wisdom, an end. A file that was cut, or that belongs to other parts, is seen. */
#ifndef MDCTL_TUNING_PART_FILE_H
#define MDCTL_TUNING_PART_FILE_H

#include "common/cli.h"

/* What head and end say. */
typedef struct part_head {
    int part, n_parts; /* 0: the file is no part */
    char plan[40], device[96];
    bool has_end;
} part_head;

/** The line that a part begins with, and the one that it ends with. `plan`: digest of all pieces of all parts. */
void part_print_head(FILE *file, const part_head *head);
void part_print_end(FILE *file, const part_head *head);
/** Reads them from the text of a file; a file that is no part has n_parts 0. */
void part_read(part_head *out, const char *text, size_t n_bytes);
/** The name of the context's device. False after a failure of the library. */
bool part_device(char out[96], md_context *context);
/** What keeps two parts of files `name` and `first_name` from being merged, as a failure; CLI_OK: nothing. */
int part_check(const part_head *head, const char *name, const part_head *first, const char *first_name,
               const char *device);

#endif
