/* JSON values that are always valid: texts of users may be no UTF-8, and some numbers are no numbers. NULL only
 * where memory is short. */
#ifndef MD_BASE_JSON_H
#define MD_BASE_JSON_H

#include "base/strbuf.h"

#include <jansson.h>

/** Bytes beyond ASCII become '?' where the text is no UTF-8. */
json_t *md_json_text(const char *text);
/** null where x is not finite. */
json_t *md_json_real(double x);
/** Prints and frees `root`; NULL and a lack of memory mark `out` as failed. */
void md_json_print(md_strbuf *out, json_t *root);

#endif
