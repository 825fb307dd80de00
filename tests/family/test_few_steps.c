/* Products of few steps of K, most of whose time is storing results, of few rows, and of unaligned ones: times by the
 * model beside those measured on an H200 and an H100. */
#include "family/cuda/target_fixture.h"

#include "base/status.h"
#include "family/cuda/cuda.h"
#include "tune/tune.h"

#include <math.h>
#include <string.h>

typedef struct product {
    md_dtype dtype;
    int64_t rows, columns, depth;
    const char *variant;
    double us;
} product;

static const product measured[] = {
    {MD_F32, 2471, 3879, 26, "gemm_fma/rows128_columns128_split1_thread_rows16_copy_width1_depth8", 38.94},
    {MD_F32, 7288, 16813, 27, "gemm_fma/rows128_columns128_split1_thread_rows16_copy_width1_depth8", 365.9},
    {MD_F32, 408, 8085, 18, "gemm_fma/rows128_columns128_split1_thread_rows16_copy_width1_depth8", 13.89},
    {MD_F32, 3264, 128, 64, "gemm_simt/rows64_columns64_split1", 7.47},
    {MD_BF16, 3011, 9701, 36, "gemm_wgmma/rows128_columns64_pingpong0_cluster2_split1_epilogue2_pad1", 96.43},
    {MD_BF16, 3276, 3555, 238, "gemm_wgmma/rows128_columns192_pingpong0_cluster1_split1_epilogue2_pad1", 42.96},
    {MD_BF16, 4800, 2404, 17, "gemm_wgmma/rows128_columns64_pingpong0_cluster2_split1_epilogue2_pad1", 32.9},
    {MD_BF16, 154, 80, 21, "gemm_simt/rows64_columns32_split1", 3.9},
    {MD_BF16, 5, 1222, 45, "gemm_simt/rows64_columns32_split1", 4.79},
    /* slices of one step of K */
    {MD_BF16, 29, 1112, 20, "gemm_simt/rows32_columns32_split2", 4.57},
    {MD_BF16, 21, 644, 20, "gemm_simt/rows64_columns32_split2", 4.11},
    {MD_F32, 421, 29, 80, "gemm_simt/rows32_columns32_split8", 4.46},
    /* odd columns, and odd rows of K, which threads read piece by piece */
    {MD_BF16, 64, 20467, 24, "gemm_mma/rows64_columns128_stages3_split1", 8.75},
    {MD_BF16, 155, 297, 253, "gemm_mma/rows32_columns64_stages4_split4", 16.53},
    /* one row and two in a library */
    {MD_F32, 1, 96, 32, "gemm_lib/rank0", 3.06},
    {MD_F32, 2, 17328, 3688, "gemm_lib/rank0", 91.1},
    {MD_BF16, 2, 5867, 10050, "gemm_lib/rank0", 61.8},
};

/* Timed as calls, which leave no workspace in a cache. */
static const product by_calls[] = {
    /* nearly all of the time is storing results */
    {MD_BF16, 5327, 2626, 1, "gemm_simt/rows32_columns32_split1", 44.83},
    {MD_BF16, 5327, 2626, 1, "gemm_lib/rank0", 24.53},
    {MD_BF16, 5327, 2626, 1, "gemm_lib/rank1", 20.58},
    {MD_BF16, 2086, 6001, 22, "gemm_lib/rank0", 22.85},
    {MD_BF16, 2086, 6001, 22, "gemm_wgmma/rows128_columns192_pingpong0_cluster1_split1_epilogue0_pad1", 38.54},
    {MD_F32, 3649, 3732, 1, "gemm_simt/rows32_columns128_split1", 39.77},
    {MD_F32, 3649, 3732, 1, "gemm_lib/rank0", 37.74},
    {MD_F32, 3649, 3732, 1, "gemm_lib/rank1", 23.46},
    {MD_F32, 1304, 5316, 11, "gemm_simt/rows32_columns32_split1", 25.48},
    {MD_F32, 1304, 5316, 11, "gemm_lib/rank0", 19.84},
    {MD_BF16, 9, 26, 1, "gemm_simt/rows32_columns32_split1", 3.36},
    {MD_BF16, 9, 26, 1, "gemm_lib/rank1", 2.55},
    /* two launches, and slices that are added up */
    {MD_BF16, 420, 55, 7, "gemm_simt/rows64_columns32_split2", 5.27},
    {MD_BF16, 7, 587, 2595, "gemm_wgmma/rows64_columns16_pingpong0_cluster1_split1_epilogue0_pad1", 11.45},
    {MD_F32, 9, 19, 135, "gemm_simt/rows64_columns32_split16", 5.86},
    {MD_F32, 9, 19, 135, "gemm_fma/rows64_columns64_split5_thread_rows4_copy_width1_depth8", 6.42},
    {MD_F32, 9, 19, 135, "gemm_lib/rank0", 7.75},
    {MD_F32, 4, 6, 173, "gemm_lib/rank0", 7.16},
    /* few blocks, whose loads follow one another */
    {MD_F32, 1, 76, 14404, "gemv/max_rows1_columns2_unroll2_slice_k4", 15.44},
    {MD_F32, 1, 76, 14404, "gemv/max_rows4_columns2_unroll1_slice_k8", 10.27},
    /* a group of lanes for a few results */
    {MD_BF16, 34, 5, 49, "gemm_dot/lanes16_rows1_columns2", 2.05},
    {MD_BF16, 89, 292, 36, "gemm_dot/lanes16_rows2_columns2", 3.15},
    {MD_F32, 14, 54, 562, "gemm_dot/lanes128_rows2_columns2", 2.78},
    {MD_F32, 149, 13, 407, "gemm_dot/lanes128_rows2_columns2", 2.78},
    {MD_F32, 1176, 2, 2427, "gemm_dot/lanes128_rows2_columns2", 8.41},
};

