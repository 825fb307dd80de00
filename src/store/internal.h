/* What the files of the store share. */
#ifndef MD_STORE_INTERNAL_H
#define MD_STORE_INTERNAL_H

#include "store/entry.h"
#include "store/folder.h"
#include "store/store.h"

#include <pthread.h>

enum { MD_SR_MAX_PLACES = 16 };
#define MD_SR_ASIDE "aside" /* prefix of files that were taken aside */
#define MD_SR_LEASES "lease"
#define MD_SR_ABOUT "about"
#define MD_SR_WISDOM "wisdom"
#define MD_SR_MEASURED "measured"
#define MD_SR_COMBO "combo"

typedef struct md_sr_place {
    char *path;
    md_sr_owner owner;
    _Atomic int fd; /* of <path>/<environment>; -1: missing, or not opened yet */
    _Atomic bool is_refused;
    bool is_clear; /* of leftovers, by the first write; guarded by lock_of_places */
} md_sr_place;

struct md_sr {
    const md_log *log;
    md_digest128 environment;
    char folder[33]; /* the digest of the environment, which names the folder */
    char *about; /* the text of the environment */
    int64_t limit_bytes;
    bool has_user; /* place[0] is the user's */
    int32_t n_places;
    md_sr_place place[MD_SR_MAX_PLACES];
    pthread_mutex_t lock_of_places; /* held to open or make one */
    _Atomic bool has_warned, has_failed;
    md_sr_counters count;
};

/** The folder of a place; -1 if there is none. Opens it if another process has made it since. */
int md_sr_place_fd(md_sr *store, md_sr_place *place);
/** The user's folder, made if it is missing. IO. */
md_status md_sr_writable_fd(int *fd, md_sr *store);
/** Removes the file under this name. With an environment, a file that is a good entry of it stays. */
void md_sr_take_away(int fd, const char *path, const md_digest128 *environment);
/** Removes files older than an hour that killed processes left in MD_SR_FRESH. Entries that were taken aside get their
 * name back. */
void md_sr_clear_fresh(int fd);

typedef struct md_sr_payload {
    const void *bytes;
    size_t n;
    bool is_added; /* an entry that is there stays */
    const md_sr_lease *lease; /* an entry is replaced only while it is held; NULL: always */
} md_sr_payload;
/** md_sr_put. *is_done: false where the entry that is there stays. */
md_status md_sr_put_counted(bool *is_done, md_sr *store, const char *kind, const char *key,
                            const md_sr_payload *payload);
/** True if the lease is still this process's, as far as can be seen, and half of its time is left. */
bool md_sr_lease_is_held(const md_sr_lease *lease);
/** Logs one warning a store, with the last error. */
void md_sr_warn_once(md_sr *store, const char *what);

/* ---- descend.c: a status other than OK ends the visits and is passed up. */
typedef md_status (*md_sr_name_fn)(void *user, int folder, const char *name);
/** Visits every name in a folder, except those that start with a dot. A missing folder has none. */
md_status md_sr_each_name(int at, const char *path, md_sr_name_fn visit, void *user);
typedef md_status (*md_sr_path_fn)(void *user, int environment, const char *kind, const char *path);
/** Visits all files of a kind in an environment's folder; `path` is relative to that folder. */
md_status md_sr_each_of_kind(int environment, const char *kind, md_sr_path_fn visit, void *user);
/** The same for all kinds, except leases. */
md_status md_sr_each_entry(int environment, md_sr_path_fn visit, void *user);

#endif
