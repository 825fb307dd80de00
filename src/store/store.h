/* Blobs on disk that outlive the process: tuned results and compiled kernels, by key.
 *
 * One file an entry: <root>/<digest of the environment>/<kind>/<2 hex>/<digest of the key>. A file appears whole
 * under its name (temporary file, fsync, rename, fsync of the folder) and never changes afterwards. So any number of
 * processes may share one folder, on network file systems too, and may be killed at any time. An entry that cannot be
 * read or is damaged is a miss: it is counted, and removed or rewritten. The user's folder is searched first, then the
 * system's, which are only read. An entry may be code, so folders and files that other users could have written are
 * refused.
 *
 * A NULL store finds nothing and keeps nothing. Thread-safe, unless stated otherwise. */
#ifndef MD_STORE_STORE_H
#define MD_STORE_STORE_H

#include "base/hash.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct md_sr md_sr;

typedef struct md_sr_options {
    const char *root; /* the user's folder, made when first written to; NULL or "": nothing is kept */
    const char *system_path; /* folders separated by ':'; NULL or "": none */
    const char *environment; /* everything that entries depend on and keys do not hold: one or more lines */
    /* of the user's folder, applied when a store that wrote is closed; 0: 1 GiB, negative: no limit */
    int64_t limit_bytes;
    const md_log *log; /* may be NULL */
} md_sr_options;

typedef struct md_sr_counters {
    _Atomic uint64_t hits, misses; /* of md_sr_find, in all folders */
    /* damaged entries: removed from the user's folder, left in a system folder */
    _Atomic uint64_t healed;
    _Atomic uint64_t written, write_failures;
} md_sr_counters;

/** Fails only with OUT_OF_MEMORY: a folder that cannot be used gives one warning, and every find is a miss. */
md_status md_sr_open(md_sr **out, const md_sr_options *options);
/** All leases must be released before. */
void md_sr_close(md_sr **store);
const md_sr_counters *md_sr_count(const md_sr *store); /* never NULL */
/** The user's folder; "" if there is none. */
const char *md_sr_root(const md_sr *store);
md_digest128 md_sr_environment(const md_sr *store);
/** True if entries can be kept, as far as is known. */
bool md_sr_is_writable(const md_sr *store);

/** Reads an entry from the user's folder, else from the first system folder that has it. *out is malloc'ed with a 0
 * after its *n bytes; the caller frees it. `kind`: letters only; `key`: any text. NOT_FOUND. */
md_status md_sr_find(void **out, size_t *n, md_sr *store, const char *kind, const char *key);
/** The same in one folder only: 0 is the user's, 1 and up the system's in order. Not counted. */
md_status md_sr_find_at(void **out, size_t *n, md_sr *store, int32_t place, const char *kind, const char *key);
int32_t md_sr_n_places(const md_sr *store);
/** Writes an entry and replaces an older one of that key. On return it survives a crash. IO if it cannot be kept, with
 * one warning a store. */
md_status md_sr_put(md_sr *store, const char *kind, const char *key, const void *payload, size_t n);
/** Makes a new payload of what is kept (there NULL, n 0: nothing is); malloc'ed. *out NULL: what is kept stays. Any
 * status but OK ends the update and is passed up. It may be called again, with what another process kept meanwhile. */
typedef md_status (*md_sr_merge_fn)(void **out, size_t *n_out, void *user, const void *there, size_t n);
/** Reads, merges and replaces an entry of the user's folder, so that processes of several machines lose nothing of each
 * other's. IO as md_sr_put. */
md_status md_sr_update(md_sr *store, const char *kind, const char *key, md_sr_merge_fn merge, void *user);
/** Removes the user's entry, if its reader finds that the payload is bad. */
void md_sr_discard(md_sr *store, const char *kind, const char *key);

/** Visits the entries of a kind in one folder, in no order. `visit` must not use the store; a status other than OK ends
 * the visits and is passed up. */
typedef md_status (*md_sr_visit_fn)(void *user, const char *key, const void *payload, size_t n);
md_status md_sr_each(md_sr *store, int32_t place, const char *kind, md_sr_visit_fn visit, void *user);

/* ---- Leases: one of several processes does a piece of long work. */

typedef struct md_sr_lease md_sr_lease;

/** Takes the lease of a key for limit_ms. OK with *out NULL: another process holds it. A lease ends when it is
 * released, when its owner has died, or after its time. If no file can be written, everyone gets the lease. */
md_status md_sr_lease_take(md_sr_lease **out, md_sr *store, const char *key, int64_t limit_ms);
/** Takes "WHAT NAME" for a short write (5 s), for which another process is waited for, 8 s at most. OK with *out NULL:
 * others had it all the time. */
md_status md_sr_lease_to_write(md_sr_lease **out, md_sr *store, const char *what, const char *name);
void md_sr_lease_release(md_sr_lease **lease);

/* ---- Housekeeping over all environments of a user's folder */

typedef struct md_sr_file {
    const char *environment; /* digest, as the folder is called */
    const char *about; /* first line of the environment's text, "" where unknown */
    const char *kind, *key; /* "" where the entry cannot be read */
    const char *problem; /* NULL: a good entry */
    int64_t n_bytes;
    int64_t used_s; /* when it was last used, to about a day; seconds since 1970 */
} md_sr_file;
typedef md_status (*md_sr_file_fn)(void *user, const md_sr_file *file);
/** Reads and checks every entry of a root. `removes`: also removes bad entries and leftovers of killed processes.
 * NOT_FOUND, IO. */
md_status md_sr_walk(const char *root, bool removes, md_sr_file_fn visit, void *user);

typedef struct md_sr_gc_result {
    int64_t n_entries, n_bytes, n_removed, n_removed_bytes; /* entries and bytes before */
} md_sr_gc_result;
/** Removes the entries that were unused longest until at most limit_bytes are left. Wisdom and what was measured go
 * last: they are small and took long to measure. */
md_status md_sr_gc(md_sr_gc_result *out, const char *root, int64_t limit_bytes);

#endif
