/* multidispatch: one tensor operation, many kernels, the right one for every shape.
 *
 * Rules that hold for the whole header, said once:
 *  - Every fallible function returns md_status. Out-parameters come first and are written only on success.
 *  - md_last_error() gives the calling thread's last message: one line, naming the value that was wrong.
 *  - Options structs: a zeroed struct, or NULL, means all defaults; they need to live only during the call.
 *  - *_destroy takes the address of the handle, accepts NULL and a NULL handle, and sets the handle to NULL.
 *  - Sizes are in elements, strides in elements, *_bytes in bytes, *_us in microseconds, *_ns in nanoseconds.
 *  - The library never aborts, exits or prints, except where MD_LOG, MD_STATS or a callback asks for it.
 * SPDX-License-Identifier: MIT */
#ifndef MD_MD_H
#define MD_MD_H

#include <stddef.h>
#include <stdint.h>
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
#define MD_VERSION_MINOR 1
#define MD_VERSION_PATCH 0

/** Highest rank of a tensor. */
#define MD_MAX_RANK 8

/** What a call came to. */
typedef enum md_status {
    MD_OK = 0,
    MD_INVALID_ARGUMENT = 1, /**< a value that the caller passed is wrong; the message names it */
    MD_OUT_OF_MEMORY = 2,
    MD_UNSUPPORTED = 3, /**< legal, but not possible in this build or on this device */
    MD_NOT_FOUND = 4,
    MD_DEVICE = 5, /**< the device or its driver failed */
    MD_COMPILE = 6, /**< no kernel could be compiled */
    MD_IO = 7,
    MD_CORRUPT = 8,
    MD_TIMEOUT = 9,
    MD_INTERNAL = 10
} md_status;

/** Element types. The last three are reserved: no kernel takes them yet. */
typedef enum md_dtype {
    MD_DTYPE_DEFAULT = 0, /**< in options: f32 */
    MD_F32 = 1,
    MD_F64 = 2,
    MD_F16 = 3,
    MD_BF16 = 4,
    MD_I32 = 5,
    MD_I64 = 6,
    MD_U8 = 7,
    MD_BOOL = 8,
    MD_I8 = 9,
    MD_F8E4M3 = 10,
    MD_F8E5M2 = 11
} md_dtype;

/** How a variant is picked for a shape that was not seen before. */
typedef enum md_select {
    MD_SELECT_DEFAULT = 0, /**< MD_SELECT, else MD_SELECT_MODEL */
    /** < what is best at the nearest hint; on a GPU with default hints at the nearest of points a quarter of an
     * octave apart, by the model */
    MD_SELECT_DISTANCE = 1,
    MD_SELECT_MODEL = 2,
    MD_SELECT_MEASURE = 3, /**< times all variants that fit once, at the first call of a shape */
    /**< the model at first; then some calls are served by other variants, timed, and the faster one stays */
    MD_SELECT_HYBRID = 4
} md_select;

/** Which distance MD_SELECT_DISTANCE uses. */
typedef enum md_metric {
    MD_METRIC_DEFAULT = 0,
    MD_METRIC_LOG2 = 1, /**< each dynamic dim once; sizes below 1 count as 1/2 */
    MD_METRIC_INDUCTOR = 2 /**< every occurrence of a dim in inputs, then outputs, counts; log2 of 0 is -1 */
} md_metric;

/** Whether reductions may, must or must not keep their row on chip. */
typedef enum md_persistent {
    MD_PERSISTENT_DEFAULT = 0,
    MD_PERSISTENT_AUTO = 1,
    MD_PERSISTENT_ONLY = 2,
    MD_PERSISTENT_NEVER = 3
} md_persistent;

/** How much work goes into finding configs. A result of more work serves requests for less. */
typedef enum md_tune {
    MD_TUNE_DEFAULT = 0,
    MD_TUNE_OFF = 1, /**< each family's default config */
    MD_TUNE_ESTIMATE = 2, /**< the model's best config: nothing is measured */
    MD_TUNE_MEASURE = 3, /**< some configs are built and timed, within a budget */
    MD_TUNE_EXHAUSTIVE = 4 /**< all legal configs are */
} md_tune;

