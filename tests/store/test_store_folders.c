/* Store folders that are foreign, read-only or gone, and full disks: one warning, never a failure of the caller. */
#include "support/check.h"

#include "base/status.h"
#include "store/scratch.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_refused(scratch *s, const char *why)
{
    s->n_warnings = 0;
    md_sr *store = scratch_open(s, "here");
    assert_int_equal(s->n_warnings, 1);
    if (!strstr(s->message, why))
        fail_msg("'%s' does not say '%s'", s->message, why);
    scratch_expect(store, "k", NULL);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(md_sr_put(store, "note", "k", "x", 1), MD_OK);
    assert_int_equal(md_sr_count(store)->write_failures, 3);
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, store, "k", 1000));
    assert_non_null(lease);
    md_sr_lease_release(&lease);
    assert_int_equal(s->n_warnings, 1); /* said once */
    md_sr_close(&store);
}

static void folders_that_others_could_write_are_refused(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    md_sr_close(&store);
    scratch_shell("chmod 0770 '%s'", s->root);
    expect_refused(s, "others may write");
    scratch_shell("chmod 0707 '%s'", s->root);
    expect_refused(s, "others may write");
    scratch_shell("chmod 0700 '%s'; chmod 0777 '%s'/*", s->root, s->root);
    expect_refused(s, "others may write"); /* the environment's */
    scratch_shell("chmod 0700 '%s'/*; mv '%s' '%s.real'; ln -s '%s.real' '%s'", s->root, s->root, s->root, s->root,
                  s->root);
    expect_refused(s, "symbolic link");
    char slashed[4300], *root = s->root;
    snprintf(slashed, sizeof slashed, "%s///", root);
    md_sr *linked = NULL;
    s->n_warnings = 0;
    assert_ok(md_sr_open(&linked, &(md_sr_options){.root = slashed, .environment = "here", .log = &s->log}));
    scratch_expect(linked, "k", NULL); /* a slash behind the name does not hide the link */
    assert_int_equal(s->n_warnings, 1);
    md_sr_close(&linked);
    scratch_shell("rm '%s'; touch '%s'", s->root, s->root);
    expect_refused(s, "no folder");
    scratch_shell("rm '%s'; mv '%s.real' '%s'", s->root, s->root, s->root);
    if (geteuid() == 0) {
        scratch_shell("chown 12345 '%s'", s->root);
        expect_refused(s, "another user");
        scratch_shell("chown 0 '%s'", s->root);
    }
    s->n_warnings = 0;
    store = scratch_open(s, "here");
    scratch_expect(store, "k", "x");
    md_sr_close(&store);
    assert_int_equal(s->n_warnings, 0);
}

/* Runs in a child as a user whom permissions bind; its failed asserts are its exit status. */
static void as_somebody(scratch *s, void (*body)(scratch *s))
{
    if (geteuid() == 0)
        scratch_shell("chown -R 12345 '%s'", s->folder);
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(12345) != 0 || setuid(12345) != 0))
            _exit(3);
        body(s);
        _exit(s->n_warnings == 1 ? 0 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_kept_but_not_written(scratch *s)
{
    md_sr *store = scratch_open(s, "here");
    scratch_expect(store, "k", "x");
    for (int i = 0; i < 3; i++)
        if (md_sr_put(store, "note", "new", "y", 1) == MD_OK)
            _exit(4);
    scratch_expect(store, "new", NULL);
    scratch_expect(store, "k", "x");
    md_sr_close(&store);
}

static void read_only_folders_are_read(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    md_sr_close(&store);
    scratch_shell("chmod -R a-w '%s'", s->root);
    as_somebody(s, expect_kept_but_not_written);
    scratch_shell("chmod -R u+w '%s'", s->root);
}

static void expect_no_folder(scratch *s)
{
    md_sr *store = scratch_open(s, "here");
    for (int i = 0; i < 3; i++) {
        scratch_expect(store, "k", NULL);
        if (md_sr_put(store, "note", "k", "y", 1) == MD_OK)
            _exit(4);
    }
    md_sr_close(&store);
}

static void a_folder_that_cannot_be_made_is_one_warning(void **state)
{
    scratch *s = *state;
    snprintf(s->root, sizeof s->root, "/proc/1/nowhere/store");
    as_somebody(s, expect_no_folder);
}

static void a_folder_that_vanishes_is_one_warning(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    scratch_shell("rm -rf '%s'", s->root);
    scratch_expect(store, "k", NULL);
    for (int i = 0; i < 3; i++)
        assert_int_not_equal(md_sr_put(store, "note", "k", "y", 1), MD_OK);
    assert_int_equal(s->n_warnings, 1);
    md_sr_close(&store);
    store = scratch_open(s, "here"); /* the next one makes it again */
    scratch_put(store, "k", "y");
    scratch_expect(store, "k", "y");
    md_sr_close(&store);
}

/* ---- A full disk: no file may grow beyond a limit, as where the last block is taken. */

static void fill(scratch *s)
{
    static char payload[50000];
    md_sr *store = scratch_open(s, "here");
    signal(SIGXFSZ, SIG_IGN);
    scratch_put(store, "small", "fits");
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000}) != 0)
        _exit(5);
    for (int i = 0; i < 3; i++)
        if (md_sr_put(store, "note", "large", payload, sizeof payload) != MD_IO)
            _exit(4);
    scratch_expect(store, "large", NULL);
    scratch_expect(store, "small", "fits");
    scratch_put(store, "next", "fits too");
    scratch_expect(store, "next", "fits too");
    if (md_sr_count(store)->write_failures != 3)
        _exit(6);
    md_sr_close(&store);
    scratch_shell("test -z \"$(ls -A '%s'/*/.fresh)\"", s->root); /* nothing is left behind */
}

static void a_full_disk_is_one_warning(void **state)
{
    as_somebody(*state, fill);
}

/* A file system that is full indeed, where one may be mounted. */
static void a_full_file_system_is_one_warning(void **state)
{
    scratch *s = *state;
    char command[20000];
    snprintf(command, sizeof command, "mkdir -m 700 '%s' && mount -t tmpfs -o size=96k,mode=700 none '%s' 2>/dev/null",
             s->root, s->root);
    if (geteuid() != 0 || system(command) != 0) {
        printf("no file system can be mounted here\n");
        return;
    }
    static char payload[9000];
    int n_kept = 0;
    char key[20];
    md_sr *store = scratch_open(s, "here");
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "%d", i);
        memset(payload, i, sizeof payload);
        n_kept += md_sr_put(store, "blob", key, payload, sizeof payload) == MD_OK;
    }
    assert_true(n_kept > 2 && n_kept < 12);
    assert_int_equal(md_sr_count(store)->written, n_kept);
    assert_int_equal(md_sr_count(store)->write_failures, 40 - n_kept);
    assert_int_equal(s->n_warnings, 1);
    for (int i = 0; i < n_kept; i++) {
        void *got = NULL;
        size_t n = 0;
        snprintf(key, sizeof key, "%d", i);
        assert_ok(md_sr_find(&got, &n, store, "blob", key));
        assert_int_equal(n, sizeof payload);
        free(got);
    }
    md_sr_close(&store);
    scratch_shell("umount '%s'", s->root);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(folders_that_others_could_write_are_refused),
        TEST(read_only_folders_are_read),
        TEST(a_folder_that_cannot_be_made_is_one_warning),
        TEST(a_folder_that_vanishes_is_one_warning),
        TEST(a_full_disk_is_one_warning),
        TEST(a_full_file_system_is_one_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
