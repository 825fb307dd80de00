/* Measured picks and times in lists, as text, and in stores that several processes share. */
#include "base/status.h"
#include "device/open.h"
#include "store/scratch.h"
#include "support/check.h"
#include "tune/bench/bench.h"
#include "tune/stored/stored.h"
#include "tune/wisdom/wisdom.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY "Y[n] = X[n] | bounds report"

static md_tn_stored *open_at(scratch *s, const char *root, const char *system, const char *environment)
{
    md_tn_stored *stored = NULL;
    assert_ok(md_tn_stored_open(
        &stored,
        &(md_tn_stored_options){.root = root, .system_path = system, .environment = environment, .log = &s->log}));
    return stored;
}

static md_tn_stored_pick pick_of(const md_tn_stored *stored, uint64_t shape, const char *variant, int64_t date)
{
    md_tn_stored_pick p;
    memset(&p, 0, sizeof p);
    p.shape = (md_digest128){shape, ~shape};
    p.us = 12.5;
    p.at = (md_tn_conditions){.environment = md_tn_stored_environment(stored), .mhz = 1980, .date = date};
    snprintf(p.variant, sizeof p.variant, "%s", variant);
    return p;
}

static md_tn_stored_time time_of(const md_tn_stored *stored, int64_t size, const char *variant, int64_t date)
{
    md_tn_stored_time t;
    memset(&t, 0, sizeof t);
    t.stage = 1;
    t.clock = MD_TN_CLOCK_MEASURE;
    t.n_sizes = 2;
    t.size[0] = size;
    t.size[1] = 7;
    t.us = 0.1 * (double)size;
    t.at = (md_tn_conditions){.environment = md_tn_stored_environment(stored), .is_throttled = 1, .date = date};
    snprintf(t.variant, sizeof t.variant, "%s", variant);
    return t;
}

static void save_pick(md_tn_stored *stored, uint64_t shape, const char *variant, int64_t date)
{
    md_tn_stored_list list = {0};
    md_tn_stored_pick p = pick_of(stored, shape, variant, date);
    md_tn_stored_add_pick(&list, &p);
    assert_ok(md_tn_stored_save(stored, KEY, &list));
    md_tn_stored_list_finish(&list);
}

static const md_tn_stored_pick *find(const md_tn_stored_list *list, uint64_t shape)
{
    for (int32_t i = 0; i < list->n_picks; i++)
        if (list->pick[i].shape.lo == shape)
            return &list->pick[i];
    return NULL;
}

static void what_is_saved_comes_back(void **state)
{
    scratch *s = *state;
    md_tn_stored *stored = open_at(s, s->root, NULL, "here");
    md_tn_stored_list list = {0}, got;
    const md_tn_stored_pick pick = pick_of(stored, 5, "row_looped/lanes32_vec4", 77);
    const md_tn_stored_time time = time_of(stored, 300, "row_split/v1", 78);
    md_tn_stored_add_pick(&list, &pick);
    md_tn_stored_swap swap;
    memset(&swap, 0, sizeof swap);
    swap.of = pick_of(stored, 6, "row_looped/v4", 79);
    swap.op = 3;
    memcpy(swap.to, "row_looped/v1", sizeof "row_looped/v1");
    md_tn_stored_add_time(&list, &time);
    md_tn_stored_add_swap(&list, &swap);
    assert_ok(md_tn_stored_save(stored, KEY, &list));
    md_tn_stored_close(&stored);
    assert_null(stored);
    stored = open_at(s, s->root, NULL, "there");
    assert_true(md_tn_stored_environment(stored) != pick.at.environment);
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 1);
    assert_int_equal(got.n_times, 1);
    assert_memory_equal(&got.pick[0], &pick, sizeof pick);
    assert_int_equal(got.n_swaps, 1);
    assert_memory_equal(&got.time[0], &time, sizeof time);
    assert_memory_equal(&got.swap[0], &swap, sizeof swap);
    assert_int_equal(s->n_warnings, 0); /* no line was dropped */
    md_tn_stored_list_finish(&got);
    md_tn_stored_load(&got, stored, "another op");
    assert_int_equal(got.n_picks + got.n_times, 0);
    md_tn_stored_close(&stored);
    md_tn_stored_list_finish(&list);
}

