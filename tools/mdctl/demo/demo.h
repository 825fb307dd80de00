/* The parts of mdctl demo: the ops in use, and the race that says what dispatch brings. */
#ifndef MDCTL_DEMO_H
#define MDCTL_DEMO_H

#include "common/device.h"
#include "demo/block.h"
#include "demo/trace.h"

#include <stdio.h>

enum { DEMO_MAX_BUILDS = 48, DEMO_MAX_SERVED = 24, DEMO_ROUNDS = 9, DEMO_SAMPLES = 20 };

/* Which variant served which sizes of one op. */
typedef struct demo_served {
    char variant[128];
    char why[16];
    int64_t lo, hi, calls; /* rows */
} demo_served;

typedef struct demo_op {
    md_op *op;
    block_data data;
    double replay_us; /* of the whole trace, md_call and all */
    int n_served;
    demo_served served[DEMO_MAX_SERVED];
} demo_op;

/* What an op is built as. */
typedef enum demo_kind {
    DEMO_DISPATCHED, /* as the user asked for, or the default */
    DEMO_WAY, /* one way of picking */
    DEMO_SINGLE_HINT, /* dispatched among the kernels of one hint */
    DEMO_HINT_KERNEL, /* the kernel that is picked at the hint, for all sizes */
    DEMO_VARIANT /* one kernel of the pool */
} demo_kind;

typedef struct demo_total {
    char label[128], variant[128]; /* variant: of a hint's kernel */
    demo_kind kind;
    double us; /* over the samples that it fits */
    double at[DEMO_SAMPLES]; /* us at each of them; 0: it does not fit */
    int n_samples; /* that it fits */
} demo_total;

typedef struct demo_race {
    int n_samples, n;
    int64_t sample[DEMO_SAMPLES][2]; /* tokens and context */
    demo_total total[DEMO_MAX_BUILDS];
    double best_us; /* sum over samples of the best variant of the pool */
    double best_at[DEMO_SAMPLES];
    double worst_regret; /* of the pick, over samples */
} demo_race;

typedef struct demo_race_job {
    const block *block;
    bool is_gpu;
    const cli_options *o;
    md_context *context;
    demo_op *op;
    int i; /* of the op in block_table */
    int n_samples;
    const int64_t (*sample)[2]; /* tokens and context; the op's data has room for them */
    bool is_matrix; /* the kernel of each hint beside what is dispatched, and nothing else */
    double budget_us;
} demo_race_job;

/** Times the op at the samples: as dispatched, by each way of picking, built for each hint alone, and as each variant
 * of its pool. */
md_status demo_race_run(demo_race *out, const demo_race_job *job);

/* What a new shape adds to a call, in us: the pick alone, nothing is compiled or measured. */
typedef struct demo_new_shapes {
    int n;
    double median_us, worst_us;
} demo_new_shapes;

/** Resolves an op, picked by the model, at numbers of tokens that it has not met, each twice. */
md_status demo_new_shapes_run(demo_new_shapes *out, const demo_race_job *job);

/* Time over the best kernel's, over samples. */
typedef struct demo_ratio {
    double mean, worst;
} demo_ratio;

/* All that is printed. */
typedef struct demo_story {
    const cli_device *device;
    const char *dtype;
    const block *block;
    const trace *trace;
    const demo_op *op; /* DEMO_OPS of them; so is `race` */
    const demo_race *race, *matrix;
    const demo_new_shapes *new_shapes;
    double build_us, replay_us, worst_error;
    int n_verified;
} demo_story;

void demo_print_text(const demo_story *d);
void demo_print_json(FILE *f, const demo_story *d);

#endif
