/* Bytes of an entry's file: a header, the key, the payload. */
#ifndef MD_STORE_ENTRY_H
#define MD_STORE_ENTRY_H

#include "base/hash.h"

#include <md/md.h>

typedef struct md_sr_entry {
    const char *key; /* "kind key", not terminated */
    size_t n_key;
    const void *payload;
    size_t n_payload;
} md_sr_entry; /* points into the bytes */

/** Packs an entry; *out is malloc'ed. */
md_status md_sr_entry_pack(void **out, size_t *n, md_digest128 environment, const char *key, const void *payload,
                           size_t n_payload);
/** NULL if the bytes are an entry of that environment and key (NULL: any), else what is wrong. Safe for any bytes. */
const char *md_sr_entry_read(md_sr_entry *out, const void *bytes, size_t n, const md_digest128 *environment,
                             const char *key);

#endif
