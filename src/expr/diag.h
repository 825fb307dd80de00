/* Messages about a formula's text, in the manner of a compiler: line, column, the line, a caret. */
#ifndef MD_EXPR_DIAG_H
#define MD_EXPR_DIAG_H

#include "base/arena.h"

#include <md/md.h>

/** Fails with "line:column: message", the line of the text, and a caret under the column.
 * Columns count characters, from 1. Always returns MD_INVALID_ARGUMENT. */
md_status md_fx_complain(const char *text, int32_t line, int32_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/** The same text as md_fx_complain's message, in the arena; NULL if memory is short. */
const char *md_fx_remark(md_arena *arena, const char *text, int32_t line, int32_t column, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

/** How a formula says what other languages call `word` (float, ln, clip): text, or NULL where no such word is known. */
const char *md_fx_word_here(const char *word);

/* The nearest of several names to one that was not found. */
typedef struct md_fx_nearest {
    const char *wanted;
    const char *best; /* NULL while nothing is near enough */
    int cost;
} md_fx_nearest;

/** Takes a candidate; the first of equally near ones stays. */
void md_fx_nearest_offer(md_fx_nearest *nearest, const char *candidate);

/* "; did you mean 'x'?", or nothing, in a form that prints with "%s%s%s". */
#define MD_FX_NEAREST_ARGS(n) (n).best ? "; did you mean '" : "", (n).best ? (n).best : "", (n).best ? "'?" : ""

#endif
