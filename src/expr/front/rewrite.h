/* New pieces of syntax for passes that rewrite what the parser made. All take the place `at` in the text and live in
 * the scratch arena. Private to src/expr. */
#ifndef MD_EXPR_FRONT_REWRITE_H
#define MD_EXPR_FRONT_REWRITE_H

#include "expr/front/front.h"

/** A copy of s with these operands. */
md_status md_rewrite_make(md_front *fr, const md_syntax **out, md_syntax s, int32_t n, const md_syntax *const *arg);
/** An operation on x and y; y is NULL for one operand. A missing operand of + * max min leaves the other one. */
md_status md_rewrite_combine(md_front *fr, const md_syntax **out, md_fx_op op, const md_syntax *at, const md_syntax *x,
                             const md_syntax *y);
md_status md_rewrite_number(md_front *fr, const md_syntax **out, const md_syntax *at, int64_t value);
/** where(condition, yes, no) */
md_status md_rewrite_choose(md_front *fr, const md_syntax **out, const md_syntax *at, const md_syntax *const arg[3]);
/** true or false */
md_status md_rewrite_keyword(md_front *fr, const md_syntax **out, const md_syntax *at, bool value);

#endif
