/* Damaged and foreign files of a store, and clocks that step: always a miss, never a wrong entry or a failure of the
 * caller. What may be wrong with folders and disks: test_store_folders.c. */
#include "support/check.h"

#include "base/file.h"
#include "base/status.h"
#include "store/entry.h"
#include "store/scratch.h"
#include "support/fault.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Files */

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(100000);
    assert_non_null(f);
    assert_non_null(bytes);
    *n = fread(bytes, 1, 100000, f);
    fclose(f);
    return bytes;
}

static void write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void bad_files_are_misses_and_healed(void **state)
{
    scratch *s = *state;
    uint64_t seed = check_seed();
    char path[4400];
    size_t n = 0;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "what is kept");
    scratch_path(path, s, "here", "note", "k");
    char *good = read_file(path, &n), bad[1000];
    assert_true(n < sizeof bad);
    for (size_t i = 0; i < n + 8 * n + 40; i++) {
        size_t size = n;
        memcpy(bad, good, n);
        if (i < n) {
            size = i; /* cut */
        } else if (i < n + 8 * n) {
            bad[(i - n) / 8] = (char)(bad[(i - n) / 8] ^ 1 << (i - n) % 8); /* every bit */
        } else {
            const size_t from = check_random(&seed) % n;
            for (size_t j = from; j < n && j < from + 1 + check_random(&seed) % 16; j++)
                bad[j] = (char)check_random(&seed);
            if (!memcmp(bad, good, n))
                continue;
        }
        const uint64_t healed = md_sr_count(store)->healed;
        write_file(path, bad, size);
        scratch_expect(store, "k", NULL);
        assert_int_equal(md_sr_count(store)->healed, healed + 1);
        assert_int_not_equal(access(path, F_OK), 0); /* taken away */
    }
    scratch_expect(store, "k", NULL); /* a plain miss now */
    scratch_put(store, "k", "again");
    scratch_expect(store, "k", "again");
    write_file(path, "", 0);
    scratch_put(store, "k", "over a bad one");
    scratch_expect(store, "k", "over a bad one");
    free(good);
    md_sr_close(&store);
    assert_int_equal(s->n_warnings, 0);
}

static void foreign_entries_are_misses(void **state)
{
    scratch *s = *state;
    char from[4400], to[4400];
    md_sr *theirs = scratch_open(s, "driver 1"), *mine = scratch_open(s, "driver 2");
    scratch_put(theirs, "k", "theirs");
    scratch_put(mine, "k", "mine");
    scratch_put(mine, "other", "other");
    scratch_path(from, s, "driver 1", "note", "k");
    scratch_path(to, s, "driver 2", "note", "k");
    scratch_shell("cp '%s' '%s'", from, to);
    scratch_expect(mine, "k", NULL);
    scratch_path(from, s, "driver 2", "note", "other");
    scratch_put(mine, "k", "mine");
    scratch_shell("cp '%s' '%s'", from, to); /* an entry under another's name */
    scratch_expect(mine, "k", NULL);
    assert_int_equal(md_sr_count(mine)->healed, 2);
    md_sr_close(&theirs);
    md_sr_close(&mine);
}

static void files_of_others_are_not_read(void **state)
{
    scratch *s = *state;
    char path[4400];
    md_sr *store = scratch_open(s, "here");
    scratch_path(path, s, "here", "note", "k");
    static const char *const harms[] = {"chmod 0606 '%s'",      "chmod 0660 '%s'",
                                        "chown 12345 '%s'",     "mv '%s' '%s.x'; ln -s '%s.x' '%s'",
                                        "rm '%s'; mkfifo '%s'", "rm '%s'; mkdir '%s'"};
    for (int i = 0; i < MD_COUNT(harms); i++) {
        if (i == 2 && geteuid() != 0)
            continue;
        scratch_put(store, "k", "secret code");
        char command[20000];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(command, sizeof command, harms[i], path, path, path, path);
#pragma GCC diagnostic pop
        scratch_shell("%s", command);
        scratch_expect(store, "k", NULL);
        scratch_shell("rm -rf '%s' '%s.x'", path, path);
    }
    md_sr_close(&store);
}

/* ---- Clocks */

static void times_of_files_do_not_matter(void **state)
{
    scratch *s = *state;
    char path[4400];
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    scratch_path(path, s, "here", "note", "k");
    static const char *const dates[] = {"1971-01-01", "2037-12-31", "now"};
    for (int i = 0; i < 3; i++) {
        scratch_shell("touch -d %s '%s'", dates[i], path);
        scratch_expect(store, "k", "x");
    }
    /* As if the clock had been put back since: an entry from the future counts as used now, and so stays. */
    struct stat facts;
    scratch_shell("touch -d 2037-12-31 '%s'", path);
    scratch_expect(store, "k", "x");
    assert_int_equal(stat(path, &facts), 0);
    assert_true(facts.st_mtime < time(NULL) + 100);
    md_sr_close(&store);
}

