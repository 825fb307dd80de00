/* What the files of the store share. */
#ifndef MD_STORE_INSIDE_H
#define MD_STORE_INSIDE_H

#include "store/entry.h"
#include "store/folder.h"
#include "store/store.h"

#include <pthread.h>

enum { MD_SR_MAX_PLACES = 16 };
#define MD_SR_ASIDE "aside" /* prefix of files that were taken from under their name */
#define MD_SR_LEASES "lease"
#define MD_SR_ABOUT "about"
#define MD_SR_WISDOM "wisdom"

typedef struct md_sr_place {
    char *path;
    md_sr_owner owner;
    _Atomic int fd; /* of <path>/<environment>; -1: not there, or not opened yet */
    _Atomic bool is_refused;
} md_sr_place;

struct md_sr {
    const md_log *log;
    md_digest128 environment;
    char folder[33]; /* its digest */
    char *about; /* its text */
    int64_t limit_bytes;
    bool has_user; /* place[0] is the user's */
    int32_t n_places;
    md_sr_place place[MD_SR_MAX_PLACES];
    pthread_mutex_t lock_of_places; /* held to open or make one */
    _Atomic bool has_warned, has_failed;
    md_sr_counters count;
};

/** The folder of a place, which somebody may have made only now; -1 where there is none. */
int md_sr_place_fd(md_sr *store, md_sr_place *place);
/** The user's folder, made where it is missing. */
md_status md_sr_writable_fd(int *fd, md_sr *store);
/** Removes the file under this name; unless it has become an entry of the environment (NULL: even then). */
void md_sr_take_away(int fd, const char *path, const md_digest128 *environment);
/** Removes what killed processes left in MD_SR_FRESH more than an hour ago; entries taken aside get their name back. */
void md_sr_clear_fresh(int fd);

#endif
