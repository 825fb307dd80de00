/* multidispatch: one tensor operation, many kernels, the right one for every shape. man 3 multidispatch is the guide.
 *
 * Rules for all functions:
 *  - Every function that can fail returns md_status. Out-parameters come first and are written only on success.
 *  - md_last_error() gives the calling thread's last message, which names the wrong value: one line, or three where a
 *    formula's text is wrong ("1:12: what", the line, a caret under the place). It does not end with a newline.
 *  - Options: a zeroed struct, or NULL, means all defaults. They must live only during the call.
 *  - *_destroy takes the address of the handle, accepts NULL and a NULL handle, and sets the handle to NULL.
 *  - Sizes and strides are in elements, *_bytes in bytes, *_us in microseconds, *_ns in nanoseconds.
 *  - `json` nonzero: one JSON object, else text or a table. `write` gets the text; `user` is its first argument.
 *  - The library never aborts, exits or prints, except where MD_LOG, MD_STATS or a callback asks for it.
 *  - All functions may be called from several threads at once, except on a handle that one of them destroys.
 * SPDX-License-Identifier: MIT */
#ifndef MD_MD_H
#define MD_MD_H

#include <md/types.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MD_STATIC)
#define MD_API
#else
#define MD_API __attribute__((visibility("default")))
#endif

#define MD_VERSION_MAJOR 0
#define MD_VERSION_MINOR 2
#define MD_VERSION_PATCH 0

/* ---- General */

/** The library's version, "major.minor.patch". */
MD_API const char *md_version(void);
/** The calling thread's last error message, "" if there was none. Valid until the thread's next failing call. */
MD_API const char *md_last_error(void);
/** "ok", "invalid argument", ... Never NULL. */
MD_API const char *md_status_name(md_status status);
/** "f32", "bf16", ...; "?" for a value that is no dtype. */
MD_API const char *md_dtype_name(md_dtype dtype);
/** Bytes of one element; 1 for i4 and u4, of which a byte holds two; 0 for a value that is no dtype. */
MD_API size_t md_dtype_size(md_dtype dtype);
/** The dtype of that name, or MD_DTYPE_DEFAULT if there is none. */
MD_API md_dtype md_dtype_parse(const char *name);
/** A contiguous (row-major) tensor of `rank` <= MD_MAX_RANK sizes over `data`. */
MD_API md_tensor md_tensor_make(void *data, md_dtype dtype, int32_t rank, const int64_t *size);
/** Named op i of the catalogue: name, formula, one line of description; all NULL beyond the end. */
MD_API void md_catalogue(int32_t i, const char **name, const char **formula, const char **description);
/** Environment variable i: name, what it takes, meaning; all NULL beyond the end. */
MD_API void md_variables(int32_t i, const char **name, const char **values, const char **meaning);

/* ---- Contexts and memory */

/** Makes a context on a device. The caller destroys it, after its ops and launches.
 * @return MD_INVALID_ARGUMENT for a bad option or environment variable (named in the message), MD_UNSUPPORTED if the
 * device is not in this build, MD_DEVICE if it fails. */
MD_API md_status md_context_create(md_context **out, const md_context_options *options);
/** Writes the statistics that MD_STATS asks for, and frees everything. (A context that is never destroyed writes them
 * when the process ends.) */
MD_API void md_context_destroy(md_context **context);
/** Facts about the build and the device, and what the context did so far: kernels compiled or taken from the store,
 * points tuned, configs timed and refused. `context` may be NULL: the build only. */
MD_API md_status md_info(md_context *context, int32_t json, md_write_fn write, void *user);

/** Memory of the context's device, 64-byte aligned. Free it with md_free of the same context. */
MD_API md_status md_alloc(void **out, md_context *context, size_t n_bytes);
MD_API void md_free(md_context *context, void *p);
/** Copies between any two places, host or device. The copy is done when it returns. */
MD_API md_status md_copy(md_context *context, void *to, const void *from, size_t n_bytes);
/** Waits for the stream; NULL is the default stream. The host device has nothing to wait for. */
MD_API md_status md_sync(md_context *context, md_stream stream);
/** Reports an index out of range that a GPU kernel met since the last check, with op, dim and value. It sees work that
 * has finished, so call md_sync first. The op's next md_call reports it too, instead of running. */
