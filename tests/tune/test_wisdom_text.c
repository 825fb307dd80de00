/* Wisdom as text: exported, merged as a whole or not at all, and found in files that come with the library. */
#include "support/golden.h"
#include "support/json_walk.h"
#include "tune/wisdom_make.h"

#include "base/clock.h"
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

static void text_goes_round(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    md_strbuf text = {0}, again = {0};
    md_tn_merged m, last_cut;
    wisdom_put(w, "b", MD_TUNE_MEASURE, true, 9, 1);
    wisdom_put(w, "a", MD_TUNE_EXHAUSTIVE, false, 9, 2);
    wisdom_put(w, "c", MD_TUNE_ESTIMATE, true, 0, 3);
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/lanes66", (md_digest128){1, 2}, "wrong"));
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
    w = wisdom_open(store);
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_lines, 4);
    assert_int_equal(m.n_taken, 3);
    md_tn_wisdom *other = wisdom_open(NULL);
    assert_ok(md_tn_wisdom_merge(&last_cut, NULL, other, text.text, text.size - 1)); /* the last line has no end */
    assert_int_equal(last_cut.n_lines, 4);
    assert_int_equal(last_cut.n_bad, 0);
    md_tn_wisdom_destroy(&other);
    assert_int_equal(m.n_related + m.n_foreign + m.n_bad, 0);
    assert_true(md_tn_wisdom_is_quarantined(w, "row_looped/lanes66", (md_digest128){1, 2}));
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

/* A line that was edited to name another device is that device's, even if its environment is ours. */
static void edited_devices(void **state)
{
    scratch *s = *state;
    md_strbuf text = {0};
    md_tn_merged m;
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(store);
    wisdom_put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
    assert_ok(md_tn_wisdom_print(&text, w));
    char *device = strstr(text.text, "\"device\":");
    assert_non_null(device);
    device = strchr(device + strlen("\"device\":"), '"') + 1;
    *device = *device == 'x' ? 'y' : 'x';
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_foreign, 1);
    assert_int_equal(m.n_taken + m.n_bad, 0);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
    md_strbuf_finish(&text);
}

static void other_devices_and_drivers(void **state)
{
    scratch *s = *state;
    md_strbuf text = {0};
    md_tn_merged m;
    md_sr *theirs = scratch_open(s, "another driver"), *store = scratch_open(s, "here");
    md_tn_wisdom *w = wisdom_open(theirs);
    wisdom_put(w, "a", MD_TUNE_EXHAUSTIVE, true, 9, 1);
    wisdom_put(w, "b", MD_TUNE_MEASURE, true, 9, 1);
    assert_ok(md_tn_wisdom_print(&text, w));
    md_tn_wisdom_destroy(&w);
    w = wisdom_open(store);
    wisdom_put(w, "b", MD_TUNE_MEASURE, true, 1, 2);
    assert_ok(md_tn_wisdom_merge(&m, NULL, w, text.text, text.size));
    assert_int_equal(m.n_taken, 1);
    assert_int_equal(m.n_related, 1);
    assert_int_equal(wisdom_which(w, "a", MD_TUNE_ESTIMATE), 1); /* a good guess here, but not measured */
    assert_int_equal(wisdom_which(w, "a", MD_TUNE_MEASURE), 0);
    assert_int_equal(wisdom_which(w, "b", MD_TUNE_ESTIMATE), 2);
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
    md_tn_wisdom *w = wisdom_open(theirs);
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "\"k\" %d", i);
        wisdom_put(w, key, i % 2 ? MD_TUNE_MEASURE : MD_TUNE_EXHAUSTIVE, true, 9, 1 + i);
    }
    assert_ok(md_tn_wisdom_quarantine(w, "row_looped/lanes66", (md_digest128){1, 2}, "wrong"));
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
        w = wisdom_open(is_related ? related : theirs);
        assert_ok(md_tn_wisdom_use_texts(w, path, &s->log));
        assert_int_equal(s->n_warnings, 1); /* c.jsonl is not sorted */
        wisdom_put(w, "\"k\" 0", MD_TUNE_MEASURE, true, 99, 50);
        wisdom_put(w, "\"k\" 1", MD_TUNE_MEASURE, true, 99, 51);
        for (int i = 0; i < 42; i++) {
            snprintf(key, sizeof key, "\"k\" %d", i);
            const int mine = i == 1 ? 51 : i == 0 && is_related ? 50 : 0, want = mine ? mine : i < 40 ? 1 + i : 0;
            assert_int_equal(wisdom_which(w, key, MD_TUNE_ESTIMATE), want);
            assert_int_equal(wisdom_which(w, key, MD_TUNE_MEASURE), is_related && !mine ? 0 : want);
        }
        md_tn_wisdom_destroy(&w);
    }
    w = wisdom_open(NULL); /* without a store: of no known environment */
    assert_ok(md_tn_wisdom_use_texts(w, path, NULL));
    assert_int_equal(wisdom_which(w, "\"k\" 3", MD_TUNE_ESTIMATE), 0);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&theirs);
    md_sr_close(&related);
    md_strbuf_finish(&text);
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
    md_tn_wisdom *w = wisdom_open(NULL);
    wisdom_put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
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
        w = wisdom_open(store);
        assert_fails(md_tn_wisdom_merge(&m, &problems, w, file.text, file.size), MD_CORRUPT, "nothing is taken");
        assert_int_equal(m.n_bad, 3);
        assert_int_equal(m.n_lines, 3);
        const char *text = md_strbuf_text(&problems);
        if (strncmp(text, "line 4: ", 8) || !strstr(text, "\nline 6: ") || !strstr(text, "\nline 7: "))
            fail_msg("change %d: %s", i, text);
        assert_int_equal(wisdom_which(w, "a", MD_TUNE_ESTIMATE), 0);
        assert_int_equal(md_sr_count(store)->written, 0);
        md_tn_wisdom_destroy(&w);
        md_strbuf_finish(&file);
        md_strbuf_finish(&problems);
    }
    md_sr_close(&store);
    md_strbuf_finish(&good);
}

