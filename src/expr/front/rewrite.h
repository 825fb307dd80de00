/* Rewriting formulas once their types are known. */
#ifndef MD_EXPR_FRONT_REWRITE_H
#define MD_EXPR_FRONT_REWRITE_H

#include "expr/front/front.h"

/* ---- rewrite.c */

/* New pieces of syntax for passes that rewrite what the parser made. All take the place `at` in the text and live in
 * the scratch arena. Private to src/expr. */

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

/* ---- unsigned.c */

/* What is different about u64: its values have the type i64 and `is_unsigned`, and these operations replace i64's. */

/** The operation on i64 operands of which one is unsigned; *out is NULL where i64's gives the same bits. */
md_status md_unsigned_op(md_front *front, md_fx_node **out, md_fx_op op, md_fx_node *const *arg);
/** The node itself, which is unsigned now, or is not. */
md_fx_node *md_unsigned_mark(const md_fx_node *a, bool is_unsigned);
/** The number with its highest bit inverted: i64 orders it as the number is ordered. Flipped twice it is the same. */
md_status md_unsigned_flip(md_front *front, md_fx_node **out, const md_fx_node *a);
/** The number rounded to a real type. */
md_status md_unsigned_to_real(md_front *front, md_fx_node **out, const md_fx_node *a, md_dtype to);

#endif
