/* Expressions over the dims of a sequence (expr/whole.h). Equal ones are one value. */
#ifndef MD_SEQUENCE_VALUES_H
#define MD_SEQUENCE_VALUES_H

#include <md/md.h>

typedef struct md_sq_values md_sq_values;

md_sq_values *md_sq_values_create(void); /* NULL if memory is short */
void md_sq_values_destroy(md_sq_values **values);
/** Makes a name known; dims are numbered as they come. INVALID_ARGUMENT for a bad or a known name. */
md_status md_sq_values_add_dim(md_sq_values *values, const char *name);
/** Parses "a, b, c" into at most `most` expressions; out[i] is the number of a value. INVALID_ARGUMENT says `what`. */
md_status md_sq_values_parse(int32_t *out, int32_t *n, int32_t most, md_sq_values *values, const char *text,
                             const char *what);
int32_t md_sq_values_count(const md_sq_values *values);
/** Evaluates all. INVALID_ARGUMENT names one that divides by 0 or exceeds 64 bits. */
md_status md_sq_values_eval(int64_t *out, const md_sq_values *values, const int64_t *size);
/** The text of an expression, for people. */
const char *md_sq_values_text(const md_sq_values *values, int32_t i);

#endif
