/* CMocka with what it needs before it, and small helpers of all tests. */
#ifndef MD_TESTS_SUPPORT_CHECK_H
#define MD_TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <md/md.h>

/** Fails with the library's message. */
#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        md_status status_ = (call);                                                                                    \
        if (status_ != MD_OK)                                                                                          \
            fail_msg("%s: %s: %s", #call, md_status_name(status_), md_last_error());                                   \
    } while (0)

/** Fails unless the call gives `code` and its message holds `part`. */
#define assert_fails(call, code, part)                                                                                 \
    do {                                                                                                               \
        md_status status_ = (call);                                                                                    \
        if (status_ != (code) || !strstr(md_last_error(), (part)))                                                     \
            fail_msg("%s: %s: %s; expected %s with \"%s\"", #call, md_status_name(status_), md_last_error(),           \
                     md_status_name(code), (part));                                                                    \
    } while (0)

/* splitmix64 (Steele, Lea, Flood 2014): small, and good enough for test data. */
static inline uint64_t check_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/** The seed of a random test: MD_TEST_SEED, else a fixed one; printed, so that a failure can be repeated. */
static inline uint64_t check_seed(void)
{
    const char *text = getenv("MD_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20260801;
    printf("seed: MD_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif
