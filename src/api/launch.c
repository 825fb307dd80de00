/* Calls and resolved launches: md_call, md_resolve, md_launch_run and what they chose. */
#include "api/context.h"
#include "base/status.h"
#include "dispatch/merged.h"
#include "dispatch/registry.h"
#include "dispatch/call/call.h"
#include "dispatch/run/run.h"
#include "dispatch/select/select.h"

#include <stdlib.h>
#include <string.h>

struct md_launch {
    md_op *op; /* points to `own` */
    md_op own; /* a copy: the user may destroy the op's handle first */
    md_ds_shape_entry *entry; /* held until the launch is destroyed; NULL where no element is computed */
    md_ds_bound bound;
    bool is_merged; /* `own` is the merged op, and `arg` are its arguments */
    bool is_plain; /* the warm call can find the launch plan */
    md_ds_call_args warm;
    int32_t n_args;
    md_arg arg[MD_FX_MAX_ARGS + MD_DS_MAX_DYNAMIC]; /* tensors point into `tensor` */
    md_tensor tensor[MD_FX_MAX_ARGS];
};

static void keep_args(md_launch *l, const md_arg *args, int32_t n)
{
    l->n_args = n;
    for (int32_t i = 0; i < n; i++) {
        l->arg[i] = args[i];
        if (args[i].kind != MD_ARG_TENSOR)
            continue;
        l->tensor[i] = *args[i].tensor;
        l->arg[i].tensor = &l->tensor[i];
    }
}

static md_status resolve(md_launch *l, const md_arg *args, int32_t n)
{
    MD_TRY(md_ds_bind(&l->bound, l->op->ds, args, n));
    MD_TRY(md_ds_check_pointers(l->op->ds, &l->bound));
    if (!l->bound.is_empty)
        MD_TRY(md_ds_find(&l->entry, l->op->ds, NULL, &l->bound));
    keep_args(l, args, n);
    md_ds_op *op = l->op->ds;
    l->is_plain = l->entry && op->layout.is_possible && !op->runtime->verifies &&
                  md_ds_call_args_take(&l->warm, &op->layout, l->arg, n);
    if (l->is_plain)
        md_ds_add_launch_plan(op, &l->warm, l->entry, &l->bound);
    return MD_OK;
}

md_status md_resolve(md_launch **out, md_op *op, const md_arg *args, int32_t n_args)
{
    if (!out || !op)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "op" : "out");
    md_launch *l = calloc(1, sizeof *l);
    if (!l)
        return md_fail_memory();
    md_ds_merged_args merged;
    l->own = *op;
    l->op = &l->own;
    l->is_merged = md_ds_merged_take(&merged, op->ds, args, n_args);
    if (l->is_merged)
        l->own.ds = md_ds_merged_of(op->ds);
    md_ds_enter(l->own.ds);
    /* its message names the user's dims, not the merged ones */
    md_status s = l->is_merged ? md_ds_bind(&l->bound, op->ds, args, n_args) : MD_OK;
    if (s == MD_OK)
        s = resolve(l, l->is_merged ? merged.arg : args, n_args);
    if (s != MD_OK) {
        md_launch_destroy(&l);
        return s;
    }
    *out = l;
    return MD_OK;
}

void md_launch_destroy(md_launch **launch)
{
    if (!launch || !*launch)
        return;
    if ((*launch)->entry)
        md_ds_shape_entry_release((*launch)->entry);
    md_api_leave((*launch)->op);
    free(*launch);
    *launch = NULL;
}

/* The same rules as md_fx_bind: an integer may stand for a real, a real may not stand for an integer. */
static md_status rebind_scalar(md_fx_binding *b, const md_fx_scalar *s, int32_t id, int32_t i, const md_arg *arg)
{
    bool is_int = arg->kind == MD_ARG_INT;
    if (!is_int && (s->type == MD_I64 || arg->kind != MD_ARG_REAL))
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' must be a scalar of type %s", i, s->name,
                       md_dtype_name(s->type));
    if (s->is_size && arg->integer != b->size[s->dim])
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': the size is %lld, but the launch was resolved for %lld",
                       i, s->name, (long long)arg->integer, (long long)b->size[s->dim]);
    b->real[id] = is_int ? (double)arg->integer : arg->real;
    b->integer[id] = is_int ? arg->integer : 0;
    return MD_OK;
}

