/* Op creation, tuning and hint suggestion compile a formula alike. tf32 is told apart where kernels may use it, and
 * only there: in what is tuned, in what is read as measured, and in what is suggested. On a simulated GPU. */
#include "dispatch/pool/pool.h"
#include "dispatch/support/sim_world.h"

#include "base/hash.h"
#include "base/status.h"
#include "dispatch/space/points.h"
#include "dispatch/compile/suggest.h"
#include "dispatch/pool/fill.h"
#include "dispatch/create.h"
#include "expr/catalogue.h"

#include <stdlib.h>
#include <string.h>

static const char product[] = "Y[m,n] = sum[k](A[m,k] * B[n,k])";

typedef struct world {
    md_dev_facts facts;
    sim_world sim;
} world;

/* By the name alone, unlike any model. */
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
}

static md_ds_compile_options options_of(const world *w, md_dtype dtype, bool allows_tf32)
{
    return (md_ds_compile_options){.dtype = dtype,
                                   .hints = "128,512",
                                   .hints_source = "test",
                                   .policy = {.select = MD_SELECT_MODEL,
                                              .metric = MD_METRIC_LOG2,
                                              .persistent = MD_PERSISTENT_AUTO,
                                              .tune = MD_TUNE_ESTIMATE,
                                              .allows_tf32 = allows_tf32,
                                              .wisdom = w->sim.wisdom}};
}

static void tune(world *w, md_dtype dtype, bool allows_tf32)
{
    const md_ds_tune_request r = {.compile = options_of(w, dtype, allows_tf32),
                                  .builder = w->sim.builder,
                                  .job = {.rigor = MD_TUNE_MEASURE, .budget_ms = 1e7, .max_builds = 4, .seed = 1}};
    assert_ok(md_ds_tune_formula(&r, product));
}

/* Variants of an op whose time at their hint is known as measured; how many of them are of the family. */
static int32_t measured_of(world *w, md_dtype dtype, bool allows_tf32, const char *family)
{
    const md_ds_op_options o = {.compile = options_of(w, dtype, allows_tf32), .max_shapes = 10};
    md_ds_op *op = NULL;
    int32_t n = 0;
    assert_ok(md_ds_op_create(&op, &w->sim.runtime, product, &o));
    for (int32_t v = 0; v < op->stage[0].n_variants; v++)
        n += md_ds_is_measured(&op->stage[0], v) && (!family || !strcmp(op->stage[0].variant[v]->family->name, family));
    md_ds_op_destroy(&op);
    return n;
}

/* gemm_wgmma takes f32 only as tf32. */
static void tuning_knows_tf32(void **state)
{
    (void)state;
    for (int32_t is_allowed = 0; is_allowed < 2; is_allowed++) {
        world w;
        world_open(&w);
        tune(&w, MD_F32, is_allowed != 0);
        assert_true(measured_of(&w, MD_F32, is_allowed != 0, NULL) > 0);
        assert_int_equal(measured_of(&w, MD_F32, is_allowed != 0, "gemm_wgmma") > 0, is_allowed);
        sim_world_close(&w.sim);
    }
}

static void times_under_tf32_are_no_times_of_f32(void **state)
{
    (void)state;
    for (int32_t is_allowed = 0; is_allowed < 2; is_allowed++) {
        world w;
        world_open(&w);
        tune(&w, MD_F32, is_allowed != 0);
        assert_int_equal(measured_of(&w, MD_F32, is_allowed == 0, NULL), 0);
        sim_world_close(&w.sim);
    }
}

static void times_of_bf16_hold_with_and_without_tf32(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    tune(&w, MD_BF16, true);
    const int32_t n = measured_of(&w, MD_BF16, true, NULL);
    assert_true(n > 0);
    assert_int_equal(measured_of(&w, MD_BF16, false, NULL), n);
    sim_world_close(&w.sim);
}

static md_ds_suggestion suggest(const world *w, md_dtype dtype, bool allows_tf32)
{
    static const md_met_shape met[] = {{"m=1, n=4096, k=4096", 1.0}, {"m=2000, n=3000, k=1024", 1.0}};
    const md_ds_suggest_options o = {
        .compile = options_of(w, dtype, allows_tf32), .shape = met, .n_shapes = MD_COUNT(met), .n_hints = 1};
    md_strbuf hints = {0};
    md_ds_suggestion found;
    assert_ok(md_ds_suggest(&hints, &found, &w->facts, product, &o));
    md_strbuf_finish(&hints);
    return found;
}