/** Which bits an op may give. Under the last two, one numeric class of kernels serves a shape, always the same one:
 * it follows from the formula, the device and the shape, not from hints, threads, timing or what was called before.
 * md_explain names it. */
typedef enum md_numeric {
    MD_NUMERIC_DEFAULT = 0, /**< MD_NUMERIC, else fast */
    /**< whatever is fastest: sums of one call may be added in another order than those of the next */
    MD_NUMERIC_FAST = 1,
    /**< equal calls give equal bits. A scatter by `=` is refused: of duplicates any one would win */
    MD_NUMERIC_DETERMINISTIC = 2,
    /**< and an element's bits do not depend on the sizes of dims that no reduction runs over (the batch) */
    MD_NUMERIC_BATCH_INVARIANT = 3
} md_numeric;

/** What an index out of range does. */
typedef enum md_bounds {
    MD_BOUNDS_REPORT = 0, /**< reads give 0, writes are skipped, and the call (host) or md_check (GPU) fails */
    MD_BOUNDS_CLAMP = 1,
    MD_BOUNDS_ZERO = 2 /**< reads give 0, writes are skipped, silently */
} md_bounds;

/** What a shape that was not met before gets after md_freeze. */
typedef enum md_freeze_mode {
    MD_FREEZE_NONE = 0, /**< not frozen */
    MD_FREEZE_READY = 1, /**< the best of what is ready; MD_UNSUPPORTED where nothing that is ready fits */
    MD_FREEZE_REFERENCE = 2, /**< the best of what is ready; the reference, slowly, where nothing that is ready fits */
    MD_FREEZE_FAIL = 3 /**< MD_UNSUPPORTED */
} md_freeze_mode;

typedef struct md_context md_context; /**< a device, its kernels and its tables; thread-safe */
typedef struct md_op md_op; /**< one formula made ready; thread-safe */
typedef struct md_launch md_launch; /**< one resolved call; immutable, thread-safe */
typedef void *md_stream; /**< cudaStream_t on a GPU; ignored by the host device, whose calls are synchronous */

/** A view of memory: a plain value, owned by the caller. Element (i0, i1, ..) lies at data + sum(i * stride). */
typedef struct md_tensor {
    void *data;
    md_dtype dtype;
    int32_t rank;
    int64_t size[MD_MAX_RANK];
    int64_t stride[MD_MAX_RANK]; /**< in elements; 0 repeats an element along an axis (inputs only) */
} md_tensor;

typedef enum md_arg_kind {
    MD_ARG_NONE = 0,
    MD_ARG_TENSOR = 1,
    MD_ARG_REAL = 2,
    MD_ARG_INT = 3,
    MD_ARG_AS = 4
} md_arg_kind;

/** One argument of a call: a tensor or a scalar. Make it with md_t, md_s or md_i; md_as behind the op's arguments. */
typedef struct md_arg {
    md_arg_kind kind;
    int32_t dim; /**< MD_ARG_AS: number of a dynamic dim */
    const md_tensor *tensor;
    double real;
    int64_t integer;
} md_arg;

/** A tensor argument; `t` needs to live until the call returns. */
static inline md_arg md_t(const md_tensor *t)
{
    md_arg a = {MD_ARG_TENSOR, 0, NULL, 0.0, 0};
    a.tensor = t;
    return a;
}

/** A real scalar argument. */
static inline md_arg md_s(double value)
{
    md_arg a = {MD_ARG_REAL, 0, NULL, 0.0, 0};
    a.real = value;
    return a;
}

/** An integer scalar argument. */
static inline md_arg md_i(int64_t value)
{
    md_arg a = {MD_ARG_INT, 0, NULL, 0.0, 0};
    a.integer = value;
    return a;
}

