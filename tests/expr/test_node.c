/* Properties of nodes: equality, substitution, rewriting, affine forms and ranges, on random expressions. */
#include "base/dtype.h"
#include "expr/node.h"
#include "support/check.h"

#include <math.h>

enum { N_INDICES = 4, N_TRIALS = 3000 };

/* A formula made by hand: indices i0.. run over dims of small sizes; dim 3 is static. */
typedef struct fixture {
    md_fx_formula formula;
    int64_t size[N_INDICES];
    uint64_t seed;
} fixture;

static void begin(fixture *x, uint64_t seed)
{
    static const char *const names[] = {"i0", "i1", "i2", "i3"};
    memset(x, 0, sizeof(*x));
    x->seed = seed;
    x->formula.arena = md_arena_create();
    assert_non_null(x->formula.arena);
    x->formula.n_dims = x->formula.n_indices = N_INDICES;
    for (int d = 0; d < N_INDICES; d++) {
        x->size[d] = 1 + (int64_t)(check_random(&x->seed) % 7);
        x->formula.dim[d] = (md_fx_dim){.name = names[d], .size = d == 3 ? x->size[d] : -1, .hi = INT64_MAX};
        x->formula.index[d] = (md_fx_index){.name = names[d], .dim = d};
    }
}

static void end(fixture *x)
{
    md_arena_destroy(&x->formula.arena);
}

static int64_t pick(fixture *x, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(check_random(&x->seed) % (uint64_t)(hi - lo + 1));
}

static const md_fx_node *random_leaf(fixture *x)
{
    md_arena *a = x->formula.arena;
    if (pick(x, 0, 2) == 0)
        return md_fx_integer(a, pick(x, -9, 9));
    if (pick(x, 0, 4) > 0)
        return md_fx_index_node(a, (int32_t)pick(x, 0, N_INDICES - 1));
    md_fx_node *n = md_fx_node_new(a, MD_FX_SIZE, MD_I64);
    n->id = (int32_t)pick(x, 0, N_INDICES - 1);
    return n;
}

