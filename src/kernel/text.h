/* The text of a kernel as the compiler sees it. */
#ifndef MD_KERNEL_TEXT_H
#define MD_KERNEL_TEXT_H

#include "base/hash.h"
#include "base/strbuf.h"

#include <md/md.h>

/** Appends the tokens of a C, C++ or CUDA text, separated by single spaces; each preprocessor line is a line of its
 * own. Texts that differ only in comments, white space, or in where a string literal is cut give the same tokens. Raw
 * string literals are not understood. */
void md_kn_text_tokens(md_strbuf *out, const char *text);

/** The digest of a text's tokens. OUT_OF_MEMORY. */
md_status md_kn_text_digest(md_digest128 *out, const char *text);

#endif
