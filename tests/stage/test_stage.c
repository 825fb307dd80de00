/* Small questions about programs: aliasing, steps, work, limits; and every allocation failing once. */
#include "base/strbuf.h"
#include "stage/stage.h"
#include "support/check.h"
#include "support/fault.h"

typedef struct made {
    md_fx_formula *formula;
    md_st_program *program;
} made;

static made make(const char *text, const char *sizes)
{
    made m = {0};
    assert_ok(md_fx_formula_create(&m.formula, text, &(md_fx_options){.sizes = sizes}));
    assert_ok(md_st_program_create(&m.program, m.formula));
    return m;
}

static void drop(made *m)
{
    md_st_program_destroy(&m->program);
    assert_null(m->program);
    md_st_program_destroy(&m->program);
    md_st_program_destroy(NULL);
    md_fx_formula_destroy(&m->formula);
}

static int32_t tensor_named(const md_fx_formula *f, const char *name)
{
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return i;
    fail_msg("no tensor '%s'", name);
    return -1;
}

static const struct {
    const char *formula, *out, *in;
    bool may;
} aliases[] = {
    {"Y[i,j] = X[i,j] + B[j]", "Y", "X", true},
    {"Y[i,j] = X[j,i]", "Y", "X", false},
    {"Y[i] = X[i] + where(i > 0, X[i-1], 0)", "Y", "X", false},
    {"Y[i,j] = X[i,j] + B[j]", "Y", "B", false},
    {"Y:f64[i] = X[i]", "Y", "X", false},
    {"Y[i,j] = X[i,j] / sum[k](X[i,k])", "Y", "X", true},
    {"Y[i,j] = X[i,j] / sum[k](X[k,j])", "Y", "X", true},
    {"Y[i,j] = X[i,j] / sum[k](X[j,k])", "Y", "X", false},
    {"Y[i,j] = X[i,0] / sum[k](X[i,k])", "Y", "X", false},
    {"Y[i,j] = Z[i,j] / sum[k](X[i,k] * X[i,0] * Z[i,k])", "Y", "X", true},
    {"Y[i,j] = Z[i,j] / sum[k](X[i,t[k]] * Z[i,k])", "Y", "X", false},
    {"Y[i] = sum[j](X[i,j]) + Z[i]", "Y", "Z", true},
    {"Y[i] = sum[j](X[i,j] * Z[i])", "Y", "Z", true},
    {"M[i] = sum[j](X[i,j]) + Z[i]; Y[i,j] = X[i,j] * Z[i]", "M", "Z", false},
    {"Y[b,n] = sum[k](X[b,k] * W[n,k]) + R[b,n]", "Y", "R", true},
    {"Y[b,n] = sum[k](X[b,k] * W[n,k]) + X[b,n]", "Y", "X", false},
    {"Y[i,j] = cumsum[j](X[i,j])", "Y", "X", true},
    {"Y[i,j] = cumsum[j](X[i,j], exclusive, reverse)", "Y", "X", true},
    {"Y[i,j] = cumsum[j](X[j,i])", "Y", "X", false},
    {"Y[i] = X[i]; Z[i] = X[i] * 2", "Y", "X", true},
    {"Y[i] = X[i]; Z[i,j] = X[i] + V[j]", "Y", "X", false},
    {"Y[i,j] = X[i] + V[i,j]; Z[i] = X[i]", "Z", "X", true},
    {"G[ids[i]] += X[i]", "G", "X", false},
    {"Y[i] += X[i]", "Y", "X", true},
    {"let h[b,n] = sum[k](X[b,k] * W[n,k]); Y[b,k] = sum[n](h[b,n] * V[k,n])", "Y", "X", true},
    {"scalar lr; M1[i] = M[i] + G[i]; P1[i] = P[i] - lr * (M[i] + G[i])", "M1", "M", true},
    {"scalar lr; M1[i] = M[i] + G[i]; P1[i] = P[i] - lr * (M[i] + G[i])", "P1", "P", true},
};

static void test_alias(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        made m = make(aliases[i].formula, NULL);
        int32_t out = tensor_named(m.formula, aliases[i].out), in = tensor_named(m.formula, aliases[i].in);
        if (md_st_may_alias(m.program, out, in) != aliases[i].may)
            fail_msg("%s: %s on %s: expected %d", aliases[i].formula, aliases[i].out, aliases[i].in, aliases[i].may);
        drop(&m);
    }
}

static const md_fx_node *first_load(const md_st_program *p, int32_t tensor)
{
    const md_fx_node *value = p->stage[0].store[0].value;
    while (value->kind != MD_FX_LOAD || value->id != tensor)
        value = value->arg[0];
    return value;
}

