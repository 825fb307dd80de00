/* What another process may do between a look at a file and its rename, and locks that fail: wrapped functions do it. */
#include "support/check.h"

#include "base/hash.h"
#include "store/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);

/* Before the next rename to a name that contains `part`, the file to be renamed gets this content. */
static struct {
    const char *part;
    const char *bytes;
    size_t n;
    int n_times;
} other;

static void write_at(int fd, const char *path, const char *bytes, size_t n)
{
    const int file = openat(fd, path, O_WRONLY | O_TRUNC);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, n), n);
    close(file);
}

/* What is done to the disk, in order, and what fails with an error. */
static struct {
    char order[16]; /* F: a file is synced, D: a folder is; R: a file gets its name */
    char fails;
    int error;
} disk;

/* What others do while a file is written to disk. */
static struct {
    void (*is_asked)(void *user);
    void *user;
} during_sync;

static int do_to_disk(char what)
{
    const size_t n = strlen(disk.order);
    if (n + 1 < sizeof disk.order)
        disk.order[n] = what;
    errno = disk.error;
    return disk.fails == what ? -1 : 0;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat facts;
    assert_int_equal(fstat(fd, &facts), 0);
    if (during_sync.is_asked && S_ISREG(facts.st_mode))
        during_sync.is_asked(during_sync.user);
    return do_to_disk(S_ISDIR(facts.st_mode) ? 'D' : 'F');
}

int __real_unlinkat(int fd, const char *path, int how);
int __wrap_unlinkat(int fd, const char *path, int how);
int __wrap_unlinkat(int fd, const char *path, int how)
{
    const int status = __real_unlinkat(fd, path, how);
    if (status == 0)
        errno = ECHILD; /* as it may be after a call that succeeds */
    return status;
}

int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    if (do_to_disk('R') != 0)
        return -1;
    if (other.part && strstr(to, other.part)) {
        other.part = NULL;
        other.n_times++;
        write_at(from_fd, from, other.bytes, other.n);
    }
    return __real_renameat(from_fd, from, to_fd, to);
}

static size_t read_all(char out[2000], const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(out, 1, 1999, f);
    fclose(f);
    out[n] = 0;
    return n;
}

static void lease_path(char out[4600], const scratch *s, const char *key)
{
    char hex[33], environment[33];
    md_digest_text(hex, md_hash128(key, strlen(key)));
    md_digest_text(environment, md_hash128("here", 4));
    snprintf(out, 4600, "%s/%s/lease/%s", s->root, environment, hex);
}

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
static long later_s; /* by which all clocks are ahead */

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    const int status = __real_clock_gettime(id, t);
    t->tv_sec += later_s;
    return status;
}

int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
static bool is_awake; /* nobody sleeps, and no time goes by */

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    return is_awake ? 0 : __real_nanosleep(t, left);
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);

/* The next calls that lock fail, or take so long; calls are counted. */
static struct {
    int error, n_times, n_calls, n_held;
    long takes_s;
} lock;

int __wrap_flock(int fd, int how)
{
    if (how == LOCK_UN) {
        lock.n_held--;
        return __real_flock(fd, how);
    }
    lock.n_calls++;
    later_s += lock.takes_s;
    if (lock.n_times > 0) {
        lock.n_times--;
        errno = lock.error;
        return -1;
    }
    const int status = __real_flock(fd, how);
    lock.n_held += status == 0;
    return status;
}

/* A lock that a signal interrupts is waited for again; where the file system has none, leases do without. */
static void locks_that_fail(void **state)
{
    scratch *s = *state;
    static const struct {
        int error, n_times, n_calls;
    } row[] = {{0, 0, 1}, {EINTR, 1, 2}, {EINTR, 3, 4}, {ENOLCK, 9, 1}, {EBADF, 9, 1}, {EWOULDBLOCK, 9, 1}};
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_sr_lease *a = NULL, *b = NULL;
        lock.error = row[i].error;
        lock.n_times = row[i].n_times;
        lock.n_calls = lock.n_held = 0;
        assert_ok(md_sr_lease_take(&a, store, "a", 3600000));
        assert_non_null(a);
        assert_int_equal(lock.n_calls, row[i].n_calls);
        assert_int_equal(lock.n_held, 0); /* given back */
        assert_ok(md_sr_lease_take(&b, store, "a", 3600000));
        assert_null(b);
        md_sr_lease_release(&a);
        lock.n_times = 0;
    }
    md_sr_close(&store);
}

