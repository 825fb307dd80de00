/* Turns a variant (family and config of a stage) into loaded kernels: emit, look up, compile, load. A text is compiled
 * once a context, even if many ops and threads ask for it. Thread-safe. */
#ifndef MD_BUILD_BUILD_H
#define MD_BUILD_BUILD_H

#include "family/family.h"
#include "store/bundle.h"
#include "store/store.h"

#define MD_BD_BUNDLED "kernel" /* the kinds of entries in bundles */
#define MD_BD_GAP "gap"

typedef struct md_bd md_bd; /* the builder of a context: owns all loaded kernels */
/* So many texts that no variant uses stay loaded. A loaded kernel of the host takes 5 mappings and 24 KB, and a process
 * has 65,530 mappings. */
enum { MD_BD_MAX_UNUSED = 2048 };

/* What asking for a load does. LOOK: nothing. FIND: finds out, in the background, whether what is needed is loaded
 * already; loading holds the driver's lock, so that calls would wait. START: loads in the background. WAIT: loads, and
 * waits for the end. */
typedef enum md_bd_load_effort {
    MD_BD_LOAD_LOOK,
    MD_BD_LOAD_FIND,
    MD_BD_LOAD_START,
    MD_BD_LOAD_WAIT
} md_bd_load_effort;
/* The higher, the worse. NOT_LOADED: nobody has asked, or a job is at it. DEFERRED: it is known not to be loaded; START
 * and WAIT load it. CANNOT_LOAD: the library is missing, or has no kernel for the shape. */
typedef enum md_bd_load_state { MD_BD_LOADED, MD_BD_NOT_LOADED, MD_BD_DEFERRED, MD_BD_CANNOT_LOAD } md_bd_load_state;

typedef enum md_bd_state { MD_BD_QUEUED, MD_BD_READY, MD_BD_FAILED } md_bd_state;

/* One variant of one stage. Made by md_bd_variant_create, owned by the caller; its kernels belong to the builder. */
typedef struct md_bd_variant {
    /* what every choice reads comes first: other work has cleared the caches since (md_bd_variant_prefetch) */
    const md_fa_family *family;
    _Atomic int32_t state; /* md_bd_state; the fields below the envelope are valid once READY (acquire) */
    bool has_fixed;
    /* variants of one class give equal bits for equal values and sizes (family/numeric.h) */
    uint64_t numeric_class;
    md_fa_config config;
    md_fa_fixed fixed; /* of the config, if the family or its kind has `fix`; never changes */
    md_fa_target target; /* the program must outlive the variant */
    char name[MD_FA_NAME];
    uint64_t name_hash; /* md_hash64: the same in every process */
    md_kn_envelope envelope;
    int32_t n_launches;
    const md_dev_kernel *kernel[MD_KN_MAX_LAUNCHES];
    int32_t n_params[MD_KN_MAX_LAUNCHES];
    md_kn_param *param[MD_KN_MAX_LAUNCHES];
    char *kernel_name[MD_KN_MAX_LAUNCHES]; /* as profilers show it; NULL: a function */
    bool is_function[MD_KN_MAX_LAUNCHES]; /* a host function, which gets the call; not a compiled kernel */
    _Atomic(void *)
        attached[MD_KN_MAX_LAUNCHES]; /* malloc'ed data that callers keep with a launch; freed with the variant */
    uint32_t packs; /* md_kn_source.packs */
    bool uses_counters; /* a launch needs the stream's counters (md_kn_call.counters) */
    md_bd *builder;
    char failure[256]; /* FAILED: why */
    uint64_t build_ns; /* wall time of emit, compile and load; about 0 if the kernel was loaded already */
} md_bd_variant;

/* Bundles to take kernels from. */
typedef struct md_bd_bundles {
    md_sr_bundle *const *bundle; /* [n], searched in this order */
    int32_t n;
    bool compiles; /* compile what none of them has; else that is an error */
} md_bd_bundles;

typedef struct md_bd_counters {
    _Atomic uint64_t emitted, compiled, shared, failed, compile_ns;
    _Atomic uint64_t compiles; /* runs of a compiler, failed ones included */
    _Atomic uint64_t stored; /* answered by the store: binaries and failures */
    _Atomic uint64_t bundled; /* binaries taken from bundles */
} md_bd_counters;

md_status md_bd_create(md_bd **out, md_dev *dev);
/** Uses a store for binaries (NULL: none). The store must outlive the builder. Call before the first variant. */
void md_bd_use_store(md_bd *builder, md_sr *store);
/** Takes kernels from bundles. They must outlive the builder. Call before the first variant. */
void md_bd_use_bundles(md_bd *builder, const md_bd_bundles *bundles);
/** From now on every binary that is compiled, or taken from the store, goes into a bundle, too. The maker must outlive
 * the builder. Kernels of the device itself go in at once: COMPILE if one cannot be built. Before the first variant. */
