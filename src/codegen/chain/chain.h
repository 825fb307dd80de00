/* A CHAIN stage (stage/chain.h) as the functions that templates call. All are MD_INLINE; p is the md_params. Batches
 * and rows are linear numbers: rows that share keys follow each other, also where a formula writes K[b, h // 4, ..].
 *
 *   md_chain_batches(p), _rows, _keys, _depth, _columns; md_chain_run(p): rows until a slower row index changes
 *   md_chain_batch, md_chain_batch_of(p, batch)      the indices of a batch
 *   md_chain_row, md_chain_row_of(p, &batch, row)    those of a row, and what no key changes there
 *   For each operand, here K (Q takes a row, K and V a batch and a key; V has columns for depth):
 *     MD_CHAIN_K_LOAD    1: a load that moves evenly along depth. Only then there are:
 *     MD_CHAIN_K_T       its dtype (f32, bf16, ..)
 *     md_chain_k_data(p), md_chain_k(p, &batch, key)   its data; the offset of the first element, in elements; -1 if a
 *                        subscript is out of range, which is reported then: there the elements count as 0
 *     md_chain_k_step(p) how far the next element is
 *     MD_CHAIN_K_LINEAR, md_chain_k_stride(p)          1: how far the next key is (Q has none)
 *     md_chain_k_lanes(p, offset, n), md_chain_k_steps(p, offset, step, n)     host: n lanes as f32
 *     md_chain_k_at(p, &batch, key, depth)             one value of any operand, as f32
 *   md_chain_score(p, &row, key, x)    s; -inf where a guard does not hold. md_chain_open: where all of them hold
 *   MD_CHAIN_MAXIMUM     0: there is none, and e is x; score and open return x
 *   MD_CHAIN_SCALE       1, 2: open is x * md_chain_scale(p), but for roundings; 2: which is not negative
 *   md_chain_weight(p, &row, key, e), md_chain_term(t, p, &row, key, e)
 *   MD_CHAIN_P_T         the dtype that the formula rounds weights to (f32: none)
 *   MD_CHAIN_WEIGHT      0: the weight is e, rounded to it. 1: anything; on a GPU md_chain_weight is not rounded yet
 *   MD_CHAIN_TERMS       sums; MD_CHAIN_TERM 0: all are e. 1: all are e rounded to MD_CHAIN_P_T. 2: anything
 *   md_chain_span(p, &batch, row, end)     keys of rows row .. end-1: outside begin .. end all are masked in all rows,
 *                        inside open_begin .. open_end none is in any
 *   MD_CHAIN_GUARDS      0: no key is masked. MD_CHAIN_BOUNDED 1: in row i exactly the keys of md_chain_span(p, &batch,
 *                        i, i + 1) are not (0 on a GPU where that takes look-ups for each row, unless
 *                        `keeps_bounds`). MD_CHAIN_RAGGED 1: a bound is read from memory
 *   MD_CHAIN_LENGTHS     GPU: 0: rows look up no lengths; 1: those of a batch are the same for all of its rows; 2: they
 *                        are not. md_chain_check_lengths(p, &row) reports those above the number of keys
 *   md_chain_state { float maximum, sum[] }          starts as md_chain_start()
 *   md_chain_close(p, &row, &state)        after the last key: brings the sums up, returns the factor of all o
 *   md_chain_store_row(p, &row, &state)    what is stored once a row; MD_CHAIN_ROW_STORES 0: nothing
 *   md_chain_store(p, &row, &state, column, o, n)    n <= MD_VL columns; md_chain_room(p, column): until an index wraps
 *   MD_CHAIN_RESULT      GPU, 1: one 16-bit result: md_chain_result(p, &row, &state, column, o0, o1) is a pair of it,
 *                        md_chain_result_at(p, &row, column) its place
 * On the host x, e and scores are MD_VL lanes along the keys, and the last argument is md_n; on a GPU they are single
 * values. */
#ifndef MD_CODEGEN_CHAIN_CHAIN_H
#define MD_CODEGEN_CHAIN_CHAIN_H

#include "codegen/codegen.h"

enum { MD_CG_MAX_KEPT = 8 };

typedef struct md_cg_chain {
    const md_st_program *program;
    int32_t stage;
    md_dev_kind dialect;
    const md_st_chain *c;
    int32_t axis;
    int32_t n_kept; /* values that no key changes */
    const md_fx_node *kept[MD_CG_MAX_KEPT];
    bool keeps_bounds; /* GPU: the kernel keeps the bounds of each row, also where they are looked up */
} md_cg_chain;

/** False where the stage is no chain, or pairs (codegen/chain/pairs.h). */
bool md_cg_chain_of(md_cg_chain *out, const md_st_program *program, int32_t stage, md_dev_kind dialect);

/** True if the operand is a load that moves evenly along depth (V: columns), which is one index. */
bool md_cg_chain_is_load(const md_cg_chain *chain, md_st_side side);
/** True if it is one whose place moves evenly with the keys, too. */
bool md_cg_chain_is_linear(const md_cg_chain *chain, md_st_side side);
/** 1: the scores without a mask are x times something that is the same everywhere; 2: and surely not negative. */
int md_cg_chain_is_scaled(const md_cg_chain *chain);
/** The dtype that weights are rounded to; F32: none. *is_plain: the weight is e but for that. */
md_dtype md_cg_chain_weight(const md_cg_chain *chain, bool *is_plain);

/** True if some bound must be asked of each row, as where packed rows look up where their sequence ends. */
bool md_cg_chain_looks_up_rows(const md_st_chain *chain);
/** True if guards of the scores are bounds of the rows' keys, of which scores know nothing: MD_CHAIN_BOUNDED. On a
 * GPU a mask that each row looks up takes fewer registers in scores, unless the kernel keeps bounds in memory. */
bool md_cg_chain_is_bounded(const md_cg_chain *chain);

/** Prints md_params and the functions into `expr`, and #define lines into `defines`. */
md_status md_cg_chain_print(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *chain, const md_kn_param *param,
                            int32_t n_params);

/* ---- for the printers */

/* A factor of x that no index changes. */
enum { MD_CG_MAX_SCALES = 6 };
typedef struct md_cg_scale {
    const md_fx_node *factor;
    bool is_divisor;
} md_cg_scale;
/** The factors that x has in scores without a mask, last applied first; 0 where scores are no such product. */
int32_t md_cg_chain_scales(md_cg_scale out[MD_CG_MAX_SCALES], const md_cg_chain *chain);
/** A printer; on a GPU it reports no lengths (lengths.c). */
md_cg *md_cg_chain_printer(const md_cg_chain *chain, int32_t lane, md_cg_access access);
/** Ends a body that returns a value: its uses go to defines. */
md_status md_cg_chain_end(md_strbuf *defines, md_cg **cg);
/** `const int64_t x3 = r->x3;` of batch indices, and of rows' */
void md_cg_chain_print_batch(md_strbuf *out, const md_cg_chain *chain, const char *from);
void md_cg_chain_print_row(md_strbuf *out, const md_cg_chain *chain, const char *from);
/** Lets kept values be read from `r`. */
void md_cg_chain_bind_kept(md_cg *cg, const md_cg_chain *chain);

md_status md_cg_chain_print_places(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* places.c */
md_status md_cg_chain_print_sides(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* sides.c */
md_status md_cg_chain_print_span(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* span.c */
md_status md_cg_chain_print_lengths(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* lengths.c */
md_status md_cg_chain_print_values(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* weights.c */
md_status md_cg_chain_print_results(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain); /* results.c */

#endif
