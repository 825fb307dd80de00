/* Inside the reference evaluator: nodes made into a graph of function pointers, and the machine they run on.
 *
 * Real values (f32, f64) are doubles, all others int64. A code has one of the two functions; the compiler puts
 * conversions between. The value of a code depends on the positions of the indices that it uses; reductions, scans and
 * shared subexpressions remember their last value with those positions, so that a softmax row costs O(n). */
#ifndef MD_EXPR_EVAL_CODE_H
#define MD_EXPR_EVAL_CODE_H

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "expr/eval/eval.h"
#include "expr/memo.h"
#include "expr/scalar.h"

typedef struct md_eval_machine md_eval_machine;
typedef struct md_eval_code md_eval_code;
typedef double (*md_eval_real_fn)(md_eval_machine *m, const md_eval_code *c);
typedef int64_t (*md_eval_int_fn)(md_eval_machine *m, const md_eval_code *c);

/* A set of index ids. */
typedef struct md_eval_set {
    uint64_t word[(MD_FX_MAX_INDICES + 63) / 64];
} md_eval_set;

struct md_eval_code {
    md_eval_real_fn real; /* set if the value is real */
    md_eval_int_fn integer; /* set otherwise */
    const md_eval_code *arg[3];
    double num;
    int64_t whole;
    int32_t id;
    void *more; /* load, reduction, scan, memo: its own struct, state included */
    md_scalar_real_fn real_op;
    md_scalar_int_fn int_op;
    md_scalar_test_fn test;
    md_eval_set uses; /* the indices that the value depends on */
};

/* Where a tensor's elements are: the caller's memory, or an array of the evaluator's. */
typedef struct md_eval_access {
    void *base;
    md_dtype dtype;
    int32_t rank;
    int64_t size[MD_MAX_RANK], stride[MD_MAX_RANK];
} md_eval_access;

/* Elements of a temp or output computed on demand (evaluate_at), kept in a direct-mapped table. */
enum { MD_EVAL_CACHED = 512 };
typedef struct md_eval_cached {
    bool is_valid;
    int64_t at[MD_MAX_RANK];
    double real;
    int64_t whole;
} md_eval_cached;

struct md_eval_machine {
    const md_fx_formula *formula;
    const md_fx_binding *binding;
    md_fx_fault *fault;
    md_arena *arena; /* codes */
    md_memo compiled; /* node -> code */
    md_memo seen; /* marks of nodes: those with one user, and those with more */
    int64_t at[MD_FX_MAX_INDICES]; /* the current position of each index */
    md_eval_access tensor[MD_FX_MAX_TENSORS];
    bool is_lazy[MD_FX_MAX_TENSORS]; /* computed on demand from its statement */
    const md_eval_code *value[MD_FX_MAX_STMTS]; /* compiled when first needed */
    const md_fx_stmt *walked; /* whose free indices are walked, the last one innermost; NULL: elements in any order */
    md_eval_cached *cached[MD_FX_MAX_TENSORS];
    md_status status; /* the first failure while running: memory, or a caller who cancels */
    uint32_t steps; /* of loops, counted down to the next question whether to go on */
};

enum { MD_EVAL_STEPS = 4096 };

/** True if loops are to end. Called at each of their steps. */
static inline bool md_eval_is_over(md_eval_machine *m)
{
    if (--m->steps % MD_EVAL_STEPS == 0 && m->status == MD_OK && md_is_cancelled(m->fault->cancel))
        m->status = md_fail_cancelled();
    return m->status != MD_OK;
}

static inline double md_eval_real(md_eval_machine *m, const md_eval_code *c)
{
    return c->real(m, c);
}

static inline int64_t md_eval_int(md_eval_machine *m, const md_eval_code *c)
{
    return c->integer(m, c);
}

static inline bool md_eval_set_has(const md_eval_set *s, int32_t id)
{
    return (s->word[id / 64] >> (id % 64) & 1) != 0;
}

