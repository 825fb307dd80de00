/* Takes the state of this process, and says what has changed. */
#include "device/process/process_state.h"
#include "support/check.h"

#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

unsigned process_float_mode(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#else
    return (unsigned)fegetround();
#endif
}

void process_flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u);
#endif
}

typedef struct thread_facts {
    bool is_alive, blocks_all;
    bool is_changing; /* it starts, or starts another: the C library blocks signals of its own for a moment */
    char name[32];
} thread_facts;

/* As /proc says. A thread that is ending is listed for a while. */
static thread_facts facts_of(const char *id)
{
    char path[64], line[256], letter = 'X', name[32] = "";
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", id);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Name: %31[^\n]", name) != 1 && sscanf(line, "State: %c", &letter) != 1 &&
            sscanf(line, "SigBlk: %llx", &blocked) == 1)
            break;
    if (f)
        fclose(f);
    thread_facts out = {.is_changing = (blocked & UINT64_C(0x180000000)) != 0,
                        .is_alive = letter != 'X' && letter != 'Z',
                        /* SIGKILL, SIGSTOP and two of the C library's own cannot be blocked */
                        .blocks_all = (blocked | UINT64_C(0x180040100)) == UINT64_MAX};
    memcpy(out.name, name, sizeof out.name);
    return out;
}

/* False if some thread is just changing. */
static bool count_threads(process_state *out)
{
    bool is_settled = true;
    char own[24];
    DIR *d = opendir("/proc/self/task");
    out->n_threads = out->n_threads_with_signals = 0;
    snprintf(own, sizeof own, "%d", (int)getpid());
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        const thread_facts facts = facts_of(e->d_name);
        is_settled &= !facts.is_alive || !facts.is_changing;
        out->n_threads += facts.is_alive;
        if (facts.is_alive && strcmp(e->d_name, own) != 0 && !facts.blocks_all) {
            out->n_threads_with_signals++;
            memcpy(out->one_with_signals, facts.name, sizeof out->one_with_signals);
        }
    }
    if (d)
        closedir(d);
    return is_settled;
}

static void take_threads(process_state *out)
{
    for (int i = 0; i < 5000 && !count_threads(out); i++)
        usleep(1000);
}

static uint64_t digest_of_environment(void)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (char **e = environ; e && *e; e++)
        for (const char *c = *e; *c; c++)
            h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    return h;
}

void process_state_take(process_state *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 1; i < PROCESS_SIGNALS; i++)
        if (sigaction(i, NULL, &out->action[i]) != 0)
            memset(&out->action[i], 0, sizeof out->action[i]);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &out->mask), 0);
    assert_int_equal(sigaltstack(NULL, &out->stack), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(getitimer(i, &out->timer[i]), 0);
    for (int i = 0; i < PROCESS_LIMITS; i++)
        assert_int_equal(getrlimit(i, &out->limit[i]), 0);
    out->mask_of_files = umask(0);
    (void)umask(out->mask_of_files);
    assert_non_null(getcwd(out->folder, sizeof out->folder));
    assert_int_equal(prctl(PR_GET_NAME, out->name), 0);
    snprintf(out->locale, sizeof out->locale, "%s", setlocale(LC_ALL, NULL));
    out->environment = digest_of_environment();
    out->float_mode = process_float_mode();
    assert_int_equal(sched_getaffinity(0, sizeof out->affinity, &out->affinity), 0);
    out->priority = getpriority(PRIO_PROCESS, 0);
    out->policy = sched_getscheduler(0);
    out->dumpable = prctl(PR_GET_DUMPABLE);
    assert_int_equal(prctl(PR_GET_PDEATHSIG, &out->death_signal), 0);
    for (int i = 0; i < PROCESS_DESCRIPTORS; i++)
        out->descriptor[i] = fcntl(i, F_GETFD);
    take_threads(out);
}

static void equal_signals(const process_state *a, const process_state *b)
{
    for (int i = 1; i < PROCESS_SIGNALS; i++) {
        if (a->action[i].sa_handler != b->action[i].sa_handler || a->action[i].sa_flags != b->action[i].sa_flags)
            fail_msg("the handler of signal %d", i);
        for (int k = 1; k < PROCESS_SIGNALS; k++)
            if (sigismember(&a->action[i].sa_mask, k) != sigismember(&b->action[i].sa_mask, k))
                fail_msg("the mask of the handler of signal %d", i);
    }
    for (int i = 1; i < PROCESS_SIGNALS; i++)
        if (sigismember(&a->mask, i) != sigismember(&b->mask, i))
            fail_msg("the mask of signal %d", i);
    if (a->stack.ss_sp != b->stack.ss_sp || a->stack.ss_size != b->stack.ss_size)
        fail_msg("the stack of signals");
    if (memcmp(a->timer, b->timer, sizeof a->timer))
        fail_msg("a timer");
}

static void equal_descriptors(const process_state *a, const process_state *b, process_phase phase)
{
    for (int i = 0; i < PROCESS_DESCRIPTORS; i++) {
        if (a->descriptor[i] == b->descriptor[i])
            continue;
        if (a->descriptor[i] >= 0 || phase == PROCESS_ENDED || !(b->descriptor[i] & FD_CLOEXEC)) {
            char path[32], what[256] = "";
            snprintf(path, sizeof path, "/proc/self/fd/%d", i);
            (void)!readlink(path, what, sizeof what - 1);
            fail_msg("descriptor %d (%s): flags %d, before %d", i, what, b->descriptor[i], a->descriptor[i]);
        }
    }
}

/* A thread that was joined may be seen until the kernel has removed it. */
static void equal_threads(const process_state *a, process_phase phase)
{
    process_state now;
    bool is_equal = false;
    for (int i = 0; i < 5000 && !is_equal; i++) {
        take_threads(&now);
        is_equal = a->n_threads_with_signals == now.n_threads_with_signals &&
                   (phase != PROCESS_ENDED || a->n_threads == now.n_threads);
        if (!is_equal)
            usleep(1000);
    }
    if (!is_equal)
        fail_msg("%s: %d threads, %d of them take signals (one is named '%s'); before %d and %d",
                 phase == PROCESS_LIVES ? "while a context lives" : "after its end", now.n_threads,
                 now.n_threads_with_signals, now.one_with_signals, a->n_threads, a->n_threads_with_signals);
}

void process_state_equal(const process_state *a, const process_state *b, process_phase phase)
{
    equal_signals(a, b);
    equal_descriptors(a, b, phase);
    for (int i = 0; i < PROCESS_LIMITS; i++)
        if (a->limit[i].rlim_cur != b->limit[i].rlim_cur || a->limit[i].rlim_max != b->limit[i].rlim_max)
            fail_msg("limit %d", i);
    assert_int_equal(a->mask_of_files, b->mask_of_files);
    assert_string_equal(a->folder, b->folder);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->locale, b->locale);
    assert_int_equal(a->environment, b->environment);
    assert_int_equal(a->float_mode, b->float_mode);
    assert_true(CPU_EQUAL(&a->affinity, &b->affinity));
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->policy, b->policy);
    assert_int_equal(a->dumpable, b->dumpable);
    assert_int_equal(a->death_signal, b->death_signal);
    equal_threads(a, phase);
}
