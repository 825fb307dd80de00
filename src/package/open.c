/* Opens packages, and writes them. */
#include "api/context.h"
#include "base/status.h"
#include "package/package.h"
#include "store/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A context of the plan's device, with what serves its ops the same picks everywhere. */
static md_status make_context(md_package *p, const md_context_options *given, const char *bundle)
{
    const char *device = md_json_text_at(p->plan, "device"), *hints = md_json_text_at(p->plan, "hints");
    md_context_options o = given ? *given : (md_context_options){0};
    o.device = *device ? device : "host";
    o.hints = *hints ? hints : o.hints;
    o.bundle = bundle;
    o.bundle_compile = 0;
    o.bundle_bytes = NULL;
    return md_context_create(&p->context, &o);
}

/* ---- Opening */

typedef struct stored_weights {
    const md_sr_bundle *bundle;
    const md_package *package;
    void *bytes;
} stored_weights;

static md_status begin_stored(void *user, int32_t i, const void **bytes, size_t *n)
{
    stored_weights *w = user;
    const json_t *wanted = json_array_get(json_object_get(w->package->plan, "weights"), (size_t)i);
    char key[16];
    snprintf(key, sizeof key, "%d", (int)i);
    md_status status = md_sr_bundle_find(&w->bytes, n, w->bundle, MD_PK_WEIGHT, key);
    if (status == MD_NOT_FOUND)
        status = md_fail(MD_CORRUPT, "the package lacks weight %d", (int)i);
    if (status == MD_OK && json_integer_value(wanted) != (json_int_t)*n) {
        free(w->bytes);
        w->bytes = NULL;
        status = md_fail(MD_CORRUPT, "weight %d of the package is not as long as its plan says", (int)i);
    }
    *bytes = w->bytes;
    return status;
}

static void end_stored(void *user)
{
    stored_weights *w = user;
    free(w->bytes);
    w->bytes = NULL;
}

static md_status open_from(md_package *p, const md_sr_bundle *bundle, const char *path,
                           const md_context_options *options)
{
    void *text = NULL;
    size_t n = 0;
    const md_status found = md_sr_bundle_find(&text, &n, bundle, MD_PK_PLAN, MD_PK_PLAN);
    if (found == MD_NOT_FOUND)
        return md_fail(MD_IO, "'%.700s' is a bundle of kernels, and no package", path);
    MD_TRY(found);
    const md_status status = strlen(text) == n ? md_pk_read(p, text) : md_fail(MD_CORRUPT, "the plan has a zero byte");
    free(text);
    MD_TRY(status);
    stored_weights weights = {bundle, p, NULL};
    MD_TRY(make_context(p, options, path));
    return md_pk_build(p, &(md_pk_weights){begin_stored, end_stored, &weights});
}

md_status md_package_open(md_package **out, const char *path, const md_context_options *options)
{
    md_sr_bundle *bundle = NULL;
    if (!out || !path)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "path" : "out");
    MD_TRY(md_sr_bundle_open(&bundle, path));
    md_package *p = calloc(1, sizeof *p);
    const md_status status = p ? open_from(p, bundle, path, options) : md_fail_memory();
    md_sr_bundle_close(&bundle);
    if (status == MD_OK)
        *out = p;
    else
        md_package_close(&p);
    return status;
}

void md_package_close(md_package **package)
{
    md_package *p = package ? *package : NULL;
    if (!p)
        return;
    md_pk_finish(p);
    free(p);
    *package = NULL;
}

/* ---- Writing */

typedef struct given_weights {
    const md_package_weight *weight;
} given_weights;

static md_status begin_given(void *user, int32_t i, const void **bytes, size_t *n)
{
    const given_weights *w = user;
    *bytes = w->weight[i].data;
    *n = (size_t)w->weight[i].n_bytes;
    return MD_OK;
}

static void end_given(void *user)
{
    (void)user;
}

/* Sizes of an example: as many as there are dims. */
static md_status read_example(int64_t *size, const md_package *p, const json_t *example)
{
    if (json_array_size(example) != (size_t)p->n_dims)
        return md_fail(MD_CORRUPT, "the plan of a package: an example has another number of sizes than of dims");
    for (int32_t d = 0; d < p->n_dims; d++)
        size[d] = json_integer_value(json_array_get(example, (size_t)d));
    return MD_OK;
}

