/* The thread cache: the launch plans that a thread used last in a context, as its next calls need them. A 4-way
 * set-associative cache, indexed by three sizes of the call (the probes of args.h). Only its thread touches it. */
#ifndef MD_DISPATCH_CALL_THREAD_CACHE_H
#define MD_DISPATCH_CALL_THREAD_CACHE_H

#include "dispatch/cache/param_map.h"
#include "dispatch/cache/plan_cache.h"

#include "md_build_config.h"

enum {
    MD_DS_CACHE_SETS = 512,
    MD_DS_CACHE_WAYS = 4,
    MD_DS_THREAD_LAUNCHES = 32,
    MD_DS_THREAD_ENTRY_WORDS = 40,
    MD_DS_THREAD_ENTRY_TENSORS = 8
};

struct md_ds_thread_entry;

/* A thread's copy of a launch plan that is not compact. */
typedef struct md_ds_thread_launch {
    const _Atomic uint64_t *sequence_of; /* the plan entry's sequence number */
    uint64_t sequence; /* the copy is valid while the plan entry's is this */
    uint64_t serial; /* of the op; 0: no copy */
    md_ds_counter *counter;
    struct md_ds_thread_entry *user; /* the entry that uses the tensor maps in this copy; NULL: none */
    md_ds_launch_args launch_args;
} md_ds_thread_launch;

/* A launch plan of one launch, with the parameters of the last call: the next call only replaces the pointers that
 * changed. It takes few cache lines, since the caller's own work and the driver evict them between calls. */
typedef struct md_ds_thread_entry {
    /* Warm calls do not read this line: */
    uint64_t sequence; /* of the plan entry */
    md_ds_thread_launch *thread_launch; /* the copy of the launch plan; NULL: not needed, or reused for another plan */
    const md_ds_param_map *param_map;
    int32_t room; /* words */
    bool is_timed; /* sampled calls are timed around the launch; else the slow call times them */
    _Alignas(64) uint64_t generation; /* of the op, when the plan entry last had this sequence number */
    /* The plan entry that the plan is from; NULL: the thread's entry is empty, or `thread_launch` is run as a whole. */
    const _Atomic uint64_t *plan_entry;
    md_ds_counter *counter;
    uint64_t mask; /* the sample rate less 1 */
    const md_dev_kernel *kernel;
    uint64_t alignment; /* the last word of the key */
    md_dev_map *maps; /* in `thread_launch`; the words of the maps are the first parameters */
    int32_t n_params, n_maps;
    md_kn_geometry geometry;
    int8_t pointer[MD_DS_THREAD_ENTRY_TENSORS]; /* by tensor: the parameter that is its address; -1: none */
    /* The parameters; the addresses of the last call, by tensor; the address of each map; then halves: key, spans,
     * aliases, and by scalar the number of its parameter plus 1. */
    _Alignas(64) md_ds_word word[];
} md_ds_thread_entry;

/* One way of a set. */
typedef struct md_ds_cached {
    /* The op's serial number, 14 bits of the mixed probes, and 2 bits: 0 if there is an entry, else how many more calls
     * it takes until one is made. */
    uint64_t tag;
    md_ds_thread_entry *entry; /* NULL at first; then in `place` below, or in memory of its own if it needs more room */
} md_ds_cached;

/* Room for an entry of the usual length. */
typedef struct md_ds_place {
    _Alignas(64) char room[sizeof(md_ds_thread_entry) + MD_DS_THREAD_ENTRY_WORDS * sizeof(md_ds_word)];
} md_ds_place;

/* Belongs to the context, and is reused by another thread when this one ends. Each way of a set has a place for its
 * entry, at an address that follows from the probes. So a call can prefetch the entry before `cached` has arrived.
 * Pages are touched only when they are needed. */
typedef struct md_ds_thread {
    _Alignas(64) int32_t number; /* threads below MD_DS_SHARDS - 1 have counters of their own */
    uint32_t next_victim; /* ways of a set, and copies, are reused in turn */
    _Atomic bool is_idle;
    struct md_ds_thread *next;
    void *memory; /* the allocation that contains this struct */
    _Alignas(64) md_ds_cached cached[MD_DS_CACHE_SETS][MD_DS_CACHE_WAYS];
    _Alignas(512) md_ds_place place[MD_DS_CACHE_SETS][MD_DS_CACHE_WAYS];
    md_ds_thread_launch thread_launch[MD_DS_THREAD_LAUNCHES];
} md_ds_thread;

/* The thread cache of the context that this thread called last: saves pthread_getspecific. */
typedef struct md_ds_current {
    uint64_t runtime; /* id; 0: none */
    md_ds_thread *thread;
} md_ds_current;
/* CUDA's static runtime takes 8 KB of static thread-local memory. A program that opens the library late (Python) may
 * not have that much left, so a CUDA build uses the dynamic model, which costs some ns. */
#if MD_HAVE_CUDA
#define MD_DS_TLS __attribute__((tls_model("global-dynamic")))
#else
#define MD_DS_TLS __attribute__((tls_model("initial-exec")))
#endif
extern _Thread_local md_ds_current md_ds_current_thread MD_DS_TLS;

static inline md_ds_thread_entry *md_ds_thread_entry_in(md_ds_place *place)
{
    return (md_ds_thread_entry *)(void *)place;
}

/** The calling thread's cache; NULL if memory is short. */
md_ds_thread *md_ds_thread_find(md_ds_runtime *runtime);
static inline md_ds_thread *md_ds_thread_get(md_ds_runtime *runtime, uint64_t id)
{
    return md_ds_current_thread.runtime == id ? md_ds_current_thread.thread : md_ds_thread_find(runtime);
}

/** The destructor of the runtime's thread key: the cache of an ended thread is free for the next one. */
void md_ds_thread_leave(void *thread);
/** Frees the caches of all threads, which call no more. */
void md_ds_threads_free(md_ds_runtime *runtime);

#endif