/* `linear`: only what an affine form can hold. */
static const md_fx_node *random_int(fixture *x, int depth, bool linear)
{
    static const md_fx_op sums[] = {MD_FX_ADD, MD_FX_SUB};
    static const md_fx_op others[] = {MD_FX_MIN, MD_FX_MAX,   MD_FX_MUL, MD_FX_FLOORDIV,
                                      MD_FX_MOD, MD_FX_WHERE, MD_FX_ABS, MD_FX_CLAMP};
    md_arena *a = x->formula.arena;
    if (depth == 0 || pick(x, 0, 5) == 0)
        return random_leaf(x);
    const md_fx_node *l = random_int(x, depth - 1, linear), *r = random_int(x, depth - 1, linear);
    const md_fx_node *constant = md_fx_integer(a, pick(x, 1, 5));
    if (pick(x, 0, 4) == 0)
        return md_fx_op2(a, MD_FX_MUL, l, constant);
    if (linear || pick(x, 0, 1) == 0)
        return pick(x, 0, 5) == 0 ? md_fx_op1(a, MD_FX_NEG, l) : md_fx_op2(a, sums[pick(x, 0, 1)], l, r);
    const md_fx_op op = others[pick(x, 0, 7)];
    if (op == MD_FX_WHERE)
        return md_fx_op3(
            a, op, md_fx_op2(a, MD_FX_LT + (md_fx_op)pick(x, 0, 5), random_int(x, 1, true), random_int(x, 1, true)), l,
            r);
    if (op == MD_FX_CLAMP)
        return md_fx_op3(a, op, l, md_fx_integer(a, pick(x, -5, 0)), md_fx_integer(a, pick(x, 0, 5)));
    return op == MD_FX_ABS ? md_fx_op1(a, op, l)
                           : md_fx_op2(a, op, l, op == MD_FX_MIN || op == MD_FX_MAX ? r : constant);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The plainest of evaluators, to compare with. */
static int64_t value_of(const fixture *x, const md_fx_node *n, const int64_t *at)
{
    int64_t v[3] = {0};
    if (n->kind == MD_FX_CONST)
        return n->integer;
    if (n->kind == MD_FX_INDEX)
        return at[n->id];
    if (n->kind == MD_FX_SIZE)
        return x->size[n->id];
    assert_int_equal(n->kind, MD_FX_OP);
    for (int32_t i = 0; i < n->n_args; i++)
        v[i] = value_of(x, n->arg[i], at);
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

static bool next(const fixture *x, int64_t *at)
{
    for (int d = N_INDICES - 1; d >= 0; d--) {
        if (++at[d] < x->size[d])
            return true;
        at[d] = 0;
    }
    return false;
}

static void test_affine(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture x;
        begin(&x, check_random(&seed));
        const md_fx_node *n = random_int(&x, 4, true);
        md_fx_affine a;
        int64_t at[N_INDICES] = {0};
        assert_true(md_fx_affine_of(&a, &x.formula, n));
        for (int32_t i = 0; i < a.n_sizes; i++)
            assert_true(x.formula.dim[a.dim[i]].size < 0); /* static ones are folded */
        do {
            int64_t sum = a.constant;
            for (int32_t i = 0; i < a.n; i++)
                sum += a.coef[i] * at[a.index[i]];
            for (int32_t i = 0; i < a.n_sizes; i++)
                sum += a.size_coef[i] * x.size[a.dim[i]];
            assert_int_equal(sum, value_of(&x, n, at));
        } while (next(&x, at));
        end(&x);
    }
}

static void test_affine_divides(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 1);
    md_arena *a = x.formula.arena;
    const md_fx_node *h = md_fx_index_node(a, 0), *four = md_fx_integer(a, 4);
    const md_fx_node *e = md_fx_op2(a, MD_FX_ADD, md_fx_op2(a, MD_FX_MUL, h, four), md_fx_integer(a, -2));
    md_fx_affine out;
    assert_true(md_fx_affine_of(&out, &x.formula, md_fx_op2(a, MD_FX_FLOORDIV, e, four)));
    assert_int_equal(out.constant, -1);
    assert_int_equal(out.coef[0], 1);
    assert_true(md_fx_affine_of(&out, &x.formula, md_fx_op2(a, MD_FX_MOD, e, four)));
    assert_int_equal(out.constant, 2);
    assert_int_equal(out.n, 0);
    assert_false(md_fx_affine_of(&out, &x.formula, md_fx_op2(a, MD_FX_FLOORDIV, h, four)));
    assert_false(md_fx_affine_of(&out, &x.formula, md_fx_op2(a, MD_FX_MUL, h, h)));
    /* 2^62 * 2 overflows; so does x+x of x+x of .., before it takes exponential time */
    const md_fx_node *big = md_fx_op2(a, MD_FX_MUL, h, md_fx_integer(a, INT64_C(1) << 62));
    assert_false(md_fx_affine_of(&out, &x.formula, md_fx_op2(a, MD_FX_ADD, big, big)));
    for (int i = 0; i < 60; i++)
        e = md_fx_op2(a, MD_FX_ADD, e, e);
    assert_false(md_fx_affine_of(&out, &x.formula, e));
    int64_t lo, hi;
    assert_false(md_fx_range(&lo, &hi, &x.formula, e, x.size, 0, NULL));
    end(&x);
}

static const md_fx_node *random_guard(fixture *x, int depth)
{
    md_arena *a = x->formula.arena;
    if (depth > 0 && pick(x, 0, 3) == 0)
        return md_fx_op1(a, MD_FX_NOT, random_guard(x, depth - 1));
    if (depth > 0 && pick(x, 0, 2) == 0)
        return md_fx_op2(a, pick(x, 0, 1) ? MD_FX_AND : MD_FX_OR, random_guard(x, depth - 1),
                         random_guard(x, depth - 1));
    return md_fx_op2(a, MD_FX_LT + (md_fx_op)pick(x, 0, 5), random_int(x, 2, true), random_int(x, 1, true));
}

typedef struct extent {
    int64_t lo, hi;
    bool is_empty;
} extent;

static extent extent_of(const fixture *x, const md_fx_node *n, int32_t n_guards, const md_fx_node *const *guard)
{
    extent e = {INT64_MAX, INT64_MIN, true};
    int64_t at[N_INDICES] = {0};
    do {
        bool holds = true;
        for (int32_t i = 0; i < n_guards; i++)
            holds &= value_of(x, guard[i], at) != 0;
        if (!holds)
            continue;
        const int64_t v = value_of(x, n, at);
        e = (extent){v < e.lo ? v : e.lo, v > e.hi ? v : e.hi, false};
    } while (next(x, at));
    return e;
}

