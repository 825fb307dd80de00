/* Text of single reductions. Private to the row printer. */
#ifndef MD_CODEGEN_ROW_REDUCE_H
#define MD_CODEGEN_ROW_REDUCE_H

#include "codegen/row/row.h"

/* One reduction of a row program, as text sees it. */
typedef struct md_cg_reduction {
    const md_st_reduction *r;
    int32_t id;
    bool is_column; /* results are lane values */
    bool is_gpu; /* the text is for a GPU */
    bool is_bytes; /* lanes are bytes */
    bool is_near; /* a sum of narrow integers down columns: lanes of 32 bits for some elements (host/near.h) */
    bool has_shift; /* bodies use e<id> */
} md_cg_reduction;

bool md_cg_is_arg(md_fx_op op);
/** Type of what is compared or accumulated: of acc a<k>, or v<k> of an ARGMAX. */
md_dtype md_cg_acc_type(const md_st_reduction *r);
/** Fields of md_row and of md_acc<l>. */
void md_cg_red_row_fields(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_acc_fields(md_strbuf *out, const md_cg_reduction *reduction);
/** Statements of md_clear, md_add (`value` is a lane value of the accumulator's type), md_join, md_finish, md_merge,
 * md_settle. */
void md_cg_red_clear(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_add(md_strbuf *out, const md_cg_reduction *reduction, const char *value, int32_t axis);
/** md_add of a GPU where the value is the product of two lane values: rounded once, with the sum. */
void md_cg_red_add_product(md_strbuf *out, const md_cg_reduction *reduction, const char *a, const char *b);
void md_cg_red_join(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_finish(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_merge(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_settle(md_strbuf *out, const md_cg_reduction *reduction);
/** The same of what threads of a GPU exchange: fields of md_part, md_fold, md_clear_part, md_combine, and md_finish
 * from a part. */
void md_cg_red_part_fields(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_fold(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_clear_part(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_combine(md_strbuf *out, const md_cg_reduction *reduction);
void md_cg_red_accept(md_strbuf *out, const md_cg_reduction *reduction);

#endif
