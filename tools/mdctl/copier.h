/* The floor that memory-bound kernels are held against: memcpy by several threads. */
#ifndef MDCTL_COPIER_H
#define MDCTL_COPIER_H

#include <stddef.h>

typedef struct copier copier;

/** Threads that wait for work, the caller included; NULL when there is no memory or thread for it. */
copier *copier_create(int threads);
void copier_destroy(copier *c);
/** Copies n bytes, each thread an equal piece; done when it returns. */
void copier_run(copier *c, void *to, const void *from, size_t n);

#endif
