/* A bundle: one file of entries that is only read, and made whole. Kernels are in it by what they were made from,
 * without versions of a compiler or a driver: who has the bundle needs neither.
 *
 * Header, index (sorted by the digest of the key), texts of the keys, payloads; equal payloads stand there once. The
 * header's digest is over header, index and keys; the index holds the digest of each payload, which is checked when the
 * payload is read. So opening reads a few KB, and a file that changes meanwhile gives an error, never other bytes.
 * Equal entries give equal files, byte for byte. Integers are little-endian. Thread-safe, unless stated otherwise. */
#ifndef MD_STORE_BUNDLE_H
#define MD_STORE_BUNDLE_H

#include "base/hash.h"

#include <md/md.h>

typedef struct md_sr_bundle md_sr_bundle;

/** Opens a file that only its owner (this user or root) can write. NOT_FOUND; IO names the path and what is wrong. */
md_status md_sr_bundle_open(md_sr_bundle **out, const char *path);
void md_sr_bundle_close(md_sr_bundle **bundle);
/** *out is malloc'ed with a 0 after its *n bytes; the caller frees it. NOT_FOUND; IO if the file changed or is
 * damaged. */
md_status md_sr_bundle_find(void **out, size_t *n, const md_sr_bundle *bundle, const char *kind, const char *key);
const char *md_sr_bundle_path(const md_sr_bundle *bundle);
int32_t md_sr_bundle_count(const md_sr_bundle *bundle);
md_digest128 md_sr_bundle_digest(const md_sr_bundle *bundle);

/* ---- Making one */

typedef struct md_sr_bundle_maker md_sr_bundle_maker;

md_status md_sr_bundle_maker_create(md_sr_bundle_maker **out);
void md_sr_bundle_maker_destroy(md_sr_bundle_maker **maker);
/** Adds a copy of an entry. A key that is there already stays as it is. */
md_status md_sr_bundle_add(md_sr_bundle_maker *maker, const char *kind, const char *key, const void *payload, size_t n);
/** Writes what was added; an older file is replaced at once. */
md_status md_sr_bundle_write(md_sr_bundle_maker *maker, const char *path);

#endif
