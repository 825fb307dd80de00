/* Wisdom in memory and in stores: kept between processes, and a better record never gives way to a lesser one. */
#include "tune/wisdom_make.h"

#include "base/status.h"
#include "store/folder.h"
#include "store/scratch.h"
#include "tune/wisdom/internal.h"
#include "tune/wisdom/line.h"
#include "tune/wisdom/shipped.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void records_come_back_whole(void **state)
{
    scratch *s = *state;
    const char *key = "Y[i] = \"odd\" \\ X[i] | stage 0 of 1";
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    wisdom_put(w, key, MD_TUNE_MEASURE, false, 30, 3);
    md_tn_wisdom_destroy(&w);
    w = wisdom_open(store);
    md_tn_record got = {0}, want = wisdom_make(key, MD_TUNE_MEASURE, false, 30, 3);
    assert_ok(md_tn_wisdom_find(&got, w, key, "row_looped", MD_TUNE_ESTIMATE));
    assert_string_equal(got.key, want.key);
    assert_string_equal(got.variant, want.variant);
    assert_string_equal(got.family, want.family);
    assert_true(got.us == want.us && got.spread == want.spread && got.count == want.count && got.rigor == want.rigor);
    assert_true(got.is_complete == want.is_complete && got.date == want.date && got.source.lo == 5 &&
                got.source.hi == 6);
    assert_int_equal(got.n_candidates, want.n_candidates);
    for (int i = 0; i < got.n_candidates; i++) {
        assert_string_equal(got.candidate[i].name, want.candidate[i].name);
        assert_true(got.candidate[i].us == want.candidate[i].us &&
                    got.candidate[i].verdict == want.candidate[i].verdict);
        assert_true(got.candidate[i].spread == want.candidate[i].spread &&
                    got.candidate[i].count == want.candidate[i].count);
    }
    md_tn_record_finish(&got);
    md_tn_record_finish(&want);
    assert_fails(md_tn_wisdom_find(&got, w, key, "row_split", MD_TUNE_ESTIMATE), MD_NOT_FOUND, "row_split");
    assert_int_equal(wisdom_which(w, key, MD_TUNE_EXHAUSTIVE), 0);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

/* In any order, in one process or several, the same one is left. */
static void the_better_one_is_left(void **state)
{
    scratch *s = *state;
    static const struct {
        md_tune rigor;
        bool is_complete;
        int32_t count;
    } ladder[] = {{MD_TUNE_ESTIMATE, true, 0}, {MD_TUNE_ESTIMATE, true, 9},    {MD_TUNE_MEASURE, false, 4},
                  {MD_TUNE_MEASURE, false, 9}, {MD_TUNE_MEASURE, true, 2},     {MD_TUNE_MEASURE, true, 30},
                  {MD_TUNE_MEASURE, true, 30}, {MD_TUNE_EXHAUSTIVE, false, 1}, {MD_TUNE_EXHAUSTIVE, true, 1}};
    uint64_t seed = check_seed();
    for (int i = 0; i < 60; i++) {
        char key[20];
        md_sr *store = scratch_open(s, "here");
        md_tn_wisdom *w = wisdom_open(store);
        int best = 0;
        snprintf(key, sizeof key, "key %d", i);
        for (int k = 0; k < 6; k++) {
            const int at = (int)(check_random(&seed) % (uint64_t)MD_COUNT(ladder));
            best = at + 1 > best ? at + 1 : best;
            wisdom_put(w, key, ladder[at].rigor, ladder[at].is_complete, ladder[at].count, at + 1);
            assert_int_equal(wisdom_which(w, key, MD_TUNE_ESTIMATE), best);
            if (check_random(&seed) % 3 == 0) { /* another process */
                md_tn_wisdom_destroy(&w);
                w = wisdom_open(store);
            }
        }
        md_tn_wisdom_destroy(&w);
        w = wisdom_open(store);
        assert_int_equal(wisdom_which(w, key, MD_TUNE_ESTIMATE), best);
        md_tn_wisdom_destroy(&w);
        md_sr_close(&store);
    }
}

enum { CROWD = 12 };

static int put_some(void *user, int i)
{
    md_sr *store = scratch_open(user, "here");
    md_tn_wisdom *w = wisdom_open(store);
    for (int k = 0; k < 10; k++) {
        char key[20];
        snprintf(key, sizeof key, "key %d", k);
        /* every count once a key */
        wisdom_put(w, key, MD_TUNE_MEASURE, true, 1 + (i * 7 + k) % CROWD, 1 + (i * 7 + k) % CROWD);
    }
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    return 0;
}

static void processes_do_not_put_back_less(void **state)
{
    scratch *s = *state;
    scratch_crowd(CROWD, put_some, s);
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    for (int k = 0; k < 10; k++) {
        char key[20];
        snprintf(key, sizeof key, "key %d", k);
        assert_int_equal(wisdom_which(w, key, MD_TUNE_MEASURE), CROWD);
    }
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static void user_and_system_agree_by_rigor(void **state)
{
    scratch *s = *state;
    char system_root[4300];
    snprintf(system_root, sizeof system_root, "%s/system", s->folder);
    md_sr *system_store = NULL, *store = NULL;
    assert_ok(md_sr_open(&system_store, &(md_sr_options){.root = system_root, .environment = "here"}));
    md_tn_wisdom *w = wisdom_open(system_store);
    wisdom_put(w, "system better", MD_TUNE_EXHAUSTIVE, true, 9, 1);
    wisdom_put(w, "user better", MD_TUNE_ESTIMATE, true, 9, 1);
    wisdom_put(w, "equal", MD_TUNE_MEASURE, true, 9, 1);
    wisdom_put(w, "system only", MD_TUNE_MEASURE, true, 9, 1);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&system_store);
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .system_path = NULL, .environment = "here"}));
    w = wisdom_open(store);
    wisdom_put(w, "system better", MD_TUNE_MEASURE, true, 9, 2);
    wisdom_put(w, "user better", MD_TUNE_MEASURE, true, 9, 2);
    wisdom_put(w, "equal", MD_TUNE_MEASURE, true, 3, 2);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .system_path = system_root, .environment = "here"}));
    w = wisdom_open(store);
    assert_int_equal(wisdom_which(w, "system better", MD_TUNE_ESTIMATE), 1);
    assert_int_equal(wisdom_which(w, "user better", MD_TUNE_ESTIMATE), 2);
    assert_int_equal(wisdom_which(w, "equal", MD_TUNE_ESTIMATE), 2);
    assert_int_equal(wisdom_which(w, "system only", MD_TUNE_ESTIMATE), 1);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static void quarantine_is_kept(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    const md_digest128 text = {1, 2}, other = {1, 3};
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/lanes66", text));
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/lanes66", text, "wrong"));
    md_tn_wisdom_destroy(&w);
    w = wisdom_open(store);
    assert_true(md_tn_wisdom_is_quarantined(w, "row_looped/lanes66", text));
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/lanes66", other)); /* corrected since */
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/lanes67", text));
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static void one_tunes(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *a = wisdom_open(store), *b = wisdom_open(store), *alone = wisdom_open(NULL);
    int mine = 5, theirs = 5;
    assert_true(md_tn_wisdom_lease(&mine, a, "key"));
    assert_true(mine >= 0);
    assert_false(md_tn_wisdom_lease(&theirs, b, "key"));
    md_tn_wisdom_unlease(a, mine);
    assert_true(md_tn_wisdom_lease(&theirs, b, "key"));
    md_tn_wisdom_destroy(&b); /* gives it back */
    assert_true(md_tn_wisdom_lease(&mine, a, "key"));
    md_tn_wisdom_unlease(a, mine);
    assert_true(md_tn_wisdom_lease(&mine, alone, "key"));
    assert_int_equal(mine, -1);
    md_tn_wisdom_destroy(&a);
    md_tn_wisdom_destroy(&alone);
    md_sr_close(&store);
}

/* Killed while it puts: what was reported is there or better, and nobody waits for the dead. */
static void killed_writers_hold_nobody_up(void **state)
{
    scratch *s = *state;
    uint64_t seed = check_seed();
    int reported = 0;
    for (int i = 0; i < 40; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            md_sr *store = scratch_open(s, "here");
            md_tn_wisdom *w = wisdom_open(store);
            for (int k = reported + 1;; k++) {
                wisdom_put(w, "key", MD_TUNE_MEASURE, true, k, k);
                if (write(ends[1], &k, sizeof k) != (ssize_t)sizeof k)
                    _exit(1);
            }
        }
        usleep((useconds_t)(check_random(&seed) % 40000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(ends[1]);
        for (int k; read(ends[0], &k, sizeof k) == (ssize_t)sizeof k;)
            reported = k;
        close(ends[0]);
        md_sr *store = scratch_open(s, "here");
        md_tn_wisdom *w = wisdom_open(store);
        const int there = wisdom_which(w, "key", MD_TUNE_MEASURE);
        assert_true(there == reported || there == reported + 1);
        reported += 2;
        wisdom_put(w, "key", MD_TUNE_MEASURE, true, reported, reported); /* waits for no lock of the dead */
        assert_int_equal(wisdom_which(w, "key", MD_TUNE_MEASURE), reported);
        assert_int_equal(w->count.unreadable + md_sr_count(store)->healed, 0);
        md_tn_wisdom_destroy(&w);
        md_sr_close(&store);
    }
    printf("%d results put\n", reported);
}

static void unreadable_records_are_counted(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    wisdom_put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
    md_tn_wisdom_destroy(&w);
    assert_ok(md_sr_put(store, "wisdom", "a\nrow_looped", "{}", 2)); /* a good entry that says nothing */
    w = wisdom_open(store);
    assert_int_equal(wisdom_which(w, "a", MD_TUNE_ESTIMATE), 0);
    assert_int_equal(w->count.unreadable, 1);
    assert_int_equal(w->count.missing, 1);
    wisdom_put(w, "a", MD_TUNE_ESTIMATE, true, 9, 2);
    md_tn_wisdom_destroy(&w);
    w = wisdom_open(store);
    assert_int_equal(wisdom_which(w, "a", MD_TUNE_ESTIMATE), 2);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(records_come_back_whole),
        TEST(the_better_one_is_left),
        TEST(processes_do_not_put_back_less),
        TEST(user_and_system_agree_by_rigor),
        TEST(quarantine_is_kept),
        TEST(one_tunes),
        TEST(unreadable_records_are_counted),
        TEST(killed_writers_hold_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
