/* One configuration, picked by MD_TEST_SEED, of every family with every formula that it serves, on ragged shapes: short
 * enough to be run under compute-sanitizer (tools/gpu sanitize). Whether every family has a formula is checked without
 * a GPU, too. MD_TEST_DEVICE names another device, MD_TEST_EFFORT more configurations, MD_TEST_FAMILY one family,
 * MD_TEST_WITHOUT families to leave out, MD_TEST_FORMULA one formula by number; `test_families count` says how many
 * there are. */
#include "device/suite_call.h"

#include "support/check.h"
#include "support/constants.h"
#include "support/processes.h"

#include "api/context.h"

#include "base/status.h"
#include "device/device.h"
#include "expr/catalogue.h"

/* rows' results are lets: inside, the reference would go over a row once for each of its elements */
enum { MOST_WORK = 100000000 };

typedef struct ragged {
    const char *text; /* a name of the catalogue, or a formula */
    int64_t size[3][MD_MAX_RANK]; /* by dim; the last of a formula may be short: then it comes from data_make */
    bool is_narrow; /* for tensor cores: in types of 16 bits */
} ragged;

static const ragged list[] = {
    {"Y[i,j] = gelu(X[i,j] + B[j]) * S[i,j]", {{5, 1027}, {1, 1}, {130, 96}}},
    {"Y[i,j] = X[j,i] + B[j]", {{67, 131}, {1, 33}, {128, 64}}},
    {"let m[i] = max[k](X[i,k]); let s[i] = sum[k](exp(X[i,k] - m[i])); Y[i,j] = exp(X[i,j] - m[i]) / s[i]",
     {{5, 1000}, {3, 4099}, {150, 33}}},
    {"let m[i] = max[k](X[i,k]); let s[i] = sum[k](exp(X[i,k] - m[i])); Y[i,j] = exp(X[i,j] - m[i]) / s[i] * G[j]",
     {{513, 7}, {1000, 4}, {4099, 25}}},
    {"let m[i] = mean[k](X[i,k]); let r[i] = rsqrt(var[k](X[i,k]) + 1e-5); Y[i,j] = (X[i,j] - m[i]) * r[i] * G[j] + "
     "B[j]",
     {{7, 777}, {2, 9001}, {1, 1}}},
    {"let r[i] = rsqrt(mean[k](X[i,k] * X[i,k]) + 1e-6); Y[i,j] = X[i,j] * r[i] * G[j]",
     {{70, 20001}, {140, 12289}, {133, 10241}}},
    {"let S[i,j] = where(j < n:i32[i], X[i,j], -inf); let E[i,j] = exp(S[i,j] - max[k](S[i,k])); Y[i,j] = E[i,j] / "
     "sum[k](E[i,k])", /* lengths above the size are reported */
     {{513, 7}, {40, 4}, {9, 100}}},
    {"Y[i,j] = where(j < n:i32[i], X[i,j], -inf)", {{513, 7}, {40, 4}, {9, 100}}},
    {"Y[m,n] = where(n < l:i32[m], sum[k](X[m,k] * W[n,k]), -inf)", {{130, 5, 33}, {64, 8, 64}, {9, 70, 40}}},
    {"Y[i] = argmax[j](X[i,j])", {{9, 513}, {1, 20001}, {300, 5}}},
    {"Y[i] = sum[j](X[i,j]); Z[i] = max[j](X[i,j])", {{4, 8193}, {1, 30001}, {257, 16}}},
    {"Y[j] = sum[i](X[i,j])", {{513, 17}, {3001, 5}, {3, 300}}},
    {"let m[i] = max[k](X[i,k]); L[i] = log(sum[j](exp(X[i,j] - m[i]))) + m[i] - X[i,t[i]]",
     {{33, 129}, {4, 5003}, {1, 1}}},
    {"max_pool2d_indices", {{2, 3, 9, 11, 2, 2}, {1, 5, 16, 24, 2, 2}, {3, 2, 7, 12, 2, 2}}},
    {"pad_reflect", {{2, 3, 9, 11, 7, 9}, {1, 5, 34, 32, 32, 30}, {3, 2, 7, 12, 5, 10}}},
    {"unfold", {{2, 3, 3, 2, 9, 11, 11, 12}, {1, 5, 2, 3, 16, 24, 17, 26}, {3, 2, 1, 5, 7, 12, 7, 16}}},
    {"fold", {{2, 3, 9, 11, 3, 2, 7, 10}, {1, 5, 16, 24, 2, 3, 15, 22}, {3, 2, 7, 12, 1, 5, 7, 8}}},
    {"Y[i] = X[i // 3 * 2 + i % 3] + X[size(X.0) - 1 - i]", {{35, 40}, {1, 3}, {1024, 1030}}},
    {"Y[i,j] = cumsum[j](X[i,j])", {{3, 5001}, {1, 40009}, {200, 31}}},
    {"Y[i,j] = cummax[j](X[i,j], reverse)", {{3, 5001}, {1, 40009}, {65, 64}}},
    {"Y[i,j] = cumsum[i](X[i,j])", {{1201, 3}, {5003, 1}, {600, 150}}},
    {"Y[i,j] = E[ids[i],j]", {{77, 33}, {5, 1024}, {1, 1}}},
    {"G[ids[i],j] += D[i,j]", {{77, 33}, {300, 8}, {1, 1}}},
    {"Y[m,n] = sum[k](X[m,k] * W[n,k]) + B[n]", {{17, 33}, {1, 65}, {64, 64}}},
    {"linear", {{200, 72, 520}, {3, 136, 64}, {1, 8, 8}}, true},
    {"linear_int8", {{33, 64, 256}, {130, 72, 528}, {5, 8, 32}}, true},
    {"linear_f8", {{33, 64, 256}, {130, 72, 528}, {5, 8, 32}}, true},
    {"linear_int4", {{3, 64, 256}, {17, 128, 512}, {65, 72, 64}}, true},
    {"moe_up", {{9, 2, 64, 64, 3, 3}, {70, 2, 72, 136, 4, 4}, {1, 1, 8, 8, 1, 1}}, true},
    {"conv2d_nhwc", {{2, 5, 7, 32, 3, 3, 64}, {1, 9, 5, 72, 3, 3, 40}, {1, 2, 3, 8, 3, 3, 8}}, true},
    {"attention", {{1, 2, 130, 257, 64, 64}, {2, 1, 65, 70, 128, 128}, {1, 1, 1, 1, 64, 64}}, true},
    {"attention_causal", {{1, 2, 100, 190, 64, 64}, {1, 1, 129, 129, 128, 128}, {2, 1, 1, 33, 64, 64}}, true},
    {"let S[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d]) * 0.3 + where(j < i, 0, -3.3895314e38); let m[h,i] = max[j](S[h,i,j]);"
     "let P:data[h,i,j] = exp(S[h,i,j] - m[h,i]); Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e]) / sum[k](P[h,i,k])",
     {{2, 130, 257, 64, 64}, {1, 150, 200, 128, 128}, {3, 4, 700, 64, 64}},
     true}, /* a mask that adds the least finite number, also to all keys of a row */
    {"let S[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d]) * 0.3 + where(j < i, 0, -1e12); let m[h,i] = max[j](S[h,i,j]);"
     "let P:data[h,i,j] = exp(S[h,i,j] - m[h,i]); Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e]) / sum[k](P[h,i,k])",
     {{2, 130, 257, 64, 64}, {1, 150, 200, 128, 128}, {3, 4, 700, 64, 64}},
     true}, /* also to all keys of a row */
    {"let S[h,i,j] = sum[d](Q[h,i,d] * K[h,d,j]) * 0.3; let m[h,i] = max[j](S[h,i,j]);"
     "let P:data[h,i,j] = exp(S[h,i,j] - m[h,i]); Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e]) / sum[k](P[h,i,k])",
     {{2, 130, 256, 64, 64}, {1, 64, 64, 64, 64}, {3, 4, 128, 128, 128}},
     true}, /* keys side by side, not the elements of each */
    {"attention_backward", {{1, 2, 66, 130, 64, 64}, {2, 1, 33, 17, 128, 128}, {1, 1, 1, 1, 64, 64}}, true},
    {"attention_decode", {{2, 2, 4, 300, 128, 128}, {1, 3, 1, 1000, 64, 64}, {3, 1, 8, 77, 64, 64}}, true},
};

