/* The dispatcher on recorded times of an H200: pools, tuning and picks as they would be there, the same in every
 * run. */
#include "dispatch/support/sim_world.h"

#include "base/status.h"
#include "dispatch/select/select.h"
#include "dispatch/create.h"
#include "support/board.h"

#include <math.h>

typedef struct world {
    sim_world sim;
    board board;
} world;

static void world_open(world *w, const char *name)
{
    char path[1024];
    const char *root = getenv("MD_TEST_BOARDS");
    snprintf(path, sizeof path, "%s/%s", root ? root : "data/boards/recorded", name);
    memset(w, 0, sizeof *w);
    if (!board_read(&w->board, path))
        fail_msg("no board %s: MD_TEST_BOARDS names their folder", path);
    sim_world_open(&w->sim, (sim_device_options){.facts = &w->board.facts,
                                                 .price = board_price,
                                                 .user = &w->board,
                                                 .noise = 0.01,
                                                 .seed = 1,
                                                 .compile_ms = 1.0,
                                                 .timing_us = 20.0});
}

static void world_close(world *w)
{
    sim_world_close(&w->sim);
    board_finish(&w->board);
}

/* All points of a board are hints. */
static md_ds_op *op_of(world *w, md_tune tune)
{
    char hints[4096] = "";
    md_ds_op *op = NULL;
    const md_fx_formula *f = w->board.parsed;
    for (int32_t i = 0; i < w->board.n_points; i++) {
        size_t at = strlen(hints);
        at += (size_t)snprintf(hints + at, sizeof hints - at, "%s(", at ? " " : "");
        for (int32_t d = 0; d < f->n_dims; d++)
            at += (size_t)snprintf(hints + at, sizeof hints - at, "%s%s=%lld", d ? "," : "", f->dim[d].name,
                                   (long long)w->board.point[i].size[d]);
        snprintf(hints + at, sizeof hints - at, ")");
    }
    const md_ds_op_options o = {.compile.dtype = w->board.dtype,
                                .compile.hints = hints,
                                .compile.hints_source = "test",
                                .max_shapes = 100,
                                .compile.policy = {.select = MD_SELECT_MODEL,
                                                   .metric = MD_METRIC_LOG2,
                                                   .persistent = MD_PERSISTENT_AUTO,
                                                   .max_variants = 48,
                                                   .tune = tune,
                                                   .tune_budget_ms = 1e6,
                                                   .wisdom = w->sim.wisdom}};
    assert_ok(md_ds_op_create(&op, &w->sim.runtime, w->board.formula, &o));
    return op;
}

typedef struct regret {
    double mean, worst;
    int32_t n;
} regret;

/* Recorded time of what the corrected model picks at a point among variants whose times are known: families may
 * have got new ones since. */
static double picked_us(world *w, md_ds_op *op, int32_t point)
{
    const md_ds_pool *pool = &op->stage[0];
    const int32_t n = pool->n_variants;
    double us[MD_DS_MAX_VARIANTS], least = INFINITY, picked = -1.0;
    md_kn_shape shape;
    md_tn_shape(&shape, op->program, w->board.point[point].size);
    md_ds_model_us(us, op, 0, shape.size, n, NULL);
    for (int32_t i = 0; i < n; i++) {
        const double recorded = board_us(&w->board, point, pool->variant[i]->name);
        if (recorded <= 0.0 || us[i] >= least || md_ds_reject_reason(pool, i, &shape))
            continue;
        least = us[i];
        picked = recorded;
    }
    return picked;
}

/* Of the pick at each point against the best of the whole space there. */
static regret regret_of(world *w, md_ds_op *op)
{
    regret r = {0};
    for (int32_t i = 0; i < w->board.n_points; i++) {
        const double us = picked_us(w, op, i);
        if (us <= 0.0)
            continue;
        const double off = us / w->board.best_us[i] - 1.0;
        r.mean += off;
        r.worst = fmax(r.worst, off);
        r.n++;
    }
    r.mean /= MD_MAX(r.n, 1);
    return r;
}