static inline void md_eval_set_add(md_eval_set *s, int32_t id)
{
    s->word[id / 64] |= (uint64_t)1 << (id % 64);
}

static inline void md_eval_set_remove(md_eval_set *s, int32_t id)
{
    s->word[id / 64] &= ~((uint64_t)1 << (id % 64));
}

static inline void md_eval_set_join(md_eval_set *s, const md_eval_set *other)
{
    for (int i = 0; i < MD_COUNT(s->word); i++)
        s->word[i] |= other->word[i];
}

/* All functions that make codes give NULL when memory is short. */

/* ---- code.c */
md_eval_code *md_eval_code_new(md_eval_machine *m);
const md_eval_code *md_eval_real_const(md_eval_machine *m, double value);
const md_eval_code *md_eval_int_const(md_eval_machine *m, int64_t value);
/** The position of an index. */
const md_eval_code *md_eval_index(md_eval_machine *m, int32_t index);
/** A code of one operand; one of the two functions is NULL. */
const md_eval_code *md_eval_to_real(md_eval_machine *m, const md_eval_code *c);
const md_eval_code *md_eval_to_bool(md_eval_machine *m, const md_eval_code *c);
const md_eval_code *md_eval_cast(md_eval_machine *m, const md_fx_node *node, const md_eval_code *a);
/** The same value, remembered until an index that it uses moves. */
const md_eval_code *md_eval_remember(md_eval_machine *m, const md_eval_code *a);

/* ---- op.c, reduce.c, scan.c, load.c: the code of a node, from those of its operands */
const md_eval_code *md_eval_op(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg);
const md_eval_code *md_eval_reduce(md_eval_machine *m, const md_fx_node *node, const md_eval_code *body);
const md_eval_code *md_eval_scan(md_eval_machine *m, const md_fx_node *node, const md_eval_code *body);
/** The operands of a recurrence as one code, which the recurrence has as its argument. */
const md_eval_code *md_eval_step(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg);
const md_eval_code *md_eval_length(md_eval_machine *m, const md_fx_node *node, const md_eval_code *value);
const md_eval_code *md_eval_load(md_eval_machine *m, const md_fx_node *node, const md_eval_code *const *arg);
/** Element of the access at these positions of memory; false (and a fault) where an index lies outside and nothing is
 * to be read or written. Positions may be clamped. */
bool md_eval_locate(md_eval_machine *m, int32_t tensor, int64_t *at);
static inline int64_t md_eval_offset(const md_eval_access *a, const int64_t *at)
{
    int64_t offset = 0;
    for (int32_t i = 0; i < a->rank; i++)
        offset += at[i] * a->stride[i];
    return offset;
}

/* ---- compile.c */
/** The code of a node and of all that it needs. */
const md_eval_code *md_eval_compile(md_eval_machine *m, const md_fx_node *node);
/** The code of a statement's value; compiled once. */
md_status md_eval_statement(const md_eval_code **out, md_eval_machine *m, int32_t stmt);

/* ---- machine.c */
md_status md_eval_machine_init(md_eval_machine *m, const md_fx_formula *formula, const md_fx_binding *binding,
                               md_fx_fault *fault);
void md_eval_machine_finish(md_eval_machine *m);
/** Fails where the tensor is to be computed on demand but its elements are not each written once, at their own index.
 */
md_status md_eval_check_lazy(md_eval_machine *m, int32_t tensor);

/* A sum with a second double for what rounding lost (Neumaier 1974): its error does not grow with the number of terms.
 */
typedef struct md_eval_sum {
    double high, low;
} md_eval_sum;

static inline void md_eval_sum_add(md_eval_sum *s, double x)
{
    double t = s->high + x;
    double b = t - s->high; /* two-sum (Knuth): exact whichever is larger */
    s->low += (s->high - (t - b)) + (x - b);
    s->high = t;
}

static inline double md_eval_sum_of(const md_eval_sum *s)
{
    double t = s->high + s->low;
    return t - t == 0.0 ? t : s->high; /* infinities make `low` a NaN */
}

#endif