/** Behind the arguments of an op: choose as if dim number `dim` (md_op_dim) had this size, as padded or ragged work
 * has less than its tensors say. Any number of dims, each once, in md_call, md_resolve, md_launch_run and
 * md_choice_of. It changes which variant serves, never the result; a shape with such sizes is remembered apart from
 * the same shape without. MD_SELECT_MEASURE times the work as it is. */
static inline md_arg md_as(int32_t dim, int64_t size)
{
    md_arg a = {MD_ARG_AS, 0, NULL, 0.0, 0};
    a.dim = dim;
    a.integer = size;
    return a;
}

/** Takes text as it is made; returns nonzero to stop. `text` is valid only during the call. */
typedef int (*md_write_fn)(void *user, const char *text, size_t n_bytes);

typedef enum md_log_level { MD_LOG_ERROR = 1, MD_LOG_WARN = 2, MD_LOG_INFO = 3, MD_LOG_DEBUG = 4 } md_log_level;
/** Takes one message, without a newline. Called from any thread. */
typedef void (*md_log_fn)(void *user, md_log_level level, const char *message);

/** Options of a context. Options win over environment variables, which win over the defaults. */
typedef struct md_context_options {
    const char *device; /**< "auto", "host", "cuda", "cuda:N"; default MD_DEVICE, else auto */
    const char *hints; /**< default MD_HINTS, else "1,16,64,256,1024,4096"; see md_op_options.hints */
    md_select select;
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    const char *pin; /**< "op[.stage]:variant[;...]"; default MD_PIN */
    int32_t threads; /**< of the host device; 0: MD_THREADS, else one per available CPU */
    const char *cc; /**< C compiler of the host device; default MD_CC, else cc */
    int64_t max_shapes; /**< shapes remembered per op; 0: MD_MAX_SHAPES, else 16384 */
    md_tune tune; /**< default MD_TUNE, else MD_TUNE_ESTIMATE */
    double tune_budget_ms; /**< time that tuning an op may take; 0: MD_TUNE_BUDGET_MS, else 1500 */
    md_log_fn log; /**< default: MD_LOG says what goes to stderr */
    void *log_user;
    /**< memory of temporaries of the host device; default: the library's */
    void *(*alloc)(void *user, size_t n_bytes, size_t alignment);
    void (*free)(void *user, void *p, size_t n_bytes);
    void *alloc_user;
    /** < where compiled kernels and tuned results are kept; "": nowhere; default MD_CACHE_DIR, else the XDG cache
     * folder */
    const char *cache_dir;
} md_context_options;

/** A tunable of a custom kernel: a macro of that name in its source, a name in its rules, and "<name><value>" in
 * variants' names. Letters and digits, the last one a letter. */
typedef struct md_tunable {
    const char *name;
    int32_t n; /**< values, up to 12; the first is the default */
    int32_t value[12]; /**< >= 0 */
} md_tunable;

/** A kernel of your own for a formula of one stage. Its variants, "custom/<name>/<tunables>", stand in the op's pool
 * beside the library's: chosen, tuned, pinned and counted as they are. The text is compiled behind the library's
 * vocabulary (types such as int64_t; MD_INLINE, MD_UNROLL) and
 *
 *     typedef struct md_params { ... } md_params;   members by the formula's names, of all '.' in names '_': T *Y;
 *                                                   const T *X;         data of the tensors; f16 and bf16 are
 *                                                   uint16_t (md_up1_bf16 and md_down1_bf16 convert single values on
 *                                                   a GPU) int64_t X_stride[rank];   in elements int64_t n;
 *                                                   sizes of all dims, static ones too double lr;
 *                                                   scalars (int64_t for scalar n:i64)
 *
 * On a GPU the entry is `__device__ void entry(const md_params &p)`, run by each thread of the grid; dynamic shared
 * memory is yours to declare (extern __shared__). On the host it is `void entry(const md_params *p, int64_t block,
 * void *scratch)`, run once for each block of the grid, on any thread; scratch has shared_bytes. Messages of the
 * compiler have the name of the kernel, and the source's own line numbers. Every variant must give the reference's
 * results on small shapes before it is used; one that does not is never chosen, and MD_LOG=warn and md_explain say
 * so. Rules are whole-number expressions over tunables and the formula's dims: + - * // %, min(a, b), max(a, b),
 * comparisons, and, or, not. All texts are copied. */
