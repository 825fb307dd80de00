/* The benchmark engine on scripted times: no clock, no device, the same in every run. */
#include "support/check.h"
#include "tune/bench/policy.h"
#include "tune/bench/tournament.h"

#include <math.h>
#include <string.h>

enum { MOST = 8, ROOM = 64 };

typedef struct script {
    int32_t n;
    double us[MOST], noise; /* true times; relative noise, either way */
    double drift; /* all times grow by this part with each sample */
    uint64_t seed;
    int32_t fails, hangs; /* competitor; -1 */
    int32_t good_samples; /* of the one that fails */
    int32_t disturbed_every; /* every so many samples is disturbed; 0: none */
    int32_t pause_every, n_asked; /* every so many questions before samples is a pause; 0: none */
    int32_t stop_at_round; /* -1: never */
    int32_t looks_allowed;
    int32_t n_samples, n_taken[MOST], n_looks[MOST], n_disturbed;
    char order[4096]; /* the samples, by letter */
    double sample[MOST][ROOM];
    md_tn_competitor competitor[MOST];
} script;

static double time_of(script *s, int32_t i)
{
    const double part = (double)(check_random(&s->seed) % 2001) / 1000.0 - 1.0;
    return s->us[i] * (1.0 + s->noise * part) * (1.0 + s->drift * s->n_samples);
}

static md_tn_outcome take(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    script *s = user;
    assert_true(repeats >= 1);
    if (i == s->hangs)
        return MD_TN_RUN_HANGS;
    if (i == s->fails && step == MD_TN_SAMPLE && s->n_taken[i] >= s->good_samples)
        return MD_TN_RUN_FAILED;
    s->n_samples++;
    *us = time_of(s, i);
    if (step == MD_TN_FIRST_LOOK) {
        *us *= 3.0; /* page faults */
        s->n_looks[i]++;
    }
    if (step != MD_TN_SAMPLE)
        return MD_TN_SAMPLED;
    if (s->disturbed_every && s->n_samples % s->disturbed_every == 0) {
        s->n_disturbed++;
        *us *= 100.0;
        return MD_TN_DISTURBED;
    }
    const size_t at = strlen(s->order);
    if (at + 1 < sizeof s->order)
        s->order[at] = (char)('A' + i);
    s->n_taken[i]++;
    return MD_TN_SAMPLED;
}

static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    script *s = user;
    if (moment == MD_TN_BEFORE_LOOK)
        return i < s->looks_allowed ? MD_TN_GO_ON : MD_TN_STOP;
    if (moment == MD_TN_BEFORE_ROUND)
        return s->stop_at_round >= 0 && i >= s->stop_at_round ? MD_TN_STOP : MD_TN_GO_ON;
    if (moment == MD_TN_BEFORE_SAMPLE && s->pause_every && ++s->n_asked % s->pause_every == 0)
        return MD_TN_PAUSE;
    return MD_TN_GO_ON;
}

static void begin(script *s, int32_t n, const double *us, double noise, uint64_t seed)
{
    *s = (script){
        .n = n, .noise = noise, .seed = seed, .fails = -1, .hangs = -1, .stop_at_round = -1, .looks_allowed = MOST};
    memcpy(s->us, us, (size_t)n * sizeof *us);
    for (int32_t i = 0; i < n; i++)
        s->competitor[i] = (md_tn_competitor){.is_in = true, .sample = s->sample[i], .room = ROOM};
}

static md_tn_tournament make(md_tn_purpose purpose, script *s)
{
    const md_tn_sampler sampler = {take, proceed, s};
    return md_tn_tournament_make(purpose, &sampler, s->competitor, s->n);
}

static int32_t best_of(const md_tn_tournament *t)
{
    int32_t best = -1;
    for (int32_t i = 0; i < t->n; i++) {
        const double us = md_tn_tournament_result(t, i).us;
        if (us > 0.0 && (best < 0 || us < md_tn_tournament_result(t, best).us))
            best = i;
    }
    return best;
}