MD_API md_status md_check(md_context *context);

/* ---- Formulas: what an op would take and give, without a device and without kernels */

/** Reads a formula, or the name of a named op, as md_op_create does. Compiles nothing: takes microseconds. Of the
 * options only dtype, sizes and bounds count; NULL: all defaults.
 * @return MD_INVALID_ARGUMENT with line, column and caret for a bad formula, MD_NOT_FOUND for an unknown name. */
MD_API md_status md_formula_create(md_formula **out, const char *formula, const md_op_options *options);
MD_API void md_formula_destroy(md_formula **formula);
/** The formula as the library prints it, dtypes and static sizes included. Owned by the formula. */
MD_API const char *md_formula_text(const md_formula *formula);
/** Number of arguments, and argument i, as of an op (md_op_n_args, md_op_arg). Texts belong to the formula. */
MD_API int32_t md_formula_n_args(const md_formula *formula);
MD_API md_status md_formula_arg(md_arg_info *out, const md_formula *formula, int32_t i);
/** The outputs that a call with these inputs writes. `tensor` has n_args entries, one an argument. Of inputs rank and
 * sizes are read; entries of scalars are ignored; those of outputs become contiguous tensors without memory.
 * @return MD_INVALID_ARGUMENT for an input whose rank or size does not fit, for an output that is also read (a scatter
 * target: the caller must give it), and for an output axis that no input gives a size (named). */
MD_API md_status md_formula_infer(md_tensor *tensor, int32_t n_args, const md_formula *formula);

/* ---- Ops */

/** Makes an op from a formula or the name of a named op ("softmax"). Compiles kernels: may take seconds. Ops of equal
 * formula, dtypes, options (but async) and name share kernels, choices and statistics; each handle is destroyed by
 * itself, in any order.
 * @return MD_INVALID_ARGUMENT with line, column and caret for a bad formula, MD_OUT_OF_MEMORY. A missing compiler is no
 * error: the reference evaluator serves, and a warning says so. */
MD_API md_status md_op_create(md_op **out, md_context *context, const char *formula, const md_op_options *options);
MD_API void md_op_destroy(md_op **op);

/** Number of arguments: the formula's tensors and scalars, in order of first appearance, without lets. Then the sizes
 * that no tensor gives: md_call takes each of them as md_i(size). */
MD_API int32_t md_op_n_args(const md_op *op);
/** Describes argument i. @return MD_INVALID_ARGUMENT if i is out of range. */
MD_API md_status md_op_arg(md_arg_info *out, const md_op *op, int32_t i);
/** Argument i at sizes given as text ("b=8, n=64"): a contiguous tensor without memory. An axis that must only be long
 * enough gets the length that the op reads, or that the sizes say ("E.0=1000" for axis 0 of E).
 * An argument that is a size is described as one axis of it.
 * @return MD_INVALID_ARGUMENT for a scalar, and for an unknown dim or a missing size (named). */
MD_API md_status md_op_tensor(md_tensor *out, md_op *op, int32_t i, const char *sizes);
/** The op's name, and its formula as the library prints it. Owned by the op. */
MD_API const char *md_op_name(const md_op *op);
MD_API const char *md_op_formula(const md_op *op);
/** Number of a dynamic dim by its name, for md_as; -1 if there is none. */
MD_API int32_t md_op_dim(const md_op *op, const char *name);
/** Number of stages; number of variants of a stage; name of a variant ("" out of range), owned by the op. Stages are
 * those of the formula as it is written: where reductions over several indices find contiguous tensors, a call takes
 * fewer, and md_choice_of, md_launch_choice and md_explain tell of those. */
MD_API int32_t md_op_n_stages(const md_op *op);
MD_API int32_t md_op_n_variants(const md_op *op, int32_t stage);
MD_API const char *md_op_variant(const md_op *op, int32_t stage, int32_t i);
/** The generated source of a variant. @return MD_NOT_FOUND if the stage has no variant of that name. */
MD_API md_status md_op_source(md_op *op, int32_t stage, const char *variant, md_write_fn write, void *user);
/** Floating-point operations, and bytes touched once, of a call at these sizes. Of the formula, not of a kernel. */
MD_API md_status md_op_work(double *flops, double *bytes, md_op *op, const char *sizes);

