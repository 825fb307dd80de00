/* Properties of nodes: equality, substitution, rewriting, types, on random expressions. */
#include "expr/memo.h"
#include "node_random.h"

#include <math.h>

static void test_substitute(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int trial = 0; trial < N_TRIALS; trial++) {
        fixture f;
        begin(&f, check_random(&seed));
        const md_fx_node *n = random_int(&f, 4, false), *to[2] = {random_int(&f, 2, true), random_int(&f, 1, true)};
        const int32_t from[2] = {0, 2};
        const md_fx_node *s = md_fx_substitute(f.formula.arena, n, 2, from, to);
        int64_t at[N_INDICES] = {0};
        assert_non_null(s);
        assert_true(md_fx_equal(&f.formula, n, n));
        do {
            int64_t moved[N_INDICES] = {value_of(&f, to[0], at), at[1], value_of(&f, to[1], at), at[3]};
            assert_int_equal(value_of(&f, s, at), value_of(&f, n, moved));
        } while (next(&f, at));
        if (!md_fx_uses_index(n, 0) && !md_fx_uses_index(n, 2))
            assert_ptr_equal(s, n); /* shares what is unchanged */
        end(&f);
    }
}

/* The whole key counts: two pointers, in their order, and the tag; while there are few entries, and as a table. */
static void test_memo(void **state)
{
    enum { A = 5, B = 6, TAGS = 4, KEYS = A * B * TAGS };
    static const int32_t sizes[] = {0, 1, 2, MD_MEMO_FEW, MD_MEMO_FEW + 1, 47, 48, 49, KEYS};
    static const char places[KEYS];
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int32_t step = 1; step <= 7; step += 6) { /* tags change first, or last */
            md_memo memo = {0};
            for (int32_t pass = 0; pass < 3; pass++) /* puts, puts again, looks */
                for (int32_t i = 0; i < KEYS; i++) {
                    const int32_t key = (i * step + (step > 1)) % KEYS;
                    const void *const a = &places[key / TAGS % A], *const b = key / TAGS / A == A
                                                                                  ? NULL
                                                                                  : &places[key / TAGS / A];
                    const intptr_t tag = key % TAGS - 1;
                    const void *value = places;
                    if (pass < 2 && i < sizes[s])
                        assert_true(md_memo_put(&memo, a, b, tag, &places[(key + pass) % KEYS]));
                    if (pass < 2)
                        continue;
                    assert_int_equal(md_memo_find(&memo, a, b, tag, &value), i < sizes[s]);
                    assert_ptr_equal(value, i < sizes[s] ? &places[(key + 1) % KEYS] : places);
                }
            assert_int_equal(memo.n, sizes[s]);
            md_memo_finish(&memo);
        }
}

static const md_fx_node *reduce(fixture *f, md_fx_op op, int32_t bound, const md_fx_node *body)
{
    md_fx_node *n = md_fx_node_new(f->formula.arena, MD_FX_REDUCE, MD_I64);
    const md_fx_node **arg = md_arena_alloc(f->formula.arena, sizeof(*arg));
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
    fixture f;
    begin(&f, 2);
    md_arena *a = f.formula.arena;
    f.formula.index[1].dim = 0; /* indices 0 and 1 run over one dim, 2 over another */
    const md_fx_node *i0 = md_fx_index_node(a, 0), *i1 = md_fx_index_node(a, 1), *i2 = md_fx_index_node(a, 2);
    const md_fx_node *s0 = reduce(&f, MD_FX_R_SUM, 0, md_fx_op2(a, MD_FX_MUL, i0, i2));
    const md_fx_node *s1 = reduce(&f, MD_FX_R_SUM, 1, md_fx_op2(a, MD_FX_MUL, md_fx_index_node(a, 1), i2));
    assert_true(md_fx_equal(&f.formula, s0, s1));
    assert_false(md_fx_equal(NULL, s0, s1)); /* without a formula nobody knows their dims */
    assert_false(md_fx_equal(&f.formula, i0, i1)); /* free indices keep their names */
    assert_false(
        md_fx_equal(&f.formula, reduce(&f, MD_FX_R_SUM, 0, i0), reduce(&f, MD_FX_R_SUM, 2, i2))); /* other dims */
    assert_false(md_fx_equal(&f.formula, s0, reduce(&f, MD_FX_R_MAX, 0, s0->arg[0])));
    /* a bound index against a free one, in shared bodies too */
    const md_fx_node *body = md_fx_op2(a, MD_FX_SUB, i0, i1);
    assert_false(md_fx_equal(&f.formula, reduce(&f, MD_FX_R_SUM, 0, body), reduce(&f, MD_FX_R_SUM, 1, body)));
    /* nested binders in the other order */
    const md_fx_node *n01 = reduce(&f, MD_FX_R_SUM, 0, reduce(&f, MD_FX_R_MAX, 1, body));
    const md_fx_node *n10 = reduce(&f, MD_FX_R_SUM, 1, reduce(&f, MD_FX_R_MAX, 0, body));
    const md_fx_node *flipped = reduce(&f, MD_FX_R_SUM, 1, reduce(&f, MD_FX_R_MAX, 0, md_fx_op2(a, MD_FX_SUB, i1, i0)));
    assert_false(md_fx_equal(&f.formula, n01, n10));
    assert_true(md_fx_equal(&f.formula, n01, flipped));
    /* -0 is not 0, and a NaN is itself */
    assert_false(md_fx_equal(&f.formula, md_fx_real(a, 0.0, MD_F32), md_fx_real(a, -0.0, MD_F32)));
    assert_true(md_fx_equal(&f.formula, md_fx_real(a, (double)NAN, MD_F32), md_fx_real(a, (double)NAN, MD_F32)));
    end(&f);
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
    fixture f;
    begin(&f, 3);
    md_arena *a = f.formula.arena;
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
    assert_true(md_fx_equal(&f.formula, n, other));
    assert_true(md_fx_uses_index(n, 0));
    assert_false(md_fx_uses_index(n, 1));
    assert_false(md_fx_has_kind(n, MD_FX_LOAD));
    const md_fx_node *s = md_fx_substitute(a, n, 1, (const int32_t[]){0}, &to);
    assert_true(md_fx_uses_index(s, 1));
    assert_false(md_fx_uses_index(s, 0));
    end(&f);
}

static void test_scopes(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 4);
    md_arena *a = f.formula.arena;
    const md_fx_node *i0 = md_fx_index_node(a, 0), *i1 = md_fx_index_node(a, 1);
    const md_fx_node *sum = reduce(&f, MD_FX_R_SUM, 0, md_fx_op2(a, MD_FX_ADD, i0, i1));
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
    end(&f);
}

static void test_types(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 5);
    md_arena *a = f.formula.arena;
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
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_substitute), cmocka_unit_test(test_memo),   cmocka_unit_test(test_equal),
        cmocka_unit_test(test_sharing),    cmocka_unit_test(test_scopes), cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
