/* Many calls without order as one object: parts are ops, and items are calls of them. include/md/combo.h documents the
 * public functions; api/combo.c checks handles and takes the lock, so nothing here is thread-safe by itself. */
#ifndef MD_COMBO_COMBO_H
#define MD_COMBO_COMBO_H

#include "dispatch/cache/shape_entry.h"
#include "dispatch/bind/bind.h"
#include "dispatch/op.h"
#include "stats/combos.h"

#include <md/combo.h>

/* A tensor argument of a part. */
typedef struct md_cb_operand {
    int32_t arg, tensor; /* its number among the arguments, and among the formula's tensors */
    int32_t rank, at; /* where its sizes begin in an item's layout; its strides follow */
    md_dtype dtype;
    bool is_output;
} md_cb_operand;

/* A launch of an item, with its parameters ready. */
typedef struct md_cb_unit {
    const md_bd_variant *variant; /* of a stage of the op */
    md_ds_op *op; /* that the item was bound to */
    const md_ds_plan *plan; /* of the item */
    const md_ds_shape_entry *entry; /* held by the plan's shapes */
    md_kn_geometry geometry;
    int64_t item, params; /* item: of all parts; params: where its words begin */
    int32_t part, stage, launch; /* launch: of the variant */
    int32_t level; /* number of the launch within its item */
    int32_t points, rows; /* of an item that a warp can compute; 0: it cannot */
    double bytes; /* of the item's tensors */
} md_cb_unit;

/* A shape that items have, with the plan that they run by. */
typedef struct md_cb_shape {
    md_ds_op *op;
    md_ds_shape_entry *entry; /* held */
    const md_ds_plan *plan;
    int64_t n_items;
} md_cb_shape;

enum { MD_CB_MAX_CHOICES = 16, MD_CB_MAX_MADE = 64 };

/* A config that tuning found faster for items that would run another of the same family and numeric class. */
typedef struct md_cb_choice {
    const md_ds_op *op;
    const md_fa_family *family;
    int32_t stage;
    md_fa_config from, to;
} md_cb_choice;

/* What a combo runs in place of its items' own variants. */
typedef struct md_cb_choices {
    int32_t n, n_made;
    md_cb_choice choice[MD_CB_MAX_CHOICES];
    md_bd_variant *made[MD_CB_MAX_MADE]; /* for choices; an item may need a smaller block than others */
} md_cb_choices;

/* How items run together: launches of one level do not depend on each other. Items that cannot take part run by calls
 * of their own. */
typedef struct md_cb_schedule {
    int64_t n_units, n_words, n_apart, n_shapes;
    md_cb_unit *unit; /* sorted by level, then in the order of the items */
    md_kn_word *word;
    int64_t *apart; /* items of all parts */
    const char **why_apart;
    md_cb_shape *shape;
    size_t *memory; /* by item of all parts: where its temporaries and workspace lie */
    size_t memory_bytes; /* of all items */
    char *base; /* of that memory, as it stands in the parameters */
    int32_t n_levels;
    bool is_stand_in; /* a shape has a plan that a better one will replace */
    bool may_change; /* is_stand_in, or hybrid may find a better plan */
    bool awaits_choices; /* the variant of a choice was not built yet */
    uint64_t uncounted; /* runs since the shapes' calls were counted */
    uint64_t untold, untold_each; /* runs since md_cb_tell; of those, on the host, by launches of each item */
} md_cb_schedule;

/* Whether the items of a level run together, or each by a launch of its own. */
typedef enum md_cb_how { MD_CB_ONE, MD_CB_EACH, MD_CB_HOWS } md_cb_how;

typedef enum md_cb_by { MD_CB_BY_RULE, MD_CB_BY_MODEL, MD_CB_BY_TIMES, MD_CB_BY_STORE } md_cb_by;

enum { MD_CB_TIMES = 5 }; /* that are taken of each way */

