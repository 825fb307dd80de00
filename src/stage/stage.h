/* Stages: what one kernel choice covers. A formula becomes a program of stages in order; temporaries between stages
 * touch memory.
 *
 * Lets are inlined wherever the consumer stays one of the kinds below, so a softmax written with lets is one ROW
 * stage and a product with bias and activation one PRODUCT stage. A product whose operand is a softmax of another
 * product is one CHAIN stage. A statement that fits none of these is a NEST. */
#ifndef MD_STAGE_STAGE_H
#define MD_STAGE_STAGE_H

#include "expr/formula.h"
#include "expr/node.h"
#include "stage/chain.h"

/* A stage has at least one statement, so no formula that the front end accepts meets this limit. */
enum {
    MD_ST_MAX_STAGES = MD_FX_MAX_STMTS,
    MD_ST_MAX_STORES = 8,
    MD_ST_MAX_REDUCTIONS = 12,
    MD_ST_MAX_PRODUCTS = 2,
    MD_ST_MAX_PARTS = 8
};

typedef enum md_st_kind {
    MD_ST_POINTWISE, /* no reduction: outer indices and one lane index; gathers, scatters, transposes included */
    MD_ST_ROW, /* reductions over one axis; results per row (outer) and per element (outer, axis) */
    MD_ST_PRODUCT, /* sum over k of A(batch,m,k) * B(batch,n,k), with any pointwise epilogue */
    MD_ST_SCAN, /* one scan along the axis of a pointwise body, pointwise epilogue */
    MD_ST_NEST, /* anything else: a loop nest, reductions as inner loops */
    MD_ST_CHAIN /* several stages before it as one (chain.h): a plan takes either it or them */
} md_st_kind;

typedef struct md_st_store {
    int32_t tensor; /* formula tensor: an output, or a temp that is really stored */
    md_fx_assign assign;
    int32_t n_subscripts; /* the rank */
    const md_fx_node *subscript[MD_MAX_RANK]; /* over outer indices and axis; plain, or integer expressions (scatter) */
    const md_fx_node *value; /* over outer, axis, REF */
    bool per_row; /* ROW: does not run over the axis: stored once a row */
} md_st_store;

typedef enum md_st_merge {
    MD_ST_MERGE_NONE, /* only staged: needs the final results of lower levels before the first element */
    MD_ST_MERGE_PLAIN, /* combine the two results with the op */
    /* body = c(x) * exp(a(x) - REF(shift)), shift = MAX of a(x): scale each side by exp(its shift - the new shift),
     * exactly 1 where equal. Where the maximum of a chunk is -inf (all of it masked) its body is evaluated with 0
     * for the shift, and its sum, 0 or NaN, is not scaled. If the last shift is -inf and the axis is not empty, the
     * result is NaN: -inf - -inf. */
    MD_ST_MERGE_RESCALED,
    MD_ST_MERGE_CHAN /* body = (x - REF(shift)/COUNT)^2, SUM: add delta^2 * nA*nB/n (Chan, Golub, LeVeque 1979) */
} md_st_merge;

typedef struct md_st_reduction {
    md_fx_op op; /* R_SUM PROD MAX MIN ARGMAX ARGMIN ANY ALL: MEAN and VAR are lowered to sums */
    md_dtype type; /* of the accumulator and of REF: F32 F64 I64 BOOL (ARGMAX, ARGMIN: the REF is I64) */
    md_dtype body_type;
    const md_fx_node *body; /* over outer, axis, and REFs of lower levels; COUNT inside is the scope's count */
    int32_t level; /* 0, or 1 + the highest level of the REFs in body */
    md_st_merge merge;
    int32_t shift; /* RESCALED, CHAN: the reduction it is relative to; -1 */
} md_st_reduction;

typedef struct md_st_row {
    int32_t n_reductions, n_levels;
    md_st_reduction reduction[MD_ST_MAX_REDUCTIONS];
    bool is_online; /* every reduction has a merge rule: one pass over memory makes all of them */
    bool has_elements; /* some store runs over the axis */
} md_st_row;

