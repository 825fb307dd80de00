/* Values, enums and structs of multidispatch. Include md/md.h, which has the functions and the rules for all of this.
 * SPDX-License-Identifier: MIT */
#ifndef MD_TYPES_H
#define MD_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Highest rank of a tensor. */
#define MD_MAX_RANK 8
#define MD_MAX_STAGES 64 /**< no formula has more: there are not more assignments */

/** Result of a function. */
typedef enum md_status {
    MD_OK = 0,
    MD_INVALID_ARGUMENT = 1, /**< a value that the caller passed is wrong; the message names it */
    MD_OUT_OF_MEMORY = 2,
    MD_UNSUPPORTED = 3, /**< legal, but not possible in this build, on this device, or in this state */
    MD_NOT_FOUND = 4,
    MD_DEVICE = 5, /**< the device or its driver failed */
    MD_COMPILE = 6, /**< no kernel could be compiled */
    MD_IO = 7,
    MD_CORRUPT = 8,
    MD_TIMEOUT = 9,
    MD_INTERNAL = 10,
    MD_CANCELLED = 11 /**< md_context_options.cancel ended the call; its outputs are written in part */
} md_status;

/** Element types. Of the 8-bit reals a store rounds to nearest even and gives the largest finite value where that is
 * exceeded; f8e4m3 has no infinities, as in OCP's and ONNX's float8e4m3fn. Of i4 and u4 a byte holds two elements, the
 * first in its low half: element k of a layout, counted by the strides from data on, is in byte k / 2. */
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
    MD_F8E5M2 = 11,
    MD_I16 = 12,
    MD_U16 = 13,
    MD_U32 = 14,
    MD_U64 = 15,
    MD_I4 = 16,
    MD_U4 = 17
} md_dtype;

/** How a variant is picked for a new shape. */
typedef enum md_select {
    /** MD_SELECT. Else MD_SELECT_MODEL, and short kernels are timed in moments without calls (idle_tune). */
    MD_SELECT_DEFAULT = 0,
    /** The best variant at the nearest hint, for sizes that are aligned as the call's. With default hints every quarter
     * of an octave in each dynamic size is a hint. */
    MD_SELECT_DISTANCE = 1,
    MD_SELECT_MODEL = 2, /**< the least predicted time; the pick of a shape stays */
    MD_SELECT_MEASURE = 3, /**< the first call of a shape times all variants that fit */
    /** The model at first. Then other variants serve some calls and are timed, and a faster one takes over. */
    MD_SELECT_HYBRID = 4
} md_select;

/** The distance that MD_SELECT_DISTANCE uses. */
typedef enum md_metric {
    MD_METRIC_DEFAULT = 0,
    MD_METRIC_LOG2 = 1, /**< each dynamic dim counts once; sizes below 1 count as 1/2 */
    MD_METRIC_INDUCTOR = 2 /**< every occurrence of a dim in inputs, then outputs, counts; log2 of 0 is -1 */
} md_metric;

/** Whether reductions may, must or must not keep their row on chip (or need it only once). */
typedef enum md_persistent {
    MD_PERSISTENT_DEFAULT = 0,
    MD_PERSISTENT_AUTO = 1,
    MD_PERSISTENT_ONLY = 2,
    MD_PERSISTENT_NEVER = 3
} md_persistent;

/** How much work goes into finding configs. A result of more work also serves requests for less. */
typedef enum md_tune {
    MD_TUNE_DEFAULT = 0,
    MD_TUNE_OFF = 1, /**< each family's default config */
    MD_TUNE_ESTIMATE = 2, /**< the model's best config; nothing is measured */
    MD_TUNE_MEASURE = 3, /**< some configs are built and timed, within a budget */
    MD_TUNE_EXHAUSTIVE = 4 /**< all legal configs are */
} md_tune;

/** Which configs MD_TUNE_MEASURE tries. */
typedef enum md_tune_strategy {
    /** The model's best guesses, corrected by what was measured, and neighbours of the best, in parallel. */
    MD_TUNE_GUESS = 0,
    /** Coordinate descent: from the model's best config one step up and down in one parameter after the other. */
    MD_TUNE_DESCENT = 1
} md_tune_strategy;

