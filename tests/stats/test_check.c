/* What is said of formulas before anything is compiled, to the letter: sizes, stages, families, what is slow, what is
 * checked, warnings. */
#include "support/check.h"

#include <stdbool.h>

static char text[16384];

static int take(void *user, const char *bytes, size_t n)
{
    (void)user;
    if (strlen(text) + n >= sizeof text)
        return 1;
    strncat(text, bytes, n);
    return 0;
}

static void expect(const char *formula, bool json, const char *want)
{
    md_context *c = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .cc = "/nonexistent/cc", .threads = 1}));
    text[0] = 0;
    assert_ok(md_check_formula(c, formula, NULL, json, take, NULL));
    for (char *at = text; json && *at; at++)
        *at = *at == '"' ? '\'' : *at; /* easier to read below */
    assert_string_equal(text, want);
    md_context_destroy(&c);
}

static const struct {
    const char *formula, *text;
} row[] = {
    {"size n=3, b=1..64, c=2..9223372036854775807; Y[b,n,c] = X[b,n,c]",
     "size b=1..64, n=3, c=2..; Y:f32[b,n,c] = X:f32[b,n,c]\n"
     "sizes\n"
     "  b: 1 to 64, axis 0 of argument 0, Y\n"
     "  n: 3, static\n"
     "  c: 2 or more, axis 2 of argument 0, Y\n"
     "stages on host\n"
     "  0 pointwise: 1 store\n"
     "    families: pointwise, nest\n"},
    {"Y[ids[i]] = max[j](X[i,j])", "Y:f32[ids:i64[i]] = max[j](X:f32[i,j])\n"
                                   "sizes\n"
                                   "  i: axis 0 of argument 1, ids\n"
                                   "  j: axis 1 of argument 2, X\n"
                                   "  Y.0: axis 0 of argument 0, Y, which must only be long enough\n"
                                   "stages on host\n"
                                   "  0 row over j: 1 reduction, 1 level, online, no element is stored\n"
                                   "    families: row_persistent, row_looped, column, nest\n"
                                   "  1 pointwise: 1 store, scatter\n"
                                   "    families: scatter, nest\n"
                                   "in memory between stages: Y.1:f32[i]\n"
                                   "checked at run time\n"
                                   "  axis 0 of Y at ids[i]: in the kernel, at each access\n"},
    {"Y[u[i], v[i] + 1] += X[i] + X[i+2]",
     "Y:f32[u:i64[i],v:i64[i] + 1] += X:f32[i] + X[i + 2]\n"
     "sizes\n"
     "  i: axis 0 of argument 1, u\n"
     "  Y.0: axis 0 of argument 0, Y, which must only be long enough\n"
     "  Y.1: axis 1 of argument 0, Y, which must only be long enough\n"
     "  X.0: axis 0 of argument 3, X, which must only be long enough\n"
     "stages on host\n"
     "  0 pointwise: 1 store, scatter that accumulates\n"
     "    families: scatter, scatter_bins, nest\n"
     "    slow: several points may update one element, so they do it one after the other\n"
     "checked at run time\n"
     "  axis 0 of X at i: once, before each call\n"
     "  axis 0 of X at i + 2: once, before each call\n"
     "  axis 0 of Y at u[i]: in the kernel, at each access\n"
     "  axis 1 of Y at v[i] + 1: in the kernel, at each access\n"},
    {"Y[t,d] = E[ids[t],d] + where(w[t] > 0, E[d,idx[t]-1], 0)",
     "Y:f32[t,d] = E:f32[ids:i64[t],d] + where(w:f32[t] > 0, E[d,idx:i64[t] - 1], 0)\n"
     "sizes\n"
     "  t: axis 0 of argument 0, Y\n"
     "  d: axis 1 of argument 0, Y\n"
     "  E.0: axis 0 of argument 1, E, which must only be long enough\n"
     "  E.1: axis 1 of argument 1, E, which must only be long enough\n"
     "stages on host\n"
     "  0 pointwise: 1 store, gather\n"
     "    families: gather, nest\n"
     "checked at run time\n"
     "  axis 1 of E at d: once, before each call\n"
     "  axis 0 of E at d: in the kernel, at each access\n"
     "  axis 0 of E at ids[t]: in the kernel, at each access\n"
     "  axis 1 of E at idx[t] - 1: in the kernel, at each access\n"},
    {"Y[ids[i]] = where(i > 2, sum[j](X[i-2,j]), 0)",
     "Y:f32[ids:i64[i]] = where(i > 2, sum[j](X:f32[i - 2,j]), 0)\n"
     "sizes\n"
     "  i: axis 0 of argument 1, ids\n"
     "  j: axis 1 of argument 2, X\n"
     "  Y.0: axis 0 of argument 0, Y, which must only be long enough\n"
     "  X.0: axis 0 of argument 2, X, which must only be long enough\n"
     "stages on host\n"
     "  0 nest over 1 index, scatter\n"
     "    families: nest\n"
     "    slow: a loop nest over single elements, since a scatter stores more than pointwise "
     "values\n"
     "checked at run time\n"
     "  axis 0 of X at i - 2: once, before each call\n"
     "  axis 0 of Y at ids[i]: in the kernel, at each access\n"},
    {"Y[i] = where(i > 2, sum[j,k](X[i-2,j,k]), 0)", "Y:f32[i] = where(i > 2, sum[j,k](X:f32[i - 2,j,k]), 0)\n"
                                                     "sizes\n"
                                                     "  i: axis 0 of argument 0, Y\n"
                                                     "  j: axis 1 of argument 1, X\n"
                                                     "  k: axis 2 of argument 1, X\n"
                                                     "  X.0: axis 0 of argument 1, X, which must only be long enough\n"
                                                     "stages on host\n"
                                                     "  0 nest over 1 index\n"
                                                     "    families: nest_lanes, nest\n"
                                                     "checked at run time\n"
                                                     "  axis 0 of X at i - 2: once, before each call\n"},
    {"Y[i] = where(i > 2, sum[j](X[i-2,j]), 0)", "Y:f32[i] = where(i > 2, sum[j](X:f32[i - 2,j]), 0)\n"
                                                 "sizes\n"
                                                 "  i: axis 0 of argument 0, Y\n"
                                                 "  j: axis 1 of argument 1, X\n"
                                                 "  X.0: axis 0 of argument 1, X, which must only be long enough\n"
                                                 "stages on host\n"
                                                 "  0 nest over 1 index\n"
                                                 "    families: nest_lanes, nest\n"
                                                 "checked at run time\n"
                                                 "  axis 0 of X at i - 2: once, before each call\n"},
    {"size i=60, j=60, k=60, l=60; Y[i,l] = sum[j,k](A:i32[i,j] * B:i32[j,k] * C:i32[k,l])",
     "size i=60, l=60, j=60, k=60; Y:i64[i,l] = sum[j,k](A:i32[i,j] * B:i32[j,k] * C:i32[k,l])\n"
     "sizes\n"
     "  i: 60, static\n"
     "  l: 60, static\n"
     "  j: 60, static\n"
     "  k: 60, static\n"
     "stages on host\n"
     "  0 product m[i] n[k] k[j]\n"
     "    families: gemv, gemm, nest\n"
     "  1 product m[i] n[l] k[k]\n"
     "    families: gemv, gemm, nest\n"
     "in memory between stages: Y.1:i64[i,k]\n"
     "order of the sum in Y: (A[i,j] * B[j,k]) * C[k,l]\n"
     "  8.64e+05 operations, 3.888e+07 as it is written; largest temporary 3600 elements\n"},
    {"Y[i] = sum[i](X[i])",
     "Y:f32[i] = sum[i](X:f32[i])\n"
     "sizes\n"
     "  i: axis 0 of argument 0, Y\n"
     "  i_2: axis 0 of argument 1, X\n"
     "stages on host\n"
     "  0 row over i: 1 reduction, 1 level, online, no element is stored\n"
     "    families: row_persistent, row_looped, column, nest\n"
     "warning: 1:12: 'i' is bound here and hides the index 'i' of 'Y', so 'Y' gets the same value "
     "at every 'i'; give one of them another name, or leave 'i' out on the left side\n"
     "  Y[i] = sum[i](X[i])\n"
     "             ^\n"},
    {"scalar a; Y[i] = a", "scalar a:f32; Y:f32[i] = a\n"
                           "sizes\n"
                           "  i: axis 0 of argument 1, Y\n"
                           "stages on host\n"
                           "  0 pointwise: 1 store\n"
                           "    families: pointwise, nest\n"},
    {"let s[i,j] = cumsum[i](X[i,j]); let t[i,j] = cumsum[j](s[i,j]); Y[i,j] = t[size(i) - 1 - i, j] + s[size(i) - "
     "1 - i, j]",
     "let s[i,j] = cumsum[i](X:f32[i,j]); let t[i,j] = cumsum[j](s[i,j]); Y:f32[i,j] = t[size(i) - "
     "1 - i,j] + s[size(i) - 1 - i,j]\n"
     "sizes\n"
     "  i: axis 0 of argument 0, X\n"
     "  j: axis 1 of argument 0, X\n"
     "stages on host\n"
     "  0 scan over i: cumsum\n"
     "    families: scan, nest\n"
     "  1 scan over j: cumsum\n"
     "    families: scan, nest\n"
     "  2 pointwise: 1 store\n"
     "    families: pointwise, nest\n"
     "in memory between stages: s:f32[i,j], t:f32[i,j]\n"
     "checked at run time\n"
     "  axis 0 of t at size(i) - 1 - i: once, before each call\n"
     "  axis 0 of s at size(i) - 1 - i: once, before each call\n"},
};

