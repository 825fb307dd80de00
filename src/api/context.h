/* Contexts and ops of the public functions. */
#ifndef MD_API_CONTEXT_H
#define MD_API_CONTEXT_H

#include "base/env.h"
#include "base/json.h"
#include "dispatch/call/call.h"
#include "dispatch/pool/fill.h"
#include "stats/rows.h"
#include "tune/calibrate/calibrate.h"
#include "tune/search/search.h"
#include "tune/stored/stored.h"

#include <sys/types.h>

/* ---- context.c */

/* The structs behind the public handles md_context and md_op, and what the files of this folder share. */

struct md_context {
    char **variables; /* the environment when it was made (md_env_copy): background threads read no other */
    md_env env;
    md_log log;
    md_log_said said;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_tn_wisdom *wisdom;
    md_tn_stored *stored; /* measured picks; NULL: no store */
    md_bd_bundles bundles; /* the bundles that are open */
    md_sr_bundle **bundle; /* [bundles.n] */
    _Atomic(md_sr_bundle_maker *) maker; /* of md_bundle_begin; NULL: none */
    md_sr *store; /* NULL: nothing is kept */
    md_digest128 environment; /* what measured times depend on, where no store says it */
    md_trace *trace; /* NULL: no MD_TRACE */
    md_dump *dump; /* NULL: no MD_DUMP */
    md_ds_runtime runtime;
    md_ds_policy policy; /* defaults of ops */
    md_tn_counters tune_count;
    char *hints, *pin; /* own copies; pin may be NULL */
    struct {
        char *path; /* a pattern (stats/path.c), own copy; NULL: no MD_STATS */
        int32_t number;
        pid_t owner; /* the process that made the context */
    } stats;
    struct {
        bool is_on;
        bool lacks_rates; /* the host's are an estimate */
        pid_t owner; /* the process that measures them */
        _Atomic int32_t is_running, is_closing;
        md_tn_calibration found; /* by an earlier process; n 0: nothing */
        md_dev_factors factors; /* that hold in this one */
    } calibration;
    const char *hints_source; /* for messages: "option hints", "MD_HINTS" or "default hints" */
    int64_t max_shapes;
    pthread_mutex_t lock_of_ops; /* guards `retired`; taken before the runtime's lock of ops */
    md_ss_rows retired; /* statistics of destroyed ops */
    struct md_sequence *sequences; /* sequences that are not destroyed; guarded by `lock_of_ops` */
    struct md_combo *combos; /* combos that are not destroyed, those that md_combo_call made among them */
    int32_t n_called_combos; /* how many of `combos` md_combo_call made */
};

struct md_op {
    md_context *context;
    md_ds_op *ds; /* shared by all equal ops of the context */
};

/** Opens the bundles that options and environment name. Comes first: with bundles the device needs no compiler. */
md_status md_api_open_bundles(md_context *c, const md_context_options *o);
void md_api_close_bundles(md_context *c);
/** Opens the store that options and environment ask for; the device is open. */
md_status md_api_open_store(md_context *c, const md_context_options *o);
/** Makes the wisdom: of the store, of shipped files, and of bundles. */
md_status md_api_open_wisdom(md_context *c);
/** Sets the rates of a host device, if no bundle did: those of the store, else estimates (`is_later`: they are measured
 * in the background), else what is measured now. Kept in the store. */
void md_api_set_rates(md_context *c, bool is_later);
/** Measures them for later processes. */
void md_api_measure_rates(md_context *c);
/** True if what is not known of the machine is measured in the background, and kept. The store is open. */
bool md_api_calibrates_later(const md_context *c);
/** Takes over what an earlier process found by calibrating; else lets it be found in the background (MD_CALIBRATE). The
 * builder and the store are there, and no op is. */
void md_api_calibrate(md_context *c);
/** Ends what runs in the background. Before the builder is destroyed. */
void md_api_end_calibration(md_context *c);
/** Says in md_info what was found. */
void md_api_add_calibration(json_t *j, const md_context *c);
/** Takes the facts that kernels of the bundles were made for: of those that can run on this device, the ones nearest to
 * its own. `device`: the name that was asked for. */
