/* Inside the stage layer: from statements to stages.
 *
 * An item is a statement on its way: its value has lets inlined and VAR lowered. Forming asks whether a few items
 * can be one stage and makes it; planning (plan.c) decides which lets are inlined and which items are formed
 * together. */
#ifndef MD_STAGE_FORM_H
#define MD_STAGE_FORM_H

#include "base/status.h"
#include "stage/set.h"
#include "stage/stage.h"

typedef struct md_st_item {
    int32_t tensor;
    md_fx_assign assign;
    int32_t n_free, n_subscripts;
    int32_t free[MD_MAX_RANK * 2];
    const md_fx_node *subscript[MD_MAX_RANK];
    const md_fx_node *value;
    uint32_t inlined; /* temporaries whose values are in it, one bit a tensor */
} md_st_item;

/* What making needs everywhere. A NULL node or a failed allocation sets no_memory, which the end of planning
 * reports. */
typedef struct md_st_maker {
    md_st_program *program;
    const md_fx_formula *formula;
    md_arena *arena;
    bool no_memory;
} md_st_maker;

/* ---- form.c ---- */

/** Makes one stage of the items, in that order; false where they cannot be one (or memory is short). One item always
 * can. */
bool md_st_form(md_st_maker *m, md_st_stage *out, int32_t n, const md_st_item *item);
/** Lists what the stage reads and writes, and how. */
void md_st_take_census(const md_st_maker *m, md_st_stage *stage);

/* ---- row.c, product.c, scan.c: one kind each; items are copies that they may change ---- */
bool md_st_form_row(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);
bool md_st_form_product(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);
bool md_st_form_scan(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);
/** merge.c: gives the merge rule of every reduction; bodies of variances get COUNT. */
void md_st_set_merge_rules(md_st_maker *m, md_st_row *row, int32_t axis);

/* ---- space.c: making items run over the same indices ---- */

/** True if the item runs over the index. */
bool md_st_is_free(const md_st_item *item, int32_t index);
/** Renames the free indices of every item to those of the first; false where their dims differ. Then replaces loads
 * of tensors that earlier items write by the values; false where one is read elsewhere than it is written. */
bool md_st_unify(md_st_maker *m, int32_t n, md_st_item *item);
/** The same for items that run over outer, or over outer and an axis: see row.c. */
bool md_st_rename(md_st_maker *m, md_st_item *item, int32_t n, const int32_t *from, const int32_t *to);
bool md_st_replace_own_loads(md_st_maker *m, int32_t n, md_st_item *item, int32_t axis);
/** Copies items to the stage's stores. */
void md_st_put_stores(md_st_stage *out, int32_t n, const md_st_item *item);

/* ---- walk.c ---- */

/** All indices that occur, bound ones too. */
md_st_set md_st_indices(const md_fx_node *node);
/** Nodes, shared ones each time; counting ends when there are enough. */
int32_t md_st_count_nodes(const md_fx_node *node, int32_t enough);
/* of a value after inlining: copies of a let at several places could grow without end */
enum { MD_ST_MAX_NODES = 1500 };
bool md_st_is_heavy(const md_fx_node *node); /* has a transcendental function or a power */
bool md_st_reads(const md_fx_node *node, int32_t tensor);
bool md_st_item_reads(const md_st_item *item, int32_t tensor);
bool md_st_product_reads(const md_st_product *product, int32_t tensor); /* operands, and bounds of K */
bool md_st_chain_reads(const md_st_chain *chain, int32_t tensor); /* other than in its stores */
/** True if it reads a tensor that several statements write: what it gives depends on where it stands. */
bool md_st_reads_rewritten(const md_fx_formula *formula, const md_fx_node *node);
bool md_st_item_has(const md_st_item *item, md_fx_kind kind); /* in its value or subscripts */
bool md_st_contains(const md_fx_node *node, const md_fx_node *part); /* that very node */
/** True if a part of a value may be computed although the value does not need it. An arm of a where may read what
 * lies outside where the condition does not hold: unless all its loads are plain, it stays in its arm. */
bool md_st_is_safe(const md_fx_node *value, const md_fx_node *part);
bool md_st_is_conditional(const md_fx_node *value, const md_fx_node *part); /* the part stands in an arm of a where */
/** True if the left side is plain distinct indices. */
bool md_st_is_plain(const md_st_item *item);
/** True if subscripts are plain distinct indices. */
bool md_st_are_plain(int32_t n, const md_fx_node *const *subscript);
/** Calls fn for every distinct node of the item: value, then subscripts. */
bool md_st_visit(const md_st_item *item, md_fx_visit_fn fn, void *user);
/** Rewrites the values of all items (md_fx_rewrite); false when memory is short. */
bool md_st_rewrite_all(md_st_maker *m, int32_t n, md_st_item *item, md_fx_rewrite_fn fn, void *user);
/** The value in another type: the node itself, or a CAST of it. Operands of an operation have its type. */
const md_fx_node *md_st_convert(md_arena *arena, const md_fx_node *node, md_dtype type);
/** What a sum over a dim times factors that have left it is: 0 where the dim has no elements, whatever the factors are
 * (0/0, say). NULL: memory is short. */