typedef struct md_custom {
    const char *name; /**< a word */
    const char *device; /**< "cuda" or "host"; on other devices it is left out */
    const char *source, *entry;
    const md_tunable *tunable; /**< up to 8; NULL: none */
    int32_t n_tunables;
    const char *grid; /**< blocks: up to three expressions, "(n + threads - 1) // threads, b" */
    const char *block; /**< GPU: threads of a block, likewise */
    const char *shared_bytes; /**< of dynamic shared memory, or of scratch; NULL: 0 */
    /**< up to 8 conditions, "n % 4 == 0, n <= 16 * threads", where its results are right; NULL: everywhere */
    const char *envelope;
    const char *legal; /**< likewise, which configurations are worth a try at a size; NULL: all */
    int32_t strided; /**< nonzero: it looks at strides. Else it is given tensors without gaps only */
    int32_t align; /**< 16: data and rows lie at boundaries of 16 bytes; else 0 */
    /** < part of the device's memory and arithmetic rate that the model takes it to reach, up to 1; 0: 1.
     * MD_SELECT=measure asks the clock */
    double rate;
    md_numeric numeric; /**< the strictest policy that it keeps; 0: fast */
} md_custom;

/** Options of an op. */
typedef struct md_op_options {
    const char *name; /**< in reports and MD_PIN; default: the catalogue's name, else the first output's */
    md_dtype dtype; /**< of data tensors that the formula gives no type; default f32 */
    const char *sizes; /**< static dims and ranges: "n=11008, k=4096, b=1..8192" */
    /**< "64,256,4096" (diagonal) or "b=1,8,64,512" or "b=1,64 n=64,4096" (a grid) or "(b=1,n=64) (b=512,n=4096)" */
    const char *hints;
    const char *weights; /**< of dims in the distance: "b=1, n=0.5"; default 1 each */
    md_select select;
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    const char *pin; /**< a variant's name, or "stage:variant;..." */
    md_bounds bounds;
    int32_t max_variants; /**< per stage; 0: 32 */
    int32_t without_library; /**< nonzero: no gemm_lib in the pool */
    md_tune tune; /**< default: the context's */
    double tune_budget_ms; /**< 0: the context's */
    double uncovered; /**< a shape farther from every hint than this many octaves is marked as not covered; 0: 3 */
    /**< nonzero: md_op_create returns when one variant of each stage is ready; the others are built meanwhile */
    int32_t async;
    /**< nonzero: products of f32 on a GPU may round their operands to 11 bits (tf32); 0: as exact as f32 is */
    int32_t tf32;
    const md_custom *custom; /**< kernels of your own; a bad one is INVALID_ARGUMENT or COMPILE. NULL: none */
    int32_t n_custom;
    /** < MD_SELECT_HYBRID: the part of the op's GPU time that trials may cost at 90% load, more where the GPU has
     * time; 0: 0.0006, which the 99th percentile of latencies does not feel */
    double hybrid_share;
    double hybrid_cap_ms; /**< and what they may cost in all; 0: 1000 */
} md_op_options;

/** What an op expects as argument number i. Texts belong to the op. */
typedef struct md_arg_info {
    const char *name;
    int32_t is_scalar;
    int32_t is_output; /**< written by the op (a scatter target is read too) */
    md_dtype dtype;
    int32_t rank;
    const char *dim[MD_MAX_RANK]; /**< the dim of each axis; "" where the axis must only be long enough */
    int64_t static_size[MD_MAX_RANK]; /**< its size where static, else -1 */
} md_arg_info;

