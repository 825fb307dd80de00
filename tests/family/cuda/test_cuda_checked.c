/* Reads that are checked in the kernel, as GPU text: the default config of every family that serves such a stage
 * compiles, without a stack. Needs NVRTC, no GPU. */
#include "family/cuda/gate_fixture.h"

#include "base/status.h"

static const char *const texts[] = {
    "Y[t,d] = where(w[t,d] > 0, E[t,d-1], -1) + E[t,clamp(d,0,size(E.1)-1)]",
    "scalar n:i64; Y[i] = sum[j](where(M:bool[i,j], X[i,j+n], 0)) + max[j](X[i,j])",
    "scalar n:i64; Y[i,j] = sum[k](X[i,k] * where(M:bool[k,j], W[k+n,j], 0))",
    "Y[j] = where(j < size(P.0), P[j], K[j-size(P.0)])",
    "let S[i,j] = where(j < n:i32[i], X[i,j], -inf); Y[i,j] = exp(S[i,j] - max[k](S[i,k]))",
    "Y[i,j] = where(j < n:i32[i], X[i,j], -inf)",
    "Y[m,n] = where(n < l:i32[m], sum[k](X:bf16[m,k] * W:bf16[n,k]), -inf)",
};

static void compile(const md_fa_target *target, const md_fa_family *family)
{
    const md_fa_config config = md_fa_default(family);
    md_kn_source source = {0};
    assert_ok(md_fa_emit(&source, family, target, &config));
    if (gate_compile_all(&source, target->facts->arch) != MD_OK)
        fail_msg("%s, %s: %s", target->program->formula->text, family->name, md_last_error());
    md_kn_source_finish(&source);
}

static int compile_families(const char *text, int32_t capability)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_dev_facts facts;
    int n = 0;
    assert_ok(md_dev_cuda_assume(&facts, capability));
    assert_ok(md_fx_formula_create(&formula, text, NULL));
    assert_ok(md_st_split(formula));
    assert_ok(md_st_program_create(&program, formula));
    for (int32_t s = 0; s < program->n_stages; s++) {
        const md_fa_target target = {.program = program, .stage = s, .facts = &facts};
        for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++)
            if (!(*f)->is_library && md_fa_applies(*f, &target)) {
                print_message("%d: %s: %s\n", (int)capability, (*f)->name, text);
                compile(&target, *f);
                n++;
            }
    }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    return n;
}

static void checked_reads_compile(void **state)
{
    static const int32_t capability[] = {80, 90, 100};
    (void)state;
    need_nvrtc();
    for (int32_t i = 0; i < MD_COUNT(texts); i++)
        assert_true(compile_families(texts[i], capability[i % MD_COUNT(capability)]) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(checked_reads_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
