/* Scan programs to C text: `md_expr.h` of host/scan.c. Indices and loops are those of codegen/row.h; besides them
 *   MD_VALUE                        lane type of the scan's values; MD_IDENTITY, MD_SPLAT(x), MD_ONLY_HEAD(v, n)
 *   MD_TOTAL, MD_TOTALS             what they are carried in, scalar and lanes; MD_SPLAT_TOTAL(x), MD_FOLD(totals)
 *   MD_SCAN(v, total)               running values of a vector along the axis; MD_THEN_ONE(v, totals) of one element
 *                                   in every lane;
 *   MD_THEN_TOTAL(t, totals)        totals before t, which takes t in
 *   md_body(X p, x<a>, n)           the scan's operand; md_out(X p, x<a>, n, value) stores; md_lead(X p, x<a>) as in
 *                                   rows
 * MD_RESULT is the lane type of the result: MD_VALUE, but where MD_RECURRENCE; then a value is a STEP's operands.
 * n is missing where `is_column`: it is in X. */
#ifndef MD_CODEGEN_ROW_SCAN_H
#define MD_CODEGEN_ROW_SCAN_H

#include "codegen/codegen.h"

typedef struct md_cg_scan_options {
    const md_st_program *program;
    int32_t stage;
    md_dev_kind dialect;
    md_cg_access access;
    bool streaming;
    bool is_column;
    int32_t n_params; /* with those that the family appended to the stage's */
    const md_kn_param *param;
} md_cg_scan_options;

/** Parts that the text for GPUs has, too (scan_cuda.h): md_body and md_out, as options->dialect wants them; md_lead. */
void md_cg_print_scan(md_strbuf *out, md_cg *cg, const md_cg_scan_options *options);
void md_cg_print_scan_lead(md_strbuf *out, md_cg *cg, const md_st_stage *stage);

/** Of a STEP: what multiplies the value before; 0 where the recurrence starts anew. */
const md_fx_node *md_cg_recur_factor(md_cg *cg, const md_fx_node *step);
/** MD_RECURRENCE (1: y = a * y + b, 2: max(a + y, b), 3: min(a + y, b)), and MD_RESTARTS: a factor of 0 then forgets
 * what was before, infinities too. */
void md_cg_define_recurrence(md_strbuf *defines, const md_st_scan *scan);

md_status md_cg_scan_print(md_strbuf *defines, md_strbuf *expr, const md_cg_scan_options *options);

/** The factor (or the first summand of recur_max) that changes nothing; `is_term`: the term that adds nothing. */
const char *md_cg_recur_neutral(md_fx_op op, bool is_term, bool is_cuda);

#endif
