/* Row families of GPUs without a GPU: what is legal, where it is valid, how it is launched, what its text says. */
#include "support/check.h"

#include "base/status.h"
#include "device/cuda/cuda.h"
#include "expr/formula.h"
#include "family/cuda/cuda.h"
#include "family/numeric.h"
#include "stage/stage.h"
#include "tune/tune.h"
#include "family/cuda/gate_fixture.h"

#include <stdlib.h>

extern const md_fa_family md_fa_cuda_row_persistent, md_fa_cuda_row_looped, md_fa_cuda_row_thread,
    md_fa_cuda_row_shared;

static const char *const formula_list[] = {
    "Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
    "Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]",
    "Y[a] = sum[n](X[a,n])",
    "Y[a] = argmax[n](X[a,n])",
    "Y[a] = log(sum[n](exp(X[a,n] - max[k](X[a,k])))) + max[n](X[a,n])",
};
static const md_dtype dtype_list[] = {MD_F32, MD_BF16, MD_F16, MD_F64};
static const int64_t size_list[][2] = {{8192, 4096}, {4097, 12289}, {524288, 64}, {131072, 256},
                                       {16, 131072}, {1, 1048576},  {7, 1},       {3, 0},
                                       {0, 9},       {1048576, 4},  {70001, 7}};

typedef struct visit {
    fixture *f;
    const md_fa_family *family;
    const int64_t *size;
    int32_t n;
} visit;

static bool check_config(void *user, const md_fa_config *config)
{
    visit *v = user;
    md_kn_shape shape = {0};
    md_kn_envelope envelope;
    md_kn_geometries g;
    for (int32_t d = 0; d < v->f->formula->n_dims; d++)
        shape.size[d] = v->size[d];
    shape.unit = shape.aligned = shape.aligned16 = shape.contiguous = UINT32_MAX;
    v->n++;
    md_fa_envelope_of(&envelope, v->family, &v->f->target, config);
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    md_fa_geometry_of(&g, v->family, &v->f->target, config, &shape);
    assert_int_equal(g.launch[0].blocks > 0, v->size[0] > 0);
    assert_in_range(g.launch[0].block[0], 64, 1024);
    assert_int_equal(g.launch[0].block[0] % 32, 0);
    double us = md_tn_predict_us(&v->f->target, v->family, config, v->size);
    assert_true(us > 0 && us < 1e9);
    /* A row that is longer than the kernel's lanes hold is another variant's. */
    shape.size[1] = INT64_C(1) << 20;
    if (v->family->is_persistent)
        assert_non_null(md_kn_envelope_miss(&envelope, &shape));
    shape.size[1] = INT64_C(1) << 31;
    if (envelope.unit)
        assert_non_null(md_kn_envelope_miss(&envelope, &shape));
    return true;
}

static void test_configs(void **state)
{
    (void)state;
    for (int32_t i = 0; i < (int32_t)(MD_COUNT(formula_list) * MD_COUNT(dtype_list)); i++) {
        fixture f;
        open_fixture(&f, formula_list[i % (int32_t)MD_COUNT(formula_list)],
                     dtype_list[i / (int32_t)MD_COUNT(formula_list)]);
        for (int32_t s = 0; s < (int32_t)MD_COUNT(size_list); s++) {
            visit v[3] = {{&f, &md_fa_cuda_row_persistent, size_list[s], 0},
                          {&f, &md_fa_cuda_row_looped, size_list[s], 0},
                          {&f, &md_fa_cuda_row_thread, size_list[s], 0}};
            for (int32_t k = 0; k < 3; k++) {
                assert_true(md_fa_applies(v[k].family, &f.target));
                md_fa_each_all(&f.target, v[k].family, size_list[s], check_config, &v[k]);
            }
            assert_true(v[0].n + v[1].n > 0);
        }
        close_fixture(&f);
    }
}

