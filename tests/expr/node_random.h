/* A formula made by hand, and random integer expressions over it with their values. Used by test_node.c and
 * test_range.c.
 */
#ifndef MD_TESTS_EXPR_NODE_RANDOM_H
#define MD_TESTS_EXPR_NODE_RANDOM_H

#include "base/dtype.h"
#include "expr/node.h"
#include "support/check.h"

enum { N_INDICES = 4, N_TRIALS = 3000 };

/* A formula made by hand: indices i0.. run over dims of small sizes; dim 3 is static. */
typedef struct fixture {
    md_fx_formula formula;
    int64_t size[N_INDICES];
    uint64_t seed;
} fixture;

static inline void begin(fixture *f, uint64_t seed)
{
    static const char *const names[] = {"i0", "i1", "i2", "i3"};
    memset(f, 0, sizeof(*f));
    f->seed = seed;
    f->formula.arena = md_arena_create();
    assert_non_null(f->formula.arena);
    f->formula.n_dims = f->formula.n_indices = N_INDICES;
    for (int d = 0; d < N_INDICES; d++) {
        f->size[d] = 1 + (int64_t)(check_random(&f->seed) % 7);
        f->formula.dim[d] = (md_fx_dim){.name = names[d], .size = d == 3 ? f->size[d] : -1, .hi = INT64_MAX};
        f->formula.index[d] = (md_fx_index){.name = names[d], .dim = d};
    }
}

static inline void end(fixture *f)
{
    md_arena_destroy(&f->formula.arena);
}

static inline int64_t pick(fixture *f, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(check_random(&f->seed) % (uint64_t)(hi - lo + 1));
}

static inline const md_fx_node *random_leaf(fixture *f)
{
    md_arena *a = f->formula.arena;
    if (pick(f, 0, 2) == 0)
        return md_fx_integer(a, pick(f, -9, 9));
    if (pick(f, 0, 4) > 0)
        return md_fx_index_node(a, (int32_t)pick(f, 0, N_INDICES - 1));
    md_fx_node *n = md_fx_node_new(a, MD_FX_SIZE, MD_I64);
    n->id = (int32_t)pick(f, 0, N_INDICES - 1);
    return n;
}

/* `linear`: only what an affine form can hold. */
static inline const md_fx_node *random_int(fixture *f, int depth, bool linear)
{
    static const md_fx_op sums[] = {MD_FX_ADD, MD_FX_SUB};
    static const md_fx_op others[] = {MD_FX_MIN, MD_FX_MAX,   MD_FX_MUL, MD_FX_FLOORDIV,
                                      MD_FX_MOD, MD_FX_WHERE, MD_FX_ABS, MD_FX_CLAMP};
    md_arena *a = f->formula.arena;
    if (depth == 0 || pick(f, 0, 5) == 0)
        return random_leaf(f);
    const md_fx_node *l = random_int(f, depth - 1, linear), *r = random_int(f, depth - 1, linear);
    const md_fx_node *constant = md_fx_integer(a, pick(f, 1, 5));
    if (pick(f, 0, 4) == 0)
        return md_fx_op2(a, MD_FX_MUL, l, constant);
    if (linear || pick(f, 0, 1) == 0)
        return pick(f, 0, 5) == 0 ? md_fx_op1(a, MD_FX_NEG, l) : md_fx_op2(a, sums[pick(f, 0, 1)], l, r);
    const md_fx_op op = others[pick(f, 0, 7)];
    if (op == MD_FX_WHERE)
        return md_fx_op3(
            a, op, md_fx_op2(a, MD_FX_LT + (md_fx_op)pick(f, 0, 5), random_int(f, 1, true), random_int(f, 1, true)), l,
            r);
    if (op == MD_FX_CLAMP)
        return md_fx_op3(a, op, l, md_fx_integer(a, pick(f, -5, 0)), md_fx_integer(a, pick(f, 0, 5)));
    return op == MD_FX_ABS ? md_fx_op1(a, op, l)
                           : md_fx_op2(a, op, l, op == MD_FX_MIN || op == MD_FX_MAX ? r : constant);
}

static inline int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The plainest of evaluators, to compare with. */
static inline int64_t value_of(const fixture *f, const md_fx_node *n, const int64_t *at)
{
    int64_t v[3] = {0};
    if (n->kind == MD_FX_CONST)
        return n->integer;
    if (n->kind == MD_FX_INDEX)
        return at[n->id];
    if (n->kind == MD_FX_SIZE)
        return f->size[n->id];
    assert_int_equal(n->kind, MD_FX_OP);
    for (int32_t i = 0; i < n->n_args; i++)
        v[i] = value_of(f, n->arg[i], at);
    switch ((int)n->op) {
    case MD_FX_NEG:
        return -v[0];
    case MD_FX_ADD:
        return v[0] + v[1];
    case MD_FX_SUB:
        return v[0] - v[1];
    case MD_FX_MUL:
        return v[0] * v[1];
    case MD_FX_FLOORDIV:
        return floor_div(v[0], v[1]);
    case MD_FX_MOD:
        return v[0] - floor_div(v[0], v[1]) * v[1];
    case MD_FX_MIN:
        return v[0] < v[1] ? v[0] : v[1];
    case MD_FX_MAX:
        return v[0] > v[1] ? v[0] : v[1];
    case MD_FX_ABS:
        return v[0] < 0 ? -v[0] : v[0];
    case MD_FX_CLAMP:
        return v[0] < v[1] ? v[1] : v[0] > v[2] ? v[2] : v[0];
    case MD_FX_WHERE:
        return v[0] ? v[1] : v[2];
    case MD_FX_LT:
        return v[0] < v[1];
    case MD_FX_LE:
        return v[0] <= v[1];
    case MD_FX_GT:
        return v[0] > v[1];
    case MD_FX_GE:
        return v[0] >= v[1];
    case MD_FX_EQ:
        return v[0] == v[1];
    case MD_FX_NE:
        return v[0] != v[1];
    case MD_FX_AND:
        return v[0] && v[1];
    case MD_FX_OR:
        return v[0] || v[1];
    case MD_FX_NOT:
        return !v[0];
    default:
        fail_msg("no operation %d", (int)n->op);
        return 0;
    }
}

static inline bool next(const fixture *f, int64_t *at)
{
    for (int d = N_INDICES - 1; d >= 0; d--) {
        if (++at[d] < f->size[d])
            return true;
        at[d] = 0;
    }
    return false;
}

#endif