/** Says that the memory of a constant operand (md_op_options.constant) was written, or that it was freed and may become
 * another tensor: what was packed from `data` (NULL: from any address) is made anew by the next call that reads it,
 * which waits for that. Order it behind the writes as calls are ordered. A captured graph reads what was packed before
 * until such a call has run. `name` NULL: all constants. Thread-safe.
 * @return MD_INVALID_ARGUMENT if `name` is none of them. */
MD_API md_status md_op_operand_changed(md_op *op, const char *name, const void *data);

/* ---- Calls */

/** Runs the op with the variant that suits the arguments' shape. On the host device the work is done when it returns;
 * on a GPU it is enqueued on `stream`. Concurrent calls must not write the same memory.
 * @return MD_INVALID_ARGUMENT (with the wrong value) for a kind, dtype, rank, size, stride or pointer that does not
 * fit, for an output that overlaps anything but exactly an input that may be reused, and for an index out of range
 * (host). On a GPU the memory must be the device's (checked when a shape is new, at every call under MD_VERIFY=1), and
 * md_check or the op's next call reports an index out of range. A size that no tensor gives and the call leaves out:
 * the message has its place in the formula. While the stream is captured a call only launches; a new shape is then
 * served by what is ready. */
MD_API md_status md_call(md_op *op, md_stream stream, const md_arg *args, int32_t n_args);
/** Computes the op slowly in f64 on the calling thread. Same arguments and checks as md_call; outputs are rounded once,
 * when stored. Device memory is copied to the host and back; work on all streams but the default one must be done. */
MD_API md_status md_reference(md_op *op, const md_arg *args, int32_t n_args);

/** Resolves a call once, to run it many times with the same sizes, strides and dtypes, and other pointers. The launch
 * keeps what it needs of the op: both are destroyed in any order, before the context. */
MD_API md_status md_resolve(md_launch **out, md_op *op, const md_arg *args, int32_t n_args);
/** Runs a launch on new arguments of its shape; only NULL pointers and the count are checked. `args` may be NULL: the
 * pointers of md_resolve. */
MD_API md_status md_launch_run(const md_launch *launch, md_stream stream, const md_arg *args, int32_t n_args);
/** Time of the kernels of one run in us, without host overhead, by the device's best clock. */
MD_API md_status md_launch_time(double *us, const md_launch *launch, md_stream stream);
/** Time of n launches of one context, run one after the other with nothing between their kernels: `*us / n` is what
 * one costs among others. Waits for the GPU; not while the stream is captured. */
MD_API md_status md_launch_time_all(double *us, const md_launch *const *launches, int32_t n, md_stream stream);

/** One competitor of md_bench. Zero it, then set `us`. */
typedef struct md_bench_competitor {
    double *us; /**< the caller's memory for its times: options.samples of them */
    uint32_t groups; /**< bits: it is dropped only if it is slow in each of its groups; 0: all are one group */
    int32_t never_drops; /**< never dropped for being slow */
    int32_t n; /**< out: times in `us`, of one run in us; fewer than options.samples if it was dropped */
    double look_us; /**< out: one run of a first look; 0: it failed */
    md_status status; /**< out: what `sample` returned when it failed, and the competitor was dropped */
} md_bench_competitor;

/** Runs competitor i `repeats` times, waits, and gives the time of one run in us. */
typedef md_status (*md_bench_fn)(double *us, void *user, int32_t i, int32_t repeats);

/** How md_bench compares. */
typedef struct md_bench_options {
    int32_t samples; /**< of each competitor that is not dropped; 0: 15; at most 1024 */
    double sample_us; /**< a sample repeats runs until it takes about this long; 0: 1000 */
    double warm_up_us; /**< time of discarded samples at the start; 0: 50000; negative: none */
    double look_factor; /**< after the first look, drop those slower than this x the best; 0: none */
    int32_t cut_samples; /**< after this many samples, drop those slower than cut_factor x the best; 0: none */
    double cut_factor;
    /** Begin no new round after this time; the first round (two samples of each) always ends. 0: no limit. */
    double budget_ms;
} md_bench_options;

