/* A formula after parsing, resolution and inference: what every later layer reads. Immutable once made; owned by its
 * arena.
 *
 * Every index is its own object: each left side and each binder makes fresh ones, so equal names never mean equal
 * ids across statements or binders. Every axis of every tensor has a dim; an axis that is only reached by non-plain
 * subscripts has a dim of its own that no index runs over ("at least as long as needed"). */
#ifndef MD_EXPR_FORMULA_H
#define MD_EXPR_FORMULA_H

#include "base/arena.h"
#include "expr/ops.h"

#include <md/md.h>
#include <stdbool.h>

enum {
    MD_FX_MAX_DIMS = 48,
    MD_FX_MAX_INDICES = 192,
    MD_FX_MAX_TENSORS = 32,
    MD_FX_MAX_SCALARS = 16,
    MD_FX_MAX_STMTS = MD_MAX_STAGES,
    MD_FX_MAX_WARNINGS = 8
};
enum { MD_FX_MAX_ARGS = 32 };

typedef enum md_fx_kind {
    MD_FX_CONST, /* num (reals) or integer (i64, bool) */
    MD_FX_INDEX, /* id: the position of index id; i64 */
    MD_FX_SIZE, /* id: the size of dim id; i64 */
    MD_FX_SCALAR, /* id: scalar parameter */
    MD_FX_LOAD, /* id: tensor; arg: one subscript per axis */
    MD_FX_OP, /* op on arg */
    MD_FX_CAST, /* to: rounds to dtype `to` and gives it back in its compute type */
    MD_FX_REDUCE, /* op over bound[]; arg[0] is the body */
    MD_FX_SCAN, /* op along bound[0], which is a free index of the statement; arg[0] is the body */
    MD_FX_CHECK, /* a subscript, arg[0], that the kernel checks against the axis before it reads; i64 */
    /* a length, arg[0], an integer LOAD: of how many elements along dim id a mask leaves the first ones. The kernel
     * reports one that is above the size; i64 */
    MD_FX_LENGTH,
    /* made by the stage layer only: */
    MD_FX_REF, /* id: result number id of the stage (a reduction, a product, a scan) */
    MD_FX_COUNT /* elements of the reduction axis in the scope at hand: all of them, or those of a chunk; i64 */
} md_fx_kind;

typedef struct md_fx_node md_fx_node;
struct md_fx_node {
    md_fx_kind kind;
    md_fx_op op;
    md_dtype type; /* of the value: MD_F32, MD_F64, MD_I64 or MD_BOOL */
    md_dtype to; /* CAST */
    int32_t id;
    int32_t n_args;
    int32_t n_bound;
    bool unbiased; /* R_VAR */
    bool exclusive, reverse; /* scans */
    bool weak; /* CONST written as a literal: takes the type of its partner */
    bool is_unsigned; /* an i64 with the bits of a u64: a mark of the front end, which no later layer reads */
    int32_t bound[MD_MAX_RANK]; /* index ids */
    const md_fx_node *const *arg;
    double num;
    double exact; /* CONST: num before it was rounded to its type; for the front end only */
    int64_t integer;
    int32_t line, column; /* 1-based; 0 for made-up nodes */
};

typedef struct md_fx_dim {
    const char *name; /* the first index that runs over it, else "tensor.axis" */
    int64_t size; /* static: >= 0; dynamic: -1 */
    int64_t lo, hi; /* declared range; 0 and INT64_MAX where none */
} md_fx_dim;

/** A dim in place of an axis, in the report of a length above its size; and back. */
static inline int32_t md_fx_length_axis(int32_t dim)
{
    return -1 - dim;
}

typedef struct md_fx_index {
    const char *name;
    int32_t dim;
    bool is_bound; /* a reduction binds it */
    int32_t padded; /* 1 + the index that this one runs beyond, where zeros are (stage/turn.c); 0: none */
} md_fx_index;

typedef enum md_fx_role { MD_FX_INPUT, MD_FX_OUTPUT, MD_FX_TEMP } md_fx_role;

typedef struct md_fx_tensor {
    const char *name;
    md_fx_role
        role; /* a scatter target (+=, *=, max=, min=, indirect =) is an OUTPUT that is read too: see is_updated */
    md_dtype dtype; /* of storage. A TEMP without a declared type: f32, f64, i64 or bool, and is_declared is false */
    bool is_declared;
    bool is_updated; /* elements not written keep their values, or take part */
    int32_t rank;
    int32_t dim[MD_MAX_RANK];
    bool at_least[MD_MAX_RANK]; /* the axis has a non-plain subscript somewhere: long enough is good enough */
    int32_t stmt; /* OUTPUT, TEMP: the first statement that writes it; -1 for inputs */
    bool is_rewritten; /* an OUTPUT that several statements write, in order; then is_updated holds, too */
    bool is_turned; /* a TEMP that has a tensor's elements with its axes in another order (stage/turn.c) */
    bool is_apart; /* an INPUT whose axes in front of those that a product sums over are that product's batch */
} md_fx_tensor;

