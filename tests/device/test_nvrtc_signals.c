/* A process keeps its signals and its limits while kernels are compiled, by several threads and both copies of NVRTC.
 * Needs no GPU. Skips itself where there is no NVRTC. */
#include "support/check.h"

#include "base/status.h"
#include "base/task/pool.h"
#include "base/task/thread.h"
#include "device/nvrtc/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 3, TEXTS = 4 };

static const int kept[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT};
static _Atomic int n_seen, n_running;

static void count(int number)
{
    (void)number;
    atomic_fetch_add(&n_seen, 1);
}

static void *compile_some(void *first)
{
    for (int i = 0; i < TEXTS; i++) {
        char text[256];
        void *binary = NULL;
        size_t n = 0;
        snprintf(text, sizeof text,
                 "struct md_params { float *a; };\nextern \"C\" __global__ void md_kernel(const __grid_constant__ "
                 "md_params p) { p.a[threadIdx.x] = %d; }\n",
                 *(int *)first + i);
        if (md_dev_nvrtc_compile(&binary, &n, NULL, text, "sm_80") != MD_OK)
            abort();
        free(binary);
    }
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

static struct rlimit stack; /* before */

static void expect_ours(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_STACK, &limit), 0);
    assert_true(limit.rlim_cur == stack.rlim_cur && limit.rlim_max == stack.rlim_max);
    for (int i = 0; i < MD_COUNT(kept); i++) {
        struct sigaction now;
        assert_int_equal(sigaction(kept[i], NULL, &now), 0);
        if (i < 2)
            assert_ptr_equal(now.sa_handler, count);
        else
            assert_true(now.sa_handler != count);
    }
}

static void test_kept(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    int first[THREADS], n_sent = 0;
    struct sigaction ours = {.sa_handler = count, .sa_flags = SA_RESTART}, before[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(sigaction(kept[i], &ours, &before[i]), 0);
    assert_int_equal(getrlimit(RLIMIT_STACK, &stack), 0);
    atomic_store(&n_running, THREADS);
    for (int i = 0; i < THREADS; i++) {
        first[i] = i * TEXTS;
        assert_int_equal(pthread_create(&thread[i], NULL, compile_some, &first[i]), 0);
    }
    while (atomic_load(&n_running) > 0) {
        expect_ours();
        if (n_sent < 50) { /* one at a time: pending ones are not counted */
            const int seen = atomic_load(&n_seen);
            assert_int_equal(kill(getpid(), n_sent % 2 ? SIGINT : SIGTERM), 0);
            n_sent++;
            while (atomic_load(&n_seen) == seen)
                usleep(100);
        }
        usleep(500);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    expect_ours();
    assert_true(n_sent > 3);
    assert_int_equal(atomic_load(&n_seen), n_sent);
    for (int i = 0; i < 2; i++)
        assert_int_equal(sigaction(kept[i], &before[i], NULL), 0);
}

/* Who asks is told what is so, and others change what they like: the C library itself is not touched. */
static void test_others(void **state)
{
    (void)state;
    assert_true(signal(SIGUSR1, count) == SIG_DFL);
    assert_true(signal(SIGUSR1, SIG_DFL) == count);
    assert_false(md_dev_keep_process(NULL));
    void *without = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL); /* imports neither */
    assert_non_null(without);
    assert_true(md_dev_keep_process(without));
    dlclose(without);
}

/* Takes NVRTC half a second or so. */
static void compile_long(void *first)
{
    enum { LINES = 12, ROOM = 64 * LINES };
    char *text = malloc(ROOM);
    void *binary = NULL;
    size_t n_bytes = 0, n = 0;
    if (!text)
        abort();
    n += (size_t)snprintf(text, ROOM, "extern \"C\" __global__ void md_kernel(float *a) {\n");
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, ROOM - n, "a[%d] = powf(a[%d], sinf(a[%d]));\n", i, i + 1, *(int *)first + i);
    (void)snprintf(text + n, ROOM - n, "}\n");
    atomic_fetch_add(&n_seen, 1);
    (void)md_dev_nvrtc_compile(&binary, &n_bytes, NULL, text, "sm_80");
    free(binary);
    free(text);
}

/* exit() waits for what compiles, and takes nothing down under it. */
static void test_exit(void **state)
{
    (void)state;
    for (int ms = 50; ms <= 150; ms += 50) {
        const pid_t child = fork();
        if (child == 0) {
            md_pool *pool = NULL;
            int first[THREADS];
            alarm(60);
            if (md_pool_create(&pool, THREADS) != MD_OK)
                _exit(1);
            for (int i = 0; i < THREADS; i++) {
                first[i] = i;
                md_jobs_submit(md_pool_jobs(pool), compile_long, &first[i]);
            }
            while (atomic_load(&n_seen) < THREADS)
                usleep(100);
            usleep((useconds_t)ms * 1000);
            exit(0);
        }
        int status = -1;
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    md_dev_nvrtc nvrtc;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK) {
        printf("SKIPPED, nothing was tested: %s\n", md_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit), cmocka_unit_test(test_kept),
                                       cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