/** What was picked for one shape. Texts belong to the context. */
typedef struct md_choice {
    int32_t n_stages;
    const char *variant[8]; /**< family and config, per stage */
    const char *source[8]; /**< pinned, measured, model, nearest, default */
    double distance[8]; /**< in octaves, to the hint whose variant was taken; -1 where no distance applies */
    const char *runner_up[8]; /**< "" where there is none */
    double margin[8]; /**< distance or time ratio to the runner-up, minus the pick's; >= 0 */
    double nearest; /**< octaves to the nearest hint, weighted, whatever it was chosen by */
    int32_t is_uncovered; /**< farther from it than md_op_options.uncovered */
} md_choice;

/** The library's version, "major.minor.patch". Thread-safe. */
MD_API const char *md_version(void);
/** The calling thread's last error message, "" if there was none. Valid until the thread's next failing call. */
MD_API const char *md_last_error(void);
/** "ok", "invalid argument", ... Never NULL. Thread-safe. */
MD_API const char *md_status_name(md_status status);
/** "f32", "bf16", ...; "?" for a value that is none. Thread-safe. */
MD_API const char *md_dtype_name(md_dtype dtype);
/** Bytes of one element; 0 for a value that is no dtype. Thread-safe. */
MD_API size_t md_dtype_size(md_dtype dtype);
/** The dtype of that name, or MD_DTYPE_DEFAULT if there is none. Thread-safe. */
MD_API md_dtype md_dtype_parse(const char *name);
/** A contiguous (row-major) tensor of `rank` <= MD_MAX_RANK sizes over `data`. Thread-safe. */
MD_API md_tensor md_tensor_make(void *data, md_dtype dtype, int32_t rank, const int64_t *size);

/** Makes a context on a device.
 * @return MD_INVALID_ARGUMENT for a bad option or environment variable (named in the message), MD_UNSUPPORTED if the
 * device is not in this build, MD_DEVICE if it fails. The context is the caller's; destroy it after its ops. */
MD_API md_status md_context_create(md_context **out, const md_context_options *options);
/** Writes MD_STATS if asked, frees everything. Launches and ops of the context must be destroyed before. */
MD_API void md_context_destroy(md_context **context);

/** Makes an op from a formula, or from a name in the catalogue ("softmax"). Ops that are equal in formula, dtypes,
 * options (but async) and name share their kernels, choices and statistics; each handle is destroyed by itself, in
 * any order. Compiles kernels: may take seconds. @return MD_INVALID_ARGUMENT with line, column and caret for a bad
 * formula, MD_OUT_OF_MEMORY. A missing compiler is no error: the reference evaluator serves, and a warning says so. */
MD_API md_status md_op_create(md_op **out, md_context *context, const char *formula, const md_op_options *options);
MD_API void md_op_destroy(md_op **op);

/** Number of arguments: one per tensor and scalar of the formula, in order of first appearance, no temporaries. */
MD_API int32_t md_op_n_args(const md_op *op);
/** Describes argument i. @return MD_INVALID_ARGUMENT if i is out of range. */
MD_API md_status md_op_arg(md_arg_info *out, const md_op *op, int32_t i);
/** What argument i looks like at sizes given as text ("b=8, n=64"): a contiguous tensor without memory; an axis that
 * needs only be long enough is as long as it is reached, or as the sizes say ("E.0=1000" for axis 0 of E). @return
 * MD_INVALID_ARGUMENT for a scalar, for an unknown dim or a missing size (named). */
MD_API md_status md_op_tensor(md_tensor *out, md_op *op, int32_t i, const char *sizes);
/** The op's name; the op's formula as the library prints it back. Owned by the op. */
MD_API const char *md_op_name(const md_op *op);
MD_API const char *md_op_formula(const md_op *op);
/** Number of a dynamic dim by its name, for md_as; -1 where the op has no dynamic dim of that name. */
MD_API int32_t md_op_dim(const md_op *op, const char *name);
/** Number of stages, and of variants of a stage; name of a variant ("" out of range), owned by the op. */
MD_API int32_t md_op_n_stages(const md_op *op);
MD_API int32_t md_op_n_variants(const md_op *op, int32_t stage);
MD_API const char *md_op_variant(const md_op *op, int32_t stage, int32_t i);

