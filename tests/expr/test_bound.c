/* The support that other tests lean on: bounds hold for the reference itself, are tight enough to catch a wrong
 * element, and random operations are legal. */
#include "base/dtype.h"
#include "support/tolerance/bound.h"
#include "support/check.h"
#include "support/conformance.h"
#include "support/random/data.h"
#include "support/random/random_formula.h"
#include "support/random/random_op.h"

#include <math.h>

typedef struct tally {
    int64_t n_elements, n_unchecked, n_loose; /* loose: a relative error of 1e-3 would pass */
    int n_formulas;
} tally;

static void check_one(tally *all, const md_fx_formula *f, data_set *d)
{
    char text[300] = "", sizes[200];
    bound_result result[MD_FX_MAX_TENSORS];
    md_fx_binding b;
    md_fx_fault fault = {0};
    data_sizes(sizes, sizeof(sizes), d);
    if (data_bind(&b, d) != MD_OK)
        fail_msg("%s\nat %s: %s", f->text, sizes, md_last_error());
    assert_ok(bound_evaluate(result, f, &b, NULL));
    assert_ok(md_fx_evaluate(f, &b, &fault));
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (f->tensor[t].role != MD_FX_OUTPUT)
            continue;
        if (!bound_check(&result[t], &d->tensor[t].host, &all->n_unchecked, text, sizeof(text)))
            fail_msg("%s\nat %s: '%s': %s", f->text, sizes, f->tensor[t].name, text);
        all->n_elements += result[t].n;
        for (int64_t i = 0; i < result[t].n; i++)
            all->n_loose +=
                isfinite(result[t].error[i]) && result[t].error[i] > 1e-3 * (fabs(result[t].value[i]) + 0.1);
    }
    if (!data_is_intact(d, text, sizeof(text)))
        fail_msg("%s: %s", f->text, text);
    bound_finish(result, f);
    all->n_formulas++;
}

static void run_text(tally *all, const char *text, uint64_t *seed, const data_options *options)
{
    static const md_dtype dtypes[] = {MD_F32, MD_F32, MD_BF16, MD_F16, MD_F64};
    md_fx_formula *f = NULL;
    data_set d;
    md_fx_options o = {.dtype = dtypes[check_random(seed) % 5]};
    if (strstr(text, "K[r,s]") || strstr(text, "X[2*i]"))
        o.sizes = strstr(text, "K[r,s]") ? "r=3, s=2" : NULL;
    if (md_fx_formula_create(&f, text, &o) != MD_OK)
        fail_msg("%s", md_last_error());
    if (data_make(&d, f, check_random(seed), options)) {
        check_one(all, f, &d);
        data_finish(&d);
    }
    md_fx_formula_destroy(&f);
}

static void test_random_ops(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int kind = 0; kind < RANDOM_OP_N_KINDS; kind++) {
        tally all = {0};
        for (int trial = 0; trial < 60; trial++) {
            md_strbuf text = {0};
            const data_options options = {.view = (data_view)(trial % DATA_N_VIEWS), .max_work = 20000};
            random_op(&text, &seed, (random_op_kind)kind);
            run_text(&all, md_strbuf_text(&text), &seed, &options);
            md_strbuf_finish(&text);
        }
        print_message("kind %d: %d formulas, %lld elements, %lld unchecked, %lld loose\n", kind, all.n_formulas,
                      (long long)all.n_elements, (long long)all.n_unchecked, (long long)all.n_loose);
        assert_true(all.n_formulas > 50 && all.n_elements > 500);
        assert_true(all.n_unchecked * 6 < all.n_elements); /* argmax of near ties */
        assert_true(all.n_loose * 20 < all.n_elements);
    }
}

/* Wild formulas: much may be uncertain, but never wrong. */
static void test_wild(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    tally all = {0};
    for (int trial = 0; trial < 200; trial++) {
        md_strbuf text = {0};
        const data_options options = {.view = (data_view)(trial % DATA_N_VIEWS),
                                      .specials = trial % 2,
                                      .bad_indices = trial % 3 == 0,
                                      .max_work = 8000};
        const random_formula_options o = {.without_specials = trial % 2 == 0, .max_depth = 3};
        random_formula(&text, &seed, &o);
        run_text(&all, md_strbuf_text(&text), &seed, &options);
        md_strbuf_finish(&text);
    }
    print_message("%d formulas, %lld elements, %lld unchecked, %lld loose\n", all.n_formulas, (long long)all.n_elements,
                  (long long)all.n_unchecked, (long long)all.n_loose);
    assert_true(all.n_unchecked * 2 < all.n_elements);
}

/* A wrong element is found: one ulp off in a copy, 1e-3 off after arithmetic. */
static void test_catches(void **state)
{
    static const struct {
        const char *text;
        double factor;
    } cases[] = {{"Y[i,j] = X[i,j]", 1.0 + 0x1p-23},
                 {"Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", 1.0 + 1e-4},
                 {"Y[i,j] = sum[k](X[i,k] * X[j,k])", 1.0 + 1e-3},
                 {"Y[i,j] = cumsum[j](abs(X[i,j]))", 1.0 + 1e-4}};
    (void)state;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        char text[300];
        md_fx_formula *f = NULL;
        data_set d;
        md_fx_binding b;
        bound_result result[MD_FX_MAX_TENSORS];
        int64_t size[MD_FX_MAX_DIMS], n_unchecked = 0;
        for (int i = 0; i < MD_FX_MAX_DIMS; i++)
            size[i] = 17;
        assert_ok(md_fx_formula_create(&f, cases[k].text, NULL));
        assert_true(data_make(&d, f, 5 + k, &(data_options){.size = size, .max_work = 10000000}));
        assert_ok(data_bind(&b, &d));
        assert_ok(bound_evaluate(result, f, &b, NULL));
        assert_ok(md_fx_evaluate(f, &b, NULL));
        float *y = d.tensor[0].host.data;
        y[40] = (float)((double)y[40] * cases[k].factor);
        assert_false(bound_check(&result[0], &d.tensor[0].host, &n_unchecked, text, sizeof(text)));
        assert_non_null(strstr(text, "element 40 of 289"));
        assert_int_equal(n_unchecked, 0);
        y[-1] = 0.0f; /* the guard */
        assert_false(data_is_intact(&d, text, sizeof(text)));
        assert_string_equal(text, "'Y' was written outside of its elements, at byte -4 of its data");
        bound_finish(result, f);
        data_finish(&d);
        md_fx_formula_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_ops), cmocka_unit_test(test_wild),
                                       cmocka_unit_test(test_catches)};
    return cmocka_run_group_tests_name("bound", tests, NULL, NULL);
}
