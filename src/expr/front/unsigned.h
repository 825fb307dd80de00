/* What is different about u64: its values have the type i64 and `is_unsigned`, and these operations replace i64's. */
#ifndef MD_EXPR_FRONT_UNSIGNED_H
#define MD_EXPR_FRONT_UNSIGNED_H

#include "expr/front/front.h"

/** The operation on i64 operands of which one is unsigned; *out is NULL where i64's gives the same bits. */
md_status md_unsigned_op(md_front *front, md_fx_node **out, md_fx_op op, md_fx_node *const *arg);
/** The node itself, which is unsigned now, or is not. */
md_fx_node *md_unsigned_mark(const md_fx_node *a, bool is_unsigned);
/** The number with its highest bit inverted: i64 orders it as the number is ordered. Flipped twice it is the same. */
md_status md_unsigned_flip(md_front *front, md_fx_node **out, const md_fx_node *a);
/** The number rounded to a real type. */
md_status md_unsigned_to_real(md_front *front, md_fx_node **out, const md_fx_node *a, md_dtype to);

#endif
