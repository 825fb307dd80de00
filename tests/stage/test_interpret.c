/* Programs against the reference: their stages, run as described, give what the formula says; and merging the
 * results of parts of a row gives the result of the row, for every merge rule, with inf, nan and parts of nothing. */
#include "base/strbuf.h"
#include "expr/catalogue.h"
#include "interpret.h"
#include "make_data.h"
#include "print_program.h"
#include "support/check.h"
#include "support/random/random_formula.h"
#include "support/random/random_program.h"

static uint64_t seed;

static int n_kind[MD_ST_CHAIN + 1];
static int n_turned; /* formulas with products whose axes are moved */
static int n_tipped; /* differences that a step in the formula explains */

/* True if a rounding error can tip over: a comparison, a step, a position; or is all that is left, of the variance
 * of equals. */
static bool is_fragile(const char *text)
{
    static const char *const steps[] = {"%",     "//",    "<",    ">",    "==",  "!=",   "floor", "ceil",
                                        "round", "trunc", "sign", "argm", "pow", "bf16", "var"};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (strstr(text, steps[i]) != NULL)
            return true;
    return false;
}

typedef struct sample {
    const char *text; /* of the formula */
    bool is_random;
    const data_options *options;
} sample;

/* Runs one formula once, staged or online. Returns false where sizes were refused. */
static bool run_once(const md_fx_formula *f, const md_st_program *p, const sample *s, bool online, uint64_t *random)
{
    data_set d;
    char difference[256];
    md_fx_fault fault = {0};
    bool is_bound = data_make(&d, f, random, s->options);
    if (is_bound) {
        assert_ok(md_fx_evaluate(f, &d.binding, &fault));
        md_fx_binding b = d.binding;
        for (int32_t t = 0; t < f->n_tensors; t++)
            if (d.other[t] != NULL)
                b.tensor[t].data = d.other[t];
        for (int32_t i = f->n_dims; i < p->formula->n_dims; i++) /* dims of moved axes */
            b.size[i] = p->formula->dim[i].size;
        interpret(p, &b, &(interpret_options){.online = online, .random = random});
        if (!data_compare(&d, f, difference)) {
            md_strbuf program = {0};
            print_program(&program, p);
            n_tipped++;
            if (!s->is_random || !is_fragile(s->text))
                fail_msg("%s\n%s, %s\n%s", s->text, online ? "online" : "staged", difference, md_strbuf_text(&program));
            md_strbuf_finish(&program);
        }
    }
    data_free(&d);
    return is_bound;
}

/* True if some sum is computed in another order than it is written: then infinite factors may give other NaNs. */
static bool has_order(const md_st_orders *orders)
{
    bool has = false;
    for (int32_t i = 0; i < orders->n; i++) {
        md_st_order_facts facts;
        md_st_order_work(&facts, orders->order[i], (const int64_t[MD_FX_MAX_DIMS]){0});
        has |= !facts.is_written;
    }
    return has;
}

/* Half of the runs are of the program of the split formula, in which axes are moved; what it must give says the formula
 * as it was. */
static int run_formula(const char *text, int times, bool is_random, md_dtype dtype, const data_options *options,
                       uint64_t *random)
{
    const md_fx_options fx = {.dtype = dtype};
    md_fx_formula *f = NULL, *split = NULL;
    md_st_program *p[2] = {NULL, NULL};
    md_st_orders orders;
    int n = 0;
    md_fx_formula *written = NULL;
    assert_ok(md_fx_formula_create(&f, text, &fx));
    assert_ok(md_fx_formula_create(&split, text, &fx));
    assert_ok(md_st_split_at(split, &(md_st_sizes){0}, &orders));
    assert_ok(md_st_program_create(&p[0], f));
    assert_ok(md_st_program_create(&p[1], split));
    assert_ok(md_st_turn(&written, split, p[1]));
    if (written) {
        n_turned++;
        md_st_program_destroy(&p[1]);
        assert_ok(md_st_program_create(&p[1], split));
        free(written);
    }
    const data_options finite = {.most = options->most};
    const data_options *const of_split = has_order(&orders) ? &finite : options;
    for (int i = 0; i < times; i++)
        n += run_once(f, p[i / 2 % 2], &(sample){text, is_random, i / 2 % 2 ? of_split : options}, i % 2 != 0, random);
    for (int i = 0; i < p[1]->n_stages; i++)
        n_kind[p[1]->stage[i].kind]++;
    md_st_program_destroy(&p[0]);
    md_st_program_destroy(&p[1]);
    md_fx_formula_destroy(&f);
    md_fx_formula_destroy(&split);
    return n;
}

