/* Pairs (stage/chain.h) as the functions that templates call, on the host. Batches, rows and their spans are a chain's:
 * md_chain_batches, _rows, _keys, md_chain_batch_of, md_chain_row_of, md_chain_span. Numbers are constants: what they
 * choose is inlined.
 *
 *   MD_PAIR_OPERANDS, MD_PAIR_PRODUCTS, MD_PAIR_SUMS
 *   md_pairs_of_keys(operand)              1: it has a line for each key, else for each row
 *   md_pairs_inner(p, operand)             elements of a line
 *   md_pairs_load(operand, p, &batch, &row, key, inner, n)     n lanes of a line from `inner` on, as f32; the row or
 *                                          the key is looked at
 *   md_pairs_product(number, which)        the operand of rows (0) and of keys (1)
 *   md_pairs_weigh(p, &row, key, x, x2, w, n)     the weights of n lanes of keys: w[sum]
 *   md_pairs_towards_keys(sum), md_pairs_value(sum)     its direction, its operand
 *   md_pairs_columns(p, sum)
 *   md_pairs_store(sum, p, &batch, &row, key, column, o, n)    n lanes of a result */
#ifndef MD_CODEGEN_CHAIN_PAIRS_H
#define MD_CODEGEN_CHAIN_PAIRS_H

#include "codegen/chain/chain.h"

/** False where the stage is no pairs. */
bool md_cg_pairs_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect);
/** Prints md_params and the functions into `expr`, and #define lines into `defines`. */
md_status md_cg_pairs_print(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *pairs, const md_kn_param *param,
                            int32_t n_params);

#endif
