/* Entries, places, leases, lists and limits of a store. */
#include "support/check.h"

#include "base/status.h"
#include "store/folder.h"
#include "store/scratch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void entries_come_back(void **state)
{
    scratch *s = *state;
    uint64_t seed = check_seed();
    md_sr *store = scratch_open(s, "here");
    scratch_expect(store, "a", NULL);
    scratch_put(store, "a", "first");
    scratch_expect(store, "a", "first");
    scratch_put(store, "a", "second, longer");
    scratch_put(store, "a and more\nlines", "");
    scratch_expect(store, "a", "second, longer");
    scratch_expect(store, "a and more\nlines", "");
    unsigned char bytes[70000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)check_random(&seed);
    assert_ok(md_sr_put(store, "blob", "large", bytes, sizeof bytes));
    md_sr_close(&store);
    assert_null(store);

    store = scratch_open(s, "here"); /* as another process would */
    void *got = NULL;
    size_t n = 0;
    assert_ok(md_sr_find(&got, &n, store, "blob", "large"));
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(got, bytes, n);
    assert_int_equal(((char *)got)[n], 0);
    free(got);
    assert_fails(md_sr_find(&got, &n, store, "note", "large"), MD_NOT_FOUND, "large"); /* a kind is part of the key */
    assert_int_equal(md_sr_count(store)->hits, 1);
    assert_int_equal(md_sr_count(store)->misses, 1);
    assert_int_equal(md_sr_count(store)->written, 0);
    md_sr_discard(store, "note", "a");
    scratch_expect(store, "a", NULL);
    md_sr_close(&store);
    assert_int_equal(s->n_warnings, 0);
}