md_status md_bd_record_bundle(md_bd *builder, md_sr_bundle_maker *maker);
/** Marks the kernels of a variant as wanted (md_sr_bundle_keep_only) in the bundle that is being made, if one is. */
md_status md_bd_bundled_keep(const md_bd_variant *variant);
/** Says in the bundle that is being made which stage it does not cover. */
void md_bd_record_gap(md_bd *builder, const char *op, int32_t stage, const char *why);
bool md_bd_is_recording(const md_bd *builder);
/** True if kernels come from bundles, and nothing is compiled. */
bool md_bd_is_bundled(const md_bd *builder);
/** Waits for running builds and unloads all kernels. Destroy all variants before. */
void md_bd_destroy(md_bd **builder);
/** Calls fn (NULL: nothing) after each build, on the building thread; it may take long. Once this returns, no earlier
 * listener runs any more. */
void md_bd_listen(md_bd *builder, void (*fn)(void *user), void *user);
/** Calls it soon, on a background thread. */
void md_bd_notify_later(md_bd *builder);
const md_bd_counters *md_bd_count(const md_bd *builder);
md_dev *md_bd_device(const md_bd *builder);

/** Starts a build on the pool's background threads and returns a QUEUED variant (READY if all its kernels are loaded).
 * On a device that cannot compile, variants of kernel text become FAILED. */
md_status md_bd_variant_create(md_bd_variant **out, md_bd *builder, const md_fa_target *target,
                               const md_fa_family *family, const md_fa_config *config);
/** The target for questions about the variant's config alone: with what is known of it. */
static inline md_fa_target md_bd_variant_target(const md_bd_variant *variant, const md_fa_target *target)
{
    md_fa_target t = *target;
    t.fixed = variant->has_fixed ? &variant->fixed : NULL;
    return t;
}
/** Asks the memory for what a choice reads of it, ahead of time. */
static inline void md_bd_variant_prefetch(const md_bd_variant *variant)
{
    const char *at = (const char *)variant;
    for (size_t line = 0; line < 4; line++)
        __builtin_prefetch(at + 64 * line);
}
/** Makes a variant FAILED, a READY one too if it computes wrong results. No launch of it may be running. */
void md_bd_variant_fail(md_bd_variant *variant, const char *why);
/** Waits until it is READY or FAILED; a FAILED one gives COMPILE with its reason. */
md_status md_bd_variant_wait(md_bd_variant *variant);
/** As md_bd_variant_wait, but what no thread builds yet is built on this thread, ahead of all that is queued. */
md_status md_bd_variant_hurry(md_bd_variant *variant);
/** Lets its build begin before all that are queued: a call would use it now. Waits for nothing. */
void md_bd_variant_hasten(md_bd_variant *variant);
/** Whether what a variant needs from a library at a shape is loaded, so that it runs without delay. The listener is
 * called after each load. Variants that call no library are LOADED. Thread-safe. */
md_bd_load_state md_bd_variant_load(const md_bd_variant *variant, const md_kn_shape *shape, md_bd_load_effort effort);
/** What the library's answers say of a variant at a shape. us is 0 if it calls none, was not asked, or the model does
 * not know such answers. Thread-safe. */
md_fa_answer md_bd_variant_answer(const md_bd_variant *variant, const md_kn_shape *shape);
/** Waits until no load is queued or running. */
void md_bd_wait_loads(md_bd *builder);
/** Waits until no build or load is queued or running. */
void md_bd_wait_all(md_bd *builder);
/** Waits until one of n is READY, or all are FAILED. */
void md_bd_variant_wait_any(md_bd_variant *const *variants, int32_t n);
/** Frees it. Builds that were queued for this variant alone are dropped. */
void md_bd_variant_destroy(md_bd_variant **variant);
/** Appends the texts of all launches, each below a comment line. Emits again. */
md_status md_bd_variant_source(md_strbuf *out, const md_bd_variant *variant);
/** The digest of what its texts say: comments, white space and kernels' names do not count. Emits again. */
md_status md_bd_variant_digest(md_digest128 *out, const md_bd_variant *variant);
/** The same of a config that is not built. */
md_status md_bd_digest_of(md_digest128 *out, const md_fa_target *target, const md_fa_family *family,
                          const md_fa_config *config);

/** A text that belongs to no variant: kernels of the device for many items. */
typedef struct md_bd_text md_bd_text;
/** Finds a text or begins to build it in the background, with the store. The builder owns it, and takes the source's
 * text away. Thread-safe. */
md_status md_bd_text_ask(md_bd_text **out, md_bd *builder, md_kn_launch_source *source);
/** Where its build is; *kernel is set if it is READY, and *why (may be NULL) if it FAILED. Thread-safe. */
md_bd_state md_bd_text_state(const md_dev_kernel **kernel, const char **why, const md_bd_text *text);

/** Launches a READY variant: packs parameters, runs the launches in order. call->workspace must hold
 * geometry->workspace_bytes, less packed_bytes where call->packed has those. The launch that packs operands is left out
 * where call->packed_by is its kernel, which is set here. */
md_status md_bd_variant_run(const md_bd_variant *variant, const md_kn_geometries *geometry, md_stream stream,
                            md_kn_call *call);

/** Only packs operands, into call->packed. `variant` is READY and packs. */
md_status md_bd_variant_pack(const md_bd_variant *variant, const md_kn_geometries *geometry, md_stream stream,
                             md_kn_call *call);

#endif
