/* Making and examining nodes. All constructors return NULL when memory is short and pass NULL operands on. */
#ifndef MD_EXPR_NODE_H
#define MD_EXPR_NODE_H

#include "base/dtype.h"
#include "expr/formula.h"

md_fx_node *md_fx_node_new(md_arena *arena, md_fx_kind kind, md_dtype type);
const md_fx_node *md_fx_real(md_arena *arena, double value, md_dtype type);
const md_fx_node *md_fx_integer(md_arena *arena, int64_t value);
const md_fx_node *md_fx_op1(md_arena *arena, md_fx_op op, const md_fx_node *a); /* type inferred as the language says */
const md_fx_node *md_fx_op2(md_arena *arena, md_fx_op op, const md_fx_node *a, const md_fx_node *b);
const md_fx_node *md_fx_op3(md_arena *arena, md_fx_op op, const md_fx_node *a, const md_fx_node *b,
                            const md_fx_node *c);
const md_fx_node *md_fx_index_node(md_arena *arena, int32_t index);
const md_fx_node *md_fx_size_node(md_arena *arena, int32_t dim);
const md_fx_node *md_fx_check_node(md_arena *arena, const md_fx_node *subscript);
const md_fx_node *md_fx_length_node(md_arena *arena, const md_fx_node *load, int32_t dim);
/** A conversion by the text's own words: bf16(x) rounds, and has the type that bf16 is computed in. */
const md_fx_node *md_fx_cast(md_arena *arena, const md_fx_node *node, md_dtype to);
const md_fx_node *md_fx_ref(md_arena *arena, int32_t id, md_dtype type);

/** The type of an operation, reduction or scan whose operands have this common type (of a where: its arms). */
md_dtype md_fx_op_type(md_fx_op op, md_dtype common);
/** f64 if either is, else f32 if either is real, else i64, bool only if both are. Operands of an OP are converted to
 * the common type of all of them before it is applied (comparisons too); `and or not` and conditions test != 0. */
md_dtype md_fx_common_type(md_dtype a, md_dtype b);

/** Structural equality, bound indices compared up to renaming: they must run over one dim, which the formula knows.
 * Without a formula (NULL) they must be the same. A LENGTH is equal to its load. */
bool md_fx_equal(const md_fx_formula *formula, const md_fx_node *a, const md_fx_node *b);
/** A copy in which every INDEX `from[i]` is replaced by the node `to[i]`. Bound indices are kept. Shares what is
 * unchanged. A scan along from[i] then runs along to[i], which must be an INDEX (else NULL). */
const md_fx_node *md_fx_substitute(md_arena *arena, const md_fx_node *node, int32_t n, const int32_t *from,
                                   const md_fx_node *const *to);
/** Applies fn bottom-up; fn returns the node itself or a replacement; NULL means out of memory and stops. */
typedef const md_fx_node *(*md_fx_rewrite_fn)(void *user, const md_fx_node *node);
const md_fx_node *md_fx_rewrite(md_arena *arena, const md_fx_node *node, md_fx_rewrite_fn fn, void *user);
/** A copy in which every part that is equal to `from` is `to`. */
const md_fx_node *md_fx_replace(const md_fx_formula *formula, md_arena *arena, const md_fx_node *node,
                                const md_fx_node *from, const md_fx_node *to);
/** Calls fn on every distinct node, operands first; stops when it returns false. Returns whether it ran to the end. */
typedef bool (*md_fx_visit_fn)(void *user, const md_fx_node *node);
bool md_fx_visit(const md_fx_node *node, md_fx_visit_fn fn, void *user);
/** True if the value depends on index id: it occurs free (subscripts included), or a scan runs along it. */
bool md_fx_uses_index(const md_fx_node *node, int32_t index);
/** True if the node itself binds the index: a reduction over it, or a scan along it. */
bool md_fx_binds(const md_fx_node *node, int32_t index);
bool md_fx_uses_any_index(const md_fx_node *node, int32_t n, const int32_t *index);
bool md_fx_has_kind(const md_fx_node *node, md_fx_kind kind);
bool md_fx_is_index(const md_fx_node *node, int32_t index); /* is exactly INDEX index */
/** True if a kernel must check this subscript: it reads memory, or is a CHECK. */
bool md_fx_is_checked(const md_fx_node *subscript);

/** An affine integer expression: constant + sum coef[i]*index[i] + sum size_coef[i]*size(dim[i]). */
typedef struct md_fx_affine {
    int64_t constant;
    int32_t n, n_sizes;
    int32_t index[MD_MAX_RANK * 2];
    int64_t coef[MD_MAX_RANK * 2];
    int32_t dim[MD_MAX_RANK];
    int64_t size_coef[MD_MAX_RANK];
} md_fx_affine;
/** False where the node is not affine (or overflows). Static sizes are folded into the constant. */
bool md_fx_affine_of(md_fx_affine *out, const md_fx_formula *formula, const md_fx_node *node);

/** Lowest and highest value of at->subscript when every index runs over its dim, dims have these sizes (indexed by dim
 * id) and at's guards hold. Never too narrow; exact for affine expressions without guards. lo > hi where it is never
 * evaluated (an empty dim, guards that never hold). False where it cannot be bounded or overflows. */
bool md_fx_range(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const int64_t *size, const md_fx_reach *at);
/** The same exactly, by trying all points. False where they are more than a million, for reaches with tensors or
 * scalars, and where the subscript divides by 0 or exceeds 64 bits at one. */
bool md_fx_range_exact(int64_t *lo, int64_t *hi, const md_fx_formula *formula, const int64_t *size,
                       const md_fx_reach *at);
/** The value of an expression of sizes and whole numbers. False for all others, and where it has none. */
bool md_fx_value_of_sizes(int64_t *out, const int64_t *size, const md_fx_node *node);
/** True if the reach is proved to lie inside its axis whatever the sizes of a call are. */
bool md_fx_is_inside(const md_fx_formula *formula, const md_fx_reach *at);

#endif
