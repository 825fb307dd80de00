/* A kernel that does not end cannot be stopped but with its process: the search runs in a helper. */
#include "tuning/command.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_LIMIT_MS = 10000, SILENCE_MS = 180000, MOST_HELPERS = 64, LINE = 16384 };

typedef struct helper {
    pid_t pid;
    int fd;
    char trying[128]; /* the variant whose first run is under way; "" */
    double since_us; /* of that, or of the last line */
    char line[LINE];
    size_t n;
} helper;

typedef struct guard {
    const cli_options *o;
    int (*take)(void *user, const char *text, size_t n_bytes);
    void *user;
    char exclude[8192];
} guard;

static void run_helper(const guard *g, int fd)
{
    char **argv = calloc((size_t)g->o->argc + 5, sizeof *argv);
    int n = 0;
    if (!argv)
        _exit(CLI_FAILED);
    argv[n++] = (char *)"mdctl";
    for (int i = 0; i < g->o->argc; i++)
        argv[n++] = g->o->argv[i];
    argv[n++] = (char *)"--worker";
    if (g->exclude[0]) {
        argv[n++] = (char *)"--exclude";
        argv[n++] = (char *)g->exclude;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read its lines */
    dup2(fd, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static bool start(helper *h, const guard *g)
{
    int ends[2];
    memset(h, 0, sizeof *h);
    fflush(stdout);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    h->pid = fork();
    if (h->pid == 0)
        run_helper(g, ends[1]);
    close(ends[1]);
    h->fd = ends[0];
    h->since_us = cli_now_us();
    return h->pid > 0;
}

static void take_line(helper *h, const guard *g)
{
    json_t *line = json_loadb(h->line, h->n, 0, NULL);
    const char *event = json_string_value(json_object_get(line, "event")),
               *variant = json_string_value(json_object_get(line, "variant"));
    h->since_us = cli_now_us();
    if (event && !strcmp(event, "try"))
        snprintf(h->trying, sizeof h->trying, "%s", variant ? variant : "");
    else if (event && !strcmp(event, "tried"))
        h->trying[0] = 0;
    else
        (void)g->take(g->user, h->line, h->n);
    json_decref(line);
    h->n = 0;
}

/* False at the end of the helper's output. */
static bool read_some(helper *h, const guard *g)
{
    char bytes[4096];
    const ssize_t n = read(h->fd, bytes, sizeof bytes);
    if (n <= 0)
        return n < 0 && errno == EINTR;
    for (ssize_t i = 0; i < n; i++) {
        if (h->n < LINE)
            h->line[h->n++] = bytes[i];
        if (bytes[i] == '\n')
            take_line(h, g);
    }
    return true;
}

/* Whether the helper came to its end by itself. */
static bool follow(helper *h, const guard *g)
{
    const double limit_us = 1e3 * (g->o->patience > 0 ? g->o->patience : DEFAULT_LIMIT_MS);
    for (;;) {
        const double left_us = (h->trying[0] ? limit_us : 1e3 * SILENCE_MS) - (cli_now_us() - h->since_us);
        struct pollfd p = {.fd = h->fd, .events = POLLIN};
        const int ready = left_us > 0.0 ? poll(&p, 1, (int)(left_us * 1e-3) + 1) : 0;
        if (ready == 0 && left_us <= 0.0)
            return false;
        if (ready > 0 && !read_some(h, g))
            return true;
    }
}

static bool exclude(guard *g, const char *variant)
{
    const size_t n = strlen(g->exclude);
    const int more = snprintf(g->exclude + n, sizeof g->exclude - n, "%s%s", n ? ";" : "", variant);
    return more > 0 && (size_t)more < sizeof g->exclude - n;
}

/* One helper's life. Its exit status; -1: another one should go on. */
static int run_once(guard *g)
{
    helper h;
    int state = 0;
    if (!start(&h, g))
        return cli_fail("cannot start a helper process: %s", strerror(errno));
    cli_interrupts_to(h.pid);
    const bool has_ended = follow(&h, g);
    cli_interrupts_to(0);
    if (!has_ended)
        kill(h.pid, SIGKILL);
    while (waitpid(h.pid, &state, 0) < 0 && errno == EINTR)
        ;
    close(h.fd);
    if (has_ended && WIFEXITED(state))
        return WEXITSTATUS(state);
    cli_progress(NULL);
    if (WIFSIGNALED(state) && WTERMSIG(state) == SIGINT) { /* before it could say more */
        cli_fail("interrupted");
        return CLI_INTERRUPTED;
    }
    if (!h.trying[0])
        return cli_fail(has_ended ? "the helper process was ended by signal %d"
                                  : "the helper process says nothing any more (%d)",
                        WTERMSIG(state));
    fprintf(stderr, "mdctl: %s %s; it is not used any more\n", h.trying,
            has_ended ? "ended its process" : "does not end");
    return exclude(g, h.trying) ? -1 : cli_fail("too many variants that do not end");
}

int tune_guard(const cli_options *o, int (*take)(void *user, const char *text, size_t n_bytes), void *user)
{
    guard g = {.o = o, .take = take, .user = user};
    if (o->exclude)
        snprintf(g.exclude, sizeof g.exclude, "%s", o->exclude);
    for (int i = 0; i < MOST_HELPERS; i++) {
        const int status = run_once(&g);
        if (status >= 0)
            return status;
    }
    return cli_fail("%d helper processes did not come to an end", (int)MOST_HELPERS);
}
