/* What the parser makes of the tokens: the text's structure, before any name means anything. */
#ifndef MD_EXPR_FRONT_SYNTAX_H
#define MD_EXPR_FRONT_SYNTAX_H

#include "expr/formula.h"
#include "expr/front/lex.h"

enum {
    MD_SYNTAX_MAX_DEPTH = 200, /* of parentheses, functions, operands: what a reader would call nested */
    MD_SYNTAX_MAX_CHAIN = 1024, /* terms of a sum or factors of a product, and all else that stands in a row */
    MD_SYNTAX_MAX_NODES = 20000,
    MD_SYNTAX_MAX_OPERANDS = 16,
    MD_SYNTAX_MAX_STATEMENTS = 96,
    MD_SYNTAX_MAX_DECLARATIONS = 64 /* declarations of one statement */
};

typedef enum md_syntax_kind {
    MD_SYNTAX_INTEGER,
    MD_SYNTAX_REAL,
    MD_SYNTAX_NAME, /* a bare name: an index, a scalar or a constant */
    MD_SYNTAX_TENSOR, /* name[:dtype][subscripts] */
    MD_SYNTAX_CALL, /* name(operands) */
    MD_SYNTAX_SIZE, /* size(index) or size(tensor.axis) */
    MD_SYNTAX_BINDER, /* op[indices](operands): reductions and scans */
    MD_SYNTAX_OP /* op on operands */
} md_syntax_kind;

typedef struct md_syntax md_syntax;
struct md_syntax {
    md_syntax_kind kind;
    md_fx_op op;
    bool has_data_type; /* TENSOR: declared to have the op's dtype, as name:data[...] */
    md_dtype dtype; /* TENSOR: as declared here, else MD_DTYPE_DEFAULT. INTEGER: MD_U64 from 2^63 on */
    const char *name; /* NAME, TENSOR, CALL, SIZE */
    int64_t integer; /* INTEGER; SIZE: the axis, or -1 */
    double real;
    int32_t n_args, n_indices;
    md_syntax **arg;
    md_syntax **index; /* BINDER: NAMEs */
    bool over_list; /* TENSOR: an item of a list (@t). BINDER: it also runs over the items, and `index` lacks t */
    int32_t depth; /* of the tree: 1 for a leaf */
    int32_t nesting; /* the same, but the operators of a + b - c + d count once */
    int32_t line, column; /* of the name, or of the operator's sign */
};

typedef struct md_syntax_scalar {
    const char *name;
    md_dtype dtype;
    int32_t line, column;
} md_syntax_scalar;

typedef struct md_syntax_size {
    const char *name; /* of a dim, or of an axis: "tensor.axis" */
    int64_t lo, hi;
    int32_t line, column;
} md_syntax_size;

typedef enum md_syntax_item_kind {
    MD_SYNTAX_ASSIGN,
    MD_SYNTAX_SCALARS,
    MD_SYNTAX_SIZES,
    MD_SYNTAX_TENSORS
} md_syntax_item_kind;

/* One statement: an assignment, or declarations. */
typedef struct md_syntax_item {
    md_syntax_item_kind kind;
    bool is_let;
    md_fx_assign assign;
    md_syntax *target, *value; /* ASSIGN */
    int32_t n; /* scalars, sizes or tensors */
    md_syntax_scalar *scalar;
    md_syntax_size *size;
    md_syntax **tensor;
    int32_t line, column;
} md_syntax_item;

typedef struct md_syntax_tree {
    const char *text;
    const char *list; /* name of the list index; NULL: the formula has no lists */
    int32_t list_line, list_column; /* of the first "@" */
    int32_t n_items;
    md_syntax_item *item;
} md_syntax_tree;

/** Parses a whole formula. All lives in the arena; `text` must outlive the tree. */
md_status md_syntax_parse(md_syntax_tree *out, md_arena *arena, const char *text);

#endif