static md_status rebind_tensor(md_ds_bound *b, const md_fx_tensor *t, int32_t id, int32_t i, const md_arg *arg)
{
    if (arg->kind != MD_ARG_TENSOR || !arg->tensor)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' must be a tensor", i, t->name);
    void *data = arg->tensor->data;
    if (!data && b->binding.tensor[id].data)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': data is NULL", i, t->name);
    if ((uintptr_t)data % md_dtype_size(t->dtype))
        return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': data is not aligned to its elements", i, t->name);
    b->binding.tensor[id].data = data;
    if ((uintptr_t)data % 64)
        b->shape.aligned &= ~((uint32_t)1 << id);
    if ((uintptr_t)data % 16)
        b->shape.aligned16 &= ~((uint32_t)1 << id);
    return MD_OK;
}

/* Puts new pointers and scalars into a copy of the resolved binding. */
static md_status rebind(md_ds_bound *b, const md_launch *l, const md_arg *args, int32_t n)
{
    const md_fx_formula *f = l->op->ds->formula;
    if (n != l->n_args && n != f->n_args) /* sizes to select by may be left out: the plan is selected already */
        return md_fail(MD_INVALID_ARGUMENT, "the launch takes %d arguments, not %d", l->n_args, n);
    for (int32_t i = 0; i < f->n_args; i++) {
        int32_t id = f->args[i].id;
        if (f->args[i].is_scalar)
            MD_TRY(rebind_scalar(&b->binding, &f->scalar[id], id, i, &args[i]));
        else
            MD_TRY(rebind_tensor(b, &f->tensor[id], id, i, &args[i]));
    }
    return MD_OK;
}

/* Runs the resolved entry if alignment is unchanged. Less aligned memory, and arguments that were bound anew, may need
 * another entry. */
static md_status run_bound(double *us, const md_launch *l, md_stream stream, md_ds_bound *bound, bool is_bound_anew)
{
    md_ds_op *op = l->op->ds;
    md_ds_shape_entry *entry = NULL;
    bool is_as_resolved =
        bound->shape.aligned == l->bound.shape.aligned && bound->shape.aligned16 == l->bound.shape.aligned16;
    if (!is_bound_anew && is_as_resolved)
        return md_ds_run(us, op, l->entry, NULL, stream, bound);
    if (bound->is_empty)
        return MD_OK;
    MD_TRY(md_ds_find(&entry, op, stream, bound));
    md_status s = md_ds_run(us, op, entry, NULL, stream, bound);
    md_ds_shape_entry_release(entry);
    return s;
}

/* An input that overlaps an output is copied before each run. New pointers may overlap elsewhere, so such a launch is
 * bound anew. */
static md_status run(double *us, const md_launch *l, md_stream stream, const md_arg *args, int32_t n, bool is_timed)
{
    if (us)
        *us = 0.0;
    if (!l->entry)
        return MD_OK;
    md_ds_bound bound = l->bound;
    bound.is_timed = is_timed;
    bool is_bound_anew = args && l->bound.copies.n > 0;
    if (is_bound_anew)
        MD_TRY(md_ds_bind(&bound, l->op->ds, args, n));
    else if (args)
        MD_TRY(rebind(&bound, l, args, n));
    return run_bound(us, l, stream, &bound, is_bound_anew);
}

/* Runs the launch plan of the resolved shape. False if the arguments have another shape, or there is no plan. */
static bool run_plan(md_status *status, const md_launch *l, md_stream stream, const md_arg *args, int32_t n)
{
    md_ds_op *op = l->op->ds;
    md_ds_call_args call;
    if (!l->is_plain)
        return false;
    if (!args)
        return md_ds_call_launch_plan(status, op, &l->warm, stream);
    return md_ds_call_args_take(&call, &op->layout, args, n) &&
           !memcmp(call.key, l->warm.key, (size_t)op->layout.n_key * sizeof *call.key) &&
           md_ds_call_launch_plan(status, op, &call, stream);
}

/* The resolved shape with the data of `args`: those have the axes of the op that the user made. */
static void join_args(md_ds_merged_args *out, const md_launch *l, const md_arg *args, int32_t n)
{
    for (int32_t i = 0; i < MD_MIN(n, MD_FX_MAX_ARGS); i++) {
        out->arg[i] = args[i];
        if (i >= l->n_args || l->arg[i].kind != MD_ARG_TENSOR || args[i].kind != MD_ARG_TENSOR || !args[i].tensor)
            continue;
        out->tensor[i] = l->tensor[i];
        out->tensor[i].data = args[i].tensor->data;
        out->arg[i].tensor = &out->tensor[i];
    }
}

md_status md_launch_run(const md_launch *launch, md_stream stream, const md_arg *args, int32_t n_args)
{
    md_status s = MD_OK;
    md_ds_merged_args merged;
    if (!launch)
        return md_fail(MD_INVALID_ARGUMENT, "launch is NULL");
    if (launch->is_merged && args) {
        join_args(&merged, launch, args, n_args);
        args = merged.arg;
    }
    if (run_plan(&s, launch, stream, args, n_args))
        return s;
    return run(NULL, launch, stream, args, n_args, false);
}