/** Which bits an op may give. Under the last two, one numeric class of variants serves a shape. The class follows from
 * formula, device and shape, not from hints, threads, timing or earlier calls. md_explain names it. */
typedef enum md_numeric {
    MD_NUMERIC_DEFAULT = 0, /**< MD_NUMERIC, else fast */
    MD_NUMERIC_FAST = 1, /**< whatever is fastest; calls may add in different orders */
    MD_NUMERIC_DETERMINISTIC = 2, /**< equal calls give equal bits. A scatter by `=` is refused */
    MD_NUMERIC_BATCH_INVARIANT = 3 /**< also: an element's bits do not depend on sizes that no reduction runs over */
} md_numeric;

/** What an index out of range does. MD_BOUNDS_REPORT also reports a length that a mask looks up and that is above the
 * size: n[b] of where(j < n[b], x, -inf). */
typedef enum md_bounds {
    MD_BOUNDS_REPORT = 0, /**< reads give 0, writes are skipped, and the call (host) or md_check (GPU) fails */
    MD_BOUNDS_CLAMP = 1, /**< the nearest valid index is used */
    MD_BOUNDS_ZERO = 2 /**< reads give 0, writes are skipped; no error */
} md_bounds;

/** What a new shape gets after md_freeze. */
typedef enum md_freeze_mode {
    MD_FREEZE_NONE = 0, /**< not frozen */
    MD_FREEZE_READY = 1, /**< the best variant that is ready; MD_UNSUPPORTED if none of them fits */
    MD_FREEZE_REFERENCE = 2, /**< the best variant that is ready; the slow reference if none of them fits */
    MD_FREEZE_FAIL = 3 /**< MD_UNSUPPORTED */
} md_freeze_mode;

typedef struct md_context md_context; /**< a device with its kernels and tables; thread-safe */
typedef struct md_op md_op; /**< an op made from a formula; thread-safe */
typedef struct md_formula md_formula; /* a formula that was read; immutable and thread-safe */
typedef struct md_launch md_launch; /**< a resolved call; immutable and thread-safe */
typedef void *md_stream; /**< cudaStream_t on a GPU; ignored by the host device, whose calls are synchronous */

/** A view of memory: a plain value; the caller owns the memory. Element (i0, i1, ..) is at data + sum(i * stride). */
typedef struct md_tensor {
    void *data;
    md_dtype dtype;
    int32_t rank;
    int64_t size[MD_MAX_RANK];
    int64_t stride[MD_MAX_RANK]; /**< in elements, from 0; 0 repeats an element along an axis (inputs only) */
} md_tensor;

typedef enum md_arg_kind {
    MD_ARG_NONE = 0,
    MD_ARG_TENSOR = 1,
    MD_ARG_REAL = 2,
    MD_ARG_INT = 3,
    MD_ARG_AS = 4,
    MD_ARG_LIST = 5
} md_arg_kind;

/** One argument of a call, a tensor or a scalar: made by md_t, md_s or md_i; by md_as after the op's arguments; a list
 * of tensors by md_ts, for md_list_call. */
typedef struct md_arg {
    md_arg_kind kind;
    int32_t dim; /**< MD_ARG_AS: number of a dynamic dim */
    const md_tensor *tensor;
    double real;
    int64_t integer;
} md_arg;

/** A tensor argument. `t` must live until the call returns. */
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

/** A list of n tensors, for md_list_call. `tensors` must live until the call returns; NULL if n is 0. */
static inline md_arg md_ts(const md_tensor *tensors, int64_t n)
{
    md_arg a = {MD_ARG_LIST, 0, NULL, 0.0, 0};
    a.tensor = tensors;
    a.integer = n;
    return a;
}