static void suggestion_knows_tf32(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    const md_ds_suggestion f32[] = {suggest(&w, MD_F32, false), suggest(&w, MD_F32, true)},
                           bf16[] = {suggest(&w, MD_BF16, false), suggest(&w, MD_BF16, true)};
    assert_true(f32[0].today.mean != f32[1].today.mean);
    assert_true(bf16[0].today.mean == bf16[1].today.mean);
    sim_world_close(&w.sim);
}

/* ---- Keys */

/* The best model time of any family at the sizes. */
static double best_us(const md_fa_target *target, const int64_t *size)
{
    double least = 1e300;
    for (int32_t i = 0; md_fa_of(target, i); i++) {
        const md_fa_family *f = md_fa_of(target, i);
        md_fa_config config;
        double us;
        if (md_fa_applies(f, target) && md_tn_best(&config, &us, target, f, size, NULL) == MD_OK)
            least = MD_MIN(least, us);
    }
    return least;
}

static bool have_same_families(const md_fa_target *a, const md_fa_target *b)
{
    for (int32_t i = 0; md_fa_of(a, i); i++)
        if (md_fa_applies(md_fa_of(a, i), a) != md_fa_applies(md_fa_of(a, i), b))
            return false;
    return true;
}

static bool has_f8(const md_fx_formula *f)
{
    bool has = false;
    for (int32_t t = 0; t < f->n_tensors; t++)
        has |= f->tensor[t].dtype == MD_F8E4M3;
    return has;
}

/* Wherever tf32 makes a difference the keys differ; where there is no product of f32, nor of 8-bit reals whatever the
 * op's dtype is, they are the same. */
static void check_keys(const md_ds_compiled *strict, const md_ds_compiled *loose, int32_t stage, int32_t *n_differ)
{
    const md_fa_target a = md_ds_target_of(strict, stage), b = md_ds_target_of(loose, stage);
    md_tn_point point;
    char *key[2] = {NULL, NULL};
    md_ds_hint_point(&point, &a, &strict->space, 0, false);
    assert_ok(md_tn_key(&key[0], &a, point.size, false));
    assert_ok(md_tn_key(&key[1], &b, point.size, false));
    const bool is_same_key = !strcmp(key[0], key[1]);
    if (is_same_key) {
        assert_true(have_same_families(&a, &b));
        assert_true(best_us(&a, point.size) == best_us(&b, point.size));
    } else {
        assert_int_equal(a.program->stage[stage].kind, MD_ST_PRODUCT);
        *n_differ += !has_f8(a.program->formula);
    }
    free(key[0]);
    free(key[1]);
}

static void keys_have_tf32_where_it_matters(void **state)
{
    (void)state;
    static const md_dtype dtype[] = {MD_F32, MD_BF16, MD_F64};
    world w;
    world_open(&w);
    for (int32_t d = 0; d < MD_COUNT(dtype); d++) {
        int32_t n_differ = 0;
        for (int32_t i = 0; md_catalogue_at(i); i++) {
            md_ds_compiled *c[2] = {NULL, NULL};
            for (int32_t k = 0; k < 2; k++) {
                const md_ds_compile_options o = options_of(&w, dtype[d], k == 1);
                assert_ok(md_ds_compile(&c[k], &w.facts, md_catalogue_at(i)->formula, &o));
            }
            for (int32_t s = 0; s < c[0]->program->n_stages; s++)
                check_keys(c[0], c[1], s, &n_differ);
            md_ds_compiled_destroy(&c[0]);
            md_ds_compiled_destroy(&c[1]);
        }
        assert_int_equal(n_differ > 0, dtype[d] == MD_F32);
    }
    sim_world_close(&w.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tuning_knows_tf32),
        cmocka_unit_test(times_under_tf32_are_no_times_of_f32),
        cmocka_unit_test(times_of_bf16_hold_with_and_without_tf32),
        cmocka_unit_test(suggestion_knows_tf32),
        cmocka_unit_test(keys_have_tf32_where_it_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
