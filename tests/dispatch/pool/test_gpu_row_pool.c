/* Variants of rows in the pools of a GPU's ops, without a GPU: both kinds at every hint, long rows that are read once,
 * and which are persistent. */
#include "dispatch/support/gpu_ops.h"

#include "tune/tune.h"

#include <math.h>

static const char *const softmax = "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))";
static const char *const layer_norm =
    "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5) * G[j] + B[j]";

static bool is_persistent(const md_ds_pool *pool, int32_t variant)
{
    return md_fa_is_persistent(&pool->target, pool->variant[variant]->family, &pool->variant[variant]->config);
}

/* Whichever the model finds slow: measuring may find otherwise. */
static void both_kinds_at_every_hint(const char *formula, md_dtype dtype, const char *hints, const char *source)
{
    md_ds_op *op = op_of(formula, dtype, hints, source);
    const md_ds_pool *pool = &op->stage[0];
    const md_ds_ranks *ranks = md_ds_ranks_of(pool);
    for (int32_t h = 0; h < op->space.n_hints; h++) {
        int32_t n[2] = {0};
        for (int32_t i = 0; i < ranks->n[h]; i++)
            n[is_persistent(pool, ranks->of[h][i].variant)]++;
        if (n[0] == 0 || n[1] == 0)
            fail_msg("%s, hint %lld: %d persistent, %d others", formula, (long long)op->space.hint[h][0], n[1], n[0]);
    }
    print_message("%s, hints %s: %d variants\n", formula, hints, pool->n_variants);
    md_ds_op_destroy(&op);
}

static void every_hint_has_persistent_and_other_variants(void **state)
{
    (void)state;
    static const char *const by_default = "1,16,64,256,1024,4096";
    both_kinds_at_every_hint(softmax, MD_F32, by_default, "default hints");
    both_kinds_at_every_hint(layer_norm, MD_BF16, by_default, "default hints");
    both_kinds_at_every_hint("Y[i] = sum[j](X[i,j])", MD_F32, by_default, "default hints");
    both_kinds_at_every_hint(softmax, MD_F32, "64,256,4096", "option hints");
    both_kinds_at_every_hint(softmax, MD_F32, "(i=1,j=64) (i=8192,j=512) (i=4,j=100000) (i=64,j=65536) (i=300,j=3000)",
                             "option hints");
}

/* Many rows that are too long for registers and begin at no boundary: default pools have a kernel that reads them
 * once. */
static void long_ragged_rows_are_read_once(void **state)
{
    (void)state;
    static const int64_t many[][2] = {{2000, 40001}, {2000, 50001}};
    for (int32_t i = 0; i < 4; i++) {
        md_ds_op *op =
            op_of(i & 1 ? softmax : layer_norm, i & 2 ? MD_BF16 : MD_F32, "1,16,64,256,1024,4096", "default hints");
        for (int32_t k = 0; k < MD_COUNT(many); k++) {
            const char *name = op->stage[0].variant[picked_at(op, many[k])]->family->name;
            assert_true(!strcmp(name, "row_shared") || !strcmp(name, "row_cluster"));
        }
        md_ds_op_destroy(&op);
    }
}

/* One row of a million elements, at no boundary and at one: default pools have what the model finds best for it. */
typedef struct least {
    const md_fa_target *target;
    const md_fa_family *family;
    const int64_t *size;
    double us;
} least;

static bool note_least(void *user, const md_fa_config *config)
{
    least *l = user;
    l->us = fmin(l->us, md_tn_form_us(l->target, l->family, config, l->size));
    return true;
}

static double least_of_all(const md_ds_op *op, const int64_t *size)
{
    least l = {&op->stage[0].target, NULL, size, INFINITY};
    for (int32_t f = 0; (l.family = md_fa_of(l.target, f)) != NULL; f++)
        if (md_fa_applies(l.family, l.target))
            md_fa_each(l.target, l.family, l.size, note_least, &l);
    return l.us;
}

