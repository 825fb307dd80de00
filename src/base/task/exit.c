/* The process-wide list of what to do at the end of the process, the signal handlers, and the thread that serves them.
 *
 * Handlers use atomics, a semaphore, poll, getpid and sigaction only. The thread is started with the first watch and
 * ended with the last. A child after fork has no such thread: there exit() does the work itself, and SIGTERM does as
 * by default. */
#include "base/task/process.h"

#include "base/status.h"
#include "base/task/fork.h"
#include "base/task/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread that is interrupted by SIGTERM waits so long for the end of the process: what it waited for in a system
 * call must not seem to have come. Then it goes on, in case it holds a lock that is needed. exit() waits longer. */
enum { LONGEST_IN_HANDLER_MS = 250, LONGEST_IN_EXIT_MS = 2000 };

enum { RUN = 1, END = 2, STOP = 4 }; /* what the thread is asked for */

typedef struct watch {
    struct watch *next;
    void (*run)(void *user);
    void *user;
} watch;

typedef struct used_name {
    struct used_name *next;
    int32_t n;
    char text[];
} used_name;

/* Signals, exit() and paths of files are of the process, so this is, too. */
static struct process {
    pthread_mutex_t lock_of_thread; /* held while the thread is started or ended; taken first */
    pthread_mutex_t lock; /* guards the lists; held while they are run */
    watch *watches;
    used_name *names; /* grows only: no name is used twice, so none is freed */
    pthread_t thread;
    _Atomic int64_t owner; /* the process whose thread it is; 0: there is none */
    sem_t wake;
    _Atomic uint32_t wanted; /* RUN, END and STOP */
    _Atomic uint32_t n_asked, n_served;
} process;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- Asking, also from signal handlers */

static uint32_t ask(uint32_t what)
{
    atomic_fetch_or(&process.wanted, what); /* before it is counted: a thread that sees the count sees this, too */
    const uint32_t ticket = atomic_fetch_add(&process.n_asked, 1) + 1;
    sem_post(&process.wake);
    return ticket;
}

static void wait_for(uint32_t ticket, int longest_ms)
{
    for (int ms = 0; ms < longest_ms && (int32_t)(atomic_load(&process.n_served) - ticket) < 0; ms++)
        (void)poll(NULL, 0, 1);
}

static bool has_thread(void)
{
    return atomic_load(&process.owner) == getpid();
}

static void end_by(int number)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(number, &standard, NULL);
    raise(number); /* the signal is blocked in its own handler: it comes when that returns */
}

static void hear(int number)
{
    const int before = errno;
    if (has_thread() && number == SIGTERM)
        wait_for(ask(RUN | END), LONGEST_IN_HANDLER_MS);
    else if (has_thread())
        (void)ask(RUN);
    else if (number == SIGTERM)
        end_by(number);
    errno = before;
}

/* ---- Signals */

static bool is_ours(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == hear;
}

/* False if the program does something else at this signal. */
static bool take_signal(int number)
{
    struct sigaction now, ours = {.sa_handler = hear, .sa_flags = SA_RESTART | SA_ONSTACK};
    if (is_ours(number))
        return true;
    if (sigaction(number, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
        return false;
    sigfillset(&ours.sa_mask);
    return sigaction(number, &ours, NULL) == 0;
}

/* Only SIGTERM: by default the others end the process, and whoever sends them does not want that. */
static void give_signal_back(void)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    if (is_ours(SIGTERM))
        sigaction(SIGTERM, &standard, NULL);
}

/* Sends SIGTERM again, to whoever handles it now. Returns where it ends nothing: in process 1 of a container. */
static void end_process(void)
{
    sigset_t this, before;
    sigemptyset(&this);
    sigaddset(&this, SIGTERM);
    const bool is_default = is_ours(SIGTERM);
    if (is_default) {
        give_signal_back();
        pthread_sigmask(SIG_UNBLOCK, &this, &before);
    }
    kill(getpid(), SIGTERM);
    if (is_default) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)take_signal(SIGTERM);
    }
}