/** Compares n competitors as the library compares variants itself: two looks each, a warm-up, then samples in the order
 * A B C C B A, so that a drifting clock and other load affect all of them alike. `competitor[i].us[k]` of all i are
 * from round k / 2. The caller decides what is compared: kernels by md_launch_time_all, whole calls, other libraries.
 * `options` may be NULL. */
MD_API md_status md_bench(md_bench_competitor *competitor, int32_t n, const md_bench_options *options,
                          md_bench_fn sample, void *user);

/** What a launch runs. */
MD_API md_status md_launch_choice(md_choice *out, const md_launch *launch);
MD_API void md_launch_destroy(md_launch **launch);

/* ---- Choices */

/** What md_call would pick for these arguments, without running the op (MD_SELECT_MEASURE measures, as a call does). */
MD_API md_status md_choice_of(md_choice *out, md_op *op, const md_arg *args, int32_t n_args);
/** Says what a formula, or an op of the catalogue, becomes with these options (NULL: defaults), before anything is
 * compiled: sizes and where they come from, stages, the families that serve each, what is slow and why, what is checked
 * at run time, and warnings. Fails as md_op_create does for a bad formula or option. Thread-safe. */
MD_API md_status md_check_formula(md_context *context, const char *formula, const md_op_options *options, int32_t json,
                                  md_write_fn write, void *user);
/** Explains the choice at sizes given as in md_prepare: all candidates with envelope, distance, predicted time and, as
 * JSON, what a library said it would run, and the pick. */
MD_API md_status md_explain(md_op *op, const char *sizes, int32_t json, md_write_fn write, void *user);
/** Picks for shapes given as text, "b=1, n=64", several with ';' between them, and waits for the best kernel of each.
 * Takes memory layouts as contiguous. If one fails, those before it are prepared. Kernels of cuBLASLt serve a shape
 * only if they are loaded, which is done here and, for sizes near the hints, when an op is made. */
MD_API md_status md_prepare(md_op *op, const char *sizes);
/** Waits until every variant of the op is built. After that every known shape has the best of them. */
MD_API md_status md_op_wait(md_op *op);
/** Waits for what is being built. From then on nothing is built or measured for the op, and `mode` says what a new
 * shape gets. MD_FREEZE_NONE lets it build again. Equal ops are one op, so all of them are frozen. */
MD_API md_status md_freeze(md_op *op, md_freeze_mode mode);
/** The same for all ops that the context has now. */
MD_API md_status md_freeze_all(md_context *context, md_freeze_mode mode);
/** A digest of what the living ops of the context chose for the shapes they remember. It is equal where the same
 * formulas have the same variants for the same sizes, whatever the order and the number of calls: ranks of one model
 * compare it. */
MD_API md_status md_digest(uint64_t out[2], md_context *context);
/** The choices of the living ops of the context, for processes on equal devices: lines of JSON, sorted. A line is an
 * op, one of its shapes, and the variants. Equal choices give equal bytes. Shapes that the reference serves are left
 * out. @return MD_OUT_OF_MEMORY, MD_IO if `write` fails. */
MD_API md_status md_choices_export(md_context *context, md_write_fn write, void *user);
/** Takes over what md_choices_export wrote, here or in another process. From then on these shapes run these variants,
 * in every mode of selection, met before or not; variants that are missing are built, which this waits for. All lines
 * are taken over, or none (unless it is MD_OUT_OF_MEMORY). Texts may be joined: the first line of an op and
 * shape counts, so ranks that all import all their texts in the same order choose equally. Lines of ops that are not
 * alive, and of other devices, are counted in *n_unknown (may be NULL) and ignored. Launches and sequences that are
 * bound keep their kernels. The store gets nothing of it. Call it while no other thread calls the ops.
 * @return MD_INVALID_ARGUMENT naming the line of a bad text, MD_NOT_FOUND for a variant that does not exist,
 * MD_UNSUPPORTED if one cannot serve here (another is pinned, the op is frozen and lacks it, another numeric class). */
