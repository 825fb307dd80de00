/* A bundle: one file of entries that is only read, and made whole. Kernels are in it by what they were made from,
 * without versions of a compiler or a driver: who has the bundle needs neither.
 *
 * Header, index (sorted by the digest of the key), texts of the keys, payloads, compressed where that makes them
 * smaller; equal payloads stand there once. The header's digest is over header, index and keys; the index holds the
 * digest of each payload, which is checked when the payload is read. So opening reads a few KB, and a file that changes
 * meanwhile gives an error, never other bytes. Equal entries give equal files, byte for byte, with one version of zlib.
 * Integers are little-endian. Thread-safe, unless stated otherwise. */
#ifndef MD_STORE_BUNDLE_H
#define MD_STORE_BUNDLE_H

#include "base/hash.h"

#include <md/md.h>

typedef struct md_sr_bundle md_sr_bundle;

/** Opens a file that only its owner (this user or root) can write. NOT_FOUND; IO names the path and what is wrong. */
md_status md_sr_bundle_open(md_sr_bundle **out, const char *path);
/** The same of bytes in memory, which must outlive it. */
md_status md_sr_bundle_open_bytes(md_sr_bundle **out, const void *bytes, size_t n);
void md_sr_bundle_close(md_sr_bundle **bundle);
/** *out is malloc'ed with a 0 after its *n bytes; the caller frees it. NOT_FOUND; IO if the file changed or is
 * damaged. */
md_status md_sr_bundle_find(void **out, size_t *n, const md_sr_bundle *bundle, const char *kind, const char *key);
typedef struct md_sr_bundle_entry {
    const char *kind, *key;
    const void *payload; /* with a 0 after its n bytes */
    size_t n;
} md_sr_bundle_entry;
typedef md_status (*md_sr_bundle_visit)(void *user, const md_sr_bundle_entry *entry);
/** Visits the entries of a kind (NULL: of all). A status other than OK ends the visits and is passed up. */
md_status md_sr_bundle_each(const md_sr_bundle *bundle, const char *kind, md_sr_bundle_visit visit, void *user);
const char *md_sr_bundle_path(const md_sr_bundle *bundle);
int32_t md_sr_bundle_count(const md_sr_bundle *bundle);
int64_t md_sr_bundle_bytes(const md_sr_bundle *bundle); /* of the whole file */
md_digest128 md_sr_bundle_digest(const md_sr_bundle *bundle);

/* ---- Making one */

typedef struct md_sr_bundle_maker md_sr_bundle_maker;

md_status md_sr_bundle_maker_create(md_sr_bundle_maker **out);
void md_sr_bundle_maker_destroy(md_sr_bundle_maker **maker);
/** Adds a copy of an entry. A key that is there already stays as it is. */
md_status md_sr_bundle_add(md_sr_bundle_maker *maker, const char *kind, const char *key, const void *payload, size_t n);
/** The same, but an entry of that key is replaced. */
md_status md_sr_bundle_set(md_sr_bundle_maker *maker, const char *kind, const char *key, const void *payload, size_t n);
/** As md_sr_bundle_set, but without a copy: the payload must outlive all writing. For weights of gigabytes. */
md_status md_sr_bundle_lend(md_sr_bundle_maker *maker, const char *kind, const char *key, const void *payload,
                            size_t n);
/** Adds all entries of a bundle. */
md_status md_sr_bundle_copy(md_sr_bundle_maker *maker, const md_sr_bundle *bundle);
/** From now on only entries that md_sr_bundle_keep named are written, of this kind. */
void md_sr_bundle_keep_only(md_sr_bundle_maker *maker, const char *kind);
void md_sr_bundle_keep(md_sr_bundle_maker *maker, const char *kind, const char *key);
/** Writes what was added; an older file is replaced at once. */
md_status md_sr_bundle_write(md_sr_bundle_maker *maker, const char *path);

#endif
