/* Adds dims, tensors, scalars and calls to a sequence. */
#include "base/dtype.h"
#include "base/grow.h"
#include "base/status.h"
#include "sequence/sequence.h"
#include "sequence/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static md_status refuse_finished(const md_sq *sq)
{
    return sq->is_finished ? md_fail(MD_INVALID_ARGUMENT, "sequence %s is finished: nothing can be added", sq->name)
                           : MD_OK;
}

md_status md_sq_add_dim(int32_t *number, md_sq *sq, const char *name, int64_t low, int64_t high)
{
    MD_TRY(refuse_finished(sq));
    if (sq->n_tensors > 0 || sq->n_steps > 0)
        return md_fail(MD_INVALID_ARGUMENT, "sequence %s: dim '%s': dims come before tensors and calls", sq->name,
                       name ? name : "NULL");
    if (sq->n_dims == MD_SQ_MAX_DIMS)
        return md_fail(MD_UNSUPPORTED, "a sequence has at most %d dims", MD_SQ_MAX_DIMS);
    if (low < 0 || (high && high < low))
        return md_fail(MD_INVALID_ARGUMENT, "dim '%s': no sizes are between %lld and %lld", name ? name : "NULL",
                       (long long)low, (long long)high);
    MD_TRY(md_sq_values_add_dim(sq->values, name));
    char *copy = strdup(name);
    if (!copy)
        return md_fail_memory();
    sq->dim[sq->n_dims].name = copy;
    sq->dim[sq->n_dims].low = low;
    sq->dim[sq->n_dims].high = high ? high : INT64_MAX;
    if (number)
        *number = sq->n_dims;
    sq->n_dims++;
    return MD_OK;
}

/* ---- Tensors */

static bool add_external(int32_t *number, md_sq *sq, const md_sq_external *external)
{
    if (sq->n_externals == MD_SQ_MAX_EXTERNALS ||
        !md_grow(&sq->external, (size_t)sq->n_externals, sizeof *sq->external))
        return false;
    sq->external[sq->n_externals] = *external;
    *number = sq->n_externals++;
    return true;
}

static md_status check_tensor(const md_sq *sq, const md_sequence_tensor *t)
{
    const char *name = t->name ? t->name : "without a name";
    if (t->role < MD_SEQUENCE_TEMPORARY || t->role > MD_SEQUENCE_CONSTANT)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s': role %d does not exist", name, (int)t->role);
    if (t->dtype != MD_DTYPE_DEFAULT && md_dtype_size(t->dtype) == 0)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s': dtype %d does not exist", name, (int)t->dtype);
    if (md_dtype_is_packed(t->dtype))
        return md_fail(MD_UNSUPPORTED, "tensor '%s': sequences have no packed tensors (%s)", name,
                       md_dtype_name(t->dtype));
    if (t->view_of < 0 || t->view_of > sq->n_tensors || (t->view_of && sq->tensor[t->view_of - 1].is_scalar))
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s': view_of %d is no tensor", name, (int)t->view_of);
    if (!t->view_of && t->offset)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s' is no view, so it has no offset", name);
    if (!t->view_of && t->role == MD_SEQUENCE_CONSTANT && !t->data)
        return md_fail(MD_INVALID_ARGUMENT, "tensor '%s' is constant: data is NULL", name);
    return MD_OK;
}

static md_status parse_tensor(md_sq_tensor *out, md_sq *sq, const md_sequence_tensor *t)
{
    char what[96];
    int32_t n = 0;
    snprintf(what, sizeof what, "size of tensor '%s'", t->name ? t->name : "");
    MD_TRY(md_sq_values_parse(out->size, &out->rank, MD_MAX_RANK, sq->values, t->size, what));
    out->stride[0] = out->offset = -1;
    if (t->stride) {
        snprintf(what, sizeof what, "stride of tensor '%s'", t->name ? t->name : "");
        MD_TRY(md_sq_values_parse(out->stride, &n, MD_MAX_RANK, sq->values, t->stride, what));
        if (n != out->rank)
            return md_fail(MD_INVALID_ARGUMENT, "%s: %d strides for %d sizes", what, (int)n, (int)out->rank);
    }
    if (t->offset) {
        snprintf(what, sizeof what, "offset of tensor '%s'", t->name ? t->name : "");
        MD_TRY(md_sq_values_parse(&out->offset, &n, 1, sq->values, t->offset, what));
    }
    return MD_OK;
}

