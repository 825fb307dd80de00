/* Inside the stage layer: moving the axes of a product's operands (turn.c). */
#ifndef MD_STAGE_TURN_H
#define MD_STAGE_TURN_H

#include "stage/form.h"

enum { MD_ST_MOST_MOVED = 6 };

/* A load, and the order that the axes of its tensor get. */
typedef struct md_st_moved {
    const md_fx_node *load;
    int32_t rank, order[MD_MAX_RANK];
    int32_t turned; /* the tensor with that order; -1: the order is the tensor's own */
    bool is_padded; /* its last axis in that order is the run, with zeros behind */
} md_st_moved;

typedef struct md_st_turner {
    md_fx_formula *formula;
    const md_st_program *program;
    const md_st_stage *stage;
    int32_t run; /* the index of K that gets to lie side by side */
    int64_t padded_size; /* of the run: a multiple of eight elements with zeros behind; 0: it stays as it is */
    int32_t padded; /* the index that runs over all of it */
    int32_t image, filter; /* sides: that whose layout is wrong, and the other one */
    int32_t n_operands;
    md_st_moved operand[MD_ST_MOST_MOVED]; /* of the image, of the filter, then of the epilogue */
    md_st_moved result; /* its load is NULL */
    int32_t stmt; /* the result's */
    bool no_memory;
} md_st_turner;

/** Whether axes of the stage's operands may be moved; finds operands, and their orders. */
bool md_st_find_moves(md_st_turner *turner);
/** Whether the operand whose layout is wrong is a matrix for each of the indices in front of K, as X[n,c,y,x] is
 * [c, (y,x)] for each n. */
bool md_st_is_matrices(const md_st_turner *turner);
/** K in its new order: the run comes last. Returns how many. */
int32_t md_st_order_k(int32_t out[MD_MAX_RANK], const md_st_turner *turner);
/** True if the order is another one than the tensor's, or its last axis gets zeros behind it. */
bool md_st_moves(const md_st_moved *operand);

#endif
