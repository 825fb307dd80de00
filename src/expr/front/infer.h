/* Typed nodes with the language's rules for types.
 *
 * A literal, and arithmetic on literals only, is weak: it takes the type of what it meets. Numbers that meet nothing
 * become the default at a store, i64 or f32 elsewhere. Every other conversion becomes a CAST, so that in a finished
 * formula the operands of an operation have the type it is computed in. `weak` is false in every finished node. */
#ifndef MD_EXPR_FRONT_INFER_H
#define MD_EXPR_FRONT_INFER_H

#include "expr/front/front.h"

/** An operation on operands, in the operands' common type; conditions (of where, and, or, not) become x != 0. */
md_status md_infer_op(md_front *front, md_fx_node **out, md_fx_op op, int32_t n, md_fx_node *const *arg,
                      const md_syntax *at);
/** dtype(x) as written by the user: rounds. */
md_status md_infer_cast(md_front *front, md_fx_node **out, md_dtype to, md_fx_node *arg, const md_syntax *at);
/** A reduction or scan without its bound indices, and its result once it has them. */
md_status md_infer_binder(md_front *front, md_fx_node **out, md_fx_op op, md_fx_node *body, const md_syntax *at);
md_status md_infer_finish_binder(md_front *front, md_fx_node **out);
/** A linear recurrence without its index: arg[0] * before + arg[1], anew where arg[2] holds if n is 3. */
md_status md_infer_recurrence(md_front *front, md_fx_node **out, int32_t n, md_fx_node *const arg[3],
                              const md_syntax *at);
/** The node in the compute type `to` (f32, f64, i64 or bool): weak nodes take it, others get a CAST. */
md_status md_infer_convert(md_front *front, md_fx_node **out, md_fx_node *node, md_dtype to);
/** A weak constant. */
md_status md_infer_integer(md_front *front, md_fx_node **out, int64_t value, const md_syntax *at);
md_status md_infer_real(md_front *front, md_fx_node **out, double value, const md_syntax *at);

#endif