static void test_step(void **state)
{
    (void)state;
    made m = make("Y[i,j] = X[2*i - j, j, i // 2, ids[j]] + Z[i,j]", NULL);
    int32_t x = tensor_named(m.formula, "X");
    const md_fx_node *load = first_load(m.program, x);
    int64_t coef[MD_MAX_RANK];
    int32_t i = m.program->stage[0].outer[0], j = m.program->stage[0].axis;
    assert_false(md_st_step(coef, m.program, x, load->arg, i)); /* i // 2 */
    assert_false(md_st_step(coef, m.program, x, load->arg, j)); /* ids[j] */
    assert_true(m.program->stage[0].has_gather);
    drop(&m);
    m = make("Y[i,j] = X[2*i - j + 3, j, ids[i]] + Z[i,j]", NULL);
    x = tensor_named(m.formula, "X");
    load = first_load(m.program, x);
    j = m.program->stage[0].axis;
    assert_true(md_st_step(coef, m.program, x, load->arg, j));
    assert_int_equal(coef[0], -1);
    assert_int_equal(coef[1], 1);
    assert_int_equal(coef[2], 0);
    drop(&m);
}

static void test_work(void **state)
{
    (void)state;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    double flops, bytes;
    made m = make("Y[b,n] = sum[k](X[b,k] * W[n,k]) + bias[n]", NULL);
    const md_st_product *product = &m.program->stage[0].product;
    size[m.formula->index[product->m[0]].dim] = 10;
    size[m.formula->index[product->n[0]].dim] = 20;
    size[m.formula->index[product->k[0]].dim] = 30;
    md_st_work(&flops, &bytes, m.program, 0, size);
    assert_true(flops == 2.0 * 10 * 20 * 30 + 10 * 20);
    assert_true(bytes == 4.0 * (10 * 20 + 10 * 30 + 20 * 30 + 20));
    assert_int_equal(md_st_points(m.program, 2, m.program->stage[0].outer, size), 200);
    assert_int_equal(md_st_size(m.program, product->k[0], size), 30);
    size[m.formula->index[product->m[0]].dim] = INT64_MAX / 2;
    assert_int_equal(md_st_points(m.program, 2, m.program->stage[0].outer, size), INT64_MAX);
    drop(&m);
}

/* Each statement has another kind of space: as many stages as assignments. */
static void test_limits(void **state)
{
    (void)state;
    md_strbuf text = {0};
    for (int i = 0; i < MD_FX_MAX_TENSORS / 2; i++)
        md_strbuf_printf(&text, "%sY%d[n%d] = X%d[n%d]", i > 0 ? "; " : "", i, i, i, i);
    made many = make(md_strbuf_text(&text), NULL);
    assert_int_equal(many.program->n_stages, MD_FX_MAX_TENSORS / 2);
    drop(&many);
    md_strbuf_finish(&text);
    /* more reductions than a row stage holds: still a program */
    md_strbuf sum = {0};
    md_strbuf_add(&sum, "Y[i] = 0");
    for (int i = 0; i < MD_ST_MAX_REDUCTIONS + 1; i++)
        md_strbuf_printf(&sum, " + sum[j](X[i,j] * %d.5)", i);
    made m = make(md_strbuf_text(&sum), NULL);
    assert_int_equal(m.program->stage[0].kind, MD_ST_NEST);
    drop(&m);
    md_strbuf_finish(&sum);
}

/* Many stages are no reason for a nest, which would compute each reduction again and again. */
static void test_many_stages(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y[i,j,k,l] = X[i,j,k,l] * rsqrt(var[i,j,k,l](X[i,j,k,l]))",
        "M[] = mean[i,j,k,l](X[i,j,k,l]); V[] = var[i,j,k,l](X[i,j,k,l]); "
        "Y[i,j,k,l] = (X[i,j,k,l] - M[]) * rsqrt(V[] + 1e-5)",
    };
    for (size_t i = 0; i < sizeof(formulas) / sizeof(formulas[0]); i++) {
        md_fx_formula *f = NULL;
        md_st_program *p = NULL;
        assert_ok(md_fx_formula_create(&f, formulas[i], NULL));
        assert_ok(md_st_split(f));
        assert_ok(md_st_program_create(&p, f));
        assert_true(p->n_stages > 8);
        for (int32_t s = 0; s < p->n_stages; s++)
            assert_int_not_equal(p->stage[s].kind, MD_ST_NEST);
        md_st_program_destroy(&p);
        md_fx_formula_destroy(&f);
    }
}

