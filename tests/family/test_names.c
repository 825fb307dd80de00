/* Variants and their names; which configs are legal; that every family tells the same of itself. */
#include "support/check.h"
#include "support/find_family.h"

#include "base/status.h"
#include "expr/formula.h"
#include "family/family.h"
#include "stage/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static md_dev_facts facts = {.kind = MD_DEV_HOST,
                             .threads = 4,
                             .vector_bytes = 64,
                             .l1_bytes = 48 << 10,
                             .l2_bytes = 2 << 20,
                             .l3_bytes = 32 << 20,
                             .memory_gbps = 20,
                             .cache_gbps = 80,
                             .gflops = 400,
                             .launch_us = 2};

static const md_dev_kind devices[] = {MD_DEV_HOST, MD_DEV_CUDA};

/* A name means the config: printed again it is the same. */
static void check_means(const md_fa_family *f, const md_fa_config *config, md_dev_kind device, const char *name)
{
    md_fa_config again = {{-1}};
    const md_fa_family *family = NULL;
    assert_true(strlen(name) < MD_FA_NAME - 1);
    assert_ok(md_fa_parse(&family, &again, device, name));
    assert_ptr_equal(family, f);
    assert_memory_equal(config, &again, sizeof again);
}

/* A config's name names that config alone. */
static void check_config(const md_fa_family *f, const md_fa_config *config, md_dev_kind device)
{
    char name[MD_FA_NAME];
    md_fa_name(name, f, config);
    check_means(f, config, device, name);
    assert_true(md_fa_is_current(name));
}

static void test_round_trip(void **state)
{
    (void)state;
    for (int d = 0; d < MD_COUNT(devices); d++) {
        for (const md_fa_family *const *f = md_fa_families(devices[d]); *f; f++) {
            assert_ptr_equal(find_family(devices[d], (*f)->name), *f);
            int32_t at[MD_FA_MAX_FIELDS] = {0}, i = 0;
            do {
                md_fa_config config = {{0}};
                for (i = 0; i < (*f)->n_fields; i++)
                    config.value[i] = (*f)->field[i].value[at[i]];
                check_config(*f, &config, devices[d]);
                for (i = (*f)->n_fields - 1; i >= 0 && ++at[i] == (*f)->field[i].n + (*f)->field[i].more; i--)
                    at[i] = 0;
            } while (i >= 0);
        }
    }
}

/* ---- Names of earlier versions */

static void test_other_versions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is_current;
    } row[] = {{"row_split/via1_threads256_vecs4", false},
               {"row_split/exchange1_threads256_vecs4", true},
               {"row_split/exchange9", true},
               {"gemv/few8_columns2", false},
               {"gemv/max_rows8_columns2", true},
               {"gemv/swap_ab1", true},
               {"gemv/max_rows8_swap_ab1", false},
               {"", true},
               {"nest", true},
               {"custom/mine/band4_own2", true},
               {"no_such/band2", true}};
    for (int i = 0; i < MD_COUNT(row); i++)
        if (md_fa_is_current(row[i].name) != row[i].is_current)
            fail_msg("%s", row[i].name);
    const md_fa_family *family;
    md_fa_config config;
    assert_fails(md_fa_parse(&family, &config, MD_DEV_CUDA, "row_split/via1_threads256"), MD_NOT_FOUND,
                 "\"via1\" is no field of family row_split (exchange, threads,");
}

/* The numbers of a name stand for the fields in order; fields that only a search varies may be left out. */
static void check_numbers(const md_fa_family *f, const md_fa_config *config, const char *name)
{
    const char *at = strchr(name, '/');
    for (int32_t i = 0; i < f->n_fields; i++) {
        const md_fa_field *field = &f->field[i];
        if (field->n == 1 && config->value[i] == field->initial)
            continue;
        at += strcspn(at, "0123456789");
        char *end = NULL;
        assert_int_equal(strtol(at, &end, 10), config->value[i]);
        at = end;
    }
    assert_true(!at || at[strcspn(at, "0123456789")] == 0);
}

