/* Row programs to C text: what the templates of the row families (host/row_persistent.c, host/row_looped.c,
 * host/column.c) are made complete with, as `md_expr.h`.
 *
 * The text has, with x<id> the outer indices and <a> the axis:
 *   MD_X_DECL, MD_X                 "int64_t x0, int64_t x2," and "x0, x2,": in front of the parameters of every
 *                                   function below
 *   MD_COUNT(p)                     elements of the axis
 *   md_row                          what is known of a row: `count`, results r<k> (and v<k>, the value of an
 *                                   ARGMAX), shifts e<k> for bodies, and values d<k> that do not run over the axis,
 *                                   each computed once
 *   md_start(X p, row)              d<k> that need no result
 *   md_acc<l>                       accumulators of level l, one lane value each
 *   md_clear<l>(acc, first), md_add<l>(X p, row, acc, keep, x<a>, n), md_join<l>(acc, from), md_finish<l>(X p, row,
 *   acc)
 *   md_merge(into, from)            results of two chunks of one row, where the program is online; md_settle(row) at
 *                                   the end
 *   md_derive(X p, row)             d<k> that only stores need
 *   md_out(X p, row, keep, x<a>, n) stores along the axis; md_row_store(X p, row) stores once a row
 *   md_prefetch(X p, x<a>)          asks for what the row alone loads there; may lie beyond its end
 *   md_lead(X p, x<a>)              elements of the first such store in front of a vector's boundary
 *   MD_LEVELS(F)                    F(0) F(1) ...: one for each level
 *   md_each_row(p, first, last, s)  calls md_one_row(X p, row, s), which the template defines, for rows [first,
 *                                   last)
 * Where lanes run over the last outer index (`is_column`), x<a> is a scalar, results are lane values, MD_X holds
 * that index and md_n, and MD_X_AT(position, n) sets them; md_each_tile(p, first, last, width, s) calls
 * md_one_tile(OUTER p, position, s).
 *
 * ---- On a GPU (templates cuda/row_persistent.cu, row_looped.cu, row_split.cu, column.cu) loads are separate from
 * adding, and a thread's state is separate from a row's, so that the template decides where data stays and which
 * threads exchange results. <n> is md_n of codegen.h (a template parameter):
 *   md_elem                         a vector of elements on chip: raw loads l<k> (every plain unit or strided load
 *                                   that runs over the axis and is in no arm of a where, once each), and values
 *                                   kept between passes k<k> (keep_points > 0)
 *   md_forget(elem)                 forgets what was computed of l<k> (raw elements of 16 bits take
 *                                   half the registers)
 *   md_fetch(X p, elem, x<a>, n)    fills l<k>, except loads that only stores use and all rows share (weights):
 *                                   md_fetch_epilogue does those, just before md_out. Nothing else reads these tensors
 *   md_fetch_body, md_fetch_out     of those, for templates that read memory more than once: what levels use, what
 *                                   stores use (late ones included)
 *   md_fetch<l>                     what level l uses
 *   md_add<l>(X p, row, acc, elem, x<a>, n)  as above, from elem; writes k<k> where it makes them
 *   md_out(X p, row, elem, x<a>, n)          stores along the axis
 *   md_part<l>                      results of level l as scalars (lane values in columns), with positions of
 *                                   ARGMAX: what threads exchange
 *   md_fold<l>(part, acc)           a thread's lanes to scalars; md_clear_part<l>(part): of nothing
 *   md_combine<l>(part, from)       two threads' parts into one; symmetric up to rounding, the order is the
 *                                   template's
 *   md_finish<l>(X p, row, part)    the row's results r<k>, and d<k> that they allow
 *   md_state                        count, r<k>, v<k>, e<k>: md_row derives from it (C++). md_merge(state, from),
 *                                   md_settle(state) as above where online
 *   md_rebase<l>(part, own, common) where online, or of one level: own's results of level l relative to lower levels
 *   of `common` (a state with count and those), to be combined as parts; md_accept<l>(common, part). Cheaper than
 *   merging states where many threads do it together; states that begin with md_clear_part<l> need no count.
 *   md_tell<l>(part, own): as it is, for another thread's md_accept<l>
 *   md_rescale(row, own)            where online: what k<k> made with own's shifts count with the row's, for md_out
 *   md_lead(X p, x<a>)              elements from there to the next vector boundary of the tensor that sets the
 *                                   vectors' places: the narrowest that a row has of its own
 *   MD_COLUMNS(p)                   MD_LANES(p) of the host
 *   MD_ROWS(p), MD_ROW_AT(p, row)   rows, or what stands for them in columns; declares the x<id> of one
 * x<a> is an int64_t (md_lead: md_pos); functions with an n (in columns: all) are templates on its type (MD_N_DECL,
 * md_n_t md_n). md_start, md_derive and md_row_store are as above. A template that stays on chip runs level after
 * level: add all its vectors, fold, combine over lanes, warps, blocks of a cluster, finish. One that streams makes a
 * md_state of each thread's chunk by running all levels at thread scope, and merges states over chunks, lanes,
 * warps, blocks. */