/** After an op's arguments: choose as if dim number `dim` (md_op_dim) had this size, because padded or ragged work is
 * smaller than its tensors say. Any number of dims, each once, in md_call, md_resolve, md_launch_run and md_choice_of.
 * It changes which variant serves, never the result. A shape with such sizes is remembered separately from the same
 * shape without them. MD_SELECT_MEASURE times the real sizes. */
static inline md_arg md_as(int32_t dim, int64_t size)
{
    md_arg a = {MD_ARG_AS, 0, NULL, 0.0, 0};
    a.dim = dim;
    a.integer = size;
    return a;
}

/** Takes a piece of text; returns nonzero to stop. `text` is valid only during the call. */
typedef int (*md_write_fn)(void *user, const char *text, size_t n_bytes);

typedef enum md_log_level { MD_LOG_ERROR = 1, MD_LOG_WARN = 2, MD_LOG_INFO = 3, MD_LOG_DEBUG = 4 } md_log_level;
/** Takes one message without a newline. Called from any thread. */
typedef void (*md_log_fn)(void *user, md_log_level level, const char *message);

/** Options of a context. Options win over environment variables, which win over defaults. */
typedef struct md_context_options {
    const char *device; /**< "auto", "host", "cuda", "cuda:N"; default MD_DEVICE, else auto */
    const char *hints; /**< default MD_HINTS, else "1,16,64,256,1024,4096"; see md_op_options.hints */
    md_select select;
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    const char *pin; /**< "op[.stage]:variant[;...]"; default MD_PIN */
    int32_t threads; /**< of the host device; 0: MD_THREADS, else one for each available CPU */
    const char *cc; /**< C compiler of the host device; default MD_CC, else cc */
    int64_t max_shapes; /**< shapes remembered by an op; 0: MD_MAX_SHAPES, else 16384 */
    md_tune tune; /**< default MD_TUNE, else MD_TUNE_ESTIMATE */
    double tune_budget_ms; /**< time that tuning an op may take; 0: MD_TUNE_BUDGET_MS, else 1500 */
    md_log_fn log; /**< default: messages go to stderr as MD_LOG says */
    void *log_user;
    /** Memory for temporaries of the host device, those of sequences too; default: the library's allocator.
     * Thread-safe functions. */
    void *(*alloc)(void *user, size_t n_bytes, size_t alignment);
    void (*free)(void *user, void *p, size_t n_bytes);
    void *alloc_user;
    /** Folder of compiled kernels and tuned results; "": none; default MD_CACHE_DIR, else the XDG cache folder. */
    const char *cache_dir;
    /** Bundles (mdctl bundle), files separated by ':'; default MD_BUNDLE. Kernels are taken from them, and no compiler
     * is used. A kernel that none has is not built: other kernels of the stage serve. */
    const char *bundle;
    int32_t bundle_compile; /**< 1: what no bundle has is compiled; 0: MD_BUNDLE_COMPILE, else not */
    /** Ends work of the host device: the library asks before each of the pieces of a kernel, 256 or more where a kernel
     * has as many blocks, and every few thousand steps of the reference evaluator. Any value but 0 ends the call with
     * MD_CANCELLED, after the pieces that have begun; later calls ask anew. Asked from any thread, by several at once:
     * it must be thread-safe and quick, and call nothing of the library. Kernels on a GPU are not asked about. */
    int (*cancel)(void *user);
    void *cancel_user;
    /** A bundle in memory, before those of `bundle`; it must outlive the context (mdctl bundle --c-source). */
    const void *bundle_bytes;
    size_t n_bundle_bytes;
    /** Memory for temporaries of a GPU: workspaces of streams, and what lies between the calls of sequences. Give both
     * functions, or none: the library's allocator. `device` is the N of "cuda:N"; it need not be the current one.
     * device_alloc gives n_bytes > 0 of its memory, 256-byte aligned, for work enqueued on `stream` from now on; NULL
     * makes the call fail with MD_OUT_OF_MEMORY, and later calls ask anew. device_free gets each pointer once, with the
     * stream and the bytes of its allocation; work that was enqueued on this stream before may still use it.
     * Threads: any thread that calls the library, several at once, with locks of the library held. So the functions
     * must be thread-safe, call nothing of this context, and wait for no lock that a caller of the library may hold
     * (Python's GIL). Not asked for: memory of captured work, which lives as long as the context, memory for measuring
     * in the background, and counters of a few KB for each stream. */
    void *(*device_alloc)(void *user, int32_t device, md_stream stream, size_t n_bytes);
    void (*device_free)(void *user, int32_t device, md_stream stream, void *p, size_t n_bytes);
    void *device_alloc_user;
    /** Nonzero: the pick of a shape that was met changes at md_agree alone. What MD_SELECT_MEASURE, MD_SELECT_HYBRID
     * and idle_tune find between is recorded: until then the model's picks serve. 0: MD_AGREE, else not. */
    int32_t agrees;
    /** Bytes that packed operands may take (md_op_options.constant). Beyond them a call packs for itself. 0: a quarter
     * of the device's memory. */
    int64_t packed_bytes;
} md_context_options;

