/* A device calibrates itself: a simulated one, whose kernels take other times than the model says, family by family. */
#include "support/check.h"
#include "support/fault.h"

#include "base/embed.h"
#include "base/status.h"
#include "device/cuda/cuda.h"
#include "device/open.h"
#include "family/family.h"
#include "stage/stage.h"
#include "support/devices/sim_device.h"
#include "tune/calibrate/calibrate.h"
#include "tune/tune.h"

#include <inttypes.h>
#include <math.h>

/* A device whose families are off by what the seed says: by factors of 1/2 to 2. */
typedef struct world {
    uint64_t seed;
    md_dev_facts facts;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    int32_t n_timed, most; /* times so far; so many until it is over, 0: any number */
    const md_fa_family *slowed; /* other work slows this family by a factor of 100 */
} world;

static double true_factor(const world *w, const md_fa_family *family)
{
    uint64_t s = w->seed;
    for (const char *c = family->name; *c; c++)
        s = s * 31 + (uint64_t)*c;
    return exp2(2 * (double)(check_random(&s) >> 11) * 0x1p-53 - 1);
}

static double price(void *user, const char *variant, const md_kn_call *call)
{
    world *w = user;
    const md_fa_family *family;
    md_fa_config config;
    int32_t stage = 0;
    assert_ok(md_fa_parse(&family, &config, w->facts.kind, variant));
    const md_st_program *const program = call->program;
    while (&program->stage[stage] != call->stage)
        stage++;
    const md_fa_target target = {.program = program, .stage = stage, .facts = &w->facts};
    w->n_timed++;
    return md_tn_predict_us(&target, family, &config, call->shape->size) * true_factor(w, family) *
           (family == w->slowed ? 100 : 1);
}

static void open_world(world *w, uint64_t seed, double noise)
{
    *w = (world){.seed = seed};
    assert_ok(md_dev_cuda_assume(&w->facts, 90));
    assert_ok(md_pool_create(&w->pool, 2));
    assert_ok(sim_device_open(&w->dev, &(sim_device_options){.facts = &w->facts,
                                                             .price = price,
                                                             .user = w,
                                                             .noise = noise,
                                                             .seed = seed,
                                                             .timing_us = 20,
                                                             .pool = w->pool}));
    assert_ok(md_bd_create(&w->builder, w->dev));
}

static void close_world(world *w)
{
    md_bd_destroy(&w->builder);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
}

static bool is_over(void *user)
{
    const world *w = user;
    return w->most > 0 && w->n_timed >= w->most;
}

static void go_on(md_tn_calibration *out, world *w, double budget_ms, const md_tn_calibration *before)
{
    assert_ok(md_tn_calibrate(
        out, w->builder,
        &(md_tn_calibrate_options){.budget_ms = budget_ms, .is_over = is_over, .user = w, .before = before}));
}

static void calibrate(md_tn_calibration *out, world *w, double budget_ms)
{
    go_on(out, w, budget_ms, NULL);
}

static double factor_of(const md_dev_factors *f, const md_fa_family *family)
{
    return md_tn_factor_of(&(md_dev_facts){.factors = f}, family);
}

/* Families beside each other are as they truly are. */
static void factors_are_found(void **state)
{
    static world w;
    md_tn_calibration c;
    md_dev_factors f;
    const uint64_t seed = check_seed();
    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        open_world(&w, seed + i, 0.02);
        calibrate(&c, &w, 1e9);
        assert_true(c.is_whole && c.is_sure && c.n >= 8);
        assert_true(md_tn_calibration_factors(&f, &c));
        for (int32_t a = 0; a < c.n; a++)
            for (int32_t b = 0; b < a; b++) {
                const md_fa_family *x = c.off[a].family, *y = c.off[b].family;
                const double want = true_factor(&w, x) / true_factor(&w, y), got = factor_of(&f, x) / factor_of(&f, y);
                if (c.off[a].n > 1 && c.off[b].n > 1 && fabs(log2(got / want)) > 0.25)
                    fail_msg("%s beside %s: %g, not %g", x->name, y->name, got, want);
            }
        close_world(&w);
    }
}

static bool is_among(const md_tn_calibration *c, const md_fa_family *family)
{
    bool is_there = false;
    for (int32_t i = 0; i < c->n; i++)
        is_there |= c->off[i].family == family;
    return is_there;
}

