/* The order in which a printed formula names its tensors. */
#ifndef MD_EXPR_ORDER_H
#define MD_EXPR_ORDER_H

#include "expr/formula.h"

/** True if the tensors appear in the order of their numbers. If not, the text must say it: tensor B[i], A[i]; ... */
bool md_fx_is_in_order(const md_fx_formula *formula);

#endif