static const md_dtype dtype_list[] = {MD_BF16, MD_F16, MD_F32};

static const char *text_of(const ragged *r)
{
    const md_catalogue_entry *named = md_catalogue_find(r->text);
    return named ? named->formula : r->text;
}

static void sizes_of(int64_t size[MD_FX_MAX_DIMS], const ragged *r, int k)
{
    for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
        size[d] = d < MD_MAX_RANK && r->size[k][d] > 0 ? r->size[k][d] : -1;
}

static void check_family(suite *s, suite_formula *f, const md_st_program *program, const md_fa_family *family,
                         uint64_t *seed)
{
    const char *only = getenv("MD_TEST_FAMILY"), *without = getenv("MD_TEST_WITHOUT");
    if ((only && strcmp(only, family->name) != 0) || (without && strstr(without, family->name)))
        return;
    for (int32_t stage = 0; stage < program->n_stages; stage++)
        (void)suite_check_random(s, f, program, stage, family, seed);
}

static void check_formula(suite *s, const ragged *r, md_dtype dtype, uint64_t *seed)
{
    suite_formula f;
    md_st_program *program = NULL;
    if (suite_begin(s, &f, text_of(r), &(md_op_options){.dtype = dtype, .hints = "16", .max_variants = 1}) &&
        md_st_split(f.formula) == MD_OK && md_st_program_create(&program, f.formula) == MD_OK) {
        for (int k = 0; k < 3; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            sizes_of(size, r, k);
            suite_add(s, &f, check_random(seed),
                      &(data_options){.view = k == 2 ? DATA_UNALIGNED : DATA_CONTIGUOUS,
                                      .size = size,
                                      .max_work = MOST_WORK,
                                      .bad_indices = k == 1});
        }
        if (f.n_sets != 3)
            suite_complain(s, &f, -1, NULL, "a shape is too large for the reference");
        suite_add(s, &f, check_random(seed), &(data_options){.view = DATA_STRIDED, .max_work = 20000});
        for (const md_fa_family *const *family = md_fa_families(s->context->dev->facts.kind); *family; family++)
            check_family(s, &f, program, *family, seed);
    }
    md_st_program_destroy(&program);
    suite_end(&f);
}