/* Never narrower than what happens; exact for affine expressions in which each index stands once. */
static void test_range(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int n_bounded = 0;
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture x;
        begin(&x, check_random(&seed));
        const bool linear = trial % 3 == 0;
        const int32_t n_guards = trial % 2 ? (int32_t)pick(&x, 1, 2) : 0;
        const md_fx_node *n = random_int(&x, 3, linear), *guard[2] = {random_guard(&x, 1), random_guard(&x, 1)};
        const extent want = extent_of(&x, n, n_guards, guard);
        int64_t lo, hi;
        const bool ok = md_fx_range(&lo, &hi, &x.formula, n, x.size, n_guards, guard);
        n_bounded += ok;
        if (ok && !want.is_empty && (lo > want.lo || hi < want.hi))
            fail_msg("trial %d: range %lld..%lld, but %lld..%lld happens", trial, (long long)lo, (long long)hi,
                     (long long)want.lo, (long long)want.hi);
        if (linear && n_guards == 0 && (!ok || lo != want.lo || hi != want.hi))
            fail_msg("trial %d: range %lld..%lld of an affine expression, not %lld..%lld", trial, (long long)lo,
                     (long long)hi, (long long)want.lo, (long long)want.hi);
        end(&x);
    }
    assert_true(n_bounded > N_TRIALS * 9 / 10);
}

/* What formulas really hold: the cases that must come out tight. */
static void test_range_tight(void **state)
{
    static const struct {
        const char *text, *sizes;
        int64_t lo, hi; /* of the first reach, at i = 10, j = 4 */
    } cases[] = {
        {"Y[i,j] = where(i > 0, X[i-1], 0)", NULL, 0, 8},
        {"Y[i,j] = where(i + j < 10, X[i+j], 0)", NULL, 0, 9},
        {"Y[i,j] = where(i < 5 and j < 2, X[i+j], 0)", NULL, 0, 5},
        {"Y[i,j] = where(i == 3, X[2*i+1], 0)", NULL, 7, 7},
        {"Y[i,j] = where(not (i < 3 or j >= 2), X[2*i-j], 0)", NULL, 5, 18},
        {"Y[i,j] = where(2*i + j <= 8, X[2*i+j], 0)", NULL, 0, 8},
        {"Y[i,j] = where(j <= i, X[i-j], 0)", NULL, 0, 9},
        {"Y[i,j] = X[i//4*4 + i%4]", NULL, 0, 9},
        {"Y[i,j] = X[i//4]", NULL, 0, 2},
        {"Y[i,j] = X[(i+2)%16]", NULL, 2, 11},
        {"Y[i,j] = X[(i+j)%5]", NULL, 0, 4},
        {"Y[i,j] = X[size(i)-1-i]", NULL, 0, 9},
        {"Y[i,j] = X[(4*i+6)//4]", NULL, 1, 10},
        {"Y[i,j] = where(i > 20, X[i], 0) + X[j+1]", NULL, 0, -1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        md_fx_formula *f = NULL;
        int64_t size[MD_FX_MAX_DIMS], lo = 0, hi = 0;
        assert_ok(md_fx_formula_create(&f, cases[k].text, NULL));
        assert_true(f->n_reaches >= 1);
        for (int32_t d = 0; d < f->n_dims; d++)
            size[d] = f->dim[d].name[0] == 'i' ? 10 : f->dim[d].name[0] == 'j' ? 4 : 1000;
        const md_fx_reach *r = &f->reach[0];
        const bool ok = md_fx_range(&lo, &hi, f, r->subscript, size, r->n_guards, r->guard);
        if (!ok || lo != cases[k].lo || hi != cases[k].hi)
            fail_msg("%s: %s %lld..%lld, expected %lld..%lld", cases[k].text, ok ? "range" : "no range", (long long)lo,
                     (long long)hi, (long long)cases[k].lo, (long long)cases[k].hi);
        md_fx_formula_destroy(&f);
    }
}

static void test_substitute(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture x;
        begin(&x, check_random(&seed));
        const md_fx_node *n = random_int(&x, 4, false), *to[2] = {random_int(&x, 2, true), random_int(&x, 1, true)};
        const int32_t from[2] = {0, 2};
        const md_fx_node *s = md_fx_substitute(x.formula.arena, n, 2, from, to);
        int64_t at[N_INDICES] = {0};
        assert_non_null(s);
        assert_true(md_fx_equal(&x.formula, n, n));
        do {
            int64_t moved[N_INDICES] = {value_of(&x, to[0], at), at[1], value_of(&x, to[1], at), at[3]};
            assert_int_equal(value_of(&x, s, at), value_of(&x, n, moved));
        } while (next(&x, at));
        if (!md_fx_uses_index(n, 0) && !md_fx_uses_index(n, 2))
            assert_ptr_equal(s, n); /* shares what is unchanged */
        end(&x);
    }
}

