/* What kernels are called: by family, variant, and what they compute. One name for each family. */
#include "support/check.h"
#include "support/constants.h"
#include "support/find_family.h"

#include "base/status.h"
#include "device/device.h"
#include "expr/formula.h"
#include "family/kernel_name.h"

static const char softmax[] = "m[i] = max[j](X[i,j]); e[i,j] = exp(X[i,j] - m[i]); Y[i,j] = e[i,j] / sum[k](e[i,k])";
static const char norm[] = "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5)";
static const char linear[] = "Y:bf16[m,n] = gelu(sum[k](A:bf16[m,k] * W:bf16[n,k]) + B:bf16[n])";
static const char matmul[] = "Y[m,n] = sum[k](A[m,k] * B[k,n])";
static const char grouped[] = "Y:bf16[m,n] = sum[k](A:bf16[m,k] * B:bf16[e[m],n,k])";
static const char window[] = "Y:bf16[b,o,x] = sum[c,r](X:bf16[b,c,x + r] * W:bf16[o,c,r])";
static const char integers[] = "Y:bf16[i,j] = f32(sum[k](X:i8[i,k] * W:i8[j,k])) * S:f32[j]";
static const char column_sum[] = "Y[j] = sum[i](X[i,j])";
static const char scan[] = "Y[i,j] = cumsum[j](X[i,j])";
static const char gather[] = "Y[i,j] = T[I:i64[i],j]";
static const char scatter[] = "Y[I:i64[i],j] += X[i,j]";
static const char add[] = "Y[i,j] = A[i,j] + B[i,j]";
static const char planes[] = "Y[i,j] = sum[r,s](X[i + r,j + s] * W[r,s])";
static const char conv[] = "Y[i] = sum[k](X[i + k] * W[k])";
static const char attention[] =
    "let S[b,h,i,j] = sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d]); let m[b,h,i] = max[j](S[b,h,i,j]); let "
    "e:bf16[b,h,i,j] "
    "= exp(S[b,h,i,j] - m[b,h,i]); Y:bf16[b,h,i,d] = sum[j](e[b,h,i,j] * V:bf16[b,h,j,d]) / sum[j](e[b,h,i,j])";
static const char decode[] =
    "let S[b,h,j] = sum[d](Q:bf16[b,h,d] * K:bf16[b,h,j,d]); let m[b,h] = max[j](S[b,h,j]); let e:bf16[b,h,j] = "
    "exp(S[b,h,j] - m[b,h]); Y:bf16[b,h,d] = sum[j](e[b,h,j] * V:bf16[b,h,j,d]) / sum[j](e[b,h,j])";
static const char gradient[] =
    "let p:bf16[i,j] = exp(sum[d](Q:bf16[i,d] * K:bf16[j,d]) - L[i]); A:bf16[i,d] = sum[j](p[i,j] * K[j,d]); "
    "B:bf16[j,d] = sum[i](p[i,j] * Q[i,d])";
static const char joint[] =
    "let p:bf16[i,j] = exp(sum[d](Q:bf16[i,d] * K:bf16[j,d]) - L[i]); let t:bf16[i,j] = p[i,j] * (sum[e](G:bf16[i,e] * "
    "V:bf16[j,e]) - w[i]); A:bf16[i,d] = sum[j](t[i,j] * K[j,d]); B:bf16[j,d] = sum[i](t[i,j] * Q[i,d]); "
    "C:bf16[j,e] = sum[i](p[i,j] * G[i,e])";
static const char sigmoids[] =
    "let S[b,h,i,j] = sigmoid(sum[d](Q:bf16[b,h,i,d] * K:bf16[b,h,j,d])); Y:bf16[b,h,i,d] = sum[j](S[b,h,i,j] * "
    "V:bf16[b,h,j,d])";

typedef struct row {
    md_dev_kind device;
    const char *family, *formula, *words; /* of what the stage computes */
} row;