MD_API md_status md_choices_import(int64_t *n_unknown, md_context *context, const char *text);
#define MD_AGREE_GATHERS 6 /**< that md_agree makes, whatever it finds */
#define MD_WHY_BYTES 256 /**< for the message of a gather that failed */

/** How the ranks of a program exchange bytes. md/mpi.h makes one for MPI. */
typedef struct md_exchange {
    int32_t rank, n_ranks;
    double seconds; /**< that md_agree may take, with waiting for others and building what it lacks; 0: 30 */
    /** Gathers n_bytes > 0 from every rank: rank r's are at all + r * n_bytes then. All ranks call it equally often,
     * and with equal n_bytes. Returns 0; nonzero if it failed or took longer than `seconds`, and writes into `why`
     * (MD_WHY_BYTES) which rank did not come. */
    int32_t (*gather)(void *user, void *all, const void *mine, size_t n_bytes, double seconds, char *why);
    void *user;
} md_exchange;

/** What md_agree found. */
typedef struct md_agreement {
    uint64_t digest[2]; /**< md_digest, equal on all ranks of this kind of device */
    int32_t n_kinds; /**< of devices among the ranks */
    int64_t n_shapes; /**< that some rank of this kind has met */
    int64_t n_disputed; /**< of them, served by different kernels before, or not met by all */
    int64_t n_changed; /**< shapes that this rank serves otherwise now */
    int64_t n_vetoed; /**< choices that could not be built on some rank, and gave way to the next */
    int32_t differing; /**< the first rank whose device, driver or compiler is not rank 0's; -1: none is */
    char difference[MD_WHY_BYTES]; /**< what differs there; "" */
} md_agreement;

/** Makes all ranks whose devices have equal names run the same kernels for the shapes that any of them has met, and
 * puts what was measured since the last time into use (md_context_options.agrees). All ranks call it, with the same
 * ops alive, while no thread calls these ops. A shape gets the choice of the first rank of the kind that met it; where
 * a rank cannot build that, it says so, and all take the next rank's, or a runner-up. It makes MD_AGREE_GATHERS gathers
 * and nothing else collective. Digests go first: where they are equal, little else is exchanged. Captured graphs and
 * bound launches keep their kernels. `out` may be NULL.
 * @return the same on all ranks that come back: MD_TIMEOUT if a rank did not come in time (named; shapes may have
 * changed if it was lost at the very end), MD_INVALID_ARGUMENT if ranks of a kind hold other ops or options,
 * MD_UNSUPPORTED for ranks of another version, and for a shape whose every choice some rank cannot build. The message
 * names the rank and what differs; shapes of ops that all hold are agreed on all the same. */
MD_API md_status md_agree(md_agreement *out, md_context *context, const md_exchange *exchange);

/** Lists the kernels of this context's ops in a CUDA graph: op, variant, shape, how often, name. `graph` is a captured
 * cudaGraph_t, or NULL for the one that `stream` is being captured into. Kernels of others, of libraries, and of ops
 * that are gone are counted only. @return MD_UNSUPPORTED on a device without graphs. */
MD_API md_status md_capture_list(md_context *context, md_stream stream, void *graph, int32_t json, md_write_fn write,
                                 void *user);

/* ---- Hints and tuning */

/** A shape that a program met, and how much it counts: calls, or time spent there. > 0. */
typedef struct md_met_shape {
    const char *sizes; /**< "b=8, n=64" */
    double weight;
} md_met_shape;

/** What md_hints_suggest is to do. */
typedef struct md_suggest_options {
    const md_met_shape *shapes; /**< that the hints are for */
    int32_t n_shapes;
    int32_t n_hints; /**< at most this many, up to 64; 0: 6 */
    int32_t json; /**< nonzero: one JSON object, else text */
    md_write_fn write; /**< takes the result */
    void *user;
} md_suggest_options;
/** Computes the hints with the least expected regret on these shapes, in the language of MD_HINTS. Says what they and
 * today's hints (options, else the context's) cost against the best kernel for each shape. All by the model: nothing is
 * built or measured. Options and formula as for md_op_create.
 * @return MD_INVALID_ARGUMENT for a formula without dynamic dims, and for missing sizes (named). */
