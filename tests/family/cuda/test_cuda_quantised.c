/* Products of operands of 4 and 8 bits on GPUs, without one: which families take them, in what they multiply, up to
 * which depth; and kernels of three architectures that keep to their registers (needs NVRTC). */
#include "family/cuda/gate_fixture.h"

#include "codegen/product/product.h"
#include "support/constants.h"

static const struct {
    const char *text;
    md_dtype dtype, type; /* of the op; in which loads are multiplied, F32: not at all */
    int32_t run, most_depth; /* 0: no limit */
} list[] = {
    {"Y:i32[i,j] = sum[k](X:i8[i,k] * W:i8[j,k])", MD_F32, MD_I32, MD_CG_LONGEST_RUN, 131071},
    {"Y:i32[i,j] = sum[k](i32(X:i8[i,k]) * i32(W:i8[j,k]))", MD_F32, MD_I32, MD_CG_LONGEST_RUN, 131071},
    {"Y[i,j] = f32(sum[k](X:u8[i,k] * W:i4[j,k])) * A[i]", MD_F32, MD_I32, MD_CG_LONGEST_RUN, 1048575},
    {"Y[i,j] = sum[k](f32(X:u8[i,k]) * f32(W:u8[j,k]))", MD_F32, MD_I32, MD_CG_LONGEST_RUN, 32767},
    {"Y[i,j] = sum[k](f32(X:i8[i,k]) * f32(W:i8[j,k]) * S[j,k//48])", MD_F32, MD_F32, 16, 0},
    {"Y[i,j] = sum[k](f32(X:i8[i,k]) * f32(W:i8[j,k]) * S[j,k//96])", MD_F32, MD_I32, 32, 0},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * W:f8e5m2[j,k])", MD_F32, MD_F16, MD_CG_LONGEST_RUN, 0},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * W:i8[j,k])", MD_F32, MD_F16, MD_CG_LONGEST_RUN, 0},
    {"Y[i,j] = sum[k](X[i,k] * W:i8[j,k])", MD_BF16, MD_BF16, MD_CG_LONGEST_RUN, 0},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) - Z[j,k//32]) * S[j,k//128])", MD_BF16, MD_BF16, 32, 0},
    {"Y[i,j] = sum[k](X[i,k] / A[i,k//256] * W:f8e5m2[j,k] * B[j//128,k//128])", MD_F16, MD_F16, 128, 0},
    /* neither f32 nor 16 bits twice, nor what an operand of few bits does not hold */
    {"Y[i,j] = sum[k](X[i,k] * W:i8[j,k])", MD_F32, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X:f16[i,k] * W:bf16[j,k])", MD_F32, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X[i,k] * exp(f32(W:i8[j,k])))", MD_BF16, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X[i,k] * u8(W:i8[j,k]))", MD_BF16, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X:i16[i,k] * W:i8[j,k])", MD_F32, MD_F32, 0, 0},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) - Z[k]))", MD_BF16, MD_F32, 0, 0},
};

static void test_what_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        fixture f;
        md_cg_product p;
        md_cg_quantised_product q;
        open_fixture(&f, list[i].text, list[i].dtype);
        if (!md_cg_product_of(&p, f.program, 0, MD_CG_COLUMNS_STORED))
            fail_msg("%s: no product", list[i].text);
        const bool takes = md_cg_quantised_of(&q, &p);
        if (takes != (list[i].type != MD_F32))
            fail_msg("%s: %s", list[i].text, takes ? "taken" : "refused");
        assert_int_equal(md_fa_applies(family_of("gemm_quantised"), &f.target), takes);
        if (takes) {
            assert_int_equal(q.type, list[i].type);
            assert_int_equal(q.run, list[i].run);
            assert_int_equal(q.most_depth, list[i].most_depth ? list[i].most_depth : INT32_MAX);
        }
        close_fixture(&f);
    }
}

/* Sums of integers must fit 32 bits: envelopes say so. */
static void test_depth(void **state)
{
    static const char *const names[] = {"gemm_quantised", "gemm_wgmma8"};
    (void)state;
    fixture f;
    open_fixture(&f, "Y:i32[i,j] = sum[k](X:i8[i,k] * W:i8[j,k])", MD_F32);
    const int32_t depth = f.program->index[md_fa_stage(&f.target)->product.k[0]].dim;
    for (size_t i = 0; i < MD_COUNT(names); i++) {
        const md_fa_config config = md_fa_default(family_of(names[i]));
        md_kn_envelope envelope = {0};
        md_fa_envelope_of(&envelope, family_of(names[i]), &f.target, &config);
        assert_int_equal(envelope.hi[depth], 131071);
    }
    close_fixture(&f);
}

