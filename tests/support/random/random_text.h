/* Random formulas by the name of their kind, for golden files. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_TEXT_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_TEXT_H

#include "base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

/** Writes the formula of a seed: of a kind of random_op ("row", "product", ..), of random_formula ("wild"), of
 * random_program ("program"), or of random_product ("window", "weights"). False for another name. */
bool random_text(md_strbuf *out, const char *kind, uint64_t seed);
/** For a line "random KIND SEED": calls `take` with the formulas of the seed and the n - 1 next ones, every second one
 * to be split. False for another line. */
bool random_texts(const char *line, int n, void (*take)(void *user, const char *formula, bool is_split), void *user);

#endif
