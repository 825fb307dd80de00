/* Affine forms and ranges of integer expressions: random ones against all values that they take, and the cases that
 * must come out tight. */
#include "node_random.h"

#include "base/status.h"
#include "expr/range/range.h"

static void test_affine(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture f;
        begin(&f, check_random(&seed));
        const md_fx_node *n = random_int(&f, 4, true);
        md_fx_affine a;
        int64_t at[N_INDICES] = {0};
        assert_true(md_fx_affine_of(&a, &f.formula, n));
        for (int32_t i = 0; i < a.n_sizes; i++)
            assert_true(f.formula.dim[a.dim[i]].size < 0); /* static ones are folded */
        do {
            int64_t sum = a.constant;
            for (int32_t i = 0; i < a.n; i++)
                sum += a.coef[i] * at[a.index[i]];
            for (int32_t i = 0; i < a.n_sizes; i++)
                sum += a.size_coef[i] * f.size[a.dim[i]];
            assert_int_equal(sum, value_of(&f, n, at));
        } while (next(&f, at));
        end(&f);
    }
}

static void test_affine_divides(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    md_arena *a = f.formula.arena;
    const md_fx_node *h = md_fx_index_node(a, 0), *four = md_fx_integer(a, 4);
    const md_fx_node *e = md_fx_op2(a, MD_FX_ADD, md_fx_op2(a, MD_FX_MUL, h, four), md_fx_integer(a, -2));
    md_fx_affine out;
    assert_true(md_fx_affine_of(&out, &f.formula, md_fx_op2(a, MD_FX_FLOORDIV, e, four)));
    assert_int_equal(out.constant, -1);
    assert_int_equal(out.coef[0], 1);
    assert_true(md_fx_affine_of(&out, &f.formula, md_fx_op2(a, MD_FX_MOD, e, four)));
    assert_int_equal(out.constant, 2);
    assert_int_equal(out.n, 0);
    assert_false(md_fx_affine_of(&out, &f.formula, md_fx_op2(a, MD_FX_FLOORDIV, h, four)));
    assert_false(md_fx_affine_of(&out, &f.formula, md_fx_op2(a, MD_FX_MUL, h, h)));
    /* 2^62 * 2 overflows; so does x+x of x+x of .., before it takes exponential time */
    const md_fx_node *big = md_fx_op2(a, MD_FX_MUL, h, md_fx_integer(a, INT64_C(1) << 62));
    assert_false(md_fx_affine_of(&out, &f.formula, md_fx_op2(a, MD_FX_ADD, big, big)));
    for (int i = 0; i < 60; i++)
        e = md_fx_op2(a, MD_FX_ADD, e, e);
    assert_false(md_fx_affine_of(&out, &f.formula, e));
    int64_t lo, hi;
    assert_false(md_fx_range(&lo, &hi, &f.formula, f.size, &(md_fx_reach){.subscript = e}));
    end(&f);
}

static const md_fx_node *random_guard(fixture *f, int depth)
{
    md_arena *a = f->formula.arena;
    if (depth > 0 && pick(f, 0, 3) == 0)
        return md_fx_op1(a, MD_FX_NOT, random_guard(f, depth - 1));
    if (depth > 0 && pick(f, 0, 2) == 0)
        return md_fx_op2(a, pick(f, 0, 1) ? MD_FX_AND : MD_FX_OR, random_guard(f, depth - 1),
                         random_guard(f, depth - 1));
    return md_fx_op2(a, MD_FX_LT + (md_fx_op)pick(f, 0, 5), random_int(f, 2, true), random_int(f, 1, true));
}

typedef struct extent {
    int64_t lo, hi;
    bool is_empty;
} extent;

static extent extent_of(const fixture *f, const md_fx_node *n, int32_t n_guards, const md_fx_node *const *guard)
{
    extent e = {INT64_MAX, INT64_MIN, true};
    int64_t at[N_INDICES] = {0};
    do {
        bool holds = true;
        for (int32_t i = 0; i < n_guards; i++)
            holds &= value_of(f, guard[i], at) != 0;
        if (!holds)
            continue;
        const int64_t v = value_of(f, n, at);
        e = (extent){v < e.lo ? v : e.lo, v > e.hi ? v : e.hi, false};
    } while (next(f, at));
    return e;
}