/* Reals of 8 bits go to units that are less exact than f32 only where that is allowed. */
static void test_exactness(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "Y[i,j] = sum[k](X:f8e4m3[i,k] * W:f8e4m3[j,k])", MD_BF16);
    const md_fa_family *family = family_of("gemm_wgmma8");
    assert_false(md_fa_applies(family, &f.target));
    f.target.allows_tf32 = true;
    assert_true(md_fa_applies(family, &f.target));
    close_fixture(&f);
}

/* Scales are copied as they lie only where nothing about them is to be checked or computed. */
static void test_how_scales_come(void **state)
{
    static const struct {
        const char *scale;
        bool lies;
    } scales[] = {{"S[j,k//32]", true},       {"S[j//128,k//64]", true},
                  {"S[r[j],k//32]", false},   {"S[j,k//32] * T[j,k//32]", false},
                  {"abs(S[j,k//32])", false}, {"S:i8[j,k//32]", false},
                  {"S[k//32,j]", false},      {"S[j,k//512]", false}};
    (void)state;
    for (size_t i = 0; i < MD_COUNT(scales); i++) {
        fixture f;
        char text[128];
        md_kn_source source = {0};
        const md_fa_config config = md_fa_default(family_of("gemm_quantised"));
        snprintf(text, sizeof text, "Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) * %s))", scales[i].scale);
        open_fixture(&f, text, MD_BF16);
        assert_ok(md_fa_emit(&source, family_of("gemm_quantised"), &f.target, &config));
        const char *line = scales[i].lies ? "#define MD_SCALE_LIES_1 1" : "#define MD_SCALE_LIES_1 0";
        if (!strstr(md_strbuf_text(&source.launch[0].text), line))
            fail_msg("%s: not %s", text, line);
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

typedef struct gate {
    const char *text;
    md_dtype dtype;
    const char *variant; /* of 16, 64 and 128 rows */
    int32_t registers; /* that none may exceed */
} gate;

static const gate gates[] = {
    {"Y:i32[i,j] = sum[k](X:i8[i,k] * W:i8[j,k])", MD_F32,
     "gemm_quantised/rows128_columns128_stages4_split1_depth128_warps_depth1", 152},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * W:f8e4m3[j,k]) * A[i]", MD_BF16,
     "gemm_quantised/rows128_columns128_stages3_split1_depth128_warps_depth1", 200},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_BF16,
     "gemm_quantised/rows16_columns32_stages4_split1_depth256_warps_depth4", 168},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:i4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_BF16,
     "gemm_quantised/rows64_columns128_stages3_split1_depth128_warps_depth1", 255},
    {"Y[i,j] = silu(sum[k](X[i,k] * W:i8[j,k] * S[j,k//64])) * sum[k](X[i,k] * V:i8[j,k] * T[j,k//64])", MD_F16,
     "gemm_quantised/rows64_columns64_stages3_split1_depth128_warps_depth1", 255},
};

static void compile(const gate *g, fixture *f, int32_t capability)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_source source = {0};
    assert_ok(md_dev_cuda_assume(&f->facts, capability));
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, g->variant));
    assert_true(md_fa_legal(family, &f->target, &config, NULL));
    assert_ok(md_fa_emit(&source, family, &f->target, &config));
    const md_kn_launch_source *launch = &source.launch[source.packs ? 1 : 0];
    const char *text = md_strbuf_text(&launch->text);
    if (strstr(g->text, "- Z[") && !source.packs) /* qparams of bf16 by runs of 32 are copied as they lie */
        assert_true(strstr(text, "#define MD_ZERO_LIES 1") && strstr(text, "#define MD_SCALE_LIES_1 1"));
    assert_int_equal(compile_gate(launch, f, g->variant, g->registers).capability, capability);
    md_kn_source_finish(&source);
}

