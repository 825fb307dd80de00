/* What the files of this folder share: texts, variants with their builder's side, and the builder. A text is compiled
 * and loaded once a context, even if several threads ask at the same time. */
#ifndef MD_BUILD_INTERNAL_H
#define MD_BUILD_INTERNAL_H

#include "base/table.h"
#include "build/build.h"

#include <pthread.h>

/* One kernel text (or host function) and its loaded kernel. Lives as long as a variant uses it, and then until many
 * others are unused (unused.c). Guarded by the builder's lock, except that the build job owns `source` while the state
 * is QUEUED. */
struct md_bd_text {
    md_bd *builder;
    md_digest128 key; /* its key in the table of texts */
    md_bd_state state;
    bool is_orphan; /* QUEUED, and no thread builds it: its thread was lost by a fork */
    bool is_begun; /* some thread builds it, or has */
    bool is_hastened; /* it was put in front of the queue once */
    md_kn_launch_source *source; /* QUEUED only; freed by the job */
    md_dev_kernel *kernel; /* READY */
    char failure[256]; /* FAILED: why; not tried again while a variant uses it */
    bool may_pass; /* FAILED: memory, disk or processes were short, and may not be next time */
    struct md_bd_ticket *waiting; /* variants that need it */
    bool is_asked; /* md_bd_text_ask: it is built though no variant waits, and is never unused */
    bool has_job; /* it is queued, or about to be: the job will look at the text */
    int32_t n_users; /* launches of variants */
    bool is_unused; /* it is in the builder's list of unused texts */
    md_bd_text *older, *newer; /* neighbours in that list */
};

/* A variant that waits for a text. */
typedef struct md_bd_ticket {
    struct md_bd_ticket *next;
    md_bd_text *text;
    struct md_bd_made *made;
} md_bd_ticket;

/* A variant as callers see it, with the builder's own part. */
typedef struct md_bd_made {
    md_bd_variant base; /* must be the first member: callers hold pointers to it */
    int32_t n_open; /* texts not yet READY or FAILED; guarded by the builder's lock */
    uint64_t start_ns;
    md_bd_ticket ticket[MD_KN_MAX_LAUNCHES];
} md_bd_made;

struct md_bd {
    md_dev *dev;
    md_sr *store; /* binaries of earlier processes; may be NULL */
    md_bd_bundles bundles; /* searched before the store */
    _Atomic(md_sr_bundle_maker *) maker; /* gets all binaries; may be NULL */
    pthread_mutex_t lock; /* of the table, all texts and the progress of all variants */
    pthread_cond_t changed; /* signalled when a text or a job ends */
    md_table *texts; /* digest128 -> md_bd_text */
    md_bd_text *oldest, *newest; /* texts that no variant uses, which are loaded still */
    int32_t n_unused;
    md_table *loads; /* family and library call -> load (loads.c) */
    int32_t n_jobs; /* queued or running */
    int32_t n_loads; /* jobs that are loads */
    uint64_t told_ns; /* when the listener was last told that a load had ended */
    bool has_loaded; /* some load has ended */
    bool will_notify; /* md_bd_notify_later has a job */
    int32_t n_orphans; /* jobs whose thread was lost by a fork (orphans.c) */
    int32_t n_listening; /* threads inside `listener` */
    void (*listener)(void *user);
    void *listener_user;
    md_bd_counters count;
};

/** Finds the text of a source, or adds it (*is_new): the caller must start a new one. A new one takes the text out of
 * `source`. Call with the lock held. */
md_status md_bd_text_find(md_bd_text **text, bool *is_new, md_bd *builder, md_kn_launch_source *source);
/** Loads a kernel from the first bundle that has it. `digest` is of all that reaches a compiler, without its version.
 * NOT_FOUND: compile it; COMPILE names what no bundle has, where nothing may be compiled; IO: a bundle is damaged. */
md_status md_bd_bundled_load(md_dev_kernel **out, md_bd *builder, const md_kn_launch_source *source,
                             md_digest128 digest);
/** Two kernels are equal if everything that reaches the compiler is equal, or the function is. Tensor maps count too:
 * a loaded kernel holds them, and equal texts may have different ones. `compiler`: its version. */
md_digest128 md_bd_text_key(const md_dev *dev, const char *compiler, const md_kn_launch_source *source);
/** The same without a compiler, for bundles. */
md_digest128 md_bd_bundled_digest(const md_dev *dev, const md_kn_launch_source *source);
/** Puts a binary into the bundle that is being made. */
void md_bd_bundled_record(md_bd *builder, const md_kn_launch_source *source, md_digest128 digest, const void *binary,
                          size_t n);
/** Starts the build of a text. Call without the lock: a pool without threads builds at once. */
void md_bd_text_start(md_bd_text *text);
/** Puts a text's build in front of the queue. Call with the lock held. */
void md_bd_text_hasten(md_bd_text *text);
/** Takes a text that a variant waits for and that no thread builds yet; NULL if there is none. The caller must build it
 * (md_bd_text_build); the job that is queued for it does nothing. */
md_bd_text *md_bd_text_take(md_bd_made *made);
/** Builds a text that was taken, on this thread. */
void md_bd_text_build(md_bd_text *text);
/* ---- unused.c */
/** Frees a text and unloads its kernel. */
void md_bd_text_drop(void *text);
void md_bd_text_free_source(md_bd_text *text);
/* These are called with the lock held. */
/** A variant's launch uses the text from now on. */
void md_bd_text_use(md_bd_text *text);
/** A launch stops using it. */
void md_bd_text_leave(md_bd_text *text);
/** To be called when something about its users or its state has changed. */
void md_bd_text_sort(md_bd_text *text);
/** Takes what has been unused longest out of the table, as a list by `newer`, for md_bd_drop_texts; NULL while few are
 * unused. */
md_bd_text *md_bd_take_unused(md_bd *builder);
/** Frees a list of texts and unloads their kernels. Without the lock: it takes long. */
void md_bd_drop_texts(md_bd_text *list);

/** Makes a variant READY or FAILED once all its texts have ended. Call with the lock held. */
void md_bd_made_finish(md_bd_made *made);
/** Frees a variant that waits for no text. */
void md_bd_made_free(md_bd_made *made);
/** Copies launches and parameters of an emitted source into the variant. INTERNAL if there are too many. */
md_status md_bd_made_copy_params(md_bd_variant *variant, md_kn_source *source);

/** Calls the listener. Call with the lock held, which is released while the listener runs. */
void md_bd_notify(md_bd *builder);
/** Ends a queued or running job. Call with the lock held. */
void md_bd_end_job(md_bd *builder);
/** In the child of a fork: loads whose thread was lost count as failed. */
void md_bd_lose_loads(md_bd *builder);

/** Fork hook, in the child: marks queued texts as orphans. `user` is the builder. */
void md_bd_orphan_texts(void *user);
/** Takes an orphan that one of the variants waits for (variants NULL: any); NULL if there is none. The caller must
 * start it. */
md_bd_text *md_bd_take_orphan(md_bd *builder, md_bd_variant *const *variants, int32_t n);

#endif