/* What is off by more than any kernel is left out, and the rest can be kept: it is read again. */
static void impossible_times_are_left_out(void **state)
{
    static world w;
    md_tn_calibration c, again;
    md_strbuf text = {0};
    (void)state;
    open_world(&w, 1, 0);
    calibrate(&c, &w, 1e9);
    const md_fa_family *const slowed = c.off[0].family;
    const int32_t n = c.n;
    assert_true(c.is_sure);
    w.slowed = slowed;
    calibrate(&c, &w, 1e9);
    assert_int_equal(c.n, n - 1);
    assert_false(is_among(&c, slowed) || c.is_sure);
    md_tn_calibration_print(&text, &c);
    assert_true(md_tn_calibration_read(&again, w.facts.kind, md_strbuf_text(&text), text.size));
    assert_int_equal(again.n, n - 1);
    md_strbuf_finish(&text);
    close_world(&w);
}

/* Calls without time each look at one operation, and find together what one call finds. */
static void interrupted_ones_go_on(void **state)
{
    static world w;
    md_tn_calibration whole, c = {0};
    int n = 0;
    (void)state;
    open_world(&w, 1, 0);
    calibrate(&whole, &w, 1e9);
    for (; n == 0 || (n < 20 && !c.is_whole); n++) {
        const md_tn_calibration before = c;
        go_on(&c, &w, 0.5, n > 0 ? &before : NULL);
        assert_true(c.n_probes > before.n_probes);
    }
    assert_true(c.is_whole && n > 2 && c.n_probes == whole.n_probes);
    for (int32_t i = 0; i < c.n; i++)
        for (int32_t k = 0; k < whole.n; k++)
            if (c.off[i].family == whole.off[k].family)
                assert_true(fabs(c.off[i].mean - whole.off[k].mean) < 0.01 && c.off[i].spread < 0.01);
    close_world(&w);
}

/* What is interrupted, has no time, or is disturbed says so. */
static void doubts_are_told(void **state)
{
    static world w;
    md_tn_calibration c;
    (void)state;
    open_world(&w, 1, 0);
    calibrate(&c, &w, 1e9);
    assert_true(c.is_whole && c.is_sure);
    w.most = 2 * w.n_timed - w.n_timed / 4; /* the second time it ends before */
    calibrate(&c, &w, 1e9);
    assert_true(!c.is_whole && c.n > 0);
    w.most = 0;
    calibrate(&c, &w, 0.5);
    assert_false(c.is_whole);
    atomic_store(&w.dev->mhz, -700);
    calibrate(&c, &w, 1e9);
    assert_true(c.is_whole && !c.is_sure);
    close_world(&w);
    open_world(&w, 1, 1);
    calibrate(&c, &w, 1e9);
    assert_true(c.is_whole && !c.is_sure);
    close_world(&w);
}

/* A kernel that could not be made for one size is made for the next, though its config is the same. */
static void what_could_not_be_made_is_tried_again(void **state)
{
    static world w;
    md_tn_calibration c, before = {.is_sure = true};
    uint64_t n_emitted = 0, most = 0;
    (void)state;
    open_world(&w, 1, 0);
    calibrate(&c, &w, 1e9);
    close_world(&w);
    before.n_probes = c.n_probes - 2; /* few kernels, of which one has a config for both sizes */
    for (int64_t n = 0; n < 4000 && most <= n_emitted; n += n ? 20 : 1) {
        open_world(&w, 1, 0);
        fault_once(n);
        (void)md_tn_calibrate(&c, w.builder, &(md_tn_calibrate_options){.budget_ms = 1e9, .before = &before});
        fault_after(0);
        most = md_bd_count(w.builder)->emitted;
        n_emitted = n ? n_emitted : most;
        close_world(&w);
    }
    assert_int_equal(most, n_emitted + 1);
}

static const md_fa_family *family_named(const char *name)
{
    const md_fa_family *family;
    md_fa_config config;
    assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, name));
    return family;
}

static bool reads(md_tn_calibration *out, const char *text)
{
    return md_tn_calibration_read(out, MD_DEV_HOST, text, strlen(text));
}

static void expect_same(const md_tn_calibration *a, const md_tn_calibration *b)
{
    assert_int_equal(a->n, b->n);
    for (int32_t i = 0; i < a->n; i++) {
        const md_tn_off *x = &a->off[i], *y = &b->off[i];
        assert_ptr_equal(x->family, y->family);
        assert_true(x->n == y->n && x->mean == y->mean && x->spread == y->spread);
    }
    assert_true(a->date == b->date && a->ms == b->ms && a->n_probes == b->n_probes);
    assert_true(a->is_whole == b->is_whole && a->is_sure == b->is_sure);
}