md_status md_launch_time(double *us, const md_launch *launch, md_stream stream)
{
    if (!launch)
        return md_fail(MD_INVALID_ARGUMENT, "launch is NULL");
    return md_launch_time_all(us, &launch, 1, stream);
}

typedef struct sequence {
    const md_launch *const *launches;
    int32_t n;
    md_stream stream;
} sequence;

static md_status run_sequence(void *user)
{
    const sequence *q = user;
    for (int32_t i = 0; i < q->n; i++)
        MD_TRY(run(NULL, q->launches[i], q->stream, NULL, 0, true));
    return MD_OK;
}

/* On the host each launch is timed by itself. */
static md_status time_each(double *us, const sequence *q)
{
    double sum = 0.0, one = 0.0;
    for (int32_t i = 0; i < q->n; i++) {
        MD_TRY(run(&one, q->launches[i], q->stream, NULL, 0, true));
        sum += one;
    }
    *us = sum;
    return MD_OK;
}

md_status md_launch_time_all(double *us, const md_launch *const *launches, int32_t n, md_stream stream)
{
    sequence q = {launches, n, stream};
    double spent = 0.0;
    if (!us || !launches || n < 1)
        return md_fail(MD_INVALID_ARGUMENT, !us ? "us is NULL" : !launches ? "launches is NULL" : "n is below 1");
    for (int32_t i = 0; i < n; i++)
        if (!launches[i] || launches[i]->op->context != launches[0]->op->context)
            return md_fail(MD_INVALID_ARGUMENT, launches[i] ? "launch %d is of another context" : "launch %d is NULL",
                           i);
    md_ds_runtime *runtime = &launches[0]->op->context->runtime;
    if (!md_ds_is_async(runtime)) {
        MD_TRY(time_each(&spent, &q));
    } else {
        if (md_ds_is_capturing(runtime, stream))
            return md_fail(MD_UNSUPPORTED, "nothing can be timed while the stream is captured");
        MD_TRY(runtime->dev->ops->time(&spent, runtime->dev, stream, run_sequence, &q));
    }
    *us = spent;
    return MD_OK;
}

static void fill_choice(md_choice *out, const md_ds_op *op, const md_ds_shape_entry *entry)
{
    memset(out, 0, sizeof *out);
    out->n_stages = entry ? op->n_stages : 0;
    for (int32_t s = 0; s < out->n_stages; s++) {
        const md_ds_pick *p = &md_ds_plan_of(entry)->stage[s].pick;
        out->variant[s] = md_ds_pick_name(op, md_ds_plan_of(entry), s);
        out->runner_up[s] = p->runner_up >= 0 ? op->stage[s].variant[p->runner_up]->name : "";
        out->source[s] = md_ds_source_name(p->source);
        out->distance[s] = p->distance;
        out->margin[s] = p->margin;
    }
    out->nearest = entry ? entry->nearest : 0.0;
    out->is_uncovered = entry && entry->is_uncovered;
}

md_status md_launch_choice(md_choice *out, const md_launch *launch)
{
    if (!out || !launch)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "launch" : "out");
    fill_choice(out, launch->op->ds, launch->entry);
    return MD_OK;
}

static md_status choice_of(md_choice *out, md_ds_op *op, const md_arg *args, int32_t n_args)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    MD_TRY(md_ds_bind(&bound, op, args, n_args));
    if (!bound.is_empty)
        MD_TRY(md_ds_find(&entry, op, NULL, &bound));
    fill_choice(out, op, entry);
    if (entry)
        md_ds_shape_entry_release(entry);
    return MD_OK;
}

md_status md_choice_of(md_choice *out, md_op *op, const md_arg *args, int32_t n_args)
{
    md_ds_merged_args merged;
    if (!out || !op)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "op" : "out");
    if (!md_ds_merged_take(&merged, op->ds, args, n_args))
        return choice_of(out, op->ds, args, n_args);
    md_status s = choice_of(out, md_ds_merged_of(op->ds), merged.arg, n_args);
    return s == MD_INVALID_ARGUMENT ? choice_of(out, op->ds, args, n_args) : s;
}

__attribute__((hot)) md_status md_call(md_op *op, md_stream stream, const md_arg *args, int32_t n_args)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    return md_ds_call(op->ds, stream, args, n_args);
}

md_status md_reference(md_op *op, const md_arg *args, int32_t n_args)
{
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    return md_ds_reference(op->ds, args, n_args);
}
