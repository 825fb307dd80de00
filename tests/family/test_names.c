/* Variants and their names; which configs are legal; that every family tells the same of itself. */
#include "support/check.h"
#include "support/find_family.h"

#include "base/status.h"
#include "expr/formula.h"
#include "family/family.h"
#include "stage/stage.h"

static const md_dev_facts facts = {.kind = MD_DEV_HOST,
                                   .threads = 4,
                                   .vector_bytes = 64,
                                   .l1_bytes = 48 << 10,
                                   .l2_bytes = 2 << 20,
                                   .l3_bytes = 32 << 20,
                                   .memory_gbps = 20,
                                   .cache_gbps = 80,
                                   .gflops = 400,
                                   .launch_us = 2};

static void test_round_trip(void **state)
{
    (void)state;
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_HOST); *f; f++) {
        assert_ptr_equal(find_family(MD_DEV_HOST, (*f)->name), *f);
        int32_t at[MD_FA_MAX_FIELDS] = {0}, i = 0;
        do {
            md_fa_config config = {{0}}, again = {{-1}};
            const md_fa_family *family = NULL;
            char name[MD_FA_NAME], back[MD_FA_NAME];
            for (i = 0; i < (*f)->n_fields; i++)
                config.value[i] = (*f)->field[i].value[at[i]];
            md_fa_name(name, *f, &config);
            assert_ok(md_fa_parse(&family, &again, MD_DEV_HOST, name));
            md_fa_name(back, family, &again);
            assert_ptr_equal(family, *f);
            assert_string_equal(name, back);
            assert_memory_equal(&config, &again, sizeof config);
            for (i = (*f)->n_fields - 1; i >= 0 && ++at[i] == (*f)->field[i].n + (*f)->field[i].more; i--)
                at[i] = 0;
        } while (i >= 0);
    }
}

/* Each field's default is one of its values, names are no prefix of digits, and fit. */
static void test_tables(void **state)
{
    (void)state;
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_HOST); *f; f++) {
        assert_true((*f)->n_fields <= MD_FA_MAX_FIELDS);
        for (int32_t i = 0; i < (*f)->n_fields; i++) {
            const md_fa_field *field = &(*f)->field[i];
            bool found = false;
            assert_true(field->n >= 1 && field->more >= 0 && field->n + field->more <= MD_FA_MAX_VALUES);
            for (int32_t k = 0; k < field->n + field->more; k++)
                found |= field->value[k] == field->initial;
            assert_true(found);
        }
        assert_int_equal(!strcmp((*f)->name, "nest"), (*f)->is_last_resort);
    }
    assert_non_null(*md_fa_families(MD_DEV_CUDA)); /* with a GPU or without: the table is the same */
    assert_null(find_family(MD_DEV_HOST, "pointwis"));
}

static void test_parse_errors(void **state)
{
    (void)state;
    const md_fa_family *family = NULL;
    md_fa_config config;
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwize/flat1"), MD_NOT_FOUND,
                 "no family named \"pointwize\" (there are pointwise,");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flat2"), MD_NOT_FOUND,
                 "flat of family pointwise cannot be 2 (but 1, 0)");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flt1"), MD_NOT_FOUND,
                 "\"flt1\" is no field of family pointwise (flat,");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flat1x"), MD_NOT_FOUND,
                 "\"flat1x\" is no field");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "nest/flat1"), MD_NOT_FOUND, "it has none");
    assert_null(family);
    /* Fields left out keep their defaults. */
    assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/stream1"));
    md_fa_config want = md_fa_default(family);
    want.value[2] = 1;
    assert_memory_equal(&config, &want, sizeof config);
}

typedef struct seen {
    int n, stop;
} seen;

static bool count(void *user, const md_fa_config *config)
{
    seen *s = user;
    (void)config;
    return ++s->n != s->stop;
}

/* Every stage has a family; geometry of nothing is nothing; features are finite and positive where there is work. */
static void test_families(void **state)
{
    (void)state;
    static const char *const formulas[] = {"Y[i,j] = X[i,j] + 1",
                                           "Y[i,j] = X[j,i]",
                                           "Y[i,d] = E[ids[i],d]",
                                           "G[ids[i],d] += D[i,d]",
                                           "Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))",
                                           "Y[i,j] = sum[d](A[i,d] * B[j,d])",
                                           "Y[i,j] = cumsum[j](X[i,j])",
                                           "Y[i] = sum[j,d](A[i,j] * B[j,d] * C[i,d])",
                                           "L[] = M[] + 1"};
    for (int k = 0; k < MD_COUNT(formulas); k++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        int64_t size[MD_FX_MAX_DIMS], zero[MD_FX_MAX_DIMS] = {0};
        assert_ok(md_fx_formula_create(&formula, formulas[k], NULL));
        assert_ok(md_st_program_create(&program, formula));
        for (int d = 0; d < MD_FX_MAX_DIMS; d++)
            size[d] = 300 + d;
        md_fa_target target = {program, 0, &facts};
        int n_families = 0;
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_HOST); *f; f++) {
            md_fa_config config = md_fa_default(*f);
            md_fa_features features = {.ops_rate = 1, .parallel = 1, .launches = 1};
            md_kn_plan_geometry geometry;
            md_kn_shape empty = {.size = {0}};
            seen all = {0, 0}, first = {0, 1};
            if (!(*f)->applies(&target))
                continue;
            md_fa_each(&target, *f, size, count, &all);
            md_fa_each(&target, *f, size, count, &first);
            n_families += all.n > 0;
            assert_int_equal(first.n, MD_MIN(all.n, 1));
            (*f)->features(&features, &target, &config, size);
            assert_true(features.ops >= 0 && features.memory_bytes > 0 && features.parallel >= 1 &&
                        features.parallel <= 4);
            if (program->stage[0].n_outer > 0 && !strstr(formulas[k], "sum")) {
                (*f)->geometry(&geometry, &target, &config, &empty);
                assert_int_equal(geometry.launch[0].blocks, 0);
                (*f)->features(&features, &target, &config, zero);
                assert_true(features.ops >= 0 && features.ops < 1e9);
            }
        }
        assert_true(n_families >= 2 || program->stage[0].kind == MD_ST_NEST);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_parse_errors), cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