static md_status add_memory(int32_t *number, md_sq *sq, const md_sequence_tensor *t)
{
    int32_t external = -1;
    if (!md_grow(&sq->memory, (size_t)sq->n_memories, sizeof *sq->memory))
        return md_fail_memory();
    const bool is_external = t->role == MD_SEQUENCE_INPUT || t->role == MD_SEQUENCE_OUTPUT;
    if (is_external &&
        !add_external(&external, sq,
                      &(md_sq_external){.tensor = sq->n_tensors, .is_written = t->role == MD_SEQUENCE_OUTPUT}))
        return md_fail_memory();
    sq->memory[sq->n_memories] = (md_sq_memory){.role = t->role,
                                                .data = t->role == MD_SEQUENCE_CONSTANT ? t->data : NULL,
                                                .tensor = sq->n_tensors,
                                                .external = external,
                                                .first = -1,
                                                .last = -1,
                                                .place = sq->n_memories};
    *number = sq->n_memories++;
    return MD_OK;
}

static md_status name_tensor(md_sq_tensor *out, const char *name)
{
    out->name = name ? strdup(name) : NULL;
    return name && !out->name ? md_fail_memory() : MD_OK;
}

md_status md_sq_add_tensor(int32_t *id, md_sq *sq, const md_sequence_tensor *t)
{
    md_sq_tensor tensor = {.base = t->view_of - 1, .external = -1, .dtype = t->dtype};
    MD_TRY(refuse_finished(sq));
    MD_TRY(check_tensor(sq, t));
    MD_TRY(parse_tensor(&tensor, sq, t));
    if (!md_grow(&sq->tensor, (size_t)sq->n_tensors, sizeof *sq->tensor))
        return md_fail_memory();
    if (tensor.dtype == MD_DTYPE_DEFAULT)
        tensor.dtype = tensor.base >= 0 ? sq->tensor[tensor.base].dtype : MD_F32;
    MD_TRY(name_tensor(&tensor, t->name));
    tensor.memory = tensor.base >= 0 ? sq->tensor[tensor.base].memory : 0;
    const md_status s = tensor.base >= 0 ? MD_OK : add_memory(&tensor.memory, sq, t);
    if (s != MD_OK) {
        free(tensor.name);
        return s;
    }
    sq->tensor[sq->n_tensors++] = tensor;
    *id = sq->n_tensors;
    return MD_OK;
}

md_status md_sq_add_scalar(int32_t *id, md_sq *sq, const char *name, md_dtype dtype)
{
    md_sq_tensor tensor = {.is_scalar = true, .base = -1, .memory = -1, .dtype = dtype, .offset = -1, .stride = {-1}};
    MD_TRY(refuse_finished(sq));
    if (dtype != MD_F64 && dtype != MD_I64)
        return md_fail(MD_INVALID_ARGUMENT, "scalar '%s' is neither f64 nor i64", name ? name : "");
    if (!md_grow(&sq->tensor, (size_t)sq->n_tensors, sizeof *sq->tensor))
        return md_fail_memory();
    MD_TRY(name_tensor(&tensor, name));
    if (!add_external(&tensor.external, sq,
                      &(md_sq_external){.is_scalar = true, .is_real = dtype == MD_F64, .tensor = sq->n_tensors})) {
        free(tensor.name);
        return md_fail_memory();
    }
    sq->tensor[sq->n_tensors++] = tensor;
    *id = sq->n_tensors;
    return MD_OK;
}

/* ---- Calls */

static md_status check_argument(const md_sq *sq, const md_ds_op *op, int32_t i, const md_sequence_arg *arg)
{
    const md_fx_formula *f = op->formula;
    const int32_t id = f->args[i].id;
    const char *name = f->args[i].is_scalar ? f->scalar[id].name : f->tensor[id].name;
    const md_sq_tensor *t = arg->id ? &sq->tensor[arg->id - 1] : NULL;
    const bool is_scalar = !t || t->is_scalar;
    if (is_scalar != f->args[i].is_scalar)
        return md_fail(MD_INVALID_ARGUMENT, "call %d (%s): argument %d '%s' must be a %s", (int)sq->n_steps, op->name,
                       (int)i, name, f->args[i].is_scalar ? "scalar" : "tensor");
    if (is_scalar) {
        const bool is_real = t ? t->dtype == MD_F64 : !arg->integer;
        if (t && f->scalar[id].is_size)
            return md_fail(
                MD_INVALID_ARGUMENT,
                "call %d (%s): argument %d '%s' is a size: it must be an expression over the sequence's dims",
                (int)sq->n_steps, op->name, (int)i, name);
        if (is_real && f->scalar[id].type == MD_I64)
            return md_fail(MD_INVALID_ARGUMENT, "call %d (%s): argument %d '%s' must be a whole number",
                           (int)sq->n_steps, op->name, (int)i, name);
        return MD_OK;
    }
    const md_fx_tensor *x = &f->tensor[id];
    if (x->dtype != t->dtype || x->rank != t->rank)
        return md_fail(MD_INVALID_ARGUMENT, "call %d (%s): argument %d '%s' must be %s of rank %d, not %s of rank %d",
                       (int)sq->n_steps, op->name, (int)i, name, md_dtype_name(x->dtype), (int)x->rank,
                       md_dtype_name(t->dtype), (int)t->rank);
    if (x->role == MD_FX_OUTPUT && sq->memory[t->memory].role == MD_SEQUENCE_INPUT)
        return md_fail(MD_INVALID_ARGUMENT, "call %d (%s): output '%s' would be written to an input of the sequence",
                       (int)sq->n_steps, op->name, name);
    return MD_OK;
}

