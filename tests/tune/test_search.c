/* The measured search finds what is nearly best within its budget, and keeps it. On a simulated device. */
#include "tune/search_world.h"

#include "base/status.h"
#include "store/scratch.h"
#include "support/find_family.h"
#include "tune/search/internal.h"
#include "tune/wisdom/internal.h"

#include <math.h>

/* ---- The truth, by asking for every config */

typedef struct best {
    const search_world *w;
    const md_fa_family *family;
    const md_kn_shape *shape;
    double us;
    char name[MD_FA_NAME];
    int32_t n;
} best;

static bool look(void *user, const md_fa_config *config)
{
    best *b = user;
    md_kn_envelope envelope = {0};
    char name[MD_FA_NAME];
    md_fa_envelope_of(&envelope, b->family, &b->w->target, config);
    if (md_kn_envelope_miss(&envelope, b->shape))
        return true;
    md_fa_name(name, b->family, config);
    const double us = search_price_of(b->w, name, b->shape->size);
    b->n++;
    if (us < b->us) {
        b->us = us;
        memcpy(b->name, name, sizeof b->name);
    }
    return true;
}

static best true_best(const search_world *w, const md_tn_point *p)
{
    md_kn_shape shape;
    md_tn_shape(&shape, w->program, p->size);
    best b = {.w = w, .shape = &shape, .us = INFINITY};
    for (const md_fa_family *const *f = md_fa_families(w->facts.kind); *f; f++) {
        b.family = *f;
        if (!(*f)->is_last_resort && md_fa_applies(*f, &w->target))
            md_fa_each_all(&w->target, *f, shape.size, look, &b);
    }
    return b;
}

/* ---- Tests */

static void finds_what_is_nearly_best_with_few_builds(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    static const int64_t sizes[][2] = {{512, 64}, {1024, 512}, {16, 2048}, {4096, 1024}, {64, 8192}};
    int32_t n = 0, near = 0;
    double sum = 0.0, worst = 0.0;
    for (int32_t i = 0; i < 40; i++) {
        search_world w;
        md_tn_record r;
        search_world_open(&w, i % 5 == 4 ? SEARCH_GELU : SEARCH_SOFTMAX, i % 2 ? MD_BF16 : MD_F32, check_random(&seed),
                          0.01, 1.0);
        const md_tn_point p = search_point(sizes[i % 5][0], sizes[i % 5][1]);
        const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
        assert_ok(md_tn_tune(&job));
        assert_true(search_compiles(&w) <= 2 * MD_TN_BUILDS); /* a config of two launches has two texts */
        const best b = true_best(&w, &p);
        assert_true(search_found(&r, &w, &p, MD_TUNE_MEASURE) > 0);
        const double regret = search_price_of(&w, r.variant, p.size) / b.us - 1.0;
        n++;
        near += regret <= 0.03;
        sum += regret;
        worst = fmax(worst, regret);
        md_tn_record_finish(&r);
        search_world_close(&w);
    }
    printf("%d cases: %d within 3%%, mean %.2f%%, worst %.1f%%\n", n, near, 100 * sum / n, 100 * worst);
    assert_true(sum / n < 0.06);
    assert_true(worst < 0.50); /* 40 random spaces: seldom one has a far better corner */
}

typedef struct neighbours {
    const search_world *w;
    const md_fa_family *family;
    const md_fa_config *of;
    const md_kn_shape *shape;
    double us; /* the least */
    int32_t n;
} neighbours;

static bool look_near(void *user, const md_fa_config *config)
{
    neighbours *n = user;
    best b = {.w = n->w, .family = n->family, .shape = n->shape, .us = INFINITY};
    if (md_tn_steps(n->family, n->of, config) == 1 && look(&b, config) && b.n > 0) {
        n->us = fmin(n->us, b.us);
        n->n++;
    }
    return true;
}

