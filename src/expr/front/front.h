/* The working state of one md_fx_formula_create: what the passes of the front end share. Private to src/expr.
 *
 * Order: parse, symbols (names, ranks, declarations), resolve (statements become typed nodes; infer gives types), dims
 * (which axes and indices are one size), simplify, widen, simplify again, reach, lengths. */
#ifndef MD_EXPR_FRONT_FRONT_H
#define MD_EXPR_FRONT_FRONT_H

#include "expr/diag.h"
#include "expr/formula.h"
#include "expr/front/syntax.h"

/* What the text says of a tensor beyond md_fx_tensor. */
typedef struct md_tensor_notes {
    int32_t line, column; /* of the first appearance */
    bool is_let;
    bool is_subscript; /* its elements are used as an index */
    bool is_unsigned; /* a let without a declared type whose value is a u64 */
    bool is_only_declared; /* so far: by a tensor statement */
} md_tensor_notes;

/* One subscript of one load or store. */
typedef struct md_access md_access;
struct md_access {
    md_access *next;
    int32_t tensor, axis;
    int32_t index; /* the plain index, -1 for anything else */
    bool is_store;
    bool is_part; /* the first part of a concatenation: its axis ends before the index does */
    const md_fx_node *subscript;
};

/* A size(..) whose dim is settled once all indices are known. */
typedef struct md_size_use md_size_use;
struct md_size_use {
    md_size_use *next;
    md_fx_node *node;
    const md_syntax *at;
    int32_t index; /* the visible index of that name, -1 if there was none */
};

typedef struct md_front {
    md_arena *arena; /* the formula's */
    md_arena *scratch; /* dies with the front end */
    const char *text;
    md_fx_options options;
    md_syntax_tree tree;
    bool takes_lists; /* the tree is what one item of a formula with lists computes */
    md_fx_formula *formula;
    md_tensor_notes tensor[MD_FX_MAX_TENSORS];
    md_access *accesses, **last_access;
    md_size_use *size_uses;
    int32_t outer[MD_FX_MAX_INDICES]; /* of a shadowing binder's index: the index that it shadows, else -1 */
    const md_syntax *index_at[MD_FX_MAX_INDICES]; /* where each was made */
} md_front;

/** The formula of a tree: what one item computes where the text has lists. Reductions over items are then over one. */
md_status md_front_create(md_fx_formula **out, const md_syntax_tree *tree, const md_fx_options *options);

/** Registers tensors, scalars, their ranks and declared dtypes, and the arguments, in order of appearance. */
md_status md_front_symbols(md_front *front);
/** Makes the statements' nodes, with types. SIZE nodes have no dim yet. */
md_status md_front_resolve(md_front *front);
/** Settles dims, their names and sizes; says which axes are at_least. */
md_status md_front_dims(md_front *front);
/** Refuses a size that the call would give and nothing reads, once all is simplified. */
md_status md_front_check_sizes(const md_front *front);
/** Has what scalars, constants and sizes alone make computed in f64. */
md_status md_front_widen(md_front *front);
/** Folds what can be folded without changing a bit. */
md_status md_front_simplify(md_front *front);
/** Checks the shape of subscripts and collects what must be range-checked at each call. */
md_status md_front_reaches(md_front *front);

/** Marks lengths that masks look up: the kernel reports those above the size. */
md_status md_front_lengths(md_front *front);

/** The tensor or scalar of that name, -1 if there is none. */
int32_t md_front_tensor(const md_front *front, const char *name);
int32_t md_front_scalar(const md_front *front, const char *name);

/** The right side of a statement, as a scan where it reads the target's element before: H[t] = A[t] * H[t-1] + B[t]. It
 * is refused where that is not associative. */
md_status md_front_recurrence(md_front *front, const md_syntax **out, int32_t stmt, const md_syntax_item *item);
/** How many operands a scan or reduction has: recur[i](a, b [, restart] ...) has two or three. */
md_status md_recurrence_operands(md_front *front, const md_syntax *at, int32_t *n);
/** The left side of a statement. */
const md_syntax *md_front_target(const md_front *front, int32_t stmt);
/** True if both have one list of bare names for subscripts. */
bool md_syntax_is_same_element(const md_syntax *a, const md_syntax *b);

/** Called with the operands of a where: in the arm in which j is below a length, T[j] need only be so long if the other
 * arm reads on at a shifted j. */
void md_front_note_concatenation(md_front *front, md_fx_node *const arg[3]);

/** Fails with a message at a place of the text. */
#define MD_FRONT_ERROR(front, at, ...) md_fx_complain((front)->text, (at)->line, (at)->column, __VA_ARGS__)

#endif