static md_status take_argument(md_sq_arg *out, md_sq *sq, const md_sequence_arg *arg)
{
    int32_t n;
    if (arg->id) {
        *out = (md_sq_arg){.kind = sq->tensor[arg->id - 1].is_scalar ? MD_SQ_EXTERNAL : MD_SQ_TENSOR,
                           .tensor = arg->id - 1};
        return MD_OK;
    }
    *out = (md_sq_arg){.kind = arg->integer ? MD_SQ_INTEGER : MD_SQ_REAL, .real = arg->real};
    if (!arg->integer)
        return MD_OK;
    MD_TRY(md_sq_values_parse(&out->value, &n, 1, sq->values, arg->integer, "a scalar"));
    return n == 1 ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "a scalar's expression is empty");
}

static md_status check_id(const md_sq *sq, int32_t i, int32_t id)
{
    if (id < 0 || id > sq->n_tensors)
        return md_fail(MD_INVALID_ARGUMENT, "call %d: argument %d: there is no tensor or scalar %d", (int)sq->n_steps,
                       (int)i, (int)id);
    return MD_OK;
}

/* Room for a step of n arguments, which counts only once it is complete. */
static md_status new_step(md_sq *sq, const md_sq_step *like)
{
    if (!md_grow(&sq->step, (size_t)sq->n_steps, sizeof *sq->step))
        return md_fail_memory();
    md_sq_step *s = &sq->step[sq->n_steps];
    *s = *like;
    s->arg = calloc((size_t)like->n_args + 1, sizeof *s->arg);
    return s->arg ? MD_OK : md_fail_memory();
}

md_status md_sq_add_call(md_sq *sq, md_ds_op *op, const md_sequence_arg *args, int32_t n_args)
{
    md_status s = MD_OK;
    MD_TRY(refuse_finished(sq));
    if (n_args != op->formula->n_args || !args)
        return md_fail(MD_INVALID_ARGUMENT, "call %d (%s): the op takes %d arguments, not %d", (int)sq->n_steps,
                       op->name, (int)op->formula->n_args, (int)n_args);
    for (int32_t i = 0; i < n_args; i++) {
        MD_TRY(check_id(sq, i, args[i].id));
        MD_TRY(check_argument(sq, op, i, &args[i]));
    }
    MD_TRY(new_step(sq, &(md_sq_step){.op = op, .n_args = n_args}));
    md_sq_step *step = &sq->step[sq->n_steps];
    for (int32_t i = 0; i < n_args && s == MD_OK; i++)
        s = take_argument(&step->arg[i], sq, &args[i]);
    if (s != MD_OK) {
        free(step->arg);
        return s;
    }
    sq->n_steps++;
    sq->count.n_calls++;
    return MD_OK;
}

md_status md_sq_add_callback(md_sq *sq, md_sequence_fn fn, void *user, const int32_t *ids, int32_t n_ids)
{
    MD_TRY(refuse_finished(sq));
    for (int32_t i = 0; i < n_ids; i++) {
        MD_TRY(check_id(sq, i, ids[i]));
        if (!ids[i] || sq->tensor[ids[i] - 1].is_scalar)
            return md_fail(MD_INVALID_ARGUMENT, "call %d (a callback): argument %d is no tensor", (int)sq->n_steps,
                           (int)i);
    }
    MD_TRY(new_step(sq, &(md_sq_step){.fn = fn, .user = user, .n_args = n_ids}));
    for (int32_t i = 0; i < n_ids; i++)
        sq->step[sq->n_steps].arg[i] = (md_sq_arg){.kind = MD_SQ_TENSOR, .tensor = ids[i] - 1};
    sq->n_steps++;
    return MD_OK;
}
