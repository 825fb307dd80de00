/* The floor that memory-bound kernels are held against: memcpy by several threads. */
#ifndef MDCTL_COPIER_H
#define MDCTL_COPIER_H

#include <stddef.h>

typedef struct copier copier;

/** Threads that sleep until there is work, the caller included; NULL when there is no memory or thread for it. */
copier *copier_create(int threads);
void copier_destroy(copier *c);
/** Copies n bytes, each thread an equal piece, and returns the microseconds from the moment that all threads are
 * awake. */
double copier_run(copier *c, void *to, const void *from, size_t n);

#endif