/* A time is a fact in its environment, of clocks that were not throttled and differ by at most a tenth, if both are
 * known. */
static void facts_are_of_the_same_clock(void **state)
{
    scratch *s = *state;
    md_tn_stored *stored = open_at(s, s->root, NULL, "here");
    static const struct {
        int32_t mhz, now; /* now: negative where the device is throttled; 0: not known */
        bool is_throttled, is_elsewhere, is_fact;
    } row[] = {{1980, 1980, false, false, true},  {0, 1980, false, false, true},     {1980, 0, false, false, true},
               {0, 0, false, false, true},        {1800, 2000, false, false, true},  {2000, 1800, false, false, true},
               {1799, 2000, false, false, false}, {2000, 1799, false, false, false}, {1980, 1980, true, false, false},
               {1980, 1980, false, true, false},  {1980, -1980, false, false, true}, {1980, -900, false, false, false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_dev dev = {.mhz = row[i].now};
        const md_tn_conditions at = {.environment = md_tn_stored_environment(stored) + row[i].is_elsewhere,
                                     .mhz = row[i].mhz,
                                     .is_throttled = row[i].is_throttled};
        if (md_tn_is_fact(&at, stored, &dev) != row[i].is_fact)
            fail_msg("row %zu", i);
        const md_tn_conditions now = md_tn_conditions_now(stored, &dev);
        assert_int_equal(now.mhz, abs(row[i].now));
        assert_int_equal(now.is_throttled, row[i].now < 0);
        assert_true(now.date > 0 && now.environment == md_tn_stored_environment(stored));
    }
    md_tn_stored_close(&stored);
}

static void the_newest_is_left(void **state)
{
    scratch *s = *state;
    md_tn_stored_list got;
    md_tn_stored *stored = open_at(s, s->root, NULL, "here"), *other = open_at(s, s->root, NULL, "there");
    save_pick(stored, 1, "b", 20);
    save_pick(stored, 1, "a", 10); /* late, and older */
    save_pick(other, 1, "c", 5); /* of another environment, which is another fact */
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 2);
    for (int32_t i = 0; i < 2; i++)
        assert_string_equal(got.pick[i].variant,
                            got.pick[i].at.environment == md_tn_stored_environment(stored) ? "b" : "c");
    md_tn_stored_list_finish(&got);
    md_tn_stored_close(&stored);
    md_tn_stored_close(&other);
}

/* Of a combo's winners the newest is left for each kernel that gives way, in each op. */
static void swaps_are_replaced(void **state)
{
    static const struct {
        int op;
        const char *from, *to;
        int64_t date;
    } rows[] = {{0, "a", "b", 10}, {0, "a", "a", 30}, {0, "a", "c", 20}, {1, "a", "b", 10}, {0, "b", "c", 10}};
    scratch *s = *state;
    md_tn_stored *stored = open_at(s, "", NULL, "here");
    md_tn_stored_list list = {0};
    for (int i = 0; i < MD_COUNT(rows); i++) {
        md_tn_stored_swap swap;
        memset(&swap, 0, sizeof swap);
        swap.of = pick_of(stored, 6, rows[i].from, rows[i].date);
        swap.op = rows[i].op;
        memcpy(swap.to, rows[i].to, 2);
        md_tn_stored_add_swap(&list, &swap);
    }
    md_tn_stored_merge(&list);
    assert_int_equal(list.n_swaps, 3);
    for (int32_t i = 0; i < list.n_swaps; i++)
        if (list.swap[i].op == 0 && list.swap[i].of.variant[0] == 'a')
            assert_string_equal(list.swap[i].to, "a");
    md_tn_stored_list_finish(&list);
    md_tn_stored_close(&stored);
}

static void lists_have_limits(void **state)
{
    scratch *s = *state;
    md_tn_stored *stored = open_at(s, "", NULL, "here");
    md_tn_stored_list list = {0};
    for (int i = 0; i < MD_TN_STORED_PICKS + 10; i++) {
        const md_tn_stored_pick p = pick_of(stored, (uint64_t)i, "v", 100 + i);
        md_tn_stored_add_pick(&list, &p);
    }
    for (int i = 0; i < MD_TN_STORED_TIMES + 10; i++) {
        const md_tn_stored_time t = time_of(stored, 1 + i, "v", 100 + i);
        md_tn_stored_add_time(&list, &t);
    }
    md_tn_stored_merge(&list);
    assert_int_equal(list.n_picks, MD_TN_STORED_PICKS);
    assert_int_equal(list.n_times, MD_TN_STORED_TIMES);
    assert_null(find(&list, 9)); /* the oldest */
    assert_non_null(find(&list, 10));
    md_tn_stored_list_finish(&list);
    assert_false(md_tn_stored_is_writable(stored));
    md_tn_stored_close(&stored);
}

