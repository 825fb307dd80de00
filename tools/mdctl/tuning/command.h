/* What the files of `mdctl tune` share. */
#ifndef MDCTL_TUNING_COMMAND_H
#define MDCTL_TUNING_COMMAND_H

#include "common/cli.h"

/* One config at one point. */
typedef struct tune_mark {
    char point[128], variant[128];
    double us, model_us;
    int32_t round;
} tune_mark;

/* One piece of the work (md_tune_pieces). */
typedef struct tune_piece {
    char *text; /* owned */
    char digest[40];
    double ms;
    int part; /* from 1 */
} tune_piece;

typedef struct tune_run {
    const char *formula;
    FILE *log; /* JSON lines; NULL: nowhere */
    bool json;
    double start_us, budget_ms; /* of the search under way */
    int32_t n_candidates;
    int32_t n_points_kept, capacity;
    tune_mark *mark;
    int32_t n_pieces, piece_capacity;
    tune_piece *piece; /* of all parts */
} tune_run;

/** Runs the same command in a helper process and passes its lines to `take`. If a variant does not end, the helper is
 * killed and another one goes on without that variant. */
int tune_guard(const cli_options *o, int (*take)(void *user, const char *text, size_t n_bytes), void *user);

/* What is tuned. */
typedef struct tune_target {
    const char *formula;
    const md_op_options *op;
    const int64_t *indices; /* that index tensors hold; NULL: random ones */
    int64_t n_indices;
} tune_target;

typedef int (*tune_fn)(tune_run *r, md_context *context, const cli_options *o, const tune_target *target);
/** Tunes every op of a statistics file (JSON) at the shapes that it met, with the indices that were recorded there. */
int tune_from_stats(tune_run *r, md_context *context, const cli_options *o, tune_fn tune);

/* ---- parts.c: the work in pieces */

/** True if the options ask for it. */
bool tune_in_pieces(const cli_options *o);
/** The options of a search of the target. The caller frees `*indices`, which --indices fills. */
int tune_options(md_tune_options *out, int64_t **indices, const cli_options *o, const tune_target *target);
/** A tune_fn that adds the target's pieces to the run. */
int tune_add_pieces(tune_run *r, md_context *context, const cli_options *o, const tune_target *target);
/** Tunes the pieces of the part, and writes the file of --wisdom. In the helper process. */
int tune_part(tune_run *r, md_context *context, const cli_options *o);
/** Prints the pieces. */
int tune_print_plan(tune_run *r, const cli_options *o);
void tune_free_pieces(tune_run *r);

/** A picture of the search: measured over modelled time, and how the best fell, one colour a point. */
int tune_plot(const tune_run *r, const char *path);

#endif