/* Grids are 2^31 - 1 blocks wide at most. */
static void test_many_rows(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, formula_list[2], MD_BF16);
    md_fa_config config = md_fa_default(&md_fa_cuda_row_looped);
    md_kn_shape shape = {.size = {INT64_C(5) << 31, 8}};
    md_kn_geometries g;
    md_fa_geometry_of(&g, &md_fa_cuda_row_looped, &f.target, &config, &shape);
    assert_int_equal(g.launch[0].blocks, INT64_C(5) << 31);
    assert_true((int64_t)g.launch[0].grid[0] * g.launch[0].grid[1] >= g.launch[0].blocks);
    assert_in_range(g.launch[0].grid[1], 1, 65535);
    close_fixture(&f);
}

static void test_text(void **state)
{
    (void)state;
    static const char *const variant[] = {
        "row_persistent/lanes256_vecs4_rows1_keep1_align0", "row_persistent/lanes8_vecs2_rows16_keep0_align1",
        "row_looped/lanes256_vecs4_rows1_align1", "row_looped/lanes128_vecs2_rows1_align2"};
    for (int32_t i = 0; i < (int32_t)(MD_COUNT(formula_list) * MD_COUNT(variant)); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        const char *name = variant[i / (int32_t)MD_COUNT(formula_list)];
        open_fixture(&f, formula_list[i % (int32_t)MD_COUNT(formula_list)], MD_F16);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, name));
        assert_ok(md_fa_emit(&source, family, &f.target, &config));
        const char *text = md_strbuf_text(&source.launch[0].text);
        assert_int_equal(source.n_launches, 1);
        assert_string_equal(source.launch[0].entry, "md_kernel");
        assert_non_null(strstr(text, "md_kernel(const __grid_constant__ md_params"));
        assert_null(strstr(text, "#include \""));

        assert_non_null(strstr(text, strstr(name, "align2") ? "_strided(p->t1" : "md_fetch_lead<md_t_f16>(p->t1"));
        assert_non_null(strstr(text, strstr(name, "align0") ? "#define MD_ALIGNED 1\n" : "#define MD_ALIGNED 0\n"));
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

/* Several rows at once: as many fewer blocks, and the bits of one at a time. Few blocks are as many on each SM, but no
 * more than there are rows for their warps. */
static void test_at_once(void **state)
{
    static const char *const variant[] = {"row_persistent/lanes32_vecs4_rows4_keep0_align3",
                                          "row_persistent/lanes32_vecs4_rows4_keep0_align4",
                                          "row_persistent/lanes32_vecs4_rows4_keep0_align5"};
    const int64_t rows[] = {10003, 1003, 5}, blocks[][3] = {{2501, 1251, 660}, {264, 132, 132}, {5, 5, 5}};
    md_fa_numeric class[3];
    fixture f;
    (void)state;
    open_fixture(&f, "Y[i] = sum[j](X[i,j])", MD_F32);
    for (int32_t i = 0; i < 3; i++) {
        const md_fa_family *family;
        md_fa_config config;
        md_kn_geometries g;
        md_kn_shape shape;
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant[i]));
        for (int32_t k = 0; k < (int32_t)MD_COUNT(rows); k++) {
            const int64_t size[MD_FX_MAX_DIMS] = {rows[k], 79};
            md_tn_shape(&shape, f.program, size);
            md_fa_geometry_of(&g, family, &f.target, &config, &shape);
            assert_int_equal(g.launch[0].blocks, blocks[k][i]);
            assert_int_equal(g.launch[0].block[0], 128);
        }
        md_fa_numeric_of(&class[i], &f.target, family, &config);
        assert_int_equal(class[i].id, class[0].id);
    }
    close_fixture(&f);
}

static uint64_t class_of(const char *variant)
{
    const md_fa_family *family;
    md_fa_config config;
    md_fa_numeric class;
    fixture f;
    open_fixture(&f, "Y[i] = sum[j](X[i,j])", MD_F32);
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant));
    md_fa_numeric_of(&class, &f.target, family, &config);
    close_fixture(&f);
    return class.id;
}

/* Runs of 64 additions are 60 where a step of the loop has six: other bits, seen on an H200 with 70,001 elements. */
static void test_looped_classes(void **state)
{
    (void)state;
    const uint64_t four = class_of("row_looped/lanes32_vecs4_rows4_align1"),
                   six = class_of("row_looped/lanes32_vecs6_rows4_align1");
    assert_int_equal(four, class_of("row_looped/lanes32_vecs8_rows4_align1"));
    assert_int_equal(four, class_of("row_persistent/lanes32_vecs6_rows4_keep0_align1"));
    assert_true(six != four && six != class_of("row_looped/lanes32_vecs3_rows4_align1"));
}

