/* An operand of a product that is a window, for the files that print its text. */
#ifndef MD_CODEGEN_PRODUCT_WINDOW_H
#define MD_CODEGEN_PRODUCT_WINDOW_H

#include "codegen/product/product.h"
#include "codegen/product/terms.h"

/* The place and the terms of the guard are sums of two parts, each affine in indices x<id>. */
typedef struct md_cg_window {
    const md_cg_product *product;
    int32_t operand;
    const md_fx_node *load;
    md_cg_terms terms;
    bool is_depth; /* the part of the indices of K; else of rows and batches, with constants and sizes */
    int32_t along; /* the index of the run, which counts as 0 in both parts; -1: none does */
} md_cg_window;

/** False if the operand is no window. */
bool md_cg_window_of(md_cg_window *out, const md_cg_product *product, int32_t operand);
/** How far an index moves a subscript. */
int64_t md_cg_coefficient(const md_fx_affine *subscript, int32_t index);
/** Assigns the part's sums to part->at and part->term. */
void md_cg_window_print_sums(md_strbuf *out, const md_cg_window *window);
/** How far an index moves the load, in elements. */
void md_cg_window_print_step(md_strbuf *out, const md_cg_window *window, int32_t index);
/** Elements from the tensor's first to its last; 0: not known. */
void md_cg_window_print_elements(md_strbuf *out, const md_cg_window *window);

#endif