const md_fx_node *md_st_unless_empty(const md_st_maker *m, int32_t dim, const md_fx_node *result);
bool md_st_inline_item(md_st_maker *m, md_st_item *item, const md_st_item *writer);
/** Distinct nodes of a kind in order of appearance, up to max; the whole count. */
int32_t md_st_collect(const md_fx_node **out, int32_t max, md_fx_kind kind, const md_st_item *item);
/** A reduction like another, of another body; the caller may change its indices. NULL: memory is short. */
md_fx_node *md_st_reduce_like(md_arena *arena, const md_fx_node *like, const md_fx_node *body);
/** Notes that memory was short where the node is NULL; returns whether it is there. */
bool md_st_made(md_st_maker *m, const md_fx_node *node);

/* ---- factor.c: products as lists of factors ---- */
enum { MD_ST_MAX_FACTORS = 24 };

typedef struct md_st_factor {
    const md_fx_node *node;
    bool is_divisor;
} md_st_factor;

typedef struct md_st_factors {
    int32_t n;
    bool is_negative; /* the product is to be negated */
    md_dtype type; /* of the whole product */
    md_st_factor factor[MD_ST_MAX_FACTORS];
} md_st_factors;

/** Takes MUL, DIV, NEG and conversions that change nothing apart. One factor, the node itself, where that overflows. */
void md_st_factors_of(md_st_factors *out, const md_fx_node *node);
/** acc * factor, acc / factor; acc NULL means 1. NULL where memory is short, which the maker remembers. */
const md_fx_node *md_st_times(md_st_maker *m, const md_fx_node *acc, const md_st_factor *factor, md_dtype type);

/* ---- lower.c ---- */

/** VAR as sums. */
const md_fx_node *md_st_lower(md_st_maker *m, const md_fx_node *node);

/* ---- look_up.c: products whose rows look up which matrix they are multiplied by ---- */
enum { MD_ST_MAX_LOOK_UPS = 4 };

/** Subscripts in the body of a sum that read memory and do not depend on what is summed over: at most
 * MD_ST_MAX_LOOK_UPS. */
int32_t md_st_find_look_ups(const md_fx_node *out[MD_ST_MAX_LOOK_UPS], const md_st_maker *m, const md_fx_node *reduce);
/** The index that stands for a look-up, over the first axis that it is a subscript of; made where there is none yet.
 * -1: there is no room. */
int32_t md_st_group_index(md_st_maker *m, const md_fx_node *reduce, const md_fx_node *look_up);
/** Puts the index in the place of the look-up in all factors that depend on k. False where memory is short. */
bool md_st_name_groups(md_st_maker *m, md_st_factors *list, const md_st_set *k, const md_fx_node *look_up,
                       int32_t group);
/** True if results are stored where plain indices say, or if rows alone say where, each a run along the last index. */
bool md_st_suits_stores(const md_st_product *product, int32_t n, const md_st_item *item);

/* ---- span.c: products whose K has bounds by batch ---- */

/** Of a sum over one index under where(guard, .., 0), whose guard bounds that index: the sum without the guard, which
 * becomes that of the product, with the bounds. NULL: it is no such sum. */
const md_fx_node *md_st_take_span(md_st_maker *m, md_st_product *out, const md_fx_node *reduce);

/* ---- densest.c ---- */

/** Of a reduction over several indices the number of the bound index that lies densest, if some tensor has an element
 * for every point, so that partial results are few compared to what is read; -1: none. `n_outside`: indices that it
 * depends on and does not bind. */
int32_t md_st_densest(const md_fx_formula *formula, const md_fx_node *reduce, int32_t n_outside);

/* ---- turn_find.c ---- */

/** True if an index of one operand stands in front of K in memory, and others behind it (md_fx_tensor.is_apart): each
 * of its values is a batch, which the other operand does not have. */
bool md_st_is_in_front(const md_st_maker *m, const md_st_factors *factors, const md_fx_node *reduce, int32_t index);

/* ---- exact.c ---- */

/** The type that a product of integers is exact in: F32, F64 where no sum can be too large for it, else its own. A sum
 * whose length has no limit counts as 2^36 terms. */
md_dtype md_st_exact_type(const md_fx_formula *formula, const md_st_product *product);
/** A load of integers without the casts around it to wider ones, i32(X:i8[i,k]), which keep its values; or the node. */
const md_fx_node *md_st_without_wide_casts(const md_fx_formula *formula, const md_fx_node *node);

/* ---- window.c ---- */

/** True if the reduction runs over a few points that are known here, and can be written out. */
bool md_st_is_window(const md_fx_formula *formula, const md_fx_node *node);
/** Such a reduction as operations, in the order of its indices. */
const md_fx_node *md_st_unroll(const md_fx_formula *formula, md_arena *arena, const md_fx_node *node);

/* ---- split.c ---- */

/** Puts a statement in front of another. */
void md_st_insert(md_fx_formula *formula, int32_t at, const md_fx_stmt *stmt);

/* ---- fusion.c ---- */
md_status md_st_plan(md_st_maker *m);
/** A statement as it stands. */
md_st_item md_st_item_of(const md_fx_stmt *s, const md_fx_formula *f);

#endif