typedef struct best {
    const fixture *f;
    const md_fa_family *family;
    const int64_t *size;
    double us;
} best;

static bool note_best(void *user, const md_fa_config *config)
{
    best *b = user;
    const double us = md_tn_predict_us(&b->f->target, b->family, config, b->size);
    b->us = b->us > 0 && b->us < us ? b->us : us;
    return true;
}

static double best_us(const fixture *f, const md_fa_family *family, const int64_t *size)
{
    best b = {f, family, size, 0};
    md_fa_each(&f->target, family, size, note_best, &b);
    return b.us;
}

/* row_thread serves rows that have less than a vector for each of row_persistent's threads, and is predicted to be
 * faster there; it has no config for longer rows. */
static void test_short_rows(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 4, 7, 16};
    fixture f;
    open_fixture(&f, formula_list[0], MD_F32);
    for (int32_t i = 0; i < (int32_t)MD_COUNT(lengths); i++) {
        const int64_t size[] = {1048576, lengths[i]};
        assert_true(best_us(&f, &md_fa_cuda_row_thread, size) > 0);
    }
    const int64_t short_rows[] = {1048576, 4}, long_rows[] = {1048576, 64};
    assert_true(best_us(&f, &md_fa_cuda_row_thread, short_rows) < best_us(&f, &md_fa_cuda_row_persistent, short_rows));
    assert_true(best_us(&f, &md_fa_cuda_row_thread, long_rows) == 0.0);
    close_fixture(&f);
}

/* ---- Rows in shared memory */

/* Stages that read one tensor along the row, more than once, and besides it only what rows share. */
static void test_shared_applies(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool applies;
    } list[] = {
        {"Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G[n]", true},
        {"Y[a] = var[n](X[a,n])", false}, /* stores nothing along the row */
        {"Y[a,n] = (X[a,n] + D[a,n]) * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6)", false},
        {"Y[a,n] = X[a,n+1] - max[k](X[a,k])", false}, /* does not lie on boundaries */
        {"Y:bf16[a,n] = X:f32[a,n] - max[k](X[a,k])", false}, /* the store does */
    };
    for (int32_t i = 0; i < (int32_t)MD_COUNT(list); i++) {
        fixture f;
        open_fixture(&f, list[i].text, MD_F32);
        if (md_fa_cuda_row_shared.applies(&f.target) != list[i].applies)
            fail_msg("%s", list[i].text);
        assert_ok(md_dev_cuda_assume(&f.facts, 80)); /* has no bulk copies */
        assert_false(md_fa_cuda_row_shared.applies(&f.target));
        close_fixture(&f);
    }
}

typedef struct shared_visit {
    fixture *f;
    const int64_t *size;
    int32_t n;
} shared_visit;

static bool check_shared(void *user, const md_fa_config *config)
{
    shared_visit *v = user;
    md_kn_shape shape = {.size = {v->size[0], v->size[1]}};
    md_kn_envelope envelope;
    md_kn_geometries g;
    const int64_t blocks = config->value[2],
                  bytes = v->size[1] * (int64_t)md_dtype_size(v->f->formula->tensor[1].dtype);
    shape.unit = shape.aligned = shape.aligned16 = shape.contiguous = UINT32_MAX;
    v->n++;
    md_fa_envelope_of(&envelope, &md_fa_cuda_row_shared, &v->f->target, config);
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    md_fa_geometry_of(&g, &md_fa_cuda_row_shared, &v->f->target, config, &shape);
    assert_int_equal(g.launch[0].blocks, MD_MIN(v->size[0], v->f->facts.threads * blocks));
    assert_int_equal(g.launch[0].grid[0], g.launch[0].blocks);
    assert_in_range(g.launch[0].scratch_bytes, bytes - 15, bytes); /* whole vectors */
    assert_true((g.launch[0].scratch_bytes + 2048) * blocks <= v->f->facts.shared_per_sm);
    shape.size[1] = envelope.row_points_max;
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    md_fa_geometry_of(&g, &md_fa_cuda_row_shared, &v->f->target, config, &shape);
    assert_true(g.launch[0].scratch_bytes + 2048 <= v->f->facts.shared_per_block);
    shape.size[1] = envelope.row_points_max + 1;
    assert_non_null(md_kn_envelope_miss(&envelope, &shape));
    return true;
}