/** A tunable of a custom kernel: a macro of that name in its source, a name in its rules, and "<name><value>" in the
 * names of its variants. Letters and digits; the last one is a letter. */
typedef struct md_tunable {
    const char *name;
    int32_t n; /**< number of values, up to 12; the first is the default */
    int32_t value[12]; /**< >= 0 */
} md_tunable;

/** A kernel of the caller for a formula of one stage. Its variants, "custom/<name>/<tunables>", join the op's pool and
 * are chosen, tuned, pinned and counted like the library's. The source is compiled after the library's vocabulary
 * (types such as int64_t; MD_INLINE, MD_UNROLL) and
 *
 *     typedef struct md_params {
 *         T *Y;                    data of an output; T is uint16_t for f16 and bf16
 *         const T *X;              data of an input
 *         int64_t X_stride[rank];  strides in elements
 *         int64_t n;               the size of each dim, static ones too
 *         double lr;               scalars; int64_t for scalar n:i64
 *     } md_params;
 *
 * Members have the formula's names, with '_' for '.'. On a GPU md_up1_bf16 and md_down1_bf16 convert single values.
 *
 * On a GPU the entry is `__device__ void entry(const md_params &p)`. Each thread of the grid runs it. It declares
 * dynamic shared memory itself (extern __shared__). On the host the entry is `void entry(const md_params *p, int64_t
 * block, void *scratch)`. It runs once for each block of the grid, on any thread; scratch has shared_bytes. Messages of
 * the compiler have the kernel's name and the source's own line numbers.
 *
 * Every variant must give the reference's results on small shapes before it is used. One that does not is never chosen;
 * MD_LOG=warn and md_explain say so. Rules are whole-number expressions over tunables and the formula's dims: + - * //
 * %, min(a, b), max(a, b), comparisons, and, or, not. The library copies all texts. */
typedef struct md_custom {
    const char *name; /**< a word */
    const char *device; /**< "cuda" or "host"; ignored on other devices */
    const char *source, *entry;
    const md_tunable *tunable; /**< up to 8; NULL: none */
    int32_t n_tunables;
    const char *grid; /**< blocks: up to three expressions, "(n + threads - 1) // threads, b" */
    const char *block; /**< GPU: threads of a block, likewise */
    const char *shared_bytes; /**< of dynamic shared memory, or of scratch; NULL: 0 */
    /** Where its results are right: up to 8 conditions, "n % 4 == 0, n <= 16 * threads"; NULL: everywhere. */
    const char *envelope;
    const char *legal; /**< likewise: which configs are worth a try at a size; NULL: all */
    int32_t strided; /**< nonzero: it uses strides. Else it is given tensors without gaps only */
    int32_t align; /**< 16: data and rows start at multiples of 16 bytes; else 0 */
    double rate; /**< part of the device's memory and arithmetic rate that the model assumes, up to 1; 0: 1 */
    md_numeric numeric; /**< the strictest policy that it keeps; 0: fast */
} md_custom;