/* Of Hopper alone. */
static const gate hopper[] = {
    {"Y[i,j] = f32(sum[k](X:i8[i,k] * W:i8[j,k])) * A[i] * B[j]", MD_BF16,
     "gemm_wgmma8/rows128_columns256_pingpong0_cluster2_epilogue1", 168},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * W:f8e4m3[j,k]) * A[i] * B[j]", MD_BF16,
     "gemm_wgmma8/rows128_columns128_pingpong0_cluster2_epilogue1", 168},
    {"Y[i,j] = sum[k](X:f8e4m3[i,k] * W:f8e4m3[j,k]) * A[i] * B[j]", MD_BF16,
     "gemm_wgmma8/rows128_columns256_pingpong0_cluster2_epilogue1_slice128", 168},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows128_columns8_depths1_split4_blocks2", 104},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows128_columns64_depths1_split1_blocks1", 168},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:u4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_F16,
     "gemm_widened/rows64_columns32_depths2_split2_blocks1", 168},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W:i8[j,k]) * S[j])", MD_BF16,
     "gemm_widened/rows64_columns64_depths2_split2_blocks1", 168},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows64_columns8_depths16_split2_blocks1_direct4", 128},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows64_columns8_depths4_split1_blocks2_direct2", 128},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:u4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_F16,
     "gemm_widened/rows128_columns8_depths4_split2_blocks1_direct4", 255},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W:i8[j,k]) * S[j])", MD_BF16,
     "gemm_widened/rows64_columns8_depths8_split1_blocks1_direct4", 168},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows64_columns16_depths4_split2_blocks2_direct2", 128},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows32_columns8_depths16_split1_blocks1_direct2_ahead2", 128},
    {"Y[i,j] = sum[k](X[i,k] * (f32(W:u4[j,k]) - Z[j,k//32]) * S[j,k//32])", MD_F16,
     "gemm_widened/rows32_columns8_depths8_split1_blocks1_direct2_ahead3", 255},
    {"Y[i,j] = gelu(sum[k](X[i,k] * W:i8[j,k]) * S[j])", MD_BF16,
     "gemm_widened/rows64_columns8_depths4_split1_blocks2_direct4_ahead2", 168},
    {"Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16,
     "gemm_widened/rows16_columns8_depths8_split1_blocks2_direct1", 128},
};

/* Up to 16 rows are made by warps, and the model takes that for faster. */
static void test_few_rows(void **state)
{
    static const char *const variant[] = {"gemm_widened/rows32_columns8_depths16_split1_blocks1_direct2_ahead2",
                                          "gemm_widened/rows64_columns8_depths4_split2_blocks1"};
    enum { DIRECT = 5 };
    fixture f;
    double us[2];
    (void)state;
    open_fixture(&f, "Y[i,j] = sum[k](X[i,k] * W:i4[j,k] * S[j,k//128])", MD_BF16);
    assert_ok(md_dev_cuda_assume(&f.facts, 90));
    f.target.constants = all_inputs(f.formula);
    for (int64_t rows = 1; rows <= 32; rows *= 2) {
        int64_t size[MD_FX_MAX_DIMS];
        for (int32_t d = 0; d < f.formula->n_dims; d++)
            size[d] = strcmp(f.formula->dim[d].name, "i") ? strcmp(f.formula->dim[d].name, "S.1") ? 4096 : 32 : rows;
        for (int32_t i = 0; i < 2; i++) {
            const md_fa_family *family = NULL;
            md_fa_config config;
            md_fa_features features = {.ops_rate = 1, .parallel = 1, .launches = 1};
            assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant[i]));
            assert_string_equal(family->field[DIRECT].name, "direct");
            assert_int_equal(family->takes(&f.target, DIRECT, config.value[DIRECT], size), i == 1 || rows <= 16);
            md_fa_features_of(&features, family, &f.target, &config, size);
            us[i] = features.serial_us;
        }
        if (rows <= 8 && us[0] >= us[1])
            fail_msg("%d rows: %g and %g us", (int)rows, us[0], us[1]);
    }
    close_fixture(&f);
}

static void test_registers(void **state)
{
    static const int32_t capabilities[] = {80, 90, 100};
    (void)state;
    need_nvrtc();
    for (size_t i = 0; i < MD_COUNT(gates); i++)
        for (size_t c = 0; c < MD_COUNT(capabilities); c++) {
            fixture f;
            open_fixture(&f, gates[i].text, gates[i].dtype);
            compile(&gates[i], &f, capabilities[c]);
            close_fixture(&f);
        }
    for (size_t i = 0; i < MD_COUNT(hopper); i++) {
        fixture f;
        open_fixture(&f, hopper[i].text, hopper[i].dtype);
        f.target.allows_tf32 = true;
        f.target.constants = all_inputs(f.formula);
        compile(&hopper[i], &f, 90);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_taken),   cmocka_unit_test(test_depth),    cmocka_unit_test(test_exactness),
        cmocka_unit_test(test_how_scales_come), cmocka_unit_test(test_few_rows), cmocka_unit_test(test_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
