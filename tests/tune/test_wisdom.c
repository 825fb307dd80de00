/* Wisdom: kept between processes, better never gives way to less, text that is taken whole or not at all. */
#include "support/check.h"

#include "base/clock.h"
#include "base/status.h"
#include "store/folder.h"
#include "store/scratch.h"
#include "tune/wisdom/internal.h"
#include "tune/wisdom/shipped.h"
#include "tune/wisdom/wisdom.h"
#include "tune/wisdom/line.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A record of "row_looped" at a key: its variant and time say which one it is. */
static md_tn_record make(const char *key, md_tune rigor, bool is_complete, int32_t count, int which)
{
    md_tn_record r = {.us = rigor > MD_TUNE_OFF ? 1.5 * which : 0.0,
                      .spread = 0.25,
                      .count = count,
                      .rigor = rigor,
                      .is_complete = is_complete,
                      .source = {5, 6},
                      .date = 1700000000 + which};
    r.key = strdup(key);
    assert_non_null(r.key);
    snprintf(r.family, sizeof r.family, "row_looped");
    snprintf(r.variant, sizeof r.variant, "row_looped/lanes%d", which);
    for (int i = 0; i <= MD_TN_ENDLESS; i++) {
        md_tn_candidate c = {.verdict = (md_tn_verdict)i, .us = 10.0 + i, .spread = 0.5, .count = i};
        snprintf(c.name, sizeof c.name, "row_looped/vec%d", i);
        assert_ok(md_tn_record_add(&r, &c));
    }
    return r;
}

static md_tn_wisdom *open_wisdom(md_sr *store)
{
    md_tn_wisdom *w = NULL;
    assert_ok(md_tn_wisdom_create(&w));
    if (store)
        md_tn_wisdom_use_store(w, store, "device");
    return w;
}

static void put(md_tn_wisdom *w, const char *key, md_tune rigor, bool is_complete, int32_t count, int which)
{
    md_tn_record r = make(key, rigor, is_complete, count, which);
    assert_ok(md_tn_wisdom_put(w, &r));
    md_tn_record_finish(&r);
}

/* 0: not known at that rigor. */
static int which(md_tn_wisdom *w, const char *key, md_tune min_rigor)
{
    md_tn_record r = {0};
    int n = 0;
    if (md_tn_wisdom_find(&r, w, key, "row_looped", min_rigor) != MD_OK)
        return 0;
    assert_string_equal(r.key, key);
    assert_int_equal(sscanf(r.variant, "row_looped/lanes%d", &n), 1);
    md_tn_record_finish(&r);
    return n;
}

static void records_come_back_whole(void **state)
{
    scratch *s = *state;
    const char *key = "Y[i] = \"odd\" \\ X[i] | stage 0 of 1";
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(store);
    put(w, key, MD_TUNE_MEASURE, false, 30, 3);
    md_tn_wisdom_destroy(&w);
    w = open_wisdom(store);
    md_tn_record got = {0}, want = make(key, MD_TUNE_MEASURE, false, 30, 3);
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
    assert_int_equal(which(w, key, MD_TUNE_EXHAUSTIVE), 0);
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
        md_tn_wisdom *w = open_wisdom(store);
        int best = 0;
        snprintf(key, sizeof key, "key %d", i);
        for (int k = 0; k < 6; k++) {
            const int at = (int)(check_random(&seed) % (uint64_t)MD_COUNT(ladder));
            best = at + 1 > best ? at + 1 : best;
            put(w, key, ladder[at].rigor, ladder[at].is_complete, ladder[at].count, at + 1);
            assert_int_equal(which(w, key, MD_TUNE_ESTIMATE), best);
            if (check_random(&seed) % 3 == 0) { /* another process */
                md_tn_wisdom_destroy(&w);
                w = open_wisdom(store);
            }
        }
        md_tn_wisdom_destroy(&w);
        w = open_wisdom(store);
        assert_int_equal(which(w, key, MD_TUNE_ESTIMATE), best);
        md_tn_wisdom_destroy(&w);
        md_sr_close(&store);
    }
}

