/* Numbers as text. */
#ifndef MD_EXPR_DIGITS_H
#define MD_EXPR_DIGITS_H

#include "base/strbuf.h"

#include <md/md.h>

/** The shortest digits that read back as the same f64 or f32. */
void md_fx_print_real(md_strbuf *out, double value, md_dtype type);
/** An i64, or a real. */
void md_fx_print_number(md_strbuf *out, md_dtype type, int64_t integer, double real);

#endif