/* The time of a lease runs from when it is taken, however long its process waited for the lock before. */
static void locks_that_take_long(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    md_sr_lease *a = NULL, *b = NULL;
    scratch_put(store, "k", "x");
    for (lock.takes_s = 1; lock.takes_s <= 64; lock.takes_s *= 4) {
        assert_ok(md_sr_lease_take(&a, store, "a", 16000));
        assert_non_null(a);
        const long takes_s = lock.takes_s;
        lock.takes_s = 0;
        assert_ok(md_sr_lease_take(&b, store, "a", 16000));
        assert_null(b);
        later_s += 13;
        assert_ok(md_sr_lease_take(&b, store, "a", 16000));
        assert_null(b);
        later_s += 4;
        assert_ok(md_sr_lease_take(&b, store, "a", 16000));
        assert_non_null(b);
        md_sr_lease_release(&a);
        md_sr_lease_release(&b);
        lock.takes_s = takes_s;
    }
    lock.takes_s = 0;
    md_sr_close(&store);
}

ssize_t __real_read(int fd, void *bytes, size_t n);
ssize_t __wrap_read(int fd, void *bytes, size_t n);

/* The next reads fail. */
static struct {
    int error, n_times;
} reads;

ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
    if (reads.n_times == 0)
        return __real_read(fd, bytes, n);
    reads.n_times--;
    errno = reads.error;
    return -1;
}

/* What read() is where the C library checks the room for it. */
ssize_t __wrap___read_chk(int fd, void *bytes, size_t n, size_t room);

ssize_t __wrap___read_chk(int fd, void *bytes, size_t n, size_t room)
{
    assert_true(n <= room);
    return __wrap_read(fd, bytes, n);
}

/* A read that a signal interrupts goes on; one that fails is a miss, and the file stays. */
static void reads_that_fail(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "what is kept");
    for (int n = 1; n <= 3; n++) {
        reads.error = EINTR;
        reads.n_times = n;
        scratch_expect(store, "k", "what is kept");
        assert_int_equal(reads.n_times, 0);
        reads.error = EIO;
        reads.n_times = 1;
        scratch_expect(store, "k", NULL);
        reads.n_times = 0;
        scratch_expect(store, "k", "what is kept");
    }
    md_sr_close(&store);
}

/* Two find that a lease has ended: the slower one must not take what the faster one has got. */
static void a_lease_that_is_taken_meanwhile(void **state)
{
    scratch *s = *state;
    char live[2000], now[2000], of_a[4600], of_b[4600];
    md_sr *store = scratch_open(s, "here");
    md_sr_lease *b = NULL, *a = NULL;
    scratch_put(store, "k", "x");
    assert_ok(md_sr_lease_take(&b, store, "b", 3600000));
    assert_non_null(b);
    lease_path(of_a, s, "a");
    lease_path(of_b, s, "b");
    const size_t n = read_all(live, of_b);
    for (int meanwhile = 1; meanwhile >= 0; meanwhile--) {
        scratch_shell("rm -f '%s'; echo 'no lease' > '%s'; chmod 600 '%s'", of_a, of_a, of_a);
        other.part = meanwhile ? "over" : NULL;
        other.bytes = live;
        other.n = n;
        other.n_times = 0;
        assert_ok(md_sr_lease_take(&a, store, "a", 3600000));
        assert_int_equal(other.n_times, meanwhile);
        assert_int_equal(a == NULL, meanwhile);
        if (meanwhile) {
            assert_int_equal(read_all(now, of_a), n); /* given back */
            assert_string_equal(now, live);
        }
    }
    md_sr_lease_release(&a);
    md_sr_lease_release(&b);
    md_sr_close(&store);
}

/* Nor what is no lease either, but another file than the one that was looked at: longer, shorter, or of its length. */
static void a_file_that_changes_meanwhile_is_given_back(void **state)
{
    scratch *s = *state;
    static const char *const meanwhile[] = {"no lease\n, but longer", "no", "", "no leash\n"};
    char now[2000], path[4600];
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "x");
    lease_path(path, s, "a");
    scratch_shell("mkdir -p -m 700 $(dirname '%s')", path);
    for (size_t i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
        md_sr_lease *a = NULL;
        scratch_shell("rm -f '%s'; echo 'no lease' > '%s'; chmod 600 '%s'", path, path, path);
        other.part = "over";
        other.bytes = meanwhile[i];
        other.n = strlen(meanwhile[i]);
        other.n_times = 0;
        assert_ok(md_sr_lease_take(&a, store, "a", 3600000));
        assert_int_equal(other.n_times, 1);
        assert_null(a);
        assert_int_equal(read_all(now, path), strlen(meanwhile[i]));
        assert_string_equal(now, meanwhile[i]);
    }
    md_sr_close(&store);
}

