/* Makes the weights, the ops and the sequence of a package's plan. */
#include "base/dtype.h"
#include "base/status.h"
#include "package/package.h"

#include <stdio.h>
#include <stdlib.h>

enum { ARGS = 64 };

static md_status wrong(const char *what, size_t number)
{
    return md_fail(MD_CORRUPT, "the plan of a package: %s %zu", what, number);
}

/* ---- Weights */

static md_status copy_weight(md_package *p, int32_t i, const md_pk_weights *weights)
{
    const void *bytes = NULL;
    size_t n = 0;
    MD_TRY(weights->begin(weights->user, i, &bytes, &n));
    md_status status = md_alloc(&p->weight[i], p->context, n ? n : 1);
    if (status == MD_OK) {
        p->n_weights = i + 1;
        status = n ? md_copy(p->context, p->weight[i], bytes, n) : MD_OK;
    }
    weights->end(weights->user);
    return status;
}

static md_status make_weights(md_package *p, const md_pk_weights *weights)
{
    const size_t n = json_array_size(json_object_get(p->plan, "weights"));
    p->weight = n <= INT32_MAX ? calloc(n + 1, sizeof *p->weight) : NULL;
    if (!p->weight)
        return md_fail_memory();
    for (size_t i = 0; i < n; i++)
        MD_TRY(copy_weight(p, (int32_t)i, weights));
    return MD_OK;
}

/* The bytes that weight number i has to have, by the plan. */
static json_int_t weight_bytes(const md_package *p, json_int_t i)
{
    return json_integer_value(json_array_get(json_object_get(p->plan, "weights"), (size_t)i));
}

/* ---- Tensors */

/* The values of a text of numbers; MD_CORRUPT without a message: they are no numbers, or negative. */
static md_status read_numbers(int64_t value[MD_MAX_RANK], int32_t *n, const char *text)
{
    const md_fx_names none = {0, NULL, "no number"};
    md_fx_whole *whole[MD_MAX_RANK] = {NULL};
    md_status status = md_fx_whole_parse(whole, MD_MAX_RANK, n, text, "a size", &none);
    for (int32_t a = 0; a < MD_MAX_RANK; a++) {
        if (status == MD_OK && a < *n && (!md_fx_whole_eval(&value[a], whole[a], NULL) || value[a] < 0))
            status = MD_CORRUPT;
        free(whole[a]);
    }
    return status;
}

/* How many bytes a constant with these texts of numbers reaches; -1: none can be said. */
static md_status constant_bytes(int64_t *out, const md_sequence_tensor *t)
{
    md_tensor shape = {.dtype = t->dtype};
    int64_t dense = 1, n = 0;
    int32_t n_strides = 0;
    *out = -1;
    MD_TRY(read_numbers(shape.size, &shape.rank, t->size));
    MD_TRY(read_numbers(shape.stride, &n_strides, t->stride));
    if (n_strides != 0 && n_strides != shape.rank)
        return MD_CORRUPT;
    for (int32_t a = shape.rank - 1; a >= 0 && n_strides == 0; a--) {
        shape.stride[a] = dense;
        if (__builtin_mul_overflow(dense, shape.size[a] > 0 ? shape.size[a] : 1, &dense))
            return MD_CORRUPT;
    }
    const int64_t width = md_dtype_bits(t->dtype) / 8;
    if (md_pk_reach(&n, &shape) && width > 0 && n <= INT64_MAX / width)
        *out = n * width;
    return MD_OK;
}

static md_status find_weight(md_sequence_tensor *t, const md_package *p, const json_t *tensor, size_t i)
{
    const json_int_t weight = md_json_integer_at(tensor, "weight");
    int64_t need = -1;
    if (!json_is_integer(json_object_get(tensor, "weight")) || weight < 0 || weight >= p->n_weights)
        return wrong("no weight for tensor", i);
    if (constant_bytes(&need, t) == MD_OUT_OF_MEMORY)
        return MD_OUT_OF_MEMORY;
    if (need < 0 || need > weight_bytes(p, weight))
        return wrong("a weight that is too short for tensor", i);
    t->data = p->weight[weight];
    return MD_OK;
}