enum { CROWD = 12 };

static int put_some(void *user, int i)
{
    md_sr *store = scratch_open(user, "here");
    md_tn_wisdom *w = open_wisdom(store);
    for (int k = 0; k < 10; k++) {
        char key[20];
        snprintf(key, sizeof key, "key %d", k);
        /* every count once a key */
        put(w, key, MD_TUNE_MEASURE, true, 1 + (i * 7 + k) % CROWD, 1 + (i * 7 + k) % CROWD);
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
    md_tn_wisdom *w = open_wisdom(store);
    for (int k = 0; k < 10; k++) {
        char key[20];
        snprintf(key, sizeof key, "key %d", k);
        assert_int_equal(which(w, key, MD_TUNE_MEASURE), CROWD);
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
    md_tn_wisdom *w = open_wisdom(system_store);
    put(w, "system better", MD_TUNE_EXHAUSTIVE, true, 9, 1);
    put(w, "user better", MD_TUNE_ESTIMATE, true, 9, 1);
    put(w, "equal", MD_TUNE_MEASURE, true, 9, 1);
    put(w, "system only", MD_TUNE_MEASURE, true, 9, 1);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&system_store);
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .system_path = NULL, .environment = "here"}));
    w = open_wisdom(store);
    put(w, "system better", MD_TUNE_MEASURE, true, 9, 2);
    put(w, "user better", MD_TUNE_MEASURE, true, 9, 2);
    put(w, "equal", MD_TUNE_MEASURE, true, 3, 2);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .system_path = system_root, .environment = "here"}));
    w = open_wisdom(store);
    assert_int_equal(which(w, "system better", MD_TUNE_ESTIMATE), 1);
    assert_int_equal(which(w, "user better", MD_TUNE_ESTIMATE), 2);
    assert_int_equal(which(w, "equal", MD_TUNE_ESTIMATE), 2);
    assert_int_equal(which(w, "system only", MD_TUNE_ESTIMATE), 1);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static void quarantine_is_kept(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(store);
    const md_digest128 text = {1, 2}, other = {1, 3};
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/bad", text));
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/bad", text, "wrong"));
    md_tn_wisdom_destroy(&w);
    w = open_wisdom(store);
    assert_true(md_tn_wisdom_is_quarantined(w, "row_looped/bad", text));
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/bad", other)); /* corrected since */
    assert_false(md_tn_wisdom_is_quarantined(w, "row_looped/good", text));
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static void one_tunes(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *a = open_wisdom(store), *b = open_wisdom(store), *alone = open_wisdom(NULL);
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

/* ---- Text */

static void text_goes_round(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(store);
    md_strbuf text = {0}, again = {0};
    md_tn_merged m;
    put(w, "b", MD_TUNE_MEASURE, true, 9, 1);
    put(w, "a", MD_TUNE_EXHAUSTIVE, false, 9, 2);
    put(w, "c", MD_TUNE_ESTIMATE, true, 0, 3);
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/bad", (md_digest128){1, 2}, "wrong"));
    assert_ok(md_tn_wisdom_print(&text, w));
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    /* Lines are sorted, so that two exports can be compared. */
    const char *last = "";
    int n = 0;
    for (char *line = text.text; *line; line = strchr(line, '\n') + 1, n++) {
        assert_true(strncmp(last, line, 40) < 0);
        last = line;
    }
    assert_int_equal(n, 4);
    scratch_shell("rm -rf '%s'", s->root);
    store = scratch_open(s, "here");
    w = open_wisdom(store);
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_lines, 4);
    assert_int_equal(m.n_taken, 3);
    assert_int_equal(m.n_related + m.n_foreign + m.n_bad, 0);
    assert_true(md_tn_wisdom_is_quarantined(w, "row_looped/bad", (md_digest128){1, 2}));
    assert_ok(md_tn_wisdom_print(&again, w));
    assert_string_equal(md_strbuf_text(&again), text.text);
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size)); /* nothing new */
    md_strbuf_finish(&again);
    assert_ok(md_tn_wisdom_print(&again, w));
    assert_string_equal(md_strbuf_text(&again), text.text);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    md_strbuf_finish(&text);
    md_strbuf_finish(&again);
}