/* Index groups of a product; a group may be empty except n_k. All ids are formula indices. */
typedef struct md_st_product {
    int32_t n_batch, n_m, n_n, n_k;
    int32_t batch[MD_MAX_RANK], m[MD_MAX_RANK], n[MD_MAX_RANK], k[MD_MAX_RANK];
    int32_t n_products; /* 1; 2 where both have the same groups and the same A or B (swiglu) */
    /* over batch, m, k: a LOAD, a CAST or conversion of one, or any pointwise expression */
    const md_fx_node *a[MD_ST_MAX_PRODUCTS];
    const md_fx_node *b[MD_ST_MAX_PRODUCTS]; /* over batch, n, k */
    md_dtype type; /* of the accumulator: F32, F64 or I64 */
    /* A grouped product: a row looks up which group it belongs to, and with it which of several matrices B it is
     * multiplied by, as in W[eid[t],n,k]. n_batch is 0. NULL: the product is not grouped. */
    const md_fx_node *look_up; /* over m: eid[t] */
    int32_t group; /* an index of the program for the group; it has no size of its own (md_st_groups) */
    const md_fx_node *of_group[MD_ST_MAX_PRODUCTS]; /* b with `group` for look_up: W[g,n,k] */
    /* Bounds of K by batch, as of a sum under where(off[e] <= t and t < off[e+1], .., 0): of the steps of K only those
     * from `begin` to before `end` are summed. Both are over batch, and may lie outside K; NULL: no such bound.
     * `guard` is the condition, over batch and K; NULL: all steps are summed. `sharing`: indices of the batch that
     * neither operand has, at least one: its values divide K among them. */
    const md_fx_node *guard, *begin, *end;
    int32_t n_sharing, sharing[MD_MAX_RANK];
} md_st_product; /* REF(p) in stores' values is the sum of product p; stores run over batch, m, n */

typedef struct md_st_scan {
    md_fx_op op; /* S_SUM ... */
    md_dtype type;
    bool exclusive, reverse;
    const md_fx_node *body; /* over outer, axis */
} md_st_scan; /* REF(0) is the scan's value */

typedef struct md_st_stage {
    md_st_kind kind;
    int32_t n_outer;
    /* indices of the iteration space besides the axis, slowest first, in order of the first store */
    int32_t outer[MD_MAX_RANK * 2];
    /* POINTWISE: the lane index (last subscript of the first store, else of the largest load); NEST: the last subscript
     * of the store; ROW, SCAN: the axis; -1: none */
    int32_t axis;
    int32_t n_stores;
    md_st_store store[MD_ST_MAX_STORES]; /* values are evaluated before any is stored, per element */
    int32_t n_tensors; /* distinct tensors read or written, loads first in order of appearance */
    int32_t tensor[MD_FX_MAX_TENSORS];
    bool is_stored[MD_FX_MAX_TENSORS]; /* parallel to tensor[] */
    bool has_gather, has_scatter; /* a LOAD / a store with a subscript that is not affine in indices */
    bool has_duplicates; /* scatter that accumulates: needs atomics or one thread per target */
    md_st_row row;
    md_st_product product;
    md_st_scan scan;
    const md_st_chain *chain; /* CHAIN; in the program's arena */
    /* other stages that give the same results, in order: a plan runs either. A chain stands behind its parts, a product
     * before those that move axes of its operands and its result (turn.c) */
    int32_t n_parts, part[MD_ST_MAX_PARTS];
} md_st_stage;

