/* Short rows side by side in memory (row_tile), without a GPU: which stages are taken, where envelopes end, how tiles
 * are launched, and kernels that keep to their registers (needs NVRTC). */
#include "family/cuda/gate_fixture.h"

#include "family/numeric.h"
#include "tune/tune.h"

#define SOFTMAX "Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))"
#define LAYER_NORM "Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]"
#define RMS_NORM "Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G[n]"

static void test_what_is_taken(void **state)
{
    static const struct {
        const char *text;
        bool is_taken, is_staged; /* results can go back as one run */
    } list[] = {
        {SOFTMAX, true, true},
        {"Y[a] = sum[n](X[a,n])", true, false},
        {"Y[a,b] = sum[n](X[a,b,n])", true, false},
        {"Y[b,a] = sum[n](X[a,b,n])", false, false}, /* rows are numbered in another order than they lie */
        {"Y[a,b] = sum[n](X[b,n] * W[a,b])", false, false},
        {"Y[a,n] = X[a,n] - sum[k](X[a,k] * G[k])", true, true},
        {"Y[n,a] = X[a,n] - sum[k](X[a,k])", true, false},
        {"Y:f32[a,n] = X:bf16[a,n] - max[k](X[a,k])", true, false},
        {"Y[a,n] = X[a,n] - max[k](X[a,k]); Z[a,n] = X[a,n] + max[k](X[a,k])", true, false},
        {"Y[a,n] = (X[a,n] + D[a,n]) * max[k](X[a,k])", false, false}, /* two tensors */
        {"Y[a] = sum[n](X[a,n+1])", false, false}, /* the axis may be longer */
        {"Y[a] = sum[n](X:i4[a,n])", false, false},
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        fixture f;
        md_fa_config config;
        const md_fa_family *family = family_of("row_tile");
        const int64_t size[MD_FX_MAX_DIMS] = {8193, 25, 25, 25};
        open_fixture(&f, list[i].text, MD_BF16);
        if (md_fa_applies(family, &f.target) != list[i].is_taken)
            fail_msg("%s: %s", list[i].text, list[i].is_taken ? "refused" : "taken");
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, "row_tile/lanes8_vecs4_threads128_turns1_keep0_staged1"));
        if (list[i].is_taken && md_fa_legal(family, &f.target, &config, size) != list[i].is_staged)
            fail_msg("%s: staged %d", list[i].text, !list[i].is_staged);
        close_fixture(&f);
    }
}

/* A tile's rows fit shared memory twice, and a block's threads; blocks are as many as tiles. */
static void test_tiles(void **state)
{
    static const struct {
        const char *variant;
        int64_t most, blocks; /* elements of a row; of 1,003 rows */
        int32_t threads;
    } list[] = {
        {"row_tile/lanes8_vecs12_threads128_turns1_keep0_staged1", 96, 63, 128},
        {"row_tile/lanes8_vecs12_threads128_turns4_keep0_staged1", 96, 16, 128},
        {"row_tile/lanes32_vecs8_threads256_turns2_keep0_staged0", 256, 63, 256},
        {"row_tile/lanes1_vecs32_threads64_turns1_keep0_staged0", 32, 16, 64},
        {"row_tile/lanes8_vecs32_threads256_turns4_keep0_staged0", 225, 8, 256}, /* 113 KB for 128 rows */
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_geometries g;
        md_kn_envelope envelope;
        md_kn_shape shape;
        open_fixture(&f, RMS_NORM, MD_F32);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, list[i].variant));
        md_fa_envelope_of(&envelope, family, &f.target, &config);
        assert_int_equal(envelope.row_points_max, list[i].most);
        const int64_t size[MD_FX_MAX_DIMS] = {1003, list[i].most};
        md_tn_shape(&shape, f.program, size);
        assert_null(md_kn_envelope_miss(&envelope, &shape));
        md_fa_geometry_of(&g, family, &f.target, &config, &shape);
        assert_int_equal(g.launch[0].blocks, list[i].blocks);
        assert_int_equal(g.launch[0].block[0], list[i].threads);
        const int64_t rows = (1003 + list[i].blocks - 1) / list[i].blocks;
        assert_true(g.launch[0].scratch_bytes >= rows * list[i].most * 4 + 15);
        assert_true((g.launch[0].scratch_bytes + 1024) * 2 <= f.facts.shared_per_sm);
        shape.contiguous = 0;
        assert_non_null(md_kn_envelope_miss(&envelope, &shape));
        close_fixture(&f);
    }
}