static void test_families(void **state)
{
    suite *s = *state;
    const char *effort = getenv("MD_TEST_EFFORT"), *only = getenv("MD_TEST_FORMULA");
    if (!only) {
        assert_int_equal(processes_each_formula(MD_COUNT(list)), 0);
        return;
    }
    const uint64_t first = check_seed(), i = strtoull(only, NULL, 10);
    uint64_t seed = first + i;
    assert_in_range(i, 0, MD_COUNT(list) - 1);
    for (uint64_t trial = 0; trial < (effort ? (uint64_t)MD_MAX(atoi(effort), 1) : 1); trial++)
        check_formula(s, &list[i], dtype_list[(i + first + trial) % (MD_COUNT(dtype_list) - (size_t)list[i].is_narrow)],
                      &seed);
    print_message("%lld variants, %lld calls (%lld did not fit), %lld elements, %lld unchecked\n",
                  (long long)s->n_variants, (long long)s->n_calls, (long long)s->n_skipped, (long long)s->n_elements,
                  (long long)s->n_unchecked);
    assert_int_equal(s->n_failed, 0);
}

/* ---- that none is left out ---- */

static bool take_one(void *user, const md_fa_config *config)
{
    (void)config;
    *(bool *)user = true;
    return false;
}

/* Whether a family has a config for some stage of a formula, at one of its sizes. */
static bool serves(const md_fa_family *family, const ragged *r, md_dtype dtype, const md_dev_facts *facts)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    bool found = false;
    assert_ok(md_fx_formula_create(&formula, text_of(r), &(md_fx_options){.dtype = dtype}));
    assert_ok(md_st_split(formula));
    assert_ok(md_st_program_create(&program, formula));
    for (int32_t stage = 0; stage < program->n_stages; stage++)
        for (int k = 0; k < 3 && !found; k++) {
            const md_fa_target target = {
                .program = program, .stage = stage, .facts = facts, .constants = all_inputs(formula)};
            int64_t size[MD_FX_MAX_DIMS];
            sizes_of(size, r, k);
            if (md_fa_applies(family, &target))
                md_fa_each_all(&target, family, size, take_one, &found);
        }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    return found;
}

static bool serves_some(const md_fa_family *family, const ragged *r, const md_dev_facts *facts)
{
    bool found = false;
    for (size_t t = 0; t < MD_COUNT(dtype_list) - (size_t)r->is_narrow && !found; t++)
        found = serves(family, r, dtype_list[t], facts);
    return found;
}

static void test_no_family_is_left_out(void **state)
{
    static const int32_t capability[] = {90, 80};
    md_dev_facts facts[MD_COUNT(capability)];
    int n_missing = 0;
    (void)state;
    for (size_t c = 0; c < MD_COUNT(capability); c++)
        assert_ok(md_dev_cuda_assume(&facts[c], capability[c]));
    for (const md_fa_family *const *family = md_fa_families(MD_DEV_CUDA); *family; family++) {
        bool found = (*family)->is_library; /* where a machine has it */
        for (size_t i = 0; i < MD_COUNT(list) && !found; i++)
            for (size_t c = 0; c < MD_COUNT(capability) && !found; c++)
                found = serves_some(*family, &list[i], &facts[c]);
        if (!found)
            print_error("no formula of the list has a config of family %s\n", (*family)->name);
        n_missing += !found;
    }
    assert_int_equal(n_missing, 0);
}

int main(int n, char **argument)
{
    const struct CMUnitTest everywhere[] = {cmocka_unit_test(test_no_family_is_left_out)};
    const char *device = getenv("MD_TEST_DEVICE");
    suite_options options = {.device = device ? device : "cuda", .bounds = {.moves_rounding = true}};
    suite s = {.options = &options};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_families, &s)};
    if (n > 1 && strcmp(argument[1], "count") == 0) {
        printf("%d\n", (int)MD_COUNT(list));
        return 0;
    }
    if (!getenv("MD_TEST_FORMULA") && cmocka_run_group_tests(everywhere, NULL, NULL) != 0)
        return 1;
    if (md_context_create(&s.context, &(md_context_options){.device = options.device}) != MD_OK) {
        print_message("FAMILIES NOT CHECKED: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&s.context);
    return failed;
}