/* A chain of lets that each read the one before twice. */
static void test_chain(const char *second, int32_t most_stages)
{
    md_strbuf text = {0};
    md_strbuf_add(&text, "let t0[i] = X[i]");
    for (int i = 1; i < 24; i++)
        md_strbuf_printf(&text, "; let t%d[i] = t%d[i] + t%d[%s]", i, i - 1, i - 1, second);
    md_strbuf_add(&text, "; Y[i] = t23[i]");
    made m = make(md_strbuf_text(&text), NULL); /* 2^24 steps for who follows each path; that would not end */
    assert_true(m.program->n_stages <= most_stages);
    drop(&m);
    md_strbuf_finish(&text);
}

/* Without a limit such a chain grows to 2^24 copies. */
static void test_growth(void **state)
{
    (void)state;
    test_chain("i", 4);
    test_chain("i+1", 8);
}

static void expect_same_stages(const md_st_program *p, const char *text)
{
    md_strbuf is = {0}, want = {0};
    made whole = make(text, NULL);
    assert_int_equal(p->n_stages, whole.program->n_stages);
    for (int32_t s = 0; s < p->n_stages; s++) {
        md_st_describe(&is, p, s);
        md_st_describe(&want, whole.program, s);
    }
    assert_string_equal(md_strbuf_text(&is), md_strbuf_text(&want));
    md_strbuf_finish(&is);
    md_strbuf_finish(&want);
    drop(&whole);
}

static void test_faults(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "let m[i] = mean[j](X[i,j]); Y[i,j] = (X[i,j] - m[i]) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j]; M[i] = m[i]",
        "let s[b,n] = sum[k](X[b,k] * W[n,k]); Y[b,n] = exp(s[b,n] - max[l](s[b,l]))",
        "Y[i,j] = cumsum[j](X[i,j] * 2); Z[i] = Y[i,0]"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        md_fx_formula *f = NULL;
        assert_ok(md_fx_formula_create(&f, texts[i], NULL));
        int is_once = 0;
        for (int64_t n = 1;; n++) {
            md_st_program *p = NULL;
            const int64_t living = fault_living();
            fault_at(n, is_once);
            md_status status = md_st_program_create(&p, f);
            bool happened = fault_happened();
            fault_after(0);
            if (status == MD_OK) { /* a memo that could not grow is only slower */
                assert_non_null(p);
                expect_same_stages(p, texts[i]);
                md_st_program_destroy(&p);
            } else {
                assert_int_equal(status, MD_OUT_OF_MEMORY);
                assert_null(p);
            }
            assert_int_equal(fault_living(), living);
            if (!happened && is_once++)
                break;
            if (!happened)
                n = 0; /* from the first on again, each alone */
        }
        md_fx_formula_destroy(&f);
    }
}

/* How the last reduction of a row's parts are merged. A rule that does not hold for the formula must not be taken. */
static void test_merge_rules(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        md_st_merge merge;
    } rules[] = {
        {"let t[b] = sum[k](X[b,k]); V[b] = sum[k](pow(X[b,k] - t[b] / f32(size(k)), 2))", MD_ST_MERGE_CHAN},
        {"let t[b] = sum[k](X[b,k]); V[b] = sum[k](pow(X[b,k] - t[b] / f32(size(b)), 2))", MD_ST_MERGE_NONE},
        {"let t[b] = sum[k](X[b,k]); V[b] = sum[k](pow(X[b,k] - t[b] / 7, 2))", MD_ST_MERGE_NONE},
        {"let t[b] = sum[k](Z[b,k]); V[b] = sum[k](pow(X[b,k] - t[b] / f32(size(k)), 2))", MD_ST_MERGE_NONE},
        {"let m[b] = max[k](X[b,k]); S[b] = sum[k](exp(X[b,k] - m[b]))", MD_ST_MERGE_RESCALED},
        {"let m[b] = max[k](Z[b,k]); S[b] = sum[k](exp(X[b,k] - m[b]))", MD_ST_MERGE_NONE},
        {"let m[b] = max[k](X[b,k]); S[b] = sum[k](exp(2 * X[b,k] - m[b]))", MD_ST_MERGE_NONE},
        {"let m[b] = min[k](X[b,k]); S[b] = sum[k](exp(X[b,k] - m[b]))", MD_ST_MERGE_NONE},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        made m = make(rules[i].formula, NULL);
        assert_int_equal(m.program->stage[0].kind, MD_ST_ROW);
        const md_st_row *row = &m.program->stage[0].row;
        assert_int_equal(row->n_reductions, 2);
        assert_int_equal(row->reduction[0].merge, MD_ST_MERGE_PLAIN);
        if (row->reduction[1].merge != rules[i].merge)
            fail_msg("%s: merge rule %d, not %d", rules[i].formula, (int)row->reduction[1].merge, (int)rules[i].merge);
        drop(&m);
    }
}