static md_status give_memory(void **out, const md_package *p, const md_pk_port *port, const int64_t *size)
{
    md_tensor t;
    int64_t n = 0;
    MD_TRY(md_pk_see(&t, port, size));
    (void)md_pk_reach(&n, &t); /* which md_pk_see has asked for */
    return md_alloc(out, p->context, ((size_t)n + 1) * md_dtype_size(t.dtype));
}

/* Makes the kernels that serve these sizes. */
static md_status prepare(md_package *p, const json_t *example)
{
    int64_t size[MD_PK_DIMS];
    const int32_t n = p->n_inputs + p->n_outputs;
    MD_TRY(read_example(size, p, example));
    void **data = calloc((size_t)n + 1, sizeof *data);
    md_status status = data ? MD_OK : md_fail_memory();
    for (int32_t i = 0; i < n && status == MD_OK; i++) {
        const md_pk_port *port = i < p->n_inputs ? &p->input[i] : &p->output[i - p->n_inputs];
        status = give_memory(&data[port->place], p, port, size);
    }
    if (status == MD_OK)
        status = md_sequence_prepare(p->sequence, size, p->n_dims, data, n);
    for (int32_t i = 0; data && i < n; i++)
        md_free(p->context, data[i]);
    free(data);
    return status;
}

static md_status make_kernels(md_package *p)
{
    const json_t *examples = json_object_get(p->plan, "examples");
    for (size_t i = 0; i < json_array_size(examples); i++)
        MD_TRY(prepare(p, json_array_get(examples, i)));
    for (int32_t i = 0; i < p->n_ops; i++)
        MD_TRY(md_op_wait(p->op[i]));
    return MD_OK;
}

static md_status add_entries(md_package *p, const char *plan, const md_package_weight *weights, int32_t n)
{
    char key[16];
    MD_TRY(md_sr_bundle_set(p->context->maker, MD_PK_PLAN, MD_PK_PLAN, plan, strlen(plan)));
    for (int32_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%d", (int)i);
        MD_TRY(md_sr_bundle_lend(p->context->maker, MD_PK_WEIGHT, key, weights[i].data, (size_t)weights[i].n_bytes));
    }
    return MD_OK;
}

static md_status check_weights(const md_package *p, const md_package_weight *weights, int32_t n)
{
    const json_t *list = json_object_get(p->plan, "weights");
    bool is_right = json_array_size(list) == (size_t)n;
    for (int32_t i = 0; is_right && i < n; i++)
        is_right = weights[i].n_bytes >= 0 && (weights[i].data || weights[i].n_bytes == 0) &&
                   json_integer_value(json_array_get(list, (size_t)i)) == weights[i].n_bytes;
    return is_right ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "weights are not as many, or as long, as the plan says");
}

static md_status write_it(md_package *p, const char *path, const char *plan, const md_package_weight *weights,
                          int32_t n, const md_context_options *options)
{
    given_weights given = {weights};
    MD_TRY(md_pk_read(p, plan));
    MD_TRY(check_weights(p, weights, n));
    MD_TRY(make_context(p, options, NULL));
    MD_TRY(md_bundle_begin(p->context, MD_BUNDLE_ALL));
    MD_TRY(md_pk_build(p, &(md_pk_weights){begin_given, end_given, &given}));
    MD_TRY(make_kernels(p));
    MD_TRY(add_entries(p, plan, weights, n));
    return md_bundle_write(p->context, path);
}

md_status md_package_write(const char *path, const char *plan, const md_package_weight *weights, int32_t n_weights,
                           const md_context_options *options)
{
    if (!path || !plan || n_weights < 0 || (n_weights && !weights))
        return md_fail(MD_INVALID_ARGUMENT, "path, plan or weights is NULL");
    md_package *p = calloc(1, sizeof *p);
    const md_status status = p ? write_it(p, path, plan, weights, n_weights, options) : md_fail_memory();
    md_package_close(&p);
    return status;
}