/* Any bytes may stand in a store. */
static void bad_lines_are_named_and_left_out(void **state)
{
    (void)state;
    static const char good[] = "pick 0000000000000001 0 00000000000000020000000000000003 1.5 0 0 9 v";
    static const char *const bad[] = {
        "",
        "pick",
        "pick 0000000000000001 0 00000000000000020000000000000003 1.5 0 0 9",
        "pick 0000000000000001 0 00000000000000020000000000000003 1.5 0 0 9 v w",
        "pick 0000000000000001 0 00000000000000020000000000000003 -1.5 0 0 9 v",
        "pick 0000000000000001 0 00000000000000020000000000000003 nan 0 0 9 v",
        "pick 0000000000000001 99 00000000000000020000000000000003 1.5 0 0 9 v",
        "pick 000000000000000g 0 00000000000000020000000000000003 1.5 0 0 9 v",
        "pick 0000000000000001 0 0000000000000002 1.5 0 0 9 v",
        "time 0000000000000001 0 1 1.5 0 0 9 2 5 v",
        "time 0000000000000001 0 9 1.5 0 0 9 1 5 v",
        "time 0000000000000001 0 1 1.5 0 0 9 99 5 v",
        "swap 0000000000000001 0 00000000000000020000000000000003 1.5 0 0 9 v",
        "swap 0000000000000001 0 00000000000000020000000000000003 1.5 0 0 9 v -1 w",
        "else 0000000000000001 0 1 1.5 0 0 9 1 5 v",
    };
    for (int i = 0; i < MD_COUNT(bad); i++) {
        char text[400], problem[200];
        md_tn_stored_list list = {0};
        const int n = snprintf(text, sizeof text, "measured 1\n%s\n%s\n%s", good, bad[i], i % 2 ? "" : "x");
        assert_int_equal(md_tn_stored_read(&list, problem, text, (size_t)n), i % 2 ? 1 : 2);
        assert_int_equal(list.n_picks, 1);
        assert_int_equal(list.n_times + list.n_swaps, 0);
        assert_non_null(strstr(problem, "line 3 is no pick"));
        md_tn_stored_list_finish(&list);
        assert_int_equal(md_tn_stored_read(&list, problem, text, 5), -1);
        assert_non_null(strstr(problem, "measured 1"));
        md_tn_stored_list_finish(&list);
    }
}

static void corrupt_entries_are_named_and_dropped(void **state)
{
    scratch *s = *state;
    md_tn_stored_list got;
    md_tn_stored *stored = open_at(s, s->root, NULL, "here");
    save_pick(stored, 1, "a", 10);
    /* an entry that another program wrote: whole, but no list */
    const char *about = "picks and times that were measured while programs ran, of all environments\n";
    md_sr *store = scratch_open(s, about);
    assert_ok(md_sr_put(store, "measured", KEY, "nonsense", 8));
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 0);
    assert_non_null(strstr(s->message, "Y[n] = X[n]"));
    assert_non_null(strstr(s->message, "dropped"));
    void *p = NULL;
    size_t n = 0;
    assert_int_equal(md_sr_find_at(&p, &n, store, 0, "measured", KEY), MD_NOT_FOUND);
    /* a line that nobody can read goes with the next save, and the others stay */
    char text[300];
    snprintf(text, sizeof text, "measured 1\nnonsense\npick %016llx 0 00000000000000020000000000000007 1.5 0 0 9 v\n",
             (unsigned long long)md_tn_stored_environment(stored));
    assert_ok(md_sr_put(store, "measured", KEY, text, strlen(text)));
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 1);
    assert_non_null(strstr(s->message, "line 2"));
    md_tn_stored_list_finish(&got);
    save_pick(stored, 1, "a", 10);
    assert_ok(md_sr_find_at(&p, &n, store, 0, "measured", KEY));
    assert_null(strstr(p, "nonsense"));
    assert_non_null(strstr(p, "0000000000000007"));
    free(p);
    /* bytes that changed on disk: no entry at all */
    scratch_shell("for f in $(find '%s' -path '*/measured/*' -type f); do printf x | dd of=$f bs=1 seek=90 "
                  "conv=notrunc 2>/dev/null; done",
                  s->root);
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 0);
    md_sr_close(&store);
    md_tn_stored_close(&stored);
}

