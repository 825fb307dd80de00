/* Selection: which variants fit a shape, which is picked and why, and what is said of it. */
#ifndef MD_DISPATCH_SELECT_SELECT_H
#define MD_DISPATCH_SELECT_SELECT_H

#include "dispatch/op.h"
#include "dispatch/pool/pool.h"
#include "tune/verify/verify.h"

/* ---- fit.c */

/* Which variants of a pool can serve a shape. */

/* What a variant is chosen for. */
typedef struct md_ds_query {
    const md_kn_shape *shape;
    const int64_t *select_sizes; /* sizes to choose by, by dim id */
    const md_kn_call *call; /* data for MD_SELECT_MEASURE; NULL: the model chooses */
    const md_digest128 *key; /* of the shape, to find a stored pick (stored.h); NULL: none is looked for */
    bool with_unbuilt; /* variants that are being built, or whose library is not loaded, count as ready */
    bool may_load; /* libraries may load what they need */
    bool without_unasked; /* not the variants of libraries that were not asked, or have not answered */
    bool only_recent; /* only variants that were picked lately (md_ds_pool.recent) */
    bool only_deferred; /* only variants whose library's kernel waits until a load pays */
    bool loads; /* the caller loads what libraries need: they count as ready unless that failed before */
    uint64_t numeric_class; /* of this class only; 0: any */
} md_ds_query;

/** NULL if variant i can serve the shape, else why not ("longer than it was compiled for"). Libraries load what they
 * need. */
const char *md_ds_misfit(const md_ds_pool *pool, int32_t i, const md_kn_shape *shape);
/** The same, but libraries load nothing: NULL if calls may pick the variant. */
const char *md_ds_reject_reason(const md_ds_pool *pool, int32_t i, const md_kn_shape *shape);
/** True if variant i can serve what the query asks for. */
bool md_ds_fits(const md_ds_pool *pool, int32_t i, const md_ds_query *query);
/** The same of the first n variants. Cheaper than one by one: many variants have the same envelope. */
void md_ds_fit_all(bool *fits, const md_ds_pool *pool, int32_t n, const md_ds_query *query);

/* ---- model.c */

/* The model's times of a pool's variants. */

/** The sizes that a call is chosen by: its own, or those of md_as. Sizes beyond any machine stand for "large": they are
 * halved until 64 bits can count their work. */
void md_ds_select_sizes(int64_t out[MD_FX_MAX_DIMS], const md_ds_op *op, const int64_t *size, const md_ds_as *as);
/** The model's times in us of the first n variants of a stage, at sizes by dim id. `wanted`: NULL, or which of them to
 * compute; the others get -1. Each takes a tenth of a microsecond, more or less. */
void md_ds_predict_us(double *us, const md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                      const bool *wanted);
/** As md_ds_predict_us, for choosing the fastest: only the two least times are exact. The time of another variant may
 * be less than the model's, though more than the second least. Libraries' times, which their answers correct, are
 * exact. */
void md_ds_predict_fastest(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                           const bool *wanted);
/** As md_ds_predict_us, corrected by measured times. */
void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n, const bool *wanted);
/** Corrects the times (> 0) of the first n variants by what their libraries answered for the shape, where `sizes` are
 * those of the shape. */
void md_ds_take_answers(double *us, const md_ds_op *op, int32_t stage, const md_kn_shape *shape, const int64_t *sizes,
                        int32_t n);
/** True for a library's variant that answered with more slices of a sum than it takes at other shapes like this: it is
 * not the kernel that a hint's list names. */
bool md_ds_answers_otherwise(const md_ds_op *op, int32_t stage, int32_t variant, const md_ds_query *query);

/* ---- libraries.c */

/** A variant of a library that fits and has not answered for the shape; -1: none. Where own kernels alone were weighed,
 * the first; else one that may be the best: the model of libraries errs by MAY_ERR, and knows more once they have
 * answered. */
int32_t md_ds_unasked_library(const md_ds_op *op, int32_t stage, const md_ds_query *query, const md_ds_pick *pick);
/** Notes a variant of a library that would be faster than the pick if its kernel were loaded. Small gains are left
 * alone: the model is not that exact. Hybrid loads what it tries. */
void md_ds_note_unloaded(md_ds_plan *plan, md_ds_op *op, int32_t stage, const md_ds_query *query);

/* ---- nearest.c */

/* The hints of an op that are nearest to a shape. */

/** True if the op selects by distance to the grid of default hints (space/grid.c), not to hints that someone gave. */
bool md_ds_has_grid(const md_ds_op *op);
/** Octaves from sizes (by dim id) to the nearest hint that the op selects by. */
double md_ds_nearest_octaves(const md_ds_op *op, const int64_t *sizes);
/** The nearest of the hints of the bits in `hints`, ties to the earlier one; -1, and distance -1, if there is none. */
int32_t md_ds_nearest_of(double *distance, const md_ds_op *op, uint64_t hints, const int64_t *sizes);

/* ---- select.c */

/* Choosing a variant of one stage for one shape. */

/** Picks by the op's policy among the variants that fit. NOT_FOUND if none fits; UNSUPPORTED if the pinned one does
 * not. Builds nothing. Thread-safe. */
md_status md_ds_select(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query);