static void check_board(const char *name)
{
    world w;
    world_open(&w, name);
    md_ds_op *op = op_of(&w, MD_TUNE_ESTIMATE);
    const regret estimated = regret_of(&w, op);
    md_ds_op_destroy(&op);
    op = op_of(&w, MD_TUNE_MEASURE);
    const regret measured = regret_of(&w, op);
    md_ds_op_destroy(&op);
    printf("%s: picks at %d points: estimated pool %.1f%% off, %.0f%% at worst; measured pool %.1f%%, %.0f%%\n", name,
           measured.n, 100 * estimated.mean, 100 * estimated.worst, 100 * measured.mean, 100 * measured.worst);
    assert_int_equal(measured.n, w.board.n_points);
    assert_true(measured.mean <= estimated.mean + 0.02);
    assert_true(measured.mean <= 0.10);
    world_close(&w);
}

static void measured_pools_serve_better(void **state)
{
    (void)state;
    check_board("softmax_f32.jsonl");
    check_board("sum_f32.jsonl");
    check_board("gelu_f32.jsonl");
}

/* What an op picks at a point, against the best that it has built and against the best of the space; what was not
 * there when the board was recorded has no time. */
static void add_pick(regret *built, regret *space, world *w, md_ds_op *op, int32_t point)
{
    const md_ds_pool *pool = &op->stage[0];
    double least = INFINITY;
    md_kn_shape shape;
    md_ds_pick pick;
    md_tn_shape(&shape, op->program, w->board.point[point].size);
    const md_ds_query query = {.shape = &shape, .select_sizes = w->board.point[point].size};
    if (md_ds_select(&pick, op, 0, &query) != MD_OK)
        return;
    for (int32_t v = 0; v < pool->n_variants; v++) {
        const double us = board_us(&w->board, point, pool->variant[v]->name);
        least = us > 0.0 && us < least ? us : least;
    }
    const double us = board_us(&w->board, point, pool->variant[pick.variant]->name),
                 off = us / w->board.best_us[point] - 1.0;
    if (us <= 0.0)
        return;
    built->mean += us / least - 1.0;
    space->mean += off;
    space->worst = fmax(space->worst, off);
    space->n++;
}

/* Points whose pick was there when the board was recorded: a model that was fit since may build others. */
static int32_t check_default_hints(const char *name, md_select select, const char *mode)
{
    world w;
    md_ds_op *op = NULL;
    regret built = {0}, space = {0};
    world_open(&w, name);
    const md_ds_op_options o = {.compile.dtype = w.board.dtype,
                                .compile.hints = "64,256,4096",
                                .compile.hints_source = "default hints",
                                .max_shapes = 100,
                                .compile.policy = {.select = select,
                                                   .metric = MD_METRIC_LOG2,
                                                   .persistent = MD_PERSISTENT_AUTO,
                                                   .max_variants = 48,
                                                   .tune = MD_TUNE_ESTIMATE,
                                                   .wisdom = w.sim.wisdom}};
    assert_ok(md_ds_op_create(&op, &w.sim.runtime, w.board.formula, &o));
    for (int32_t i = 0; i < w.board.n_points; i++)
        add_pick(&built, &space, &w, op, i);
    printf("%s, default hints, %s: at %d of %d points %.1f%% off the best built, %.1f%% off the best of the space "
           "(%.0f%% at worst)\n",
           name, mode, space.n, w.board.n_points, 100 * built.mean / MD_MAX(space.n, 1),
           100 * space.mean / MD_MAX(space.n, 1), 100 * space.worst);
    assert_true(built.mean >= 0.0 && space.mean >= built.mean);
    md_ds_op_destroy(&op);
    world_close(&w);
    return space.n;
}

