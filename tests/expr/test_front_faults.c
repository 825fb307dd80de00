/* Every allocation of the front end may fail: out of memory is reported, nothing leaks (run under a sanitizer or
 * valgrind). */
#include "front_check.h"

#include "support/fault.h"

static const char *const formulas[] = {
    "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
    "size n=4; scalar a, b:i64; let t:bf16[i] = where(i > 0 and not i == 3, X[i - 1], 0) * a + mean[n](W[i,n]) + 1 / "
    "3; "
    "Y[i] = pow(t[i], 2) + cumsum[i](E[ids[i + 1]], reverse) + size(i) + b; G[p[i],i] max= i // 2",
    "Y[i] = clamp(X[i], i, 3.5) + sum[k](W[i,k]) + max(X[i], 2) + mean[k](W[i,k] / size(k))",
    "Y[i] = X[i] + unknown", /* a diagnostic also allocates nothing that could be lost */
};

/* What is made although an allocation failed is what is made without that. */
static void expect_same(const md_fx_formula *f, const char *text)
{
    md_strbuf is = {0}, want = {0};
    md_fx_formula *whole = front_make(text, NULL);
    md_fx_print(&is, f);
    md_fx_print(&want, whole);
    assert_string_equal(md_strbuf_text(&is), md_strbuf_text(&want));
    assert_int_equal(f->n_reaches, whole->n_reaches);
    assert_int_equal(f->n_dims, whole->n_dims);
    md_strbuf_finish(&is);
    md_strbuf_finish(&want);
    md_fx_formula_destroy(&whole);
}

static void create_with_faults(size_t i, int is_once)
{
    for (int64_t n = 1;; ++n) {
        md_fx_formula *f = NULL;
        const int64_t living = fault_living();
        fault_at(n, is_once);
        const md_status status = md_fx_formula_create(&f, formulas[i], &(md_fx_options){.sizes = NULL});
        const int happened = fault_happened();
        fault_after(0);
        if (f)
            expect_same(f, formulas[i]);
        /* Walks remember what they saw, and are only slower where they cannot: not every refusal is an error. */
        if (status != MD_OUT_OF_MEMORY)
            assert_int_equal(status, i == sizeof formulas / sizeof *formulas - 1 ? MD_INVALID_ARGUMENT : MD_OK);
        else
            assert_string_equal(md_last_error(), "out of memory");
        assert_true((f != NULL) == (status == MD_OK));
        md_fx_formula_destroy(&f);
        assert_int_equal(fault_living(), living);
        assert_true(n < 100000);
        if (!happened) {
            assert_int_not_equal(status, MD_OUT_OF_MEMORY);
            assert_true(n > 5); /* it does allocate */
            break;
        }
    }
}

static void test_create(void **state)
{
    (void)state;
    fault_in_arenas(1); /* each node and each name may be what there is no room for */
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; ++i)
        for (int is_once = 0; is_once < 2; is_once++)
            create_with_faults(i, is_once);
    fault_in_arenas(0);
}

static void test_print(void **state)
{
    (void)state;
    md_fx_formula *f = front_make(formulas[1], NULL);
    for (int64_t n = 1; n < 1000; ++n) {
        md_strbuf b = {0};
        const int64_t living = fault_living();
        fault_after(n);
        md_fx_print(&b, f);
        const int happened = fault_happened();
        fault_after(0);
        assert_true(happened == b.failed);
        md_strbuf_finish(&b);
        assert_int_equal(fault_living(), living);
        if (!happened)
            break;
    }
    md_fx_formula_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
