/* Compiled kernels that outlive the process: binaries by the digest of all that went into the compiler. */
#ifndef MD_BUILD_KEPT_H
#define MD_BUILD_KEPT_H

#include "device/device.h"
#include "store/store.h"

/* What is kept of a text: a binary, or why there is none. */
typedef struct md_bd_kept {
    void *bytes; /* malloc'ed, holds all */
    const void *binary; /* NULL: it does not compile */
    size_t n_binary;
    const char *failure;
} md_bd_kept;

/** NOT_FOUND where nothing is kept. Free `bytes`. */
md_status md_bd_kept_find(md_bd_kept *out, md_sr *store, md_digest128 digest, const char *entry);
/** Keeps a binary, or (binary NULL) the failure, where the store can; whether it did. */
bool md_bd_kept_put(md_sr *store, md_digest128 digest, const char *entry, const void *binary, size_t n_binary,
                    const char *failure);
/** Takes one away that does not load. */
void md_bd_kept_discard(md_sr *store, md_digest128 digest, const char *entry);
/** Whether this failure would come again: a text that its compiler refuses, not a machine without memory or compiler. */
bool md_bd_kept_is_final(const md_dev *dev, md_status status);

#endif