/* What a killed process left goes once it is old, by whatever clock: one that was ahead is put back. */
static void leftovers_go_whatever_clocks_say(void **state)
{
    scratch *s = *state;
    static const struct {
        const char *name, *date;
        bool goes;
    } row[] = {
        {"x-new", "now", false},         {"x-30", "30 minutes ago", false}, {"x-90", "90 minutes ago", true},
        {"x-far", "1971-01-01", true},   {"x-soon", "30 minutes", false},   {"x-ahead", "2 hours", true},
        {"x-later", "2037-01-01", true}, {"aside-1", "now", true},
    };
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    md_sr_close(&store);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        scratch_shell("cd '%s'/*/.fresh && echo left > %s && chmod 600 %s && touch -d '%s' %s", s->root, row[i].name,
                      row[i].name, row[i].date, row[i].name);
    store = scratch_open(s, "here");
    scratch_put(store, "another", "x"); /* who writes clears first */
    scratch_expect(store, "k", "x");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        scratch_shell("test %s -e '%s'/*/.fresh/%s", row[i].goes ? "!" : "", s->root, row[i].name);
    md_sr_close(&store);
}

/* Writes an entry that a killed process had put aside. */
static void put_aside(scratch *s, const char *name, const char *key, const char *payload)
{
    char path[4400], environment[33], hex[33];
    void *bytes = NULL;
    size_t n = 0;
    const md_digest128 here = md_hash128("here", 4);
    md_digest_text(environment, here);
    md_digest_text(hex, md_hash128(key, strlen(key)));
    assert_ok(md_sr_entry_pack(&bytes, &n, here, key, payload, strlen(payload)));
    scratch_shell("mkdir -p -m 700 '%s/%s/note/%.2s'", s->root, environment, hex);
    snprintf(path, sizeof path, "%s/%s/.fresh/aside-%s", s->root, environment, name);
    assert_ok(md_file_write(path, bytes, n));
    free(bytes);
}

/* What was put aside gets its name back if it is an entry; where its key ends, the name of its kind ends. */
static void entries_that_were_aside_come_back(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    md_sr_close(&store);
    put_aside(s, "1", "note back", "b");
    put_aside(s, "2", "not", "e and more"); /* no kind: the blank is the payload's */
    put_aside(s, "3", "note k", "older"); /* its name has a file again */
    store = scratch_open(s, "here");
    scratch_put(store, "another", "x"); /* who writes clears first */
    scratch_expect(store, "back", "b");
    scratch_expect(store, "k", "x");
    md_sr_close(&store);
    scratch_shell("cd '%s'/* && test $(find note -type f | wc -l) = 3 && test -z \"$(ls .fresh)\"", s->root);
}

static bool takes(md_sr *store, const char *key)
{
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, store, key, 1000));
    const bool has = lease != NULL;
    md_sr_lease_release(&lease);
    return has;
}

static void write_lease(scratch *s, const char *key, const char *text, const char *date)
{
    char hex[33], environment[33];
    md_digest_text(hex, md_hash128(key, strlen(key)));
    md_digest_text(environment, md_hash128("here", 4));
    scratch_shell("cd '%s/%s' && mkdir -p -m 700 lease && rm -f lease/%s && printf '%%s\\n' \"%s\" > lease/%s && chmod "
                  "600 lease/%s && touch -d '%s' lease/%s",
                  s->root, environment, hex, text, hex, hex, date, hex);
}

/* Clocks that step, machines that reboot, owners on other machines: a lease ends in time, and not before. */
static void leases_end_whatever_clocks_say(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    const char *boot = "$(cat /proc/sys/kernel/random/boot_id)", *here = "$(hostname)";
    char text[300];
    static const struct {
        bool is_boot, is_machine;
        const char *pid, *start, *until, *limit, *date;
        bool is_free;
    } cases[] = {
        /* This boot: the owner's life and the time since the boot count, dates do not. */
        {true, true, "1", "$(awk '{print $22}' /proc/1/stat)", "999999999999", "60000", "now", false},
        {true, true, "1", "$(awk '{print $22}' /proc/1/stat)", "999999999999", "60000", "1971-01-01", false},
        {true, true, "1", "$(awk '{print $22}' /proc/1/stat)", "999999999999", "60000", "2037-01-01", false},
        {true, true, "1", "$(awk '{print $22}' /proc/1/stat)", "1", "60000", "2037-01-01", true},
        {true, true, "1", "123456789", "999999999999", "60000", "now", true}, /* the number has another owner now */
        {true, true, "4194305", "1", "999999999999", "60000", "now", true},
        /* Before a reboot of this machine. */
        {false, true, "1", "1", "999999999999", "60000", "now", true},
        /* Elsewhere: the file server's clock, either way. */
        {false, false, "1", "1", "1", "60000", "now", false},
        {false, false, "1", "1", "1", "60000", "1 hour ago", true},
        {false, false, "1", "1", "1", "60000", "1 hour", true},
        {false, false, "1", "1", "1", "7200000", "1 hour ago", false},
    };
    for (int i = 0; i < MD_COUNT(cases); i++) {
        snprintf(text, sizeof text, "lease 1 %s %s %s %s %s %s 0123456789abcdef", cases[i].is_boot ? boot : "another",
                 cases[i].is_machine ? here : "elsewhere", cases[i].pid, cases[i].start, cases[i].until,
                 cases[i].limit);
        write_lease(s, "a", text, cases[i].date);
        if (takes(store, "a") != cases[i].is_free)
            fail_msg("case %d: %s", i, text);
    }
    write_lease(s, "a", "garbage", "now");
    assert_true(takes(store, "a"));
    write_lease(s, "a", "", "now");
    assert_true(takes(store, "a"));
    md_sr_close(&store);
}

