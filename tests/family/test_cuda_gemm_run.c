/* Families of products on a GPU: every formula with configs picked by MD_TEST_SEED, on sizes with every kind of edge. Skips itself where there is no
 * GPU. MD_TEST_EFFORT: configs of each family (2); MD_TEST_FAMILY: one family; MD_TEST_FORMULA: one formula by number. */
#include "device/suite_call.h"

#include "support/check.h"

#include "api/context.h"

#include "base/status.h"

typedef struct product {
    const char *text;
    md_dtype dtype;
    int64_t size[3][MD_MAX_RANK]; /* by dim, in order of appearance */
} product;

static const product list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{129, 264, 200}, {17, 33, 65}, {3, 72, 520}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F16, {{136, 200, 72}, {5, 131, 67}, {70, 8, 520}}},
    {"Y[i,j] = sum[k](X[k,i] * W[k,j])", MD_BF16, {{72, 136, 264}, {67, 129, 31}, {8, 8, 8}}},
    {"Y[j,i] = sum[k](X[i,k] * W[j,k])", MD_BF16, {{264, 72, 136}, {31, 129, 67}, {1, 1, 1}}},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W[j,k]) + B[j])", MD_BF16, {{200, 136, 64}, {33, 65, 129}, {1, 300, 1000}}},
    {"Y[i,j] = silu(sum[k](X[i,k] * W[j,k])) * sum[k](X[i,k] * V[j,k])", MD_BF16, {{130, 136, 72}, {33, 65, 129}, {8, 72, 256}}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + R[i,j]; Z[i,j] = relu(Y[i,j])", MD_F16, {{130, 72, 136}, {33, 65, 129}, {1, 1, 5}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[b,k,j])", MD_BF16, {{3, 72, 136, 64}, {5, 33, 17, 9}, {1, 8, 8, 24}}},
    {"Y[b,i,j] = sum[k](X[b,i,k] * W[k,j]) * S[j]", MD_BF16, {{3, 72, 136, 64}, {5, 33, 17, 9}, {2, 8, 8, 24}}},
    {"Y[i,h,d] = sum[k](X[i,k] * W[h,d,k])", MD_BF16, {{72, 3, 40, 64}, {33, 5, 7, 19}, {8, 2, 128, 24}}},
    {"Y[i,j] = sum[k,l](X[i,k,l] * W[j,k,l])", MD_BF16, {{72, 40, 3, 64}, {33, 65, 7, 19}, {8, 128, 2, 24}}},
    {"Y[i,j] = sum[k](exp(X[i,k]) * W[j,k])", MD_BF16, {{72, 40, 64}, {33, 65, 19}, {8, 128, 24}}},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + B[j]", MD_F32, {{132, 260, 100}, {17, 33, 65}, {2, 76, 524}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F32, {{132, 260, 100}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = silu(sum[k](X[k,i] * W[j,k])) * sum[k](X[k,i] * V[j,k])", MD_F32, {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = sum[k](relu(X[i,k] - C[k]) * W[k,j])", MD_F32, {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F64, {{132, 100, 68}, {17, 33, 65}, {2, 300, 1}}},
};

typedef struct picker {
    uint64_t *seed;
    int32_t n;
    md_fa_config config;
} picker;

/* Each of n with the same chance. */
static bool pick(void *user, const md_fa_config *config)
{
    picker *p = user;
    p->n++;
    if (check_random(p->seed) % (uint64_t)p->n == 0)
        p->config = *config;
    return true;
}

static void check_family(suite *s, suite_formula *f, const md_st_program *program, const md_fa_family *family, uint64_t *seed, int effort)
{
    const char *only = getenv("MD_TEST_FAMILY");
    if (strncmp(family->name, "gem", 3) != 0 || (only && strcmp(only, family->name) != 0))
        return;
    for (int32_t stage = 0; stage < program->n_stages; stage++)
        for (int n = 0; n < effort; n++) {
            md_fa_target target = {program, stage, &s->context->dev->facts};
            picker p = {.seed = seed};
            char name[MD_FA_NAME];
            if (!family->applies(&target))
                break;
            for (int k = 0; k < f->n_sets; k++)
                md_fa_each(&target, family, f->set[k].size, pick, &p);
            if (p.n == 0)
                break;
            md_fa_name(name, family, &p.config);
            suite_check_variant(s, f, stage, name);
        }
}

static void check_product(suite *s, const product *r, uint64_t *seed, int effort)
{
    suite_formula f;
    md_st_program *program = NULL;
    if (suite_begin(s, &f, r->text, &(md_op_options){.dtype = r->dtype, .hints = "16", .max_variants = 1}) && md_st_split(f.formula) == MD_OK &&
        md_st_program_create(&program, f.formula) == MD_OK) {
        for (int k = 0; k < 3; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            for (int32_t d = 0; d < MD_FX_MAX_DIMS; d++)
                size[d] = d < MD_MAX_RANK && r->size[k][d] > 0 ? r->size[k][d] : -1;
            suite_add(s, &f, check_random(seed), &(data_options){.view = DATA_CONTIGUOUS, .size = size, .max_work = 20000000});
            if (k == 1)
                suite_add(s, &f, check_random(seed), &(data_options){.view = DATA_UNALIGNED, .size = size, .max_work = 20000000});
        }
        suite_add(s, &f, check_random(seed), &(data_options){.view = DATA_STRIDED, .max_work = 20000});
        for (const md_fa_family *const *family = md_fa_families(s->context->dev->facts.kind); *family; family++)
            check_family(s, &f, program, *family, seed, effort);
    }
    md_st_program_destroy(&program);
    suite_end(&f);
}

static void test_products(void **state)
{
    suite *s = *state;
    const char *text = getenv("MD_TEST_EFFORT"), *only = getenv("MD_TEST_FORMULA");
    int effort = text ? MD_MAX(atoi(text), 1) : 2;
    uint64_t seed = check_seed();
    for (size_t i = 0; i < MD_COUNT(list); i++)
        if (!only || atoi(only) == (int)i)
            check_product(s, &list[i], &seed, effort);
    print_message("%lld variants, %lld calls (%lld did not fit), %lld elements, %lld unchecked\n", (long long)s->n_variants, (long long)s->n_calls,
                  (long long)s->n_skipped, (long long)s->n_elements, (long long)s->n_unchecked);
    assert_int_equal(s->n_failed, 0);
}

int main(void)
{
    suite_options options = {.device = "cuda"};
    suite s = {.options = &options};
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_products, &s)};
    if (md_context_create(&s.context, &(md_context_options){.device = options.device}) != MD_OK) {
        print_message("PRODUCTS NOT RUN ON A GPU: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&s.context);
    return failed;
}