static void texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        expect(row[i].formula, false, row[i].text);
}

/* Without a kernel for them, reductions over several indices and in an arm of a where run element by element. */
static void slow(void **state)
{
    static const struct {
        const char *device, *formula, *why, *sizes; /* why: NULL: not slow */
    } cases[] = {
        {"sm_90a", "Y[i] = where(i > 2, sum[j,k](X[i-2,j,k]), 0)",
         "since a reduction runs over several indices at once"},
        {"sm_90a", "Y[i] = where(i > 2, sum[j](X[i-2,j]), 0)", "stand in an arm of a where that guards what they read"},
        {"host", "Y[i,j] = X[i,j] + where(X[i,j] > 0, cumsum[j](where(j > 0, X[i,j-1], 0)), 0)",
         "since its reductions and scans are no row"},
        {"host", "Y[i,j] = sum[r,s](X[i+r,j+s] * W[r,s])", NULL},
        /* in one thread, but over few elements */
        {"sm_90a", "Y[i,j] = max[r,s](X[2*i+r,2*j+s] + W[r,s])", NULL, "r=3, s=3"},
        {"sm_90a", "Y[i,j] = max[r,s](X[2*i+r,2*j+s] + W[r,s])", "since a reduction runs over several indices at once",
         "r=64, s=64"},
    };
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        md_context *c = NULL;
        assert_ok(md_context_create(
            &c, &(md_context_options){.device = cases[i].device, .cc = "/nonexistent/cc", .threads = 1}));
        text[0] = 0;
        const md_op_options options = {.sizes = cases[i].sizes};
        assert_ok(md_check_formula(c, cases[i].formula, &options, 0, take, NULL));
        const char *said = strstr(text, "slow: ");
        assert_true(cases[i].why ? said && strstr(said, cases[i].why) : !said);
        md_context_destroy(&c);
    }
}

