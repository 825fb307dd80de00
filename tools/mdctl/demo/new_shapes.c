/* What the first call of a shape adds to a call: the pick. md_resolve picks as md_call does, and launches nothing. */
#include "common/timing.h"
#include "demo/demo.h"

enum { SHAPES = 100, QUICK_SHAPES = 20 };

static md_status resolve_us(double *us, demo_op *op, md_op *by)
{
    md_launch *launch = NULL;
    const double start = cli_now_us();
    md_status s = md_resolve(&launch, by, op->data.arg, op->data.most.n);
    *us = cli_now_us() - start;
    md_launch_destroy(&launch);
    return s;
}

/* Adds what the first of two picks at a shape takes longer. */
static md_status add_shape(timing *t, const demo_race_job *job, md_op *by, int64_t tokens)
{
    char sizes[64];
    double first = 0.0, second = 0.0;
    block_sizes(sizes, job->block, job->i, tokens, job->block->most_context);
    md_status s = block_shape(&job->op->data, job->op->op, sizes);
    if (s == MD_OK)
        s = resolve_us(&first, job->op, by);
    if (s == MD_OK)
        s = resolve_us(&second, job->op, by);
    timing_add(t, first > second ? first - second : 0.0);
    return s;
}

md_status demo_new_shapes_run(demo_new_shapes *out, const demo_race_job *job)
{
    md_op_options o = job->o->op;
    md_op *op = NULL;
    static timing added;
    const int n = job->o->quick ? QUICK_SHAPES : SHAPES;
    const int64_t step = job->block->most_tokens / n > 1 ? job->block->most_tokens / n : 1;
    block_options(&o, job->block, job->i);
    o.select = MD_SELECT_MODEL;
    added.n = 0;
    md_status s = md_op_create(&op, job->context, block_table[job->i].formula, &o);
    for (int k = 1; k <= n && k * step <= job->block->most_tokens && s == MD_OK; k++)
        s = add_shape(&added, job, op, k * step);
    md_op_destroy(&op);
    *out = (demo_new_shapes){added.n, timing_quantile(&added, 0.5), timing_quantile(&added, 1.0)};
    return s;
}
