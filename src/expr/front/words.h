/* The reserved words of the formula language. */
#ifndef MD_EXPR_FRONT_WORDS_H
#define MD_EXPR_FRONT_WORDS_H

#include "expr/ops.h"

#include <stdbool.h>

/** The function of that name (exp, max, where, ...), MD_FX_NO_OP if there is none. */
md_fx_op md_fx_function_named(const char *name);
/** The reduction or scan of that name, MD_FX_NO_OP if there is none. max and min are functions too. */
md_fx_op md_fx_binder_named(const char *name);
/** True if the language uses the name, so that no tensor, index or scalar can have it. */
bool md_fx_is_word(const char *name);

#endif
