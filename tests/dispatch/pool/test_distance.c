/* Selection by distance with the default hints: the nearest of them must name a variant that is nearly the best of the
 * pool, whatever the shape. Without a GPU, on random shapes; kernels are texts that are not compiled, and the model
 * says what they cost. */
#include "dispatch/space/space.h"
#include "dispatch/select/select.h"
#include "dispatch/support/gpu_world.h"

#include <math.h>

static md_ds_op *op_of(const char *formula, md_dtype dtype, const char *hints, const char *source)
{
    md_ds_op *op = NULL;
    md_ds_op_options o = {.compile.dtype = dtype,
                          .compile.hints = hints,
                          .compile.hints_source = source,
                          .max_shapes = 1000,
                          .compile.policy = {.select = MD_SELECT_DISTANCE,
                                             .metric = MD_METRIC_LOG2,
                                             .persistent = MD_PERSISTENT_AUTO,
                                             .uncovered = 3.0}};
    assert_ok(md_ds_op_create(&op, &w.runtime, formula, &o));
    return op;
}

static md_ds_op *op_by_default(const char *formula, md_dtype dtype)
{
    return op_of(formula, dtype, "1,16,64,256,1024,4096", "default hints");
}

/* Contiguous tensors of these sizes (by dim id). */
static void bind(md_ds_bound *out, const md_ds_op *op, const int64_t *size)
{
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < f->n_dims; d++)
        out->binding.size[d] = f->dim[d].size >= 0 ? f->dim[d].size : size[d];
    for (int32_t t = 0; t < f->n_tensors; t++) {
        int64_t extent[MD_MAX_RANK];
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            extent[a] = out->binding.size[f->tensor[t].dim[a]];
        out->binding.tensor[t] =
            md_tensor_make((void *)(0x10000 * (uintptr_t)(t + 1)), f->tensor[t].dtype, f->tensor[t].rank, extent);
    }
    md_ds_shape_of(&out->shape, op, &out->binding);
}

static md_ds_query query_of(const md_ds_bound *bound)
{
    return (md_ds_query){
        .shape = &bound->shape, .select_sizes = bound->shape.size, .with_unbuilt = true, .may_load = true};
}

static md_ds_pick pick_at(md_ds_op *op, const int64_t *size)
{
    md_ds_bound bound;
    md_ds_pick pick;
    bind(&bound, op, size);
    const md_ds_query query = query_of(&bound);
    assert_ok(md_ds_select(&pick, op, 0, &query));
    return pick;
}

/* ---- What it loses */

typedef struct board {
    const char *formula;
    md_dtype dtype;
    int64_t lo[3], hi[3];
} board;

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* Log-uniform, up to 128 MB; one dim in three is a multiple of 8. */
static void draw(int64_t size[MD_FX_MAX_DIMS], const board *b, const md_ds_op *op, uint64_t *seed)
{
    double flops = 0.0, bytes = 0.0;
    memset(size, 0, MD_FX_MAX_DIMS * sizeof *size);
    do {
        for (int32_t i = 0; i < op->space.n; i++) {
            const double lo = (double)b->lo[i], hi = (double)b->hi[i];
            int64_t v = (int64_t)(lo * pow((hi + 1.0) / lo, uniform(seed)));
            if (v > 8 && uniform(seed) < 1.0 / 3)
                v -= v % 8;
            size[op->space.dim[i]] = v;
        }
        bytes = 0.0;
        md_st_work(&flops, &bytes, op->program, 0, size);
    } while (bytes > 128e6);
}

/* Of the pick's time over that of the pool's best, minus 1. */
typedef struct loss {
    double sum, worst;
    int32_t n;
    char where[320]; /* the worst shape, what was picked and what would be best */
} loss;

static void add_shape(loss *l, md_ds_op *op, const int64_t *size)
{
    const md_ds_pool *pool = &op->stage[0];
    double us[MD_DS_MAX_VARIANTS];
    md_ds_bound bound;
    bind(&bound, op, size);
    const md_ds_query query = query_of(&bound);
    const int32_t pick = pick_at(op, size).variant;
    md_ds_model_us(us, op, 0, bound.shape.size, pool->n_variants, NULL);
    int32_t best = pick;
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (md_ds_fits(pool, i, &query) && us[i] < us[best])
            best = i;
    const double lost = us[pick] / us[best] - 1.0;
    if (lost > l->worst) {
        l->worst = lost;
        snprintf(l->where, sizeof l->where, "[%lld,%lld,%lld] %s %.1f us instead of %s %.1f us",
                 (long long)size[op->space.dim[0]], (long long)size[op->space.dim[op->space.n > 1]],
                 (long long)size[op->space.dim[op->space.n - 1]], pool->variant[pick]->name, us[pick],
                 pool->variant[best]->name, us[best]);
    }
    l->sum += lost;
    l->n++;
}