static const row rows[] = {
    {MD_DEV_HOST, "pointwise", add, "add_f32"},
    {MD_DEV_HOST, "gather", gather, "gather_f32"},
    {MD_DEV_HOST, "scatter", scatter, "scatter_add_f32"},
    {MD_DEV_HOST, "scatter_bins", scatter, "scatter_add_f32"},
    {MD_DEV_HOST, "row_persistent", softmax, "max_exp_sum_f32"},
    {MD_DEV_HOST, "row_looped", norm, "sum_var_rsqrt_f32"},
    {MD_DEV_HOST, "column", column_sum, "sum_f32"},
    {MD_DEV_HOST, "scan", scan, "cumsum_f32"},
    {MD_DEV_HOST, "gemm", linear, "matmul_gelu_bf16"},
    {MD_DEV_HOST, "gemm_packed", matmul, "matmul_f32"},
    {MD_DEV_HOST, "gemm_grouped", grouped, "gather_matmul_bf16"},
    {MD_DEV_HOST, "gemv", matmul, "matmul_f32"},
    {MD_DEV_HOST, "chain", attention, "chain_bf16"},
    {MD_DEV_HOST, "pairs",
     "let p[i,j] = exp(sum[d](Q[i,d] * K[j,d]) - L[i]); A[i,d] = sum[j](p[i,j] * K[j,d]); "
     "B[j,d] = sum[i](p[i,j] * Q[i,d])",
     "pairs_f32"},
    {MD_DEV_HOST, "nest_lanes", planes, "sum_f32"},
    {MD_DEV_HOST, "nest", conv, "sum_f32"},
    {MD_DEV_CUDA, "pointwise", add, "add_f32"},
    {MD_DEV_CUDA, "gather", gather, "gather_f32"},
    {MD_DEV_CUDA, "scatter", scatter, "scatter_add_f32"},
    {MD_DEV_CUDA, "row_persistent", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "row_looped", norm, "sum_var_rsqrt_f32"},
    {MD_DEV_CUDA, "row_split", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "row_shared", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "row_cluster", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "row_thread", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "row_tile", softmax, "max_exp_sum_f32"},
    {MD_DEV_CUDA, "column", column_sum, "sum_f32"},
    {MD_DEV_CUDA, "scan_persistent", scan, "cumsum_f32"},
    {MD_DEV_CUDA, "scan_split", scan, "cumsum_f32"},
    {MD_DEV_CUDA, "gemm_wgmma", linear, "matmul_gelu_bf16"},
    {MD_DEV_CUDA, "gemm_swapped", linear, "matmul_gelu_bf16"},
    {MD_DEV_CUDA, "gemm_mma", linear, "matmul_gelu_bf16"},
    {MD_DEV_CUDA, "gemm_window", window, "matmul_bf16"},
    {MD_DEV_CUDA, "gemm_quantised", integers, "matmul_bf16"},
    {MD_DEV_CUDA, "gemm_widened", "Y:bf16[i,j] = sum[k](X:bf16[i,k] * f32(W:i4[j,k]))", "matmul_bf16"},
    {MD_DEV_CUDA, "gemm_wgmma8", integers, "matmul_bf16"},
    {MD_DEV_CUDA, "gemm_rows", grouped, "gather_matmul_bf16"},
    {MD_DEV_CUDA, "gemm_grouped", grouped, "gather_matmul_bf16"},
    {MD_DEV_CUDA, "gemm_simt", matmul, "matmul_f32"},
    {MD_DEV_CUDA, "gemm_dot", linear, "matmul_gelu_bf16"},
    {MD_DEV_CUDA, "gemm_fma", matmul, "matmul_f32"},
    {MD_DEV_CUDA, "gemv", linear, "matmul_gelu_bf16"},
    {MD_DEV_CUDA, "chain_wgmma", attention, "chain_bf16"},
    {MD_DEV_CUDA, "chain_split", attention, "chain_bf16"},
    {MD_DEV_CUDA, "chain_dot", decode, "chain_bf16"},
    {MD_DEV_CUDA, "chain_mma", sigmoids, "chain_bf16"},
    {MD_DEV_CUDA, "pairs_joint", joint, "pairs_bf16"},
    {MD_DEV_CUDA, "pairs_wgmma", gradient, "pairs_bf16"},
    {MD_DEV_CUDA, "pairs_mma", gradient, "pairs_bf16"},
    {MD_DEV_CUDA, "cells", "Y[i,j] = X[i,2 * j]", "mul_f32"},
    {MD_DEV_CUDA, "nest", conv, "sum_f32"},
};

static md_dev_facts facts[2] = {[MD_DEV_HOST] = {.kind = MD_DEV_HOST,
                                                 .threads = 4,
                                                 .vector_bytes = 64,
                                                 .l1_bytes = 48 << 10,
                                                 .l2_bytes = 2 << 20,
                                                 .l3_bytes = 32 << 20,
                                                 .memory_gbps = 20,
                                                 .cache_gbps = 80,
                                                 .gflops = 400,
                                                 .launch_us = 2}};

typedef struct made {
    md_fx_formula *formula;
    md_st_program *program;
    md_fa_target target;
} made;

static void make(made *m, md_dev_kind device, const char *formula)
{
    assert_ok(md_fx_formula_create(&m->formula, formula, NULL));
    assert_ok(md_st_split(m->formula));
    assert_ok(md_st_program_create(&m->program, m->formula));
    m->target = (md_fa_target){.program = m->program, .facts = &facts[device], .constants = all_inputs(m->formula)};
    for (int32_t i = 0; i < m->program->n_stages; i++)
        if (m->program->stage[i].kind == MD_ST_CHAIN)
            m->target.stage = i;
}

static void finish(made *m)
{
    md_st_program_destroy(&m->program);
    md_fx_formula_destroy(&m->formula);
}