/* Never narrower than what happens; exact for affine expressions in which each index stands once. */
static void test_range(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int n_bounded = 0;
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture f;
        begin(&f, check_random(&seed));
        const bool linear = trial % 3 == 0;
        const int32_t n_guards = trial % 2 ? (int32_t)pick(&f, 1, 2) : 0;
        const md_fx_node *n = random_int(&f, 3, linear), *guard[2] = {random_guard(&f, 1), random_guard(&f, 1)};
        const extent want = extent_of(&f, n, n_guards, guard);
        int64_t lo, hi;
        const bool ok = md_fx_range(&lo, &hi, &f.formula, f.size,
                                    &(md_fx_reach){.subscript = n, .n_guards = n_guards, .guard = guard});
        n_bounded += ok;
        if (ok && !want.is_empty && (lo > want.lo || hi < want.hi))
            fail_msg("trial %d: range %lld..%lld, but %lld..%lld happens", trial, (long long)lo, (long long)hi,
                     (long long)want.lo, (long long)want.hi);
        if (linear && n_guards == 0 && (!ok || lo != want.lo || hi != want.hi))
            fail_msg("trial %d: range %lld..%lld of an affine expression, not %lld..%lld", trial, (long long)lo,
                     (long long)hi, (long long)want.lo, (long long)want.hi);
        end(&f);
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

/* ---- Intervals under one operation, against all values in them */

static int64_t integer_op(md_fx_op op, int64_t a, int64_t b, int64_t c)
{
    switch ((int)op) {
    case MD_FX_MUL:
        return a * b;
    case MD_FX_FLOORDIV:
        return floor_div(a, b);
    case MD_FX_MOD:
        return a - floor_div(a, b) * b;
    case MD_FX_BIT_AND:
        return a & b;
    case MD_FX_BIT_OR:
        return a | b;
    case MD_FX_BIT_XOR:
        return a ^ b;
    case MD_FX_SHL:
        return a * (INT64_C(1) << b);
    case MD_FX_SHR:
        return a >> b;
    case MD_FX_MIN:
        return MD_MIN(a, b);
    case MD_FX_MAX:
        return MD_MAX(a, b);
    case MD_FX_CLAMP:
        return MD_MIN(MD_MAX(a, b), c);
    case MD_FX_ABS:
        return a < 0 ? -a : a;
    case MD_FX_RELU:
        return MD_MAX(a, 0);
    default:
        return (a > 0) - (a < 0); /* sign */
    }
}

/* Where an operation has no range, and how much wider than its values it may be. */
static const struct {
    md_fx_op op;
    int32_t n_args;
    int64_t least_b, most_b; /* for which there must be a range */
    bool is_exact;
} operation[] = {
    {MD_FX_MUL, 2, -5, 5, true},     {MD_FX_FLOORDIV, 2, 1, 5, true}, {MD_FX_FLOORDIV, 2, -5, -1, true},
    {MD_FX_MOD, 2, 1, 5, false},     {MD_FX_BIT_AND, 2, 0, 5, false}, {MD_FX_BIT_OR, 2, 0, 5, false},
    {MD_FX_BIT_XOR, 2, 0, 5, false}, {MD_FX_MIN, 2, -5, 5, true},     {MD_FX_MAX, 2, -5, 5, true},
    {MD_FX_CLAMP, 3, -5, 5, true},   {MD_FX_ABS, 1, 0, 0, true},      {MD_FX_RELU, 1, 0, 0, true},
    {MD_FX_SIGN, 1, 0, 0, true},
};

static md_range_interval values_of(md_fx_op op, md_range_interval a, md_range_interval b, md_range_interval c)
{
    md_range_interval out = {INT64_MAX, INT64_MIN};
    for (int64_t i = a.lo; i <= a.hi; i++)
        for (int64_t j = b.lo; j <= b.hi; j++)
            for (int64_t k = c.lo; k <= c.hi; k++) {
                const int64_t v = integer_op(op, i, j, k);
                out = (md_range_interval){MD_MIN(out.lo, v), MD_MAX(out.hi, v)};
            }
    return out;
}

/* A remainder is below its divisor, and of one block of it exact; bits are no more than those of the larger operand. */
static int64_t highest_allowed(md_fx_op op, md_range_interval a, md_range_interval b)
{
    int64_t bits = 0;
    while (bits < MD_MAX(a.hi, b.hi))
        bits = 2 * bits + 1;
    return op == MD_FX_MOD       ? (a.lo >= 0 ? MD_MIN(a.hi, b.hi - 1) : b.hi - 1)
           : op == MD_FX_BIT_AND ? MD_MAX(a.hi, b.hi)
                                 : bits;
}

static void check_interval(int32_t row, md_range_interval a, md_range_interval b, md_range_interval c)
{
    const md_fx_op op = operation[row].op;
    const md_range_interval want = values_of(op, a, b, c);
    md_range_interval is = {0, 0};
    const bool has_range = md_interval_op(&is, op, a, b, c), is_bits = op >= MD_FX_BIT_AND && op <= MD_FX_BIT_XOR;
    if (!has_range && is_bits && a.lo < 0)
        return;
    if (!has_range || is.lo > want.lo || is.hi < want.hi ||
        (operation[row].is_exact && (is.lo != want.lo || is.hi != want.hi)) ||
        (!operation[row].is_exact && (is.lo < 0 || is.hi > highest_allowed(op, a, b))))
        fail_msg("%s of %d..%d, %d..%d, %d..%d: %s %lld..%lld, not %lld..%lld", md_fx_op_info(op)->name, (int)a.lo,
                 (int)a.hi, (int)b.lo, (int)b.hi, (int)c.lo, (int)c.hi, has_range ? "range" : "no range",
                 (long long)is.lo, (long long)is.hi, (long long)want.lo, (long long)want.hi);
}

static void test_intervals(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int32_t row = 0; row < MD_COUNT(operation); row++)
        for (int64_t lo = -6; lo <= 6; lo++)
            for (int64_t hi = lo; hi <= 6; hi++)
                for (int64_t b = operation[row].least_b; b <= operation[row].most_b; b++)
                    for (int64_t top = b; top <= operation[row].most_b; top++) {
                        const int64_t c = (int64_t)(check_random(&seed) % 9) - 4;
                        check_interval(row, (md_range_interval){lo, hi}, (md_range_interval){b, top},
                                       (md_range_interval){c, c + (int64_t)(check_random(&seed) % 3)});
                    }
    for (int64_t n = 0; n <= 62; n++) { /* shifts by one number */
        md_range_interval out, a = {-3, 5}, by = {n, n};
        assert_true(md_interval_op(&out, MD_FX_SHR, a, by, by));
        assert_true(out.lo == INT64_C(-3) >> n && out.hi == INT64_C(5) >> n);
        assert_int_equal(md_interval_op(&out, MD_FX_SHL, a, by, by), n < 61);
        assert_true(n >= 61 || (out.lo == -3 * (INT64_C(1) << n) && out.hi == 5 * (INT64_C(1) << n)));
    }
}

