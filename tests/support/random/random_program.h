/* Random chains of lets and outputs over square tensors: what inlining, grouping and splitting must get right. All
 * indices run over one dim, so that nothing but the indices themselves says which axis is which. */
#ifndef MD_TESTS_SUPPORT_RANDOM_RANDOM_PROGRAM_H
#define MD_TESTS_SUPPORT_RANDOM_RANDOM_PROGRAM_H

#include "base/strbuf.h"

#include <stdint.h>

/** Writes a formula of 2 to 8 statements; the same state gives the same formula. */
void random_program(md_strbuf *out, uint64_t *state);

#endif
