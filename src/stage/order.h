/* Orders of products that are summed: which two operands are multiplied first, by cost, as paths of einsum are. Knows
 * nothing of formulas: operands are sets of indices. */
#ifndef MD_STAGE_ORDER_H
#define MD_STAGE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum { MD_ST_MAX_OPERANDS = 16, MD_ST_MAX_LETTERS = 32, MD_ST_MAX_POINTS = 16 };

/* sum over all letters but `kept` of the product of the operands. Sets of letters and of operands are bits. */
typedef struct md_st_network {
    int32_t n;
    uint32_t operand[MD_ST_MAX_OPERANDS]; /* the letters that it depends on */
    uint32_t kept; /* letters of the result */
    int32_t n_points; /* 1 or more: the sizes that the order is chosen by */
    double size[MD_ST_MAX_POINTS][MD_ST_MAX_LETTERS]; /* of each letter */
} md_st_network;

/* n - 1 steps; each multiplies the products of two disjoint sets of operands, and sums over the letters that nothing
 * else needs. An operand with a letter of its own is summed over it first. */
typedef struct md_st_path {
    int32_t n;
    uint32_t first[MD_ST_MAX_OPERANDS], second[MD_ST_MAX_OPERANDS];
} md_st_path;

/** The letters that are left of the product of a set of operands: those of the result and of other operands. */
uint32_t md_st_left(const md_st_network *network, uint32_t set);

/* The sum as it was written: a level for each sum, those inside others too. */
enum { MD_ST_MAX_LEVELS = 8 };
typedef struct md_st_levels {
    int32_t n;
    uint32_t letters[MD_ST_MAX_LEVELS]; /* that it runs over */
    int32_t factors[MD_ST_MAX_LEVELS]; /* how many */
} md_st_levels;
/** Multiplications and additions of the sum as it was written. */
double md_st_written_operations(const md_st_network *network, const md_st_levels *levels, int32_t point);

typedef struct md_st_path_work {
    double operations; /* multiplications and additions */
    double stored, largest; /* elements of temporaries: of all, of the largest */
} md_st_path_work;
md_st_path_work md_st_work_of(const md_st_network *network, const md_st_path *path, int32_t point);
/** What a path is chosen by: operations, and what moving temporaries costs. */
double md_st_cost_of(const md_st_path_work *work);
/** How many sums the path has: one for each set whose letters become fewer. */
int32_t md_st_count_sums(const md_st_network *network, const md_st_path *path);
/** The path with the least cost: exact (dynamic programming over sets) up to 8 operands, greedy above. Over several
 * points, the best path of a point that is, on the geometric mean, least behind the best of each. Ties go to the
 * order in which operands are written. */
void md_st_best_path(md_st_path *out, const md_st_network *network);

#endif