/* There is no range where a value overflows, divides by zero, or a count is none. */
static void test_no_intervals(void **state)
{
    (void)state;
    static const struct {
        md_fx_op op;
        md_range_interval a, b;
    } row[] = {{MD_FX_MUL, {INT64_MIN, 0}, {-1, 1}}, {MD_FX_MUL, {0, INT64_MAX}, {0, 2}},
               {MD_FX_FLOORDIV, {0, 9}, {0, 3}},     {MD_FX_FLOORDIV, {0, 9}, {-3, 0}},
               {MD_FX_FLOORDIV, {0, 9}, {-1, 1}},    {MD_FX_FLOORDIV, {INT64_MIN, 9}, {-2, -1}},
               {MD_FX_MOD, {0, 9}, {0, 3}},          {MD_FX_MOD, {0, 9}, {-3, 3}},
               {MD_FX_ABS, {INT64_MIN, 9}, {0, 0}},  {MD_FX_SHL, {0, 1}, {1, 2}},
               {MD_FX_SHR, {0, 1}, {-1, -1}},        {MD_FX_SHR, {0, 1}, {63, 63}},
               {MD_FX_BIT_AND, {-1, 1}, {-1, 1}},    {MD_FX_BIT_OR, {-1, 1}, {0, 1}},
               {MD_FX_BIT_XOR, {0, 1}, {-1, 1}}};
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        md_range_interval out;
        if (md_interval_op(&out, row[i].op, row[i].a, row[i].b, row[i].b))
            fail_msg("row %d: %lld..%lld", i, (long long)out.lo, (long long)out.hi);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_affine),      cmocka_unit_test(test_affine_divides), cmocka_unit_test(test_range),
        cmocka_unit_test(test_range_tight), cmocka_unit_test(test_intervals),      cmocka_unit_test(test_no_intervals),
    };
    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
