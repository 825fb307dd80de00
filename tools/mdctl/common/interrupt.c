/* Ctrl-C: says what was kept, and ends with status 130. A thread waits for the signal, so that saying it is not
 * bound by what a signal handler may do. */
#include "common/cli.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the next two */
static md_context *open_context; /* NULL: none */
static pid_t helper; /* a process that answers instead; 0: none */

static void say_what_is_kept(void)
{
    md_store_counters c;
    const char *path = open_context ? md_store_path(open_context) : "";
    if (!open_context)
        fputs("mdctl: interrupted\n", stderr);
    else if (!path[0] || md_store_count(&c, open_context) != MD_OK)
        fputs("mdctl: interrupted; nothing is kept, since there is no store\n", stderr);
    else
        fprintf(stderr, "mdctl: interrupted; %llu kernels and tuned results of this run are kept in %s\n",
                (unsigned long long)c.written, path);
}

static int ends[2]; /* the handler writes a byte, the thread reads it */

static void tell(int number)
{
    (void)number;
    (void)!write(ends[1], "", 1);
}

static void *wait_for_interrupts(void *unused)
{
    (void)unused;
    for (char byte; read(ends[0], &byte, 1) == 1;) {
        pthread_mutex_lock(&lock);
        if (helper > 0) {
            (void)kill(helper, SIGINT); /* this process ends when the helper has */
            pthread_mutex_unlock(&lock);
            continue;
        }
        if (cli_is_terminal(stderr))
            fputs("\r\033[K", stderr);
        say_what_is_kept();
        if (ftrylockfile(stdout) == 0)
            fflush(stdout);
        _exit(CLI_INTERRUPTED); /* the other threads may be anywhere: none is waited for */
    }
    return NULL;
}

/* A handler and not sigwait: libraries that make threads before main leave the signal open there. */
void cli_watch_interrupts(void)
{
    pthread_t thread;
    struct sigaction before;
    const struct sigaction wanted = {.sa_handler = tell, .sa_flags = SA_RESTART};
    if (sigaction(SIGINT, NULL, &before) != 0 || before.sa_handler == SIG_IGN || pipe2(ends, O_CLOEXEC) != 0)
        return;
    if (pthread_create(&thread, NULL, wait_for_interrupts, NULL) != 0)
        return;
    pthread_detach(thread);
    sigaction(SIGINT, &wanted, NULL);
}

void cli_interrupts_to(pid_t process)
{
    pthread_mutex_lock(&lock);
    helper = process;
    pthread_mutex_unlock(&lock);
}

md_status cli_open_context(md_context **out, const cli_options *o)
{
    const md_status s = md_context_create(out, &o->context);
    pthread_mutex_lock(&lock);
    if (s == MD_OK)
        open_context = *out;
    pthread_mutex_unlock(&lock);
    return s;
}

void cli_close_context(md_context **context)
{
    pthread_mutex_lock(&lock);
    open_context = NULL;
    pthread_mutex_unlock(&lock);
    md_context_destroy(context);
}