MD_API md_status md_hints_suggest(md_context *context, const char *formula, const md_op_options *options,
                                  const md_suggest_options *suggest);

/** What md_tune_formula is to do. */
typedef struct md_tune_options {
    md_tune rigor; /**< MD_TUNE_MEASURE (default) or MD_TUNE_EXHAUSTIVE */
    double budget_ms; /**< for all stages and points together; 0: MD_TUNE_BUDGET_MS, else 1500 */
    int32_t max_builds; /**< configs built for a point; 0: 12 */
    int32_t all_directions; /**< nonzero: also try neighbours that differ in two parameters */
    const int64_t *indices; /**< what index tensors hold, repeated and wrapped into range; NULL: random */
    int64_t n_indices;
    const char *exclude; /**< variants, separated by ';', that are known not to end: quarantined, not tried */
    uint64_t seed; /**< of synthetic data */
    md_write_fn write; /**< takes one JSON object a line: every candidate, every winner; may be NULL */
    void *user;
    md_tune_strategy strategy; /**< of MD_TUNE_MEASURE */
    /** Nonzero, on GPUs: half of the time is for points off the hints: rows at no 16-byte boundary and, with default
     * hints, lopsided shapes. */
    int32_t off_hints;
} md_tune_options;
/** Searches the configs of a formula's kernels at its hints (options, else the context's), and keeps what it finds for
 * ops made later. Inputs are synthetic: no memory of the caller is read or written. A point whose tensors take more
 * memory than measuring may (5% of what is free, at most 256 MiB) keeps the model's answer. */
MD_API md_status md_tune_formula(md_context *context, const char *formula, const md_op_options *options,
                                 const md_tune_options *tune);

/** Lists what tuning the formula consists of, for several processes or machines to share: tune->write gets one JSON
 * object a line for each piece, one family of a stage at one point. A piece says all that tuning it takes, and "ms",
 * what it is predicted to take; "piece" is its digest. Equal devices and versions list equal pieces with equal
 * digests, whatever was tuned before. Of `tune`, budget_ms is shared among the pieces by their predicted time; 0: each
 * may take ten times that, and 5 s. Nothing is built or measured.
 * @return MD_INVALID_ARGUMENT without tune->write, MD_UNSUPPORTED for kernels of the caller. */
MD_API md_status md_tune_pieces(md_context *context, const char *formula, const md_op_options *options,
                                const md_tune_options *tune);
/** Tunes one piece, and keeps what it finds as md_tune_formula does. `write` (may be NULL) gets the result: wisdom for
 * md_wisdom_import, between the lines "# piece DIGEST" and "# end DIGEST". The same piece may be tuned any number of
 * times; a piece that is known already gives its result at once. Of `tune` (may be NULL) only exclude and write, with
 * its user, count: the piece says the rest. Waits for no other process, but while that measures on the device.
 * @return MD_CORRUPT for a text that is no piece or was changed, MD_UNSUPPORTED for a piece of another device or
 * version (both are named), MD_TIMEOUT if nothing was timed because another process had the piece or the device. */
MD_API md_status md_tune_piece(md_context *context, const char *piece, const md_tune_options *tune, md_write_fn write,
                               void *user);

/* ---- Statistics */

/** A table of all ops and shapes: variant, why, distance, runner-up, calls, time; then ops and combos. */
MD_API md_status md_stats_print(md_context *context, FILE *file);
/** The same as "table", "json" or "csv" (NULL: by the path's ending) into a file, which is replaced in one
 * step; "-" is stdout. */
MD_API md_status md_stats_write(md_context *context, const char *path, const char *format);

/** The same as "table" (NULL), "json" or "csv" to a function. */
MD_API md_status md_stats_report(md_context *context, const char *format, md_write_fn write, void *user);

/* ---- The store: compiled kernels and tuned results on disk, shared by all processes of a user. A folder that cannot
 * be used causes one warning, and everything works without it. Nothing here waits for other processes. */

