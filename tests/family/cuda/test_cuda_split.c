/* Rows and columns that several blocks of a GPU share, without a GPU: what is legal, where it is valid, and that
 * launches keep the rules that the kernels rely on: groups that wait for each other run at once, slots and tickets
 * in the stream's counters suffice. */
#include "support/check.h"

#include "base/status.h"
#include "expr/formula.h"
#include "family/cuda/cuda.h"
#include "stage/stage.h"
#include "tune/tune.h"

#include <stdlib.h>

extern const md_fa_family md_fa_cuda_row_split, md_fa_cuda_column;

typedef struct form {
    const char *text;
    bool is_column;
} form;

static const form form_list[] = {
    {"Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))", false},
    {"Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]", false},
    {"Y[a] = sum[n](X[a,n])", false},
    {"Y[a] = argmax[n](X[a,n])", false},
    {"Y[a,n] = X[a,n] / sum[k](abs(X[a,k]))", false},
    {"Y[n] = sum[a](X[a,n])", true},
    {"Y[n] = var[a](X[a,n])", true},
    {"Y[a,n] = exp(X[a,n] - max[k](X[k,n])) / sum[k](exp(X[k,n] - max[l](X[l,n])))", true},
};
static const md_dtype dtype_list[] = {MD_F32, MD_BF16};
static const int64_t size_list[][2] = {{1, 1048576}, {8, 262144},   {16, 131072}, {64, 65536},
                                       {256, 32768}, {4097, 12289}, {1000003, 7}, {20011, 64},
                                       {3, 0},       {0, 9},        {1, 1}};
enum { SLOT_BLOCKS = 512, TICKETS = 4096, WARP = 32 };

typedef struct visit {
    const md_fa_target *target;
    const md_fa_family *family;
    const int64_t *size;
    int32_t n;
} visit;

static int32_t field(const md_fa_family *family, const md_fa_config *config, const char *name)
{
    for (int32_t i = 0; i < family->n_fields; i++)
        if (strcmp(family->field[i].name, name) == 0)
            return config->value[i];
    fail_msg("no field %s", name);
    return 0;
}

static void check_split(const visit *v, const md_fa_config *config, const md_kn_geometry *g)
{
    int64_t blocks = (int64_t)g->grid[0] * g->grid[1],
            resident = (int64_t)v->target->facts->threads * field(v->family, config, "blocks_per_sm");
    assert_int_equal(g->grid[0] & (g->grid[0] - 1), 0);
    assert_true(blocks == g->blocks || g->blocks == 0);
    assert_true((g->scratch_bytes + 2048) * field(v->family, config, "blocks_per_sm") <=
                v->target->facts->shared_per_sm);
    if (field(v->family, config, "exchange") == 1) {
        assert_int_equal(g->cluster, g->grid[0]);
        assert_false(g->is_cooperative);
        return;
    }
    assert_true(g->grid[0] <= field(v->family, config, "blocks"));
    if (g->grid[0] > 1)
        assert_true(blocks <= SLOT_BLOCKS && blocks <= resident);
    assert_int_equal(g->is_cooperative, g->grid[0] > 1 && field(v->family, config, "exchange") == 0);
    if (field(v->family, config, "exchange") == 2 && g->grid[0] > 1 && g->blocks > 0) /* a ticket is for one row */
        assert_int_equal(g->grid[1], v->size[0]);
}

static void check_column(const md_kn_geometries *g)
{
    if (g->launch[0].grid[1] > 1)
        assert_true(g->launch[0].grid[0] <= TICKETS && g->workspace_bytes > 0);
    else
        assert_int_equal(g->workspace_bytes, 0);
}

static bool check_config(void *user, const md_fa_config *config)
{
    visit *v = user;
    md_kn_shape shape = {0};
    md_kn_envelope envelope;
    md_kn_geometries g;
    memcpy(shape.size, v->size, 2 * sizeof shape.size[0]);
    shape.unit = shape.aligned = shape.aligned16 = shape.contiguous = UINT32_MAX;
    v->n++;
    md_fa_envelope_of(&envelope, v->family, v->target, config);
    assert_null(md_kn_envelope_miss(&envelope, &shape));
    md_fa_geometry_of(&g, v->family, v->target, config, &shape);
    assert_int_equal(g.launch[0].block[0] % WARP, 0);
    assert_in_range(g.launch[0].block[0], 64, 1024);
    if (v->family == &md_fa_cuda_row_split)
        check_split(v, config, &g.launch[0]);
    else
        check_column(&g);
    double us = md_tn_predict_us(v->target, v->family, config, v->size);
    assert_true(us > 0 && us < 1e9);
    return true;
}

