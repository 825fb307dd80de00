/* From a variant (family + config of a stage) to loaded kernels: emit, look up, compile, load. Every text is
 * compiled once a context, however many ops and threads ask (single flight). Thread-safe. */
#ifndef MD_BUILD_BUILD_H
#define MD_BUILD_BUILD_H

#include "family/family.h"
#include "store/store.h"

typedef struct md_bd md_bd; /* the builder of a context: owns all loaded kernels until it is destroyed */

typedef enum md_bd_state { MD_BD_QUEUED, MD_BD_READY, MD_BD_FAILED } md_bd_state;

/* One variant of one stage. Made by md_bd_variant_create, owned by the caller; its kernels belong to the builder. */
typedef struct md_bd_variant {
    md_fa_target target; /* the program must outlive the variant */
    const md_fa_family *family;
    md_fa_config config;
    char name[MD_FA_NAME];
    md_kn_envelope envelope;
    _Atomic int32_t state; /* md_bd_state; the fields below are valid once READY (acquire) */
    int32_t n_launches;
    const md_dev_kernel *kernel[MD_KN_MAX_LAUNCHES];
    int32_t n_params[MD_KN_MAX_LAUNCHES];
    md_kn_param *param[MD_KN_MAX_LAUNCHES];
    bool is_function[MD_KN_MAX_LAUNCHES]; /* not a kernel of ours: gets the call */
    _Atomic(void *) attached[MD_KN_MAX_LAUNCHES]; /* what whoever runs it keeps with a launch; freed with it */
    /* variants of one class give the same bits for the same values and sizes (family/numeric.h) */
    uint64_t numeric_class;
    bool uses_counters; /* some launch wants the stream's (md_kn_call.counters) */
    md_bd *builder;
    char failure[256]; /* FAILED: why */
    uint64_t build_ns; /* wall time of emit + compile + load; ~0 where the kernel was there already */
} md_bd_variant;

typedef struct md_bd_counters {
    _Atomic uint64_t emitted, compiled, shared, failed, compile_ns;
    _Atomic uint64_t compiles; /* asked of a compiler, whatever came of it */
    _Atomic uint64_t kept; /* known from the store: binaries, and failures */
} md_bd_counters;

md_status md_bd_create(md_bd **out, md_dev *dev);
/** Binaries come from this store and go to it, from now on. It must outlive the builder; NULL: none. Before the first
 * variant. */
void md_bd_use_store(md_bd *builder, md_sr *store);
/** Waits for builds under way, unloads everything. All variants must be destroyed before. */
void md_bd_destroy(md_bd **builder);
/** `fn` (NULL: nobody) is called whenever a build has come to its end, by the thread that built; it may take its
 * time. Nobody else is called any more when this returns. */
void md_bd_listen(md_bd *builder, void (*fn)(void *user), void *user);
const md_bd_counters *md_bd_count(const md_bd *builder);
md_dev *md_bd_device(const md_bd *builder);

/** Starts building on the pool's background threads; returns at once with a QUEUED variant (or READY where all
 * kernels are loaded). A device that cannot compile makes TEXT variants FAILED. */
md_status md_bd_variant_create(md_bd_variant **out, md_bd *builder, const md_fa_target *target,
                               const md_fa_family *family, const md_fa_config *config);
/** A READY variant that turned out to be wrong is FAILED from now on. The caller knows that nobody runs it. */
void md_bd_variant_fail(md_bd_variant *variant, const char *why);
/** Waits until it is READY or FAILED; a FAILED one gives COMPILE with its reason. */
md_status md_bd_variant_wait(md_bd_variant *variant);
/** Waits until nothing is being built. */
void md_bd_wait_all(md_bd *builder);
/** Waits until one of n is READY, or all are FAILED. */
void md_bd_variant_wait_any(md_bd_variant *const *variants, int32_t n);
/** Frees it; what was queued for it alone is not built any more. */
void md_bd_variant_destroy(md_bd_variant **variant);
/** The texts of all launches, separated by a comment line. Emits anew. */
md_status md_bd_variant_source(md_strbuf *out, const md_bd_variant *variant);

/** Launches a READY variant: packs parameters, runs the launches in order. call->workspace must hold
 * geometry->workspace_bytes. */
md_status md_bd_variant_run(const md_bd_variant *variant, const md_kn_plan_geometry *geometry, md_stream stream,
                            md_kn_call *call);

#endif