/* Whether one launch or many, and why (decide/). */
typedef struct md_cb_decision {
    bool is_made, is_current; /* current: it is of the plan that there is */
    md_cb_how how;
    md_cb_by by;
    bool is_open; /* runs are timed, until it is known */
    double model_us[MD_CB_HOWS];
    double us[MD_CB_HOWS]; /* that were measured; 0: not known */
    int32_t n[MD_CB_HOWS];
    double time[MD_CB_HOWS][MD_CB_TIMES];
    uint64_t n_runs; /* runs while the decision is open */
    uint64_t start_ns; /* when the run that is timed began, on devices without marks */
    struct md_dev_mark *from, *to;
    bool is_pending; /* the marks are round a run that may not have ended */
    md_cb_how pending;
} md_cb_decision;

/* An op with its items. What a caller's md_args say is kept as plain words: layout, addresses, scalars. */
typedef struct md_cb_part {
    md_ds_op *op;
    int64_t n_items, first; /* first: the number of its first item among the items of all parts */
    int32_t n_operands, n_scalars, n_words;
    md_cb_operand operand[MD_FX_MAX_ARGS];
    int32_t scalar_arg[MD_FX_MAX_ARGS]; /* by number of the scalar: its argument */
    int64_t *layout; /* [n_items][n_words] */
    void **data; /* [n_items][n_slots] */
    md_kn_word *scalar; /* [n_items][n_scalars]: double, or int64 for scalars of that type */
    void **planned; /* [n_items][n_slots]: the addresses that stand in the plan's parameters */
    bool *is_empty; /* [n_items]: it computes nothing */
} md_cb_part;

typedef struct md_cb {
    pthread_mutex_t lock;
    md_ds_runtime *runtime; /* NULL once the context is gone */
    int32_t n_parts;
    md_cb_part *part;
    int64_t n_items; /* of all parts */
    bool has_moved; /* addresses changed since overlaps were last looked for */
    bool has_scalars; /* scalars changed since parameters were last filled in */
    md_cb_schedule *plan; /* NULL: to be made */
    struct md_cb_loops *loops; /* on devices that run lists of launches; NULL: to be made */
    struct md_cb_merged *merged; /* on GPUs; NULL: to be made */
    md_cb_choices choices;
    md_cb_decision decision;
    bool refuses_far, refuses_tight; /* a kernel with a table in device memory, or with few registers, was not built */
    uint64_t n_runs;
    md_ss_combo stats; /* of plans that are gone, and as md_cb_tell left them */
} md_cb;

/* ---- args.c */
/** Binds an item to the op that serves a call of it: the part's, or its joined one (dispatch/merged.h). The item was
 * bound before. */
md_status md_cb_bind_item(md_ds_op **op, md_ds_bound *bound, const md_cb_part *part, int64_t item);
/** INVALID_ARGUMENT unless the numbers of items and arguments can be. Comes before all else that reads parts. */
md_status md_cb_check_counts(const md_combo_part *parts, md_ds_op *const *op, int32_t n);
/** Takes the items of all parts: dtypes, sizes, strides, addresses and scalars are checked as a call does.
 * `op`: those of the parts. */
md_status md_cb_take(md_cb *cb, const md_combo_part *parts, md_ds_op *const *op);
void md_cb_part_finish(md_cb_part *part);
/** The arguments of an item, as a call takes them. `tensor`: room for one for each argument. */
void md_cb_args_of(md_arg args[MD_FX_MAX_ARGS], md_tensor tensor[MD_FX_MAX_ARGS], const md_cb_part *part, int64_t item);
/** One tensor of an item. */
md_tensor md_cb_tensor(const md_cb_part *part, const md_cb_operand *operand, int64_t item);
md_status md_cb_point(md_cb *cb, int32_t part, int32_t arg, void *const *data);
/** New scalars for all items. */
md_status md_cb_set_scalars(md_cb *cb, const md_arg *scalars, int32_t n);

/** INVALID_ARGUMENT unless an argument can be scalar number `scalar` of a part. */
md_status md_cb_check_scalar(const md_cb_part *part, int64_t item, int32_t scalar, const md_arg *given);
/** The word of such a scalar: a double or an int64, by its type. */
md_kn_word md_cb_scalar(const md_cb_part *part, int32_t scalar, const md_arg *given);

