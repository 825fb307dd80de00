/* What all ops of a context share below the public layer. */
#ifndef MD_DISPATCH_RUNTIME_H
#define MD_DISPATCH_RUNTIME_H

#include "build/build.h"

#include <pthread.h>

/* A block of memory lent for the length of a call: temporaries between stages, copies of aliased inputs. */
typedef struct md_ds_block {
    void *p;
    size_t n_bytes;
    struct md_ds_block *next;
} md_ds_block;

typedef struct md_ds_runtime {
    md_dev *dev;
    md_bd *builder;
    const md_log *log;
    void *(*alloc)(void *user, size_t n_bytes, size_t alignment); /* NULL: the device's */
    void (*free)(void *user, void *p, size_t n_bytes);
    void *alloc_user;
    pthread_mutex_t lock_of_blocks;
    md_ds_block *blocks; /* idle ones, most recently used first */
    _Atomic uint64_t launches; /* numbers the stages run, for MD_LOG=debug and tests */
} md_ds_runtime;

void md_ds_runtime_init(md_ds_runtime *runtime);
void md_ds_runtime_finish(md_ds_runtime *runtime);

/** Lends at least n_bytes, 64-byte aligned. n_bytes 0 gives a NULL block. */
md_status md_ds_borrow(md_ds_block **out, md_ds_runtime *runtime, size_t n_bytes);
void md_ds_give_back(md_ds_runtime *runtime, md_ds_block *block); /* NULL allowed */

#endif
