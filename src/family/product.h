/* What the families of matrix products share. */
#ifndef MD_FAMILY_PRODUCT_H
#define MD_FAMILY_PRODUCT_H

#include "codegen/product/product.h"
#include "family/family.h"

/* A product at some sizes. Elements are those of accumulators. */
typedef struct md_fa_product {
    md_cg_product p;
    int64_t batch, rows, columns, depth;
    double bytes; /* of all tensors, once */
    double a_bytes; /* of operand A, once */
    double epilogue_ops, epilogue_transcendental; /* per element of the result */
} md_fa_product;

void md_fa_product_measure(md_fa_product *out, const md_fa_target *target, const md_cg_product *product,
                           const int64_t *size);
/** Operations that one cycle of a lane could do, times this many cycles: what features count. */
double md_fa_product_cycles(const md_fa_target *target, double cycles);
/** One launch from a template: the stage's parameters, the number of blocks and the workspace, and md_config.h from
 * `defines` (finished here). */
md_status md_fa_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                             const char *template_name, const char *entry, md_strbuf *defines);

#endif