static md_status add_tensor(md_package *p, const json_t *tensor, size_t i)
{
    const char *stride = md_json_text_at(tensor, "stride"), *offset = md_json_text_at(tensor, "offset");
    const long long base = md_json_integer_at(tensor, "base"), role = md_json_integer_at(tensor, "role");
    md_sequence_tensor t = {.name = md_json_text_at(tensor, "name"),
                            .dtype = md_dtype_parse(md_json_text_at(tensor, "dtype")),
                            .size = md_json_text_at(tensor, "size"),
                            .stride = *stride ? stride : NULL,
                            .offset = *offset ? offset : NULL};
    int32_t id = 0;
    if (t.dtype == MD_DTYPE_DEFAULT || base < 0 || base > (long long)i || role < 0 || role > MD_SEQUENCE_CONSTANT)
        return wrong("no dtype, base or role for tensor", i);
    t.view_of = (int32_t)base;
    t.role = base ? MD_SEQUENCE_TEMPORARY : (md_sequence_role)role;
    if (!base && role == MD_SEQUENCE_CONSTANT)
        MD_TRY(find_weight(&t, p, tensor, i));
    MD_TRY(md_sequence_add_tensor(&id, p->sequence, &t));
    return id == (int32_t)i + 1 ? MD_OK : md_fail(MD_INTERNAL, "tensors of a sequence are not numbered in order");
}

/* ---- Calls */

static md_status add_op(md_op **out, md_package *p, const json_t *call, size_t i)
{
    const char *sizes = md_json_text_at(call, "sizes"), *name = md_json_text_at(call, "name");
    const md_op_options options = {.sizes = *sizes ? sizes : NULL,
                                   .name = *name ? name : NULL,
                                   .select = (md_select)md_json_integer_at(p->plan, "select"),
                                   .numeric = (md_numeric)md_json_integer_at(p->plan, "numeric")};
    const md_status status = md_op_create(out, p->context, md_json_text_at(call, "formula"), &options);
    if (status != MD_OK)
        return md_fail_more(status, " (call %zu of a package)", i);
    p->op[p->n_ops++] = *out;
    return MD_OK;
}

static md_status add_call(md_package *p, const json_t *call, size_t i)
{
    const json_t *args = json_object_get(call, "args");
    const size_t n = json_array_size(args);
    md_sequence_arg arg[ARGS] = {{0}};
    md_op *op = NULL;
    if (n > ARGS)
        return wrong("too many arguments of call", i);
    for (size_t a = 0; a < n; a++) {
        const json_t *one = json_array_get(args, a);
        arg[a].integer = json_string_value(one);
        const json_int_t id = json_integer_value(one);
        if (!arg[a].integer && (id < 1 || id > INT32_MAX))
            return wrong("an argument that is no tensor and no text, of call", i);
        arg[a].id = arg[a].integer ? 0 : (int32_t)id;
    }
    MD_TRY(add_op(&op, p, call, i));
    return md_sequence_add_call(p->sequence, op, arg, (int32_t)n);
}

static md_status make_sequence(md_package *p)
{
    const char *name = md_json_text_at(p->plan, "name");
    const md_sequence_options options = {.name = *name ? name : "package"};
    char dim[16];
    MD_TRY(md_sequence_create(&p->sequence, p->context, &options));
    for (int32_t d = 0; d < p->n_dims; d++) {
        snprintf(dim, sizeof dim, "d%d", (int)d);
        MD_TRY(md_sequence_add_dim(NULL, p->sequence, dim, 0, 0));
    }
    const json_t *tensors = json_object_get(p->plan, "tensors"), *calls = json_object_get(p->plan, "calls");
    for (size_t i = 0; i < json_array_size(tensors); i++)
        MD_TRY(add_tensor(p, json_array_get(tensors, i), i));
    p->op = calloc(json_array_size(calls) + 1, sizeof(md_op *));
    if (!p->op)
        return md_fail_memory();
    for (size_t i = 0; i < json_array_size(calls); i++)
        MD_TRY(add_call(p, json_array_get(calls, i), i));
    return md_sequence_finish(p->sequence);
}

md_status md_pk_build(md_package *p, const md_pk_weights *weights)
{
    MD_TRY(make_weights(p, weights));
    return make_sequence(p);
}
