/* Random formulas by the name of their kind, for golden files. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_TEXT_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_TEXT_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/** Writes the formula of a seed: of a kind of random_op ("row", "product", ..), of random_formula ("wild"), or of
 * random_program ("program"). False for another name. */
bool random_text(md_strbuf *out, const char *kind, uint64_t seed);

#endif