/* On random prices. The other strategy leaves the model's neighbourhood. */
static void a_descent_ends_where_no_step_helps(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int32_t n = 0;
    for (int32_t i = 0; i < 8; i++) {
        search_world w;
        md_tn_record r;
        md_kn_shape shape;
        md_fa_config config;
        search_world_open(&w, i % 2 ? SEARCH_GELU : SEARCH_SOFTMAX, MD_F32, check_random(&seed), 0.0, 1.0);
        const md_tn_point p = search_point(1 << (4 + i), 1 << (12 - i));
        md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
        job.strategy = MD_TUNE_DESCENT;
        job.max_builds = 1000;
        assert_ok(md_tn_tune(&job));
        assert_true(search_found(&r, &w, &p, MD_TUNE_MEASURE) > 0);
        md_tn_shape(&shape, w.program, p.size);
        neighbours near = {.w = &w, .of = &config, .shape = &shape, .us = INFINITY};
        assert_ok(md_fa_parse(&near.family, &config, w.facts.kind, r.variant));
        md_fa_each_all(&w.target, near.family, shape.size, look_near, &near);
        n += near.n;
        assert_true(search_price_of(&w, r.variant, p.size) <= 1.021 * near.us); /* but for ties */
        md_tn_record_finish(&r);
        search_world_close(&w);
    }
    assert_true(n > 20);
}

static void measures_everything_when_asked(void **state)
{
    (void)state;
    search_world w;
    md_tn_record r;
    search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 5, 0.0, 1.0);
    const md_tn_point p = search_point(1024, 512);
    const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_EXHAUSTIVE);
    assert_ok(md_tn_tune(&job));
    const best b = true_best(&w, &p);
    assert_true(b.n > 40);
    assert_int_equal(atomic_load(&w.count.timed), b.n);
    (void)search_found(&r, &w, &p, MD_TUNE_EXHAUSTIVE);
    assert_true(search_price_of(&w, r.variant, p.size) <= 1.021 * b.us); /* but for ties */
    assert_int_equal(r.rigor, MD_TUNE_EXHAUSTIVE);
    assert_true(r.is_complete);
    md_tn_record_finish(&r);
    search_world_close(&w);
}

static void a_better_result_serves_a_lesser_request(void **state)
{
    (void)state;
    search_world w;
    search_world_open(&w, SEARCH_GELU, MD_F32, 6, 0.01, 1.0);
    const md_tn_point p[2] = {search_point(64, 64), search_point(1024, 1024)};
    md_tn_job job = search_job(&w, p, 2, MD_TUNE_EXHAUSTIVE);
    assert_ok(md_tn_tune(&job));
    const uint64_t timed = atomic_load(&w.count.timed), built = search_compiles(&w);
    job.rigor = MD_TUNE_MEASURE;
    assert_ok(md_tn_tune(&job));
    assert_int_equal(atomic_load(&w.count.timed), timed); /* nothing */
    assert_int_equal(search_compiles(&w), built);
    assert_int_equal(atomic_load(&w.count.found), 2);
    search_world_close(&w);
    search_world_open(&w, SEARCH_GELU, MD_F32, 6, 0.01, 1.0);
    job = search_job(&w, p, 1, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    const uint64_t some = atomic_load(&w.count.timed);
    job.rigor = MD_TUNE_EXHAUSTIVE;
    assert_ok(md_tn_tune(&job));
    assert_true(atomic_load(&w.count.timed) > some);
    search_world_close(&w);
}

static void every_family_has_its_best(void **state)
{
    (void)state;
    search_world w;
    md_tn_record r;
    search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 7, 0.01, 1.0);
    const md_tn_point p = search_point(1024, 2048);
    const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    int32_t n = 0;
    md_kn_shape at;
    md_tn_shape(&at, w.program, p.size);
    for (const md_fa_family *const *f = md_fa_families(w.facts.kind); *f; f++) {
        md_fa_config config;
        double us;
        n += !(*f)->is_last_resort && md_fa_applies(*f, &w.target) &&
             md_tn_best_of(&config, &us, &w.target, *f, &at, NULL) == MD_OK; /* row_thread has none for long rows */
    }
    assert_int_equal(search_found(&r, &w, &p, MD_TUNE_MEASURE), n);
    md_tn_record_finish(&r);
    for (const md_fa_family *const *f = md_fa_families(w.facts.kind); *f; f++) {
        if ((*f)->is_last_resort || !md_fa_applies(*f, &w.target))
            continue;
        md_kn_shape shape;
        md_tn_decision d;
        md_tn_shape(&shape, w.program, p.size);
        const md_tn_query q = {&w.target, &p, &shape, MD_TUNE_MEASURE, w.wisdom, NULL};
        const md_status s = md_tn_decide(&d, &q, *f);
        assert_true(s == MD_OK || s == MD_NOT_FOUND);
        if (s == MD_OK)
            assert_true(d.us > 0.0);
    }
    search_world_close(&w);
}