static void other_devices_and_drivers(void **state)
{
    scratch *s = *state;
    md_strbuf text = {0};
    md_tn_merged m;
    md_sr *theirs = scratch_open(s, "another driver"), *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(theirs);
    put(w, "a", MD_TUNE_EXHAUSTIVE, true, 9, 1);
    put(w, "b", MD_TUNE_MEASURE, true, 9, 1);
    assert_ok(md_tn_wisdom_print(&text, w));
    md_tn_wisdom_destroy(&w);
    w = open_wisdom(store);
    put(w, "b", MD_TUNE_MEASURE, true, 1, 2);
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_taken, 1);
    assert_int_equal(m.n_related, 1);
    assert_int_equal(which(w, "a", MD_TUNE_ESTIMATE), 1); /* a good guess here, but not measured */
    assert_int_equal(which(w, "a", MD_TUNE_MEASURE), 0);
    assert_int_equal(which(w, "b", MD_TUNE_ESTIMATE), 2);
    md_tn_wisdom_destroy(&w);
    assert_ok(md_tn_wisdom_create(&w));
    md_tn_wisdom_use_store(w, store, "another device");
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_foreign, 2);
    assert_int_equal(m.n_taken, 0);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&theirs);
    md_sr_close(&store);
    md_strbuf_finish(&text);
}

/* Files that come along: searched as text. They serve as a system's store does, and as estimates on another driver. */
static void shipped_files_are_found(void **state)
{
    scratch *s = *state;
    char path[13000], file[4400], key[40];
    md_strbuf text = {0};
    md_sr *theirs = scratch_open(s, "here"), *related = scratch_open(s, "another driver");
    md_tn_wisdom *w = open_wisdom(theirs);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "\"k\" %d", i);
        put(w, key, i % 2 ? MD_TUNE_MEASURE : MD_TUNE_EXHAUSTIVE, true, 9, 1 + i);
    }
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/bad", (md_digest128){1, 2}, "wrong"));
    assert_ok(md_tn_wisdom_print(&text, w));
    md_tn_wisdom_destroy(&w);
    scratch_shell("mkdir -m 700 '%s/shipped' '%s/more'", s->folder, s->folder);
    snprintf(file, sizeof file, "%s/shipped/a.jsonl", s->folder);
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    fprintf(f, "# made for tests\n%.*s", (int)text.size - 1, text.text); /* the last line without its end */
    fclose(f);
    scratch_shell("chmod 644 '%s'; echo 'no wisdom' > '%s/more/b.jsonl'; (tail -3 '%s'; head -3 '%s') > "
                  "'%s/more/c.jsonl'; echo x > '%s/more/other.txt'",
                  file, s->folder, file, file, s->folder, s->folder);
    snprintf(path, sizeof path, "%s/more::%s/absent:%s/shipped", s->folder, s->folder, s->folder);
    for (int is_related = 0; is_related < 2; is_related++) {
        scratch_shell("rm -rf '%s'/*/wisdom '%s'/*/quarantine", s->root, s->root);
        s->n_warnings = 0;
        w = open_wisdom(is_related ? related : theirs);
        assert_ok(md_tn_wisdom_use_texts(w, path, &s->log));
        assert_int_equal(s->n_warnings, 1); /* c.jsonl is not sorted */
        put(w, "\"k\" 0", MD_TUNE_MEASURE, true, 99, 50);
        put(w, "\"k\" 1", MD_TUNE_MEASURE, true, 99, 51);
        for (int i = 0; i < 42; i++) {
            snprintf(key, sizeof key, "\"k\" %d", i);
            const int mine = i == 1 ? 51 : i == 0 && is_related ? 50 : 0, want = mine ? mine : i < 40 ? 1 + i : 0;
            assert_int_equal(which(w, key, MD_TUNE_ESTIMATE), want);
            assert_int_equal(which(w, key, MD_TUNE_MEASURE), is_related && !mine ? 0 : want);
        }
        md_tn_wisdom_destroy(&w);
    }
    w = open_wisdom(NULL); /* without a store: of no known environment */
    assert_ok(md_tn_wisdom_use_texts(w, path, NULL));
    assert_int_equal(which(w, "\"k\" 3", MD_TUNE_ESTIMATE), 0);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&theirs);
    md_sr_close(&related);
    md_strbuf_finish(&text);
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
            md_tn_wisdom *w = open_wisdom(store);
            for (int k = reported + 1;; k++) {
                put(w, "key", MD_TUNE_MEASURE, true, k, k);
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
        md_tn_wisdom *w = open_wisdom(store);
        const int there = which(w, "key", MD_TUNE_MEASURE);
        assert_true(there == reported || there == reported + 1);
        const uint64_t start = md_clock_ns();
        reported += 2;
        put(w, "key", MD_TUNE_MEASURE, true, reported, reported);
        assert_true(md_clock_ns() - start < 1500000000u);
        assert_int_equal(which(w, "key", MD_TUNE_MEASURE), reported);
        assert_int_equal(w->count.unreadable + md_sr_count(store)->healed, 0);
        md_tn_wisdom_destroy(&w);
        md_sr_close(&store);
    }
    printf("%d results put\n", reported);
}