/* The least of the pool's, by the form that pools are made by: trees may pick another. */
static double least_of_pool(const md_ds_op *op, const int64_t *size)
{
    const md_ds_pool *pool = &op->stage[0];
    double us = INFINITY;
    md_ds_bound bound;
    bind(&bound, op, size, 0);
    for (int32_t i = 0; i < pool->n_variants; i++) {
        const md_bd_variant *v = pool->variant[i];
        if (!md_kn_envelope_miss(&v->envelope, &bound.shape))
            us = fmin(us, md_tn_form_us(&pool->target, v->family, &v->config, size));
    }
    return us;
}

static void a_single_long_row_has_its_own_variant(void **state)
{
    (void)state;
    static const int64_t single[][2] = {{1, 1048577}, {1, 1 << 20}};
    for (int32_t i = 0; i < 4; i++) {
        md_ds_op *op =
            op_of(i & 1 ? softmax : layer_norm, i & 2 ? MD_BF16 : MD_F32, "1,16,64,256,1024,4096", "default hints");
        for (int32_t k = 0; k < MD_COUNT(single); k++) {
            const double us = least_of_pool(op, single[k]), best = least_of_all(op, single[k]);
            if (us > best * 1.001)
                fail_msg("%lld elements, case %d: %.3g us, best %.3g", (long long)single[k][1], (int)i, us, best);
        }
        md_ds_op_destroy(&op);
    }
}

/* Facts of a config are found once: the targets that choices are made with have them, whether the family or its kind
 * finds them. */
static void facts_of_configs_are_found_once(void **state)
{
    (void)state;
    int32_t n_of_kinds = 0;
    md_ds_op *op = op_of(softmax, MD_F32, "1,64,4096", "option hints");
    for (int32_t i = 0; i < op->stage[0].n_variants; i++) {
        const md_bd_variant *v = op->stage[0].variant[i];
        md_fa_fixed fixed;
        const md_fa_target target = md_bd_variant_target(v, &op->stage[0].target);
        assert_true((target.fixed != NULL) == md_fa_fix(&fixed, v->family, &v->target, &v->config));
        n_of_kinds += target.fixed && !v->family->fix;
    }
    assert_true(n_of_kinds > 0);
    md_ds_op_destroy(&op);
}

static const md_fa_family *row_split(const md_ds_op *op)
{
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&op->stage[0].target, i)) != NULL; i++)
        if (!strcmp(f->name, "row_split"))
            return f;
    return NULL;
}

/* Few long rows, which are divided among blocks with or without keeping them. */
static void rows_that_are_read_again_are_not_persistent(void **state)
{
    (void)state;
    static const md_persistent policy[] = {MD_PERSISTENT_ONLY, MD_PERSISTENT_NEVER};
    for (int32_t k = 0; k < MD_COUNT(policy); k++) {
        md_ds_op *op = NULL;
        const md_ds_op_options o = {
            .compile.dtype = MD_F32,
            .compile.hints = "(i=2,j=300000) (i=16,j=100000)",
            .compile.hints_source = "option hints",
            .max_shapes = 10,
            .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = policy[k]}};
        assert_ok(md_ds_op_create(&op, &w.runtime, softmax, &o));
        assert_true(count_of(op, "row_split") > 0);
        for (int32_t i = 0; i < op->stage[0].n_variants; i++)
            if (is_persistent(&op->stage[0], i) != (policy[k] == MD_PERSISTENT_ONLY))
                fail_msg("policy %d: %s", policy[k], op->stage[0].variant[i]->name);
        md_ds_op_destroy(&op);
    }
    md_ds_op *op = op_of("Y[i] = sum[j](X[i,j])", MD_F32, "64", "option hints"); /* reads each row once */
    const md_fa_config usual = md_fa_default(row_split(op));
    assert_true(md_fa_is_persistent(&op->stage[0].target, row_split(op), &usual));
    md_ds_op_destroy(&op);
    op = op_of(softmax, MD_F32, "64", "option hints");
    assert_false(md_fa_is_persistent(&op->stage[0].target, row_split(op), &usual)); /* usually it keeps nothing */
    md_ds_op_destroy(&op);
}

/* Short rows at no boundary: the pool has something nearly as good as any kernel of its families. Those have some
 * thousand configs at each length, of which pools have the best at ten lengths. */