static void rigor_decides_where_configs_come_from(void **state)
{
    (void)state;
    search_world w;
    search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 8, 0.0, 1.0);
    const md_fa_family *f = find_family(w.facts.kind, "row_persistent");
    const md_tn_point p = search_point(1024, 512);
    md_kn_shape shape;
    md_tn_decision off, estimate, measured;
    md_fa_config model;
    md_tn_shape(&shape, w.program, p.size);
    md_tn_query q = {&w.target, &p, &shape, MD_TUNE_OFF, w.wisdom, NULL};
    assert_ok(md_tn_decide(&off, &q, f));
    const md_fa_config usual = md_fa_default(f);
    if (md_fa_legal(f, &w.target, &usual, p.size))
        assert_memory_equal(&off.config, &usual, sizeof usual);
    assert_ok(md_tn_best(&model, NULL, &w.target, f, p.size, &shape));
    q.rigor = MD_TUNE_ESTIMATE;
    assert_ok(md_tn_decide(&estimate, &q, f));
    assert_memory_equal(&estimate.config, &model, sizeof model);
    assert_false(estimate.is_measured);
    const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    for (; q.rigor <= MD_TUNE_MEASURE; q.rigor++) {
        assert_ok(md_tn_decide(&measured, &q, f));
        assert_true(measured.is_measured);
        char name[MD_FA_NAME];
        md_fa_name(name, f, &measured.config);
        assert_true(fabs(measured.us / search_price_of(&w, name, p.size) - 1.0) < 1e-9); /* no noise here */
    }
    search_world_close(&w);
}

static void a_search_that_was_cut_goes_on(void **state)
{
    (void)state;
    search_world w;
    md_tn_record r, again;
    search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 9, 0.01, 100.0);
    const md_tn_point p = search_point(1024, 512);
    md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
    job.budget_ms = 300.0; /* six builds on two threads */
    assert_ok(md_tn_tune(&job));
    assert_true(search_found(&r, &w, &p, MD_TUNE_MEASURE) > 0);
    assert_false(r.is_complete);
    assert_int_equal(atomic_load(&w.count.cut), 1);
    job.budget_ms = 1e6;
    assert_ok(md_tn_tune(&job));
    (void)search_found(&again, &w, &p, MD_TUNE_MEASURE);
    assert_true(again.is_complete);
    assert_true(search_price_of(&w, again.variant, p.size) <= 1.02 * search_price_of(&w, r.variant, p.size));
    md_tn_record_finish(&r);
    md_tn_record_finish(&again);
    search_world_close(&w);
}