static void texts(void **state)
{
    const md_tn_calibration c = {.n = 2,
                                 .off = {{family_named("gemm"), 4, 0.75, 0.125}, {family_named("scan"), 2, -0.5, 0}},
                                 .date = 1700000000,
                                 .ms = 812.5,
                                 .n_probes = 9,
                                 .is_whole = true};
    md_tn_calibration got;
    md_strbuf text = {0};
    char bad[400];
    (void)state;
    md_tn_calibration_print(&text, &c);
    assert_true(reads(&got, md_strbuf_text(&text)));
    expect_same(&got, &c);
    const size_t head = strcspn(md_strbuf_text(&text), "\n") + 1;
    for (size_t n = 0; n < text.size; n++) {
        snprintf(bad, sizeof bad, "%.*s", (int)n, md_strbuf_text(&text));
        const bool is_line = n >= head && bad[n - 1] == '\n';
        assert_int_equal(reads(&got, bad), is_line);
    }
    static const char *const line[] = {"gemm 4 nan 0", "gemm 4 50 0", "gemm 0 1 0",     "gemm 4 1 -1", "gemm 4 1",
                                       "gemm 4 1 0 0", "gemm -3 1 0", "gemm 99999 1 0", "gemm 4 inf 0"};
    for (size_t i = 0; i < MD_COUNT(line); i++) {
        snprintf(bad, sizeof bad, "%.*s%s\n", (int)head, md_strbuf_text(&text), line[i]);
        if (reads(&got, bad))
            fail_msg("'%s' was read", line[i]);
    }
    snprintf(bad, sizeof bad, "%.*sunheard_of 4 1 0\n", (int)head, md_strbuf_text(&text));
    assert_true(reads(&got, bad) && got.n == 0);
    snprintf(bad, sizeof bad, "1 %016" PRIx64 "%s", md_source_identity ^ 1, md_strbuf_text(&text) + 18);
    assert_false(reads(&got, bad));
    md_strbuf_finish(&text);
}

/* All families off alike are none. */
static void a_common_part_is_none(void **state)
{
    const md_tn_calibration same = {.n = 3,
                                    .is_sure = true,
                                    .off = {{family_named("gemm"), 4, -0.75, 0.1},
                                            {family_named("scan"), 2, -0.74, 0},
                                            {family_named("column"), 2, -0.76, 0}}};
    md_dev_factors f;
    (void)state;
    assert_false(md_tn_calibration_factors(&f, &same));
    md_tn_calibration other = same;
    other.off[0].mean = 0;
    assert_true(md_tn_calibration_factors(&f, &other));
    assert_int_equal(f.n, 1);
    assert_true(fabs(log(factor_of(&f, family_named("gemm"))) - 0.74) < 0.05);
    other.is_sure = false; /* an estimate: half of it */
    assert_true(md_tn_calibration_factors(&f, &other));
    assert_true(fabs(log(factor_of(&f, family_named("gemm"))) - 0.37) < 0.05);
    other.off[0].n = 1; /* one kernel says nothing of a family */
    assert_false(md_tn_calibration_factors(&f, &other));
}

/* Predictions are multiplied, also where only the fastest need be exact. */
static void predictions(void **state)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_dev_facts facts;
    md_fa_memo memo;
    md_fa_config config;
    const int64_t size[MD_FX_MAX_DIMS] = {300, 200, 100};
    const md_fa_family *family = NULL;
    (void)state;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    assert_ok(md_fa_parse(&family, &config, MD_DEV_CUDA, "gemm_simt"));
    assert_ok(md_fx_formula_create(&formula, "Y[m,n] = sum[k](X[m,k] * W[n,k])", NULL));
    assert_ok(md_st_program_create(&program, formula));
    md_fa_target target = {.program = program, .facts = &facts};
    const double plain = md_tn_predict_us(&target, family, &config, size);
    const md_dev_factors f = {.n = 1, .family = {family}, .factor = {1.5}};
    facts.factors = &f;
    assert_true(fabs(md_tn_predict_us(&target, family, &config, size) / plain - 1.5) < 1e-9);
    md_fa_memo_begin(&memo);
    target.memo = &memo;
    memo.enough_us = 1.4 * plain; /* it takes longer: any longer time will do */
    assert_true(md_tn_predict_us(&target, family, &config, size) > 1.4 * plain);
    memo.enough_us = 1.6 * plain;
    assert_true(fabs(md_tn_predict_us(&target, family, &config, size) / plain - 1.5) < 1e-9);
    assert_true(memo.enough_us == 1.6 * plain);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_found),
        cmocka_unit_test(impossible_times_are_left_out),
        cmocka_unit_test(doubts_are_told),
        cmocka_unit_test(interrupted_ones_go_on),
        cmocka_unit_test(what_could_not_be_made_is_tried_again),
        cmocka_unit_test(texts),
        cmocka_unit_test(predictions),
        cmocka_unit_test(a_common_part_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