static void what_cannot_be_written_is_still_read(void **state)
{
    scratch *s = *state;
    md_tn_stored_list got, none = {0};
    md_tn_stored *stored = open_at(s, s->root, NULL, "here");
    save_pick(stored, 1, "a", 10);
    md_tn_stored_close(&stored);
    stored = open_at(s, "/proc/no/such", s->root, "here"); /* an administrator's store, and no place to write */
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, 1);
    md_tn_stored_list_finish(&got);
    assert_true(md_tn_stored_save(stored, KEY, &none) != MD_OK);
    assert_false(md_tn_stored_is_writable(stored));
    md_tn_stored_close(&stored);
}

/* ---- Processes */

enum { CROWD = 8, EACH = 6, SHORT_LIVED = 60 };

static int save_some(void *user, int i)
{
    md_tn_stored *stored = open_at(user, ((scratch *)user)->root, NULL, "here");
    for (int j = 0; j < EACH; j++)
        save_pick(stored, (uint64_t)(100 * i + j), "v", 10);
    md_tn_stored_close(&stored);
    return 0;
}

static int save_one(void *user, int i)
{
    md_tn_stored *stored = open_at(user, ((scratch *)user)->root, NULL, "here");
    save_pick(stored, (uint64_t)i, "v", 10);
    md_tn_stored_close(&stored);
    return 0;
}

static void check_crowd(scratch *s, int n, int (*save)(void *user, int i), int n_picks)
{
    md_tn_stored_list got;
    scratch_crowd(n, save, s);
    md_tn_stored *stored = open_at(s, s->root, NULL, "here");
    md_tn_stored_load(&got, stored, KEY);
    assert_int_equal(got.n_picks, n_picks);
    md_tn_stored_list_finish(&got);
    md_tn_stored_close(&stored);
}

static void processes_lose_nothing_of_each_other(void **state)
{
    check_crowd(*state, CROWD, save_some, CROWD * EACH);
}

/* Owners of the lease end while others ask whether they have. */
static void short_lived_processes_lose_nothing(void **state)
{
    check_crowd(*state, SHORT_LIVED, save_one, SHORT_LIVED);
}

/* A process that is killed while it writes leaves what was there, or more. */
static void a_crash_loses_nothing_that_was_saved(void **state)
{
    scratch *s = *state;
    md_tn_stored_list got;
    for (int i = 0; i < 10; i++) {
        int saved[2], n = 0, one = 0;
        assert_int_equal(pipe(saved), 0);
        const pid_t child = fork();
        if (child == 0) {
            md_tn_stored *stored = open_at(s, s->root, NULL, "here");
            for (int j = 0;; j++) {
                save_pick(stored, (uint64_t)(1000 * i + j), "v", 10);
                if (write(saved[1], &j, sizeof j) != (ssize_t)sizeof j)
                    _exit(1);
            }
        }
        close(saved[1]);
        for (int j = 0; j <= i % 3; j++)
            n += read(saved[0], &one, sizeof one) == (ssize_t)sizeof one;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(saved[0]);
        assert_int_equal(n, i % 3 + 1);
        md_tn_stored *stored = open_at(s, s->root, NULL, "here");
        md_tn_stored_load(&got, stored, KEY);
        for (int j = 0; j < n; j++)
            assert_non_null(find(&got, (uint64_t)(1000 * i + j)));
        md_tn_stored_list_finish(&got);
        md_tn_stored_close(&stored);
    }
}