static void nothing_is_written_before_something_is_kept(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_expect(store, "a", NULL);
    assert_int_not_equal(access(s->root, F_OK), 0);
    /* Another process makes the folder: this one sees it. */
    md_sr *other = scratch_open(s, "here");
    scratch_put(other, "a", "theirs");
    scratch_expect(store, "a", "theirs");
    md_sr_close(&other);
    md_sr_close(&store);
    struct stat facts;
    assert_int_equal(stat(s->root, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
}

static void no_store_is_a_store(void **state)
{
    scratch *s = *state;
    md_sr *store = NULL;
    void *got = NULL;
    size_t n = 0;
    md_sr_lease *lease = NULL;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(md_sr_find(&got, &n, store, "note", "a"), MD_NOT_FOUND);
        assert_fails(md_sr_put(store, "note", "a", "x", 1), MD_IO, "no folder");
        md_sr_discard(store, "note", "a");
        assert_string_equal(md_sr_root(store), "");
        assert_false(md_sr_is_writable(store));
        assert_ok(md_sr_each(store, 0, "note", NULL, NULL));
        assert_ok(md_sr_lease_take(&lease, store, "a", 1000));
        assert_non_null(lease); /* nobody to share with */
        md_sr_lease_release(&lease);
        if (i == 0)
            assert_ok(md_sr_open(&store, &(md_sr_options){.root = "", .log = &s->log}));
    }
    md_sr_close(&store);
    md_sr_close(&store);
    assert_int_equal(s->n_warnings, 0);
}

static void environments_are_apart(void **state)
{
    scratch *s = *state;
    md_sr *a = scratch_open(s, "driver 1"), *b = scratch_open(s, "driver 2");
    scratch_put(a, "k", "one");
    scratch_expect(b, "k", NULL);
    scratch_put(b, "k", "two");
    scratch_expect(a, "k", "one");
    assert_true(md_sr_environment(a).lo != md_sr_environment(b).lo);
    md_sr_close(&a);
    md_sr_close(&b);
}

static void the_user_comes_before_the_system(void **state)
{
    scratch *s = *state;
    char path[13000];
    const char *const names[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        md_sr *system_store = NULL;
        snprintf(path, sizeof path, "%s/%s", s->folder, names[i]);
        assert_ok(md_sr_open(&system_store, &(md_sr_options){.root = path, .environment = "here"}));
        scratch_put(system_store, "both", names[i]);
        scratch_put(system_store, names[i], names[i]);
        md_sr_close(&system_store);
    }
    snprintf(path, sizeof path, "%s/absent::%s/first/:%s/second", s->folder, s->folder, s->folder);
    md_sr *store = NULL;
    assert_ok(md_sr_open(
        &store, &(md_sr_options){.root = s->root, .system_path = path, .environment = "here", .log = &s->log}));
    scratch_expect(store, "both", "first");
    scratch_expect(store, "second", "second");
    scratch_put(store, "both", "mine");
    scratch_expect(store, "both", "mine");
    assert_int_equal(md_sr_n_places(store), 4);
    const char *const at[] = {"mine", NULL, "first", "second"};
    for (int i = 0; i < 5; i++) {
        void *got = NULL;
        size_t n = 0;
        const char *want = i < 4 ? at[i] : NULL;
        assert_int_equal(md_sr_find_at(&got, &n, store, i, "note", "both"), want ? MD_OK : MD_NOT_FOUND);
        if (want)
            assert_string_equal(got, want);
        free(got);
    }
    md_sr_close(&store);
    /* Without a user's folder the system's are found, at the same places. */
    assert_ok(md_sr_open(&store, &(md_sr_options){.system_path = path, .environment = "here", .log = &s->log}));
    void *got = NULL;
    size_t n = 0;
    assert_int_equal(md_sr_find_at(&got, &n, store, 0, "note", "both"), MD_NOT_FOUND);
    assert_ok(md_sr_find_at(&got, &n, store, 2, "note", "both"));
    assert_string_equal(got, "first");
    free(got);
    md_sr_close(&store);
    assert_int_equal(s->n_warnings, 0);
}

/* More folders than a store takes: the last one that it takes serves, those behind it do not. */
static void the_last_place_serves(void **state)
{
    enum { PLACES = 16 };
    scratch *s = *state;
    char path[PLACES * 4200] = "";
    size_t used = 0;
    md_sr *store = NULL;
    for (int i = 1; i <= PLACES; i++) {
        char root[4200], key[8];
        md_sr *system_store = NULL;
        snprintf(root, sizeof root, "%s/%d", s->folder, i);
        snprintf(key, sizeof key, "%d", i);
        used += (size_t)snprintf(path + used, sizeof path - used, "%s%s", used ? ":" : "", root);
        assert_ok(md_sr_open(&system_store, &(md_sr_options){.root = root, .environment = "here"}));
        scratch_put(system_store, key, key);
        md_sr_close(&system_store);
    }
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    assert_ok(md_sr_open(
        &store, &(md_sr_options){.root = s->root, .system_path = path, .environment = "here", .log = &s->log}));
    assert_int_equal(md_sr_n_places(store), PLACES);
    scratch_expect(store, "1", "1");
    scratch_expect(store, "15", "15");
    scratch_expect(store, "16", NULL);
    md_sr_close(&store);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* nothing behind the last place was closed */
}

static md_status gather(void *user, const char *key, const void *payload, size_t n)
{
    char *text = user;
    sprintf(text + strlen(text), "%s=%.*s;", key, (int)n, (const char *)payload);
    return strstr(key, "stop") ? md_fail(MD_UNSUPPORTED, "stopped") : MD_OK;
}

static void each_visits_a_kind(void **state)
{
    scratch *s = *state;
    char text[1000] = "";
    md_sr *store = scratch_open(s, "here"), *other = scratch_open(s, "there");
    scratch_put(store, "a", "1");
    scratch_put(store, "b c", "2");
    scratch_put(other, "d", "3");
    assert_ok(md_sr_put(store, "blob", "e", "4", 1));
    assert_ok(md_sr_each(store, 0, "note", gather, text));
    assert_true(!strcmp(text, "a=1;b c=2;") || !strcmp(text, "b c=2;a=1;"));
    scratch_put(other, "stop", "5");
    assert_fails(md_sr_each(other, 0, "note", gather, text), MD_UNSUPPORTED, "stopped");
    md_sr_close(&store);
    md_sr_close(&other);
}

/* ---- Leases */

static bool has_lease(md_sr *store, const char *key, int64_t limit_ms)
{
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, store, key, limit_ms));
    const bool has = lease != NULL;
    md_sr_lease_release(&lease);
    return has;
}

static void one_has_a_lease(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here"), *other = scratch_open(s, "here");
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, store, "a", 60000));
    assert_non_null(lease);
    assert_false(has_lease(other, "a", 1000));
    assert_true(has_lease(other, "b", 1000));
    md_sr_lease_release(&lease);
    assert_null(lease);
    assert_true(has_lease(other, "a", 1000));
    /* One whose time is over, though its owner lives. */
    assert_ok(md_sr_lease_take(&lease, store, "a", 30));
    usleep(40000);
    md_sr_lease *next = NULL;
    assert_ok(md_sr_lease_take(&next, other, "a", 60000));
    assert_non_null(next);
    md_sr_lease_release(&lease); /* must not end the other's */
    assert_false(has_lease(store, "a", 1000));
    md_sr_lease_release(&next);
    md_sr_close(&store);
    md_sr_close(&other);
}

static void a_dead_owner_has_none(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    const pid_t child = fork();
    if (child == 0) {
        md_sr_lease *lease = NULL;
        (void)md_sr_lease_take(&lease, store, "a", 3600000);
        raise(SIGKILL);
    }
    siginfo_t end = {0};
    assert_int_equal(waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT), 0);
    assert_int_equal(end.si_code, CLD_KILLED);
    assert_true(has_lease(store, "a", 1000)); /* while the kernel still knows its number; nobody waits an hour */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(has_lease(store, "a", 1000));
    md_sr_close(&store);
}

/* ---- Lists, limits */

