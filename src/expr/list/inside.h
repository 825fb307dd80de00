/* A formula over lists while it is taken apart. Private to src/expr/list. */
#ifndef MD_EXPR_LIST_INSIDE_H
#define MD_EXPR_LIST_INSIDE_H

#include "base/strbuf.h"
#include "expr/front/front.h"
#include "expr/list/list.h"

enum { MD_FL_MAX = MD_SYNTAX_MAX_STATEMENTS };

/* A tensor by the name that the text gives it. */
typedef struct md_fl_base {
    const char *name;
    const md_syntax *at; /* where it stands first */
    bool is_list, is_let, is_read, is_written;
    md_dtype dtype; /* declared anywhere, else MD_DTYPE_DEFAULT */
    int32_t now; /* the symbol that stands for its present value, while the text is read */
    int32_t last_read, last_write; /* steps; -1: none so far */
    int32_t write_stmt; /* the last statement that was placed */
} md_fl_base;

/* A value of a tensor: each assignment of all elements makes a new one, which has a name of its own if the memory had
 * another value before. */
typedef struct md_fl_symbol {
    const char *name;
    int32_t base;
    int32_t stmt; /* that makes it; -1: it comes from outside */
    bool is_read;
    bool is_kept; /* another step reads it */
} md_fl_symbol;

typedef enum md_fl_kind { MD_FL_REDUCTION, MD_FL_SCALARS, MD_FL_ITEMS } md_fl_kind;

typedef struct md_fl_stmt {
    md_syntax_item *item;
    md_fl_kind kind;
    bool is_let; /* the text declares it by `let` */
    bool updates; /* += and its like: elements that it does not write keep their value */
    int32_t symbol; /* the tensor or value that it writes */
    int32_t step; /* -1: let of items, which stands in every step that reads it */
    bool needed; /* the step that is being written needs it */
    bool is_live; /* what it computes reaches a result */
} md_fl_stmt;

typedef struct md_fl_reader {
    md_arena *arena; /* the result's arena */
    md_arena *scratch;
    const char *text;
    md_fx_options options;
    md_syntax_tree tree;
    md_fx_list *list;
    int32_t n_bases, n_symbols, n_stmts, n_items;
    md_fl_base base[MD_FL_MAX];
    md_fl_symbol symbol[3 * MD_FL_MAX];
    md_fl_stmt stmt[2 * MD_FL_MAX];
    md_syntax_item item[3 * MD_FL_MAX]; /* the tree with reductions over items as lets of their own */
} md_fl_reader;

/** The symbol of that name, -1 for others. */
int32_t md_fl_symbol_named(const md_fl_reader *r, const char *name);
/** A name that nothing has yet, from a pattern with "%d". */
const char *md_fl_new_name(const md_fl_reader *r, const char *pattern, int32_t number);
/** Calls fn for a piece of syntax and all below it, operands first; *at may be replaced. */
typedef md_status (*md_fl_visit)(void *user, md_syntax **at);
md_status md_fl_walk(md_syntax **at, md_fl_visit fn, void *user);
/** The same for a statement: value, then subscripts of the target. */
md_status md_fl_walk_stmt(const md_fl_stmt *s, md_fl_visit fn, void *user);

/** Checks what is a list, gives every value a name, and makes lets of reductions over items. */
md_status md_fl_read(md_fl_reader *r);
/** Puts statements into steps. */
md_status md_fl_place(md_fl_reader *r);
/** Marks the statements of a step, the lets of items that they read among them, as needed. */
void md_fl_mark_step(md_fl_reader *r, int32_t step);
/** Marks the lets of items that a statement reads as needed. */
void md_fl_mark_lets(md_fl_reader *r, int32_t stmt);

/** The text of an expression; `flat` not NULL: subscripts of every item are that. */
void md_fl_print(md_strbuf *out, const md_fl_reader *r, const md_syntax *at, const char *flat);
/** Writes the formulas of all steps and reductions, and the table of their names. */
md_status md_fl_write(md_fl_reader *r);

#endif