/* Chips of an architecture, each once, in the order in which they came; the user's before the system's. */
static void chips_are_noted_once(void **state)
{
    scratch *s = *state;
    char chip[8][MD_TN_CHIP_NAME], others[4300];
    snprintf(others, sizeof others, "%s/others", s->folder);
    md_tn_stored *stored = open_at(s, others, NULL, "here");
    assert_ok(md_tn_stored_note_chip(stored, "sm_90", "C"));
    md_tn_stored_close(&stored);
    stored = open_at(s, s->root, others, "here");
    assert_int_equal(md_tn_stored_chips(chip, 8, stored, "sm_80"), 0);
    const char *const name[] = {"AB", "A", "B", "A", "AB", "BA"};
    for (size_t i = 0; i < MD_COUNT(name); i++)
        assert_ok(md_tn_stored_note_chip(stored, "sm_90", name[i]));
    const char *const expected[] = {"AB", "A", "B", "BA", "C"};
    for (int32_t most = 0; most < 8; most++) {
        const int32_t n = md_tn_stored_chips(chip, most, stored, "sm_90");
        assert_int_equal(n, MD_MIN(most, 5));
        for (int32_t i = 0; i < n; i++)
            assert_string_equal(chip[i], expected[i]);
    }
    assert_int_equal(md_tn_stored_chips(chip, 8, stored, "sm_80"), 0);
    assert_int_equal(md_tn_stored_chips(chip, 8, NULL, "sm_90"), 0);
    assert_ok(md_tn_stored_note_chip(stored, "sm_70",
                                     "0123456789012345678901234567890123456789012345678901234567890123456789"));
    assert_int_equal(md_tn_stored_chips(chip, 8, stored, "sm_70"), 1);
    assert_int_equal(strlen(chip[0]), MD_TN_CHIP_NAME - 1);
    assert_memory_equal(chip[0], "0123456789012345678901234567890123456789012345678901234567890123456789", 63);
    md_tn_stored_close(&stored);
}

/* Whether a kernel's text is the one that was measured: known from the store, or made once and put there. */
static void texts_are_told_apart(void **state)
{
    scratch *s = *state;
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    md_dev_facts facts;
    md_tn_wisdom *wisdom = NULL, *alone = NULL;
    md_tn_record record = {0};
    char name[MD_FA_NAME];
    const md_fa_family *family = NULL;
    md_fa_config config;
    assert_ok(md_dev_cuda_assume(&facts, 90));
    assert_ok(md_fx_formula_create(&formula, "Y[n] = 2 * X[n]", &(md_fx_options){.dtype = MD_F32}));
    assert_ok(md_st_program_create(&program, formula));
    const md_fa_target target = {program, 0, &facts};
    assert_ok(md_fa_parse_for(&family, &config, &target, "pointwise"));
    md_fa_name(name, family, &config);
    snprintf(record.variant, sizeof record.variant, "%s", name);
    assert_ok(md_bd_digest_of(&record.source, &target, family, &config));
    assert_true(record.source.lo != 0);
    md_sr *store = scratch_open(s, "here");
    assert_ok(md_tn_wisdom_create(&wisdom));
    assert_ok(md_tn_wisdom_create(&alone));
    md_tn_wisdom_use_store(wisdom, store, "device");
    const md_digest128 right = record.source;
    for (int i = 0; i < 3; i++) { /* made, found in the store, made without a store */
        md_tn_wisdom *w = i < 2 ? wisdom : alone;
        record.source = right;
        assert_true(md_tn_has_text_of(w, &target, &record));
        record.source.lo ^= 1;
        assert_false(md_tn_has_text_of(w, &target, &record));
        record.source = right;
        record.source.hi ^= 1;
        assert_false(md_tn_has_text_of(w, &target, &record));
    }
    record.source = right;
    snprintf(record.variant, sizeof record.variant, "no_such_family");
    assert_false(md_tn_has_text_of(wisdom, &target, &record));
    assert_false(md_tn_has_text_of(alone, &target, &record));
    md_tn_wisdom_destroy(&wisdom);
    md_tn_wisdom_destroy(&alone);
    md_sr_close(&store);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_saved_comes_back),
        TEST(facts_are_of_the_same_clock),
        TEST(the_newest_is_left),
        TEST(swaps_are_replaced),
        TEST(lists_have_limits),
        TEST(bad_lines_are_named_and_left_out),
        TEST(corrupt_entries_are_named_and_dropped),
        TEST(what_cannot_be_written_is_still_read),
        TEST(processes_lose_nothing_of_each_other),
        TEST(short_lived_processes_lose_nothing),
        TEST(a_crash_loses_nothing_that_was_saved),
        TEST(chips_are_noted_once),
        TEST(texts_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
