/* What envelopes refuse and how many blocks a launch has, without a device. */
#include "family/cuda/target_fixture.h"

#include "base/plain.h"

/* A block of A is packed by one vector of lanes: an envelope refuses higher tiles, whoever asks for them. */
static void high_tiles_are_refused(void **state)
{
    static const int64_t rows[] = {4, 6, 8, 12};
    static const struct {
        const char *family, *formula;
    } cases[] = {{"gemm", "Y[i,j] = sum[k](A[i,k] * B[k,j])"},
                 {"gemm", "Y[i,j] = sum[k](A:f64[i,k] * B:f64[j,k])"},
                 {"gemm_grouped", "Y[i,j] = sum[k](A[i,k] * B[e:i64[i],k,j])"}};
    const md_kn_shape shape = {.size = {40, 40, 40}};
    (void)state;
    for (int c = 0; c < MD_COUNT(cases) * 3 * MD_COUNT(rows); c++) {
        fixture f;
        char name[64];
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_envelope envelope;
        const int64_t height = rows[c % MD_COUNT(rows)];
        open_fixture(&f, cases[c / MD_COUNT(rows) / 3].formula, MD_F32);
        f.facts = (md_dev_facts){.kind = MD_DEV_HOST, .threads = 2};
        f.facts.vector_bytes = 16 << c / MD_COUNT(rows) % 3;
        snprintf(name, sizeof name, "%s/rows%d", cases[c / MD_COUNT(rows) / 3].family, (int)height);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, name));
        md_fa_envelope_of(&envelope, family, &f.target, &config);
        const char *const miss = md_kn_envelope_miss(&envelope, &shape);
        if ((miss != NULL) != (height > f.facts.vector_bytes / 4))
            fail_msg("%s with vectors of %d bytes: %s", name, (int)f.facts.vector_bytes, miss ? miss : "taken");
        close_fixture(&f);
    }
}

/* A row read again and again, or rows that share elements, are no matrix of the library's. */
static void rows_that_overlap_are_no_matrix(void **state)
{
    static const struct {
        int64_t depth, stride;
        const char *miss;
    } cases[] = {{1, 1, NULL}, {1, 0, "rows that overlap"}, {7, 7, NULL},
                 {7, 9, NULL}, {7, 0, "rows that overlap"}, {7, 3, "rows that overlap"}};
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_envelope envelope;
    fixture f;
    (void)state;
    open_fixture(&f, "let p[m,n] = sum[k](A:bf16[m,k] * B:bf16[n,k]); Y:bf16[m,n] = gelu(p[m,n] + c:f32[n])", MD_F32);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, "gemm_lib/rank0"));
    md_fa_envelope_of(&envelope, family, &f.target, &config);
    for (int i = 0; i < MD_COUNT(cases) * 2; i++) {
        const int64_t k = cases[i / 2].depth, stride = cases[i / 2].stride;
        md_kn_shape shape = {.size = {33, 255, k}, .unit = UINT32_MAX};
        for (int32_t t = 0; t < f.formula->n_tensors; t++) {
            const int operand = f.formula->tensor[t].name[0] - 'A';
            shape.extent[t][0] = f.formula->tensor[t].name[0] == 'B' ? 255 : 33;
            shape.extent[t][1] = k;
            shape.stride[t][0] = operand == i % 2 ? stride : k;
            shape.stride[t][1] = 1;
        }
        const char *const miss = md_kn_envelope_miss(&envelope, &shape);
        if ((miss == NULL) != (cases[i / 2].miss == NULL) || (miss && strcmp(miss, cases[i / 2].miss) != 0))
            fail_msg("operand %d, rows of %d at %d: %s", i % 2, (int)k, (int)stride, miss ? miss : "taken");
    }
    close_fixture(&f);
}

/* A block of row_shared takes row after row: there are no more blocks than rows, nor than fit at once. */
static void blocks_that_loop_are_as_many_as_fit(void **state)
{
    static const int64_t rows[] = {0, 1, 7, 100, 1000, 100003};
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_geometries g;
    fixture f;
    (void)state;
    open_fixture(&f, "Y[i,j] = X[i,j] - max[k](X[i,k])", MD_F32);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, "row_shared"));
    md_kn_shape shape = {.size = {1 << 30, 4096}};
    md_fa_geometry_of(&g, family, &f.target, &config, &shape);
    const int64_t most = g.launch[0].blocks;
    assert_true(most >= f.facts.threads && most % f.facts.threads == 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape.size[0] = rows[i];
        md_fa_geometry_of(&g, family, &f.target, &config, &shape);
        if (g.launch[0].blocks != MD_MIN(rows[i], most))
            fail_msg("%d rows: %d blocks", (int)rows[i], (int)g.launch[0].blocks);
    }
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(high_tiles_are_refused),
                                       cmocka_unit_test(rows_that_overlap_are_no_matrix),
                                       cmocka_unit_test(blocks_that_loop_are_as_many_as_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
