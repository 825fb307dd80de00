/* What a thread has in a context: where the plans lie that it used last. */
#ifndef MD_DISPATCH_CALL_THREAD_CACHE_H
#define MD_DISPATCH_CALL_THREAD_CACHE_H

#include "dispatch/cache/plan_cache.h"

#include "md_build_config.h"

enum {
    MD_DS_CACHE_SETS = 512,
    MD_DS_CACHE_WAYS = 4,
    MD_DS_THREAD_PLANS = 32,
    MD_DS_THREAD_ENTRY_WORDS = 40,
    MD_DS_THREAD_ENTRY_TENSORS = 8
};

struct md_ds_thread_entry;

/* A thread's own copy of a plan that is not brief. */
typedef struct md_ds_thread_plan {
    const _Atomic uint64_t *sequence_of; /* the slot's: the copy is good while it is what it was */
    uint64_t sequence;
    uint64_t serial; /* of the op */
    md_ds_counter *counter;
    struct md_ds_thread_entry *user; /* whose tensor maps are here; NULL */
    md_ds_plan_args plan_args;
} md_ds_thread_plan;

/* A plan of one launch as its next call needs it: parameters are there, and pointers are put into them where they
 * are others than last time. Few lines of the cache, which the caller's own work and the driver's leave in no near
 * one. */
typedef struct md_ds_thread_entry {
    /* A line that warm calls do not read. */
    uint64_t sequence;
    md_ds_thread_plan *thread_plan; /* a copy of the plan, unless it is another plan's now; NULL: not needed */
    const md_ds_param_map *param_map;
    int32_t room; /* words */
    bool is_timed; /* beside the launch; else by the long way */
    _Alignas(64) uint64_t generation; /* of the op, when this was last known to be its plan */
    /* whose it is while its sequence number is as it was; NULL: of no plan, or `thread_plan` runs it */
    const _Atomic uint64_t *slot;
    md_ds_counter *counter;
    uint64_t mask; /* `every` less 1 */
    const md_dev_kernel *kernel;
    uint64_t alignment; /* the last word of the key */
    md_dev_map *maps; /* in the copy `thread_plan`; their words are the first parameters */
    int32_t n_params, n_maps;
    md_kn_geometry geometry;
    int8_t pointer[MD_DS_THREAD_ENTRY_TENSORS]; /* the parameter that is a tensor's address; -1: none */
    /* Parameters; data of the last call, by tensor; where each map points; then halves: the key, spans, aliases, and
     * by scalar the parameter, from 1 on. */
    _Alignas(64) md_ds_word word[];
} md_ds_thread_entry;

/* Where plans are found by a few sizes of a call. */
typedef struct md_ds_cache_line {
    /* the op's serial number, 14 bits of what the sizes give, and 2 that are 0 where the entry is of such a call;
     * else how often they were met */
    uint64_t tag;
    md_ds_thread_entry *entry; /* NULL until one was needed; its place below, unless it needs more room */
} md_ds_cache_line;

/* Room for an entry of usual length. */
typedef struct md_ds_place {
    _Alignas(64) char room[sizeof(md_ds_thread_entry) + MD_DS_THREAD_ENTRY_WORDS * sizeof(md_ds_word)];
} md_ds_place;

/* Belongs to the context, and goes to another thread when this one ends. Entries have places of their own, one for
 * each front, so that a call that knows its front asks for the entry's lines before the front has come: neither is
 * in a near cache after the launches of some hundred others. Places are touched when they are first needed. */
typedef struct md_ds_thread {
    _Alignas(64) int32_t number; /* those below MD_DS_SHARDS - 1 have counters of their own */
    uint32_t turn;
    _Atomic bool is_idle;
    struct md_ds_thread *next;
    void *memory; /* that all this lies in */
    _Alignas(64) md_ds_cache_line front[MD_DS_CACHE_SETS][MD_DS_CACHE_WAYS];
    _Alignas(512) md_ds_place place[MD_DS_CACHE_SETS][MD_DS_CACHE_WAYS];
    md_ds_thread_plan thread_plan[MD_DS_THREAD_PLANS];
} md_ds_thread;

/* The thread's place in the context that it called last: what pthread_getspecific would say, at the price of a load. */
typedef struct md_ds_mine {
    uint64_t runtime;
    md_ds_thread *thread;
} md_ds_mine;
/* With CUDA's static runtime the library has 8 KB of such memory, and a program that opens it late (Python) has no
 * room for that in one piece: there each thread's is found by a call, some ns. */
#if MD_HAVE_CUDA
#define MD_DS_TLS __attribute__((tls_model("global-dynamic")))
#else
#define MD_DS_TLS __attribute__((tls_model("initial-exec")))
#endif
extern _Thread_local md_ds_mine md_ds_mine_now MD_DS_TLS;

static inline md_ds_thread_entry *md_ds_thread_entry_in(md_ds_place *place)
{
    return (md_ds_thread_entry *)(void *)place;
}

/** The calling thread's; NULL where memory is short. */
md_ds_thread *md_ds_thread_find(md_ds_runtime *runtime);
static inline md_ds_thread *md_ds_thread_get(md_ds_runtime *runtime, uint64_t id)
{
    return md_ds_mine_now.runtime == id ? md_ds_mine_now.thread : md_ds_thread_find(runtime);
}

void md_ds_thread_free(md_ds_thread *thread);
void md_ds_thread_leave(void *thread); /* the destructor of its key */

#endif