static void ends_with_its_budget(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int32_t i = 0; i < 12; i++) {
        search_world w;
        search_world_open(&w, SEARCH_SOFTMAX, MD_F32, check_random(&seed), 0.01, 60.0);
        w.builds_first = true;
        const md_tn_point p[4] = {search_point(64, 64), search_point(256, 256), search_point(1024, 1024),
                                  search_point(4096, 4096)};
        md_tn_job job = search_job(&w, p, 4, i % 2 ? MD_TUNE_EXHAUSTIVE : MD_TUNE_MEASURE);
        job.budget_ms = 400.0 + 200.0 * i;
        const uint64_t start = w.dev->ops->now_ns(w.dev);
        assert_ok(md_tn_tune(&job));
        const double ms = (double)(w.dev->ops->now_ns(w.dev) - start) * 1e-6;
        if (ms > 1.1 * job.budget_ms)
            fail_msg("%.0f ms of %.0f", ms, job.budget_ms);
        search_world_close(&w);
    }
}

static md_status nothing(void *user)
{
    (void)user;
    return MD_OK;
}

/* How many of 20 runs with other noise end with the first one's choice, or one within 2%. */
static int32_t count_same(uint64_t landscape, uint64_t *seed)
{
    char first[MD_FA_NAME] = "";
    double us = 0.0;
    int32_t same = 0;
    for (int32_t i = 0; i < 20; i++) {
        search_world w;
        md_tn_record r;
        search_world_open(&w, SEARCH_SOFTMAX, MD_F32, landscape, 0.01, 1.0);
        const md_tn_point p = search_point(1024, 512);
        for (uint64_t k = check_random(seed) % 1000; k > 0; k--) { /* other noise in each run */
            double unused;
            (void)w.dev->ops->time(&unused, w.dev, NULL, nothing, NULL);
        }
        const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
        assert_ok(md_tn_tune(&job));
        (void)search_found(&r, &w, &p, MD_TUNE_MEASURE);
        const double now = search_price_of(&w, r.variant, p.size);
        if (i == 0) {
            memcpy(first, r.variant, sizeof first);
            us = now;
        }
        same += !strcmp(first, r.variant) || fabs(now / us - 1.0) <= 0.02;
        md_tn_record_finish(&r);
        search_world_close(&w);
    }
    return same;
}

/* Two valleys of nearly one depth may take turns: not in most landscapes. */
static void runs_agree(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    int32_t n_good = 0;
    for (uint64_t landscape = 71; landscape < 76; landscape++) {
        const int32_t same = count_same(landscape, &seed);
        printf("landscape %d: %d of 20 the same, or within 2%%\n", (int)landscape, same);
        n_good += same >= 19;
    }
    assert_true(n_good >= 4);
}

static void keys_tell_points_apart(void **state)
{
    (void)state;
    search_world w;
    char *a = NULL, *b = NULL, *c = NULL;
    search_world_open(&w, SEARCH_SOFTMAX, MD_BF16, 1, 0.0, 1.0);
    const md_tn_point p = search_point(64, 128), q = search_point(128, 64);
    assert_ok(md_tn_key(&a, &w.target, p.size, false));
    assert_ok(md_tn_key(&b, &w.target, p.size, true));
    assert_ok(md_tn_key(&c, &w.target, q.size, false));
    assert_true(strcmp(a, b) && strcmp(a, c) && strcmp(b, c));
    assert_non_null(strstr(a, "bf16"));
    assert_null(strchr(a, '\n'));
    free(a);
    free(b);
    free(c);
    search_world_close(&w);
}

/* ---- Answers of the model that are kept */

typedef struct answer {
    md_status status;
    md_fa_config config;
    double us;
} answer;

enum { MOST_FAMILIES = 40 };