/* ---- Allocations that fail: all from one on, or one alone */

static md_status count_entries(void *user, const char *key, const void *payload, size_t n)
{
    (void)key, (void)payload, (void)n;
    ++*(int *)user;
    return MD_OK;
}

static void all_or_nothing(md_status s, const char *what, int64_t failing)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("%s, allocation %lld: %s: %s", what, (long long)failing, md_status_name(s), md_last_error());
}

/* True if the entry "new" was put. */
static bool use_store(scratch *s, int64_t failing)
{
    void *bytes = NULL;
    size_t n = 0;
    int n_entries = 0;
    md_sr *store = NULL;
    md_sr_lease *lease = NULL;
    const md_status opened =
        md_sr_open(&store, &(md_sr_options){.root = s->root, .environment = "here", .log = &s->log});
    all_or_nothing(opened, "md_sr_open", failing);
    if (opened != MD_OK)
        return false;
    const md_status put = md_sr_put(store, "note", "new", "once more", 9),
                    found = md_sr_find(&bytes, &n, store, "note", "k");
    all_or_nothing(put, "md_sr_put", failing);
    all_or_nothing(found, "md_sr_find", failing);
    assert_true(found != MD_OK || !strcmp(bytes, "what is kept"));
    free(found == MD_OK ? bytes : NULL);
    all_or_nothing(md_sr_lease_take(&lease, store, "k", 1000), "md_sr_lease_take", failing);
    md_sr_lease_release(&lease);
    all_or_nothing(md_sr_each(store, 0, "note", count_entries, &n_entries), "md_sr_each", failing);
    md_sr_discard(store, "note", "gone");
    md_sr_close(&store);
    return put == MD_OK;
}

/* Else all others would wait until its time is over. */
static void a_lease_is_given_back_without_memory(void **state)
{
    md_sr *store = scratch_open(*state, "here");
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, store, "a", 60000));
    assert_non_null(lease);
    fault_after(1);
    md_sr_lease_release(&lease);
    fault_after(0);
    assert_ok(md_sr_lease_take(&lease, store, "a", 60000));
    assert_non_null(lease);
    md_sr_lease_release(&lease);
    md_sr_close(&store);
}

static void allocations_that_fail(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "what is kept");
    md_sr_close(&store);
    for (int is_once = 0; is_once < 2; is_once++) {
        bool again = true;
        for (int64_t n = 1; again; n++) {
            const int64_t living = fault_living();
            assert_true(n < 1000);
            if (is_once)
                fault_once(n);
            else
                fault_after(n);
            const bool was_put = use_store(s, n);
            again = fault_happened();
            fault_after(0);
            store = scratch_open(s, "here");
            scratch_expect(store, "k", "what is kept"); /* nothing that was kept is lost */
            if (was_put)
                scratch_expect(store, "new", "once more");
            assert_int_equal(md_sr_count(store)->healed, 0);
            md_sr_discard(store, "note", "new");
            md_sr_close(&store);
            assert_int_equal(fault_living(), living);
        }
    }
}

/* ---- Memory of any content */

static void any_bytes_are_read_safely(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int i = 0; i < 20000; i++) {
        void *bytes = NULL;
        size_t n = 0;
        md_sr_entry e;
        const md_digest128 environment = {1, 2};
        assert_ok(md_sr_entry_pack(&bytes, &n, environment, "kind key", "payload", 7));
        assert_null(md_sr_entry_read(&e, bytes, n, &environment, "kind key"));
        assert_int_equal(e.n_payload, 7);
        unsigned char *b = bytes;
        size_t left = check_random(&seed) % (n + 1);
        b[check_random(&seed) % n] ^= (unsigned char)(1 + check_random(&seed) % 255);
        if (left == n || i % 2)
            assert_non_null(md_sr_entry_read(&e, bytes, n, &environment, "kind key"));
        assert_non_null(md_sr_entry_read(&e, bytes, left < n ? left : n - 1, NULL, NULL));
        free(bytes);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(bad_files_are_misses_and_healed),
        TEST(foreign_entries_are_misses),
        TEST(files_of_others_are_not_read),
        TEST(times_of_files_do_not_matter),
        TEST(leases_end_whatever_clocks_say),
        TEST(any_bytes_are_read_safely),
        TEST(leftovers_go_whatever_clocks_say),
        TEST(entries_that_were_aside_come_back),
        TEST(allocations_that_fail),
        TEST(a_lease_is_given_back_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
