/* Wisdom as text: sorted lines, each a JSON object, which people can read, compare and ship. */
#ifndef MD_TUNE_WISDOM_LINE_H
#define MD_TUNE_WISDOM_LINE_H

#include "base/strbuf.h"
#include "tune/wisdom/record.h"

/* Where results come from. */
typedef struct md_tn_origin {
    char device[64]; /* its name: of the same device with another driver or compiler, records count as estimates */
    md_digest128 environment;
} md_tn_origin;

/* What a line says: one result, or one variant that is never to run. */
typedef struct md_tn_line {
    md_tn_origin origin;
    bool is_quarantine;
    md_tn_record record; /* of a quarantine: variant and source only */
    char why[64]; /* of a quarantine */
} md_tn_line;

/** Appends the line with its newline. */
void md_tn_line_print(md_strbuf *out, const md_tn_line *line);
/** Reads a line; any bytes may be given. CORRUPT says what is wrong. Finish it. */
md_status md_tn_line_read(md_tn_line *out, const char *text, size_t n);
void md_tn_line_finish(md_tn_line *line);

#endif
