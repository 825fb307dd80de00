/* Scan programs to the text of a GPU kernel: `md_expr.h` of cuda/scan_persistent.cu and cuda/scan_split.cu. With
 * x<id> the outer indices and <a> the axis:
 *   MD_X_DECL, MD_X, MD_COUNT(p)    as in codegen/row.h
 *   MD_ROWS(p)                      rows; MD_ROW_AT(p, row) declares x<id> of row number `row`
 *   MD_VALUE, MD_ONE                lane and scalar type of the scan's values; MD_IDENTITY
 *   MD_GET(v, k), MD_SET(v, k, x)   lane k as MD_ONE
 *   MD_OP(a, b)                     two values into one
 *   MD_TOTAL, MD_OP_TOTAL, MD_TOTAL_IDENTITY  what is carried from tile to tile: f64 for sums and products of f32
 *   MD_CARRY                        0: totals are values; 1, 2, 3: f32 sums, products, recurrences after an f64 total
 *   MD_RESULT, MD_RESULT_OF(v)      what the scan gives: v, or of a recurrence's steps the value
 *   MD_REVERSE, MD_EXCLUSIVE
 *   md_body(X p, x<a>, n)           the scan's operand, MD_VALUE; n as in codegen.h (md_full or md_span)
 *   md_out(X p, x<a>, n, value)     stores
 *   md_lead(X p, x<a>)              elements up to the first store's next 16-byte boundary
 * Where `is_column` lanes run over the last outer index: X then ends with it and n ("x<b>, md_n,"),
 * MD_X_AT(position, n) sets them, x<a> is a scalar position and n is missing after it; MD_COLUMNS(p) is the lanes'
 * axis, and MD_ROWS counts without it. */
#ifndef MD_CODEGEN_ROW_SCAN_CUDA_H
#define MD_CODEGEN_ROW_SCAN_CUDA_H

#include "codegen/row/scan.h"

md_status md_cg_scan_cuda_print(md_strbuf *defines, md_strbuf *expr, const md_cg_scan_options *options);

/** `MD_ROWS(p)` and `MD_ROW_AT(p, row)` for any list of outer indices: other families of rows use them too. */
void md_cg_print_row_at(md_strbuf *out, const md_st_program *program, int32_t n, const int32_t *outer);

#endif
