/* Pairs (stage/chain.h) as the functions that templates call. Batches, rows and their spans are a chain's:
 * md_chain_batches, _rows, _keys, md_chain_batch_of, md_chain_row_of, md_chain_span. Numbers are constants: what they
 * choose is inlined.
 *
 *   MD_PAIR_OPERANDS, MD_PAIR_PRODUCTS, MD_PAIR_SUMS
 *   md_pairs_of_keys(operand)              1: it has a line for each key, else for each row
 *   md_pairs_product(number, which)        the operand of rows (0) and of keys (1)
 *   md_pairs_towards_keys(sum), md_pairs_value(sum)     its direction, its operand
 *   md_pairs_store(sum, p, &batch, &row, key, column, o, n)    n lanes of a result
 * On the host:
 *   md_pairs_inner(p, operand)             elements of a line
 *   md_pairs_load(operand, p, &batch, &row, key, inner, n)     n lanes of a line from `inner` on, as f32; the row or
 *                                          the key is looked at
 *   md_pairs_weigh(p, &row, key, x, x2, w, n)     the weights of n lanes of keys: w[sum]
 *   md_pairs_columns(p, sum)
 * On a GPU, where all operands are of one 16-bit type, numbers are constant expressions, and lines have MD_DEPTH or
 * MD_WIDTH elements:
 *   md_pairs_length(operand)               elements of a line
 *   md_pairs_data(operand, p)              its data; md_pairs_place(operand, p, &batch, &row, key): where a line begins
 *   md_pairs_uses(sum, product)            1: the sum's weight needs the product
 *   md_pairs_halves(sum)                   16-bit elements that a weight is split into: 1 if the formula rounds it
 *   md_pairs_weight(sum, p, &row, key, x, x2)     a weight, not yet rounded; md_pairs_open: where all bounds hold
 *   MD_CHAIN_LENGTHS, md_chain_check_lengths   as of chains
 *   MD_PAIR_BOUNDS                         0: all rows have all keys; MD_PAIR_OPENS 1: md_chain_span knows which keys
 *                                          all rows of a few have */
#ifndef MD_CODEGEN_CHAIN_PAIRS_H
#define MD_CODEGEN_CHAIN_PAIRS_H

#include "codegen/chain/chain.h"

/** False where the stage is no pairs. */
bool md_cg_pairs_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect);
/** Prints md_params and the functions into `expr`, and #define lines into `defines`. */
md_status md_cg_pairs_print(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *pairs, const md_kn_param *param,
                            int32_t n_params);
/** The same on a GPU. */
md_status md_cg_pairs_print_cuda(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *pairs,
                                 const md_kn_param *param, int32_t n_params);

/** Operand o's lines have MD_DEPTH elements: their dim is that of the first product's depth. Others have MD_WIDTH. */
bool md_cg_pairs_is_deep(const md_cg_chain *pairs, int32_t operand);
/** 1 if the formula rounds the sum's weights to the type of the operands, else 2. */
int32_t md_cg_pairs_halves(const md_cg_chain *pairs, int32_t sum);
/** True if the sum's weights need the product. */
bool md_cg_pairs_uses(const md_cg_chain *pairs, int32_t sum, int32_t product);

/** True if the weight of sum `late` follows from that of `early` and the second product. */
bool md_cg_pairs_follows(const md_cg_chain *pairs, int32_t late, int32_t early);
/** Prints md_pairs_late(p, &row, key, early, x2), such a weight, not yet rounded, and md_pairs_late_open. */
md_status md_cg_pairs_print_late(md_strbuf *defines, md_strbuf *out, const md_cg_chain *pairs, int32_t late,
                                 int32_t early);

/** Prints what blocks of 64 rows have in shared memory of each row, as far as it is not the same for all rows of a
 * batch: MD_NOTE_BYTES a row, md_note_put(notes, line, row), and md_note_get(row[2], notes, line), which reads those of
 * an even line and the next one. */
void md_cg_pairs_print_notes(md_strbuf *out, const md_cg_chain *pairs);

/* ---- for the printers: pairs.c */

void md_cg_pairs_print_head(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *pairs, const md_kn_param *param,
                            int32_t n_params);
/** The constants of operands, products and sums. */
void md_cg_pairs_print_numbers(md_strbuf *out, const md_cg_chain *pairs);
/** The indices of a row, or of a key. */
void md_cg_pairs_print_place(md_strbuf *out, const md_cg_chain *pairs, bool is_of_keys);
/** A function of `which`: text with its number, for each below n. */
void md_cg_pairs_print_choice(md_strbuf *out, const char *head, int32_t n, const char *text, const char *last);
md_status md_cg_pairs_print_stores(md_strbuf *defines, md_strbuf *out, const md_cg_chain *pairs);
#endif