static const md_tn_purpose every_purpose[] = {MD_TN_FOR_TUNING, MD_TN_FOR_TUNING_FINAL, MD_TN_FOR_MEASURE,
                                              MD_TN_FOR_BACKGROUND, MD_TN_FOR_BENCH};

static void the_best_wins(void **state)
{
    (void)state;
    static const double us[] = {12.0, 30.0, 10.0, 11.0, 500.0, 10.9};
    for (size_t p = 0; p < sizeof every_purpose / sizeof *every_purpose; p++)
        for (uint64_t seed = 1; seed <= 50; seed++) {
            script s;
            begin(&s, 6, us, 0.03, seed);
            md_tn_tournament t = make(every_purpose[p], &s);
            assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
            assert_int_equal(best_of(&t), 2);
            assert_true(s.n_taken[2] <= t.policy.samples);
            if (t.policy.cut[0].samples > 0) /* the slow one costs less than the best */
                assert_true(s.n_taken[4] <= t.policy.cut[0].samples && s.n_taken[4] <= s.n_taken[2]);
        }
}

static void samples_go_forward_and_back(void **state)
{
    (void)state;
    static const double us[] = {10.0, 10.1, 10.2};
    script s;
    begin(&s, 3, us, 0.0, 1);
    md_tn_tournament t = make(MD_TN_FOR_BENCH, &s);
    t.policy.samples = 5;
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_string_equal(s.order, "ABCCBAABCCBAABC");
    for (int32_t i = 0; i < 3; i++) {
        const md_tn_summary r = md_tn_tournament_result(&t, i);
        assert_int_equal(r.n, 5);
        assert_float_equal(r.us, us[i], 1e-9);
        assert_float_equal(r.spread, 0.0, 1e-9);
        assert_int_equal(s.competitor[i].repeats, 64); /* 1000 us a sample, but 64 runs at most */
    }
}

/* All grow slower by 60% while it lasts: whoever is sampled last in a round must not lose by that. */
static void a_drifting_clock_meets_all_alike(void **state)
{
    (void)state;
    static const double us[] = {10.0, 10.0, 10.0, 9.7};
    for (size_t p = 0; p < sizeof every_purpose / sizeof *every_purpose; p++) {
        script s;
        begin(&s, 4, us, 0.0, 1);
        s.drift = 0.005;
        md_tn_tournament t = make(every_purpose[p], &s);
        t.policy.samples = 8;
        t.policy.tie = 0.0;
        memset(t.policy.cut, 0, sizeof t.policy.cut);
        assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
        assert_true(s.competitor[3].n % 2 == 0);
        const double a = md_tn_tournament_result(&t, 0).us, b = md_tn_tournament_result(&t, 1).us;
        assert_float_equal(a / b, 1.0, t.policy.judge_by == MD_TN_BY_MEDIAN ? 0.004 : 0.02);
        assert_int_equal(best_of(&t), 3);
    }
}

static void ties_end_early(void **state)
{
    (void)state;
    static const double equal[] = {10.0, 10.01, 10.02}, differing[] = {10.0, 10.0, 10.2};
    script s;
    for (size_t p = 1; p < 4; p++) {
        begin(&s, 3, equal, 0.0005, 1);
        md_tn_tournament t = make(every_purpose[p], &s);
        assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
        assert_int_equal(t.pass, 4);
        begin(&s, 3, differing, 0.0005, 1); /* 2% is no tie */
        t = make(every_purpose[p], &s);
        t.policy.cut[0].samples = 0;
        assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
        assert_int_equal(t.pass, t.policy.samples);
        begin(&s, 3, equal, 0.05, 1); /* noise is no knowledge */
        t = make(every_purpose[p], &s);
        t.policy.cut[0].samples = 0;
        assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
        assert_true(t.pass > 4);
    }
}