/* Places of the facts that md_st_know keeps about each stage: plans of rows by their options, then others. */
enum {
    MD_ST_KNOWN_ON_CHIP = 16,
    MD_ST_KNOWN_WORK = MD_ST_KNOWN_ON_CHIP,
    MD_ST_KNOWN_COUNT,
    MD_ST_KNOWN_UNIT,
    MD_ST_KNOWN_UNIT_OUTER,
    MD_ST_KNOWN_TRAFFIC,
    MD_ST_KNOWN_BYTES, /* whether its values fit lanes of one byte */
    MD_ST_KNOWN_WIDTH, /* of vectors on a GPU */
    MD_ST_KNOWN_EPILOGUE,
    MD_ST_KNOWN_ALIASES, /* of the program: which outputs may lie on which inputs (stage 0) */
    MD_ST_KNOWN_FLAT, /* indices that may run as one */
    MD_ST_KNOWN_CYCLIC, /* the same where some loads repeat along it */
    MD_ST_KNOWN_MOVED, /* whether reads are at computed places */
    MD_ST_KNOWN_TRANSPOSE, /* loads along another index than the lanes */
    MD_ST_KNOWN_MAPS, /* of operands of a product on a GPU */
    MD_ST_KNOWN_LIBRARY, /* how a library of products is called */
    MD_ST_KNOWN_CONVOLUTION, /* the same of convolutions */
    MD_ST_KNOWN_RANGES, /* of rows, then of columns: elements that a condition leaves */
    MD_ST_KNOWN_PRODUCTS = MD_ST_KNOWN_RANGES + 2, /* as a product, by which indices are the columns */
    MD_ST_KNOWN_CHAINS = MD_ST_KNOWN_PRODUCTS, /* by kind of device; no stage is a product and a chain */
    MD_ST_KNOWN = MD_ST_KNOWN_PRODUCTS + 5
};
typedef struct md_st_program {
    const md_fx_formula *formula;
    md_arena *arena; /* of the nodes made here */
    int32_t n_indices; /* formula indices and those made by inlining; index[] replaces the formula's */
    md_fx_index index[MD_FX_MAX_INDICES * 2];
    int32_t n_stages;
    md_st_stage *stage; /* n_stages, in the arena */
    bool is_temp_stored[MD_FX_MAX_TENSORS]; /* TEMPs that live in memory, contiguous */
    /* facts about each stage, kept by md_st_know and freed with the program */
    _Atomic(void *) (*known)[MD_ST_KNOWN];
} md_st_program;

/** Sizes that the order of a sum is chosen by, for dims without a static size; sizes by dim id. */
typedef struct md_st_sizes {
    int32_t n; /* 0: each counts as 256, moved into the dim's range */
    int64_t (*size)[MD_FX_MAX_DIMS];
    bool ignores_batch; /* dims that a sum does not run over count as 256 whatever they are */
} md_st_sizes;

enum { MD_ST_MAX_ORDERS = 8 };
/* The first few sums of products of several tensors; in the formula's arena. */
typedef struct md_st_orders {
    int32_t n;
    const struct md_st_order *order[MD_ST_MAX_ORDERS];
} md_st_orders;

/* What an order costs at sizes. */
typedef struct md_st_order_facts {
    int32_t tensor; /* of the statement that the sum stands in */
    const char *text; /* "A[i,j] * (B[j,k] * v[k])"; of a sum that stays as written, its own text */
    bool is_written;
    double operations, written; /* multiplications and additions: in this order, and of the sum as it is written */
    double largest; /* elements of the largest temporary */
} md_st_order_facts;
void md_st_order_work(md_st_order_facts *out, const struct md_st_order *order, const int64_t *size);

/** Gives lets of their own to reductions and scans that would make a statement a nest, or make one result many times:
 * changes the formula, to be called once before its program is made. Its meaning stays; it gets temporaries with
 * names like "Y.1". Without it programs are as correct, but slower. OUT_OF_MEMORY leaves the formula as it was.
 * Sums of products of several tensors get an order first, by sizes that are static or 256. */
md_status md_st_split(md_fx_formula *formula);
/** The same; orders are chosen by these sizes, and noted in `orders`. */
md_status md_st_split_at(md_fx_formula *formula, const md_st_sizes *sizes, md_st_orders *orders);

/** Gives products whose sum runs across memory lets with the axes of their operands moved, and of their result: changes
 * the formula, whose meaning stays, after splitting. A program has such a product both ways: as a stage, and as the
 * parts of that stage. `program` is the formula's; `written` becomes the formula as it was, for free(), and NULL if
 * nothing was changed: then the program stays that of the formula. */
md_status md_st_turn(md_fx_formula **written, md_fx_formula *formula, const md_st_program *program);

/** True if the stage is one of those that move axes for a product, or that product with its axes moved. */
bool md_st_moves_axes(const md_st_program *program, int32_t stage);

/** A fact about a stage that costs walks over its expressions and never changes. */
typedef struct md_st_fact {
    int32_t which; /* which place of the program's facts it has */
    size_t n_bytes;
    void (*make)(void *out, const md_st_program *program, int32_t stage, const void *user);
    const void *user;
} md_st_fact;
/** Writes the fact to `out`: computed the first time, then copied from where the program keeps it; computed each time
 * where memory is short. Thread-safe. */