/** Lists the kernels of this context's ops in a CUDA graph: op, variant, shape and how often; the choices that a
 * capture baked in. `graph` is a cudaGraph_t that was captured, or NULL for the one that `stream` is being captured
 * into just now. Kernels of others, of libraries, and of ops that are gone are counted only. `json` nonzero writes
 * one JSON object, else a table. @return MD_UNSUPPORTED on a device without graphs. */
MD_API md_status md_capture_list(md_context *context, md_stream stream, void *graph, int32_t json, md_write_fn write,
                                 void *user);

/** Runs the op on these arguments with the variant that suits their shape. On the host device the work is done when
 * it returns; on a GPU it is enqueued on `stream`. @return MD_INVALID_ARGUMENT where an argument's kind, dtype,
 * rank, size, stride or pointer does not fit (named), where outputs overlap anything but exactly an input that may
 * be reused, or where an index is out of range (host). Thread-safe; concurrent calls must not write the same memory.
 * On a GPU the tensors' memory must be the device's (checked when a shape is new, at every call under MD_VERIFY=1),
 * and an index out of range is reported by md_check, or by the op's next call. While the stream is captured a call
 * only launches: a shape that was not met before is served by what is ready. */
MD_API md_status md_call(md_op *op, md_stream stream, const md_arg *args, int32_t n_args);

/** Resolves a call once, to be run many times: same sizes, strides and dtypes, other pointers allowed.
 * The launch holds what it needs of the op: both are destroyed in any order, before the context. */
MD_API md_status md_resolve(md_launch **out, md_op *op, const md_arg *args, int32_t n_args);
/** Runs a launch on new arguments of the shape it was resolved for (not checked beyond NULL and count).
 * `args` may be NULL: the pointers of md_resolve. */
MD_API md_status md_launch_run(const md_launch *launch, md_stream stream, const md_arg *args, int32_t n_args);
/** Time of the kernels of one run of the launch, in us, host overhead excluded, by the device's best clock. */
MD_API md_status md_launch_time(double *us, const md_launch *launch, md_stream stream);
/** The same of n launches of one context, run one after the other: nothing but their kernels lies between start and
 * end, so `*us / n` is what one costs beside others. A GPU is waited for; not while the stream is captured. */
MD_API md_status md_launch_time_all(double *us, const md_launch *const *launches, int32_t n, md_stream stream);
/** What a launch runs. */
MD_API md_status md_launch_choice(md_choice *out, const md_launch *launch);
MD_API void md_launch_destroy(md_launch **launch);

/** What md_call would pick for these arguments, without running (MD_SELECT_MEASURE measures, as a call would). */
MD_API md_status md_choice_of(md_choice *out, md_op *op, const md_arg *args, int32_t n_args);
/** Chooses for shapes given as text before they are met, and waits for the best kernel of each: "b=1, n=64", several
 * with ';' between them. Memory layouts are taken as contiguous. Where one fails, those before it are prepared.
 * Thread-safe. */
MD_API md_status md_prepare(md_op *op, const char *sizes);
/** Waits until every variant of the op is built; then every shape that was met has the best of them. */
MD_API md_status md_op_wait(md_op *op);
/** Waits for what is being built; from then on nothing is built or measured for the op, and `mode` says what a shape
 * that was not met before gets. MD_FREEZE_NONE lets it build again. Equal ops are one: all of them are frozen.
 * Thread-safe. */
MD_API md_status md_freeze(md_op *op, md_freeze_mode mode);
/** The same for all ops that the context has now. */
MD_API md_status md_freeze_all(md_context *context, md_freeze_mode mode);

/** Explains the choice at a shape: all candidates with envelope, distance, model time, and the pick.
 * `sizes` as in md_prepare; `json` nonzero writes one JSON object, else a table. */