/** Options of an op. */
typedef struct md_op_options {
    const char *name; /**< in reports and MD_PIN; default: the catalogue's name, else the first output's */
    md_dtype dtype; /**< of data tensors that the formula gives no type; default f32 */
    const char *sizes; /**< static dims and ranges: "n=11008, k=4096, b=1..8192" */
    /** "64,256,4096" (diagonal), "b=1,64 n=64,4096" (a grid) or "(b=1,n=64) (b=512,n=4096)" (points). */
    const char *hints;
    const char *weights; /**< of dims in the distance: "b=1, n=0.5"; default 1 each */
    md_select select;
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    const char *pin; /**< name of a variant, or "stage:variant;..." */
    md_bounds bounds;
    int32_t max_variants; /**< of a stage; 0: 32 */
    int32_t without_library; /**< nonzero: no gemm_lib, no conv_lib in the pool */
    md_tune tune; /**< default: the context's */
    double tune_budget_ms; /**< 0: the context's */
    double uncovered; /**< shapes farther than this many octaves from every hint are marked as not covered; 0: 3 */
    int32_t async; /**< nonzero: md_op_create returns when one variant of each stage is ready */
    /** nonzero: products on a GPU may be less exact than f32: operands of f32 may be rounded to 11 significant bits
     * (tf32), and sums of two 8-bit reals may keep about 14 bits of each 128 terms */
    int32_t tf32;
    const md_custom *custom; /**< kernels of the caller; a bad one is INVALID_ARGUMENT or COMPILE. NULL: none */
    int32_t n_custom;
    /** MD_SELECT_HYBRID: the part of the op's GPU time that trials may cost at 90% load, more where the GPU is less
     * busy; 0: 0.0006, chosen so that the 99th percentile of latencies hardly changes. */
    double hybrid_share;
    double hybrid_cap_ms; /**< what trials may cost in all; 0: 1000 */
    /** Positive: with MD_SELECT_MODEL, moments without calls are used to time the model's best few (six at most) for
     * shapes that are called often, within hybrid_cap_ms in all. The last bits of a shape's results may change then.
     * Negative: never. 0: as MD_IDLE_TUNE says. Where that is not set, and `select` and `numeric` are the default, only
     * kernels of at most 30 us are timed, and the pick of a shape changes once at most, to one of equal bits. */
    int32_t idle_tune;
    /** Names of inputs, separated by commas, whose memory does not change from call to call, as weights: "W". Kernels
     * may then read them in a layout of their own, which the first call with an address makes and waits for, and which
     * lives as long as the op. md_op_operand_changed says that the memory has changed. NULL: none. */
    const char *constant;
} md_op_options;

/** What an op expects as argument number i. Texts belong to the op. */
typedef struct md_arg_info {
    const char *name;
    int32_t is_scalar;
    int32_t is_output; /**< written by the op (a scatter target is also read) */
    md_dtype dtype;
    int32_t rank;
    const char *dim[MD_MAX_RANK]; /**< the dim of each axis; "" for an axis that must only be long enough */
    int64_t static_size[MD_MAX_RANK]; /**< its size if static, else -1 */
    int32_t is_size; /**< a scalar that is the size of dim `name`, which no tensor gives: md_i */
} md_arg_info;

/** What was picked for one shape. Texts belong to the context. */
typedef struct md_choice {
    int32_t n_stages;
    const char *variant[MD_MAX_STAGES]; /**< family and config, for each stage */
    /** pinned, measured, stored (by an earlier process), imported, model, nearest, default. */
    const char *source[MD_MAX_STAGES];
    /** In octaves, to the nearest hint that lists the variant; -1 where no distance applies. */
    double distance[MD_MAX_STAGES];
    const char *runner_up[MD_MAX_STAGES]; /**< "" where there is none */
    double margin[MD_MAX_STAGES]; /**< distance or time ratio of the runner-up, minus the pick's; >= 0 */
    double nearest; /**< octaves to the nearest hint, weighted, whatever the mode */
    int32_t is_uncovered; /**< farther from it than md_op_options.uncovered */
} md_choice;

#ifdef __cplusplus
}
#endif
#endif
