/* Formulas on a GPU with configs of given families, against the reference within its bounds. */
#include "family/cuda/cuda_runs.h"

#include "family/cuda/gate_fixture.h"

#include "api/context.h"
#include "support/processes.h"

enum { MOST_WORK = 400000000 }; /* steps of the reference: seconds */

typedef struct runs {
    suite suite;
    const cuda_run *list;
    int n;
    const char *family;
} runs;

static void check_family(suite *s, suite_formula *f, const md_st_program *program, const md_fa_family *family,
                         uint64_t *seed, int effort)
{
    for (int32_t stage = 0; stage < program->n_stages; stage++)
        for (int n = 0; n < effort && suite_check_random(s, f, program, stage, family, seed); n++)
            continue;
}

/* Data of shape k. `size`: room for its sizes. */
static data_options shape_of(int64_t size[MD_FX_MAX_DIMS], const cuda_run *r, int k)
{
    for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
        size[d] = d >= CUDA_RUN_DIMS || r->size[k][d] == 0 ? -1 : MD_MAX(r->size[k][d], 0);
    return (data_options){.view = DATA_CONTIGUOUS, .size = size, .max_work = MOST_WORK, .keeps_reductions = true};
}

static void add_sets(suite *s, suite_formula *f, const cuda_run *r, uint64_t *seed)
{
    for (int k = 0; k < CUDA_RUN_SETS; k++) {
        int64_t size[MD_FX_MAX_DIMS];
        data_options o = shape_of(size, r, k);
        suite_add(s, f, check_random(seed), &o);
        o.view = k == 1 ? DATA_UNALIGNED : DATA_CONTIGUOUS;
        o.bad_indices = k == 2;
        if (k == 1 || k == 2)
            suite_add(s, f, check_random(seed), &o);
    }
    if (f->n_sets != CUDA_RUN_SETS + 2)
        suite_complain(s, f, -1, NULL, "a shape is too large for the reference");
    suite_add(s, f, check_random(seed), &(data_options){.view = DATA_STRIDED, .max_work = 20000});
}

static void check_run(runs *all, const cuda_run *r, uint64_t *seed, int effort)
{
    suite *s = &all->suite;
    const char *only = getenv("MD_TEST_FAMILY"), *variant = getenv("MD_TEST_VARIANT");
    suite_formula f;
    md_st_program *program = NULL;
    if (suite_begin(s, &f, r->text, &(md_op_options){.dtype = r->dtype, .hints = "16", .max_variants = 1}) &&
        md_st_split(f.formula) == MD_OK && md_st_program_create(&program, f.formula) == MD_OK) {
        add_sets(s, &f, r, seed);
        if (variant)
            suite_check_variant(s, &f, 0, variant);
        else if (r->variant && !only && s->context->dev->facts.capability >= 90)
            suite_check_variant(s, &f, 0, r->variant);
        for (const md_fa_family *const *family = md_fa_families(s->context->dev->facts.kind); *family && !variant;
             family++)
            if (strncmp((*family)->name, all->family, strlen(all->family)) == 0 &&
                (!only || strcmp((*family)->name, only) == 0))
                check_family(s, &f, program, *family, seed, effort);
    }
    md_st_program_destroy(&program);
    suite_end(&f);
}

static void test_runs(void **state)
{
    runs *all = *state;
    const char *text = getenv("MD_TEST_EFFORT"), *only = getenv("MD_TEST_FORMULA");
    const int effort = text ? MD_MAX(atoi(text), 1) : 3, number = only ? atoi(only) : -1;
    if (!only) {
        assert_int_equal(processes_each_formula(all->n), 0);
        return;
    }
    assert_in_range(number, 0, all->n - 1);
    uint64_t seed = check_seed() + (uint64_t)number;
    check_run(all, &all->list[number], &seed, effort);
    const suite *s = &all->suite;
    print_message("%lld variants, %lld calls (%lld did not fit), %lld elements, %lld unchecked\n",
                  (long long)s->n_variants, (long long)s->n_calls, (long long)s->n_skipped, (long long)s->n_elements,
                  (long long)s->n_unchecked);
    assert_int_equal(s->n_failed, 0);
}

