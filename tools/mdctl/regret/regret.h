/* The study of regret: a line of a board, a shape, the modes that choose, and the variants that they choose from. */
#ifndef MDCTL_REGRET_H
#define MDCTL_REGRET_H

#include "common/data.h"
#include "common/device.h"
#include "common/sweep.h"
#include "common/timing.h"

enum {
    REGRET_SHAPES = 16384,
    REGRET_DIMS = 8,
    REGRET_SETS = 16,
    REGRET_RIVALS = 192,
    REGRET_MODES = 6,
    REGRET_ARGS = 16,
    REGRET_HINTS = 1024,
    REGRET_NAME = 384 /* of a variant, or of the variants of a chain's parts */
};

typedef struct regret_dim {
    char name[32];
    int64_t lo, hi;
} regret_dim;

typedef struct regret_line {
    const char *op, *fixed, *hints, *trace, *trace_dim; /* all but op may be NULL */
    md_dtype dtype;
    int count;
    const char *shapes; /* a file with a shape a line */
    uint64_t seed;
    double bytes; /* the most that the tensors of a shape have */
    int n_dims;
    regret_dim dim[REGRET_DIMS];
} regret_line;

typedef struct regret_shape {
    char sizes[160];
    double weight;
} regret_shape;

typedef struct regret_mode {
    const char *name;
    int n_calls; /* of each shape, that it learns from, and from moments without calls between and after them */
    int idle_tune; /* as md_op_options.idle_tune */
    md_op *op;
    /* at the shape of the moment */
    char variant[REGRET_NAME];
    const char *source; /* what the choice rests on: md_choice.source */
    int pick; /* index of the rival; -1: none */
    bool is_uncovered, has_failed;
    double regret; /* time over the best one's, minus 1 */
    double own_regret; /* over that of the best of the mode's own pool */
    double space_regret; /* over that of the best of the whole space, where it was searched */
    double choosing_us;
    /* of all shapes of a line */
    double sum, most, time, best_time, own_sum, choosing_sum;
    int n_within[2]; /* shapes where the pick loses at most 1%, 5% to the best of its own pool */
    double space_sum, space_time, space_best; /* of those that were searched */
    int n_failed;
    timing all;
} regret_mode;

typedef struct regret_set { /* arguments in memory that all shapes share */
    int32_t n;
    md_tensor tensor[REGRET_ARGS];
    md_arg arg[REGRET_ARGS];
} regret_set;

typedef struct regret_rival { /* an op that runs one variant only */
    char name[REGRET_NAME];
    md_op *op;
    md_launch *launch[REGRET_SETS];
    uint32_t pools; /* a bit for each mode that has it */
    bool fits, is_pick;
    bool is_outside; /* in no pool: found by a search, and compared in the whole space only */
    bool is_wanted; /* timed in all rounds, even if its first sample is slow */
    double first_us; /* of a first look */
    timing half[2]; /* alternate samples: one half picks the best variant, the other says by how much */
} regret_rival;

typedef struct regret_study {
    const cli_options *o;
    const regret_line *line;
    const regret_shape *shape;
    md_context *context;
    FILE *output;
    cli_device device;
    void *arena;
    double arena_bytes;
    md_dtype filled; /* what the arena holds */
    sweep sweep;
    int32_t stage; /* whose variants compete: the last, which is the chain of the others where there are several */
    int n_modes, n_rivals, n_sets;
    char hints[REGRET_HINTS]; /* that were suggested */
    int n_searched, n_complete; /* shapes of the line, in all their space */
    regret_mode mode[REGRET_MODES];
    regret_rival rival[REGRET_RIVALS];
    regret_set set[REGRET_SETS];
} regret_study;

typedef struct regret_result {
    const char *best;
    double best_us;
    int n_timed;
    bool is_searched, is_complete; /* the whole space was; and within the budget */
    const char *space_best;
    double space_us;
    int n_space; /* configs that were timed */
} regret_result;

/** Reads a line of a board in place: the text must outlive the line. False if it cannot be understood. */
bool regret_parse(regret_line *out, char *text);
/** Draws up to `count` shapes of a line; returns their number. */
int regret_draw(regret_shape *shape, const regret_line *l, md_op *op);
/** Reads up to REGRET_SHAPES shapes and weights from the line's trace; returns their number. */
int regret_read_trace(regret_shape *shape, const regret_line *l);
/** Reads up to REGRET_SHAPES shapes from the line's list, but those whose tensors have too many bytes; returns their
 * number. */
int regret_read_shapes(regret_shape *shape, const regret_line *l, md_op *op);
/** Makes an op for each mode that was asked for. */
md_status regret_make_modes(regret_study *study, const regret_line *l);
/** Makes the mode of the line's hints, after its shapes are known: suggested hints are for these. */
md_status regret_make_hinted(regret_study *study, const regret_line *l, const regret_shape *shape, int n);
/** Asks a mode for its choice at the shape that regret_place has laid out, once what it wants is built and loaded. */
md_status regret_ask(regret_study *study, regret_mode *m);

void regret_print_shape(regret_study *study, const regret_line *l, const regret_shape *shape, const regret_result *r);
void regret_print_sum(regret_study *study, const char *what, int n, const regret_mode *m);
/** Against the best of the whole space, over the shapes that were searched. */
void regret_print_space_sum(regret_study *study, const char *what, const regret_mode *m);

md_status regret_open(regret_study *study);
void regret_close(regret_study *study);
/** Makes an op for each variant that some mode has. */
md_status regret_rivals(regret_study *study, const regret_line *l);
int regret_find(const regret_study *study, const char *variant);
/** The text of md_op_options.pin for a name: "3:chain/..." for a variant of a chain. */
void regret_pin(char out[REGRET_NAME], const regret_study *study, const char *name);
/** What was picked: a variant, or "0:gemm/...; 1:row_looped/..." where the parts of a chain run. */
void regret_name(char out[REGRET_NAME], const regret_study *study, const md_choice *choice);
/** Makes a rival of a chain's parts, each by the kernel that the model takes for the fastest at the shape. */
md_status regret_add_parts(regret_study *study);
/** Lays out arguments of the first mode's op in the arena, several times. */
md_status regret_place(regret_study *study, const char *sizes);
/** Builds and times all configs that the families have at the shape, within the budget, and makes an op for the best
 * one. */
md_status regret_search(regret_result *out, regret_study *study, const char *sizes);
/** `mode`: whose pool it is in; -1: none. */
md_status regret_add_rival(regret_study *study, const regret_line *l, const char *variant, int mode);
/** Times all rivals that fit; fills in the modes' regret. */
md_status regret_measure(regret_result *out, regret_study *study);
void regret_leave(regret_study *study);

#endif
