/* Emitting any variant with its first, second, ... allocation failing: OUT_OF_MEMORY, or a text; leaks are the
 * sanitizers' to find. */
#include "support/check.h"
#include "support/fault.h"

#include "base/status.h"
#include "codegen/product/product.h"
#include "expr/catalogue.h"
#include "expr/formula.h"
#include "family/family.h"
#include "stage/stage.h"

static const md_dev_facts facts = {.kind = MD_DEV_HOST,
                                   .threads = 2,
                                   .vector_bytes = 32,
                                   .l1_bytes = 32 << 10,
                                   .l2_bytes = 1 << 20,
                                   .l3_bytes = 8 << 20,
                                   .memory_gbps = 20,
                                   .cache_gbps = 80,
                                   .gflops = 100,
                                   .launch_us = 2};

/* What is emitted although an allocation failed is what is emitted without that. */
static void expect_same(const md_kn_source *source, const md_fa_target *target, const md_fa_family *family,
                        const md_fa_config *config)
{
    md_kn_source whole = {0};
    assert_ok(md_fa_emit(&whole, family, target, config));
    assert_int_equal(source->n_launches, whole.n_launches);
    for (int32_t i = 0; i < whole.n_launches; i++) {
        assert_string_equal(md_strbuf_text(&source->launch[i].text), md_strbuf_text(&whole.launch[i].text));
        assert_int_equal(source->launch[i].n_params, whole.launch[i].n_params);
    }
    md_kn_source_finish(&whole);
}

static void emit_failing(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                         int is_once)
{
    md_kn_source first = {0}; /* what is known of a stage stays */
    assert_ok(md_fa_emit(&first, family, target, config));
    md_kn_source_finish(&first);
    for (int64_t n = 1;; n += 1 + n / 128) {
        md_kn_source source = {0};
        const int64_t living = fault_living();
        fault_at(n, is_once);
        md_status status = md_fa_emit(&source, family, target, config);
        int happened = fault_happened();
        fault_after(0);
        if (status == MD_OK)
            expect_same(&source, target, family, config);
        if (status == MD_OK && !happened) {
            assert_true(source.launch[0].code == MD_KN_FUNCTION || source.launch[0].text.size > 1000);
            md_kn_source_finish(&source);
            return;
        }
        if (status != MD_OK && status != MD_OUT_OF_MEMORY)
            fail_msg("%s, allocation %d: %s", family->name, (int)n, md_last_error());
        md_kn_source_finish(&source);
        assert_int_equal(fault_living(), living);
    }
}

static void test_emit(void **state)
{
    (void)state;
    fault_in_arenas(1);
    static const char *const formulas[] = {"Y[i,j] = where(j > 0, X[i,j-1], 0) * b[j] + X[j,i]",
                                           "Y[i,d] = E[ids[i],d] + E[idx[d],i]",
                                           "G[ids[i],d] += D[i,d]",
                                           "Y[i] = sum[j,d](A[i,j] * B[j,d] * C[i,d]) + argmax[j](A[i,j])",
                                           "Y[i,j] = cumsum[j](X[i,j])",
                                           "Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))",
                                           "Y[i,j] = gelu(sum[d](A[i,d] * B[j,d]))",
                                           "attention_causal",
                                           "attention_varlen"};
    for (int k = 0; k < MD_COUNT(formulas); k++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        int64_t size[MD_FX_MAX_DIMS];
        const md_catalogue_entry *e = md_catalogue_find(formulas[k]);
        for (int d = 0; d < MD_FX_MAX_DIMS; d++)
            size[d] = e ? 64 : 3000; /* of attention: chains have short rows of columns */
        assert_ok(md_fx_formula_create(&formula, e ? e->formula : formulas[k], NULL));
        assert_ok(md_st_split(formula)); /* two products become a chain */
        assert_ok(md_st_program_create(&program, formula));
        int32_t n_emitted = 0;
        for (int32_t s = 0; s < program->n_stages; s++) {
            md_fa_target target = {program, s, &facts};
            for (const md_fa_family *const *f = md_fa_families(MD_DEV_HOST); *f; f++) {
                md_fa_config config = md_fa_default(*f);
                if (!md_fa_applies(*f, &target) || !md_fa_legal(*f, &target, &config, size))
                    continue;
                n_emitted += program->stage[s].kind == MD_ST_CHAIN;
                for (int is_once = 0; is_once < 2; is_once++)
                    emit_failing(&target, *f, &config, is_once);
            }
        }
        assert_true(n_emitted > 0 || !e);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

static bool print_result(md_strbuf *out, const md_cg_product *product)
{
    md_strbuf defines = {0};
    const md_status s = md_cg_product_print_result(&defines, out, product);
    assert_true(s == MD_OK || s == MD_OUT_OF_MEMORY);
    const bool is_whole = s == MD_OK && !defines.failed && !out->failed;
    md_strbuf_finish(&defines);
    return is_whole;
}

/* Two sums as what is stored, which only GPUs' families print. */
static void test_result(void **state)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_cg_product product;
    md_strbuf whole = {0};
    (void)state;
    assert_ok(md_fx_formula_create(&formula, "Y:bf16[i,j] = gelu(sum[d](A:bf16[i,d] * B:bf16[j,d]))", NULL));
    assert_ok(md_st_program_create(&program, formula));
    assert_true(md_cg_product_of(&product, program, 0, MD_CG_COLUMNS_STORED));
    product.dialect = MD_DEV_CUDA;
    assert_true(md_cg_product_has_result(&product) && print_result(&whole, &product));
    for (int is_once = 0; is_once < 2; is_once++) {
        int happened = 1;
        for (int64_t n = 1; happened; n++) {
            md_strbuf text = {0};
            const int64_t living = fault_living();
            fault_at(n, is_once);
            const bool is_whole = print_result(&text, &product);
            happened = fault_happened();
            fault_after(0);
            assert_true(is_whole || happened);
            if (is_whole)
                assert_string_equal(md_strbuf_text(&text), md_strbuf_text(&whole));
            md_strbuf_finish(&text);
            assert_int_equal(fault_living(), living);
        }
    }
    md_strbuf_finish(&whole);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_emit), cmocka_unit_test(test_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