/* Each change makes a line bad; every bad line is named, and nothing of the rest is taken. */
static void half_a_file_is_none(void **state)
{
    scratch *s = *state;
    static const char *const changes[][2] = {
        {"{\"key\"", "{\"key"},
        {"\"count\":9", "\"count\":-9"},
        {"\"count\":9", "\"count\":9.5"},
        {"\"rigor\":\"measure\"", "\"rigor\":\"off\""},
        {"\"us\":1.5", "\"us\":\"1.5\""},
        {"\"us\":1.5", "\"us\":0"},
        {"\"us\":1.5", "\"us\":1e400"},
        {"row_looped/lanes1", "row_split/lanes1"},
        {"\"complete\":true", "\"complete\":1"},
        {"\"date\":\"20", "\"date\":\"x20"},
        {"\"verdict\":\"timed\"", "\"verdict\":\"fine\""},
        {"\"source\":\"00", "\"source\":\"0x"},
        {"\"environment\":\"", "\"environment\":\"f"},
        {"\"device\":\"unknown\"", "\"device\":\"\""},
        {"\"key\":\"a\"", "\"key\":7"},
        {"\"family\":\"row_looped\"", "\"family\":\"row_looped\",\"family\":\"row_looped\""},
        {"}\n", "}}\n"},
    };
    md_strbuf good = {0};
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(NULL);
    put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
    assert_ok(md_tn_wisdom_print(&good, w));
    md_tn_wisdom_destroy(&w);
    for (int i = 0; i < MD_COUNT(changes); i++) {
        md_strbuf file = {0}, problems = {0};
        md_tn_merged m;
        const char *at = strstr(md_strbuf_text(&good), changes[i][0]);
        if (i == MD_COUNT(changes) - 1)
            at = good.text + good.size - 2;
        if (!at)
            fail_msg("'%s' is not in %s", changes[i][0], md_strbuf_text(&good));
        md_strbuf_printf(&file, "# a comment\n\n%s", good.text);
        md_strbuf_bytes(&file, good.text, (size_t)(at - good.text));
        md_strbuf_printf(&file, "%s%s", changes[i][1], at + strlen(changes[i][0]));
        md_strbuf_printf(&file, "%snot JSON\n[]\n%s", good.text, good.text);
        w = open_wisdom(store);
        assert_fails(md_tn_wisdom_merge(&m, &problems, w, file.text, file.size), MD_CORRUPT, "nothing is taken");
        assert_int_equal(m.n_bad, 3);
        assert_int_equal(m.n_lines, 3);
        const char *text = md_strbuf_text(&problems);
        if (strncmp(text, "line 4: ", 8) || !strstr(text, "\nline 6: ") || !strstr(text, "\nline 7: "))
            fail_msg("change %d: %s", i, text);
        assert_int_equal(which(w, "a", MD_TUNE_ESTIMATE), 0);
        assert_int_equal(md_sr_count(store)->written, 0);
        md_tn_wisdom_destroy(&w);
        md_strbuf_finish(&file);
        md_strbuf_finish(&problems);
    }
    md_sr_close(&store);
    md_strbuf_finish(&good);
}