static const md_fx_node *reduce(fixture *x, md_fx_op op, int32_t bound, const md_fx_node *body)
{
    md_fx_node *n = md_fx_node_new(x->formula.arena, MD_FX_REDUCE, MD_I64);
    const md_fx_node **arg = md_arena_alloc(x->formula.arena, sizeof(*arg));
    arg[0] = body;
    n->op = op;
    n->n_bound = 1;
    n->bound[0] = bound;
    n->n_args = 1;
    n->arg = arg;
    return n;
}

static void test_equal(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 2);
    md_arena *a = x.formula.arena;
    x.formula.index[1].dim = 0; /* indices 0 and 1 run over one dim, 2 over another */
    const md_fx_node *i0 = md_fx_index_node(a, 0), *i1 = md_fx_index_node(a, 1), *i2 = md_fx_index_node(a, 2);
    const md_fx_node *s0 = reduce(&x, MD_FX_R_SUM, 0, md_fx_op2(a, MD_FX_MUL, i0, i2));
    const md_fx_node *s1 = reduce(&x, MD_FX_R_SUM, 1, md_fx_op2(a, MD_FX_MUL, md_fx_index_node(a, 1), i2));
    assert_true(md_fx_equal(&x.formula, s0, s1));
    assert_false(md_fx_equal(NULL, s0, s1)); /* without a formula nobody knows their dims */
    assert_false(md_fx_equal(&x.formula, i0, i1)); /* free indices keep their names */
    assert_false(
        md_fx_equal(&x.formula, reduce(&x, MD_FX_R_SUM, 0, i0), reduce(&x, MD_FX_R_SUM, 2, i2))); /* other dims */
    assert_false(md_fx_equal(&x.formula, s0, reduce(&x, MD_FX_R_MAX, 0, s0->arg[0])));
    /* a bound index against a free one, in shared bodies too */
    const md_fx_node *body = md_fx_op2(a, MD_FX_SUB, i0, i1);
    assert_false(md_fx_equal(&x.formula, reduce(&x, MD_FX_R_SUM, 0, body), reduce(&x, MD_FX_R_SUM, 1, body)));
    /* nested binders in the other order */
    const md_fx_node *n01 = reduce(&x, MD_FX_R_SUM, 0, reduce(&x, MD_FX_R_MAX, 1, body));
    const md_fx_node *n10 = reduce(&x, MD_FX_R_SUM, 1, reduce(&x, MD_FX_R_MAX, 0, body));
    const md_fx_node *flipped = reduce(&x, MD_FX_R_SUM, 1, reduce(&x, MD_FX_R_MAX, 0, md_fx_op2(a, MD_FX_SUB, i1, i0)));
    assert_false(md_fx_equal(&x.formula, n01, n10));
    assert_true(md_fx_equal(&x.formula, n01, flipped));
    /* -0 is not 0, and a NaN is itself */
    assert_false(md_fx_equal(&x.formula, md_fx_real(a, 0.0, MD_F32), md_fx_real(a, -0.0, MD_F32)));
    assert_true(md_fx_equal(&x.formula, md_fx_real(a, (double)NAN, MD_F32), md_fx_real(a, (double)NAN, MD_F32)));
    end(&x);
}

static const md_fx_node *same(void *user, const md_fx_node *node)
{
    ++*(int *)user;
    return node;
}

static bool count(void *user, const md_fx_node *node)
{
    (void)node;
    ++*(int *)user;
    return true;
}

/* x+x of x+x of ..: 2^40 paths over 41 nodes. All of these end at once, or never. */
static void test_sharing(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 3);
    md_arena *a = x.formula.arena;
    const md_fx_node *n = md_fx_index_node(a, 0), *other = md_fx_index_node(a, 0), *to = md_fx_index_node(a, 1);
    for (int i = 0; i < 40; i++) {
        n = md_fx_op2(a, MD_FX_MAX, n, n);
        other = md_fx_op2(a, MD_FX_MAX, other, other);
    }
    int n_calls = 0;
    assert_true(md_fx_visit(n, count, &n_calls));
    assert_in_range(n_calls, 41, 42); /* leaves are not remembered */
    n_calls = 0;
    assert_ptr_equal(md_fx_rewrite(a, n, same, &n_calls), n);
    assert_int_equal(n_calls, 41);
    assert_true(md_fx_equal(&x.formula, n, other));
    assert_true(md_fx_uses_index(n, 0));
    assert_false(md_fx_uses_index(n, 1));
    assert_false(md_fx_has_kind(n, MD_FX_LOAD));
    const md_fx_node *s = md_fx_substitute(a, n, 1, (const int32_t[]){0}, &to);
    assert_true(md_fx_uses_index(s, 1));
    assert_false(md_fx_uses_index(s, 0));
    end(&x);
}

