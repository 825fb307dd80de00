/* The pools that a GPU's ops have by default, without a GPU: kernels are texts that are not compiled. Whatever size
 * comes, and wherever contiguous tensors lie, something in the pool serves it, so that no call waits for a compiler. */
#include "dispatch/support/gpu_ops.h"

#include "dispatch/compile/suggest.h"
#include "dispatch/select/select.h"

#include <math.h>

static const int64_t sizes[][2] = {{1, 1},       {1, 1 << 20}, {3, 100001},  {8, 262144},  {16, 131072},  {64, 65536},
                                   {100, 1000},  {256, 32768}, {1000, 1000}, {4096, 8192}, {4097, 12289}, {16384, 1024},
                                   {65536, 256}, {262144, 64}, {1 << 20, 3}, {7, 12289},   {2, 1048577}};

static void served_by_the_pool(const char *formula, md_dtype dtype)
{
    md_ds_op *op = op_of(formula, dtype, "1,16,64,256,1024,4096", "default hints");
    for (int32_t i = 0; i < MD_COUNT(sizes); i++)
        for (uintptr_t offset = 0; offset <= 16; offset += 8) { /* at a boundary, at none, and at one of 16 bytes */
            md_ds_bound bound;
            md_ds_shape_entry *entry = NULL;
            bind(&bound, op, sizes[i], offset);
            const md_ds_request request = {.shape = &bound.shape, .as = &bound.as, .effort = MD_DS_ONLY_READY};
            md_status s = md_ds_shape_entry_make(&entry, op, &request);
            if (s != MD_OK)
                fail_msg("%s %s at %lld x %lld, offset %d: %s", formula, md_dtype_name(dtype), (long long)sizes[i][0],
                         (long long)sizes[i][1], (int)offset, md_last_error());
            md_ds_shape_entry_free(entry);
        }
    md_ds_op_destroy(&op);
}

static void no_size_waits_for_a_compiler(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y[i,j] = X[i,j] * 2 + B[j]",
        "Y[i,j] = X[j,i]",
        "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
        "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]",
        "Y[i] = sum[j](X[i,j])",
        "Y[i] = var[j](X[i,j])",
        "Y[i] = argmax[j](X[i,j])",
        "Y[j] = sum[i](X[i,j])",
        "Y[i,j] = cumsum[j](X[i,j])",
        "Y[n] = cumsum[n](X[n])",
        "Y[i,j] = E[ids[i],j]",
    };
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        served_by_the_pool(formulas[i], MD_F32);
        served_by_the_pool(formulas[i], MD_BF16);
    }
}

/* With hints of the user nothing is built for other points, except for odd sizes. */
static void hints_of_users_are_all_there_is(void **state)
{
    (void)state;
    md_ds_op *one = op_of("Y[i] = sum[j](X[i,j])", MD_F32, "64", "option hints"),
             *all = op_of("Y[i] = sum[j](X[i,j])", MD_F32, "64", "default hints");
    for (int32_t i = 0; i < one->stage[0].n_variants; i++)
        assert_int_equal(md_ds_hints_of(&one->stage[0], i), 1);
    assert_true(all->stage[0].n_variants > one->stage[0].n_variants);
    md_ds_op_destroy(&one);
    md_ds_op_destroy(&all);
}

/* What costs no compiler is measured in full; and products of few rows have a kernel of their own. */
static void products_measure_all_answers_of_the_library(void **state)
{
    (void)state;
    static const char *const product = "Y[m,n] = sum[k](X[m,k] * W[n,k])";
    md_ds_op *model = op_of(product, MD_BF16, "1,16,64,256,1024,4096", "default hints");
    md_ds_op *measure = op_by(MD_SELECT_MEASURE, product, MD_BF16, "64,256,4096", "option hints");
    if (count_of(model, "gemm_lib") > 0) { /* there is such a library */
        assert_int_equal(count_of(model, "gemm_lib"), 2); /* the first answer, and the second for one step of K */
        assert_int_equal(count_of(measure, "gemm_lib"), 8);
    }
    assert_true(count_of(model, "gemv") > 0);
    assert_true(count_of(model, "gemm_dot") > 4);
    const int64_t small[] = {12, 22, 259};
    assert_string_equal(model->stage[0].variant[picked_at(model, small)]->family->name, "gemm_dot");
    md_ds_op_destroy(&model);
    md_ds_op_destroy(&measure);
}

/* layer_norm at no boundary: whole vectors would shift two weights. */
static void odd_rows_are_single_elements(void **state)
{
    (void)state;
    md_ds_op *op = op_of("Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]", MD_F32,
                         "1,16,64,256,1024,4096", "default hints");
    const int64_t odd[] = {333, 4097}, even[] = {333, 4096};
    assert_non_null(strstr(op->stage[0].variant[picked_at(op, odd)]->name, "align3"));
    assert_null(strstr(op->stage[0].variant[picked_at(op, even)]->name, "align3"));
    md_ds_op_destroy(&op);
}

typedef struct answer {
    double us, least; /* of the pick and of the best of the pool, by the model */
} answer;

