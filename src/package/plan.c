/* Reads the plan of a package: JSON that a file holds, so nothing of it is taken on trust. */
#include "base/status.h"
#include "package/package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static md_status wrong(const char *what)
{
    return md_fail(MD_CORRUPT, "the plan of a package: %s", what);
}

/* ---- Versions, and steps of others */

static md_status check_version(const json_t *plan)
{
    const char *made_by = md_json_text_at(plan, "library");
    if (md_json_integer_at(plan, "version") != MD_PK_VERSION)
        return md_fail(MD_UNSUPPORTED, "the plan of a package is of version %lld of the format; this library reads %d",
                       md_json_integer_at(plan, "version"), (int)MD_PK_VERSION);
    if (strcmp(made_by, md_version()) != 0)
        return md_fail(MD_UNSUPPORTED, "the package was made by version %.32s, this is %s: make it anew", made_by,
                       md_version());
    return MD_OK;
}

static md_status check_steps(const json_t *plan)
{
    const json_t *others = json_object_get(plan, "pytorch");
    md_strbuf names = {0};
    if (json_array_size(others) == 0)
        return MD_OK;
    for (size_t i = 0; i < json_array_size(others); i++) {
        const char *name = json_string_value(json_array_get(others, i));
        md_strbuf_printf(&names, "%s%s", i ? ", " : "", name ? name : "?");
    }
    const md_status status =
        md_fail(MD_UNSUPPORTED, "the package has steps that only PyTorch can run: %s", md_strbuf_text(&names));
    md_strbuf_finish(&names);
    return status;
}

/* ---- Ports */

static md_status parse(md_fx_whole **out, int32_t *n, const char *text, const md_fx_names *dims)
{
    *n = 0;
    const md_status status = md_fx_whole_parse(out, MD_MAX_RANK, n, text, "a size", dims);
    return status == MD_INVALID_ARGUMENT ? wrong(md_last_error()) : status;
}

static md_status read_shape(md_pk_shape *out, const json_t *tensor, const char *sizes, const char *strides,
                            const md_fx_names *dims)
{
    const char *stride = md_json_text_at(tensor, strides);
    int32_t n = 0;
    MD_TRY(parse(out->size, &out->rank, md_json_text_at(tensor, sizes), dims));
    if (!*stride)
        return MD_OK;
    MD_TRY(parse(out->stride, &n, stride, dims));
    return n == out->rank ? MD_OK : wrong("a tensor has another number of strides than of sizes");
}

static md_status read_port(md_pk_port *out, const json_t *tensor, int32_t place, const md_fx_names *dims)
{
    out->name = md_json_text_at(tensor, "name");
    out->dtype = md_dtype_parse(md_json_text_at(tensor, "dtype"));
    out->place = place;
    if (out->dtype == MD_DTYPE_DEFAULT)
        return wrong("a tensor has no dtype");
    MD_TRY(read_shape(&out->memory, tensor, "size", "stride", dims));
    const bool is_seen_so = !json_object_get(tensor, "seen_size");
    return read_shape(&out->shape, tensor, is_seen_so ? "size" : "seen_size", is_seen_so ? "stride" : "seen_stride",
                      dims);
}

/* Inputs and outputs, in the order of the plan's tensors: that is their order in a run. */
static md_status read_ports(md_package *p, const md_fx_names *dims)
{
    const json_t *tensors = json_object_get(p->plan, "tensors");
    const size_t n = json_array_size(tensors);
    p->input = calloc(n + 1, sizeof *p->input);
    p->output = calloc(n + 1, sizeof *p->output);
    if (!p->input || !p->output)
        return md_fail_memory();
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(tensors, i);
        const long long role = md_json_integer_at(t, "role");
        if (!json_is_object(t))
            return wrong("a tensor is no object");
        if (md_json_integer_at(t, "base") != 0 || (role != MD_SEQUENCE_INPUT && role != MD_SEQUENCE_OUTPUT))
            continue;
        md_pk_port *port = role == MD_SEQUENCE_INPUT ? &p->input[p->n_inputs++] : &p->output[p->n_outputs++];
        MD_TRY(read_port(port, t, p->n_inputs + p->n_outputs - 1, dims));
    }
    return MD_OK;
}

