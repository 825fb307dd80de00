/* Trees that correct the cost model's form: what they say of a few kernels, that they fade where nothing was measured,
 * and that they are asked on the devices whose times were recorded alone. */
#include "expr/catalogue.h"
#include "support/golden.h"
#include "tune/model/trees.h"
#include "tune/tune.h"

#include <math.h>

static const struct {
    const char *op, *variant;
    md_dtype dtype;
    int64_t size[3];
} kernels[] = {
    {"softmax", "row_persistent/lanes32_vecs4_rows4_keep1_align1", MD_BF16, {1843, 522}},
    {"softmax", "row_persistent/lanes16_vecs8_rows8_keep1_align1", MD_BF16, {1843, 522}},
    {"layer_norm", "row_thread/vecs1_threads128_keep0_align2", MD_BF16, {159931, 10}},
    {"layer_norm", "row_persistent/lanes4_vecs1_rows32_keep0_align1", MD_BF16, {159931, 10}},
    {"rms_norm", "row_looped/lanes256_vecs2_rows1_align0", MD_F32, {2000, 30000}},
    {"linear", "gemm_wgmma/rows128_columns128_pingpong1_cluster2_split1_epilogue1_pad0", MD_BF16, {1111, 4096, 4096}},
    {"linear", "gemm_wgmma/rows64_columns16_pingpong0_cluster4_split4_epilogue0_pad1", MD_BF16, {13, 44, 16220}},
    {"linear", "gemm_lib/rank0", MD_BF16, {13, 44, 16220}},
    {"linear", "gemm_dot/lanes16_rows2_columns2", MD_F32, {6, 4907, 45}},
    {"linear_bias_gelu", "gemm_simt/rows32_columns32_split1", MD_BF16, {1564, 124, 1}},
};

/* A kernel's family and target on an assumed GPU. */
typedef struct asked {
    md_fx_formula *formula;
    md_st_program *program;
    md_dev_facts facts;
    md_fa_target target;
    const md_fa_family *family;
    md_fa_config config;
} asked;

static void ask(asked *a, int32_t i, int32_t capability)
{
    const md_fx_options o = {.dtype = kernels[i].dtype};
    assert_ok(md_dev_cuda_assume(&a->facts, capability));
    assert_ok(md_fx_formula_create(&a->formula, md_catalogue_find(kernels[i].op)->formula, &o));
    assert_ok(md_st_split(a->formula));
    assert_ok(md_st_program_create(&a->program, a->formula));
    a->target = (md_fa_target){a->program, 0, &a->facts};
    assert_ok(md_fa_parse_for(&a->family, &a->config, &a->target, kernels[i].variant));
}

static void forget(asked *a)
{
    md_st_program_destroy(&a->program);
    md_fx_formula_destroy(&a->formula);
}

/* The dims of these formulas are in the order of their sizes here. */
static double factor_of(int32_t i, int32_t capability)
{
    asked a;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    ask(&a, i, capability);
    memcpy(size, kernels[i].size, sizeof kernels[i].size);
    const double us = md_tn_predict_us(&a.target, a.family, &a.config, size),
                 form = md_tn_form_us(&a.target, a.family, &a.config, size);
    forget(&a);
    return us / form;
}

static void factors(void **state)
{
    (void)state;
    md_strbuf text = {0};
    for (int32_t i = 0; i < MD_COUNT(kernels); i++)
        md_strbuf_printf(&text, "%s %s %lld %lld %lld %s %.4f\n", kernels[i].op, md_dtype_name(kernels[i].dtype),
                         (long long)kernels[i].size[0], (long long)kernels[i].size[1], (long long)kernels[i].size[2],
                         kernels[i].variant, factor_of(i, 90));
    check_golden(MD_GOLDEN "/trees.txt", &text);
    md_strbuf_finish(&text);
}

static void other_devices_go_by_the_form(void **state)
{
    (void)state;
    int32_t n = 0;
    for (int32_t i = 0; i < MD_COUNT(kernels); i++) {
        n += factor_of(i, 90) != 1.0;
        if (strncmp(kernels[i].variant, "gemm_wgmma", 10) != 0)
            assert_true(factor_of(i, 80) == 1.0);
    }
    assert_true(n > MD_COUNT(kernels) / 2);
}

static void what_was_not_seen_fades(void **state)
{
    (void)state;
    enum { HIGH = 1 << (MD_TN_TREE_DEPTH_OF - 1) }; /* the first answer */
    static const md_tn_tree tree = {.input = {MD_TN_TREE_ROWS, MD_TN_TREE_COLUMNS},
                                    .above = {100, 100, 3e38F, 3e38F},
                                    .leaf = {[0] = 51, [HIGH / 2] = -51, [HIGH] = 102, [HIGH + HIGH / 2] = 120}};
    const md_tn_tree many[4] = {tree, tree, tree, tree};
    md_tn_forest f = {.n = 1, .tree = &tree};
    float input[MD_TN_TREE_INPUTS] = {0};
    for (int32_t i = 0; i < MD_TN_TREE_SEEN; i++)
        f.to[i] = 1e6F;
    f.from[1] = 10; /* rows */
    f.to[1] = 1000;
    input[MD_TN_TREE_ROWS] = 10;
    assert_float_equal(md_tn_forest_factor(&f, input), exp(51.0 / 512), 1e-6);
    input[MD_TN_TREE_COLUMNS] = 101;
    assert_float_equal(md_tn_forest_factor(&f, input), exp(-51.0 / 512), 1e-6);
    input[MD_TN_TREE_ROWS] = 1000;
    assert_float_equal(md_tn_forest_factor(&f, input), exp(120.0 / 512), 1e-6);
    input[MD_TN_TREE_ROWS] = 2000; /* an octave beyond */
    assert_float_equal(md_tn_forest_factor(&f, input), exp(120.0 / 1024), 1e-6);
    input[MD_TN_TREE_ROWS] = 4000;
    assert_true(md_tn_forest_factor(&f, input) == 1.0);
    input[MD_TN_TREE_ROWS] = 0;
    assert_true(md_tn_forest_factor(&f, input) == 1.0);
    f.n = 4;
    f.tree = many;
    input[MD_TN_TREE_ROWS] = 1000;
    assert_float_equal(md_tn_forest_factor(&f, input), MD_TN_TREE_MOST, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors),
        cmocka_unit_test(other_devices_go_by_the_form),
        cmocka_unit_test(what_was_not_seen_fades),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
