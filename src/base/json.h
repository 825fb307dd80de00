/* JSON values that are always valid: text that is not UTF-8 and numbers that are not finite are replaced. NULL only if
 * memory is short. */
#ifndef MD_BASE_JSON_H
#define MD_BASE_JSON_H

#include "base/strbuf.h"

#include <jansson.h>

/** A string. If the text is not UTF-8, all bytes beyond ASCII become '?'. */
json_t *md_json_text(const char *text);
/** A number; null if x is not finite. */
json_t *md_json_real(double x);
/** Prints and frees `root`. A NULL root and a lack of memory mark `out` as failed. */
void md_json_print(md_strbuf *out, json_t *root);

#endif