static void one_that_is_left_alone_ends_it(void **state)
{
    (void)state;
    static const double us[] = {10.0, 100.0};
    script s;
    begin(&s, 2, us, 0.01, 1);
    md_tn_tournament t = make(MD_TN_FOR_MEASURE, &s); /* 100 us is out after the look */
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_string_equal(s.order, "AA");
    assert_float_equal(md_tn_tournament_result(&t, 1).us, 100.0, 1.1); /* its look */
    assert_int_equal(md_tn_tournament_result(&t, 1).n, 0);
}

static void a_stuck_variant_ends_it(void **state)
{
    (void)state;
    static const double us[] = {10.0, 10.0, 11.0};
    script s;
    begin(&s, 3, us, 0.01, 1);
    s.hangs = 1;
    md_tn_tournament t = make(MD_TN_FOR_MEASURE, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_HANGS);
    assert_true(s.competitor[1].has_failed && md_tn_tournament_result(&t, 1).us == 0.0);
    assert_int_equal(s.n_looks[2], 0); /* nothing runs after it */
    assert_int_equal(strlen(s.order), 0);
}

static void what_fails_or_has_no_time_is_out(void **state)
{
    (void)state;
    static const double us[] = {10.0, 9.0, -1.0, 11.0}, nan_too[] = {10.0, NAN};
    script s;
    begin(&s, 4, us, 0.0, 1);
    s.fails = 1;
    md_tn_tournament t = make(MD_TN_FOR_TUNING, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_int_equal(best_of(&t), 0);
    for (int32_t i = 1; i <= 2; i++)
        assert_true(s.competitor[i].has_failed && !s.competitor[i].is_in && md_tn_tournament_result(&t, i).us == 0.0);
    begin(&s, 4, us, 0.0, 1); /* its good samples do not count */
    s.fails = 1;
    s.good_samples = 3;
    t = make(MD_TN_FOR_TUNING, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_int_equal(s.n_taken[1], 3);
    assert_true(s.competitor[1].has_failed && md_tn_tournament_result(&t, 1).us == 0.0);
    assert_int_equal(best_of(&t), 0);
    begin(&s, 2, nan_too, 0.0, 1);
    t = make(MD_TN_FOR_TUNING, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_true(s.competitor[1].has_failed && !s.competitor[0].has_failed);
    begin(&s, 0, us, 0.0, 1);
    t = make(MD_TN_FOR_BENCH, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
}

/* Interrupted anywhere it goes on there: the same samples in the same order. */
static void pauses_lose_nothing(void **state)
{
    (void)state;
    static const double us[] = {10.0, 10.4, 12.0, 10.2};
    script whole, s;
    begin(&whole, 4, us, 0.0, 1);
    md_tn_tournament t = make(MD_TN_FOR_BACKGROUND, &whole);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    for (int32_t every = 2; every < 9; every++) {
        int32_t n_pauses = 0;
        begin(&s, 4, us, 0.0, 1);
        s.pause_every = every;
        t = make(MD_TN_FOR_BACKGROUND, &s);
        while (md_tn_tournament_run(&t) == MD_TN_PAUSED)
            n_pauses++;
        assert_true(n_pauses > 0);
        assert_string_equal(s.order, whole.order);
    }
}

static void disturbed_samples_are_taken_again(void **state)
{
    (void)state;
    static const double us[] = {10.0, 10.5};
    script s;
    begin(&s, 2, us, 0.0, 1);
    s.disturbed_every = 3;
    md_tn_tournament t = make(MD_TN_FOR_BACKGROUND, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_true(s.n_disturbed > 2);
    for (int32_t i = 0; i < 2; i++)
        for (int32_t k = 0; k < s.competitor[i].n; k++)
            assert_float_equal(s.sample[i][k], us[i], 1e-9);
    assert_int_equal(s.n_taken[0], s.competitor[0].n);
}

static void budgets_end_looks_and_rounds(void **state)
{
    (void)state;
    static const double us[] = {10.0, 9.9, 9.8};
    script s;
    begin(&s, 3, us, 0.0, 1);
    s.looks_allowed = 2;
    s.stop_at_round = 1;
    md_tn_tournament t = make(MD_TN_FOR_MEASURE, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_string_equal(s.order, "ABBA");
    assert_true(md_tn_tournament_result(&t, 2).us == 0.0); /* not reached */
}

/* Groups: C is far behind A, but the best of its own group; D is kept however slow. */
static void groups_and_kept_ones_stay(void **state)
{
    (void)state;
    static const double us[] = {10.0, 40.0, 20.0, 50.0, 45.0};
    script s;
    begin(&s, 5, us, 0.01, 1);
    static const uint32_t groups[] = {1, 1, 2, 1, 3};
    for (int32_t i = 0; i < 5; i++)
        s.competitor[i].groups = groups[i];
    s.competitor[3].never_drops = true;
    md_tn_tournament t = make(MD_TN_FOR_BENCH, &s);
    t.policy.look_factor = 1.5;
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    static const bool is_in[] = {true, false, true, true, false};
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(s.competitor[i].is_in, is_in[i]);
}

/* The incumbent of a search competes with the samples it has; no more than fit are added. */
static void incumbents_bring_their_samples(void **state)
{
    (void)state;
    static const double us[] = {10.0, 9.0};
    script s;
    begin(&s, 2, us, 0.0, 1);
    md_tn_competitor *c = &s.competitor[0];
    c->look_us = 10.0;
    c->repeats = 5;
    for (c->n = 0; c->n < ROOM - 3; c->n++)
        c->sample[c->n] = 10.0;
    md_tn_tournament t = make(MD_TN_FOR_TUNING, &s);
    assert_int_equal(md_tn_tournament_run(&t), MD_TN_ENDED);
    assert_int_equal(s.n_looks[0], 0);
    assert_int_equal(c->n, ROOM);
    assert_int_equal(c->n_taken, 3);
    assert_int_equal(s.competitor[1].n, 8);
    assert_int_equal(best_of(&t), 1);
}

static void summaries(void **state)
{
    (void)state;
    static const double x[] = {5.0, 1.0, 3.0, 2.0, 4.0};
    md_tn_summary s = md_tn_summarize(x, 5, MD_TN_BY_MEDIAN);
    assert_float_equal(s.us, 3.0, 1e-12);
    assert_float_equal(s.spread, 1.0, 1e-12);
    assert_float_equal(s.error, 1.48 / sqrt(5.0), 1e-12);
    s = md_tn_summarize(x, 5, MD_TN_BY_LOW_MEDIAN);
    assert_int_equal(s.n, 3);
    assert_float_equal(s.us, 2.0, 1e-12);
    assert_float_equal(md_tn_summarize(x, 5, MD_TN_BY_LEAST).us, 1.0, 1e-12);
    assert_float_equal(md_tn_summarize(x, 4, MD_TN_BY_MEDIAN).us, 2.5, 1e-12);
    assert_true(md_tn_summarize(x, 0, MD_TN_BY_MEDIAN).us == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_wins),
        cmocka_unit_test(samples_go_forward_and_back),
        cmocka_unit_test(a_drifting_clock_meets_all_alike),
        cmocka_unit_test(ties_end_early),
        cmocka_unit_test(one_that_is_left_alone_ends_it),
        cmocka_unit_test(a_stuck_variant_ends_it),
        cmocka_unit_test(what_fails_or_has_no_time_is_out),
        cmocka_unit_test(pauses_lose_nothing),
        cmocka_unit_test(disturbed_samples_are_taken_again),
        cmocka_unit_test(budgets_end_looks_and_rounds),
        cmocka_unit_test(groups_and_kept_ones_stay),
        cmocka_unit_test(incumbents_bring_their_samples),
        cmocka_unit_test(summaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
