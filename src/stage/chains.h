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
/** The guard as a limit of the keys. False where it is none, or not the same limit whatever the kernel's rows are. */
bool md_st_bound_of(md_st_bound *out, const md_st_frame *frame, const md_fx_node *guard);

/* ---- share.c */

/** How the keys and values of a chain use an index: 0 not, 1 as it is, else only as index // that number. */
int64_t md_st_share_of(const md_st_chain *chain, int32_t index);

/* ---- chain_extract.c */

/** Takes the reductions over the axis out of the items, whose values then refer to their results, and gives the chain
 * Q, K, V, depth, score, sums, weight and reference. False where they are not those of a chain. */
bool md_st_extract_chain(md_st_chain_builder *b, int32_t n, md_st_item *item);

/* ---- chain.c */

/** Makes a chain of what is stored, whose values have all temporaries between in them. False where it is none. */
bool md_st_form_chain(md_st_maker *m, md_st_stage *out, int32_t n, md_st_item *item);

/* ---- chains.c */

/** Adds the chains that groups make up: each behind the last of its parts. */
void md_st_add_chains(md_st_draft *draft);

#endif
