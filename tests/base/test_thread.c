/* Which processors a thread asks for, on a machine that wrapped functions make up. */
#include "support/check.h"
#include "support/valgrind.h"

#include "base/status.h"
#include "base/task/thread.h"

#include <errno.h>
#include <fenv.h>
#include <sched.h>

int __wrap_sched_getcpu(void);
int __wrap_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *out);
int __wrap_sched_setaffinity(pid_t pid, size_t n, const cpu_set_t *set);
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t n, const cpu_set_t *set);

enum { MOST_CALLS = 4 };

/* Sets of processors are bits. */
static struct {
    int here;
    uint64_t allowed;
    bool is_unknown, refuses; /* which processors there are; to move */
    int n_calls;
    uint64_t call[MOST_CALLS]; /* what the thread asked for */
} machine;

static uint64_t bits_of(const cpu_set_t *set)
{
    uint64_t bits = 0;
    for (int i = 0; i < 64; i++)
        bits |= (uint64_t)(CPU_ISSET(i, set) != 0) << i;
    return bits;
}

int __wrap_sched_getcpu(void)
{
    return machine.here;
}

int __wrap_sched_getaffinity(pid_t pid, size_t n, cpu_set_t *out)
{
    (void)pid;
    assert_int_equal(n, sizeof *out);
    if (machine.is_unknown) {
        errno = EINVAL; /* more processors than the set has bits */
        return -1;
    }
    CPU_ZERO(out);
    for (int i = 0; i < 64; i++)
        if (machine.allowed >> i & 1)
            CPU_SET(i, out);
    return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t n, const cpu_set_t *set)
{
    (void)pid;
    assert_int_equal(n, sizeof *set);
    assert_true(machine.n_calls < MOST_CALLS);
    machine.call[machine.n_calls++] = bits_of(set);
    return machine.refuses ? -1 : 0;
}

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t n, const cpu_set_t *set)
{
    (void)thread;
    return __wrap_sched_setaffinity(0, n, set);
}

typedef struct row {
    int here, n; /* n: steps, or the processor to leave */
    uint64_t allowed;
    bool is_unknown, refuses;
    uint64_t moves_to; /* 0: it does not move */
} row;

/* A move is two calls: there, then all that were allowed before. */
static void expect_moves(void (*move)(int32_t n), const row *rows, int n_rows)
{
    for (int i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        memset(&machine, 0, sizeof machine);
        machine.here = r->here;
        machine.allowed = r->allowed;
        machine.is_unknown = r->is_unknown;
        machine.refuses = r->refuses;
        move(r->n);
        const int n = !r->moves_to ? 0 : r->refuses ? 1 : 2;
        if (machine.n_calls != n || (n > 0 && machine.call[0] != r->moves_to) ||
            (n > 1 && machine.call[1] != r->allowed))
            fail_msg("row %d: %d calls, %llx then %llx", i, machine.n_calls, (unsigned long long)machine.call[0],
                     (unsigned long long)machine.call[1]);
    }
}

static void threads_visit_processors(void **state)
{
    (void)state;
    static const row rows[] = {
        {1, 0, 0xf, .moves_to = 0},
        {1, 1, 0xf, .moves_to = 0x4},
        {1, 2, 0xf, .moves_to = 0x8},
        {1, 3, 0xf, .moves_to = 0x1}, /* around */
        {1, 4, 0xf, .moves_to = 0},
        {1, 9, 0xf, .moves_to = 0x4},
        {5, 1, 0x8000000000000022, .moves_to = 0x8000000000000000}, /* over those that are not allowed */
        {5, 2, 0x8000000000000022, .moves_to = 0x2},
        {0, 1, 0x1, .moves_to = 0},
        {-1, 1, 0xf, .moves_to = 0},
        {1, 1, 0xf, .is_unknown = true},
        {1, 1, 0xf, .refuses = true, .moves_to = 0x4},
    };
    expect_moves(md_thread_visit_cpu, rows, MD_COUNT(rows));
}

static void threads_leave_processors(void **state)
{
    (void)state;
    static const row rows[] = {
        {1, 1, 0x7, .moves_to = 0x5},    {1, 0, 0x7, .moves_to = 0x6},
        {1, 1, 0x3, .moves_to = 0x1},    {1, 1, 0x2, .moves_to = 0}, /* there is no other */
        {1, -1, 0x7, .moves_to = 0},     {1, CPU_SETSIZE, 0x7, .moves_to = 0},
        {1, 1, 0x7, .is_unknown = true}, {1, 1, 0x7, .refuses = true, .moves_to = 0x5},
    };
    expect_moves(md_thread_leave_cpu, rows, MD_COUNT(rows));
}

static void threads_get_the_processors_of_others(void **state)
{
    (void)state;
    memset(&machine, 0, sizeof machine);
    machine.here = 3;
    machine.allowed = 0x8000000000000105;
    assert_int_equal(md_thread_cpu(), 3);
    const md_thread_processors p = md_thread_allowed();
    assert_true(p.is_known);
    md_thread_allow(pthread_self(), &p);
    assert_int_equal(machine.n_calls, 1);
    assert_true(machine.call[0] == machine.allowed);
    machine.is_unknown = true;
    const md_thread_processors none = md_thread_allowed();
    assert_false(none.is_known);
    md_thread_allow(pthread_self(), &none);
    assert_int_equal(machine.n_calls, 1); /* as it was */
}

static void floats_are_those_of_the_standard(void **state)
{
    (void)state;
    if (is_under_valgrind())
        skip();
    fenv_t before;
    volatile double third = 3.0;
    fegetenv(&before);
    const double nearest = 1.0 / third;
    fesetround(FE_UPWARD);
    assert_true(1.0 / third > nearest);
    md_thread_default_floats();
    assert_true(1.0 / third == nearest);
    assert_int_equal(fegetround(), FE_TONEAREST);
    fesetenv(&before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_visit_processors),
        cmocka_unit_test(threads_leave_processors),
        cmocka_unit_test(threads_get_the_processors_of_others),
        cmocka_unit_test(floats_are_those_of_the_standard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
