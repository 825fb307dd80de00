/* Printing: canonical texts, and parse(print(f)) = f for formulas by hand, of the catalogue and at random. */
#include "front_check.h"

#include "support/random/random_formula.h"

#include "expr/catalogue.h"

#include <locale.h>
#include <math.h>

/* ---- equality of formulas made from different texts ---- */

typedef struct pair {
    const md_fx_formula *a, *b;
    const char *difference; /* the first one found */
} pair;

static bool differs(pair *p, bool is_different, const char *what)
{
    if (is_different && !p->difference)
        p->difference = what;
    return is_different;
}

static bool same_index(const pair *p, int32_t a, int32_t b)
{
    const md_fx_index *const x = &p->a->index[a], *const y = &p->b->index[b];
    return strcmp(x->name, y->name) == 0 && x->dim == y->dim && x->is_bound == y->is_bound;
}

static bool same_number(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void compare_nodes(pair *p, const md_fx_node *a, const md_fx_node *b)
{
    const bool is_leaf_different = a->kind == MD_FX_INDEX ? !same_index(p, a->id, b->id) : a->id != b->id;
    if (differs(p, a->kind != b->kind, "kind") || differs(p, a->op != b->op, "op") ||
        differs(p, a->type != b->type, "type") || differs(p, a->to != b->to, "to") ||
        differs(p, is_leaf_different, "id") || differs(p, a->n_args != b->n_args, "n_args") ||
        differs(p, a->n_bound != b->n_bound, "n_bound") || differs(p, a->weak || b->weak, "weak") ||
        differs(p, a->unbiased != b->unbiased || a->exclusive != b->exclusive || a->reverse != b->reverse, "options") ||
        differs(p, !same_number(a->num, b->num) || a->integer != b->integer, "constant"))
        return;
    for (int32_t i = 0; i < a->n_bound; ++i)
        differs(p, !same_index(p, a->bound[i], b->bound[i]), "bound");
    for (int32_t i = 0; i < a->n_args; ++i)
        compare_nodes(p, a->arg[i], b->arg[i]);
}

static void compare_tables(pair *p)
{
    const md_fx_formula *const a = p->a, *const b = p->b;
    for (int32_t i = 0; i < a->n_dims; ++i)
        differs(p,
                strcmp(a->dim[i].name, b->dim[i].name) || a->dim[i].size != b->dim[i].size ||
                    a->dim[i].lo != b->dim[i].lo || a->dim[i].hi != b->dim[i].hi,
                "dim");
    for (int32_t i = 0; i < a->n_scalars; ++i)
        differs(p, strcmp(a->scalar[i].name, b->scalar[i].name) || a->scalar[i].type != b->scalar[i].type, "scalar");
    for (int32_t i = 0; i < a->n_args; ++i)
        differs(p, a->args[i].is_scalar != b->args[i].is_scalar || a->args[i].id != b->args[i].id, "argument");
    for (int32_t i = 0; i < a->n_tensors; ++i) {
        const md_fx_tensor *const x = &a->tensor[i], *const y = &b->tensor[i];
        differs(p,
                strcmp(x->name, y->name) || x->role != y->role || x->dtype != y->dtype || x->rank != y->rank ||
                    x->stmt != y->stmt || x->is_declared != y->is_declared || x->is_updated != y->is_updated,
                "tensor");
        for (int32_t k = 0; k < x->rank; ++k)
            differs(p, x->dim[k] != y->dim[k] || x->at_least[k] != y->at_least[k], "axis");
    }
}

static const char *difference(const md_fx_formula *a, const md_fx_formula *b)
{
    pair p = {.a = a, .b = b};
    if (differs(&p,
                a->n_dims != b->n_dims || a->n_indices != b->n_indices || a->n_tensors != b->n_tensors ||
                    a->n_scalars != b->n_scalars || a->n_stmts != b->n_stmts || a->n_args != b->n_args ||
                    a->n_reaches != b->n_reaches,
                "counts"))
        return p.difference;
    compare_tables(&p);
    for (int32_t i = 0; i < a->n_stmts; ++i) {
        const md_fx_stmt *const x = &a->stmt[i], *const y = &b->stmt[i];
        if (differs(&p, x->tensor != y->tensor || x->assign != y->assign || x->n_free != y->n_free, "statement"))
            return p.difference;
        for (int32_t k = 0; k < x->n_free; ++k)
            differs(&p, !same_index(&p, x->free[k], y->free[k]), "free index");
        for (int32_t k = 0; k < a->tensor[x->tensor].rank; ++k)
            compare_nodes(&p, x->subscript[k], y->subscript[k]);
        compare_nodes(&p, x->value, y->value);
    }
    for (int32_t i = 0; i < a->n_reaches; ++i) {
        const md_fx_reach *const x = &a->reach[i], *const y = &b->reach[i];
        if (differs(&p, x->tensor != y->tensor || x->axis != y->axis || x->n_guards != y->n_guards, "reach"))
            return p.difference;
        compare_nodes(&p, x->subscript, y->subscript);
    }
    return p.difference;
}

static void check_round_trip(const char *text, const md_fx_options *options)
{
    md_fx_formula *a = front_make(text, options), *b = NULL;
    char *const printed = front_print(a);
    if (md_fx_formula_create(&b, printed, NULL) != MD_OK)
        fail_msg("\n  formula: %s\n  prints:  %s\n  which does not parse: %s", text, printed, md_last_error());
    char *const again = front_print(b);
    const char *const what = difference(a, b);
    if (strcmp(printed, again) != 0 || what)
        fail_msg("\n  formula: %s\n  prints:  %s\n  then:    %s\n  differs: %s", text, printed, again,
                 what ? what : "text");
    free(printed);
    free(again);
    md_fx_formula_destroy(&a);
    md_fx_formula_destroy(&b);
}

/* ---- tests ---- */

static void test_canonical(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"Y[i]=X[i]", "Y:f32[i] = X:f32[i]"},
        {"Y [ i ]\n= X[i] # comment\n; ;", "Y:f32[i] = X:f32[i]"},
        {"Y[b,n] = gelu(sum[k](X:bf16[b,k]*W[n,k])+bias[n])",
         "Y:f32[b,n] = gelu(sum[k](X:bf16[b,k] * W:f32[n,k]) + bias:f32[n])"},
        {"let t:bf16[i] = X[i]; L[] = sum[i](t[i])", "let t:bf16[i] = X:f32[i]; L:f32[] = sum[i](t[i])"},
        {"Y[i] = E[ids[i]] + F[ids:i32[i]+1]", "Y:f32[i] = E:f32[ids:i32[i]] + F:f32[ids[i] + 1]"},
        {"Y[i] = X[i] - (X[i] - X[i]) - X[i]", "Y:f32[i] = X:f32[i] - (X[i] - X[i]) - X[i]"},
        {"Y[i] = X[i] * (X[i] / X[i]) / X[i]", "Y:f32[i] = X:f32[i] * (X[i] / X[i]) / X[i]"},
        {"Y[i] = (X[i] + 1) * -X[i] * -2", "Y:f32[i] = (X:f32[i] + 1) * -X[i] * -2"},
        {"Y[i] = -(X[i] * X[i]) - -X[i]", "Y:f32[i] = -(X:f32[i] * X[i]) - -X[i]"},
        {"Y[i] = -X[i] * X[i]", "Y:f32[i] = -X:f32[i] * X[i]"},
        {"Y[i] = X[i] // 2 % 3 * 4", "Y:f32[i] = X:f32[i] // 2 % 3 * 4"},
        {"Y[i] = not (X[i] < 1 and not X[i] == 2) or X[i] >= 3",
         "Y:bool[i] = not (X:f32[i] < 1 and not X[i] == 2) or X[i] >= 3"},
        {"Y[i] = (X[i] < 1) == (X[i] > 2)", "Y:bool[i] = (X:f32[i] < 1) == (X[i] > 2)"},
        {"Y[i] = (not X[i]) == true", "Y:bool[i] = (not X:f32[i] != 0) == true"},
        {"Y[i] = where(X[i] > 0, 1, 0)", "Y:f32[i] = where(X:f32[i] > 0, 1, 0)"},
        {"Y[i] = where(X[i] > 0, i64(1), i64(0))", "Y:i64[i] = where(X:f32[i] > 0, 1, 0)"},
        {"let t[i] = where(X[i] > 0, i64(1), i64(0)); Y[i] = t[i]",
         "let t[i] = where(X:f32[i] > 0, i64(1), i64(0)); Y:i64[i] = t[i]"},
        {"Y[i] = sum[k](where(X[i,k] > 0, 1, 0)) * 0.5",
         "Y:f32[i] = f32(sum[k](where(X:f32[i,k] > 0, i64(1), i64(0)))) * 0.5"},
        {"Y[i] = D:f64[i] * 0.1 + X[i] * 0.1", "Y:f64[i] = D:f64[i] * 0.1 + f64(X:f32[i] * 0.1)"},
        {"Y[i] = i / 2 + i", "Y:f32[i] = f32(i) / 2 + f32(i)"},
        {"Y[i] = mean[k,l](X[i,k,l])", "Y:f32[i] = sum[k,l](X:f32[i,k,l]) / f32(size(k) * size(l))"},
        {"Y[i] = mean[k](N:i32[i,k])", "Y:f32[i] = f32(sum[k](N:i32[i,k])) / f32(size(k))"},
        {"Y[i,j] = cumsum[j](X[i,j], reverse, exclusive) + var[k](X[i,k], unbiased)",
         "Y:f32[i,j] = cumsum[j](X:f32[i,j], exclusive, reverse) + var[k](X[i,k], unbiased)"},
        {"G[ids[i],d] += D[i,d]; L[ids[i]] *= X[i]; H[ids[i]] max= i; K[ids[i]] min= 1",
         "G:f32[ids:i64[i],d] += D:f32[i,d]; L:f32[ids[i]] *= X:f32[i]; H:i64[ids[i]] max= i; K:f32[ids[i]] min= 1"},
        {"Y[i] = a * X[i] + b; scalar a; scalar b:f64", "Y:f64[i] = f64(a * X:f32[i]) + b; scalar a:f32, b:f64"},
        {"scalar a; Y[i] = a * X[i]; scalar b; Z[i] = b * X[i]",
         "scalar a:f32; Y:f32[i] = a * X:f32[i]; scalar b:f32; Z:f32[i] = b * X[i]"},
        {"size n=4, b=1..8; size k=2..; Y[b,n] = sum[k](X[b,n,k])",
         "size b=1..8, n=4, k=2..; Y:f32[b,n] = sum[k](X:f32[b,n,k])"},
        {"Y[i] = inf + X[i] * nan - -inf", "Y:f32[i] = inf + X:f32[i] * nan - -inf"},
        {"Y[i] = X[i] * -0.0 + 1e-5 + 1e30 + 0.1", "Y:f32[i] = X:f32[i] * -0.0 + 1e-05 + 1e+30 + 0.1"},
        {"Y[i] = -9223372036854775807 - 1 + i", "Y:i64[i] = (-9223372036854775807 - 1) + i"},
        {"Y[i] = max[i](X[i]) - sum[i](X[i])", "Y:f32[i] = max[i](X:f32[i]) - sum[i](X[i])"},
        {"Y[i] = sum[j](sum[i](X[i,j]))", "Y:f32[i] = sum[j](sum[i](X:f32[i,j]))"},
        {"Y[i] = X[size(i) - 1 - i]", "Y:f32[i] = X:f32[size(i) - 1 - i]"},
        {"Y[i] = i64(size(i)) + X:i64[i]", "Y:i64[i] = size(i) + X:i64[i]"},
        {"Y[i] = u64(size(i)) % 8 + X:u64[i]", "Y:u64[i] = (size(i) & 7) + i64(X:u64[i])"},
        {"Y[i] = X:u64[i] >= Z:u64[i]",
         "Y:bool[i] = i64(X:u64[i]) ^ (-9223372036854775807 - 1) >= i64(Z:u64[i]) ^ (-9223372036854775807 - 1)"},
        {"Y[] = 2", "Y:f32[] = 2"},
        {"Y[i] = bf16(X[i]) + f32(u8(X[i]))", "Y:f32[i] = bf16(X:f32[i]) + f32(u8(X[i]))"},
        {"Y[i] = X[0,i] + X[1,i]", "Y:f32[i] = X:f32[0,i] + X[1,i]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        front_check_prints(cases[i].text, NULL, cases[i].wanted);
        check_round_trip(cases[i].text, NULL);
    }
}

