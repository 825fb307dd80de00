/* Updates of entries that several machines write: read, merge, replace, under a lease, and so that a machine that sees
 * others' files late loses nothing of theirs. */
#include "base/status.h"
#include "store/internal.h"

#include <stdlib.h>
#include <time.h>

/* An update that met another process's write is tried again. WAITS: so often others may have the lease all the time
 * that one waits for it. */
enum { TURNS = 50, WAITS = 5, NAP_NS = 1000000 };

typedef struct update {
    md_sr *store;
    const char *kind, *key;
    md_sr_merge_fn merge;
    void *user;
    const md_sr_lease *lease; /* NULL: it was not to be had */
} update;

/* *is_done false: another process wrote meanwhile, or may. Where this machine sees no entry, one is only added: the
 * file server knows whether there is one that this machine does not see yet, and then the next look finds it. */
static md_status take_turn(bool *is_done, const update *u)
{
    md_sr_payload made = {.lease = u->lease};
    void *there = NULL, *out = NULL;
    size_t n = 0;
    md_status s = md_sr_find_at(&there, &n, u->store, 0, u->kind, u->key);
    made.is_added = s == MD_NOT_FOUND;
    *is_done = true;
    if (s == MD_OK || s == MD_NOT_FOUND)
        s = u->merge(&out, &made.n, u->user, there, n);
    made.bytes = out;
    if (s == MD_OK && out && !made.is_added && !u->lease)
        *is_done = false;
    else if (s == MD_OK && out)
        s = md_sr_put_counted(is_done, u->store, u->kind, u->key, &made);
    free(there);
    free(out);
    return s;
}

md_status md_sr_update(md_sr *store, const char *kind, const char *key, md_sr_merge_fn merge, void *user)
{
    md_status s = MD_OK;
    bool is_done = false;
    int n_waits = 0;
    for (int i = 0; i < TURNS && n_waits < WAITS && s == MD_OK && !is_done; i++) {
        md_sr_lease *lease = NULL;
        s = md_sr_lease_to_write(&lease, store, kind, key);
        n_waits += !lease;
        const update u = {store, kind, key, merge, user, lease};
        for (int k = 0; k < TURNS && s == MD_OK && !is_done && (k == 0 || (lease && md_sr_lease_is_held(lease))); k++) {
            if (k > 0)
                nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
            s = take_turn(&is_done, &u);
        }
        md_sr_lease_release(&lease);
    }
    return s == MD_OK && !is_done ? md_fail(MD_IO, "another machine writes %s '%.100s' all the time", kind, key) : s;
}
