/* Windows, borders and resizing (cells), without a GPU: where envelopes of rows end, how rows are cut into vectors and
 * launched, and kernels that keep to their registers (needs NVRTC). */
#include "family/cuda/gate_fixture.h"

#include "tune/tune.h"

#define RESIZED                                                                                                        \
    "Y[b,c,i,j] = 0.25 * X[b,c,i // 2,clamp((j - 1) // 2, 0, size(X.3) - 1)] + "                                       \
    "0.75 * X[b,c,i // 2,clamp((j + 1) // 2, 0, size(X.3) - 1)]"
#define WINDOWS "Y[b,c,r,s,i,j] = X[b,c,i + r,j + s]"
#define PADDED "Y[b,c,i,j] = where(i >= 1 and j >= 1, X[b,c,i - 1,j - 1], 0)"
#define FOLDED "Y[b,c,i,j] = sum[r,s](where(i >= r and j >= s, X[b,c,r,s,i - r,j - s], 0))"
#define CELLS(lanes, steps, rows, whole)                                                                               \
    "cells/lanes" lanes "_steps" steps "_plane2_threads128_strided0_rows" rows "_whole" whole

/* The sizes of all indices by their names' places in the text: b, c, i, j and others. */
static void set_sizes(int64_t *size, const md_fx_formula *formula, int64_t i, int64_t j)
{
    for (int32_t d = 0; d < formula->n_dims; d++) {
        const char *name = formula->dim[d].name;
        size[d] = !strcmp(name, "i") ? i : !strcmp(name, "j") ? j : *name == 'r' || *name == 's' ? 3 : 64;
    }
}

static const char *miss_of(fixture *f, const char *variant, int64_t j)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_envelope envelope;
    md_kn_shape shape;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant));
    md_fa_envelope_of(&envelope, family, &f->target, &config);
    set_sizes(size, f->formula, 56, j);
    md_tn_shape(&shape, f->program, size);
    return md_kn_envelope_miss(&envelope, &shape);
}

/* Vectors that end with rows need a row as long as they are, whole ones a multiple of that; others take all. */
static void test_envelopes(void **state)
{
    fixture f;
    (void)state;
    open_fixture(&f, PADDED, MD_BF16);
    for (int64_t j = 1; j < 40; j++) {
        assert_null(miss_of(&f, CELLS("8", "2", "0", "0"), j));
        assert_int_equal(miss_of(&f, CELLS("8", "2", "1", "0"), j) == NULL, j >= 8);
        assert_int_equal(miss_of(&f, CELLS("8", "2", "1", "1"), j) == NULL, j % 8 == 0);
        assert_int_equal(miss_of(&f, CELLS("2", "8", "1", "1"), j) == NULL, j % 2 == 0);
    }
    close_fixture(&f);
}

static void test_configs(void **state)
{
    static const struct {
        const char *text, *variant;
        bool is_legal;
    } list[] = {
        {PADDED, CELLS("8", "2", "1", "0"), true},
        {PADDED, CELLS("8", "3", "1", "0"), true},
        {PADDED, CELLS("8", "3", "0", "0"), false}, /* too many without rows */
        {PADDED, CELLS("8", "8", "1", "0"), false},
        {PADDED, CELLS("8", "2", "0", "1"), false}, /* whole what? */
        {PADDED, "cells/lanes8_steps2_plane3_threads128_strided0_rows1_whole0", false},
        {PADDED, "cells/lanes8_steps2_plane2_threads256_strided0_rows1_whole0", false},
        {"size j=6; " PADDED, CELLS("8", "2", "1", "0"), false},
        {"size j=12; " PADDED, CELLS("8", "2", "1", "0"), true},
        {"size j=12; " PADDED, CELLS("8", "2", "1", "1"), false},
    };
    (void)state;
    for (size_t i = 0; i < MD_COUNT(list); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        open_fixture(&f, list[i].text, MD_BF16);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, list[i].variant));
        assert_true(md_fa_applies(family, &f.target));
        if (md_fa_legal(family, &f.target, &config, NULL) != list[i].is_legal)
            fail_msg("%s: %s", list[i].text, list[i].variant);
        close_fixture(&f);
    }
}

/* Rows of 54 are 14 vectors of 4; of the 12,288 points around planes an SM gets four times what it runs at once. */
static void test_launch(void **state)
{
    fixture f;
    const md_fa_family *family = NULL;
    md_fa_config config;
    md_kn_geometries g;
    md_kn_shape shape;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    (void)state;
    open_fixture(&f, WINDOWS, MD_BF16);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, CELLS("4", "3", "1", "0")));
    set_sizes(size, f.formula, 54, 54);
    md_tn_shape(&shape, f.program, size);
    md_fa_geometry_of(&g, family, &f.target, &config, &shape);
    assert_int_equal(g.launch[0].grid[0], (54 * 14 + 127) / 128);
    assert_int_equal(g.launch[0].grid[1], 1);
    const int64_t enough = 8192 / 128 * (int64_t)f.facts.threads, around = 64 * 64 * 3;
    assert_in_range(g.launch[0].grid[2], 1, around / 2);
    assert_in_range((int64_t)g.launch[0].grid[0] * g.launch[0].grid[2], enough / 2, enough + g.launch[0].grid[0]);
    close_fixture(&f);
}

/* Of few registers, so that many blocks run beside each other. */
static void test_registers(void **state)
{
    static const struct {
        const char *text, *variant;
        md_dtype dtype;
        int32_t registers, capability;
    } gates[] = {
        {RESIZED, CELLS("8", "3", "1", "1"), MD_BF16, 64, 90},
        {WINDOWS, CELLS("4", "3", "1", "0"), MD_BF16, 64, 90},
        {PADDED, CELLS("4", "4", "1", "0"), MD_BF16, 64, 80},
        {FOLDED, CELLS("8", "2", "1", "1"), MD_BF16, 96, 90},
    };
    (void)state;
    need_nvrtc();
    for (size_t i = 0; i < MD_COUNT(gates); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        open_fixture(&f, gates[i].text, gates[i].dtype);
        assert_ok(md_dev_cuda_assume(&f.facts, gates[i].capability));
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, gates[i].variant));
        assert_ok(md_fa_emit(&source, family, &f.target, &config));
        /* what a guard leaves out is zero without a choice */
        const char *body = strstr(md_strbuf_text(&source.launch[0].text), "void md_compute(");
        assert_non_null(body);
        assert_null(strstr(body, "md_where_sf("));
        (void)compile_gate(&source.launch[0], &f, gates[i].variant, gates[i].registers);
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_envelopes), cmocka_unit_test(test_configs),
                                       cmocka_unit_test(test_launch), cmocka_unit_test(test_registers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
