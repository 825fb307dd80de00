/* Starts one process a formula, several at a time. */
#include "support/processes.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 32 };

typedef struct child {
    pid_t id; /* 0: none runs here */
    int formula;
    FILE *output;
} child;

static bool start(child *c, int formula)
{
    char number[16];
    char name[] = "test", *argument[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    *c = (child){.formula = formula, .output = tmpfile()};
    if (!c->output)
        return false;
    (void)snprintf(number, sizeof number, "%d", formula);
    (void)setenv("MD_TEST_FORMULA", number, 1);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(c->output), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(c->output), STDERR_FILENO);
    const int status = posix_spawn(&c->id, "/proc/self/exe", &actions, NULL, argument, environ);
    posix_spawn_file_actions_destroy(&actions);
    (void)unsetenv("MD_TEST_FORMULA");
    if (status == 0)
        return true;
    (void)fclose(c->output);
    *c = (child){0};
    return false;
}

static bool report(child *c, int status)
{
    const bool is_right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    char text[4096];
    printf("-- formula %d: %s\n", c->formula, is_right ? "right" : "FAILED");
    rewind(c->output);
    for (size_t n; (n = fread(text, 1, sizeof text, c->output)) > 0;)
        (void)fwrite(text, 1, n, stdout);
    (void)fflush(stdout);
    (void)fclose(c->output);
    *c = (child){0};
    return is_right;
}

/* Waits for one of them; false if it failed. */
static bool finish_one(child *all, int n)
{
    int status = 0;
    pid_t id;
    do
        id = waitpid(-1, &status, 0);
    while (id < 0 && errno == EINTR);
    for (int i = 0; i < n; i++)
        if (id > 0 && all[i].id == id)
            return report(&all[i], status);
    return false;
}

static child *free_place(child *all, int n)
{
    for (int i = 0; i < n; i++)
        if (all[i].id == 0)
            return &all[i];
    return NULL;
}

int processes_each_formula(int n)
{
    child all[MOST] = {0};
    const long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;
    const int most = half < 1 ? 1 : half > MOST ? MOST : (int)half;
    int n_failed = 0, n_running = 0;
    (void)fflush(stdout);
    for (int i = 0; i < n; i++) {
        if (n_running == most) {
            n_failed += !finish_one(all, most);
            n_running--;
        }
        const bool is_started = start(free_place(all, most), i);
        n_running += is_started;
        n_failed += !is_started;
    }
    for (; n_running > 0; n_running--)
        n_failed += !finish_one(all, most);
    return n_failed;
}
