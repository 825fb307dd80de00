/* Tuning of a combo: coordinate descent over the configs of its kernels, timed as the merged kernels that they become.
 */
#ifndef MD_COMBO_TUNING_TUNING_H
#define MD_COMBO_TUNING_TUNING_H

#include "base/strbuf.h"
#include "combo/combo.h"

/* A text and who gave it, for messages. */
typedef struct md_cb_said {
    const char *text; /* NULL: none */
    const char *source;
} md_cb_said;

typedef struct md_cb_tune_job {
    double budget_s;
    int32_t max_builds;
    bool json; /* the report is an object a line, else text */
    md_cb_said order, limits;
} md_cb_tune_job;

/** Tunes and reports each step. Runs on private copies of all tensors. The caller has waited for the ops. */
md_status md_cb_tune(md_strbuf *report, md_cb *cb, md_stream stream, const md_cb_tune_job *job);

/* ---- copies.c */
typedef struct md_cb_copies {
    void *memory;
    void **before; /* the addresses of all operands, part by part */
} md_cb_copies;

/** Makes all items work on copies of their tensors. OUT_OF_MEMORY where they take more than measuring may. */
md_status md_cb_copies_make(md_cb_copies *out, md_cb *cb, md_stream stream);
/** Gives the items their own memory back. */
void md_cb_copies_finish(md_cb_copies *copies, md_cb *cb);

/* ---- race.c */
/* A way to run a combo, while another one is in the combo. */
typedef struct md_cb_way {
    md_cb_schedule *plan; /* NULL: each item by a call of its own */
    struct md_cb_loops *loops;
    struct md_cb_merged *merged;
    md_cb_how how; /* one launch for items that can share it, or a launch each: as the model decides for this plan */
    md_cb_choice choice[MD_CB_MAX_CHOICES];
    int32_t n_choices;
    double us, spread_us; /* of the last race; 0: it was not timed */
} md_cb_way;

enum { MD_CB_MAX_WAYS = 3 };

/** Makes a way of the combo's choices, with all its kernels built. */
md_status md_cb_way_make(md_cb_way *out, md_cb *cb);
void md_cb_way_free(md_cb_way *way, md_cb *cb);
/** True if a way is faster by more than chance. */
bool md_cb_is_faster(const md_cb_way *trial, const md_cb_way *than);
/** Times ways against each other, in turn. `deadline_ns`: no round begins after it. */
md_status md_cb_race(md_cb_way *const *way, int32_t n, md_cb *cb, md_stream stream, uint64_t deadline_ns);

#endif
