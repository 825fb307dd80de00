/* MD_STATS when a process ends: at exit, by SIGTERM, on demand, after a fork, by kill -9 in the middle of a write.
 * Every case is a child process. No compiler is used: the reference serves. */
#include "stats/children.h"

#include <time.h>

static void be_idle(void)
{
    use(make_context(), "one");
}

static void at_exit(void **state)
{
    (void)state;
    expect_exit(start(be_idle, "s.json"));
    assert_int_equal(calls_in("s.json", "one"), 1);
    assert_int_equal(count_files(false), 1);
}

static void be_terminated(void)
{
    use(make_context(), "one");
    tell();
    wait_for_the_end();
}

static void at_sigterm(void **state)
{
    (void)state;
    const pid_t child = start(be_terminated, "s.json");
    hear_child();
    kill(child, SIGTERM);
    expect_signal(child, SIGTERM);
    assert_int_equal(calls_in("s.json", "one"), 1);
    assert_int_equal(count_files(false), 1);
}

/* The program says what happens at SIGTERM, before the context and after it. */
static void on_term(int number)
{
    (void)number;
    _exit(GOOD);
}

static void be_a_handler_before(void)
{
    struct sigaction own = {.sa_handler = on_term}, now;
    sigaction(SIGTERM, &own, NULL);
    md_context *c = make_context();
    sigaction(SIGTERM, NULL, &now);
    must(now.sa_handler == on_term, "its own handler");
    md_context_destroy(&c);
    must(unlink(getenv("MD_STATS")) == 0, "written once");
    sigaction(SIGTERM, NULL, &now);
    must(now.sa_handler == on_term, "its own handler at the end");
    be_terminated();
}

static void be_a_handler_after(void)
{
    struct sigaction own = {.sa_handler = on_term};
    md_context *c = make_context();
    sigaction(SIGTERM, &own, NULL);
    md_context_destroy(&c);
    must(unlink(getenv("MD_STATS")) == 0, "written once");
    tell();
    wait_for_the_end();
}

static void be_deaf(void)
{
    struct sigaction now;
    signal(SIGTERM, SIG_IGN);
    make_context();
    sigaction(SIGTERM, NULL, &now);
    must(now.sa_handler == SIG_IGN, "it ignores SIGTERM");
    raise(SIGTERM);
    must(access(getenv("MD_STATS"), F_OK) != 0, "nothing is written at it");
}

static void handlers_of_the_program(void **state)
{
    (void)state;
    void (*const be[])(void) = {be_a_handler_before, be_a_handler_after};
    for (int i = 0; i < 2; i++) {
        const pid_t child = start(be[i], "s.json");
        hear_child();
        kill(child, SIGTERM);
        expect_exit(child);
        assert_int_equal(count_files(true), 0);
    }
    expect_exit(start(be_deaf, "s.json"));
}

static void be_tidy(void)
{
    struct sigaction now;
    md_context *c = make_context();
    md_op *op = use(c, "one");
    sigaction(SIGTERM, NULL, &now);
    must(now.sa_handler != SIG_DFL, "SIGTERM is taken");
    md_op_destroy(&op);
    md_context_destroy(&c);
    sigaction(SIGTERM, NULL, &now);
    must(now.sa_handler == SIG_DFL, "SIGTERM is given back");
    must(unlink(getenv("MD_STATS")) == 0, "written when destroyed");
}

static void destroyed_contexts_write_once(void **state)
{
    (void)state;
    expect_exit(start(be_tidy, "s.json"));
    assert_int_equal(count_files(false), 0);
}

static void be_several(void)
{
    md_context *a = make_context(), *b = make_context();
    use(a, "first");
    md_op *op = use(b, "second");
    md_op_destroy(&op);
    md_context_destroy(&b);
    use(make_context(), "third");
}

static void contexts_have_files_of_their_own(void **state)
{
    (void)state;
    char file[64];
    const pid_t child = start(be_several, "s%p%%.json");
    expect_exit(child);
    for (int i = 1; i <= 3; i++) {
        snprintf(file, sizeof file, i > 1 ? "s%d%%.%d.json" : "s%d%%.json", (int)child, i);
        assert_int_equal(calls_in(file, i == 1 ? "first" : i == 2 ? "second" : "third"), 1);
    }
    assert_int_equal(count_files(false), 3);
    start(be_several, "plain");
    wait(NULL);
    assert_int_equal(access(in_folder("plain.3"), F_OK), 0); /* without an ending */
    expect_exit(start(be_several, "../../dev/null")); /* no file */
    assert_int_equal(count_files(false), 6);
}

