/* The parts of mdctl demo: the ops in use, and the race that says what dispatch brings. */
#ifndef MDCTL_DEMO_H
#define MDCTL_DEMO_H

#include "demo/block.h"
#include "demo/trace.h"

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

/* A build of an op, and its time over the sampled steps. */
typedef enum demo_kind { DEMO_DISPATCHED, DEMO_BY_MODEL, DEMO_SINGLE_HINT, DEMO_VARIANT } demo_kind;

typedef struct demo_total {
    char label[128];
    demo_kind kind;
    double us; /* over the samples that it fits */
    int n_samples; /* that it fits */
} demo_total;

typedef struct demo_race {
    int n_samples, n;
    int64_t sample[DEMO_SAMPLES][2]; /* tokens and context */
    demo_total total[DEMO_MAX_BUILDS];
    double best_us; /* sum over samples of the best variant of the pool */
    double worst_regret; /* of the pick, over samples */
} demo_race;

typedef struct demo_race_job {
    const block *block;
    bool is_gpu;
    const cli_options *o;
    md_context *context;
    demo_op *op;
    int i; /* of the op in block_table */
    const trace *trace;
    double budget_us;
} demo_race_job;

/** Times the op as dispatched, built for each hint alone, and as each variant of its pool, at some steps of the
 * trace. */
md_status demo_race_run(demo_race *out, const demo_race_job *job);

#endif