/* ---- find.c */
/** Equal for lists of equal ops, sizes and strides. */
uint64_t md_cb_hash(const md_combo_part *parts, md_ds_op *const *op, int32_t n);
/** True if the combo is of these ops, sizes and strides, and what else is given can replace what it has. */
bool md_cb_matches(const md_cb *cb, const md_combo_part *parts, md_ds_op *const *op, int32_t n);
/** Takes addresses and scalars of parts that match. */
void md_cb_move(md_cb *cb, const md_combo_part *parts);

/* ---- overlaps.c */
/** INVALID_ARGUMENT if an output of an item overlaps a tensor of another item; names both. */
md_status md_cb_check_overlaps(const md_cb *cb);

/* ---- choice.c */
/** Why a launch cannot run beside others. NULL: it can. */
const char *md_cb_why_not(const md_bd_variant *v, int32_t launch, const md_kn_geometry *g, const md_ds_op *op);
/** True if a config gives the bits of another, and may take its place by all that the op's options say. */
bool md_cb_is_alike(const md_bd_variant *own, const md_fa_config *config);
/** The variant of a choice for an item that would run `own`, with its geometry; `own` where there is none. Begins to
 * build what is missing: `own` serves until then. */
const md_bd_variant *md_cb_choose(md_kn_geometries *geometry, md_cb *cb, const md_bd_variant *own, const md_ds_op *op,
                                  const md_kn_shape *shape);
/** True if the plan was made before the variants of choices were built, which they are now. */
bool md_cb_choices_are_new(const md_cb *cb);
/** Waits for builds of choices. */
void md_cb_choices_wait(const md_cb *cb);
void md_cb_choices_finish(md_cb *cb);

/* ---- plan.c */
/** Chooses for all items as their calls would, and fills in the parameters of their launches. Nothing is launched. */
md_status md_cb_schedule_make(md_cb *cb, md_stream stream);
void md_cb_schedule_free(md_cb *cb);
/** True if some shape has a better plan now. */
bool md_cb_schedule_is_old(const md_cb *cb);
/** Adds the runs so far to the statistics of ops and shapes. */
void md_cb_schedule_count(md_cb *cb);

/* ---- params.c */
/** Fills in the parameters of all units anew. */
void md_cb_fill(md_cb *cb);
/** Puts new addresses and scalars into the parameters. False if an item needs another plan, or may not be run. */
bool md_cb_update(md_cb *cb);
/** Makes temporaries and workspaces lie at `base`. */
void md_cb_rebase(md_cb *cb, char *base);

/* ---- loops.c */
/** Runs all units by the device's loops over lists. */
md_status md_cb_run_loops(md_cb *cb);
/** The most pieces that a loop is cut into, for threads to share; 0: not known before the first run. */
int64_t md_cb_pieces(const md_cb *cb);
void md_cb_loops_free(md_cb *cb);

/* ---- count.c */
/** Adds what the plan's runs did since the last time to the combo's statistics. */
void md_cb_tell(md_cb *cb);
/** Names the combo for statistics. */
void md_cb_name(md_cb *cb, uint64_t hash);
/** Appends the combo's statistics, if it ran. */
void md_cb_stats(md_ss_combos *out, md_cb *cb);

/* ---- create.c */
/** Binds items. The caller holds the ops as long as the combo. */
md_status md_cb_create(md_cb **out, md_ds_runtime *runtime, const md_combo_part *parts, md_ds_op *const *op, int32_t n);
/** Frees all that needs the context. */
void md_cb_close(md_cb *cb);
void md_cb_destroy(md_cb **cb);

/* ---- run.c */
/** Chooses kernels, which the first run would do. */
md_status md_cb_prepare(md_cb *cb);
md_status md_cb_run(md_cb *cb, md_stream stream);
/** Runs by the plan as it is, items together, uncounted: neither addresses nor overlaps are looked at. */
md_status md_cb_run_schedule(md_cb *cb, md_stream stream, md_cb_how how);
/** Runs each item by a call of its own. */
md_status md_cb_run_apart(const md_cb *cb, md_stream stream);

/** How it runs, for people. */
const char *md_cb_form(const md_cb *cb);

/* ---- explain.c */
md_status md_cb_explain(md_strbuf *out, md_cb *cb, bool json);

#endif