/* ---- Dims and conditions */

/* *out in [0, n) at the place of a list. */
static bool read_index(int32_t *out, const json_t *list, size_t at, int32_t n)
{
    const json_t *number = json_array_get(list, at);
    const json_int_t value = json_integer_value(number);
    *out = (int32_t)value;
    return json_is_integer(number) && value >= 0 && value < n;
}

static md_status read_dims(md_package *p)
{
    const json_t *dims = json_object_get(p->plan, "dims");
    for (int32_t d = 0; d < p->n_dims; d++) {
        const json_t *one = json_array_get(dims, (size_t)d);
        md_pk_dim *dim = &p->dim[d];
        if (!read_index(&dim->input, one, 0, p->n_inputs) ||
            !read_index(&dim->axis, one, 1, p->input[dim->input].shape.rank))
            return wrong("a dim is no axis of an input");
    }
    return MD_OK;
}

static md_status read_conditions(md_package *p, const md_fx_names *dims)
{
    const json_t *list = json_object_get(p->plan, "conditions");
    const size_t n = json_array_size(list);
    p->condition = calloc(n + 1, sizeof *p->condition);
    if (!p->condition)
        return md_fail_memory();
    for (size_t i = 0; i < n; i++) {
        md_pk_condition *c = &p->condition[i];
        int32_t got = 0;
        c->text = json_string_value(json_array_get(list, i));
        if (!c->text)
            return wrong("a condition is no text");
        const md_status status = md_fx_whole_parse(&c->whole, 1, &got, c->text, "a condition", dims);
        p->n_conditions += got;
        if (status == MD_OUT_OF_MEMORY)
            return status;
        if (got != 1)
            return wrong("a condition is no expression");
    }
    return MD_OK;
}

/* ---- All of it */

static md_status read_all(md_package *p)
{
    char text[MD_PK_DIMS][8];
    const char *name[MD_PK_DIMS];
    const size_t n = json_array_size(json_object_get(p->plan, "dims"));
    MD_TRY(check_version(p->plan));
    MD_TRY(check_steps(p->plan));
    if (n > MD_PK_DIMS)
        return wrong("too many dims");
    for (size_t d = 0; d < n; d++) {
        snprintf(text[d], sizeof text[d], "d%zu", d);
        name[d] = text[d];
    }
    const md_fx_names dims = {(int32_t)n, name, "no dim"};
    p->n_dims = (int32_t)n;
    p->dim = calloc(n + 1, sizeof *p->dim);
    if (!p->dim)
        return md_fail_memory();
    MD_TRY(read_ports(p, &dims));
    MD_TRY(read_dims(p));
    return read_conditions(p, &dims);
}

md_status md_pk_read(md_package *p, const char *text)
{
    json_error_t error;
    p->plan = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(p->plan))
        return md_fail(MD_CORRUPT, "the plan of a package is no object of JSON: line %d: %.100s", error.line,
                       error.text);
    return read_all(p);
}

static void free_shape(md_pk_shape *shape)
{
    for (int32_t a = 0; a < MD_MAX_RANK; a++) {
        free(shape->size[a]);
        free(shape->stride[a]);
    }
}

static void free_ports(md_pk_port *port, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        free_shape(&port[i].shape);
        free_shape(&port[i].memory);
    }
    free(port);
}

void md_pk_finish(md_package *p)
{
    md_sequence_destroy(&p->sequence);
    for (int32_t i = 0; i < p->n_ops; i++)
        md_op_destroy(&p->op[i]);
    free(p->op);
    for (int32_t i = 0; i < p->n_weights; i++)
        md_free(p->context, p->weight[i]);
    free(p->weight);
    md_context_destroy(&p->context);
    free_ports(p->input, p->input ? p->n_inputs : 0);
    free_ports(p->output, p->output ? p->n_outputs : 0);
    for (int32_t i = 0; i < p->n_conditions; i++)
        free(p->condition[i].whole);
    free(p->condition);
    free(p->dim);
    json_decref(p->plan);
    *p = (md_package){0};
}
