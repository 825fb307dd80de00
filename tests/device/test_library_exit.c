/* Background jobs use a library while the process ends. Needs no GPU. */
#include "support/check.h"

#include "base/task/pool.h"
#include "device/cuda/library.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENDS = 30, JOBS = 6, USES = 200 };

static void (*late_use)(void);
static _Atomic int n_uses;

static void use_often(void *context)
{
    (void)context;
    for (int i = 0; i < USES; i++) {
        late_use();
        atomic_fetch_add(&n_uses, 1);
        usleep(5);
    }
}

/* Ends while some jobs run and others wait. What the library makes at its first use stays until all is over. */
static void end_among_jobs(int number)
{
    static const char *const sonames[] = {LATE_OBJECTS};
    const md_dev_library_function list[] = {{&late_use, "late_use"}};
    md_pool *pool = NULL;
    alarm(30);
    bool is_open = true;
    for (int i = 0; i < 2; i++)
        is_open &= md_dev_library_open(sonames, 1, list, 1);
    if (!is_open || md_pool_create(&pool, 2) != MD_OK)
        _exit(1);
    md_jobs_expect_later(md_pool_jobs(pool));
    for (int i = 0; i < JOBS; i++)
        i % 2 ? md_jobs_submit_later(md_pool_jobs(pool), use_often, NULL)
              : md_jobs_submit(md_pool_jobs(pool), use_often, NULL);
    while (atomic_load(&n_uses) <= number * 10)
        usleep(1);
    exit(0);
}

static void exit_destroys_nothing_under_jobs(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it stands before atexit() of every library, where the library's own hand does not reach */
#endif
    for (int i = 0; i < ENDS; i++) {
        const pid_t child = fork();
        if (child == 0)
            end_among_jobs(i);
        int status = -1;
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(exit_destroys_nothing_under_jobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
