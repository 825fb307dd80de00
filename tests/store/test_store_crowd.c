/* Many processes on one folder, and processes that are killed while they write. */
#include "support/check.h"

#include "base/clock.h"
#include "store/scratch.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 24, MOST = 3000 };

/* A payload that says which key and version it is, of a length and content that follow from them. */
static size_t make_payload(char *out, int key, int version)
{
    uint64_t seed = (uint64_t)key * 1000003u + (uint64_t)version;
    const size_t n = 40 + check_random(&seed) % (MOST - 40);
    memset(out, 0, n);
    sprintf(out, "%d %d ", key, version);
    for (size_t i = 30; i < n; i++)
        out[i] = (char)check_random(&seed);
    return n;
}

/* -1: not there. Anything but what make_payload gives fails. */
static int version_of(md_sr *store, int key)
{
    char name[20], want[MOST];
    void *got = NULL;
    size_t n = 0;
    snprintf(name, sizeof name, "%d", key);
    if (md_sr_find(&got, &n, store, "note", name) != MD_OK)
        return -1;
    int k = -1, version = -1;
    if (n < 40 || sscanf(got, "%d %d", &k, &version) != 2 || k != key || make_payload(want, key, version) != n ||
        memcmp(want, got, n) != 0) {
        printf("key %d: an entry that nobody wrote\n", key);
        version = -2;
    }
    free(got);
    return version;
}

static md_status count_good(void *user, const md_sr_file *f)
{
    int *n = user;
    n[f->problem ? 1 : 0]++;
    return MD_OK;
}

/* ---- Killed at any instant */

/* What the writer reported as written. */
typedef struct shared {
    _Atomic int version[KEYS];
    _Atomic int n_written;
} shared;

static void write_until_killed(scratch *s, shared *x, uint64_t seed)
{
    char payload[MOST], name[20];
    md_sr *store = scratch_open(s, "here");
    for (;;) {
        const int key = (int)(check_random(&seed) % KEYS), version = atomic_load(&x->version[key]) + 1;
        const size_t n = make_payload(payload, key, version);
        snprintf(name, sizeof name, "%d", key);
        if (md_sr_put(store, "note", name, payload, n) != MD_OK)
            _exit(9);
        atomic_store(&x->version[key], version);
        atomic_fetch_add(&x->n_written, 1);
    }
}