/* A line of another version, whose family had other fields, is named as what it is. */
static void lines_of_other_versions(void **state)
{
    (void)state;
    md_strbuf text = {0}, changed = {0}, problems = {0};
    md_tn_merged m;
    md_tn_wisdom *w = wisdom_open(NULL);
    wisdom_put(w, "a", MD_TUNE_MEASURE, true, 9, 1);
    assert_ok(md_tn_wisdom_print(&text, w));
    const char *at = strstr(text.text, "row_looped/lanes");
    assert_non_null(at);
    md_strbuf_bytes(&changed, text.text, (size_t)(at - text.text));
    md_strbuf_printf(&changed, "row_looped/access1_lanes%s", at + strlen("row_looped/lanes"));
    assert_fails(md_tn_wisdom_merge(&m, &problems, w, changed.text, changed.size), MD_CORRUPT, "nothing is taken");
    assert_non_null(strstr(problems.text, "line 1: of another version of this library: it has no variant "
                                          "'row_looped/access1_lanes"));
    md_tn_wisdom_destroy(&w);
    md_strbuf_finish(&text);
    md_strbuf_finish(&changed);
    md_strbuf_finish(&problems);
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

/* ---- Lines that are wrong in one place */

static md_strbuf wrong_lines;

static void note_line(void *user, const char *path, const char *what)
{
    md_tn_line line;
    md_strbuf again = {0};
    char *text = json_dumps(user, JSON_COMPACT);
    const md_status s = md_tn_line_read(&line, text, strlen(text));
    if (s == MD_OK)
        md_tn_line_print(&again, &line);
    const bool is_same = s == MD_OK && strncmp(md_strbuf_text(&again), text, strlen(text)) == 0;
    md_strbuf_printf(&wrong_lines, "%s %s: %.*s\n", path, what,
                     s == MD_OK && !is_same ? (int)strcspn(md_strbuf_text(&again), "\n") : 300,
                     is_same      ? "taken as it is"
                     : s == MD_OK ? md_strbuf_text(&again)
                                  : md_last_error());
    md_strbuf_finish(&again);
    md_tn_line_finish(&line);
    free(text);
}

/* golden/lines.txt has what comes of each value of two lines in whose place another stands. */
static void lines_come_to_what_they_did(void **state)
{
    (void)state;
    md_tn_line lines[2] = {{.record = wisdom_make("key", MD_TUNE_MEASURE, true, 9, 3)},
                           {.is_quarantine = true, .why = "wrong", .record = {.source = {7, 8}, .variant = "a/b1"}}};
    for (int i = 0; i < 2; i++) {
        md_strbuf text = {0};
        lines[i].origin = (md_tn_origin){"device", {3, 4}};
        md_tn_line_print(&text, &lines[i]);
        json_t *root = json_loads(md_strbuf_text(&text), 0, NULL);
        assert_non_null(root);
        note_line(root, "", "as it is");
        json_walk(root, "", note_line, root);
        json_decref(root);
        md_strbuf_finish(&text);
        md_tn_line_finish(&lines[i]);
    }
    check_golden(MD_GOLDEN "/lines.txt", &wrong_lines);
    md_strbuf_finish(&wrong_lines);
}

int main(int argc, char **argv)
{
    came_along = argc > 1 ? argv[1] : NULL;
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(text_goes_round),          TEST(other_devices_and_drivers),
        TEST(edited_devices),           TEST(half_a_file_is_none),
        TEST(lines_of_other_versions),  TEST(shipped_files_are_found),
        TEST(what_comes_along_is_read), cmocka_unit_test(lines_come_to_what_they_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