static void test_split_faults(void **state)
{
    (void)state;
    const char *text =
        "Y[b,n] = exp(sum[k](X[b,k] * W[n,k]) - max[l](sum[k](X[b,k] * W[l,k]))); S[] = var[i,j](Z[i,j])";
    bool happened = true;
    for (int64_t n = 1, is_once = 0; happened || !is_once; n++) {
        const int64_t living = fault_living();
        md_fx_formula *f = NULL;
        if (!happened) {
            is_once = 1;
            n = 1;
        }
        md_strbuf before = {0}, after = {0};
        assert_ok(md_fx_formula_create(&f, text, NULL));
        md_fx_print(&before, f);
        fault_at(n, (int)is_once);
        md_status status = md_st_split(f);
        happened = fault_happened();
        fault_after(0);
        md_fx_print(&after, f);
        if (status == MD_OK) {
            assert_int_equal(f->n_stmts, 6);
        } else {
            assert_int_equal(status, MD_OUT_OF_MEMORY);
            assert_string_equal(md_strbuf_text(&after), md_strbuf_text(&before));
        }
        md_strbuf_finish(&before);
        md_strbuf_finish(&after);
        md_fx_formula_destroy(&f);
        assert_int_equal(fault_living(), living);
    }
}

/* Formulas of all lengths: the arena's next block, which may be refused, falls on every node that is made, in turn. */
static void test_faults_of_lengths(void **state)
{
    (void)state;
    char text[2048];
    for (int length = 0; length <= 32; length++)
        for (int splits = length % 8 ? 1 : 0; splits < 2; splits++) {
            size_t used =
                (size_t)snprintf(text, sizeof text, "S[] = var[i,j](Z[i,j]); Y[b,n] = max[l](sum[k](X[b,k] * W[l,k]))");
            for (int i = 0; i < length; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, " + V[b,n]");
            bool happened = true;
            for (int64_t n = 1; happened; n++) {
                md_fx_formula *f = NULL;
                md_st_program *p = NULL;
                const int64_t living = fault_living();
                assert_ok(md_fx_formula_create(&f, text, NULL));
                fault_after(n);
                const md_status status = splits ? md_st_split(f) : md_st_program_create(&p, f);
                happened = fault_happened();
                fault_after(0);
                assert_true(status == MD_OK || status == MD_OUT_OF_MEMORY);
                assert_int_equal(p != NULL, !splits && status == MD_OK);
                md_st_program_destroy(&p);
                md_fx_formula_destroy(&f);
                assert_int_equal(fault_living(), living);
            }
        }
}

/* Looking for axes to move costs no memory where there are none, and nothing stays of a move that fails. */
static void test_moves(void **state)
{
    static const struct {
        const char *formula;
        bool moves;
    } cases[] = {{"Y[i,j] = gelu(X[i,j]) * 2", false},
                 {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", false},
                 {"Y[b,n] = sum[k](X[b,k] * W[n,k])", false},
                 {"Y[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d])", false},
                 {"Y[n,o,y,x] = sum[c,r,s](X[n,c,y+r,x+s] * W[o,c,r,s])", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = make(cases[i].formula, NULL);
        const int32_t n_tensors = m.formula->n_tensors;
        md_fx_formula *written = NULL;
        fault_after(1);
        const md_status status = md_st_turn(&written, m.formula, m.program);
        const bool happened = fault_happened();
        fault_after(0);
        assert_int_equal(status, cases[i].moves ? MD_OUT_OF_MEMORY : MD_OK);
        assert_int_equal(happened, cases[i].moves);
        assert_null(written);
        assert_int_equal(m.formula->n_tensors, n_tensors);
        assert_ok(md_st_turn(&written, m.formula, m.program));
        assert_int_equal(written != NULL, cases[i].moves);
        assert_int_equal(m.formula->n_tensors > n_tensors, cases[i].moves);
        free(written);
        drop(&m);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alias),        cmocka_unit_test(test_step),
        cmocka_unit_test(test_work),         cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_stages),  cmocka_unit_test(test_growth),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_merge_rules),
        cmocka_unit_test(test_split_faults), cmocka_unit_test(test_faults_of_lengths),
        cmocka_unit_test(test_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