/* ---- The thread */

static void run_all(void)
{
    pthread_mutex_lock(&process.lock);
    for (watch *w = process.watches; w; w = w->next)
        w->run(w->user);
    pthread_mutex_unlock(&process.lock);
}

static void *serve(void *user)
{
    (void)user;
    for (;;) {
        while (sem_wait(&process.wake) != 0) {
        }
        const uint32_t n = atomic_load(&process.n_asked), wanted = atomic_exchange(&process.wanted, 0);
        if (wanted & RUN)
            run_all();
        if (wanted & END)
            end_process();
        atomic_store(&process.n_served, n);
        if (wanted & STOP)
            return NULL;
    }
}

static bool start_thread(void)
{
    if (has_thread())
        return true;
    atomic_store(&process.wanted, 0); /* forgets what the parent was asked for */
    if (!md_thread_start(&process.thread, "md-exit", serve, NULL))
        return false;
    atomic_store(&process.owner, getpid());
    return true;
}

static void stop_thread(void)
{
    give_signal_back();
    if (!has_thread())
        return;
    atomic_store(&process.owner, 0);
    (void)ask(STOP);
    pthread_join(process.thread, NULL);
}

/* If the thread does not end in time, exit() was called with a lock held that it needs. */
static void at_exit(void)
{
    if (has_thread())
        wait_for(ask(RUN), LONGEST_IN_EXIT_MS);
    else
        run_all();
}

/* ---- Watches */

static void set_up(void)
{
    md_mutex_init(&process.lock_of_thread);
    md_mutex_init(&process.lock);
    (void)sem_init(&process.wake, 0, 0);
    (void)atexit(at_exit);
    md_exit_stay_loaded();
}

/* 0 if memory is short. */
static int32_t count_name(const char *name)
{
    used_name *u = process.names;
    while (u && strcmp(u->text, name))
        u = u->next;
    if (!u) {
        const size_t n = strlen(name) + 1;
        u = malloc(sizeof *u + n);
        if (!u)
            return 0;
        *u = (used_name){.next = process.names};
        memcpy(u->text, name, n);
        process.names = u;
    }
    return ++u->n;
}

static md_status add(md_exit_watched *out, const md_exit_watch_options *o)
{
    watch *w = malloc(sizeof *w);
    pthread_mutex_lock(&process.lock);
    out->number = w ? count_name(o->name) : 0;
    if (out->number) {
        *w = (watch){process.watches, o->run, o->user};
        process.watches = w;
    } else {
        free(w);
    }
    pthread_mutex_unlock(&process.lock);
    return out->number ? MD_OK : md_fail_memory();
}

/* True if it was the last one. */
static bool drop(const void *user)
{
    pthread_mutex_lock(&process.lock);
    watch **at = &process.watches;
    while (*at && (*at)->user != user)
        at = &(*at)->next;
    watch *found = *at;
    if (found)
        *at = found->next;
    const bool is_last = found && !process.watches;
    pthread_mutex_unlock(&process.lock);
    free(found);
    return is_last;
}

md_status md_exit_watch(md_exit_watched *out, const md_exit_watch_options *options)
{
    pthread_once(&once, set_up);
    pthread_mutex_lock(&process.lock_of_thread);
    const md_status status = add(out, options);
    if (status == MD_OK && start_thread()) {
        (void)take_signal(SIGTERM);
        out->hears = options->signal && take_signal(options->signal);
    }
    pthread_mutex_unlock(&process.lock_of_thread);
    return status;
}

void md_exit_leave(void *user)
{
    pthread_mutex_lock(&process.lock_of_thread);
    if (drop(user))
        stop_thread();
    pthread_mutex_unlock(&process.lock_of_thread);
}

void md_exit_stay_loaded(void)
{
    Dl_info us;
    if (dladdr((void *)(uintptr_t)md_exit_stay_loaded, &us) && us.dli_fname)
        (void)dlopen(us.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE); /* a program is never unloaded */
}
