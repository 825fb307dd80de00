/* Random edges of sizes, for programs that fuzz by themselves: PROGRAM [SEED [ROUNDS [SECONDS]]]. Without SECONDS the
 * rounds alone count, and a seed gives the same run everywhere. */
#ifndef MD_TESTS_FUZZ_RANDOM_H
#define MD_TESTS_FUZZ_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct fuzz_run {
    uint64_t random;
    int64_t round, rounds;
    time_t end; /* 0: none */
} fuzz_run;

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t fuzz_next(fuzz_run *f)
{
    uint64_t z = (f->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline int32_t fuzz_below(fuzz_run *f, int32_t n)
{
    return (int32_t)(fuzz_next(f) % (uint64_t)n);
}

static inline fuzz_run fuzz_start(int argc, char **argv, int64_t rounds)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int64_t seconds = argc > 3 ? strtoll(argv[3], NULL, 0) : 0;
    fuzz_run f = {.random = seed, .rounds = argc > 2 ? strtoll(argv[2], NULL, 0) : rounds};
    if (seconds > 0)
        f.end = time(NULL) + seconds;
    printf("seed %llu, %lld rounds, %lld seconds\n", (unsigned long long)seed, (long long)f.rounds, (long long)seconds);
    return f;
}

/** True while there is another round. With a time to run, rounds do not count. */
static inline bool fuzz_goes_on(fuzz_run *f)
{
    f->round++;
    return f->end ? time(NULL) < f->end : f->round <= f->rounds;
}

/** Within 2 of 0, 2^31, 2^32, 2^53, 2^62, or 2^63; now and then a small or any size. Never negative. */
static inline int64_t fuzz_size(fuzz_run *f)
{
    static const uint64_t edge[] = {
        0, 1u << 31, UINT64_C(1) << 32, UINT64_C(1) << 53, UINT64_C(1) << 62, UINT64_C(1) << 63};
    const int32_t kind = fuzz_below(f, 10);
    if (kind < 2)
        return 1 + fuzz_below(f, 300);
    if (kind < 4)
        return (int64_t)(fuzz_next(f) >> (1 + fuzz_below(f, 62)));
    const uint64_t at = edge[fuzz_below(f, sizeof edge / sizeof *edge)], v = at - 2 + (uint64_t)fuzz_below(f, 5);
    return v > INT64_MAX ? (at ? INT64_MAX : 0) : (int64_t)v;
}

#endif
