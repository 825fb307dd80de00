/* Chains: a product, what makes weights of its results along an axis, and the product of the weights with values.
 * Attention in all its forms is one. In a row i of a batch, over keys j (the axis) and columns c:
 *
 *     x = sum over depth of Q(i) * K(j)
 *     s = score(i, j, x), -inf where a guard does not hold;  m = max over j of s;  e = exp(s - m)
 *     sum t = sum over j of term t(i, j, e);  o = sum over j of weight(i, j, e) * V(j, c)
 *
 * Without a maximum e is x. All of it can be made tile by tile of keys: where the maximum grows, sums so far are scaled
 * (cascade.h says which formulas may be written like this). After the last key everything is multiplied with
 * exp(m - reference), where the reference is what the formula subtracts: m, or the larger of m and a sink, say. */
#ifndef MD_STAGE_CHAIN_H
#define MD_STAGE_CHAIN_H

#include "expr/node.h"

enum { MD_ST_MAX_TERMS = 4, MD_ST_MAX_GUARDS = 8, MD_ST_MAX_BOUND_TERMS = 8 };

/* What REFs in a chain's expressions name. */
enum {
    MD_ST_REF_TERM = 0, /* this id and those after it: the sums */
    MD_ST_REF_MAXIMUM = MD_ST_MAX_TERMS,
    MD_ST_REF_X,
    MD_ST_REF_E,
    MD_ST_REF_VALUE, /* o */
    MD_ST_REF_X2 /* pairs: x of the second product */
};

typedef enum md_st_side { MD_ST_Q, MD_ST_K, MD_ST_V, MD_ST_SIDES } md_st_side;

typedef struct md_st_operand {
    const md_fx_node *value; /* Q over batch, rows, depth; K over batch, axis, depth; V over batch, axis, columns */
    const md_fx_node *load; /* the LOAD that it is, conversions aside; NULL: any other expression */
    bool is_plain; /* a load all of whose subscripts are plain indices */
    /* a load whose place moves evenly with the axis (Q: with each row index), depth and columns; batch indices may
     * stand anywhere, as in h // 4 */
    bool is_linear;
} md_st_operand;

/* A summand of a bound: coef * term; the term is NULL in a constant one, an INDEX of rows, or anything that is the same
 * for all keys of a row: a length of its batch, the end of the sequence that a packed row belongs to. */
typedef struct md_st_bound_term {
    int64_t coef;
    const md_fx_node *term;
} md_st_bound_term;

/* A guard as a limit of the keys: those below the sum (is_end), or from the sum on. is_whole: all of them where the sum
 * is positive, else none, as where a row lies behind the end of its sequence. */
typedef struct md_st_bound {
    bool is_end, is_whole;
    int32_t n;
    md_st_bound_term term[MD_ST_MAX_BOUND_TERMS];
} md_st_bound;

/* Pairs: a chain of another kind, which sums in both directions; the gradient of attention is one. Of each row i and
 * key j of a batch there are one or two products, x_n = sum over depth of operand(i) * operand(j), and of all pairs
 *
 *     o(i, c) = sum over j of weight(i, j, x) * operand(j, c)    towards rows
 *     o(j, c) = sum over i of weight(i, j, x) * operand(i, c)    towards keys
 *
 * A pair that a bound leaves out has the weight 0 in all sums. */
enum { MD_ST_MAX_PAIR_OPERANDS = 8, MD_ST_MAX_PAIR_PRODUCTS = 2, MD_ST_MAX_PAIR_SUMS = 4 };

typedef struct md_st_pair_operand {
    bool is_of_keys; /* over batch, axis, inner; else over batch, rows, inner */
    int32_t inner; /* the index of depth or columns */
    const md_fx_node *value; /* a LOAD, or a conversion of one */
    const md_fx_node *load;
} md_st_pair_operand;

typedef struct md_st_pair_product {
    int32_t of_rows, of_keys; /* operands */
    int32_t depth; /* the index */
} md_st_pair_product;

typedef struct md_st_pair_sum {
    bool is_towards_keys;
    int32_t operand;
    int32_t column; /* the index, which the stage's store of that number runs over, too */
    const md_fx_node *weight; /* over batch, rows, axis, REF(X), REF(X2) */
    const md_fx_node *open; /* the weight where all bounds hold; the same unless every guard is a bound */
} md_st_pair_sum;

typedef struct md_st_pairs {
    int32_t n_operands, n_products, n_sums; /* one sum for each store, in which it is REF(VALUE) */
    md_st_pair_operand operand[MD_ST_MAX_PAIR_OPERANDS];
    md_st_pair_product product[MD_ST_MAX_PAIR_PRODUCTS];
    md_st_pair_sum sum[MD_ST_MAX_PAIR_SUMS];
} md_st_pairs;

/* Indices of rows, batch and columns are the stage's outer ones; `axis` is the stage's. A group may be empty except
 * columns and depth. */
typedef struct md_st_chain {
    int32_t n_batch, n_rows, n_columns, n_depth;
    int32_t batch[MD_MAX_RANK * 2], rows[MD_MAX_RANK * 2], columns[MD_MAX_RANK], depth[MD_MAX_RANK];
    /* K and V use batch index share_index only as share_index // share, so rows with one quotient share their keys.
     * 1: there is no such index */
    int32_t share_index;
    int64_t share;
    md_st_operand side[MD_ST_SIDES];
    bool has_maximum;
    const md_fx_node *score; /* s, over batch, rows, axis, REF(X) */
    const md_fx_node *open; /* s where all guards hold */
    int32_t n_guards, n_bounds;
    const md_fx_node *guard[MD_ST_MAX_GUARDS];
    md_st_bound bound[MD_ST_MAX_GUARDS];
    bool is_bounded; /* every guard is a bound */
    int32_t n_terms;
    const md_fx_node *term[MD_ST_MAX_TERMS]; /* over batch, rows, axis, REF(E) */
    const md_fx_node *weight; /* over the same; a CAST says that the formula rounds it */
    const md_fx_node *reference; /* over batch, rows, REF(MAXIMUM); NULL without a maximum */
    /* Pairs, else NULL. Depth and the sides Q and K are then of the first product, columns, V and the weight of the
     * first sum towards rows, if there is one. */
    const md_st_pairs *pairs;
} md_st_chain; /* stores: over batch, rows, columns, REFs of VALUE, MAXIMUM and sums; per_row without columns, VALUE */

#endif
