/* A call of a package: sizes from the inputs, checks, one run of the sequence. */
#include "base/status.h"
#include "package/package.h"

#include <stdlib.h>
#include <string.h>

/* ---- Shapes */

static md_status eval_shape(md_tensor *out, const md_pk_shape *shape, const md_pk_port *port, const int64_t *size)
{
    int64_t dense = 1;
    *out = (md_tensor){.dtype = port->dtype, .rank = shape->rank};
    for (int32_t a = shape->rank - 1; a >= 0; a--) {
        if (!md_fx_whole_eval(&out->size[a], shape->size[a], size))
            return md_fx_whole_fail(shape->size[a]);
        out->stride[a] = dense;
        if (shape->stride[a] && !md_fx_whole_eval(&out->stride[a], shape->stride[a], size))
            return md_fx_whole_fail(shape->stride[a]);
        if (out->size[a] < 0 || out->stride[a] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "'%s' has a negative size along axis %d", port->name, (int)a);
        if (__builtin_mul_overflow(dense, out->size[a] > 0 ? out->size[a] : 1, &dense))
            return md_fail(MD_INVALID_ARGUMENT, "'%s' has more elements than 63 bits count", port->name);
    }
    return MD_OK;
}

bool md_pk_reach(int64_t *out, const md_tensor *t)
{
    int64_t step;
    bool is_empty = false;
    *out = 1;
    for (int32_t a = 0; a < t->rank; a++) {
        is_empty |= t->size[a] == 0;
        if (t->size[a] > 0 &&
            (__builtin_mul_overflow(t->size[a] - 1, t->stride[a], &step) || __builtin_add_overflow(*out, step, out)))
            return false;
    }
    if (is_empty)
        *out = 0;
    return true;
}

md_status md_pk_see(md_tensor *out, const md_pk_port *port, const int64_t *size)
{
    md_tensor memory;
    int64_t seen, written;
    MD_TRY(eval_shape(out, &port->shape, port, size));
    MD_TRY(eval_shape(&memory, &port->memory, port, size));
    if (!md_pk_reach(&seen, out) || !md_pk_reach(&written, &memory) || written > seen)
        return md_fail(MD_CORRUPT, "'%s' has less memory than the plan writes", port->name);
    return MD_OK;
}

/* A stride of an axis of size 1 says nothing, nor do those of a tensor without elements. */
static md_status check_port(const md_tensor *given, const md_pk_port *port, const int64_t *size, const char *what,
                            int32_t i)
{
    md_tensor wanted;
    bool is_empty = false;
    int32_t strided = -1;
    if (given->dtype != port->dtype || given->rank != port->shape.rank)
        return md_fail(MD_INVALID_ARGUMENT, "%s %d has dtype %s and rank %d, not %s and %d", what, (int)i,
                       md_dtype_name(given->dtype), (int)given->rank, md_dtype_name(port->dtype),
                       (int)port->shape.rank);
    MD_TRY(md_pk_see(&wanted, port, size));
    for (int32_t a = 0; a < port->shape.rank; a++) {
        if (given->size[a] != wanted.size[a])
            return md_fail(MD_INVALID_ARGUMENT, "%s %d has size %lld along axis %d, not %lld", what, (int)i,
                           (long long)given->size[a], (int)a, (long long)wanted.size[a]);
        is_empty |= given->size[a] == 0;
        if (given->size[a] != 1 && given->stride[a] != wanted.stride[a])
            strided = a;
    }
    return is_empty || strided < 0
               ? MD_OK
               : md_fail(MD_INVALID_ARGUMENT, "%s %d has stride %lld along axis %d, not %lld", what, (int)i,
                         (long long)given->stride[strided], (int)strided, (long long)wanted.stride[strided]);
}

static md_status read_sizes(int64_t *size, const md_package *p, const md_tensor *inputs)
{
    for (int32_t d = 0; d < p->n_dims; d++) {
        const md_tensor *t = &inputs[p->dim[d].input];
        if (t->rank <= p->dim[d].axis)
            return md_fail(MD_INVALID_ARGUMENT, "input %d has rank %d, not %d", (int)p->dim[d].input, (int)t->rank,
                           (int)p->input[p->dim[d].input].shape.rank);
        size[d] = t->size[p->dim[d].axis];
    }
    for (int32_t i = 0; i < p->n_inputs; i++)
        MD_TRY(check_port(&inputs[i], &p->input[i], size, "input", i));
    for (int32_t i = 0; i < p->n_conditions; i++) {
        int64_t holds = 0;
        if (!md_fx_whole_eval(&holds, p->condition[i].whole, size) || !holds)
            return md_fail(MD_INVALID_ARGUMENT,
                           "the model was made for sizes with %.200s, where dN is dim N of the plan",
                           p->condition[i].text);
    }
    return MD_OK;
}

/* ---- The public functions */

/* Checks what is given for a call, and reads its sizes. */
static md_status begin(int64_t *size, const md_package *p, const md_tensor *inputs, const md_tensor *outputs)
{
    if (!p)
        return md_fail(MD_INVALID_ARGUMENT, "package is NULL");
    if (!inputs && p->n_inputs)
        return md_fail(MD_INVALID_ARGUMENT, "inputs is NULL");
    if (!outputs && p->n_outputs)
        return md_fail(MD_INVALID_ARGUMENT, "outputs is NULL");
    return read_sizes(size, p, inputs);
}

md_status md_package_outputs(md_tensor *outputs, md_package *p, const md_tensor *inputs)
{
    int64_t size[MD_PK_DIMS];
    MD_TRY(begin(size, p, inputs, outputs));
    for (int32_t i = 0; i < p->n_outputs; i++)
        MD_TRY(md_pk_see(&outputs[i], &p->output[i], size));
    return MD_OK;
}

/* What a run is given for a tensor without elements, whose address may be NULL. */
static const max_align_t nothing[16];

static void *address(const md_tensor *t)
{
    for (int32_t a = 0; a < t->rank; a++)
        if (t->size[a] == 0)
            return (void *)(uintptr_t)nothing;
    return t->data;
}

md_status md_package_call(md_package *p, md_stream stream, const md_tensor *inputs, const md_tensor *outputs)
{
    int64_t size[MD_PK_DIMS];
    MD_TRY(begin(size, p, inputs, outputs));
    for (int32_t i = 0; i < p->n_outputs; i++)
        MD_TRY(check_port(&outputs[i], &p->output[i], size, "output", i));
    const int32_t n = p->n_inputs + p->n_outputs;
    void **data = malloc(((size_t)n + 1) * sizeof *data);
    if (!data)
        return md_fail_memory();
    for (int32_t i = 0; i < p->n_inputs; i++)
        data[p->input[i].place] = address(&inputs[i]);
    for (int32_t i = 0; i < p->n_outputs; i++)
        data[p->output[i].place] = address(&outputs[i]);
    const md_status status = md_sequence_run(p->sequence, stream, size, p->n_dims, data, n);
    free(data);
    return status;
}

int32_t md_package_n_inputs(const md_package *p)
{
    return p ? p->n_inputs : 0;
}

int32_t md_package_n_outputs(const md_package *p)
{
    return p ? p->n_outputs : 0;
}

md_context *md_package_context(md_package *p)
{
    return p ? p->context : NULL;
}

md_status md_package_describe(md_package *p, md_write_fn write, void *user)
{
    if (!p || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", p ? "write" : "package");
    char *text = md_json_dump(p->plan, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return md_fail_memory();
    const int stopped = write(user, text, strlen(text));
    free(text);
    return stopped ? md_fail(MD_IO, "the text could not be written") : MD_OK;
}
