/* Ranks of a test: gathers through slots in shared memory, with a deadline that names who is missing. */
#include "support/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A failed assertion goes on with the next test of the program, which is no rank's. */
static bool is_rank;

void ranks_open(ranks *r, int32_t n)
{
    if (is_rank)
        _exit(1);
    *r = (ranks){.n = n, .rank = -1};
    r->shared =
        mmap(NULL, sizeof *r->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->shared == MAP_FAILED)
        abort();
}

void ranks_close(ranks *r)
{
    munmap(r->shared, sizeof *r->shared);
}

void ranks_run(ranks *r, void (*work)(ranks *r, void *user), void *user)
{
    fflush(NULL);
    for (int32_t i = 0; i < r->n; i++) {
        r->pid[i] = fork();
        if (r->pid[i] != 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        r->rank = i;
        is_rank = true;
        work(r, user);
        fflush(NULL);
        _exit(0);
    }
}

int32_t ranks_wait(ranks *r)
{
    int32_t bad = 0;
    for (int32_t i = 0; i < r->n; i++) {
        int status = 0;
        if (waitpid(r->pid[i], &status, 0) < 0 || status != 0)
            bad |= 1 << i;
    }
    return bad;
}

/* The first rank whose counter is below `n` at the end; -1: none. */
static int32_t wait_for_all(const ranks *r, const _Atomic int32_t *counter, int32_t n, double end_s)
{
    for (int32_t i = 0, spins = 0; i < r->n;) {
        if (atomic_load(&counter[i]) >= n) {
            i++;
            continue;
        }
        if (now_s() > end_s)
            return i;
        if (++spins > 50)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return -1;
}

static int32_t gather(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why)
{
    ranks *r = user;
    ranks_shared *s = r->shared;
    const double end_s = now_s() + seconds;
    const int32_t number = atomic_load(&s->arrived[r->rank]) + 1;
    if (r->dies_at == number)
        _exit(0);
    int32_t late = wait_for_all(r, s->left, number - 1, end_s); /* slots may be written again */
    if (late < 0 && n_bytes <= RANKS_BYTES) {
        memcpy(s->slot[r->rank], mine, n_bytes);
        if (r->change)
            r->change(s->slot[r->rank], number, n_bytes);
        atomic_store(&s->arrived[r->rank], number);
        late = wait_for_all(r, s->arrived, number, end_s);
    }
    if (late >= 0 || n_bytes > RANKS_BYTES) {
        snprintf(why, MD_WHY_BYTES, "rank %d did not come within its time (gather %d of %zu bytes)", (int)late,
                 (int)number, n_bytes);
        return 1;
    }
    for (int32_t i = 0; i < r->n; i++)
        memcpy((char *)all + (size_t)i * n_bytes, s->slot[i], n_bytes);
    atomic_store(&s->left[r->rank], number);
    return 0;
}

md_exchange ranks_exchange(ranks *r, double seconds)
{
    return (md_exchange){.rank = r->rank, .n_ranks = r->n, .seconds = seconds, .gather = gather, .user = r};
}