/* What MD_SELECT_MEASURE loses by timing the model's best few only, against timing all of the pool. */
static void check_racers(const char *name)
{
    world w;
    world_open(&w, name);
    md_ds_op *op = op_of(&w, MD_TUNE_ESTIMATE);
    md_ds_pool *pool = &op->stage[0];
    regret r = {0};
    double n_racers = 0.0;
    for (int32_t point = 0; point < w.board.n_points; point++) {
        double us[MD_DS_MAX_VARIANTS], best = INFINITY, raced = INFINITY;
        int32_t racer[MD_DS_RACERS];
        md_kn_shape shape;
        md_tn_shape(&shape, op->program, w.board.point[point].size);
        md_ds_model_us(us, op, 0, shape.size, pool->n_variants, NULL);
        for (int32_t i = 0; i < pool->n_variants; i++) {
            const double recorded = board_us(&w.board, point, pool->variant[i]->name);
            if (recorded <= 0.0 || md_ds_reject_reason(pool, i, &shape))
                us[i] = -1.0;
            else
                best = fmin(best, recorded);
        }
        const int32_t n = md_ds_pick_racers(racer, pool, us, pool->n_variants);
        for (int32_t i = 1; i < n; i++) /* the likely best first: time may end */
            assert_true(us[racer[i - 1]] <= us[racer[i]]);
        for (int32_t i = 0; i < n; i++)
            raced = fmin(raced, board_us(&w.board, point, pool->variant[racer[i]]->name));
        assert_true(n > 0);
        r.mean += raced / best - 1.0;
        r.worst = fmax(r.worst, raced / best - 1.0);
        n_racers += n;
        r.n++;
    }
    printf("%s: %.1f of %d variants timed: %.2f%% off the best, %.1f%% at worst of %d points\n", name, n_racers / r.n,
           pool->n_variants, 100 * r.mean / r.n, 100 * r.worst, r.n);
    assert_true(r.mean / r.n <= 0.01 && r.worst <= 0.10);
    md_ds_op_destroy(&op);
    world_close(&w);
}

static void the_best_few_have_the_best(void **state)
{
    (void)state;
    static const char *const name[] = {"softmax_f32.jsonl", "sum_f32.jsonl",         "gelu_f32.jsonl",
                                       "add_bf16.jsonl",    "layer_norm_bf16.jsonl", "linear_bf16.jsonl",
                                       "linear_f32.jsonl"};
    for (int i = 0; i < MD_COUNT(name); i++)
        check_racers(name[i]);
}

static void default_hints_against_the_whole_space(void **state)
{
    (void)state;
    /* linear's has times in which a library still loads its kernels */
    static const char *const name[] = {"softmax_f32.jsonl", "sum_f32.jsonl", "gelu_f32.jsonl", "add_bf16.jsonl",
                                       "layer_norm_bf16.jsonl"};
    for (int m = 0; m < 2; m++) {
        int32_t n_known = 0;
        for (size_t i = 0; i < sizeof name / sizeof *name; i++)
            n_known +=
                check_default_hints(name[i], m ? MD_SELECT_MODEL : MD_SELECT_DISTANCE, m ? "model" : "distance") > 0;
        assert_true(n_known >= 4);
    }
}

/* The clock is simulated: two runs are one. */
static void runs_are_equal(void **state)
{
    (void)state;
    char first[64][MD_FA_NAME];
    int32_t n = 0;
    for (int32_t run = 0; run < 2; run++) {
        world w;
        world_open(&w, "softmax_f32.jsonl");
        md_ds_op *op = op_of(&w, MD_TUNE_MEASURE);
        const int32_t n_variants = op->stage[0].n_variants;
        if (run == 0)
            n = n_variants;
        assert_int_equal(n_variants, n);
        for (int32_t i = 0; i < n; i++)
            if (run == 0)
                memcpy(first[i], op->stage[0].variant[i]->name, MD_FA_NAME);
            else
                assert_string_equal(op->stage[0].variant[i]->name, first[i]);
        md_ds_op_destroy(&op);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(measured_pools_serve_better),
                                       cmocka_unit_test(default_hints_against_the_whole_space),
                                       cmocka_unit_test(the_best_few_have_the_best), cmocka_unit_test(runs_are_equal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
