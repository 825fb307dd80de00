/* JSON values that are always valid: text that is not UTF-8 and numbers that are not finite are replaced. NULL only if
 * memory is short. */
#ifndef MD_BASE_JSON_H
#define MD_BASE_JSON_H

#include "base/strbuf.h"

#include <jansson.h>

/** A copy (malloc'ed) of a text that is valid UTF-8: if it is not, all bytes beyond ASCII become '?'. */
char *md_json_valid(const char *text);
/** A string; text as md_json_valid makes it. */
json_t *md_json_text(const char *text);
/** A number; null if x is not finite. */
json_t *md_json_real(double x);
/** The text of an object or array, malloc'ed; whole, else NULL. `flags` are json_dumps's. */
char *md_json_dump(const json_t *root, size_t flags);
/** Prints `root` in one line and frees it. A NULL root and a lack of memory mark `out` as failed. */
void md_json_print(md_strbuf *out, json_t *root);
/** The same over several lines, for a file that people read. */
void md_json_print_document(md_strbuf *out, json_t *root);

#endif