/* What the model says of each family at a shape: by `estimates`, or (NULL) anew. */
static int32_t ask(answer *out, md_tn_estimates *estimates, const search_world *w, const md_kn_shape *shape)
{
    int32_t n = 0;
    for (const md_fa_family *const *f = md_fa_families(w->facts.kind); *f; f++) {
        if ((*f)->is_last_resort || !md_fa_applies(*f, &w->target))
            continue;
        assert_true(n < MOST_FAMILIES);
        answer *a = &out[n++];
        memset(a, 0, sizeof *a);
        a->status = estimates ? md_tn_estimate(&a->config, &a->us, estimates, &w->target, *f, shape)
                              : md_tn_best(&a->config, &a->us, &w->target, *f, shape->size, shape);
        if (a->status != MD_OK) {
            assert_int_equal(a->status, MD_NOT_FOUND);
            assert_non_null(strstr(md_last_error(), (*f)->name));
            memset(a, 0, sizeof *a); /* what it says then means nothing */
            a->status = MD_NOT_FOUND;
        } else if (estimates) {
            md_fa_config config;
            assert_ok(md_tn_estimate(&config, NULL, estimates, &w->target, *f, shape)); /* the time is optional */
            assert_memory_equal(&config, &a->config, sizeof config);
        }
    }
    return n;
}

/* Also that no config is legal. A later process takes them over: it has other facts here, so that new answers would
 * differ. */
static void answers_of_the_model_are_kept(void **state)
{
    scratch *s = *state;
    static const int64_t size[][2] = {{1024, 512}, {3, 100000}};
    answer right[MOST_FAMILIES], got[MOST_FAMILIES], later[MOST_FAMILIES];
    int32_t n_missing = 0, n_later = 0;
    search_world w;
    search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 1, 0.0, 1.0);
    const double rate = w.facts.memory_gbps;
    for (int process = 0; process < 2; process++) {
        md_sr *store = scratch_open(s, "here");
        md_tn_wisdom *wisdom = NULL;
        md_tn_estimates *estimates = NULL;
        assert_ok(md_tn_wisdom_create(&wisdom));
        assert_ok(md_tn_estimates_open(&estimates, wisdom, &w.target));
        assert_null(estimates); /* there is nowhere to keep them */
        md_tn_wisdom_use_store(wisdom, store, "a device");
        assert_ok(md_tn_estimates_open(&estimates, wisdom, &w.target));
        assert_non_null(estimates);
        for (int i = 0; i < 2; i++) {
            md_kn_shape shape;
            md_tn_shape(&shape, w.program, size[i]);
            w.facts.memory_gbps = rate;
            const int32_t n = ask(right, NULL, &w, &shape);
            w.facts.memory_gbps = process == 0 ? rate : 3 * rate;
            for (int again = 0; again < 2; again++) {
                assert_int_equal(ask(got, estimates, &w, &shape), n);
                assert_memory_equal(got, right, (size_t)n * sizeof *got);
            }
            (void)ask(later, NULL, &w, &shape);
            n_later += process && memcmp(later, right, (size_t)n * sizeof *later) != 0;
            for (int32_t k = 0; k < n; k++)
                n_missing += got[k].status == MD_NOT_FOUND;
        }
        md_tn_estimates_close(&estimates);
        assert_null(estimates);
        assert_int_equal(md_sr_count(store)->written, process == 0); /* nothing new the second time */
        md_tn_wisdom_destroy(&wisdom);
        md_sr_close(&store);
    }
    assert_true(n_missing > 0 && n_later > 0);
    search_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_of_the_model_are_kept, scratch_setup, scratch_teardown),
        cmocka_unit_test(finds_what_is_nearly_best_with_few_builds),
        cmocka_unit_test(a_descent_ends_where_no_step_helps),
        cmocka_unit_test(measures_everything_when_asked),
        cmocka_unit_test(a_better_result_serves_a_lesser_request),
        cmocka_unit_test(every_family_has_its_best),
        cmocka_unit_test(rigor_decides_where_configs_come_from),
        cmocka_unit_test(a_search_that_was_cut_goes_on),
        cmocka_unit_test(ends_with_its_budget),
        cmocka_unit_test(runs_agree),
        cmocka_unit_test(keys_tell_points_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
