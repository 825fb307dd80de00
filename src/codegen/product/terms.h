/* Operands of products that are windows of a tensor, as expressions. */
#ifndef MD_CODEGEN_PRODUCT_TERMS_H
#define MD_CODEGEN_PRODUCT_TERMS_H

#include "expr/formula.h"
#include "expr/node.h"

/* What is at least 0 where a window is read. */
enum { MD_CG_MAX_TERMS = 8 };
typedef struct md_cg_terms {
    int32_t n;
    md_fx_affine term[MD_CG_MAX_TERMS];
} md_cg_terms;

/** The LOAD of an operand that is a window, casts to `type` aside, and the terms of its guard; NULL: it is no such
 * expression. */
const md_fx_node *md_cg_terms_of(md_cg_terms *out, const md_fx_formula *formula, const md_fx_node *operand,
                                 md_dtype type);

#endif
