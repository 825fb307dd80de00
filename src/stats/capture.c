/* Lists the kernels of a captured graph with the ops, variants and shapes they belong to. */
#include "stats/report.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

typedef struct row {
    char op[64], shape[160], variant[MD_FA_NAME], kernel[MD_KN_ENTRY];
    int32_t stage, launch;
    int64_t n;
} row;

typedef struct listing {
    md_ds_runtime *runtime; /* the caller holds its lock of ops */
    row *rows;
    int64_t n, n_others;
    bool failed; /* memory was short */
} listing;

/* Sizes of dynamic dims, as far as the kernel's parameters hold them. */
static void read_shape(char *out, size_t n_bytes, const md_fx_formula *f, const md_bd_variant *v, int32_t launch,
                       const md_kn_word *params)
{
    size_t used = 0;
    out[0] = 0;
    for (int32_t d = 0; d < f->n_dims && used < n_bytes; d++) {
        int64_t size = -1;
        for (int32_t i = 0; f->dim[d].size < 0 && params && i < v->n_params[launch]; i++) {
            const md_kn_param *param = &v->param[launch][i];
            bool is_extent = param->kind == MD_KN_EXTENT && f->tensor[param->a].dim[param->b] == d &&
                             !f->tensor[param->a].at_least[param->b];
            if (is_extent || (param->kind == MD_KN_SIZE && param->a == d))
                size = params[i].i;
        }
        if (size >= 0)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%s=%lld", used ? " " : "", f->dim[d].name,
                                     (long long)size);
    }
}

static bool is_same(const row *a, const row *b)
{
    return a->stage == b->stage && a->launch == b->launch && !strcmp(a->op, b->op) && !strcmp(a->shape, b->shape) &&
           !strcmp(a->variant, b->variant);
}

static void add_row(listing *l, const row *r)
{
    for (int64_t i = 0; i < l->n; i++)
        if (is_same(&l->rows[i], r)) {
            l->rows[i].n++;
            return;
        }
    if (md_grow(&l->rows, (size_t)l->n, sizeof *l->rows))
        l->rows[l->n++] = *r;
    else
        l->failed = true;
}

static bool find_in(row *out, const md_ds_op *op, const void *handle, const md_kn_word *params)
{
    const md_dev *dev = op->runtime->dev;
    for (int32_t s = 0; s < op->n_stages; s++) {
        int32_t n = atomic_load_explicit(&op->stage[s].n_variants, memory_order_acquire);
        for (int32_t i = 0; i < n; i++) {
            const md_bd_variant *v = op->stage[s].variant[i];
            bool is_ready = atomic_load_explicit(&v->state, memory_order_acquire) == MD_BD_READY;
            for (int32_t k = 0; is_ready && k < v->n_launches; k++) {
                if (v->is_function[k] || dev->ops->kernel_handle(v->kernel[k]) != handle)
                    continue;
                *out = (row){.stage = s, .launch = k, .n = 1};
                snprintf(out->op, sizeof out->op, "%s", op->name);
                snprintf(out->variant, sizeof out->variant, "%s", v->name);
                snprintf(out->kernel, sizeof out->kernel, "%s", v->kernel_name[k]);
                read_shape(out->shape, sizeof out->shape, op->formula, v, k, params);
                return true;
            }
        }
    }
    return false;
}

static void take_kernel(void *user, const void *handle, const md_kn_word *params)
{
    listing *l = user;
    row r;
    for (const md_ds_op *op = l->runtime->ops; handle && op; op = op->next)
        if (op->is_made && find_in(&r, op, handle, params)) {
            add_row(l, &r);
            return;
        }
    l->n_others++;
}

static json_t *report(const listing *l)
{
    json_t *kernels = json_array();
    for (int64_t i = 0; i < l->n; i++) {
        const row *r = &l->rows[i];
        kernels =
            md_json_add(kernels, json_pack("{s:o, s:i, s:i, s:s, s:o, s:I, s:s}", "op", md_json_text(r->op), "stage",
                                           (int)r->stage, "launch", (int)r->launch, "variant", r->variant, "shape",
                                           md_json_text(r->shape), "times", (json_int_t)r->n, "kernel", r->kernel));
    }
    return json_pack("{s:o, s:I}", "kernels", kernels, "others", (json_int_t)l->n_others);
}

static void print_table(md_strbuf *out, const json_t *report)
{
    const json_t *kernels = json_object_get(report, "kernels");
    md_strbuf_printf(out, "%-24s %5s %6s  %-56s %-28s %5s  %s\n", "op", "stage", "launch", "variant", "shape", "times",
                     "kernel");
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *r = json_array_get(kernels, i);
        md_strbuf_printf(out, "%-24s %5lld %6lld  %-56s %-28s %5lld  %s\n", md_json_text_at(r, "op"),
                         md_json_integer_at(r, "stage"), md_json_integer_at(r, "launch"), md_json_text_at(r, "variant"),
                         md_json_text_at(r, "shape"), md_json_integer_at(r, "times"), md_json_text_at(r, "kernel"));
    }
    if (md_json_integer_at(report, "others"))
        md_strbuf_printf(out, "other kernels: %lld\n", md_json_integer_at(report, "others"));
}

md_status md_ss_capture(md_strbuf *out, md_ds_runtime *runtime, md_stream stream, void *graph, bool json)
{
    listing l = {.runtime = runtime};
    const md_dev_ops *ops = runtime->dev->ops;
    if (!ops->graph_kernels)
        return md_fail(MD_UNSUPPORTED, "device '%s' has no graphs", ops->name);
    pthread_mutex_lock(&runtime->lock_of_ops);
    md_status s = ops->graph_kernels(runtime->dev, stream, graph, take_kernel, &l);
    pthread_mutex_unlock(&runtime->lock_of_ops);
    if (s == MD_OK && l.failed)
        s = md_fail_memory();
    if (s == MD_OK)
        s = md_json_report(out, report(&l), json, print_table);
    free(l.rows);
    return s;
}
