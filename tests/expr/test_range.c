/* Affine forms and ranges of integer expressions: random ones against all values that they take, and the cases that
 * must come out tight. */
#include "node_random.h"

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
    assert_false(md_fx_range(&lo, &hi, &x.formula, x.size, &(md_fx_reach){.subscript = e}));
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
        const bool ok = md_fx_range(&lo, &hi, &x.formula, x.size,
                                    &(md_fx_reach){.subscript = n, .n_guards = n_guards, .guard = guard});
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
static const struct {
    const char *text, *sizes;
    int64_t lo, hi; /* of the first reach, at i = 10, j = 4 */
} tight[] = {
    {"Y[i,j] = where(i > 0, X[i-1], 0)", NULL, 0, 8},
    {"Y[i,j] = where(i + j < 10, X[i+j], 0)", NULL, 0, 9},
    {"Y[i,j] = where(i < 5 and j < 2, X[i+j], 0)", NULL, 0, 5},
    {"Y[i,j] = where(i == 3, X[2*i+1], 0)", NULL, 7, 7},
    {"Y[i,j] = where(not (i < 3 or j >= 2), X[2*i-j], 0)", NULL, 5, 18},
    {"Y[i,j] = where(2*i + j <= 8, X[2*i+j], 0)", NULL, 0, 8},
    {"Y[i,j] = where(j <= i, X[i-j], 0)", NULL, 0, 9},
    {"Y[i,j] = X[i//4*4 + i%4]", NULL, 0, 9},
    {"Y[i,j] = X[i//4]", NULL, 0, 2},
    {"Y[i,j] = X[5*(i//4) + i%4]", NULL, 0, 11},
    {"Y[i,j] = X[8*(i//4) + 2*(i%4)]", NULL, 0, 18}, /* 2*i */
    {"Y[i,j] = where(2*i >= 5, X[i-3], 0)", NULL, 0, 6}, /* i >= 3 */
    {"Y[i,j] = where(2*i >= 6, X[i-3], 0)", NULL, 0, 6},
    {"Y[i,j] = where(3*i <= 8, X[i+0], 0)", NULL, 0, 2},
    {"Y[i,j] = where(3*i <= 9, X[i+0], 0)", NULL, 0, 3},
    /* neutral operations */
    {"Y[i,j] = where((i + 0) // 2 < 2, X[(i + 0) // 2], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i * 1) // 2 < 2, X[(i * 1) // 2], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i - 0) // 2 < 2, X[i // 2], 0)", NULL, 0, 1},
    {"Y[i,j] = where(i // 2 < 2, X[-(-i) // 2], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i // 1) // 2 < 2, X[(0 + i) // 2], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i + 0) % 4 < 2, X[(i * 1) % 4], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i // 1) % 4 < 2, X[-(-i) % 4], 0)", NULL, 0, 1},
    {"Y[i,j] = where((i + 2) // 4 % 2 < 1, X[(2 + i) // 4 % 2], 0)", NULL, 0, 0},
    /* conditions that are no comparison of affine expressions */
    {"Y[i,j] = where(i % 2 == 0, X[i+1], 0)", NULL, 1, 9},
    {"Y[i,j] = where(i % 2 == 0, 0, X[i-1])", NULL, 0, 8},
    {"Y[i,j] = where(i != 0, X[i-1], 0)", NULL, 0, 8},
    {"Y[i,j] = where(i == size(i)-1, 0, X[i+1])", NULL, 1, 9},
    {"Y[i,j] = where(i != 1 and i != 0, X[i-2], 0)", NULL, 0, 7},
    {"Y[i,j] = where(i // 2 > 0, X[i-2], 0)", NULL, 0, 7},
    {"Y[i,j] = where(j % 4 < 3, X[j+1], 0)", NULL, 1, 3},
    {"Y[i,j] = where(abs(i - 3) < 2, X[i-2], 0)", NULL, 0, 2},
    {"Y[i,j] = where(min(i, 3) > 0, X[i-1], 0)", NULL, 0, 8},
    {"Y[i,j] = where(max(i, j) < 3, X[i+j], 0)", NULL, 0, 4},
    {"Y[i,j] = X[(i+2)%16]", NULL, 2, 11},
    {"Y[i,j] = X[(i+j)%5]", NULL, 0, 4},
    {"Y[i,j] = X[size(i)-1-i]", NULL, 0, 9},
    {"Y[i,j] = X[(4*i+6)//4]", NULL, 1, 10},
    {"Y[i,j] = where(i > 20, X[i], 0) + X[j+1]", NULL, 0, -1},
};

static void test_range_tight(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(tight) / sizeof(tight[0]); k++) {
        md_fx_formula *f = NULL;
        int64_t size[MD_FX_MAX_DIMS], lo = 0, hi = 0;
        assert_ok(md_fx_formula_create(&f, tight[k].text, NULL));
        assert_true(f->n_reaches >= 1);
        for (int32_t d = 0; d < f->n_dims; d++)
            size[d] = f->dim[d].name[0] == 'i' ? 10 : f->dim[d].name[0] == 'j' ? 4 : 1000;
        const md_fx_reach *r = &f->reach[0];
        const bool ok = md_fx_range(&lo, &hi, f, size, r);
        if (!ok || lo != tight[k].lo || hi != tight[k].hi)
            fail_msg("%s: %s %lld..%lld, expected %lld..%lld", tight[k].text, ok ? "range" : "no range", (long long)lo,
                     (long long)hi, (long long)tight[k].lo, (long long)tight[k].hi);
        md_fx_formula_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affine),
        cmocka_unit_test(test_affine_divides),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_range_tight),
    };
    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