static answer answer_at(md_ds_op *op, const int64_t *size)
{
    const md_ds_pool *pool = &op->stage[0];
    md_ds_bound bound;
    double us[MD_DS_MAX_VARIANTS];
    const int32_t pick = picked_at(op, size);
    bind(&bound, op, size, 0);
    md_ds_model_us(us, op, 0, bound.shape.size, pool->n_variants, NULL);
    assert_in_range(pick, 0, pool->n_variants - 1);
    answer a = {us[pick], us[pick]};
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (!md_kn_envelope_miss(&pool->variant[i]->envelope, &bound.shape))
            a.least = fmin(a.least, us[i]);
    return a;
}

/* Log-uniform, up to 2^24 elements. */
static void draw(int64_t size[2], uint64_t *seed)
{
    do {
        for (int32_t d = 0; d < 2; d++) {
            *seed = *seed * 6364136223846793005u + 1442695040888963407u;
            size[d] = (int64_t)exp2((double)(*seed >> 40) * 0x1p-24 * 19.0);
        }
    } while (size[0] * size[1] > 1 << 24);
}

static void lopsided_shapes(const char *formula, uint64_t seed)
{
    enum { SHAPES = 150 };
    static const char *const diagonal = "1,16,64,256,1024,4096";
    md_ds_op *mine = op_by(MD_SELECT_DISTANCE, formula, MD_F32, diagonal, "default hints");
    md_ds_op *given = op_by(MD_SELECT_DISTANCE, formula, MD_F32, diagonal, "option hints");
    double regret = 0.0, by_given = 0.0;
    for (int32_t n = 0; n < SHAPES; n++) {
        int64_t size[2];
        draw(size, &seed);
        const answer a = answer_at(mine, size), b = answer_at(given, size);
        regret += a.us / a.least - 1.0;
        by_given += b.us / a.least - 1.0;
    }
    print_message("%.1f%%, with hints that are given %.0f%%\n", 100.0 * regret / SHAPES, 100.0 * by_given / SHAPES);
    assert_true(regret / SHAPES < 0.03);
    assert_true(by_given / SHAPES > 0.3); /* they are all there is */
    md_ds_op_destroy(&mine);
    md_ds_op_destroy(&given);
}

/* Random shapes are lopsided, and hints on the diagonal say nothing about those. */
static void distance_by_default_hints_sees_lopsided_shapes(void **state)
{
    (void)state;
    const uint64_t seed = check_seed();
    lopsided_shapes("Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", seed);
    lopsided_shapes("Y[i] = sum[j](X[i,j])", seed);
}

/* Most rows lie at no boundary: what hints bring for those decides, and shapes that weigh the same are all looked
 * at. */
static void suggested_hints_serve_ragged_rows(void **state)
{
    (void)state;
    enum { SHAPES = 100, HINTS = 16 };
    static const char *const formula = "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))";
    uint64_t seed = check_seed();
    int64_t size[SHAPES][2];
    char text[SHAPES][48];
    md_met_shape met[SHAPES];
    for (int32_t n = 0; n < SHAPES; n++) {
        draw(size[n], &seed);
        snprintf(text[n], sizeof text[n], "i=%lld, j=%lld", (long long)size[n][0], (long long)size[n][1]);
        met[n] = (md_met_shape){text[n], 1.0};
    }
    md_ds_op *by_default = op_of(formula, MD_F32, "1,16,64,256,1024,4096", "default hints");
    const md_ds_suggest_options o = {
        .compile = {.dtype = MD_F32, .hints = "64", .hints_source = "option hints", .policy = by_default->policy},
        .shape = met,
        .n_shapes = SHAPES,
        .n_hints = HINTS};
    md_strbuf hints = {0};
    md_ds_suggestion found;
    assert_ok(md_ds_suggest(&hints, &found, &w.device.base.facts, formula, &o));
    md_ds_op *op = op_of(formula, MD_F32, md_strbuf_text(&hints), "option hints");
    double regret = 0.0; /* over the pool of default hints */
    for (int32_t n = 0; n < SHAPES; n++) /* one shape that no hint is near must not decide */
        regret += fmin(answer_at(op, size[n]).us / answer_at(by_default, size[n]).least - 1.0, 1.0);
    print_message("%s: expected %.1f%%; over the default pool %.1f%%\n", md_strbuf_text(&hints),
                  100.0 * found.suggested.mean, 100.0 * regret / SHAPES);
    assert_true(found.suggested.mean < 0.5);
    assert_true(regret / SHAPES < 0.15);
    md_strbuf_finish(&hints);
    md_ds_op_destroy(&op);
    md_ds_op_destroy(&by_default);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_size_waits_for_a_compiler, set_up, tear_down),
        cmocka_unit_test_setup_teardown(distance_by_default_hints_sees_lopsided_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(suggested_hints_serve_ragged_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hints_of_users_are_all_there_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(products_measure_all_answers_of_the_library, set_up, tear_down),
        cmocka_unit_test_setup_teardown(odd_rows_are_single_elements, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
