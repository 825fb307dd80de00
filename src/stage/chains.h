/* Inside the stage layer: finding and forming chains (chain.h). */
#ifndef MD_STAGE_CHAINS_H
#define MD_STAGE_CHAINS_H

#include "stage/chain.h"
#include "stage/fusion.h"

/* The indices of a chain. */
typedef struct md_st_frame {
    int32_t axis, axis_dim;
    int32_t n_rows, rows[MD_MAX_RANK * 2]; /* without columns; those of the batch among them */
    int32_t n_columns, columns[MD_MAX_RANK];
} md_st_frame;

typedef struct md_st_guards {
    int32_t n;
    const md_fx_node *guard[MD_ST_MAX_GUARDS];
} md_st_guards;

/* A chain that is being formed. */
typedef struct md_st_chain_builder {
    md_st_maker *maker;
    md_st_frame frame;
    md_st_chain *chain;
    md_st_guards guards; /* around the score */
} md_st_chain_builder;

/* ---- guards.c */

/** The score without where(guard, score, -inf) around it; the guards are added to g. */
const md_fx_node *md_st_take_guards(md_st_maker *m, md_st_guards *g, const md_fx_node *score);
/** A value as it is where all guards hold. */
const md_fx_node *md_st_drop_guards(md_st_maker *m, const md_st_guards *g, const md_fx_node *node);
/** The guard as a limit of the keys along `axis`, once the chain has its rows. False where it is none, or not the same
 * limit whatever the kernel's rows are. */
bool md_st_bound_of(md_st_bound *out, const md_st_chain *c, int32_t axis, const md_fx_node *guard);

/* ---- share.c */

/** How the keys and values of a chain use an index: 0 not, 1 as it is, else only as index // that number. */
int64_t md_st_share_of(const md_st_chain *chain, int32_t index);

/* ---- chain_extract.c */

/** Takes the reductions over the axis out of the items, whose values then refer to their results, and gives the chain
 * Q, K, V, depth, score, sums, weight and reference. False where they are not those of a chain. */
bool md_st_extract_chain(md_st_chain_builder *b, int32_t n, md_st_item *item);

/** Deals the factors of sum[depth](Q * K): side[1] has those of the axis, side[0] the others, `left` those without
 * depth, which leave the sum. False where a side lacks a depth index. */
bool md_st_deal(const md_fx_node *side[2], md_st_factors *left, md_st_maker *m, int32_t axis, const md_fx_node *sum);
/** The node times all factors; NULL: memory is short. */
const md_fx_node *md_st_times_all(md_st_maker *m, const md_fx_node *node, const md_st_factors *factors);
/** Parts weight * value: factors with columns are the value. NULL where there are none. */
void md_st_part_value(const md_fx_node **weight, const md_fx_node **value, md_st_maker *m, const md_fx_node *body,
                      int32_t n, const int32_t *column);

/* ---- pair_frame.c */

/* Pairs that are being formed. */
typedef struct md_st_pairing {
    md_st_maker *maker;
    md_st_chain *chain;
    md_st_pairs *pairs;
    int32_t axis;
    const md_fx_node *sum[MD_ST_MAX_PAIR_PRODUCTS]; /* the products' sums, as they stand in bodies */
    const md_fx_node *x[MD_ST_MAX_PAIR_PRODUCTS]; /* what they become: a REF, and the factors that have left the sum */
    bool has_failed;
} md_st_pairing;

/** The one reduction of the value that has reductions in it, *n_inner of them; *inner: what these depend on. NULL:
 * there is no such one. */
const md_fx_node *md_st_outer_sum(const md_st_item *item, md_st_set *inner, int32_t *n_inner);
/** Takes the indices by the names of a sum over one index, the axis. */
bool md_st_set_pair_frame(md_st_pairing *pairing, const md_st_item *item);
/** Renames the statement, and gives the body of its outer sum; NULL where its indices are others. *column: its own
 * one. */
const md_fx_node *md_st_named_body(const md_st_pairing *pairing, md_st_item *item, bool is_towards_keys,
                                   int32_t *column, const md_fx_node **outer);

/* ---- pairs.c */

/** Makes pairs of what is stored, at least two sums. False where they are none. */
bool md_st_form_pairs(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);

/* ---- find_pairs.c */

/* Groups that may be one chain, in order. */
typedef struct md_st_parts {
    int32_t n, group[MD_ST_MAX_PARTS];
} md_st_parts;
/** The products around what group `first` writes: those that only the others' epilogues and operands read. False where
 * something else reads it. */
bool md_st_find_pairs(md_st_parts *out, const md_st_draft *draft, int32_t first);
bool md_st_has_part(const md_st_parts *parts, int32_t group);

/* ---- guards of pairs: guards.c */

/** The conditions without which a weight is 0: where(guard, .., 0) among its factors, and where(m == -inf, 0,
 * exp(where(guard, .., -inf) - m)). */
void md_st_take_zero_guards(md_st_maker *m, md_st_guards *g, const md_fx_node *weight);

/* ---- chain.c */

/** Makes a chain of what is stored, whose values have all temporaries between in them. False where it is none. */
bool md_st_form_chain(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);

/* ---- chains.c */

/** The statements whose results the parts store for others, with those before them in them; 0: they are not so. `item`
 * has room for all statements. */
int32_t md_st_items_of_parts(md_st_draft *draft, const md_st_parts *parts, md_st_item *item);
/** Puts a stage that gives the same as its parts in front of group `at`. */
void md_st_insert_whole(md_st_draft *draft, const md_st_parts *parts, const md_st_stage *stage, int32_t at);

/** Adds the chains that groups make up: each behind the last of its parts. */
void md_st_add_chains(md_st_draft *draft);

/* ---- turned.c */

/** True if the item writes or reads a tensor whose axes were moved: it is a stage alone. */
bool md_st_is_turned(const md_fx_formula *formula, const md_st_item *item);
/** Adds the products as they were written, each in front of the parts that move its axes. */
void md_st_add_unturned(md_st_draft *draft);

#endif