static void short_ragged_rows_have_good_variants(void **state)
{
    (void)state;
    static const char *const formulas[] = {softmax, layer_norm, "Y[i] = sum[j](X[i,j])"};
    for (int32_t f = 0; f < 2 * MD_COUNT(formulas); f++) {
        md_ds_op *op = op_of(formulas[f / 2], f & 1 ? MD_BF16 : MD_F32, "1,16,64,256,1024,4096", "default hints");
        double sum = 0.0, worst = 0.0;
        int32_t n = 0;
        for (int64_t rows = 2001; rows <= 60001; rows = rows * 3 / 2 | 1)
            for (int64_t length = 9; length <= 401; length += length < 100 ? 6 : 14, n++) {
                const int64_t size[MD_FX_MAX_DIMS] = {rows, length};
                const double lost = least_of_pool(op, size) / least_of_all(op, size) - 1;
                sum += lost;
                worst = fmax(worst, lost);
            }
        if (sum / n > 0.1 || worst > 0.5)
            fail_msg("%s, case %d: %.3f lost, at worst %.3f", formulas[f / 2], (int)f, sum / n, worst);
        md_ds_op_destroy(&op);
    }
}

/* ---- Trees */

/* Random sizes of rows, as pools are asked about. */
static void draw(int64_t size[2], uint64_t *seed)
{
    for (int32_t i = 0; i < 2; i++)
        size[i] = (int64_t)exp2((double)(check_random(seed) % 1000) / 1000.0 * 13);
}

/* By the form alone another variant would be picked at some shapes; what is picked is the least with the trees. */
static void trees_move_picks(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int32_t moved = 0;
    md_ds_op *op = op_of(softmax, MD_BF16, "1,16,64,256,1024,4096", "default hints");
    const md_ds_pool *pool = &op->stage[0];
    for (int32_t k = 0; k < 200; k++) {
        int64_t size[MD_FX_MAX_DIMS];
        draw(size, &seed);
        const md_bd_variant *pick = pool->variant[picked_at(op, size)];
        const double us = md_tn_predict_us(&pool->target, pick->family, &pick->config, size);
        md_ds_bound bound;
        bind(&bound, op, size, 0);
        for (int32_t i = 0; i < pool->n_variants; i++) {
            const md_bd_variant *v = pool->variant[i];
            if (!md_kn_envelope_miss(&v->envelope, &bound.shape) &&
                md_tn_predict_us(&pool->target, v->family, &v->config, size) < us * (1 - 1e-9))
                fail_msg("%lld x %lld: %s, but %s is faster", (long long)size[0], (long long)size[1], pick->name,
                         v->name);
        }
        moved += md_tn_form_us(&pool->target, pick->family, &pick->config, size) > least_of_pool(op, size) * (1 + 1e-9);
    }
    print_message("trees moved %d of 200 picks\n", moved);
    assert_true(moved > 10);
    md_ds_op_destroy(&op);
}

/* A time that is surely not among the fastest may be given as any longer one; others are exact. */
static void enough_leaves_fast_ones_exact(void **state)
{
    (void)state;
    static const int64_t size[MD_FX_MAX_DIMS] = {3000, 300};
    md_ds_op *op = op_of(softmax, MD_BF16, "1,16,64,256,1024,4096", "default hints");
    md_fa_target target = op->stage[0].target;
    md_fa_memo memo;
    md_fa_memo_begin(&memo);
    target.memo = &memo;
    for (int32_t i = 0; i < op->stage[0].n_variants; i++) {
        const md_bd_variant *v = op->stage[0].variant[i];
        memo.enough_us = HUGE_VAL;
        const double us = md_tn_predict_us(&target, v->family, &v->config, size);
        for (double part = 0.5; part < 2; part *= 1.1) {
            memo.enough_us = us * part;
            const double said = md_tn_predict_us(&target, v->family, &v->config, size);
            assert_true(said == us || (part <= 1 && said >= memo.enough_us));
        }
        assert_true(memo.enough_us > us);
    }
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_ragged_rows_have_good_variants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_hint_has_persistent_and_other_variants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_are_read_again_are_not_persistent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_ragged_rows_are_read_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_single_long_row_has_its_own_variant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trees_move_picks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(enough_leaves_fast_ones_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(facts_of_configs_are_found_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