static const char *const formulas[] = {
#include "formulas.inc"
};

static void test_formulas(void **state)
{
    (void)state;
    n_turned = 0;
    uint64_t random = seed;
    for (size_t i = 0; i < sizeof(formulas) / sizeof(formulas[0]); i++) {
        bool is_finite = formulas[i][0] == '~'; /* differs by design where a factor that left a sum is infinite */
        assert_true(run_formula(formulas[i] + is_finite, 12, false, MD_F32, &(data_options){.most = 7}, &random) > 0);
        if (!is_finite)
            (void)run_formula(formulas[i], 20, false, MD_F32, &(data_options){.most = 9, .with_specials = true},
                              &random);
    }
    assert_int_equal(n_turned, 20); /* ten, once with NaN and infinities */
}

static void test_catalogue(void **state)
{
    (void)state;
    uint64_t random = seed;
    const md_catalogue_entry *e;
    for (int32_t i = 0; (e = md_catalogue_at(i)) != NULL; i++) {
        /* a chain of f32 rounds weights that are declared as data at another place than the formula */
        const md_dtype dtype = strstr(e->formula, ":data[") ? MD_F64 : MD_F32;
        assert_true(run_formula(e->formula, 12, false, dtype, &(data_options){.most = 6}, &random) > 0);
        (void)run_formula(e->formula, 12, false, dtype, &(data_options){.most = 8, .with_specials = true}, &random);
    }
}

static void test_random(void **state)
{
    (void)state;
    int n_run = 0, n_formulas = 0;
    memset(n_kind, 0, sizeof(n_kind));
    for (int i = 0; i < 1500; i++) {
        uint64_t random = seed * 1000003 + (uint64_t)i;
        md_strbuf text = {0};
        /* every other formula is tame, so that a difference cannot hide behind a NaN */
        random_formula(
            &text, &random,
            &(random_formula_options){.max_depth = 2 + i % 3, .without_specials = i % 2 == 0, .without_casts = true});
        md_fx_formula *f = NULL;
        if (md_fx_formula_create(&f, md_strbuf_text(&text), NULL) == MD_OK) {
            md_fx_formula_destroy(&f);
            n_formulas++;
            n_run += run_formula(md_strbuf_text(&text), 4, true, MD_F32,
                                 &(data_options){.most = 5, .with_specials = i % 2 != 0}, &random);
        }
        md_strbuf_finish(&text);
    }
    printf("%d formulas, %d runs, %d tipped over; %d pointwise, %d row, %d product, %d scan, %d nest\n", n_formulas,
           n_run, n_tipped, n_kind[0], n_kind[1], n_kind[2], n_kind[3], n_kind[4]);
    assert_true(n_formulas > 1000 && n_run > 2000);
    assert_true(n_tipped * 100 < n_run);
}

static void test_random_programs(void **state)
{
    (void)state;
    int n_run = 0, n_formulas = 0, n_too_long = 0;
    memset(n_kind, 0, sizeof(n_kind));
    n_tipped = 0;
    for (int i = 0; i < 1500; i++) {
        uint64_t random = seed * 1000003 + (uint64_t)i;
        md_strbuf text = {0};
        random_program(&text, &random);
        md_fx_formula *f = NULL;
        md_st_program *p = NULL;
        if (md_fx_formula_create(&f, md_strbuf_text(&text), NULL) != MD_OK) { /* an index without a size */
            md_strbuf_finish(&text);
            continue;
        }
        md_status status = md_st_program_create(&p, f);
        md_st_program_destroy(&p);
        md_fx_formula_destroy(&f);
        n_formulas++;
        if (status == MD_OK)
            /* in doubles: nothing is rounded between statements but where bf16 is written */
            n_run += run_formula(md_strbuf_text(&text), 4, true, MD_F64, &(data_options){.most = 6}, &random);
        else
            n_too_long += status == MD_UNSUPPORTED;
        md_strbuf_finish(&text);
    }
    printf("%d formulas, %d with too many stages, %d runs, %d tipped over; %d pointwise, %d row, %d product, %d scan, "
           "%d nest\n",
           n_formulas, n_too_long, n_run, n_tipped, n_kind[0], n_kind[1], n_kind[2], n_kind[3], n_kind[4]);
    assert_true(n_formulas > 800 && n_too_long * 50 < n_formulas && n_tipped * 100 < n_run);
}

int main(void)
{
    seed = check_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_catalogue),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_random_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
