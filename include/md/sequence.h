/* Sequences: a step of many calls as one object, which runs for any sizes. man 3 multidispatch is the guide.
 *
 * A sequence is a list of calls on named tensors. Sizes and strides are whole-number expressions over the sequence's
 * dims. Memory between the calls is planned once and shared by tensors that do not live at the same time. The first run
 * at given sizes chooses kernels and lays out memory; later runs only launch. On a GPU a run at known sizes and
 * addresses is one graph launch. Where addresses move, nodes of the graph are changed, or a run is a few graphs with
 * launched calls between them.
 *
 * Add dims, tensors and calls, then md_sequence_finish, and md_sequence_run as often as needed. The rules of md/md.h
 * hold. In addition:
 *  - Expressions: numbers, dims, + - * // % (rounded towards minus infinity), min(..), max(..), comparisons, and, or,
 *    not. Lists have commas: "t, 4096".
 *  - A sequence may be destroyed before or after its ops and its context. After the context only md_sequence_destroy
 *    and md_sequence_count are possible; other functions fail with INVALID_ARGUMENT.
 *  - Threads: all functions may be called at once. One lock of the sequence serialises them, since runs share memory:
 *    on the host device a run holds it to its end, on a GPU until its work is enqueued.
 *  - A run on another stream than the last one waits, on the GPU, for the last one. The stream of the last run must
 *    still exist then.
 * SPDX-License-Identifier: MIT */
#ifndef MD_SEQUENCE_H
#define MD_SEQUENCE_H

#include <md/md.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct md_sequence md_sequence;

/** Options of a sequence. */
typedef struct md_sequence_options {
    const char *name; /**< in messages and reports; default "sequence"; copied */
    int64_t max_sizes; /**< sizes that are remembered, the least recently used are forgotten; 0: 1024 */
    int64_t max_graphs; /**< graphs kept at once, likewise; 0: 1024; negative: none, each run is a chain of launches */
    int64_t max_graph_bytes; /**< of all graphs, estimated as 7 KB a kernel; 0: 100 MiB */
    int64_t max_arena_bytes; /**< of memory between the calls; sizes that need more fail; 0: no limit */
    /** Nonzero, on the host device: memory whose life has ended is overwritten with 0xff, to find wrong lives. */
    int32_t poisons;
} md_sequence_options;

/** What a tensor of a sequence is. */
typedef enum md_sequence_role {
    MD_SEQUENCE_TEMPORARY = 0, /**< between calls: the sequence's memory */
    MD_SEQUENCE_INPUT = 1, /**< given at each run, and only read */
    MD_SEQUENCE_OUTPUT = 2, /**< given at each run, written and perhaps read */
    MD_SEQUENCE_CONSTANT = 3 /**< memory of the caller that never moves (weights, state); must outlive the sequence */
} md_sequence_role;

/** A tensor of a sequence. All texts are copied. */
typedef struct md_sequence_tensor {
    const char *name; /**< in messages; may be NULL */
    md_sequence_role role; /**< of new memory; a view has that of its base */
    md_dtype dtype; /**< 0: the base's, else f32 */
    int32_t view_of; /**< id of the base; 0: new memory */
    const char *offset; /**< of a view: elements of its dtype from the base's first element; NULL: 0 */
    const char *size; /**< "t, 4096"; NULL or "": rank 0 */
    const char *stride; /**< in elements, "6144, 1"; NULL: contiguous */
    void *data; /**< MD_SEQUENCE_CONSTANT: where it lies */
} md_sequence_tensor;

/** An argument of a call. The first of these that is set counts. */
typedef struct md_sequence_arg {
    int32_t id; /**< of a tensor, or of a scalar given at each run */
    const char *integer; /**< an expression: a whole-number scalar, or a size that no tensor gives; copied */
    double real; /**< a real scalar */
} md_sequence_arg;

/** Work of the caller between calls. `tensor`: those of md_sequence_add_callback at this run's sizes, `size`: of the
 * dims. On a GPU it enqueues its work on `stream`. A failure ends the run, whose message has the call's number, and the
 * callback's message if it left one. It must not use the sequence. */
typedef md_status (*md_sequence_fn)(void *user, md_stream stream, const md_tensor *tensor, int32_t n_tensors,
                                    const int64_t *size);

/** An empty sequence on the context's device. `options` may be NULL. */
MD_API md_status md_sequence_create(md_sequence **out, md_context *context, const md_sequence_options *options);
MD_API void md_sequence_destroy(md_sequence **sequence);