MD_API md_status md_explain(md_op *op, const char *sizes, int32_t json, md_write_fn write, void *user);
/** The generated source of a variant. @return MD_NOT_FOUND if the stage has no variant of that name. */
MD_API md_status md_op_source(md_op *op, int32_t stage, const char *variant, md_write_fn write, void *user);
/** Computes the op in f64 on the calling thread, slowly: the reference. Same arguments and checks as md_call; outputs
 * are rounded once, at the store. Device memory is copied to the host and back; work on other streams than the
 * default one must be done. */
MD_API md_status md_reference(md_op *op, const md_arg *args, int32_t n_args);
/** Floating-point operations and bytes touched once by a call at these sizes (the formula's, not a kernel's). */
MD_API md_status md_op_work(double *flops, double *bytes, md_op *op, const char *sizes);

/** A shape that a service met, and how much it counts: calls, or time spent there. > 0. */
typedef struct md_met_shape {
    const char *sizes; /**< "b=8, n=64" */
    double weight;
} md_met_shape;

/** What md_hints_suggest is to do. */
typedef struct md_suggest_options {
    const md_met_shape *shapes; /**< that the hints are for */
    int32_t n_shapes;
    int32_t n_hints; /**< at most so many, up to 64; 0: 6 */
    int32_t json; /**< nonzero: one JSON object, else text */
    md_write_fn write; /**< takes the result */
    void *user;
} md_suggest_options;
/** The set of hints with the least expected regret on these shapes, in the language of MD_HINTS, with what it and the
 * hints of today (options, else the context's) cost against the best kernel for each shape. All by the model: nothing
 * is built or measured. Options and formula as for md_op_create.
 * @return MD_INVALID_ARGUMENT for a formula without dynamic dims, for sizes that are missing (named). */
MD_API md_status md_hints_suggest(md_context *context, const char *formula, const md_op_options *options,
                                  const md_suggest_options *suggest);
/** What md_tune_formula is to do. */
typedef struct md_tune_options {
    md_tune rigor; /**< MD_TUNE_MEASURE (default) or MD_TUNE_EXHAUSTIVE */
    double budget_ms; /**< for all stages and points together; 0: MD_TUNE_BUDGET_MS, else 1500 */
    int32_t max_builds; /**< configs built for a point; 0: 12 */
    int32_t all_directions; /**< nonzero: neighbours that differ in two parameters are tried, too */
    const int64_t *indices; /**< what index tensors hold, in turn, wrapped into range; NULL: random */
    int64_t n_indices;
    const char *exclude; /**< variants, separated by ';', that are known not to end: quarantined, not tried */
    uint64_t seed; /**< of synthetic data */
    md_write_fn write; /**< takes one JSON object a line: every candidate, every winner; may be NULL */
    void *user;
    /** < nonzero: on GPUs half of the time is for extra points off the hints: rows at no boundary and, where hints are
     * the defaults, lopsided shapes */
    int32_t off_hints;
} md_tune_options;
/** Searches the configs of a formula's kernels at its hints (options, else the context's) and keeps what it finds for
 * ops made later. Inputs are synthetic: no caller's memory is read or written. A point whose tensors take more
 * memory than measuring may (5% of what is free, at most 256 MiB) keeps the model's answer. Options and formula as
 * for md_op_create. */
MD_API md_status md_tune_formula(md_context *context, const char *formula, const md_op_options *options,
                                 const md_tune_options *tune);
/** A digest of what the living ops of the context chose for every shape they remember: equal where the same formulas
 * have the same variants for the same sizes, whatever the order and the number of calls. Ranks of one model compare
 * it. */
MD_API md_status md_digest(uint64_t out[2], md_context *context);

/** Per op and shape: variant, why, distance, runner-up, calls, time. */
MD_API md_status md_stats_print(md_context *context, FILE *file);
/** The same as "table", "json" or "csv" (NULL: by the path's ending) into a file; "-" is stdout. */
MD_API md_status md_stats_write(md_context *context, const char *path, const char *format);