static void json(void **state)
{
    (void)state;
    expect(
        "size n=3, b=1..64; Y[ids[b], n] += sum[k](X[b,k,0])", true,
        "{'formula':'size b=1..64, n=3; Y:f32[ids:i64[b],n] += "
        "sum[k](X:f32[b,k,0])','device':'host','dims':[{'name':'b','size':null,'low':1,'high':64,'from':"
        "'axis 0 of argument 1, "
        "ids'},{'name':'n','size':3,'low':3,'high':3,'from':'static'},{'name':'k','size':null,'low':0,'h"
        "igh':null,'from':'axis 1 of argument 2, "
        "X'},{'name':'Y.0','size':null,'low':0,'high':null,'from':'axis 0 of argument 0, Y, which must "
        "only be long enough'},{'name':'X.2','size':null,'low':0,'high':null,'from':'axis 2 of "
        "argument 2, X, which must only be long "
        "enough'}],'temporaries':['Y.1:f32[b]'],'stages':[{'kind':'row over k: 1 reduction, 1 level, "
        "online, no element is "
        "stored','families':['row_persistent','row_looped','column','nest'],'slow':null},{'kind':'pointw"
        "ise: 1 store, scatter that accumulates','families':['scatter','scatter_bins','nest'],'slow':'several points "
        "may update one element, so they do it one after the "
        "other'}],'checked':[{'tensor':'X','axis':2,'subscript':'0','when':'once, before each "
        "call'},{'tensor':'Y','axis':0,'subscript':'ids[b]','when':'in the kernel, at each "
        "access'}],'orders':[],'orders_at':'','warnings':[]}\n");
}

/* What memory and arithmetic allow a formula at these sizes, in us. */
static double roof_of(md_op *op, const char *sizes)
{
    double us = 0;
    text[0] = 0;
    assert_ok(md_explain(op, sizes, 1, take, NULL));
    const char *const at = strstr(text, "\"roof\":{\"us\":");
    assert_true(at && sscanf(at, "\"roof\":{\"us\":%lf", &us) == 1);
    return us;
}

/* Twice the elements take twice the time, beyond the caches, along rows and across them. */
static void roofs_grow_with_the_elements(void **state)
{
    (void)state;
    static const char *const formula[] = {"Y[i,j] = X[i,j] + 1",        "Y[i] = sum[j](X[i,j])",
                                          "Y[j] = sum[i](X[i,j])",      "Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))",
                                          "Y[i,j] = cumsum[j](X[i,j])", "Y[i,j] = sum[k](X[i,k] * W[j,k])"};
    md_context *c = NULL;
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .hints = "4096"}));
    for (size_t i = 0; i < sizeof formula / sizeof *formula; i++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, c, formula[i], &(md_op_options){.async = 1}));
        const bool is_product = strchr(formula[i], 'W') != NULL;
        const double one = roof_of(op, is_product ? "i=4096, j=4096, k=4096" : "i=8192, j=8192"),
                     longer = roof_of(op, is_product ? "i=4096, j=4096, k=8192" : "i=8192, j=16384"),
                     more = roof_of(op, is_product ? "i=8192, j=4096, k=4096" : "i=16384, j=8192");
        if (!(longer > 1.8 * one && longer < 2.2 * one && more > 1.8 * one && more < 2.2 * one))
            fail_msg("%s: %g, %g, %g us", formula[i], one, longer, more);
        md_op_destroy(&op);
    }
    md_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(slow), cmocka_unit_test(json),
                                       cmocka_unit_test(roofs_grow_with_the_elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
