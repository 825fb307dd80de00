/* A sequence at one tuple of sizes: its launches with parameters ready, but for the addresses and scalars that each run
 * is given anew. */
#ifndef MD_SEQUENCE_SHAPE_H
#define MD_SEQUENCE_SHAPE_H

#include "dispatch/args.h"
#include "dispatch/merged.h"
#include "dispatch/select/plan.h"
#include "sequence/sequence.h"

/* How a step runs at these sizes. */
typedef enum md_sq_form {
    MD_SQ_NOTHING, /* not at all: there is no element to compute */
    MD_SQ_LAUNCHES, /* its launches are enqueued */
    MD_SQ_PLAN, /* its plan is run: it calls a library */
    MD_SQ_CALL, /* by an ordinary call: a better kernel is being built, inputs are copied, the reference serves */
    MD_SQ_CALLBACK
} md_sq_form;

typedef struct md_sq_launch {
    const md_dev_kernel *kernel;
    md_kn_geometry geometry;
    md_kn_word *params; /* owned, 64-byte aligned */
    int32_t n_params;
} md_sq_launch;

/* A parameter that is an address or a scalar of the run, plus a constant. */
typedef struct md_sq_patch {
    int32_t external;
    uint64_t plus;
    uint64_t *word; /* gets external + plus */
    const md_ds_arg_spec *scalar; /* not NULL: gets the scalar, as the op's argument has it */
    const md_dev_kernel *map_of; /* not NULL: `map` gets the address, then its words go to `word` */
    md_dev_map *map; /* owned */
} md_sq_patch;

typedef struct md_sq_part {
    md_sq_form form;
    md_ds_op *op; /* that serves: the step's or its merged one (dispatch/merged.h); NULL for CALLBACK */
    int32_t first, n; /* its launches: n from number `first` on */
    md_ds_shape_entry *entry; /* held; NULL for NOTHING and CALLBACK */
    const md_ds_plan *plan;
    size_t memory; /* where its workspace lies in the arena */
    bool needs_report; /* on a device that runs launches at once: faults are looked for after each */
    int64_t *extent; /* for the message about a fault: [tensor of the formula][axis] */
    md_tensor *tensor; /* PLAN, CALL, CALLBACK: its arguments, owned */
    md_arg *arg; /* PLAN, CALL; owned; of the step's op */
} md_sq_part;

/* A graph, and the launches as they stand in it. */
typedef struct md_sq_graph {
    struct md_sq_graph *next; /* the next one in the list of spare graphs */
    md_dev_graph *made;
    md_dev_graph_facts facts;
    uint64_t key; /* digest of its kernels; 0: its nodes cannot be changed one by one */
    int64_t bytes; /* device memory, estimated */
    int32_t n;
    md_sq_launch *launch; /* params owned */
} md_sq_graph;

/* Calls in a row that run in one way. */
typedef struct md_sq_segment {
    int32_t first, n; /* n calls from number `first` on */
    bool is_graph; /* they are one graph; else they are launched one by one */
    md_sq_graph *graph;
} md_sq_segment;

typedef struct md_sq_shape {
    struct md_sq_shape *newer, *older; /* neighbours in the order of use */
    void *key;
    size_t key_bytes;
    int64_t size[MD_SQ_MAX_DIMS];
    uint64_t generation; /* md_sq.generation when it was bound */
    uint64_t *word; /* addresses and scalars of the externals, as they stand in the parameters */
    size_t *external_bytes; /* that each external spans */
    bool is_overlapping; /* externals overlapped: other addresses are bound anew */
    bool is_final; /* no kernel is replaced soon */
    bool is_capturable; /* one graph can have all calls: besides, there are no callbacks and no ordinary calls */
    uint64_t choice; /* digest of the variants that were picked */
    uint64_t n_runs; /* runs that the shape entries have not counted yet */
    size_t sum_bytes;
    int32_t n_parts, n_launches, n_patches;
    md_sq_part *part;
    md_kn_report *report; /* for each part */
    md_sq_launch *launch;
    md_sq_patch *patch;
    size_t *offset, *bytes; /* of each memory in the arena */
    uint64_t n_same; /* runs in a row with the same words */
    uint64_t graph_key; /* digest of the kernels and how they are launched; 0: with calls of libraries */
    md_sq_graph *graph; /* NULL: none */
    uint64_t *graph_word; /* the addresses and scalars that the graph, or the segments' graphs, contain */
    bool has_no_graph; /* making a graph failed, and is not tried again */
    uint32_t *n_moves; /* by external: runs whose word was another one than before; 0 again when all have settled */
    bool *is_moving; /* by external: calls with it are in no graph of the segments */
    md_sq_segment *segment; /* all calls in their order, where one graph of all calls does not serve */
    int32_t n_segments; /* 0: there are none */
    struct md_sq_memo *memo; /* only while the shape is bound */
    int32_t n_memos;
} md_sq_shape;

