/* What the families of matrix products on both devices share. */
#ifndef MD_FAMILY_PRODUCT_H
#define MD_FAMILY_PRODUCT_H

#include "codegen/product/product.h"
#include "family/family.h"

/* A product at given sizes, in elements. */
typedef struct md_fa_product {
    md_cg_product p;
    int64_t batch, rows, columns, depth;
    int64_t span; /* steps of K that a batch sums on average: depth, unless batches divide K among them (has_spans) */
    double bytes; /* of all tensors, each read or written once */
    double a_bytes; /* of operand A, read once */
    double epilogue_ops, epilogue_transcendental; /* per element of the result */
} md_fa_product;

/** Elements of operand A or B that are contiguous: a line of K, or of the rows or columns. */
static inline int64_t md_fa_product_line(const md_fa_product *sized, int32_t operand)
{
    return md_cg_product_along(&sized->p, operand) == MD_CG_ALONG_DEPTH ? sized->depth
           : operand == MD_CG_A                                         ? sized->rows
                                                                        : sized->columns;
}

/** The tensors that the operands B are made of, as bits; 0 where one is not constant, or an operand has batches,
 * spans of K, scalars or indices that must be checked: then they cannot be packed once. */
uint32_t md_fa_product_constants(const md_fa_target *target, const md_cg_product *product);
void md_fa_product_measure(md_fa_product *out, const md_fa_target *target, const md_cg_product *product,
                           const int64_t *size);
/** Bytes of operands B that are loads, each read once. */
double md_fa_product_b_bytes(const md_fa_product *work);
/** The number of f32 operations that a thread of the host could do in so many cycles: the unit of
 * md_fa_features.ops. */
double md_fa_product_cycles(const md_fa_target *target, double cycles);
/** Adds to the envelope of a grouped product that all axes which rows are looked up in have one length: a look-up is
 * then in all of them or in none. */
void md_fa_product_group_envelope(md_kn_envelope *out, const md_fa_target *target);
/** The number of groups of a grouped product at a shape: axes may be longer than their dims. */
int64_t md_fa_product_groups(const md_fa_target *target, const md_kn_shape *shape);
/** Groups that have a row, on average, of rows that fall on any group alike; 1 or more. */
double md_fa_product_used_groups(double groups, double rows);
/* A spec where a config comes to nothing more. */
typedef struct md_fa_product_spec {
    md_cg_product p;
    md_fa_config config;
} md_fa_product_spec;

/** Prints one host launch of a product into a template. */
md_status md_fa_product_emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                                    const char *template_name, md_strbuf *defines);
/** The same with packed operands: md_params has `packed`. */
md_status md_fa_product_emit_packed(md_kn_launch_source *out, const md_fa_target *target, const md_cg_product *product,
                                    const char *template_name, md_strbuf *defines);
/** Prints one host launch from a template. Its parameters are the stage's, the number of blocks and the workspace.
 * `defines` becomes md_config.h and is freed here. */
md_status md_fa_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                             const char *template_name, md_strbuf *defines);

#endif