/** Memory of the context's device, 64-byte aligned. Free it with md_free of the same context. */
MD_API md_status md_alloc(void **out, md_context *context, size_t n_bytes);
MD_API void md_free(md_context *context, void *p);
/** Copies between any two places, host or device; done when it returns. */
MD_API md_status md_copy(md_context *context, void *to, const void *from, size_t n_bytes);
/** Waits for the stream (host device: nothing to wait for); NULL is the default stream. */
MD_API md_status md_sync(md_context *context, md_stream stream);
/** What kernels reported since the last check: an index out of range, with op, dim and value. GPU: of the work that
 * has finished; wait for it (md_sync) to be sure. A later md_call of the op reports it too, instead of running. */
MD_API md_status md_check(md_context *context);

/* ---- The store: compiled kernels and tuned results on disk, shared by all processes of a user. A folder that
 * cannot be used is a warning, and everything works without. Nothing here waits for other processes. */

/** What a context met. */
typedef struct md_store_counters {
    uint64_t hits, misses; /**< of look-ups */
    uint64_t healed; /**< entries that could not be read, and were taken away or replaced */
    uint64_t written, write_failures;
    uint64_t compiles; /**< texts given to a compiler */
    uint64_t kernels_kept; /**< kernels that came from the store instead */
    uint64_t timed; /**< configs timed by tuning */
} md_store_counters;
MD_API md_status md_store_count(md_store_counters *out, const md_context *context);
/** The user's folder; "" where nothing is kept. Owned by the context. */
MD_API const char *md_store_path(const md_context *context);

/** Of the user's folder, all devices and versions together. */
typedef struct md_store_facts {
    int64_t n_entries, n_bytes; /**< before anything was removed */
    int64_t n_bad, n_removed, n_removed_bytes;
} md_store_facts;
/** One line, or one JSON object, an entry. Reads every file. */
MD_API md_status md_store_list(md_context *context, int32_t json, md_write_fn write, void *user);
/** Checks every entry and removes bad ones, and what killed processes left. `write` (may be NULL) gets a line for
 * each bad one. */
MD_API md_status md_store_verify(md_store_facts *out, md_context *context, md_write_fn write, void *user);
/** Removes the longest unused entries until limit_bytes are left, tuned results last. */
MD_API md_status md_store_gc(md_store_facts *out, md_context *context, int64_t limit_bytes);

/** Tuned results as text: sorted lines of JSON, the best of each key and family of this device and version. May be
 * empty. */
MD_API md_status md_wisdom_export(md_context *context, md_write_fn write, void *user);
typedef struct md_wisdom_counts {
    int64_t n_lines, n_bad; /**< lines that could, and that could not be read */
    int64_t n_taken; /**< that said more than was known */
    /** < of those: measured on such a device with another driver, compiler or version of the library; they serve as
     * estimates */
    int64_t n_related;
    int64_t n_foreign; /**< of other devices: left out */
} md_wisdom_counts;
/** Takes tuned results, and keeps them in the store. What is more rigorous never gives way to what is less; of equals
 * the one with more samples stays, then the newer one. Lines that are empty or start with '#' say nothing. `out` may
 * be NULL, and is filled in either way. @return MD_CORRUPT where a line cannot be read: then nothing is taken, and
 * `write` (may be NULL) gets a line for each bad one, with its number. */
MD_API md_status md_wisdom_import(md_wisdom_counts *out, md_context *context, const char *text, size_t n_bytes,
                                  md_write_fn write, void *user);

/** Facts about the build and the device, and what the context did so far (kernels compiled or taken from the store;
 * points tuned, those known before, configs timed, refused; tuned_*), as text or as one JSON object. `context` may
 * be NULL: the build only. */
MD_API md_status md_info(md_context *context, int32_t json, md_write_fn write, void *user);
/** The catalogue: name, formula and one line of description of entry i; all NULL beyond the end. Thread-safe. */
MD_API void md_catalogue(int32_t i, const char **name, const char **formula, const char **description);
/** Environment variable i: name, what it takes, meaning; all NULL beyond the end. Thread-safe. */
MD_API void md_variables(int32_t i, const char **name, const char **values, const char **meaning);

#ifdef __cplusplus
}
#endif
#endif