/* ---- memory.c */

typedef struct md_sq_layout {
    md_ds_piece *piece; /* pieces of the arena: the memories', then the steps' workspaces */
    int32_t *of; /* memory -> piece, -1: none */
    int32_t n_memories, n;
} md_sq_layout;

/** Places the temporaries. The arena is never empty, so that all tensors have an address. */
md_status md_sq_lay_out(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq);
/** Places the workspaces beside the temporaries. */
md_status md_sq_plan_workspaces(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq);
/** Places the workspace of one step while the steps before it run. If the arena grows, its contents are copied. */
md_status md_sq_plan_workspace(md_sq_layout *plan, md_sq_shape *shape, md_sq *sq, int32_t step);

/* ---- bind.c */

/* How the shape of a run is found or bound. */
typedef struct md_sq_find_how {
    md_stream stream; /* that will run: while it is captured, nothing is bound */
    bool is_patient; /* true: waits until the best kernels are built */
    /* runs a call on the stream: a new shape's are enqueued one by one, as soon as they are bound; NULL: none are */
    md_status (*start)(md_sq *sq, const md_sq_shape *shape, int32_t step, md_stream stream);
    bool has_run; /* out: all calls were enqueued while they were bound */
} md_sq_find_how;

/** Binds the sequence at sizes; sq->word has the addresses. */
md_status md_sq_bind(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how);
/** INVALID_ARGUMENT for an external that is NULL and not empty. */
md_status md_sq_check_externals(const md_sq *sq, const md_sq_shape *shape);

/* ---- lifetime.c */

/** Frees a shape that is in no list. The shape entries of its calls count its runs first. */
void md_sq_shape_free(md_sq_shape *shape, md_sq *sq);
/** Adds the runs to the entries' counts. */
void md_sq_shape_flush(md_sq_shape *shape);
/** True if the kernels of a part were replaced by better ones since. If the new plans have the same kernels (a better
 * one was looked for, and there is none), the shape has these plans now. */
bool md_sq_shape_is_stale(md_sq_shape *shape);
/** Sets is_final and is_capturable. */
void md_sq_set_ability(md_sq_shape *shape);
/** Frees all shapes. */
void md_sq_evict_all(md_sq *sq);
/** Fills in arg[n_args], the arguments of a step with the tensors at this run's sizes. */
void md_sq_args_of(md_arg *arg, const md_sq *sq, const md_sq_step *step);
/** The arguments of a step for the op that serves it: `args` are those of the step, `room` holds others. NULL: they
 * have no merged form. */
const md_arg *md_sq_args_for(md_ds_merged_args *room, const md_ds_op *op, const md_sq_step *step, const md_arg *args);
/** The external that an argument is or lies in; -1: none. */
static inline int32_t md_sq_external_of(const md_sq *sq, const md_sq_arg *arg)
{
    if (arg->kind != MD_SQ_TENSOR && arg->kind != MD_SQ_EXTERNAL)
        return -1;
    const md_sq_tensor *t = &sq->tensor[arg->tensor];
    return t->is_scalar ? t->external : sq->memory[t->memory].external;
}
/** True if a written external overlaps another one, or a constant. */
bool md_sq_externals_overlap(const md_sq *sq, const uint64_t *word, const size_t *bytes);

