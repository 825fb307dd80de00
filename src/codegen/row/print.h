/* The row printer at work: what its host and GPU halves share. Private to row.c and row_cuda.c. */
#ifndef MD_CODEGEN_ROW_PRINT_H
#define MD_CODEGEN_ROW_PRINT_H

#include "codegen/row/reduce.h"

typedef struct md_cg_row_printer {
    const md_cg_row_options *o;
    const md_st_program *program;
    const md_st_stage *stage;
    md_cg *cg;
    bool is_gpu;
    md_fx_node size; /* of the axis, as an expression */
    md_cg_row_plan plan;
    md_strbuf fields; /* of md_row */
    md_strbuf text; /* functions */
    bool has_shift[MD_ST_MAX_REDUCTIONS];
    const char *field[MD_CG_MAX_DERIVED]; /* "row->d3"; NULL: not printed yet */
    bool is_field_uniform[MD_CG_MAX_DERIVED];
    bool is_known[MD_CG_MAX_DERIVED]; /* computed before the function at hand runs */
    char field_text[MD_CG_MAX_DERIVED][24];
} md_cg_row_printer;

typedef enum md_cg_scope_kind { MD_CG_SCOPE_START, MD_CG_SCOPE_BODY, MD_CG_SCOPE_STORE } md_cg_scope_kind;

/** Starts a function: what it knows by name. */
void md_cg_rp_begin(md_cg_row_printer *rp, md_strbuf *body, md_cg_scope_kind scope);
/** Prints `before(reduction)` for every reduction of a level. */
void md_cg_rp_each(md_cg_row_printer *rp, md_strbuf *out, int32_t level,
                   void (*print)(md_strbuf *out, const md_cg_reduction *d));
/** Statements that add one vector of elements to a level's accumulators. */
void md_cg_rp_bodies(md_cg_row_printer *rp, md_strbuf *out, int32_t level);
/** Statements that compute what bodies of higher levels want from this level's results. */
void md_cg_rp_derived(md_cg_row_printer *rp, md_strbuf *out, int32_t level);
/** Statements that store along the axis, or once a row. */
void md_cg_rp_stores(md_cg_row_printer *rp, bool per_row);

/* ---- row_cuda.c */
/** In front of a function's type: a template on the type of md_n where it has one. `takes_n`: also where lanes run
 * over the axis. */
const char *md_cg_rp_function(const md_cg_row_printer *rp, bool takes_n);
void md_cg_rp_cuda_elements(md_cg_row_printer *rp);
void md_cg_rp_cuda_level(md_cg_row_printer *rp, int32_t level);
void md_cg_rp_cuda_out(md_cg_row_printer *rp);
/* ---- row_rebase.c */
void md_cg_rp_rebase(md_cg_row_printer *rp, int32_t level);
void md_cg_rp_rescale(md_cg_row_printer *rp);

#endif
