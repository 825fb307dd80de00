/* Families of products on GPUs, without one: every config that may be chosen at some sizes has a text, and launches
 * something there. Formulas of every layout of both operands and the result, and of operands that are computed, in
 * all types; of many configs some, by MD_TEST_SEED. */
#include "support/check.h"

#include "base/status.h"
#include "device/cuda/cuda.h"
#include "expr/formula.h"
#include "family/family.h"
#include "stage/stage.h"
#include "tune/tune.h"

static const char *const texts[] = {
    "Y[i,j] = sum[k](X[i,k] * W[j,k])",
    "Y[i,j] = sum[k](X[i,k] * W[k,j])",
    "Y[i,j] = sum[k](X[k,i] * W[j,k])",
    "Y[i,j] = sum[k](X[k,i] * W[k,j])",
    "Y[j,i] = sum[k](X[i,k] * W[j,k])",
    "Y[j,i] = sum[k](X[i,k] * W[k,j])",
    "Y[j,i] = sum[k](X[k,i] * W[j,k])",
    "Y[j,i] = sum[k](X[k,i] * W[k,j])",
    "Y[b,i,j] = sum[k](X[b,i,k] * W[b,k,j]) + B[j]",
    "Y[b,i,j] = sum[k](X[b,i,k] * W[b//4,j,k])",
    "Y[i,j] = silu(sum[k](X[k,i] * W[j,k])) * sum[k](X[k,i] * V[j,k])",
    "Y[i,j] = sum[k](relu(X[i,k] - C[k]) * W[k,j])",
};
static const md_dtype dtypes[] = {MD_F32, MD_BF16, MD_F64};
static const int32_t capabilities[] = {90, 80};
static const int64_t sizes[][3] = {{8192, 8192, 8192}, {4096, 1024, 4096}, {1024, 64, 1000}, {33, 4096, 11008},
                                   {16, 4096, 4096},   {3, 5, 7},          {777, 3333, 1111}};
enum { ONE_OF = 40 };

typedef struct emits {
    md_fa_target target;
    const md_fa_family *family;
    const char *text;
    md_kn_shape shape;
    uint64_t seed;
    int n_seen, n, n_failed;
} emits;

/* Kernels by wgmma ask for weights before they wait for earlier launches, unless these make copies of them. */
static bool asks_early(const md_kn_source *source, bool has_copies)
{
    const char *text = md_strbuf_text(&source->launch[has_copies].text), *early = "#define MD_EARLY ",
               *block = strstr(text, "void md_make_tiles("), *amount = strstr(text, early);
    const char *ask = block ? strstr(block, "md_ask_early(p,") : NULL, *wait = ask ? strstr(ask, "md_wait_for") : NULL,
               *again = wait ? strstr(wait + 1, "md_wait_for") : NULL,
               *kernel = wait ? strstr(wait, "__launch_bounds__(THREADS") : NULL;
    return kernel && (!again || again > kernel) && amount && (atoi(amount + strlen(early)) > 0) != has_copies;
}

static bool check_config(void *user, const md_fa_config *config)
{
    emits *e = user;
    md_kn_source source = {0};
    md_kn_geometries geometry;
    char name[MD_FA_NAME];
    if (e->n_seen++ > 0 && check_random(&e->seed) % ONE_OF != 0)
        return true;
    const md_status s = md_fa_emit(&source, e->family, &e->target, config);
    md_fa_geometry_of(&geometry, e->family, &e->target, config, &e->shape);
    md_fa_name(name, e->family, config);
    const bool is_late = s == MD_OK &&
                         (strncmp(name, "gemm_wgmma/", 11) == 0 || strncmp(name, "gemm_swapped/", 13) == 0) &&
                         !asks_early(&source, strstr(name, "pad1"));
    if (s != MD_OK || geometry.launch[0].blocks < 1 || is_late) {
        print_message("%s, capability %d: %s: %s\n", e->text, e->target.facts->capability, name,
                      s != MD_OK ? md_last_error()
                      : is_late  ? "asks for nothing early"
                                 : "launches nothing");
        e->n_failed++;
    }
    e->n++;
    md_kn_source_finish(&source);
    return e->n_failed < 12;
}

static void check_formula(emits *e, const md_st_program *program)
{
    for (size_t k = 0; k < MD_COUNT(sizes); k++) {
        int64_t size[MD_FX_MAX_DIMS] = {0};
        for (int32_t d = 0; d < program->formula->n_dims; d++)
            size[d] = sizes[k][(d + 3 - program->formula->n_dims % 3) % 3];
        md_tn_shape(&e->shape, program, size);
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++) {
            e->family = *f;
            e->n_seen = 0;
            if (!(*f)->is_library && strncmp((*f)->name, "gem", 3) == 0 && md_fa_applies(*f, &e->target))
                md_fa_each_all(&e->target, *f, size, check_config, e);
        }
    }
}

static void check_text(emits *e, const char *text, md_dtype dtype)
{
    for (size_t a = 0; a < MD_COUNT(capabilities); a++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        md_dev_facts facts;
        assert_ok(md_dev_cuda_assume(&facts, capabilities[a]));
        assert_ok(md_fx_formula_create(&formula, text, &(md_fx_options){.dtype = dtype}));
        assert_ok(md_st_split(formula));
        assert_ok(md_st_program_create(&program, formula));
        e->text = text;
        for (int tf32 = 0; tf32 <= (dtype == MD_F32); tf32++) {
            e->target = (md_fa_target){.program = program, .facts = &facts, .allows_tf32 = tf32 != 0};
            check_formula(e, program);
        }
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

static void legal_configs_have_texts(void **state)
{
    (void)state;
    emits e = {.seed = check_seed()};
    for (size_t i = 0; i < MD_COUNT(texts); i++)
        for (size_t t = 0; t < MD_COUNT(dtypes); t++)
            check_text(&e, texts[i], dtypes[t]);
    print_message("%d texts\n", e.n);
    assert_int_equal(e.n_failed, 0);
    assert_true(e.n > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(legal_configs_have_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