/* The bits of rows of single elements in registers, whatever the tile. */
static void test_bits(void **state)
{
    static const char *const variant[] = {"row_persistent/lanes32_vecs4_rows4_keep0_align3",
                                          "row_tile/lanes32_vecs4_threads128_turns1_keep0_staged0",
                                          "row_tile/lanes32_vecs8_threads64_turns4_keep0_staged1"};
    fixture f;
    md_fa_numeric class[3];
    (void)state;
    open_fixture(&f, SOFTMAX, MD_F32);
    for (int32_t i = 0; i < 3; i++) {
        const md_fa_family *family;
        md_fa_config config;
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant[i]));
        md_fa_numeric_of(&class[i], &f.target, family, &config);
        assert_int_equal(class[i].id, class[0].id);
    }
    close_fixture(&f);
}

/* ---- Registers */

static const struct {
    const char *text, *variant;
    md_dtype dtype;
    int32_t registers;
} gates[] = {
    {RMS_NORM, "row_tile/lanes8_vecs4_threads128_turns1_keep0_staged0", MD_BF16, 64},
    {RMS_NORM, "row_tile/lanes32_vecs10_threads128_turns2_keep0_staged1", MD_BF16, 64},
    {LAYER_NORM, "row_tile/lanes32_vecs12_threads128_turns2_keep0_staged1", MD_BF16, 80},
    {LAYER_NORM, "row_tile/lanes16_vecs24_threads128_turns1_keep0_staged0", MD_F32, 128},
    {SOFTMAX, "row_tile/lanes4_vecs32_threads128_turns1_keep1_staged1", MD_F32, 128},
    {SOFTMAX, "row_tile/lanes1_vecs28_threads64_turns1_keep0_staged1", MD_BF16, 96},
    {"Y[a] = argmax[n](X[a,n])", "row_tile/lanes8_vecs32_threads128_turns2_keep0_staged0", MD_BF16, 96},
    {"Y[a] = var[n](X[a,n])", "row_tile/lanes2_vecs14_threads256_turns1_keep0_staged0", MD_F64, 128},
    /* of these row_sass.py counts the loads that are under way together */
    {RMS_NORM, "row_persistent/lanes32_vecs12_rows4_keep0_align3", MD_F32, 40},
    {RMS_NORM, "row_persistent/lanes16_vecs8_rows8_keep0_align4", MD_BF16, 64},
    {"Y[a] = argmax[n](X[a,n])", "row_persistent/lanes32_vecs14_rows4_keep0_align3", MD_F32, 48},
    {"Y[a] = argmax[n](X[a,n])", "row_persistent/lanes32_vecs10_rows16_keep0_align4", MD_F32, 64},
    {"Y[a] = var[n](X[a,n])", "row_persistent/lanes32_vecs8_rows4_keep0_align5", MD_BF16, 64},
    {"Y[a] = var[n](X[a,n]) * (f32(size(n)) / f32(size(n) - 1))", "row_persistent/lanes32_vecs12_rows4_keep0_align3",
     MD_BF16, 32},
    {"Y[a] = var[n](X[a,n])", "row_thread/vecs4_threads128_keep0_align3", MD_BF16, 32},
    {LAYER_NORM, "row_thread/vecs8_threads256_keep0_align3", MD_F32, 40},
};

static void compile(size_t i, int capability)
{
    fixture f;
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_source source = {0};
    open_fixture(&f, gates[i].text, gates[i].dtype);
    assert_ok(md_dev_cuda_assume(&f.facts, capability));
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, gates[i].variant));
    assert_ok(md_fa_emit(&source, family, &f.target, &config));
    (void)compile_gate(&source.launch[0], &f, gates[i].variant, gates[i].registers);
    md_kn_source_finish(&source);
    close_fixture(&f);
}

static void test_registers(void **state)
{
    (void)state;
    need_nvrtc();
    for (size_t i = 0; i < MD_COUNT(gates); i++) {
        compile(i, 80);
        compile(i, 90);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_taken), cmocka_unit_test(test_tiles),
                                       cmocka_unit_test(test_bits), cmocka_unit_test(test_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