/** True if nothing is left to be measured at the query's shape: every stage has a stored pick, or is pinned. */
bool md_ds_has_stored_picks(md_ds_op *op, const md_ds_query *query);

/* ---- racers.c */

/* Which variants MD_SELECT_MEASURE times at a shape: the model's best few. */

/* MD_DS_OWN_RACERS: but custom kernels, of which the model knows little. */
enum { MD_DS_OWN_RACERS = 8, MD_DS_RACERS = 24 };

/** The variants that are worth timing, the most promising first; returns how many (at most MD_DS_RACERS). us[n]: by the
 * corrected model; <= 0: the variant does not serve. */
int32_t md_ds_pick_racers(int32_t variant[MD_DS_RACERS], const md_ds_pool *pool, const double *us, int32_t n);

/** Loads what libraries need for the n variants, for at most `budget_ms` and the last load. Variants that cannot be
 * loaded, or for which no time was left, leave the list; returns how many stay. Waits for loads that others have begun.
 */
int32_t md_ds_load_racers(int32_t *variant, int32_t n, const md_ds_pool *pool, const md_ds_query *query,
                          double budget_ms);

/* ---- choose.c */

/* Choosing a plan for a shape: a variant for every stage. */

/* What a plan is chosen for. */
typedef struct md_ds_request {
    const md_kn_shape *shape;
    const md_ds_as *as; /* sizes to choose by */
    const void *key; /* bytes of the shape key, to find stored picks by; NULL: none is looked for */
    size_t key_bytes;
    const md_kn_call *call; /* data for MD_SELECT_MEASURE; NULL: the model chooses */
    md_ds_effort effort;
} md_ds_request;

/** Chooses a plan, which the caller frees. The reference evaluator serves if nothing can be built. Thread-safe. */
md_status md_ds_choose(md_ds_plan **out, md_ds_op *op, const md_ds_request *request);

/* ---- agreement.c */

/* Checks the variants of a stage against each other: a variant whose results differ from most others' is not used any
 * more. */

/** Checks n variants, which are ready and fit the shape, on a smaller shape of the same kind (at most 128 kB). Variants
 * that were checked before only serve as witnesses. Sets the pool's `agreement`, and warns of wrong variants in the
 * log. Takes milliseconds; calls of other threads go on. */
void md_ds_agree(md_ds_op *op, int32_t stage, const int32_t *variant, int32_t n, const md_kn_shape *shape);
/** Records what was found of a variant; one that differs or fails is not used any more. */
void md_ds_quarantine(md_ds_op *op, int32_t stage, int32_t variant, md_tn_agreement found);

/* ---- verify_custom.c */

/* Checks of a user's own kernels: each variant must give the reference evaluator's results on small shapes before it
 * may serve. */

/** Waits for the builds of custom kernels, and verifies each variant. One with wrong results, or that writes outside
 * its outputs, becomes FAILED, and a warning says why. COMPILE with the compiler's message if no variant of some custom
 * kernel could be built. */
md_status md_ds_custom_verify(md_ds_op *op);

/* ---- describe.c */

/* Shapes and choices in words. */

/** "b=8 n=64": the sizes of the dynamic dims; "static" if there are none. */
void md_ds_shape_text(char *out, size_t n_bytes, const md_fx_formula *formula, const int64_t *size);
/** "reference" for -1. */
const char *md_ds_variant_name(const md_ds_op *op, int32_t stage, int32_t variant);
/** Tells formula, stages and pools of a new op: a line each to the log at level debug, and a file of MD_DUMP. */
void md_ds_tell_op(const md_ds_op *op);
/** Logs a plan's picks in one line, at level debug. `what`: "picked", "now". */
void md_ds_log_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan, const char *what);
/** Logs a plan's picks, and writes them into the context's trace, if there is one. It writes a file, so not while a
 * stream is captured. `size`: by dim id. */
void md_ds_trace_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan);

/* ---- fused.c */

/* A chain or its parts: which of them a plan runs. The others are idle: they have a pick, but no launch. */

/** Decides for each chain of a plan whose stages have picks, by their times. `missing`: a bit for each stage that no
 * variant fits, or that has none; those that become idle leave it. */
void md_ds_choose_chains(md_ds_plan *plan, md_ds_op *op, const md_ds_query *query, uint64_t *missing);
/** False where a plan runs both a chain and its parts, or neither. */
bool md_ds_runs_all_once(const md_ds_plan *plan, const md_ds_op *op);
/** Microseconds of a chain's parts by a plan's picks for them; 0: some part has none. */
double md_ds_time_of_parts(const md_ds_plan *plan, const md_ds_op *op, int32_t stage, const int64_t *sizes);
/** Lets chain `stage` of a plan serve, or its parts. */
void md_ds_set_way(md_ds_plan *plan, const md_ds_op *op, int32_t stage, bool by_parts);
/** Appends which serves, chain `stage` or its parts, and why, for people: "the chain by the model: 20.1 us, its parts
 * 35.0". `sizes`: those that it was chosen by. */
void md_ds_print_fused(md_strbuf *out, const md_ds_op *op, const md_ds_plan *plan, int32_t stage,
                       const md_kn_shape *shape, const int64_t *sizes);
/** The name of a stage's variant for people and files: "idle", "reference". */
const char *md_ds_pick_name(const md_ds_op *op, const md_ds_plan *plan, int32_t stage);

#endif
