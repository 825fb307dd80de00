/* Hints and distances: golden values, ties both ways, every form of the text, every complaint. */
#include "base/status.h"
#include "dispatch/space/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static md_fx_formula *parse(const char *text, const char *sizes)
{
    md_fx_formula *f = NULL;
    md_fx_options o = {.sizes = sizes};
    md_status s = md_fx_formula_create(&f, text, &o);
    if (s != MD_OK)
        print_error("%s\n", md_last_error());
    assert_int_equal(s, MD_OK);
    return f;
}

static const char *const product = "C[m,n] = sum[k](A[m,k] * B[k,n])";

static int32_t dim_of(const md_fx_formula *f, const char *name)
{
    const int32_t dim = md_fx_find_dim(f, name, strlen(name));
    assert_true(dim >= 0);
    return dim;
}

/* The hint that MD_SELECT_DISTANCE would take: the first of the nearest. */
static int64_t nearest(const md_ds_space *s, md_metric metric, int64_t x)
{
    int64_t size[MD_FX_MAX_DIMS] = {0};
    double best = INFINITY;
    int32_t at = -1;
    for (int32_t i = 0; i < s->n; i++)
        size[s->dim[i]] = x;
    for (int32_t h = 0; h < s->n_hints; h++) {
        double d = md_ds_distance(s, metric, size, s->hint[h]);
        if (d < best) {
            best = d;
            at = h;
        }
    }
    return s->hint[at][0];
}

static void golden_distances(void **state)
{
    (void)state;
    md_fx_formula *f = parse("Y[b] = 2 * X[b]", NULL);
    md_ds_space s;
    assert_int_equal(md_ds_space_make(&s, f, "64,256,4096", "test", NULL), MD_OK);
    static const struct {
        int64_t size, hint;
    } row[] = {
        {0, 64},
        {1, 64},
        {64, 64},
        {127, 64},
        {128, 64} /* tie: the earlier */,
        {129, 256},
        {256, 256},
        {1023, 256},
        {1024, 256} /* tie */,
        {1025, 4096},
        {4096, 4096},
        {INT64_C(1) << 40, 4096},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(nearest(&s, MD_METRIC_LOG2, row[i].size), row[i].hint);
        assert_int_equal(nearest(&s, MD_METRIC_INDUCTOR, row[i].size), row[i].hint);
    }
    assert_int_equal(md_ds_space_make(&s, f, "256,64", "test", NULL), MD_OK);
    assert_int_equal(nearest(&s, MD_METRIC_LOG2, 128), 256); /* the same tie, the other way round */
    md_fx_formula_destroy(&f);
}

static double distance(const md_ds_space *s, md_metric metric, int64_t m, int64_t n, int64_t k, int32_t hint)
{
    const md_fx_formula *f = s->formula;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    size[dim_of(f, "m")] = m;
    size[dim_of(f, "n")] = n;
    size[dim_of(f, "k")] = k;
    return md_ds_distance(s, metric, size, s->hint[hint]);
}

static void metrics_differ_by_occurrence(void **state)
{
    (void)state;
    md_fx_formula *f = parse(product, NULL);
    md_ds_space s;
    assert_int_equal(md_ds_space_make(&s, f, "64", "test", "k=0.5"), MD_OK);
    /* log2: each dim once, k half; inductor: m, n, k twice each (A, B, C), weights ignored. */
    assert_float_equal(distance(&s, MD_METRIC_LOG2, 128, 256, 16, 0), 1 + 2 + 0.5 * 2, 1e-12);
    assert_float_equal(distance(&s, MD_METRIC_INDUCTOR, 128, 256, 16, 0), 2 * (1 + 2 + 2), 1e-12);
    assert_float_equal(distance(&s, MD_METRIC_LOG2, 0, 64, 64, 0), 7.0, 1e-12); /* log2 of 0 counts as -1 */
    assert_float_equal(distance(&s, MD_METRIC_LOG2, 1, 64, 64, 0), 6.0, 1e-12);
    /* Diagonal hints are blind to lopsided shapes: [1, 2^20] lies equally far from 64 and 4096. */
    assert_int_equal(md_ds_space_make(&s, f, "64,4096", "test", NULL), MD_OK);
    assert_float_equal(distance(&s, MD_METRIC_LOG2, 1, 1 << 20, 1024, 0),
                       distance(&s, MD_METRIC_LOG2, 1, 1 << 20, 256, 1), 1e-12);
    md_fx_formula_destroy(&f);
}

