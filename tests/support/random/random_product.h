/* Random products that random_op does not draw. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_PRODUCT_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_PRODUCT_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/** A sum over windows of one to three axes, or the gradient of its filter: steps, dilations, places beyond the ends,
 * channels first or last, groups. Some are refused. */
void random_window(md_strbuf *out, uint64_t *state);
/** A product with weights of few bits, by scales of groups, some of them looked up for each row. */
void random_weights(md_strbuf *out, uint64_t *state);

#endif