typedef struct md_fx_scalar {
    const char *name;
    md_dtype type; /* MD_F32 (the default), MD_F64 or MD_I64 */
    /* The size of a dim that no argument's axis gives: an argument of its own, behind all others. No node reads it. */
    bool is_size;
    int32_t dim;
    int32_t line, column; /* is_size: where the formula first runs over the dim */
} md_fx_scalar;

typedef enum md_fx_assign { MD_FX_SET, MD_FX_ADD_TO, MD_FX_MUL_TO, MD_FX_MAX_TO, MD_FX_MIN_TO } md_fx_assign;

typedef struct md_fx_stmt {
    int32_t tensor;
    md_fx_assign assign;
    int32_t n_free;
    int32_t free[MD_MAX_RANK * 2]; /* index ids that the statement runs over, in order of the left side */
    const md_fx_node *subscript[MD_MAX_RANK]; /* one per axis; plain INDEX, or an integer expression (scatter) */
    const md_fx_node *value;
    int32_t line, column;
} md_fx_stmt;

typedef struct md_fx_arg {
    bool is_scalar;
    int32_t id; /* tensor or scalar */
} md_fx_arg;

/* A load or store whose subscript must lie in the tensor, checked with the sizes of a call: 0 <= lowest, highest <
 * extent. Subscripts that read tensors are not here; they are checked element by element in the kernel. So are those
 * whose guards, or which themselves, cannot be decided from indices and sizes: their loads have a CHECK. */
typedef struct md_fx_reach {
    int32_t tensor, axis;
    const md_fx_node *subscript; /* affine, // and % included */
    int32_t n_guards;
    const md_fx_node *const *guard; /* conditions that hold where it is evaluated (arms of where) */
    bool is_checked; /* the kernel checks it, so that no call is refused for it */
    int32_t line, column;
} md_fx_reach;

typedef struct md_fx_formula {
    md_arena *arena;
    const char *text; /* the text as it was given */
    int32_t n_dims, n_indices, n_tensors, n_scalars, n_stmts, n_args, n_reaches;
    md_fx_dim dim[MD_FX_MAX_DIMS];
    md_fx_index index[MD_FX_MAX_INDICES];
    md_fx_tensor tensor[MD_FX_MAX_TENSORS];
    md_fx_scalar scalar[MD_FX_MAX_SCALARS];
    md_fx_stmt stmt[MD_FX_MAX_STMTS];
    md_fx_arg args[MD_FX_MAX_ARGS]; /* in order of first appearance; then sizes */
    const md_fx_reach *reach;
    md_bounds bounds;
    int32_t n_warnings; /* the first few warnings: of what is allowed, but hardly meant */
    const char *warning[MD_FX_MAX_WARNINGS]; /* written as an error's message */
} md_fx_formula;

typedef struct md_fx_options {
    md_dtype dtype; /* default of data tensors; MD_DTYPE_DEFAULT is f32 */
    const char *sizes; /* "n=11008, b=1..8192"; may be NULL */
    md_bounds bounds;
} md_fx_options;

/** Parses, resolves, infers and simplifies. INVALID_ARGUMENT carries a compiler's message: line, column, the line
 * with a caret below (newlines inside the message are allowed here only), what was expected, the nearest name that
 * exists. */
md_status md_fx_formula_create(md_fx_formula **out, const char *text, const md_fx_options *options);
void md_fx_formula_destroy(md_fx_formula **formula);

/** The dim of a name of n bytes, which may also be the second name of an index that runs over it; -1 where there is
 * none. */
int32_t md_fx_find_dim(const md_fx_formula *formula, const char *name, size_t n);

/** Prints the formula back in canonical form: parsing it again gives the same formula. Dtypes and static sizes
 * included. */
struct md_strbuf;
void md_fx_print(struct md_strbuf *out, const md_fx_formula *formula);
void md_fx_print_node(struct md_strbuf *out, const md_fx_formula *formula, const md_fx_node *node);

/* The dims that a text ("b=8, n=64", hints, weights) has named so far: each may be named once. */
typedef struct md_fx_named {
    const char *source; /* "sizes": messages begin with it */
    uint64_t dims; /* a bit for each */
} md_fx_named;
_Static_assert(MD_FX_MAX_DIMS <= 64, "a bit for each dim");
/** The dim of that name. Fails where there is none, and where the text has named it before. */
md_status md_fx_name_dim(int32_t *dim, md_fx_named *named, const md_fx_formula *formula, const char *name, size_t n);
/** Writes "the formula has no dim 'x'; it has i, j", with the nearest name. */
enum { MD_FX_NO_DIM_BYTES = 600 };
void md_fx_no_dim(char out[MD_FX_NO_DIM_BYTES], const md_fx_formula *formula, const char *name, size_t n);

/** Parses "b=8, n=64..128"; calls back per entry. Used for options, hints by name, and the command line. */
typedef md_status (*md_fx_size_fn)(void *user, const char *name, int64_t lo, int64_t hi);
md_status md_fx_sizes_parse(const char *text, md_fx_size_fn fn, void *user);

#endif
