/* A sequence: calls on named tensors, memory planned over their lives, and what is known of each tuple of sizes.
 * md/sequence.h documents the public functions; api/sequence.c checks their arguments. Functions are not thread-safe:
 * callers hold md_sq.lock. */
#ifndef MD_SEQUENCE_SEQUENCE_H
#define MD_SEQUENCE_SEQUENCE_H

#include "base/table.h"
#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"

#include <md/sequence.h>

enum { MD_SQ_MAX_DIMS = 16, MD_SQ_MAX_EXTERNALS = 4096 };

struct md_sq_values; /* values.h */
struct md_sq_shape; /* shape.h */
struct md_sq_graph; /* shape.h */

/* A piece of memory: each tensor that is no view has one. */
typedef struct md_sq_memory {
    md_sequence_role role;
    void *data; /* CONSTANT */
    int32_t tensor; /* the tensor that it was made for */
    int32_t external; /* INPUT, OUTPUT: its number among the externals; else -1 */
    uint64_t checked; /* CONSTANT, INPUT, OUTPUT: the last address that was found to lie in the device's memory */
    int32_t first, last; /* TEMPORARY: the steps that use it first and last; -1: none does */
    /* TEMPORARY: the memory whose bytes it takes over (an output in place of an input); itself if it has its own. The
     * first of such memories lives until the last one ends. */
    int32_t place;
} md_sq_memory;

typedef struct md_sq_tensor {
    char *name; /* NULL: none, or a scalar's */
    bool is_scalar; /* an external scalar, of type F64 or I64 */
    md_dtype dtype;
    int32_t rank, memory, base; /* base: the tensor that it is a view of, -1: none */
    int32_t external; /* a scalar's number among the externals */
    int32_t offset; /* index of its value in md_sq.values; -1: 0 */
    int32_t size[MD_MAX_RANK], stride[MD_MAX_RANK]; /* indices of values; stride[0] -1: contiguous */
} md_sq_tensor;

typedef enum md_sq_arg_kind { MD_SQ_TENSOR, MD_SQ_REAL, MD_SQ_INTEGER, MD_SQ_EXTERNAL } md_sq_arg_kind;

typedef struct md_sq_arg {
    md_sq_arg_kind kind;
    int32_t tensor; /* TENSOR, EXTERNAL: its number */
    int32_t value; /* INTEGER: index of the value */
    double real;
} md_sq_arg;

typedef struct md_sq_step {
    md_ds_op *op; /* NULL: a callback; kept alive by the owner of the sequence */
    md_sequence_fn fn;
    void *user;
    int32_t n_args;
    md_sq_arg *arg;
} md_sq_step;

typedef struct md_sq_external {
    bool is_scalar, is_real, is_written;
    int32_t tensor;
} md_sq_external;

typedef struct md_sq {
    pthread_mutex_t lock;
    md_ds_runtime *runtime; /* NULL once the context is gone */
    char name[64];
    md_sequence_options options; /* with defaults filled in; name NULL */
    bool is_finished;
    int32_t n_dims, n_tensors, n_memories, n_steps, n_externals;
    struct {
        char *name;
        int64_t low, high;
    } dim[MD_SQ_MAX_DIMS];
    struct md_sq_values *values;
    md_sq_tensor *tensor;
    md_sq_memory *memory;
    md_sq_step *step;
    md_sq_external *external;
    /* ---- Of runs */
    int64_t *value; /* of all expressions at the sizes that are being bound */
    md_tensor *now; /* all tensors at the sizes that are being bound */
    int64_t *at; /* their offsets in bytes from the start of their memory */
    uint64_t *word; /* [n_externals] of the run under way: addresses, and the bits of scalars */
    uint64_t *last_word; /* the words of the run before */
    uint32_t *n_moves; /* [n_externals] runs whose word was another one than the run before had, whatever the sizes */
    int32_t n_still; /* runs in a row with equal words; -1: there was no run */
    void *arena, *counters;
    size_t arena_bytes;
    uint64_t generation; /* counts the arena's addresses: shapes bound at an earlier one are bound anew */
    struct md_sq_retired {
        struct md_sq_retired *next;
        void *p;
        size_t n_bytes;
    } * retired; /* arenas that captured graphs of the caller use */
    bool is_captured; /* a graph that the caller captured contains the arena's address */
    bool has_run;
    md_stream last_stream;
    md_dev_mark *mark;
    md_table *shapes; /* by sizes and alignment -> md_sq_shape */
    struct md_sq_shape *newest, *oldest, *last; /* least recently used order; `last` ran last */
    struct md_sq_graph *spare; /* graphs that no shape has, for new shapes of the same kernels */
    int64_t n_graphs, graph_bytes; /* of all graphs, the spare ones among them */
    uint64_t n_divisions; /* how often a shape's calls were divided into segments */
    md_sequence_counters count;
} md_sq;

/** Number of elements from the first to the end of the last; 0 if it is empty. Negative: beyond 63 bits. */
static inline int64_t md_sq_reach(const md_tensor *t)
{
    int64_t n = 1, step;
    for (int32_t a = 0; a < t->rank; a++)
        if (t->size[a] == 0)
            return 0;
    for (int32_t a = 0; a < t->rank; a++)
        if (__builtin_mul_overflow(t->size[a] - 1, t->stride[a], &step) || __builtin_add_overflow(n, step, &n))
            return -1;
    return n;
}

/** "x", or "3" for tensor 3 without a name. */
const char *md_sq_tensor_name(char out[32], const md_sq *sq, int32_t tensor);

/* ---- create.c */
/** Frees what md_sq_finish made for runs. */
void md_sq_free_run_state(md_sq *sq);
md_status md_sq_create(md_sq **out, md_ds_runtime *runtime, const md_sequence_options *options);
/** Frees all that needs the context; what remains only counts. */
void md_sq_close(md_sq *sq);
/** Closes and frees. */
void md_sq_destroy(md_sq **sq);

/* ---- build.c */
md_status md_sq_add_dim(int32_t *number, md_sq *sq, const char *name, int64_t low, int64_t high);
md_status md_sq_add_tensor(int32_t *id, md_sq *sq, const md_sequence_tensor *tensor);
md_status md_sq_add_scalar(int32_t *id, md_sq *sq, const char *name, md_dtype dtype);
md_status md_sq_add_call(md_sq *sq, md_ds_op *op, const md_sequence_arg *args, int32_t n_args);
md_status md_sq_add_callback(md_sq *sq, md_sequence_fn fn, void *user, const int32_t *ids, int32_t n_ids);

/* ---- finish.c */
md_status md_sq_finish(md_sq *sq);

/* ---- run.c */
md_status md_sq_run(md_sq *sq, md_stream stream, const int64_t *size, void *const *data);
md_status md_sq_prepare(md_sq *sq, const int64_t *size, void *const *data);

/* ---- report.c */
void md_sq_count(md_sequence_counters *out, md_sq *sq);
md_status md_sq_explain(md_strbuf *out, md_sq *sq, bool json);

#endif