static bool take_first(void *user, const md_fa_config *config)
{
    *(md_fa_config *)user = *config;
    return false;
}

/* The first config that is legal for 1024 of everything, or for 4 (gemv takes few rows), or for 9001 (row_shared and
 * row_cluster take long rows at no boundary), or for 64 (chains of GPUs take some depths), or for 77 with 8193
 * rows (row_tile takes many short rows at no boundary). */
static md_fa_config config_of(const md_fa_target *target, const md_fa_family *family)
{
    md_fa_config config = {{-1}};
    int64_t size[MD_KN_MAX_DIMS];
    static const int64_t sizes[] = {1024, 4, 9001, 64, 77};
    for (int32_t i = 0; i < (int32_t)MD_COUNT(sizes) && config.value[0] == -1; i++) {
        for (int32_t d = 0; d < MD_KN_MAX_DIMS; d++)
            size[d] = sizes[i] == 77 && d == 0 ? 8193 : sizes[i];
        md_fa_each_all(target, family, size, take_first, &config);
    }
    if (family->n_fields > 0 && config.value[0] == -1)
        fail_msg("%s has no config", family->name);
    return config;
}

/* The variant's name as part of an identifier. */
static void expect_name(char out[MD_KN_ENTRY], const md_fa_family *family, const md_fa_config *config, const char *more)
{
    char variant[MD_FA_NAME];
    md_fa_name(variant, family, config);
    snprintf(out, MD_KN_ENTRY, "md_%s_%.60s", variant, more);
    for (char *c = out; *c; c++)
        *c = *c == '/' ? '_' : *c;
}

static void check_launch(const md_kn_launch_source *launch, const char *name)
{
    char define[MD_KN_ENTRY + 32];
    assert_string_equal(launch->entry, name);
    snprintf(define, sizeof define, "#define md_kernel %s\n", name);
    assert_ptr_equal(strstr(md_strbuf_text(&launch->text), define), md_strbuf_text(&launch->text));
    assert_non_null(strstr(md_strbuf_text(&launch->text), " md_kernel("));
}

static void check_row(const row *r)
{
    made m;
    char name[MD_KN_ENTRY], more[60];
    make(&m, r->device, r->formula);
    const md_fa_family *family = find_family(r->device, r->family);
    if (!family || !md_fa_applies(family, &m.target))
        fail_msg("%s does not serve %s", r->family, r->formula);
    const md_fa_config config = config_of(&m.target, family);
    md_kn_source source;
    assert_ok(md_fa_emit_named(&source, &m.target, family, &config));
    for (int32_t i = 0; i < source.n_launches; i++) {
        snprintf(more, sizeof more, "launch%d_%s", i + 1, r->words);
        expect_name(name, family, &config, source.n_launches > 1 ? more : r->words);
        if (source.launch[i].role) /* what variants share has no config */
            snprintf(name, sizeof name, "md_%s_%s", source.launch[i].role, r->words);
        check_launch(&source.launch[i], name);
    }
    md_kn_source_finish(&source);
    finish(&m);
}

static void test_names(void **state)
{
    (void)state;
    for (int32_t bytes = 16; bytes <= 64; bytes *= 2)
        for (int32_t i = 0; i < MD_COUNT(rows); i++) {
            facts[MD_DEV_HOST].vector_bytes = bytes;
            check_row(&rows[i]);
        }
}

static void test_all_families(void **state)
{
    (void)state;
    for (md_dev_kind d = MD_DEV_HOST; d <= MD_DEV_CUDA; d++)
        for (const md_fa_family *const *f = md_fa_families(d); *f; f++) {
            bool is_there = (*f)->is_library;
            for (int32_t i = 0; i < MD_COUNT(rows); i++)
                is_there |= rows[i].device == d && !strcmp(rows[i].family, (*f)->name);
            if (!is_there)
                fail_msg("no row of family %s", (*f)->name);
        }
}

/* A whole name, as a profiler shows it; and launches that variants share, which no config is in. */
static void test_spelling(void **state)
{
    (void)state;
    made m;
    md_fa_config config;
    const md_fa_family *family = NULL;
    md_kn_source source;
    make(&m, MD_DEV_CUDA, matmul);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, "gemm_simt/rows64_columns64_split2"));
    assert_ok(md_fa_emit_named(&source, &m.target, family, &config));
    assert_int_equal(source.n_launches, 2);
    check_launch(&source.launch[0], "md_gemm_simt_rows64_columns64_split2_launch1_matmul_f32");
    check_launch(&source.launch[1], "md_gemm_sum_matmul_f32");
    md_kn_source_finish(&source);
    finish(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_all_families),
        cmocka_unit_test(test_spelling),
    };
    if (md_dev_cuda_assume(&facts[MD_DEV_CUDA], 90) != MD_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