/* Recurrences are printed as the scans that they are; the order of arguments stays that of the text. */
static void test_recurrences(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"H[t,c] = A[t,c] * H[t-1,c] + B[t,c]", "H:f32[t,c] = recur[t](A:f32[t,c], B:f32[t,c])"},
        {"H[t] = -(H[t+1] - X[t]) / 2 + H[t+1] * A[t]",
         "tensor H:f32[i], X:f32[i], A:f32[i]; H[t] = recur[t](-0.5 + A[t], X[t] / 2, reverse)"},
        {"H[t] = X[t] + H[t-1]; P[t] = P[1+t] * X[t]; M[t] = min(X[t], min(M[t-1], 3))",
         "H:f32[t] = cumsum[t](X:f32[t]); P:f32[t] = cumprod[t](X[t], reverse); M:f32[t] = cummin[t](min(X[t], 3))"},
        {"H[t] = where(t == 0, S[], A[t] * H[t-1] + 1)",
         "tensor H:f32[i], S:f32[], A:f32[i]; H[t] = recur[t](where(t == 0, 0, A[t]), where(t == 0, S[], 1))"},
        {"scalar s; H[t] = (B[t] + A[t] * H[t-1]) * s",
         "scalar s:f32; tensor H:f32[i], B:f32[i], A:f32[i]; H[t] = recur[t](A[t] * s, B[t] * s)"},
        {"H[t] = where(R[t], X[t], fma(A[t], H[t-1], X[t]))",
         "tensor H:f32[i], R:f32[i], X:f32[i], A:f32[i]; "
         "H[t] = recur[t](where(R[t] != 0, 0, A[t]), where(R[t] != 0, X[t], X[t]), where(R[t] != 0, true, false))"},
        {"H[t] = max(A[t] + H[t-1], B[t])", "H:f32[t] = recur_max[t](A:f32[t], B:f32[t])"},
        {"H[t] = min(max(B[t], 1), H[t+1] - A[t]) - C[t]", "tensor H:f32[i], B:f32[i], A:f32[i], C:f32[i]; H[t] = "
                                                           "recur_min[t](-A[t] - C[t], max(B[t], 1) - C[t], reverse)"},
        {"H[t] = where(t > 0, max(H[t-1], X[t]), 3)", "H:f32[t] = cummax[t](where(t > 0, X:f32[t], 3))"},
        {"tensor B[t], Y[t], A[t]; Y[t] = A[t] + B[t]", "tensor B:f32[i], Y:f32[i], A:f32[i]; Y[t] = A[t] + B[t]"},
        {"Y[i,j] = recur[j](X[i,j], 1, reverse) * 2", "Y:f32[i,j] = recur[j](X:f32[i,j], f32(1), reverse) * 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        front_check_prints(cases[i].text, NULL, cases[i].wanted);
        check_round_trip(cases[i].text, NULL);
    }
}