/* Two indices that run over one axis are one dim of two names: both count, in sizes, hints and weights. */
static void a_second_name(void **state)
{
    (void)state;
    md_fx_formula *f = parse("Y[i,j] = X[i,j] / sum[k](X[i,k])", NULL);
    md_ds_space s;
    md_strbuf text = {0};
    assert_int_equal(dim_of(f, "k"), dim_of(f, "j"));
    assert_int_equal(md_fx_find_dim(f, "kk", 2), -1);
    assert_int_equal(md_fx_find_dim(f, "kk", 1), dim_of(f, "j"));
    assert_int_equal(md_ds_space_make(&s, f, "(i=2,k=8) (i=4,j=16) (k=8,i=2)", "test", "k=0.5"), MD_OK);
    assert_int_equal(s.n_hints, 2);
    assert_float_equal(s.weight[md_ds_slot_of(&s, dim_of(f, "j"))], 0.5, 0.0);
    md_ds_print_hints(&text, &s, ~UINT64_C(0));
    assert_string_equal(md_strbuf_text(&text), "(i=2,j=8) (i=4,j=16)");
    md_strbuf_finish(&text);
    md_fx_formula_destroy(&f);
}

static void forms(void **state)
{
    (void)state;
    md_fx_formula *f = parse(product, "k=512, m=1..100");
    md_ds_space s;
    char label[MD_DS_LABEL];
    assert_int_equal(md_ds_space_make(&s, f, " 64, 256,4096 ", "test", NULL), MD_OK);
    assert_int_equal(s.n, 2); /* k is static */
    assert_int_equal(s.n_hints, 3);
    md_ds_point_label(label, &s, s.hint[2]);
    assert_string_equal(label, "m=100 n=4096"); /* brought into m's range */
    assert_int_equal(md_ds_space_make(&s, f, "m=1,8 n=64,4096", "test", NULL), MD_OK);
    assert_int_equal(s.n_hints, 4);
    md_ds_point_label(label, &s, s.hint[1]);
    assert_string_equal(label, "m=1 n=4096");
    assert_int_equal(md_ds_space_make(&s, f, "m=1,8", "test", NULL), MD_OK);
    md_ds_point_label(label, &s, s.hint[1]);
    assert_string_equal(label, "m=8 n=256"); /* n is not named */
    assert_int_equal(md_ds_space_make(&s, f, "(m=1,n=64) (m=8, n=4096, k=512)", "test", NULL), MD_OK);
    assert_int_equal(s.n_hints, 2);
    md_ds_point_label(label, &s, s.hint[1]);
    assert_string_equal(label, "m=8 n=4096");
    assert_int_equal(md_ds_space_make(&s, f, "100,100,200", "test", NULL), MD_OK);
    assert_int_equal(s.n_hints, 2); /* equal points merge */
    md_fx_formula_destroy(&f);
    f = parse("Y[i] = X[i]", "i=8");
    assert_int_equal(md_ds_space_make(&s, f, "64,256", "test", NULL), MD_OK);
    assert_int_equal(s.n_hints, 1); /* nothing is dynamic */
    md_ds_point_label(label, &s, s.hint[0]);
    assert_string_equal(label, "static");
    md_fx_formula_destroy(&f);
}

static void complaints(void **state)
{
    (void)state;
    md_fx_formula *f = parse(product, NULL);
    md_ds_space s;
    static const struct {
        const char *hints, *weights, *part;
    } row[] = {
        {"", NULL, "MD_HINTS: '': no hint"},
        {"64,", NULL, "unexpected text at ','"},
        {"sixty", NULL, "no dim 'sixty'"},
        {"0", NULL, "a hint lies in 1..2^40 at '0'"},
        {"99999999999999999999", NULL, "a hint lies in 1..2^40"},
        {"-5", NULL, "expected the name of a dim"},
        {"q=4", NULL, "the formula has no dim 'q'"},
        {"m 4", NULL, "expected '='"},
        {"m=", NULL, "expected a size"},
        {"(m=1", NULL, "expected ')'"},
        {"(m=1) 64", NULL, "unexpected text at '64'"},
        {"64", "m", "expected name=number"},
        {"64", "m=-1", "expected name=number"},
        {"64", "m=nan", "expected name=number"},
        {"64", "z=1", "no dim 'z'"},
        {"m=4 m=8", NULL, "MD_HINTS: dim 'm' is given twice"},
        {"(m=4,n=8) (m=4,m=8)", NULL, "MD_HINTS: dim 'm' is given twice"},
        {"64", "m=1 m=0.5", "option weights: dim 'm' is given twice"},
        {"m=1,2,3,4,5,6,7,8,9 n=1,2,3,4,5,6,7,8,9", NULL, "more than 64 hints"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(md_ds_space_make(&s, f, row[i].hints, "MD_HINTS", row[i].weights), MD_INVALID_ARGUMENT);
        if (!strstr(md_last_error(), row[i].part))
            fail_msg("'%s': got \"%s\", expected \"%s\"", row[i].hints, md_last_error(), row[i].part);
    }
    md_fx_formula_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_distances), cmocka_unit_test(metrics_differ_by_occurrence),
        cmocka_unit_test(a_second_name),    cmocka_unit_test(forms),
        cmocka_unit_test(complaints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