/* Rows at no boundary, from a whole chunk up to all that a block can have. */
static void test_shared_rows(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{2000, 40001}, {400, 57001}, {1, 20001}, {5000, 9001}, {300, 113001}};
    static const int64_t others[][2] = {{100, 901}, {100, 120001}, {2000, 40000}};
    for (int32_t i = 0; i < 2 * (int32_t)MD_COUNT(shapes); i++) {
        const bool is_long = i / 2 == 4, is_half = i % 2;
        fixture f;
        open_fixture(&f, formula_list[0], is_half ? MD_BF16 : MD_F32);
        shared_visit v = {&f, shapes[i / 2], 0};
        md_fa_each_all(&f.target, &md_fa_cuda_row_shared, v.size, check_shared, &v);
        if ((v.n > 0) != (!is_long || is_half))
            fail_msg("shape %d: %d configs", (int)i, (int)v.n);
        v.n = 0;
        for (int32_t k = 0; k < 3; k++)
            md_fa_each_all(&f.target, &md_fa_cuda_row_shared, others[k], check_shared, &v);
        assert_int_equal(v.n, 0);
        close_fixture(&f);
    }
}

/* Where it was measured, it is predicted to be faster than what was slower: an H200, layer_norm [2000, 40001]. */
static void test_shared_is_picked(void **state)
{
    (void)state;
    static const int64_t odd[] = {2000, 40001}, shorter[] = {20000, 4097};
    for (int32_t i = 0; i < 2; i++) {
        fixture f;
        open_fixture(&f, formula_list[1], dtype_list[i]);
        assert_true(best_us(&f, &md_fa_cuda_row_shared, odd) < best_us(&f, &md_fa_cuda_row_looped, odd));
        assert_true(best_us(&f, &md_fa_cuda_row_persistent, shorter) > 0);
        const double us = best_us(&f, &md_fa_cuda_row_shared, shorter);
        assert_true(us == 0 || us > best_us(&f, &md_fa_cuda_row_persistent, shorter));
        close_fixture(&f);
    }
}

/* The texts compile without stack and spills. Needs NVRTC, no GPU. */
static void test_shared_compiles(void **state)
{
    (void)state;
    static const struct {
        int32_t formula;
        md_dtype dtype;
        const char *variant;
    } list[] = {{0, MD_F32, "row_shared/lanes512_vecs2_blocks1"},
                {1, MD_F32, "row_shared/lanes512_vecs1_blocks2"},
                {1, MD_BF16, "row_shared/lanes256_vecs4_blocks2"},
                {0, MD_F16, "row_shared/lanes1024_vecs1_blocks1"}};
    need_nvrtc();
    for (int32_t i = 0; i < (int32_t)MD_COUNT(list); i++) {
        fixture f;
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        open_fixture(&f, formula_list[list[i].formula], list[i].dtype);
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, list[i].variant));
        assert_ok(md_fa_emit(&source, family, &f.target, &config));
        if (gate_compile_all(&source, f.facts.arch) != MD_OK)
            fail_msg("%s: %s", list[i].variant, md_last_error());
        md_kn_source_finish(&source);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_configs),
                                       cmocka_unit_test(test_many_rows),
                                       cmocka_unit_test(test_text),
                                       cmocka_unit_test(test_at_once),
                                       cmocka_unit_test(test_short_rows),
                                       cmocka_unit_test(test_shared_applies),
                                       cmocka_unit_test(test_shared_rows),
                                       cmocka_unit_test(test_shared_is_picked),
                                       cmocka_unit_test(test_shared_compiles),
                                       cmocka_unit_test(test_looped_classes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