/* Where there is an NVRTC: every launch compiles, without spills. */
static void check_compiles(const md_kn_source *source, const char *variant)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) == MD_OK && gate_compile_all(source, "sm_90a") != MD_OK)
        fail_msg("%s: %s", variant, md_last_error());
}

/* One pin in this many is compiled; of a short list one. */
static uint64_t step_of_pins(const runs *all)
{
    uint64_t n = 0;
    for (int i = 0; i < all->n; i++)
        n += all->list[i].variant != NULL;
    return getenv("MD_TEST_EFFORT") ? 1 : MD_MIN(MD_MAX(n, 1), 3);
}

/* The list is written by hand: what it asks for must be there, and compile (one in three, by the seed; all with
 * MD_TEST_EFFORT), which needs no GPU. */
static void test_pins(void **state)
{
    const runs *all = *state;
    const uint64_t seed = check_seed(), step = step_of_pins(all);
    uint64_t n_pins = 0;
    md_dev_facts facts;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    for (int i = 0; i < all->n; i++) {
        const cuda_run *r = &all->list[i];
        const md_fa_family *family = NULL;
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        if (!r->variant)
            continue;
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, r->variant));
        assert_ok(md_fx_formula_create(&formula, r->text, &(md_fx_options){.dtype = r->dtype}));
        assert_ok(md_st_split(formula));
        assert_ok(md_st_program_create(&program, formula));
        const md_fa_target target = {.program = program, .facts = &facts};
        assert_true(md_fa_applies(family, &target));
        assert_ok(md_fa_emit(&source, family, &target, &config));
        if (n_pins++ % step == seed % step)
            check_compiles(&source, r->variant);
        md_kn_source_finish(&source);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

static int n_applying(const md_st_program *program, const md_dev_facts *facts, const char *name)
{
    int n = 0;
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++)
        for (int32_t stage = 0; stage < program->n_stages && strncmp((*f)->name, name, strlen(name)) == 0; stage++)
            n += md_fa_applies(*f, &(md_fa_target){.program = program, .stage = stage, .facts = facts});
    return n;
}

/* Each formula has a stage that one of the families takes. */
static void test_served(void **state)
{
    const runs *all = *state;
    md_dev_facts facts;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    for (int i = 0; i < all->n; i++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        assert_ok(md_fx_formula_create(&formula, all->list[i].text, &(md_fx_options){.dtype = all->list[i].dtype}));
        assert_ok(md_st_split(formula));
        assert_ok(md_st_program_create(&program, formula));
        if (n_applying(program, &facts, all->family) == 0)
            fail_msg("entry %d: no family takes %s", i, all->list[i].text);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

/* Nor does what the reference refuses: no variant would be checked at that shape. */
static void test_shapes(void **state)
{
    const runs *all = *state;
    for (int i = 0; i < all->n; i++) {
        const cuda_run *r = &all->list[i];
        md_fx_formula *formula = NULL;
        assert_ok(md_fx_formula_create(&formula, r->text, &(md_fx_options){.dtype = r->dtype}));
        assert_ok(md_st_split(formula));
        for (int k = 0; k < CUDA_RUN_SETS; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            const data_options o = shape_of(size, r, k);
            data_set set;
            if (!data_make(&set, formula, 1, &o))
                fail_msg("entry %d, shape %d is too large for the reference: %s", i, k, r->text);
            data_finish(&set);
        }
        md_fx_formula_destroy(&formula);
    }
}

int cuda_runs(const cuda_run *list, int n, const char *family)
{
    const bool moves_rounding = strcmp(family, "chain") == 0 || strcmp(family, "pairs") == 0;
    suite_options options = {.device = "cuda", .bounds.moves_rounding = moves_rounding};
    runs all = {.suite = {.options = &options}, .list = list, .n = n, .family = family};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_runs, &all)};
    if (md_context_create(&all.suite.context, &(md_context_options){.device = options.device}) != MD_OK) {
        const struct CMUnitTest pins[] = {cmocka_unit_test_prestate(test_pins, &all),
                                          cmocka_unit_test_prestate(test_served, &all),
                                          cmocka_unit_test_prestate(test_shapes, &all)};
        print_message("NOT RUN ON A GPU: %s\n", md_last_error());
        const int n_wrong = cmocka_run_group_tests(pins, NULL, NULL);
        return n_wrong ? n_wrong : 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&all.suite.context);
    return failed;
}