static void ask(pid_t child, int number, const char *op_name)
{
    kill(child, number);
    while (calls_in("s.json", op_name) < 1) {
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void be_asked(void)
{
    md_context *c = make_context();
    use(c, "one");
    tell();
    while (access(getenv("MD_STATS"), F_OK) != 0)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    use(c, "two");
    tell();
    wait_for_the_end();
}

static void on_demand(void **state)
{
    (void)state;
    static const struct {
        const char *signal;
        int number;
    } row[] = {{"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    for (int i = 0; i < 3; i++) {
        setenv("MD_STATS_SIGNAL", row[i].signal, 1);
        const pid_t child = start(be_asked, "s.json");
        hear_child();
        ask(child, row[i].number, "one");
        hear_child();
        ask(child, row[i].number, "two");
        kill(child, SIGKILL);
        expect_signal(child, SIGKILL);
        count_files(true);
    }
    unsetenv("MD_STATS_SIGNAL");
}

/* Such a signal ends nothing when the context is gone, and is the program's where it wants it. */
static void be_sent_late(void)
{
    struct sigaction now;
    md_context *c = make_context();
    md_context_destroy(&c);
    raise(SIGUSR1);
    signal(SIGUSR1, on_term);
    c = make_context();
    sigaction(SIGUSR1, NULL, &now);
    must(now.sa_handler == on_term, "the program's handler");
    md_context_destroy(&c);
}

static void demands_without_a_context(void **state)
{
    (void)state;
    setenv("MD_STATS_SIGNAL", "USR1", 1);
    expect_exit(start(be_sent_late, "s.json"));
    unsetenv("MD_STATS_SIGNAL");
}

/* Parent and child each destroy, exit or are ended with one context. */
static void be_forked(void)
{
    md_context *c = make_context();
    md_op *op = use(c, "parent");
    for (int way = 0; way < 3; way++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            use(c, "child");
            if (way == 1)
                raise(SIGTERM);
            md_op_destroy(&op);
            if (way == 2)
                md_context_destroy(&c);
            exit(0);
        }
        must(waitpid(child, &status, 0) == child, "waitpid");
        must(way == 1 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM : status == 0, "how a child ends");
        must(access(getenv("MD_STATS"), F_OK) != 0, "a child leaves the parent's file alone");
    }
}

static void children_after_fork(void **state)
{
    (void)state;
    expect_exit(start(be_forked, "s.json"));
    assert_int_equal(calls_in("s.json", "parent"), 1);
    assert_int_equal(calls_in("s.json", "child"), 0);
    assert_int_equal(count_files(true), 1);
    expect_exit(start(be_forked, "%p.json"));
    assert_int_equal(count_files(false), 3); /* SIGTERM in a child writes nothing */
}

static void be_a_writer(void)
{
    md_context *c = make_context();
    for (int i = 0; i < 40; i++) {
        char op_name[16];
        snprintf(op_name, sizeof op_name, "op%d", i);
        use(c, op_name);
    }
    md_stats_write(c, getenv("MD_STATS"), NULL);
    tell();
    for (;;)
        md_stats_write(c, getenv("MD_STATS"), NULL);
}

/* Read at any moment, the file is whole, also after its writer was killed. */
static void never_torn(void **state)
{
    (void)state;
    uint64_t random = check_seed();
    for (int i = 0; i < 12; i++) {
        const pid_t child = start(be_a_writer, "s.json");
        hear_child();
        for (int k = 0; k < 5; k++)
            assert_int_equal(calls_in("s.json", "op7"), 1);
        nanosleep(&(struct timespec){0, (long)(check_random(&random) % 1000000)}, NULL);
        kill(child, SIGKILL);
        expect_signal(child, SIGKILL);
        assert_int_equal(calls_in("s.json", "op39"), 1);
    }
}

int main(void)
{
    for (int32_t i = 0;; i++) {
        const char *variable = NULL;
        md_variables(i, &variable, NULL, NULL);
        if (!variable)
            break;
        unsetenv(variable);
    }
    setenv("MD_LOG", "none", 1);
    signal(SIGHUP, SIG_DFL); /* nohup ignores it */
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(at_exit),
        CASE(at_sigterm),
        CASE(handlers_of_the_program),
        CASE(destroyed_contexts_write_once),
        CASE(contexts_have_files_of_their_own),
        CASE(on_demand),
        CASE(demands_without_a_context),
        CASE(children_after_fork),
        CASE(never_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