/** What a context did with the store. */
typedef struct md_store_counters {
    uint64_t hits, misses; /**< of look-ups */
    uint64_t healed; /**< entries that could not be read, and were removed or replaced */
    uint64_t written, write_failures;
    uint64_t compiles; /**< texts given to a compiler */
    uint64_t kernels_stored; /**< kernels that came from the store instead */
    uint64_t timed; /**< configs timed by tuning */
} md_store_counters;
MD_API md_status md_store_count(md_store_counters *out, const md_context *context);
/** The user's folder; "" where nothing is kept. Owned by the context. */
MD_API const char *md_store_path(const md_context *context);

/** About the user's folder, all devices and versions together. */
typedef struct md_store_facts {
    int64_t n_entries, n_bytes; /**< before anything was removed */
    int64_t n_bad, n_removed, n_removed_bytes;
} md_store_facts;
/** One line, or one JSON object, for each entry. Reads every file. */
MD_API md_status md_store_list(md_context *context, int32_t json, md_write_fn write, void *user);
/** Checks every entry, and removes bad ones and what killed processes left. `write` (may be NULL) gets a line for each
 * bad one. */
MD_API md_status md_store_verify(md_store_facts *out, md_context *context, md_write_fn write, void *user);
/** Removes the entries that were unused longest until limit_bytes are left, tuned results last. */
MD_API md_status md_store_gc(md_store_facts *out, md_context *context, int64_t limit_bytes);

/** What goes into a bundle. */
typedef enum md_bundle_what {
    MD_BUNDLE_ALL, /**< every kernel that the context builds */
    MD_BUNDLE_KEPT /**< the kernels that md_bundle_keep named, and for every stage one that serves all shapes */
} md_bundle_what;
/** From now on the context keeps kernels for a bundle, with those of its own bundles. Call before the first op.
 * Contexts of a device "sm_80", "sm_90a", "sm_100a", "ptx", "x86-64", "avx2" or "avx512" build for other machines; no
 * such hardware is needed, and calls are MD_UNSUPPORTED.
 * @return MD_INVALID_ARGUMENT at the second call, MD_OUT_OF_MEMORY, MD_COMPILE. */
MD_API md_status md_bundle_begin(md_context *context, md_bundle_what what);
/** The bundle gets the kernels that serve these sizes, as in md_prepare ("" without dynamic dims).
 * @return MD_INVALID_ARGUMENT without md_bundle_begin, or for sizes. */
MD_API md_status md_bundle_keep(md_op *op, const char *sizes);
/** Waits for all builds, and writes the kernels of all ops that were made to one file. Contexts with
 * md_context_options.bundle use it without a compiler. Equal kernels give equal bytes. An older file is replaced.
 * @return MD_INVALID_ARGUMENT without md_bundle_begin, MD_IO. */
MD_API md_status md_bundle_write(md_context *context, const char *path);
/** One JSON object on a bundle: version of the format, digest, bytes, entries, kernels, what it is for, and the gaps:
 * stages without a kernel that serves all shapes. @return MD_NOT_FOUND, MD_IO. */
MD_API md_status md_bundle_describe(const char *path, md_write_fn write, void *user);
/** Tuned results as text: sorted lines of JSON, the best of each key and family of this device and version. May be
 * empty. */
MD_API md_status md_wisdom_export(md_context *context, md_write_fn write, void *user);
/** What an import did. */
typedef struct md_wisdom_counts {
    int64_t n_lines, n_bad; /**< lines that could be read, and lines that could not */
    int64_t n_taken; /**< lines that improved on what was known */
    int64_t n_related; /**< of those: measured with another driver, compiler or version; they serve as estimates */
    int64_t n_foreign; /**< of other devices: left out */
} md_wisdom_counts;
/** Takes tuned results and keeps them in the store. A more rigorous result never gives way to a less rigorous one; of
 * equals the one with more samples stays, then the newer one. Empty lines and lines that start with '#' are ignored.
 * `out` may be NULL, and is also filled on MD_CORRUPT.
 * @return MD_CORRUPT if a line cannot be read: then nothing is taken, and `write` (may be NULL) gets a line for each
 * bad one, with its number. */
MD_API md_status md_wisdom_import(md_wisdom_counts *out, md_context *context, const char *text, size_t n_bytes,
                                  md_write_fn write, void *user);

#ifdef __cplusplus
}
#endif
#endif