static void with_each(void (*body)(const md_fa_target *target, const form *f))
{
    for (int32_t i = 0; i < (int32_t)(MD_COUNT(form_list) * MD_COUNT(dtype_list)); i++) {
        const form *f = &form_list[i % (int32_t)MD_COUNT(form_list)];
        md_fx_options options = {.dtype = dtype_list[i / (int32_t)MD_COUNT(form_list)]};
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        md_dev_facts facts;
        assert_ok(md_fx_formula_create(&formula, f->text, &options));
        assert_ok(md_st_program_create(&program, formula));
        assert_ok(md_dev_cuda_assume(&facts, 90));
        md_fa_target target = {program, 0, &facts};
        body(&target, f);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

static void configs_of(const md_fa_target *target, const form *f)
{
    const md_fa_family *family = f->is_column ? &md_fa_cuda_column : &md_fa_cuda_row_split;
    int32_t n = 0;
    assert_true(md_fa_applies(family, target));
    for (int32_t s = 0; s < (int32_t)MD_COUNT(size_list); s++) {
        visit v = {target, family, size_list[s], 0};
        md_fa_each_all(target, family, size_list[s], check_config, &v);
        n += v.n;
    }
    assert_true(n > 0);
}

static void test_configs(void **state)
{
    (void)state;
    with_each(configs_of);
}

/* Variants are right at any shape of their envelope, not only at the hint they were made for. */
static void other_sizes_of(const md_fa_target *target, const form *f)
{
    static const char *const variant[] = {"row_split/exchange0_threads512_vecs4_blocks_per_sm1_blocks128_keep1_align1",
                                          "row_split/exchange2_threads256_vecs4_blocks_per_sm4_blocks32_keep0_align1",
                                          "row_split/exchange0_threads256_vecs2_blocks_per_sm2_blocks32_keep0_align2"};
    uint64_t seed = check_seed();
    for (int32_t i = 0; !f->is_column && i < 600; i++) {
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_envelope envelope;
        md_kn_geometries g, again;
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, variant[i % 3]));
        md_kn_shape shape = {
            .unit = UINT32_MAX, .aligned = UINT32_MAX, .aligned16 = UINT32_MAX, .contiguous = UINT32_MAX};
        shape.size[0] = (int64_t)(check_random(&seed) % (UINT64_C(1) << check_random(&seed) % 20));
        shape.size[1] = (int64_t)(check_random(&seed) % (UINT64_C(1) << check_random(&seed) % 24));
        md_fa_envelope_of(&envelope, family, target, &config);
        if (md_kn_envelope_miss(&envelope, &shape))
            continue;
        md_fa_geometry_of(&g, family, target, &config, &shape);
        md_fa_geometry_of(&again, family, target, &config, &shape);
        assert_memory_equal(&g, &again, sizeof g);
        visit v = {target, family, shape.size, 0};
        check_split(&v, &config, &g.launch[0]);
    }
}

static void test_other_sizes(void **state)
{
    (void)state;
    with_each(other_sizes_of);
}

static void text_of(const md_fa_target *target, const form *f)
{
    static const char *const row[] = {"row_split/exchange0_threads512_vecs4_blocks_per_sm1_blocks128_keep1_align1",
                                      "row_split/exchange1_threads256_vecs8_blocks_per_sm2_blocks4_keep2_align0",
                                      "row_split/exchange2_threads256_vecs4_blocks_per_sm4_blocks32_keep0_align2",
                                      "row_split/exchange3_threads256_vecs4_blocks_per_sm4_blocks32_keep0_align1"};
    static const char *const column[] = {"column/threads_x16_threads_y16_items4_keep0_split0_align1",
                                         "column/threads_x8_threads_y32_items4_keep1_split0_align0",
                                         "column/threads_x32_threads_y8_items8_keep0_split1_align2",
                                         "column/threads_x4_threads_y8_items2_keep0_split0_align2"};
    for (int32_t i = 0; i < 4; i++) {
        const md_fa_family *family = NULL;
        md_fa_config config;
        md_kn_source source = {0};
        assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, f->is_column ? column[i] : row[i]));
        assert_ok(md_fa_emit(&source, family, target, &config));
        const char *text = md_strbuf_text(&source.launch[0].text);
        const md_kn_param *last = &source.launch[0].param[source.launch[0].n_params - 1];
        bool is_apart = f->is_column ? i == 2 && target->program->stage[0].row.has_elements : i == 3;
        assert_int_equal(source.n_launches, is_apart ? 2 : 1);
        assert_int_equal(strstr(text, "#define MD_PHASE 1") != NULL, is_apart);
        assert_true(!is_apart || strstr(md_strbuf_text(&source.launch[1].text), "#define MD_PHASE 2"));
        assert_non_null(strstr(text, "md_kernel(const __grid_constant__ md_params"));
        assert_null(strstr(text, "#include \""));

        assert_int_equal(strstr(text, "void *counters0;") != NULL, last->kind == MD_KN_COUNTERS);
        assert_int_equal(last->kind == MD_KN_COUNTERS, f->is_column ? i == 2 : i != 1 && i != 3);
        md_kn_source_finish(&source);
    }
}

static void test_text(void **state)
{
    (void)state;
    with_each(text_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_configs), cmocka_unit_test(test_other_sizes),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
