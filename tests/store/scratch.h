/* A folder for one test, and what is done to stores in it. */
#ifndef MD_TESTS_STORE_SCRATCH_H
#define MD_TESTS_STORE_SCRATCH_H

#include "store/store.h"

#include <pthread.h>

typedef struct scratch {
    char folder[4096], root[4200]; /* root: "<folder>/store", not made yet */
    char message[1200]; /* the last one that a store logged */
    int n_warnings;
    pthread_mutex_t lock; /* of both */
    md_log log;
} scratch;

int scratch_setup(void **state);
int scratch_teardown(void **state);

/** A store in the scratch's root, in an environment of that name. */
md_sr *scratch_open(scratch *s, const char *environment);
/** The path of an entry's file. */
void scratch_path(char out[4400], const scratch *s, const char *environment, const char *kind, const char *key);
/** Runs a shell command; fails the test where it fails. */
void scratch_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** Writes an entry whose payload is text; reads it, and compares. */
void scratch_put(md_sr *store, const char *key, const char *text);
void scratch_expect(md_sr *store, const char *key, const char *text); /* NULL: there must be none */
/** Forks n processes that return be(user, i); fails the test unless all return 0. */
void scratch_crowd(int n, int (*be)(void *user, int i), void *user);

#endif