static void unreadable_records_are_counted(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(store);
    put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
    md_tn_wisdom_destroy(&w);
    assert_ok(md_sr_put(store, "wisdom", "a\nrow_looped", "{}", 2)); /* a good entry that says nothing */
    w = open_wisdom(store);
    assert_int_equal(which(w, "a", MD_TUNE_ESTIMATE), 0);
    assert_int_equal(w->count.unreadable, 1);
    assert_int_equal(w->count.missing, 1);
    put(w, "a", MD_TUNE_ESTIMATE, true, 9, 2);
    md_tn_wisdom_destroy(&w);
    w = open_wisdom(store);
    assert_int_equal(which(w, "a", MD_TUNE_ESTIMATE), 2);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

static const char *came_along; /* data/wisdom */

/* Every line of a file is a record that is found by its key, or a quarantine. Returns how many there are. */
static int check_lines(const md_tn_shipped *shipped, const char *path, const char *text, size_t n)
{
    int n_lines = 0;
    for (size_t at = 0; at < n; n_lines++) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        md_tn_line line;
        md_tn_record found = {0};
        if (length && text[at] == '{') {
            if (md_tn_line_read(&line, text + at, length) != MD_OK)
                fail_msg("%s, line %d: %s", path, n_lines + 1, md_last_error());
            if (!line.is_quarantine &&
                !md_tn_shipped_find(&found, shipped, &line.origin, line.record.key, line.record.family))
                fail_msg("%s, line %d is not found by its key", path, n_lines + 1);
            md_tn_record_finish(&found);
            md_tn_line_finish(&line);
        }
        at += length + 1;
    }
    return n_lines;
}

/* The files that are installed are what the library reads: sorted lines, each of them whole. */
static void what_comes_along_is_read(void **state)
{
    scratch *s = *state;
    md_tn_shipped *shipped = NULL;
    int folder = -1, n_files = 0;
    if (!came_along)
        skip(); /* run by hand */
    assert_ok(md_sr_folder_open(&folder, AT_FDCWD, came_along, MD_SR_SYSTEMS));
    assert_ok(md_tn_shipped_open(&shipped, came_along, &s->log));
    if (s->n_warnings)
        fail_msg("%s", s->message);
    DIR *files = fdopendir(folder);
    assert_non_null(files);
    for (struct dirent *e; (e = readdir(files));) {
        char *text = NULL;
        size_t n = 0;
        if (strlen(e->d_name) < 7 || strcmp(e->d_name + strlen(e->d_name) - 6, ".jsonl") != 0)
            continue;
        assert_ok(md_sr_file_read(&text, &n, dirfd(files), e->d_name, MD_SR_SYSTEMS, false));
        printf("%s: %d lines\n", e->d_name, check_lines(shipped, e->d_name, text, n));
        free(text);
        n_files++;
    }
    printf("%d files\n", n_files);
    closedir(files);
    md_tn_shipped_close(&shipped);
}

int main(int argc, char **argv)
{
    came_along = argc > 1 ? argv[1] : NULL;
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(records_come_back_whole),
        TEST(the_better_one_is_left),
        TEST(processes_do_not_put_back_less),
        TEST(user_and_system_agree_by_rigor),
        TEST(quarantine_is_kept),
        TEST(one_tunes),
        TEST(text_goes_round),
        TEST(other_devices_and_drivers),
        TEST(half_a_file_is_none),
        TEST(unreadable_records_are_counted),
        TEST(shipped_files_are_found),
        TEST(what_comes_along_is_read),
        TEST(killed_writers_hold_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
