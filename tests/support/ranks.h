/* Processes that exchange bytes through shared memory: the ranks of a test. */
#ifndef MD_TESTS_SUPPORT_RANKS_H
#define MD_TESTS_SUPPORT_RANKS_H

#include <md/md.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RANKS_MOST = 16, RANKS_BYTES = 1 << 22 };

/* Shared by all; zeroed. */
typedef struct ranks_shared {
    _Atomic int32_t arrived[RANKS_MOST], left[RANKS_MOST]; /* gathers that the rank has begun; ended */
    int32_t result[RANKS_MOST][8]; /* for the test: what each rank found */
    uint64_t digest[RANKS_MOST][2];
    double seconds[RANKS_MOST];
    char message[RANKS_MOST][512];
    char slot[RANKS_MOST][RANKS_BYTES];
} ranks_shared;

typedef struct ranks {
    int32_t n;
    ranks_shared *shared;
    pid_t pid[RANKS_MOST];
    int32_t rank; /* of this process; -1: the parent */
    int32_t dies_at; /* this process ends at its gather of this number, from 1; 0: never */
    void (*change)(void *mine, int32_t gather, size_t n_bytes); /* before it is sent; NULL */
} ranks;

void ranks_open(ranks *r, int32_t n);
/** Forks them; each runs `work` and ends. A rank that fails an assertion ends with status 1. */
void ranks_run(ranks *r, void (*work)(ranks *r, void *user), void *user);
/** Waits for all. Returns a bit for each rank that did not end with status 0. */
int32_t ranks_wait(ranks *r);
void ranks_close(ranks *r);
/** This process's exchange. */
md_exchange ranks_exchange(ranks *r, double seconds);

#endif