/* Every variant of the wisdom that is installed, which is of before fields were renamed, is the config that it
 * names. */
static void test_shipped_wisdom(void **state)
{
    static const char *const keys[] = {"\"variant\":\"", "\"name\":\""};
    const char *path = *state;
    char *line = NULL, name[MD_FA_NAME];
    size_t capacity = 0;
    int n = 0;
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        skip();
    while (getline(&line, &capacity, file) > 0) {
        for (int k = 0; k < MD_COUNT(keys); k++) {
            for (const char *at = line; (at = strstr(at, keys[k])) != NULL; n++) {
                const md_fa_family *family = NULL;
                md_fa_config config;
                at += strlen(keys[k]);
                snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\""), at);
                assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, name));
                assert_memory_equal(name, family->name, strlen(family->name));
                check_numbers(family, &config, name);
            }
        }
    }
    free(line);
    fclose(file);
    print_message("%d names of %s\n", n, path);
    assert_true(n > 1000);
}

/* Each field's default is one of its values, names are no prefix of digits, and fit. */
static void test_tables(void **state)
{
    (void)state;
    for (int32_t n = 0; n < MD_COUNT(devices); n++)
        for (const md_fa_family *const *f = md_fa_families(devices[n]); *f; f++) {
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
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flat3"), MD_NOT_FOUND,
                 "flat of family pointwise cannot be 3 (but 1, 0, 2)");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flt1"), MD_NOT_FOUND,
                 "\"flt1\" is no field of family pointwise (flat,");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/flat1x"), MD_NOT_FOUND,
                 "\"flat1x\" is no field");
    assert_fails(md_fa_parse(&family, &config, MD_DEV_HOST, "nest/flat1"), MD_NOT_FOUND, "it has none");
    assert_null(family);
    /* Fields left out keep their defaults. */
    assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, "pointwise/nontemporal1"));
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
    for (int k = 0; k < 3 * MD_COUNT(formulas); k++) { /* each with vectors of 16, 32 and 64 bytes */
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        facts.vector_bytes = 16 << k / MD_COUNT(formulas);
        int64_t size[MD_FX_MAX_DIMS], zero[MD_FX_MAX_DIMS] = {0};
        assert_ok(md_fx_formula_create(&formula, formulas[k % MD_COUNT(formulas)], NULL));
        assert_ok(md_st_program_create(&program, formula));
        for (int d = 0; d < MD_FX_MAX_DIMS; d++)
            size[d] = 300 + d;
        md_fa_target target = {program, 0, &facts};
        int n_families = 0;
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_HOST); *f; f++) {
            md_fa_config config = md_fa_default(*f);
            md_fa_features features = {.ops_rate = 1, .parallel = 1, .launches = 1};
            md_kn_geometries geometry;
            md_kn_shape empty = {.size = {0}};
            seen all = {0, 0}, first = {0, 1};
            if (!md_fa_applies(*f, &target))
                continue;
            md_fa_each(&target, *f, size, count, &all);
            md_fa_each(&target, *f, size, count, &first);
            n_families += all.n > 0;
            assert_int_equal(first.n, MD_MIN(all.n, 1));
            md_fa_features_of(&features, *f, &target, &config, size);
            assert_true(features.ops >= 0 && features.memory_bytes > 0 && features.parallel >= 1 &&
                        features.parallel <= 4);
            if (program->stage[0].n_outer > 0 && !strstr(formulas[k % MD_COUNT(formulas)], "sum")) {
                md_fa_geometry_of(&geometry, *f, &target, &config, &empty);
                assert_int_equal(geometry.launch[0].blocks, 0);
                md_fa_features_of(&features, *f, &target, &config, zero);
                assert_true(features.ops >= 0 && features.ops < 1e9);
            }
        }
        assert_true(n_families >= 2 || program->stage[0].kind == MD_ST_NEST);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