typedef struct seen {
    int n, n_bad;
    char keys[2000];
} seen;

static md_status look(void *user, const md_sr_file *f)
{
    seen *x = user;
    x->n++;
    x->n_bad += f->problem != NULL;
    sprintf(x->keys + strlen(x->keys), "%s:%s:%s;", f->about, f->kind, f->key);
    return MD_OK;
}

static void walks_see_all_environments(void **state)
{
    scratch *s = *state;
    char path[4400];
    seen x = {0};
    assert_fails(md_sr_walk(s->root, false, look, &x), MD_NOT_FOUND, "store");
    md_sr *a = scratch_open(s, "device a\nmore"), *b = scratch_open(s, "device b");
    scratch_put(a, "one", "1");
    scratch_put(b, "two", "2");
    assert_ok(md_sr_walk(s->root, false, look, &x));
    assert_int_equal(x.n, 2);
    assert_non_null(strstr(x.keys, "device a:note:one;"));
    assert_non_null(strstr(x.keys, "device b:note:two;"));
    scratch_path(path, s, "device b", "note", "two");
    scratch_shell("printf x >> '%s'", path);
    x = (seen){0};
    assert_ok(md_sr_walk(s->root, true, look, &x));
    assert_int_equal(x.n_bad, 1);
    x = (seen){0};
    assert_ok(md_sr_walk(s->root, false, look, &x));
    assert_int_equal(x.n, 1);
    scratch_expect(a, "one", "1");
    md_sr_close(&a);
    md_sr_close(&b);
}

static void the_longest_unused_go_first(void **state)
{
    scratch *s = *state;
    char path[4400], key[20];
    md_sr *store = scratch_open(s, "here");
    char payload[1000] = {0};
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_ok(md_sr_put(store, i < 8 ? "note" : i < 9 ? "wisdom" : "measured", key, payload, sizeof payload));
        scratch_path(path, s, "here", i < 8 ? "note" : i < 9 ? "wisdom" : "measured", key);
        scratch_shell("touch -d '%d days ago' '%s'", 20 - (i * 7) % 10, path); /* 0, 3, 6, 9, 2, 5, 8, 1, ... */
    }
    void *got = NULL;
    size_t n = 0;
    assert_ok(md_sr_find(&got, &n, store, "note", "0")); /* the oldest of all, but used now */
    free(got);
    md_sr_gc_result r;
    assert_ok(md_sr_gc(&r, s->root, 5500));
    assert_int_equal(r.n_entries, 10);
    assert_int_equal(r.n_removed, 5);
    assert_true(r.n_bytes - r.n_removed_bytes <= 5500);
    /* Used 0 now and the rest by age: 3, 6, 9(measured), 2, 5, 8(wisdom), 1, 4, 7. */
    const bool stays[10] = {true, false, false, false, true, false, false, true, true, true};
    int n_stay = 0;
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "%d", i);
        const bool is_there = md_sr_find(&got, &n, store, i < 8 ? "note" : i < 9 ? "wisdom" : "measured", key) == MD_OK;
        n_stay += is_there;
        if (i == 0 || i >= 8)
            assert_true(is_there == stays[i]);
        if (is_there)
            free(got);
    }
    assert_int_equal(n_stay, 5);
    md_sr_close(&store);
    /* A store that wrote keeps itself small. */
    assert_ok(md_sr_open(&store, &(md_sr_options){.root = s->root, .environment = "here", .limit_bytes = 2500}));
    scratch_put(store, "new", "x");
    md_sr_close(&store);
    assert_ok(md_sr_gc(&r, s->root, 0));
    assert_true(r.n_bytes <= 2500 && r.n_entries >= 2);
}

/* Who comes second is told that it is there, and leaves nothing behind. */
static void a_file_is_added_once(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    const int at = open(s->root, O_RDONLY | O_DIRECTORY);
    assert_true(at >= 0);
    for (int i = 0; i < 3; i++) {
        char text[8] = "";
        bool is_new = i > 0;
        assert_ok(md_sr_file_add(&is_new, at, "some/where", i ? "other" : "first", 5));
        assert_int_equal(is_new, i == 0);
        const int fd = openat(at, "some/where", O_RDONLY);
        assert_int_equal(read(fd, text, sizeof text), 5);
        close(fd);
        assert_string_equal(text, "first");
    }
    close(at);
    scratch_shell("test $(find '%s' -path '*where*' -o -name '.*' -type f | wc -l) = 1", s->root);
    md_sr_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(entries_come_back),
        TEST(nothing_is_written_before_something_is_kept),
        TEST(no_store_is_a_store),
        TEST(environments_are_apart),
        TEST(the_user_comes_before_the_system),
        TEST(the_last_place_serves),
        TEST(each_visits_a_kind),
        TEST(one_has_a_lease),
        TEST(a_dead_owner_has_none),
        TEST(walks_see_all_environments),
        TEST(the_longest_unused_go_first),
        TEST(a_file_is_added_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
