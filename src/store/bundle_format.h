/* What stands in a bundle's file, for its reader and its writer. */
#ifndef MD_STORE_BUNDLE_FORMAT_H
#define MD_STORE_BUNDLE_FORMAT_H

#include "base/hash.h"

enum { MD_SR_BUNDLE_VERSION = 3 };
#define MD_SR_BUNDLE_MAGIC "MDBUNDL\n"

typedef struct md_sr_bundle_header {
    char magic[8];
    uint32_t version, n_entries;
    uint64_t n_keys; /* bytes of all keys' texts */
    uint64_t n_bytes; /* of the file */
    md_digest128 digest; /* of this header with zeros here, and of the digest of index and keys */
} md_sr_bundle_header;

typedef struct md_sr_bundle_row {
    md_digest128 key, payload; /* digests */
    uint64_t at; /* of the payload in the file */
    uint64_t n, n_stored; /* bytes of the payload, and of it in the file: fewer if it is compressed (zlib) */
    uint32_t key_at, n_key; /* where "kind key" lies in the texts of the keys */
} md_sr_bundle_row;

_Static_assert(sizeof(md_sr_bundle_header) == 48 && sizeof(md_sr_bundle_row) == 64,
               "no gaps: both are written as they are");

/* zlib makes nothing smaller than by this factor. */
enum { MD_SR_BUNDLE_MOST_PACKED = 1032 };

/** The digest that belongs into a header, by header, index and keys. */
static inline md_digest128 md_sr_bundle_seal(md_sr_bundle_header header, const void *rest, size_t n)
{
    header.digest = md_hash128(rest, n);
    return md_hash128(&header, sizeof header);
}

#endif