static void test_scopes(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 4);
    md_arena *a = x.formula.arena;
    const md_fx_node *i0 = md_fx_index_node(a, 0), *i1 = md_fx_index_node(a, 1);
    const md_fx_node *sum = reduce(&x, MD_FX_R_SUM, 0, md_fx_op2(a, MD_FX_ADD, i0, i1));
    assert_false(md_fx_uses_index(sum, 0)); /* bound inside */
    assert_true(md_fx_uses_index(sum->arg[0], 0));
    assert_ptr_equal(md_fx_substitute(a, sum, 1, (const int32_t[]){0}, &i1), sum);
    /* a scan runs along a free index: it moves with it */
    md_fx_node *scan = md_fx_node_new(a, MD_FX_SCAN, MD_I64);
    *scan = *sum;
    scan->kind = MD_FX_SCAN;
    scan->op = MD_FX_S_SUM;
    assert_true(md_fx_uses_index(scan, 0));
    const md_fx_node *moved =
        md_fx_substitute(a, scan, 1, (const int32_t[]){0}, (const md_fx_node *[]){md_fx_index_node(a, 2)});
    assert_int_equal(moved->bound[0], 2);
    assert_true(md_fx_uses_index(moved, 2));
    assert_false(md_fx_uses_index(moved, 0));
    const md_fx_node *shifted = md_fx_op2(a, MD_FX_ADD, i0, md_fx_integer(a, 1));
    assert_null(md_fx_substitute(a, scan, 1, (const int32_t[]){0}, &shifted));
    end(&x);
}

static void test_types(void **state)
{
    (void)state;
    fixture x;
    begin(&x, 5);
    md_arena *a = x.formula.arena;
    const md_fx_node *f32 = md_fx_ref(a, 0, MD_F32), *f64 = md_fx_ref(a, 1, MD_F64), *i64 = md_fx_ref(a, 2, MD_I64),
                     *b = md_fx_ref(a, 3, MD_BOOL);
    md_fx_node *weak = md_fx_node_new(a, MD_FX_CONST, MD_I64);
    weak->weak = true;
    weak->integer = 2;
    assert_int_equal(md_fx_op2(a, MD_FX_ADD, f32, f64)->type, MD_F64);
    assert_int_equal(md_fx_op2(a, MD_FX_ADD, f32, i64)->type, MD_F32);
    assert_int_equal(md_fx_op2(a, MD_FX_DIV, i64, i64)->type, MD_F32);
    assert_int_equal(md_fx_op2(a, MD_FX_FLOORDIV, i64, i64)->type, MD_I64);
    assert_int_equal(md_fx_op2(a, MD_FX_ADD, b, b)->type, MD_I64);
    assert_int_equal(md_fx_op2(a, MD_FX_MAX, b, b)->type, MD_BOOL);
    assert_int_equal(md_fx_op2(a, MD_FX_LT, f64, i64)->type, MD_BOOL);
    assert_int_equal(md_fx_op1(a, MD_FX_EXP, i64)->type, MD_F32);
    assert_int_equal(md_fx_op1(a, MD_FX_FLOOR, i64)->type, MD_I64);
    assert_int_equal(md_fx_op3(a, MD_FX_WHERE, f64, i64, i64)->type, MD_I64);
    const md_fx_node *sum = md_fx_op2(a, MD_FX_MUL, weak, f64);
    assert_int_equal(sum->type, MD_F64);
    assert_int_equal(sum->arg[0]->type, MD_F64);
    assert_true(sum->arg[0]->num == 2.0);
    assert_int_equal(md_fx_op_type(MD_FX_R_ARGMAX, MD_F32), MD_I64);
    assert_int_equal(md_fx_op_type(MD_FX_R_SUM, MD_BOOL), MD_I64);
    assert_int_equal(md_fx_op_type(MD_FX_R_MEAN, MD_I64), MD_F32);
    assert_null(md_fx_op2(a, MD_FX_ADD, NULL, f32));
    assert_null(md_fx_op3(a, MD_FX_FMA, f32, f32, NULL));
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affine),      cmocka_unit_test(test_affine_divides), cmocka_unit_test(test_range),
        cmocka_unit_test(test_range_tight), cmocka_unit_test(test_substitute),     cmocka_unit_test(test_equal),
        cmocka_unit_test(test_sharing),     cmocka_unit_test(test_scopes),         cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