static void default_hints_lose_little_at_any_shape(void **state)
{
    (void)state;
    enum { SHAPES = 150 };
    static const board boards[] = {
        {"Y[b,n] = sum[k](X[b,k] * W[n,k])", MD_BF16, {1, 16, 16}, {8192, 16384, 16384}},
        {"Y[b,n] = sum[k](X[b,k] * W[n,k])", MD_F32, {1, 16, 16}, {8192, 16384, 16384}},
        {"Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + c[n])", MD_BF16, {1, 16, 16}, {8192, 16384, 16384}},
        {"Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
         MD_F32,
         {1, 8},
         {262144, 1048576}},
        {"Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]",
         MD_BF16,
         {1, 8},
         {262144, 262144}},
        {"Y[i] = sum[j](X[i,j])", MD_F32, {1, 8}, {262144, 1048576}},
        {"Y[i,j] = X[j,i]", MD_F32, {1, 1}, {65536, 65536}},
        {"Y[n] = X[n] + 1", MD_F32, {1}, {10000000}},
    };
    uint64_t seed = check_seed();
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++) {
        md_ds_op *op = op_by_default(boards[i].formula, boards[i].dtype);
        loss l = {0};
        for (int32_t k = 0; k < SHAPES; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            draw(size, &boards[i], op, &seed);
            add_shape(&l, op, size);
        }
        print_message("%s %s: %.2f%%, at worst %.0f%%: %s\n", boards[i].formula, md_dtype_name(boards[i].dtype),
                      100.0 * l.sum / l.n, 100.0 * l.worst, l.where);
        assert_true(l.sum / l.n < 0.04);
        assert_true(l.worst < 1.5); /* seen in 15,000 shapes: 0.7 */
        md_ds_op_destroy(&op);
    }
}

/* A hint's best for aligned rows may fit odd rows, too, but then it is slow. */
static void odd_shapes_take_what_a_hint_has_for_odd_shapes(void **state)
{
    (void)state;
    static const char *const formula = "Y[b,n] = sum[k](X[b,k] * W[n,k])";
    static const int64_t near[] = {61, 63, 65, 67, 127, 250, 255, 257, 262, 1023, 3000, 3999, 4090, 4095, 4097};
    md_ds_op *op = op_of(formula, MD_BF16, "64,256,4096", "option hints");
    loss l = {0};
    for (int32_t i = 0; i < MD_COUNT(near); i++) {
        const int64_t size[MD_FX_MAX_DIMS] = {near[i], near[i], near[i]};
        add_shape(&l, op, size);
    }
    print_message("%.2f%%, at worst %.0f%%\n", 100.0 * l.sum / l.n, 100.0 * l.worst);
    assert_true(l.sum / l.n < 0.15);
    md_ds_op_destroy(&op);
}

/* ---- What it says */

static void the_nearest_hint_of_the_grid_is_reported(void **state)
{
    (void)state;
    md_ds_op *op = op_by_default("Y[i,j] = X[i,j] + 1", MD_F32);
    static const struct {
        int64_t i, j, hint_i, hint_j;
    } row[] = {
        {129, 1025, 128, 1024}, {64, 256, 64, 256}, {75, 1, 76, 1}, {1 << 20, 3, 1 << 20, 3}, {100, 140, 108, 152}};
    for (int32_t n = 0; n < MD_COUNT(row); n++) {
        const int64_t size[MD_FX_MAX_DIMS] = {row[n].i, row[n].j};
        int64_t hint[MD_DS_MAX_DYNAMIC];
        const double octaves = md_ds_nearest_on_grid(hint, &op->space, MD_METRIC_LOG2, size);
        assert_int_equal(hint[0], row[n].hint_i);
        assert_int_equal(hint[1], row[n].hint_j);
        assert_float_equal(
            octaves, fabs(log2((double)row[n].i / (double)hint[0])) + fabs(log2((double)row[n].j / (double)hint[1])),
            1e-12);
        const md_ds_pick pick = pick_at(op, size);
        assert_int_equal(pick.source, MD_DS_NEAREST_ON_GRID);
        assert_float_equal(pick.distance, octaves, 1e-12);
        assert_float_equal(md_ds_nearest_octaves(op, size), octaves, 1e-12);
        assert_true(octaves <= 2 * 0.5 / MD_DS_GRID_STEPS + 0.1); /* and small sizes are whole numbers */
    }
    md_ds_op_destroy(&op);
}

/* Calls at one hint whose sizes are aligned alike get the same variant. */
static void a_hint_has_one_best_for_each_alignment(void **state)
{
    (void)state;
    static const struct {
        int64_t size, hint, like;
        bool is_hint;
    } row[] = {
        {1024, 1024, 1024, true},  {1088, 1024, 1024, true}, {1032, 1024, 1032, false}, {1025, 1024, 1025, false},
        {1026, 1024, 1026, false}, {96, 91, 96, false},      {91, 91, 91, true},        {1, 1, 1, true},
        {64, 1, 64, false},        {0, 1, 1, true}};
    md_ds_op *op = op_by_default("Y[n] = X[n] + 1", MD_F32);
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        int64_t sizes[MD_FX_MAX_DIMS];
        assert_int_equal(md_ds_sizes_at_hint(sizes, &op->space, &row[i].size, &row[i].hint), row[i].is_hint);
        assert_int_equal(sizes[0], row[i].like);
    }
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(default_hints_lose_little_at_any_shape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(odd_shapes_take_what_a_hint_has_for_odd_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_nearest_hint_of_the_grid_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hint_has_one_best_for_each_alignment, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