#ifndef MD_CODEGEN_ROW_ROW_H
#define MD_CODEGEN_ROW_ROW_H

#include "codegen/codegen.h"

enum { MD_CG_MAX_DERIVED = 48, MD_CG_MAX_ON_CHIP = 6, MD_CG_MAX_ROW_LOADS = 16 };

typedef struct md_cg_row_options {
    const md_st_program *program;
    int32_t stage;
    md_dev_kind dialect;
    md_cg_access access;
    bool streaming;
    md_cg_bytes bytes; /* of md_cg_byte_lanes */
    bool is_column; /* lanes over the last outer index; else over the axis */
    bool is_online; /* chunks are merged: bodies see shifts that are never infinite */
    /* capacity of kept values in elements, a multiple of MD_VL; 0: nothing is kept between passes */
    int64_t keep_points;
    int32_t n_extra; /* parameters of the family's own, after the stage's */
    md_kn_param extra[2];
} md_cg_row_options;

/* A value that does not run over the axis. Level -1: needs no result; l: needs results of level l at most.
 *   is_early   of sizes and scalars, and only what is stored once a row needs it: a GPU's threads compute it while
 *              their elements are on the way */
typedef struct md_cg_derived {
    const md_fx_node *node;
    int32_t level;
    bool for_body, for_store, is_early;
} md_cg_derived;

/* A value along the axis that pass `first` computes and later passes read back. Pass l is level l; the stores are
 * pass n_levels. */
typedef struct md_cg_on_chip_value {
    const md_fx_node *node;
    int32_t first, last;
    /* online on a GPU: the reduction that it is relative to (exp(a - shift)); stores scale it to the row's. -1: none */
    int32_t shift;
} md_cg_on_chip_value;

/* A load along the axis that a GPU's threads fetch in front of what uses it. */
typedef struct md_cg_row_load {
    const md_fx_node *node;
    uint32_t passes; /* bit l: level l uses it; bit n_levels: the stores do */
    bool is_shared; /* all rows load the same */
} md_cg_row_load;

typedef struct md_cg_on_chip {
    int32_t n_derived, n_kept, n_loads;
    md_cg_row_load load[MD_CG_MAX_ROW_LOADS];
    md_cg_derived derived[MD_CG_MAX_DERIVED];
    md_cg_on_chip_value kept[MD_CG_MAX_ON_CHIP];
} md_cg_on_chip;

/** Decides which values are derived (computed once a row) and which are kept between passes. */
void md_cg_on_chip_make(md_cg_on_chip *out, const md_cg_row_options *options);
/** Bytes of a lane's scratch for what is kept. */
int64_t md_cg_row_keep_bytes(const md_cg_on_chip *on_chip, int64_t keep_points);
/** Index that runs over the lanes. */
int32_t md_cg_row_lane(const md_cg_row_options *options);
/** Prints the text; `defines` gets MD_USE_... and what the options mean for the template. */
md_status md_cg_row_print(md_strbuf *defines, md_strbuf *expr, const md_cg_row_options *options);

/** Parts of such a text that scans have too: md_prefetch, the macros of indices, and the loop over rows or tiles. */
void md_cg_print_prefetch(md_strbuf *out, md_cg *cg, int32_t n, const md_fx_node *const *body, const char *ask);
void md_cg_print_row_indices(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column,
                             md_dev_kind dialect);
void md_cg_print_row_loop(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column);
/** On a GPU in place of the loop: MD_ROWS(p), MD_ROW_AT(p, row). */
void md_cg_print_gpu_rows(md_strbuf *out, const md_st_program *program, int32_t stage, bool is_column);

#endif