/* ---- graph.c */

/* Up to one node in three may change: beyond that a chain of launches is cheaper (sequence/README.md). */
enum { MD_SQ_CHEAP_SHARE = 3 };

/* Runs `n` calls from `first` on. */
typedef md_status (*md_sq_run_fn)(md_sq *sq, const md_sq_shape *shape, int32_t first, int32_t n, md_stream stream);

/** Device memory of a graph of `n` calls from `first` on: 28 MB for 200 graphs of 20 kernels were seen. */
int64_t md_sq_graph_bytes(const md_sq_shape *shape, int32_t first, int32_t n);
/** See md_sq_shape.graph_key. */
uint64_t md_sq_graph_key(const md_sq_shape *shape);
bool md_sq_can_have_graph(const md_sq *sq, const md_sq_shape *shape);
/** True if the shape's graph has the words of this run, or has them now since few nodes differed. */
bool md_sq_graph_serves(md_sq *sq, md_sq_shape *shape);
/** After a run by launches: makes the shape's graph or changes one. */
void md_sq_graph_after(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run);
/** True if `n` more graphs of `bytes` together fit. */
bool md_sq_has_room(const md_sq *sq, int64_t n, int64_t bytes);
/** Destroys the graphs of shapes that were not used for longest, until `n` graphs of `bytes` fit. False: they never
 * do. */
bool md_sq_evict_for(md_sq *sq, const md_sq_shape *shape, int64_t n, int64_t bytes);
/** Makes the graph of a segment. */
md_status md_sq_make_segment(md_sq *sq, const md_sq_shape *shape, md_sq_segment *segment, md_sq_run_fn run);
/** Making a graph failed: the shape has none from now on. */
void md_sq_refuse_graph(md_sq *sq, md_sq_shape *shape);
/** Takes the graph from a shape, if it has one: it becomes a spare one or is destroyed. */
void md_sq_drop_graph(md_sq_shape *shape, md_sq *sq);
void md_sq_drop_segments(md_sq_shape *shape, md_sq *sq);
void md_sq_drop_spares(md_sq *sq);

/* ---- segments.c */

/** Counts which words of this run differ from those of the shape's last one. */
void md_sq_count_moves(md_sq_shape *shape, const md_sq *sq);
/** Compares the words of a run with those of the run before. */
void md_sq_note_words(md_sq *sq);
/** For a new shape: what moved from run to run, whatever the sizes, is taken to move at these. */
void md_sq_expect_moves(md_sq_shape *shape, const md_sq *sq);
/** For a shape that ran so often in a row with the same words: they do not move any more. */
enum { MD_SQ_RUNS_TO_SETTLE = 8 };
void md_sq_drop_moves(md_sq_shape *shape, const md_sq *sq);
/** True if the shape is to run by its segments: their graphs have the words of this run. */
bool md_sq_segments_serve(md_sq *sq, md_sq_shape *shape);
/** After a run by launches: makes segments where words move and no graph of all can follow. True if it has some. */
bool md_sq_segments_after(md_sq *sq, md_sq_shape *shape, md_sq_run_fn run);
/** True if words differ from run to run, but so few launches read them that one graph of all launches serves: before
 * a run its nodes of those launches are changed. */
bool md_sq_few_nodes_move(const md_sq *sq, const md_sq_shape *shape);

/* ---- launches.c */
/** Makes the launches of a step, whose arguments are in sq->now, or copies those of an equal step. False if it has to
 * run in another way. */
md_status md_sq_make_launches(bool *is_made, md_sq_shape *shape, md_sq *sq, int32_t step, const md_ds_bound *bound);
/** Frees the memo of launches, from which binding makes those of equal steps. */
void md_sq_drop_memos(md_sq_shape *shape);
/** Stores the words of a run in all places that depend on them. */
md_status md_sq_apply(md_sq_shape *shape, const md_sq *sq);
/** Notes a parameter that each run sets anew. */
md_status md_sq_add_patch(md_sq_shape *shape, const md_sq_patch *patch);

#endif
