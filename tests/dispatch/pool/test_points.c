/* Extra points off the hints (rows at no boundary, lopsided shapes): tuned where that is asked for, and pools then have
 * what was found there. On a simulated GPU. */
#include "dispatch/support/sim_world.h"

#include "base/hash.h"
#include "base/status.h"
#include "dispatch/space/points.h"
#include "dispatch/pool/fill.h"
#include "dispatch/create.h"

#include <string.h>

static const char sum[] = "Y[i] = sum[j](X[i,j])", hints[] = "1,16,64,256,1024,4096";

typedef struct world {
    sim_world sim;
    md_dev_facts facts;
    md_fx_formula *formula;
    md_st_program *program;
    md_ds_space space;
    md_fa_target target;
} world;

/* As no model would say: by the name alone. */
static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)call;
    return 5.0 + (double)(md_hash64(variant, strlen(variant)) % 1000) * 0.01;
}

static void world_open(world *w)
{
    memset(w, 0, sizeof *w);
    assert_ok(md_dev_cuda_assume(&w->facts, 90));
    w->facts.can_compile = true;
    sim_world_open(&w->sim, (sim_device_options){
                                .facts = &w->facts, .price = price, .seed = 1, .compile_ms = 1.0, .timing_us = 20.0});
    assert_ok(md_fx_formula_create(&w->formula, sum, NULL));
    assert_ok(md_st_program_create(&w->program, w->formula));
    assert_ok(md_ds_space_make(&w->space, w->formula, hints, "default hints", NULL));
    w->target = (md_fa_target){w->program, 0, &w->sim.dev->facts};
}

static void world_close(world *w)
{
    md_st_program_destroy(&w->program);
    md_fx_formula_destroy(&w->formula);
    sim_world_close(&w->sim);
}

static void tune(world *w, bool off_hints, const char *source)
{
    const md_ds_tune_request r = {
        .compile = {.hints = hints,
                    .hints_source = source,
                    .policy = {.metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO, .wisdom = w->sim.wisdom}},
        .builder = w->sim.builder,
        .off_hints = off_hints,
        .job = {.rigor = MD_TUNE_MEASURE, .budget_ms = 1e7, .max_builds = 4, .seed = 1}};
    assert_ok(md_ds_tune_formula(&r, sum));
}

/* The name of the fastest that was measured at a point; "" where nothing was. */
static void best_at(char out[MD_FA_NAME], world *w, const md_tn_point *point)
{
    char *key = NULL;
    double least = 1e300;
    out[0] = 0;
    assert_ok(md_tn_key(&key, &w->target, point->size, point->is_ragged));
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++) {
        md_tn_record r;
        if (md_tn_wisdom_find(&r, w->sim.wisdom, key, (*f)->name, MD_TUNE_MEASURE) != MD_OK)
            continue;
        if (r.count > 0 && r.us < least) {
            least = r.us;
            memcpy(out, r.variant, MD_FA_NAME);
        }
        md_tn_record_finish(&r);
    }
    free(key);
}

static int32_t points_of(md_tn_point *point, const world *w)
{
    for (int32_t h = 0; h < w->space.n_hints; h++)
        md_ds_hint_point(&point[h], &w->target, &w->space, h, true);
    return w->space.n_hints + md_ds_corner_points(point + w->space.n_hints, &w->target, &w->space);
}

/* How many points of them are measured, and how many of those have their best in a pool of these hints. */
static void look(int32_t *n_measured, int32_t *n_in_pool, world *w)
{
    md_tn_point point[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
    md_ds_op *op = NULL;
    const int32_t n = points_of(point, w);
    const md_ds_op_options o = {.compile.hints = hints,
                                .compile.hints_source = "default hints",
                                .max_shapes = 100,
                                .compile.policy = {.select = MD_SELECT_MODEL,
                                                   .metric = MD_METRIC_LOG2,
                                                   .persistent = MD_PERSISTENT_AUTO,
                                                   .max_variants = 48,
                                                   .tune = MD_TUNE_ESTIMATE,
                                                   .wisdom = w->sim.wisdom}};
    assert_ok(md_ds_op_create(&op, &w->sim.runtime, sum, &o));
    *n_measured = *n_in_pool = 0;
    for (int32_t i = 0; i < n; i++) {
        char best[MD_FA_NAME];
        bool is_there = false;
        best_at(best, w, &point[i]);
        for (int32_t v = 0; v < op->stage[0].n_variants; v++)
            is_there = is_there || !strcmp(op->stage[0].variant[v]->name, best);
        *n_measured += best[0] != 0;
        *n_in_pool += best[0] && is_there;
    }
    md_ds_op_destroy(&op);
    printf("%d extra points, %d measured, the best of %d of them in the pool\n", n, *n_measured, *n_in_pool);
}

static void pools_have_what_was_found_at_extra_points(void **state)
{
    (void)state;
    world w;
    int32_t n_measured, n_in_pool;
    world_open(&w);
    tune(&w, false, "default hints");
    look(&n_measured, &n_in_pool, &w);
    assert_int_equal(n_measured, 0); /* not asked for */
    tune(&w, true, "option hints");
    look(&n_measured, &n_in_pool, &w);
    assert_int_equal(n_measured, w.space.n_hints); /* a user's hints: their ragged twins alone */
    assert_int_equal(n_in_pool, n_measured);
    tune(&w, true, "default hints");
    look(&n_measured, &n_in_pool, &w);
    assert_true(n_measured >= w.space.n_hints + 20);
    assert_true(n_in_pool >= n_measured - 4); /* a pool's places are limited */
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pools_have_what_was_found_at_extra_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
