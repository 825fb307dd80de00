/* JSON values that are always valid: text that is not UTF-8 and numbers that are not finite are replaced. NULL only if
 * memory is short. */
#ifndef MD_BASE_JSON_H
#define MD_BASE_JSON_H

#include "base/strbuf.h"

#include <jansson.h>
#include <md/md.h>

/** A copy (malloc'ed) of a text that is valid UTF-8: if it is not, all bytes beyond ASCII become '?'. */
char *md_json_valid(const char *text);
/** A string; text as md_json_valid makes it. */
json_t *md_json_text(const char *text);
/** A number; null if x is not finite. */
json_t *md_json_real(double x);
/** The text of an object or array, malloc'ed; whole, else NULL. `flags` are json_dumps's. */
char *md_json_dump(const json_t *root, size_t flags);
/** Appends an item and returns the list. NULL, with both freed, if memory was short for one of them: a loop that makes
 * a list asks once, at its end. */
json_t *md_json_add(json_t *list, json_t *item);
/** Adds the members of `more` to an object and returns it. NULL, with both freed, as md_json_add. */
json_t *md_json_merge(json_t *object, json_t *more);
/** A string, or null. */
json_t *md_json_text_or_null(const char *text);
/** Members of objects. A text is "" and a number 0 where the key is missing; a number that is null is infinite. */
const char *md_json_text_at(const json_t *object, const char *key);
long long md_json_integer_at(const json_t *object, const char *key);
double md_json_number_at(const json_t *object, const char *key);
bool md_json_is(const json_t *object, const char *key);

/* Prints the text of a report. */
typedef void (*md_json_printer)(md_strbuf *out, const json_t *report);
/** A report as JSON, or as the text that is printed from it; frees it. OUT_OF_MEMORY, also where it is NULL. */
md_status md_json_report(md_strbuf *out, json_t *report, bool json, md_json_printer print);

/** Prints `root` in one line and frees it. A NULL root and a lack of memory mark `out` as failed. */
void md_json_print(md_strbuf *out, json_t *root);
/** The same over several lines, for a file that people read. */
void md_json_print_document(md_strbuf *out, json_t *root);

#endif