/** Adds a dim with its bounds, both inclusive; `high` 0 means no bound. Dims come before tensors and calls,
 * else it is refused. *number (may be NULL): its place in `size` of md_sequence_run. */
MD_API md_status md_sequence_add_dim(int32_t *number, md_sequence *sequence, const char *name, int64_t low,
                                     int64_t high);
/** Adds a tensor. *id is > 0. Inputs, outputs and scalars are numbered in the order in which they are added: that is
 * their place in `data` of md_sequence_run. @return MD_INVALID_ARGUMENT for a bad expression (line and column). */
MD_API md_status md_sequence_add_tensor(int32_t *id, md_sequence *sequence, const md_sequence_tensor *tensor);
/** Adds a scalar that each run is given anew: MD_F64 (`data` points to a double) or MD_I64 (to an int64_t). */
MD_API md_status md_sequence_add_scalar(int32_t *id, md_sequence *sequence, const char *name, md_dtype dtype);
/** Adds a call. The sequence keeps what it needs of the op.
 * @return MD_INVALID_ARGUMENT for another number of arguments, a scalar for a tensor or the reverse, another dtype or
 * rank than the op's, and for an output in an input's memory. */
MD_API md_status md_sequence_add_call(md_sequence *sequence, md_op *op, const md_sequence_arg *args, int32_t n_args);
/** Adds work of the caller, which reads and may write the tensors `ids`. On a GPU, calls between such work may be
 * graphs. */
MD_API md_status md_sequence_add_callback(md_sequence *sequence, md_sequence_fn fn, void *user, const int32_t *ids,
                                          int32_t n_ids);
/** Ends building: lives of tensors, and which outputs take the memory of an input that ends there. From then on the
 * sequence runs, and nothing can be added.
 * @return MD_INVALID_ARGUMENT if a temporary is read before it is written. */
MD_API md_status md_sequence_finish(md_sequence *sequence);

/** Runs the sequence: `size[i]` of dim i, `data[k]` of input, output or scalar k. On the host device the work is done
 * when it returns; on a GPU it is enqueued. If it fails half-way, outputs are undefined and the sequence is as before.
 * Inputs and outputs may overlap as those of the calls may. While the stream is captured it only launches, once it has
 * prepared sizes that are new; the graph is valid as long as the sequence.
 * @return MD_INVALID_ARGUMENT for a size beyond its bounds, a NULL or misaligned pointer, a view that leaves its base,
 * or what a call refuses (the message has the call's number and op); MD_OUT_OF_MEMORY beyond max_arena_bytes. */
MD_API md_status md_sequence_run(md_sequence *sequence, md_stream stream, const int64_t *size, int32_t n_sizes,
                                 void *const *data, int32_t n_data);
/** Does all that the first run at these sizes does but run: chooses and waits for the best kernels, lays out memory.
 * Prepare the largest sizes first: then the arena is allocated once. `data` as for a run; scalars are not read. */
MD_API md_status md_sequence_prepare(md_sequence *sequence, const int64_t *size, int32_t n_sizes, void *const *data,
                                     int32_t n_data);

/** Facts about a sequence, for monitoring. Bytes are of the device. */
typedef struct md_sequence_counters {
    int64_t n_calls, n_in_place; /**< calls of ops; outputs that took an input's memory */
    int64_t n_sizes, n_choices; /**< sizes remembered; different tuples of kernels among them */
    int64_t n_launches; /**< kernels of the last run */
    int64_t arena_bytes; /**< allocated for temporaries and workspaces */
    int64_t sum_bytes; /**< what the last run's temporaries would take without sharing */
    int64_t n_graphs, graph_bytes; /**< alive; their device memory, estimated */
    uint64_t n_runs, n_graph_runs; /**< runs; those that were one graph launch */
    uint64_t n_binds; /**< new sizes, and known ones whose kernels were replaced */
    uint64_t n_builds, n_updates,
        n_failures; /**< graphs made, updated for other sizes or addresses, and not possible */
    uint64_t n_split_runs; /**< runs that were graphs with launched calls or callbacks between them */
} md_sequence_counters;
MD_API md_status md_sequence_count(md_sequence_counters *out, md_sequence *sequence);
/** Lists calls with their kernels, and tensors with place and life, at the sizes of the last run or prepare. */
MD_API md_status md_sequence_explain(md_sequence *sequence, int32_t json, md_write_fn write, void *user);

#ifdef __cplusplus
}
#endif
#endif
