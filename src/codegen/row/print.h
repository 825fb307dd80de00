/* The printer of row programs while it works. Private to parts.c, cuda.c, rebase.c and row.c. */
#ifndef MD_CODEGEN_ROW_PRINT_H
#define MD_CODEGEN_ROW_PRINT_H

#include "codegen/row/range.h"
#include "codegen/row/reduce.h"

typedef struct md_cg_row_printer {
    const md_cg_row_options *o;
    const md_st_program *program;
    const md_st_stage *stage;
    md_cg *cg;
    bool is_gpu;
    md_fx_node size; /* of the axis, as a node */
    md_cg_on_chip on_chip;
    md_cg_range range; /* host: what reductions run over */
    md_st_stage narrowed; /* the stage where the range is a part: bodies without the condition */
    md_strbuf fields; /* of md_row */
    md_strbuf text; /* functions */
    bool has_shift[MD_ST_MAX_REDUCTIONS];
    const char *field[MD_CG_MAX_DERIVED]; /* "row->d3"; NULL: not printed yet */
    bool is_field_uniform[MD_CG_MAX_DERIVED];
    bool is_known[MD_CG_MAX_DERIVED]; /* computed before this function runs */
    char field_text[MD_CG_MAX_DERIVED][24];
} md_cg_row_printer;

typedef enum md_cg_scope_kind { MD_CG_SCOPE_START, MD_CG_SCOPE_BODY, MD_CG_SCOPE_STORE } md_cg_scope_kind;

/* ---- parts.c */
/** What stands before a function's type: a template on the type of md_n where it has one. `takes_n`: also where lanes
 * run over the axis. */
const char *md_cg_rp_function(const md_cg_row_printer *rp, bool takes_n);
md_cg_reduction md_cg_rp_reduction(const md_cg_row_printer *rp, int32_t id);
/** True if md_row holds the axis' length as a variable. A GPU's compiler reads parameters anew after every barrier; it
 * sees that equal terms of the length are equal where the length is a variable. */
bool md_cg_rp_has_n(const md_cg_row_printer *rp);
/** Binds the results that a function may use, and the length of the axis. */
void md_cg_rp_bind_results(md_cg_row_printer *rp, md_cg_scope_kind scope);
/** Begins the body of a function: binds results and the derived values computed before it. */
void md_cg_rp_begin(md_cg_row_printer *rp, md_strbuf *body, md_cg_scope_kind scope);
/** Calls `print` for every reduction of a level. */
void md_cg_rp_each(md_cg_row_printer *rp, md_strbuf *out, int32_t level,
                   void (*print)(md_strbuf *out, const md_cg_reduction *reduction));
/** md_start: derived values that need no result. */
void md_cg_rp_start(md_cg_row_printer *rp);
/** md_derive: derived values that only stores need. */
void md_cg_rp_derive(md_cg_row_printer *rp);
/** Statements that add one vector of elements to a level's accumulators. */
void md_cg_rp_bodies(md_cg_row_printer *rp, md_strbuf *out, int32_t level);
/** Statements that compute what bodies of higher levels need from this level's results. */
void md_cg_rp_derived(md_cg_row_printer *rp, md_strbuf *out, int32_t level);
/** Statements that store along the axis, or once a row: all values first, then all stores. */
void md_cg_rp_stores(md_cg_row_printer *rp, bool per_row);

/* ---- cuda.c */
void md_cg_rp_cuda_elements(md_cg_row_printer *rp);
void md_cg_rp_cuda_level(md_cg_row_printer *rp, int32_t level);
void md_cg_rp_cuda_out(md_cg_row_printer *rp);
/* ---- rebase.c */
void md_cg_rp_rebase(md_cg_row_printer *rp, int32_t level);
void md_cg_rp_rescale(md_cg_row_printer *rp);

#endif
