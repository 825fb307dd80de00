/* Compiled kernels in the store, by the digest of everything that reaches the compiler. */
#ifndef MD_BUILD_STORED_H
#define MD_BUILD_STORED_H

#include "device/device.h"
#include "store/store.h"

/* What the store holds for a text: a binary, or why it does not compile. */
typedef struct md_bd_stored {
    void *bytes; /* malloc'ed, holds all */
    const void *binary; /* NULL: it does not compile */
    size_t n_binary;
    const char *failure;
} md_bd_stored;

/** NOT_FOUND if the store has nothing. The caller frees `bytes`. */
md_status md_bd_stored_find(md_bd_stored *out, md_sr *store, md_digest128 digest, const char *entry);
/** Stores a binary, or (binary NULL) the failure. True if it was written. */
bool md_bd_stored_put(md_sr *store, md_digest128 digest, const char *entry, const void *binary, size_t n_binary,
                      const char *failure);
/** Removes an entry that does not load. */
void md_bd_stored_discard(md_sr *store, md_digest128 digest, const char *entry);
/** True if this failure would repeat: the compiler refused the text. A lack of memory or of a compiler is not final. */
bool md_bd_stored_is_final(const md_dev *dev, md_status status);

#endif