static void test_options_are_printed(void **state)
{
    (void)state;
    const md_fx_options options = {.dtype = MD_BF16, .sizes = "n=11008, k=4096, b=1..8192"};
    const char *const text = "Y[b,n] = sum[k](X[b,k] * W[n,k]) / k_; scalar k_";
    front_check_prints(
        text, &options,
        "size b=1..8192, n=11008, k=4096; Y:bf16[b,n] = sum[k](X:bf16[b,k] * W:bf16[n,k]) / k_; scalar k_:f32");
    check_round_trip(text, &options);
    const md_fx_options doubles = {.dtype = MD_F64};
    front_check_prints("scalar a; Y[i] = X[i] * a + 0.1 + sum[k](1.5)",
                       &(md_fx_options){.dtype = MD_F64, .sizes = "k=3"},
                       "size k=3; scalar a:f64; Y:f64[i] = X:f64[i] * a + 0.1 + f64(sum[k](f32(1.5)))");
    check_round_trip("scalar a; Y[i] = exp(X[i]) * a; Z[i] = where(X[i] > 1, 0.1, 0.2)", &doubles);
    const md_fx_options ints = {.dtype = MD_I32};
    front_check_prints("Y[i] = X[i]; Z[i] = X[i] + 1; W[i] = 0.5; V[i] = 3", &ints,
                       "Y:i32[i] = X:i32[i]; Z:i64[i] = X[i] + 1; W:f32[i] = 0.5; V:i32[i] = 3");
    check_round_trip("Y[i] = X[i]; Z[i] = X[i] / 2", &ints);
}

