/* Formulas over lists: `let n = sum[t,i](f32(G@t[i]) * f32(G@t[i])); P@t[i] = P@t[i] - lr * G@t[i] / sqrt(n)`.
 *
 * X@t[i] is an element of item t of list X; dims belong to each item. Such a formula becomes steps, which are ordinary
 * formulas: a REDUCE step gives partial results of every item, a SCALARS step computes numbers from those, an ITEMS
 * step is an ordinary formula for each item, which reads those numbers from memory. What one item computes, a formula
 * without lists, says types and refuses what ordinary formulas refuse. */
#ifndef MD_EXPR_LIST_LIST_H
#define MD_EXPR_LIST_LIST_H

#include "expr/formula.h"

enum { MD_FX_LIST_TILE = 4096 }; /* elements of a partial result */

typedef enum md_fx_step_kind { MD_FX_STEP_REDUCE, MD_FX_STEP_SCALARS, MD_FX_STEP_ITEMS } md_fx_step_kind;

typedef struct md_fx_list_step {
    md_fx_step_kind kind;
    const char *text; /* a formula; NULL for REDUCE */
} md_fx_list_step;

/* A reduction over the items, and over elements of each. */
typedef struct md_fx_list_reduction {
    int32_t step; /* a REDUCE step */
    md_dtype dtype; /* of partial results */
    const char *op; /* "sum" */
    /* For items whose tensors are alike and without gaps: rows of MD_FX_LIST_TILE elements, a result each. NULL: the
     * items are no mere sequences of elements. */
    const char *flat;
    const char *whole; /* the same of a whole item: one result */
} md_fx_list_reduction;

typedef enum md_fx_name_kind {
    MD_FX_NAME_ARG, /* id: an argument */
    MD_FX_NAME_VALUE, /* a number for all items, in memory of the library's own; id: from 0 on */
    MD_FX_NAME_PARTIAL /* results of reduction `id` */
} md_fx_name_kind;

/* What an argument of a step's formula is. */
typedef struct md_fx_list_name {
    const char *name;
    md_fx_name_kind kind;
    int32_t id;
    md_dtype dtype; /* VALUE */
} md_fx_list_name;

typedef struct md_fx_list_arg {
    const char *name;
    bool is_scalar, is_list, is_read, is_written;
    md_dtype dtype; /* of a scalar its type */
    int32_t rank; /* of an item's tensor */
} md_fx_list_arg;

typedef struct md_fx_list {
    md_arena *arena;
    md_fx_formula *item; /* what one item computes */
    int32_t n_args, n_steps, n_reductions, n_names, n_values;
    md_fx_list_arg arg[MD_FX_MAX_ARGS]; /* in order of first appearance */
    md_fx_list_step step[3 * MD_FX_MAX_STMTS];
    md_fx_list_reduction reduction[MD_FX_MAX_STMTS];
    md_fx_list_name name[MD_FX_MAX_TENSORS + MD_FX_MAX_SCALARS + MD_FX_MAX_STMTS];
} md_fx_list;

/** True if the text is a formula over lists: '@' stands in it, outside of comments. */
bool md_fx_has_lists(const char *text);
/** Reads a formula over lists. Fails as md_fx_formula_create does. */
md_status md_fx_list_create(md_fx_list **out, const char *text, const md_fx_options *options);
void md_fx_list_destroy(md_fx_list **list);
/** What a name in a step's formula is; NULL for others. */
const md_fx_list_name *md_fx_list_find(const md_fx_list *list, const char *name);

#endif