static double ops_of(const md_fa_family *family, const md_fa_target *target, int64_t rows)
{
    const int64_t size[MD_FX_MAX_DIMS] = {rows, 512, 1024}; /* more than one thread multiplies alone */
    const md_fa_config config = md_fa_default(family);
    md_fa_features features = {.ops_rate = 1, .parallel = 1, .launches = 1};
    md_fa_features_of(&features, family, target, &config, size);
    return features.ops;
}

/* A library that was measured slow with whole tiles of rows, and fast without, is modelled so. */
static void test_calibration(void **state)
{
    (void)state;
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    assert_ok(md_fx_formula_create(&formula, "Y[i,j] = sum[d](A[i,d] * B[j,d])", NULL));
    assert_ok(md_st_program_create(&program, formula));
    md_dev_facts measured = facts;
    const md_fa_target plain = {program, 0, &facts}, target = {program, 0, &measured};
    const md_fa_family *library = find_family(MD_DEV_HOST, "gemm_lib"), *own = find_family(MD_DEV_HOST, "gemm");
    for (int32_t i = 0; i < MD_DEV_LIBRARY_SHAPES; i++)
        measured.library_us[i] = i < MD_DEV_LIBRARY_TILED ? 1e6 : i < MD_DEV_LIBRARY_FEW ? 1e-3 : 0;
    for (int64_t rows = 1; rows < 700 && md_fa_applies(library, &plain); rows++) {
        const double factor = ops_of(library, &target, rows) / ops_of(library, &plain, rows);
        assert_true(rows % 16 == 0 ? factor > 1.5 && factor < 5 : factor > 0.2 && factor < 0.7);
        assert_true(ops_of(own, &target, rows) == ops_of(own, &plain, rows));
    }
    measured.library_us[4] = 0; /* not measured: half of it says nothing */
    if (md_fa_applies(library, &plain))
        assert_true(ops_of(library, &target, 33) == ops_of(library, &plain, 33));
    /* The fewest rows, where they were timed: as long as that, for small products only. */
    measured.library_us[MD_DEV_LIBRARY_FEW] = 5;
    if (md_fa_applies(library, &plain)) {
        md_fa_features f = {.ops_rate = 1, .parallel = 1, .launches = 1};
        const md_fa_config config = md_fa_default(library);
        const int64_t more[][3] = {{1, 2 * MD_DEV_LIBRARY_DEPTH, 2 * MD_DEV_LIBRARY_COLUMNS},
                                   {2 * MD_DEV_LIBRARY_COLUMNS, 1,
                                    2 * MD_DEV_LIBRARY_DEPTH}}, /* or the fewest columns */
            same[] = {1, MD_DEV_LIBRARY_DEPTH, MD_DEV_LIBRARY_COLUMNS}, large[] = {1, 2000, 2000};
        for (int32_t i = 0; i < 2; i++) {
            md_fa_features_of(&f, library, &target, &config, more[i]);
            assert_float_equal(f.ops / (facts.gflops / facts.threads) * 1e-3 + f.serial_us, 4 * 5, 1e-6);
        }
        md_fa_features_of(&f, library, &target, &config, same); /* its operands lie in a cache here */
        assert_true(f.ops / (facts.gflops / facts.threads) * 1e-3 > 2.5);
        assert_true(f.ops / (facts.gflops / facts.threads) * 1e-3 + f.serial_us < 3.5);
        md_fa_features_of(&f, library, &target, &config, large);
        assert_true(f.ops / (facts.gflops / facts.threads) * 1e-3 > 5.0 * 2000 * 2000 / (256 * 512));
    }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

int main(int argc, char **argv)
{
    char *path = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_other_versions),
                                       cmocka_unit_test_prestate(test_shipped_wisdom, path),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_parse_errors),
                                       cmocka_unit_test(test_families),
                                       cmocka_unit_test(test_calibration)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