/* A binder that shadows an index of another size has a dim of its own, and its size is named by an axis. */
static void test_shadows(void **state)
{
    (void)state;
    const char *const text = "Y[i,j] = X[i,j] * mean[j](W[j,i]) + size(j)";
    check_round_trip(text, NULL);
    md_fx_formula *f = front_make(text, NULL);
    assert_int_equal(f->n_dims, 3);
    assert_string_equal(f->dim[2].name, "j_2");
    char *const printed = front_print(f);
    assert_string_equal(printed, "Y:f32[i,j] = X:f32[i,j] * (sum[j](W:f32[j,i]) / f32(size(W.0))) + f32(size(Y.1))");
    free(printed);
    md_fx_formula_destroy(&f);
    check_round_trip(text, &(md_fx_options){.sizes = "j_2=5, j=1.."});
}

static void test_catalogue(void **state)
{
    (void)state;
    const md_dtype dtypes[] = {MD_F32, MD_BF16, MD_F64};
    for (int32_t i = 0; md_catalogue_at(i); ++i)
        for (int k = 0; k < 3; ++k)
            check_round_trip(md_catalogue_at(i)->formula, &(md_fx_options){.dtype = dtypes[k]});
}

/* A program may have set a locale whose decimal point is a comma. */
static void test_locale(void **state)
{
    (void)state;
    const char *const before = strdup(setlocale(LC_ALL, NULL));
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ar_EG.UTF-8"};
    const char *set = NULL;
    for (int i = 0; i < 4 && !set; ++i)
        set = setlocale(LC_ALL, names[i]);
    if (!set)
        print_message("no locale with a decimal comma here: only the plain one is tested\n");
    front_check_prints("Y[i] = X[i] * 0.1 + 1.5e-7 + .25", NULL, "Y:f32[i] = X:f32[i] * 0.1 + 1.5e-07 + 0.25");
    setlocale(LC_ALL, before);
    free((char *)before);
}

/* What the generator does not avoid: literals that are folded into something that has no value, and sheer size. */
static bool is_fair_refusal(const char *message)
{
    return strstr(message, "more than 96 indices") || strstr(message, "division by zero") ||
           strstr(message, "too large for f32") || strstr(message, "does not fit in 64 bits");
}

static void test_random(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int n_legal = 0;
    const int n = 3000;
    for (int i = 0; i < n; ++i) {
        md_strbuf b = {0};
        const random_formula_options options = {.max_depth = 1 + i % 6};
        random_formula(&b, &seed, &options);
        md_fx_formula *f = NULL;
        const md_status status = md_fx_formula_create(&f, md_strbuf_text(&b), NULL);
        if (status == MD_OK)
            check_round_trip(md_strbuf_text(&b), NULL);
        else if (!is_fair_refusal(md_last_error()))
            fail_msg("%s", md_last_error());
        n_legal += status == MD_OK;
        md_fx_formula_destroy(&f);
        md_strbuf_finish(&b);
    }
    assert_true(n_legal > n * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_recurrences),
        cmocka_unit_test(test_options_are_printed),
        cmocka_unit_test(test_shadows),
        cmocka_unit_test(test_catalogue),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
