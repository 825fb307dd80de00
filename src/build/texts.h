/* The texts of a context: each compiled and loaded once, whoever asks and however many ask at a time. */
#ifndef MD_BUILD_TEXTS_H
#define MD_BUILD_TEXTS_H

#include "base/table.h"
#include "build/build.h"

#include <pthread.h>

/* One text (or host function) on its way to a loaded kernel. Lives until the builder ends. Guarded by the builder's
 * lock, except that the job owns `source` while state is QUEUED. */
typedef struct md_bd_text {
    md_bd *builder;
    md_digest128 key; /* in the table */
    md_bd_state state;
    bool is_orphan; /* QUEUED, and nobody is at it: in a child after fork */
    md_kn_launch_source *source; /* QUEUED only; freed by the job */
    md_dev_kernel *kernel; /* READY */
    char failure[256]; /* FAILED: why; never tried again */
    struct md_bd_ticket *waiting; /* variants to tell */
} md_bd_text;

/* A variant that waits for a text. */
typedef struct md_bd_ticket {
    struct md_bd_ticket *next;
    md_bd_text *text;
    struct md_bd_made *made;
} md_bd_ticket;

/* What md_bd_variant_create hands out, with what only the builder sees. */
typedef struct md_bd_made {
    md_bd_variant base; /* first */
    int32_t n_open; /* texts not yet READY or FAILED; guarded by the builder's lock */
    uint64_t start_ns;
    md_bd_ticket ticket[MD_KN_MAX_LAUNCHES];
} md_bd_made;

struct md_bd {
    md_dev *dev;
    md_sr *store; /* binaries of earlier processes; may be NULL */
    pthread_mutex_t lock; /* of the table, all texts and the progress of all variants */
    pthread_cond_t changed; /* a variant or a job came to its end */
    md_table *texts; /* digest128 -> md_bd_text */
    int32_t n_jobs; /* queued or running */
    int32_t n_orphans; /* of them, in a child after fork: nobody is at them until somebody waits for them */
    int32_t n_listening; /* threads inside `listener` */
    void (*listener)(void *user);
    void *listener_user;
    md_bd_counters count;
};

/** The text of a source: a known one, or a new one that the caller must start. Takes the source's text if it is new.
 * The lock is held. */
md_status md_bd_text_find(md_bd_text **text, bool *is_new, md_bd *builder, md_kn_launch_source *source);
/** Starts the job of a new text. The lock is not held: a pool without threads runs it at once. */
void md_bd_text_start(md_bd_text *text);
/** Frees a text and unloads its kernel. */
void md_bd_text_drop(void *text);

/** Called with the lock held when all texts of a variant are READY or FAILED (build.c). */
void md_bd_made_finish(md_bd_made *made);

#endif
