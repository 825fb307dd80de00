/* Starts threads and moves them between processors. */
#include "base/task/thread.h"

#include <fenv.h>
#include <sched.h>
#include <semaphore.h>

void md_thread_block(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

void md_thread_unblock(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

bool md_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *context)
{
    sigset_t before;
    md_thread_block(&before);
    bool started = pthread_create(out, NULL, run, context) == 0;
    md_thread_unblock(&before);
#ifdef __linux__
    if (started)
        pthread_setname_np(*out, name);
#else
    (void)name;
#endif
    return started;
}

static void *wait_for_end(void *end)
{
    while (sem_wait(end) != 0) {
    }
    return NULL;
}

int32_t md_thread_count_room(void)
{
    sem_t end;
    pthread_t thread[MD_THREAD_ROOM];
    int32_t n = 0;
    sem_init(&end, 0, 0);
    while (n < MD_THREAD_ROOM && md_thread_start(&thread[n], "md-room", wait_for_end, &end))
        n++;
    for (int32_t i = 0; i < n; i++)
        sem_post(&end);
    for (int32_t i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    sem_destroy(&end);
    return n;
}

void md_thread_default_floats(void)
{
    (void)fesetenv(FE_DFL_ENV);
}

#ifdef __linux__

md_thread_processors md_thread_allowed(void)
{
    md_thread_processors p = {.is_known = false};
    _Static_assert(sizeof p.mask == sizeof(cpu_set_t), "the mask holds a cpu_set_t");
    p.is_known = sched_getaffinity(0, sizeof p.mask, (cpu_set_t *)p.mask) == 0;
    return p;
}

void md_thread_allow(pthread_t thread, const md_thread_processors *p)
{
    if (p->is_known)
        (void)pthread_setaffinity_np(thread, sizeof p->mask, (const cpu_set_t *)p->mask);
}

int32_t md_thread_cpu(void)
{
    return sched_getcpu();
}

/* A thread moves when its affinity excludes its processor for a moment. */
static void move_to(const cpu_set_t *there, const cpu_set_t *allowed)
{
    if (sched_setaffinity(0, sizeof *there, there) == 0)
        sched_setaffinity(0, sizeof *allowed, allowed);
}

void md_thread_visit_cpu(int32_t n)
{
    cpu_set_t allowed, one;
    int32_t here = sched_getcpu();
    if (here < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return; /* also with more than CPU_SETSIZE processors */
    int32_t cpu = here;
    for (int32_t steps = n % CPU_COUNT(&allowed); steps > 0; steps--) {
        do
            cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(cpu, &allowed));
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (cpu != here)
        move_to(&one, &allowed);
}

void md_thread_leave_cpu(int32_t cpu)
{
    cpu_set_t allowed;
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
        return;
    cpu_set_t others = allowed;
    CPU_CLR(cpu, &others);
    move_to(&others, &allowed);
}

#else

md_thread_processors md_thread_allowed(void)
{
    return (md_thread_processors){.is_known = false};
}

void md_thread_allow(pthread_t thread, const md_thread_processors *p)
{
    (void)thread, (void)p;
}

int32_t md_thread_cpu(void)
{
    return -1;
}

void md_thread_visit_cpu(int32_t n)
{
    (void)n;
}

void md_thread_leave_cpu(int32_t cpu)
{
    (void)cpu;
}

#endif