void md_st_know(void *out, const md_st_program *program, int32_t stage, const md_st_fact *fact);
/** The same without a copy: where the program keeps the fact, or `room` where memory is short. */
const void *md_st_look(void *room, const md_st_program *program, int32_t stage, const md_st_fact *fact);

/** Makes the program of a formula, which must outlive it. */
md_status md_st_program_create(md_st_program **out, const md_fx_formula *formula);
void md_st_program_destroy(md_st_program **program);
/** Takes a stage with parts out of a program that nobody else uses yet: its parts remain. */
void md_st_program_drop(md_st_program *program, int32_t chain);

/** Adds a warning to the formula for each nest that computes a reduction or scan again and again, or that takes very
 * many operations at these sizes (by dim id). The program is the formula's. */
md_status md_st_warn(md_fx_formula *formula, const md_st_program *program, const int64_t *size);
/** The same for each scatter that adds very many values to an element, where devices round each of them. */
md_status md_st_warn_of_rounding(md_fx_formula *formula, const md_st_program *program, const int64_t *size);

/** True if output `out` may be exactly tensor `in` (same data, strides, dtype): every read of it uses the written
 * subscripts, or is over before the row is written, and no later stage reads it. */
bool md_st_may_alias(const md_st_program *program, int32_t out, int32_t in);

/** How a LOAD or store moves with an index: coef[axis] of the index in each subscript (all affine). False where a
 * subscript is not affine in the index. */
bool md_st_step(int64_t coef[MD_MAX_RANK], const md_st_program *program, int32_t tensor,
                const md_fx_node *const *subscript, int32_t index);

/** How large a chain is: rows that share keys count as rows of one batch where kernels take them together. */
typedef struct md_st_chain_sizes {
    int64_t batches, rows, keys, depth, columns;
} md_st_chain_sizes;
void md_st_chain_measure(md_st_chain_sizes *out, const md_st_program *program, int32_t stage, const int64_t *size);
enum { MD_ST_MAX_LENGTHS = 3 * MD_MAX_RANK + MD_ST_MAX_PAIR_OPERANDS + MD_ST_MAX_PAIR_SUMS };
/** The indices along the lines of a chain's operands and results: depth and columns, of pairs those of all operands and
 * sums. Returns how many; some may be there twice. */
int32_t md_st_chain_lengths(int32_t out[MD_ST_MAX_LENGTHS], const md_st_chain *chain);
/** The part of all pairs of rows and keys that the bounds leave, as far as sizes tell: 1 where there are none. */
double md_st_chain_part(const md_st_program *program, int32_t stage, const int64_t *size);

/** Multiplications for each pair of a row and a key: depths of products, columns of sums. */
double md_st_pair_terms(const md_st_program *program, const md_st_pairs *pairs, const int64_t *size);

/** Calls fn on every node of a chain but those of its stores; stops when it returns false. Returns whether it ran to
 * the end. Nodes may be met more than once. */
bool md_st_visit_chain(const md_st_chain *chain, md_fx_visit_fn fn, void *user);

/** A one-line text for reports: "row: 2 reductions, 2 levels, online". */
struct md_strbuf;
void md_st_describe(struct md_strbuf *out, const md_st_program *program, int32_t stage);

/** Floating-point operations per element of the largest iteration space, times that space; and bytes touched once.
 * Sizes by dim id. */
void md_st_work(double *flops, double *bytes, const md_st_program *program, int32_t stage, const int64_t *size);

/** Number of points of a list of indices at these sizes (product of dims); INT64_MAX if there are more. */
int64_t md_st_points(const md_st_program *program, int32_t n, const int32_t *index, const int64_t *size);
/** Calls fn for each axis that rows of a grouped product are looked up in. Groups are those that all of them have. */
void md_st_each_group_axis(const md_st_product *product, void (*fn)(void *user, int32_t tensor, int32_t axis),
                           void *user);
/** The number of groups at these sizes, by dim id. */
int64_t md_st_groups(const md_st_program *program, int32_t stage, const int64_t *size);
/** Size of the dim that an index runs over. */
int64_t md_st_size(const md_st_program *program, int32_t index, const int64_t *size);

#endif