/* With bias and gelu: functions of a tile, and of the launch that adds up slices. */
static const product with_gelu[] = {
    {MD_BF16, 8, 164, 12, "gemm_simt/rows64_columns64_split1", 3.84},
    {MD_BF16, 8, 164, 12, "gemm_simt/rows64_columns32_split2", 4.80},
    {MD_BF16, 320, 60, 1, "gemm_simt/rows64_columns64_split1", 4.50},
    {MD_BF16, 320, 60, 1, "gemm_simt/rows64_columns32_split2", 5.45},
    {MD_BF16, 320, 60, 1, "gemm_lib/rank1", 4.76},
    {MD_BF16, 48, 75, 11, "gemm_simt/rows64_columns64_split1", 4.80},
    {MD_BF16, 48, 75, 11, "gemm_simt/rows64_columns32_split2", 5.66},
    {MD_BF16, 3, 5462, 1, "gemm_simt/rows64_columns64_split1", 4.18},
    {MD_BF16, 3, 5462, 1, "gemm_simt/rows64_columns32_split2", 5.96},
    {MD_BF16, 1069, 872, 2, "gemm_simt/rows32_columns32_split1", 5.91},
    {MD_BF16, 263, 6653, 1, "gemm_simt/rows32_columns32_split1", 10.49},
    {MD_BF16, 335, 5332, 11, "gemm_simt/rows32_columns32_split1", 10.36},
};

/* By the form of the model alone: what trees add is tested in tune/test_trees. */
static double predicted(const fixture *f, const char *variant, const int64_t *size)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant));
    return md_tn_form_us(&f->target, family, &config, size);
}

static double product_us(const product *p, const char *text, const md_dev_facts *facts)
{
    fixture f;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    open_fixture(&f, text, p->dtype);
    f.facts = *facts;
    for (int32_t d = 0; d < f.formula->n_dims; d++) {
        const char name = f.formula->dim[d].name[0];
        size[d] = name == 't' ? p->rows : name == 'n' ? p->columns : p->depth;
    }
    const double us = predicted(&f, p->variant, size);
    close_fixture(&f);
    return us;
}

static void are_near(const product *list, int32_t n, const char *formula, int32_t board)
{
    md_dev_facts facts;
    assert_ok(md_dev_cuda_assume_board(&facts, "sm_90a", board));
    for (int32_t i = 0; i < n; i++) {
        const double us = product_us(&list[i], formula, &facts);
        printf("[%lld,%lld,%lld] %s: %.2f us, measured %.2f\n", (long long)list[i].rows, (long long)list[i].columns,
               (long long)list[i].depth, list[i].variant, us, list[i].us);
        assert_true(fabs(log(us / list[i].us)) < log(1.25));
    }
}

static void times_are_near_measured_ones(void **state)
{
    (void)state;
    enum { H200, H100 };
    are_near(measured, MD_COUNT(measured), "Y[t,n] = sum[k](X[t,k] * W[n,k])", H200);
    are_near(by_calls, MD_COUNT(by_calls), "Y[t,n] = sum[k](X[t,k] * W[n,k])", H100);
    are_near(with_gelu, MD_COUNT(with_gelu), "Y[t,n] = gelu(sum[k](X[t,k] * W[n,k]) + B[n])", H100);
}

/* Many short rows in shared memory: a block takes its time for each, measured on an H100. */
static void many_turns_take_their_time(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "Y[i,j] = (X[i,j] - sum[k](X[i,k]) / f32(size(j))) * rsqrt(var[k](X[i,k]) + 1e-05) * G[j] + B[j]",
                 MD_BF16);
    f.facts.memory_gbps = 3350;
    static const struct {
        int64_t rows, columns;
        const char *variant;
        double us;
    } list[] = {{21977, 541, "row_shared/lanes256_vecs4_blocks2", 180.9},
                {1145, 5013, "row_shared/lanes256_vecs4_blocks2", 21.4},
                {4, 3305, "row_shared/lanes256_vecs2_blocks3", 4.4}};
    for (int32_t i = 0; i < MD_COUNT(list); i++) {
        int64_t size[MD_FX_MAX_DIMS] = {0};
        for (int32_t d = 0; d < f.formula->n_dims; d++)
            size[d] = !strcmp(f.formula->dim[d].name, "i") ? list[i].rows : list[i].columns;
        const double us = predicted(&f, list[i].variant, size);
        printf("[%lld,%lld] %s: %.2f us, measured %.2f\n", (long long)list[i].rows, (long long)list[i].columns,
               list[i].variant, us, list[i].us);
        assert_true(fabs(log(us / list[i].us)) < log(1.25));
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(times_are_near_measured_ones),
                                       cmocka_unit_test(many_turns_take_their_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