static void killed_writers_lose_and_spoil_nothing(void **state)
{
    enum { KILLS = 200 };
    scratch *s = *state;
    uint64_t seed = check_seed();
    shared *x = mmap(NULL, sizeof *x, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(x != MAP_FAILED);
    int n_ahead = 0;
    for (int i = 0; i < KILLS; i++) {
        const uint64_t wait_us = check_random(&seed) % 30000, child_seed = check_random(&seed);
        const pid_t child = fork();
        if (child == 0)
            write_until_killed(s, x, child_seed);
        /* Half of them are killed in their first moments, whatever they do then, the others at work. */
        for (const int before = atomic_load(&x->n_written); i % 2 && atomic_load(&x->n_written) == before;)
            sched_yield();
        usleep((useconds_t)wait_us);
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        md_sr *store = scratch_open(s, "here");
        for (int key = 0; key < KEYS; key++) {
            const int told = atomic_load(&x->version[key]), there = version_of(store, key);
            /* one more may have come to its place before the kill */
            assert_true(there >= told || (told == 0 && there == -1));
            if (there > told) {
                n_ahead++;
                atomic_store(&x->version[key], there);
            }
        }
        assert_int_equal(md_sr_count(store)->healed, 0);
        md_sr_close(&store);
    }
    printf("%d kills, %d entries written, %d of them in place but not reported\n", KILLS, atomic_load(&x->n_written),
           n_ahead);
    assert_true(atomic_load(&x->n_written) >= KILLS / 2);
    /* What the killed left lying goes when it is old. */
    scratch_shell("find '%s' -path '*/.fresh/*' -exec touch -d '3 hours ago' {} +", s->root);
    int n[2] = {0, 0};
    assert_ok(md_sr_walk(s->root, true, count_good, n));
    assert_int_equal(n[1], 0);
    scratch_shell("test -z \"$(ls -A '%s'/*/.fresh)\"", s->root);
    munmap(x, sizeof *x);
}

/* ---- 32 processes */

typedef struct crowd {
    scratch *scratch;
    _Atomic int *in_lease;
    uint64_t seed;
} crowd;

/* Writes, reads, damages now and then, takes leases: an exit status says what was seen. */
static int be_one_of_many(void *user, int i_process)
{
    const crowd *of = user;
    scratch *s = of->scratch;
    _Atomic int *in_lease = of->in_lease;
    const int number = i_process + 1;
    uint64_t seed = of->seed + (uint64_t)number;
    char payload[MOST], name[20], path[4400];
    md_sr *store = scratch_open(s, "here");
    for (int i = 0; i < 60; i++) {
        const int key = (int)(check_random(&seed) % KEYS), what = (int)(check_random(&seed) % 10);
        snprintf(name, sizeof name, "%d", key);
        if (what < 4) {
            const size_t n = make_payload(payload, key, number * 1000 + i);
            if (md_sr_put(store, "note", name, payload, n) != MD_OK)
                return 2;
        } else if (what == 4 && number % 4 == 0) {
            scratch_path(path, s, "here", "note", name);
            if (truncate(path, (off_t)(check_random(&seed) % 60)) != 0)
                continue;
        } else if (what == 5) {
            md_sr_lease *lease = NULL;
            if (md_sr_lease_take(&lease, store, "one", 600000) != MD_OK)
                return 3;
            if (lease && atomic_fetch_add(in_lease, 1) != 0)
                return 4; /* two at a time */
            usleep(200);
            if (lease)
                atomic_fetch_sub(in_lease, 1);
            md_sr_lease_release(&lease);
        } else if (version_of(store, key) == -2) {
            return 5;
        }
    }
    md_sr_close(&store);
    return 0;
}

static void a_crowd_shares_a_folder(void **state)
{
    enum { CROWD = 32 };
    scratch *s = *state;
    const uint64_t seed = check_seed();
    _Atomic int *in_lease = mmap(NULL, sizeof *in_lease, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)in_lease != MAP_FAILED);
    scratch_crowd(CROWD, be_one_of_many, &(crowd){s, in_lease, seed});
    int n[2] = {0, 0};
    md_sr *store = scratch_open(s, "here");
    for (int key = 0; key < KEYS; key++)
        assert_int_not_equal(version_of(store, key), -2);
    assert_ok(md_sr_walk(s->root, true, count_good, n));
    printf("%d good entries, %d damaged ones\n", n[0], n[1]);
    assert_true(n[0] > 0);
    md_sr_close(&store);
    munmap(in_lease, sizeof *in_lease);
}

enum { EACH = 8 };

static int write_own(void *user, int i)
{
    char payload[MOST], name[20];
    md_sr *store = scratch_open(user, "here");
    for (int k = 0; k < EACH; k++) {
        snprintf(name, sizeof name, "%d", i * EACH + k);
        if (md_sr_put(store, "note", name, payload, make_payload(payload, i * EACH + k, 1)) != MD_OK)
            return 2;
    }
    md_sr_close(&store);
    return 0;
}

/* Without anybody who damages, all that was reported is there: of each process, or a later one's. */
static void no_write_is_lost(void **state)
{
    enum { CROWD = 32 };
    scratch *s = *state;
    scratch_crowd(CROWD, write_own, s);
    md_sr *store = scratch_open(s, "here");
    for (int k = 0; k < CROWD * EACH; k++)
        assert_int_equal(version_of(store, k), 1);
    assert_int_equal(md_sr_count(store)->healed, 0);
    md_sr_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        TEST(killed_writers_lose_and_spoil_nothing),
        TEST(a_crowd_shares_a_folder),
        TEST(no_write_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