md_status md_api_assume(md_context *c, const char *device);
#define MD_API_FACTS "facts" /* the kind of facts of devices in bundles and stores */
/** Puts tuned results into the bundle that is being made. */
md_status md_api_record_measured(md_context *c);
/** Puts what picks depend on into the bundle that is being made. */
md_status md_api_record_facts(md_context *c);

/** "host", "cuda:0": into out, which it returns. */
const char *md_api_device_name(char out[32], const md_context *c);
/** Version and sources, "0.2.0 0123456789abcdef": kernels of other sources are other kernels. Into out, which it
 * returns. */
const char *md_api_library_name(char out[64]);

/** Statistics are written at exit and at signals from now on, if MD_STATS asks for them. */
md_status md_api_watch_stats(md_context *c);
/** Stops watching, and writes the statistics for the last time. */
void md_api_end_stats(md_context *c);

/** Drops one reference to the op, held by a handle or a launch. The last one frees the op; its statistics stay. */
void md_api_leave(md_op *op);
/** Calls fn once for every op that is alive. No op is freed meanwhile. */
void md_api_each_op(md_context *context, void (*fn)(void *user, md_ds_op *op), void *user);

/* Ops that stay alive while nobody holds their lock: builds that are waited for take it when they end. */
typedef struct md_api_ops {
    md_ds_op **op; /* owned; each op has one owner more */
    int32_t n;
    bool failed;
} md_api_ops;
/** Holds all living ops. OUT_OF_MEMORY; release them all the same. */
md_status md_api_hold_ops(md_api_ops *out, md_context *context);
void md_api_release_ops(md_api_ops *ops, md_context *context);

/** Ends all sequences before their context is freed: after that they can only be counted and destroyed. */
void md_api_close_sequences(md_context *context);
/** The same of combos: after that they can only be destroyed. */
void md_api_close_combos(md_context *context);
/** Appends the statistics of all combos. The caller holds `lock_of_ops`. */
void md_api_add_combos(md_ss_combos *out, md_context *context);
/** Frees the combos that md_combo_call keeps of an op. */
void md_api_forget_combos(const md_op *op);

typedef enum md_api_memory { MD_API_NO_MEMORY, MD_API_MEMORY_TO_MEASURE } md_api_memory;

/** Binds an op to contiguous, aligned tensors of the sizes in a text ("b=8, n=64"), to select kernels without data.
 * MEMORY_TO_MEASURE allocates and fills memory if the op's policy measures: then call md_api_unbind_sizes, also after a
 * failure. INVALID_ARGUMENT for unknown and for missing dims. */
md_status md_api_bind_sizes(md_ds_bound *out, md_op *op, const char *sizes, md_api_memory memory);
void md_api_unbind_sizes(md_ds_bound *bound, md_op *op);

/** True if a merged op (dispatch/merged.h) serves contiguous tensors of these sizes: `out` stands for it, and has no
 * owner of its own; `merged_sizes` gets the sizes of its dims. */
bool md_api_merged(md_op *out, md_strbuf *merged_sizes, md_op *op, const char *sizes);

/** Hands a text to the caller's function in one piece. OUT_OF_MEMORY if the text failed, IO if the function stops. */
md_status md_api_write(const md_strbuf *text, md_write_fn write, void *user);

/* ---- operation.c */

/* Checks and defaults of op options, shared by creation, tuning and hint suggestion. */

/** Resolves a text: a catalogue name gives its formula and name; any other text is the formula itself, *name NULL. */
md_status md_api_find_formula(const char **formula, const char **name, const char *text);
/** Describes argument i < n_args of a formula. The texts are the formula's. */
void md_api_describe_arg(md_arg_info *out, const md_fx_formula *f, int32_t i);
md_status md_api_check_options(const md_op_options *o);
/** What tuning with these options is asked for, checked. */
md_status md_api_tune_request(md_ds_tune_request *out, const md_context *c, const md_op_options *o,
                              const md_tune_options *t);
/** Compile options of an op: formula and kernels, with the context's hints and policy as defaults. */
md_ds_compile_options md_api_compile_options(const md_context *c, const md_op_options *o);

#endif