/* A reader that met a bad file takes it away; but not the good one that another process has put there meanwhile. */
static void a_file_that_is_healed_meanwhile(void **state)
{
    scratch *s = *state;
    char path[4400], good[2000];
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "what is kept");
    scratch_path(path, s, "here", "note", "k");
    const size_t n = read_all(good, path);
    for (int meanwhile = 1; meanwhile >= 0; meanwhile--) {
        scratch_shell("echo bad > '%s'", path);
        other.part = meanwhile ? "aside" : NULL;
        other.bytes = good;
        other.n = n;
        other.n_times = 0;
        scratch_expect(store, "k", NULL); /* it read the bad one */
        assert_int_equal(other.n_times, meanwhile);
        scratch_expect(store, "k", meanwhile ? "what is kept" : NULL);
        assert_int_equal(access(path, F_OK) == 0, meanwhile);
    }
    md_sr_close(&store);
}

/* ---- Updates */

typedef struct rival {
    md_sr *store;
    int n_left; /* writes of others that the other process comes before */
} rival;

static md_status add_text(void **out, size_t *n_out, void *user, const void *there, size_t n)
{
    char *text = NULL;
    assert_true(asprintf(&text, "%.*s%s", (int)n, (const char *)there, (const char *)user) >= 0);
    *out = text;
    *n_out = strlen(text);
    return MD_OK;
}

/* The lease of an update that takes longer than its time goes to another process, which writes. */
static void take_over(void *user)
{
    rival *r = user;
    during_sync.is_asked = NULL;
    if (r->n_left-- > 0) {
        later_s += 6;
        assert_ok(md_sr_update(r->store, "note", "k", add_text, (void *)"b"));
        during_sync.is_asked = take_over;
    }
}

static void an_update_that_takes_long(void **state)
{
    scratch *s = *state;
    rival r = {.n_left = 1, .store = scratch_open(s, "here")};
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "-");
    during_sync.is_asked = take_over;
    during_sync.user = &r;
    assert_ok(md_sr_update(store, "note", "k", add_text, (void *)"a"));
    during_sync.is_asked = NULL;
    assert_true(r.n_left < 1);
    scratch_expect(store, "k", "-ba");
    scratch_shell("test -z \"$(ls -A '%s'/*/.fresh)\"", s->root);
    md_sr_close(&store);
    md_sr_close(&r.store);
}

/* Who never gets the lease adds an entry where there is none, and replaces none. */
static void an_update_that_waits_in_vain(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here"), *rivals = scratch_open(s, "here");
    md_sr_lease *lease = NULL;
    assert_ok(md_sr_lease_take(&lease, rivals, "note k", 3600000));
    assert_non_null(lease);
    is_awake = true;
    assert_ok(md_sr_update(store, "note", "k", add_text, (void *)"a"));
    scratch_expect(rivals, "k", "a");
    assert_fails(md_sr_update(store, "note", "k", add_text, (void *)"b"), MD_IO, "writes note 'k' all the time");
    scratch_expect(rivals, "k", "a");
    is_awake = false;
    md_sr_lease_release(&lease);
    assert_ok(md_sr_update(store, "note", "k", add_text, (void *)"b"));
    scratch_expect(rivals, "k", "ab");
    md_sr_close(&store);
    md_sr_close(&rivals);
}

/* An entry is on the disk before it has its name, and its name is when the writer goes on. */
static void entries_survive_power_cuts(void **state)
{
    scratch *s = *state;
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "first");
    for (int i = 0; i < 2; i++) {
        memset(&disk, 0, sizeof disk);
        scratch_put(store, "k", i ? "second" : "third");
        assert_string_equal(disk.order, "FRD");
    }
    md_sr_close(&store);
}

/* A write that fails says why, leaves nothing behind, and leaves what was there. */
static void writes_that_fail(void **state)
{
    scratch *s = *state;
    static const struct {
        char fails;
        int error;
    } row[] = {{'F', ENOSPC}, {'F', EIO}, {'R', EACCES}, {'R', EXDEV}, {'R', ENOSPC}};
    md_sr *store = scratch_open(s, "here");
    scratch_put(store, "k", "first");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        memset(&disk, 0, sizeof disk);
        disk.fails = row[i].fails;
        disk.error = row[i].error;
        assert_fails(md_sr_put(store, "note", "k", "second", 6), MD_IO, strerror(row[i].error));
        assert_int_equal(md_sr_count(store)->write_failures, i + 1);
        memset(&disk, 0, sizeof disk);
        scratch_expect(store, "k", "first");
        scratch_shell("test -z \"$(ls -A '%s'/*/.fresh)\"", s->root);
    }
    scratch_put(store, "k", "second");
    scratch_expect(store, "k", "second");
    md_sr_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lease_that_is_taken_meanwhile, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_changes_meanwhile_is_given_back, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_healed_meanwhile, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(locks_that_take_long, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_update_that_takes_long, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_update_that_waits_in_vain, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(locks_that_fail, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(entries_survive_power_cuts, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(writes_that_fail, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(reads_that_fail, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
