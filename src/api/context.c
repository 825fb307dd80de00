/* Makes and destroys a context: options and environment become the device, the store, the builder and the runtime.
 * Memory, copies and waiting on its device. */
#include "api/context.h"

#include "base/cpu.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "dispatch/cache/upgrade.h"
#include "device/open.h"
#include "dispatch/open.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_HINTS "1,16,64,256,1024,4096"
enum { DEFAULT_MAX_SHAPES = 16384 };

static md_status set_policy(md_context *c, const md_context_options *o)
{
    md_select select = o->select ? o->select : c->env.select;
    md_metric metric = o->metric ? o->metric : c->env.metric;
    md_persistent persistent = o->persistent ? o->persistent : c->env.persistent;
    md_numeric numeric = o->numeric ? o->numeric : c->env.numeric;
    if ((int)select < 0 || select > MD_SELECT_HYBRID)
        return md_fail(MD_INVALID_ARGUMENT, "option select: %d is no md_select", (int)select);
    if ((int)metric < 0 || metric > MD_METRIC_INDUCTOR)
        return md_fail(MD_INVALID_ARGUMENT, "option metric: %d is no md_metric", (int)metric);
    if ((int)persistent < 0 || persistent > MD_PERSISTENT_NEVER)
        return md_fail(MD_INVALID_ARGUMENT, "option persistent: %d is no md_persistent", (int)persistent);
    if ((int)numeric < 0 || numeric > MD_NUMERIC_BATCH_INVARIANT)
        return md_fail(MD_INVALID_ARGUMENT, "option numeric: %d is no md_numeric", (int)numeric);
    if ((int)o->tune < 0 || o->tune > MD_TUNE_EXHAUSTIVE)
        return md_fail(MD_INVALID_ARGUMENT, "option tune: %d is no md_tune", (int)o->tune);
    if (!(o->tune_budget_ms >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "option tune_budget_ms: %g is no time", o->tune_budget_ms);
    if (o->threads < 0)
        return md_fail(MD_INVALID_ARGUMENT, "option threads: %d; 0 (the default) to 1024 are possible",
                       (int)o->threads);
    if (o->packed_bytes < 0)
        return md_fail(MD_INVALID_ARGUMENT, "option packed_bytes: %lld; 0 (the default) or more are possible",
                       (long long)o->packed_bytes);
    if (o->max_shapes < 0)
        return md_fail(MD_INVALID_ARGUMENT, "option max_shapes: %lld; 0 (the default) or more are possible",
                       (long long)o->max_shapes);
    c->policy.select = select ? select : MD_SELECT_MODEL;
    c->policy.metric = metric ? metric : MD_METRIC_LOG2;
    c->policy.persistent = persistent ? persistent : MD_PERSISTENT_AUTO;
    c->policy.tune = o->tune ? o->tune : c->env.tune ? c->env.tune : MD_TUNE_ESTIMATE;
    c->policy.tune_budget_ms = o->tune_budget_ms > 0.0 ? o->tune_budget_ms : (double)c->env.tune_budget_ms;
    c->policy.tune_count = &c->tune_count;
    c->policy.axes = c->env.axes;
    c->policy.max_variants = c->env.max_variants;
    c->policy.idle_tune = c->env.idle_tune == MD_IDLE_TUNE_ON || (!select && !c->env.idle_tune);
    c->policy.races_cheaply = c->env.idle_tune != MD_IDLE_TUNE_ON;
    c->policy.agrees = o->agrees || c->env.agree;
    c->policy.numeric = numeric ? numeric : MD_NUMERIC_FAST;
    c->max_shapes = o->max_shapes > 0 ? o->max_shapes : c->env.max_shapes > 0 ? c->env.max_shapes : DEFAULT_MAX_SHAPES;
    return MD_OK;
}

static md_status copy_text(char **out, const char *text)
{
    *out = text ? strdup(text) : NULL;
    return text && !*out ? md_fail_memory() : MD_OK;
}

static md_status copy_texts(md_context *c, const md_context_options *o)
{
    c->hints_source = o->hints ? "option hints" : c->env.hints ? "MD_HINTS" : "default hints";
    MD_TRY(copy_text(&c->hints, o->hints ? o->hints : c->env.hints ? c->env.hints : DEFAULT_HINTS));
    MD_TRY(copy_text(&c->pin, o->pin ? o->pin : c->env.pin));
    return copy_text(&c->stats.path, c->env.stats);
}

static void set_log(md_context *c, const md_context_options *o)
{
    const md_log_level standard = o->log ? MD_LOG_INFO : MD_LOG_WARN;
    c->log = (md_log){o->log ? o->log : md_log_stderr, o->log_user, c->env.log ? c->env.log : standard, &c->said};
    if (c->env.log == MD_LOG_NONE)
        c->log.fn = NULL;
}

static int32_t count_threads(const md_context *c, const md_context_options *o)
{
    md_cpu cpu;
    if (o->threads > 0)
        return o->threads;
    if (c->env.threads > 0)
        return c->env.threads;
    md_cpu_detect(&cpu);
    return MD_MAX(cpu.n_cpus, 1);
}

/* Diagonal hints are checked now. Hints by name need the dims of an op, so each op checks those. */
static md_status check_hints(const md_context *c)
{
    static const md_fx_formula none = {0};
    md_ds_space space;
    bool by_name = strpbrk(c->hints, "=(") != NULL;
    return by_name ? MD_OK : md_ds_space_make(&space, &none, c->hints, c->hints_source, NULL);
}

/* A pin is "op[.stage]:variant[;...]". Whether there is such an op, stage and variant is seen when an op is made. */
static md_status check_pin(const char *pin, const char *source)
{
    for (const char *at = pin; at && *at;) {
        const size_t n = strcspn(at, ";"), n_blanks = strspn(at, " \t\n");
        const char *colon = memchr(at, ':', n);
        const size_t n_op = colon ? (size_t)(colon - at) : 0, n_gap = colon ? strspn(colon + 1, " \t\n") : 0;
        const bool is_blank = n_blanks >= n;
        if (!is_blank && (n_op <= n_blanks || n_op + 1 + n_gap >= n))
            return md_fail(MD_INVALID_ARGUMENT, "%s: '%.*s': expected op:variant or op.stage:variant", source,
                           (int)MD_MIN(n, (size_t)200), at);
        at += n + (at[n] == ';');
    }
    return MD_OK;
}

static void *alloc_host(void *user, int32_t device, md_stream stream, size_t n_bytes)
{
    const md_ds_runtime *r = user;
    (void)device;
    (void)stream;
    return r->alloc(r->alloc_user, n_bytes, 64);
}

static void free_host(void *user, int32_t device, md_stream stream, void *p, size_t n_bytes)
{
    const md_ds_runtime *r = user;
    (void)device;
    (void)stream;
    r->free(r->alloc_user, p, n_bytes);
}

/* The caller's memory for temporaries: of a GPU one pair of functions, of the host the other. */
static void set_memory(md_context *c, const md_context_options *o)
{
    c->runtime.alloc = o->alloc;
    c->runtime.free = o->free;
    c->runtime.alloc_user = o->alloc_user;
    c->runtime.most_packed_bytes = o->packed_bytes;
    if (md_ds_is_async(&c->runtime))
        c->dev->memory = (md_dev_memory){o->device_alloc, o->device_free, o->device_alloc_user};
    else if (o->alloc)
        c->dev->memory = (md_dev_memory){alloc_host, free_host, &c->runtime};
}

static md_status open_context(md_context *c, const md_context_options *o)
{
    if (!o->alloc != !o->free)
        return md_fail(MD_INVALID_ARGUMENT, "options alloc and free must be given together");
    if (!o->device_alloc != !o->device_free)
        return md_fail(MD_INVALID_ARGUMENT, "options device_alloc and device_free must be given together");
    MD_TRY(md_env_read(&c->env, c->variables));
    set_log(c, o);
    if (c->env.unknown[0])
        md_log_at(&c->log, MD_LOG_WARN, "environment variable %s is not known", c->env.unknown);
    MD_TRY(set_policy(c, o));
    MD_TRY(copy_texts(c, o));
    MD_TRY(check_hints(c));
    MD_TRY(check_pin(c->pin, o->pin ? "option pin" : "MD_PIN"));
    MD_TRY(md_api_open_bundles(c, o));
    MD_TRY(md_pool_create(&c->pool, count_threads(c, o)));
    md_dev_options dev = {.device = o->device ? o->device : c->env.device,
                          .launches_by_runtime = c->env.runtime_launch != 0,
                          .cc = o->cc ? o->cc : c->env.cc,
                          .pool = c->pool,
                          .cancel = {o->cancel, o->cancel_user},
                          .log = &c->log,
                          .environment = c->variables,
                          .is_bundled = c->bundles.n > 0 && !c->bundles.compiles,
                          .defers_rates = true};
    const md_status status = md_dev_open(&c->dev, &dev);
    if (status != MD_OK)
        return !o->device && c->env.device ? md_fail_more(status, " (MD_DEVICE)") : status;
    MD_TRY(md_api_assume(c, dev.device ? dev.device : "auto"));
    if (c->env.trace)
        MD_TRY(md_trace_open(&c->trace, c->env.trace));
    c->dev->trace = c->trace;
    if (c->env.dump)
        MD_TRY(md_dump_open(&c->dump, c->env.dump, &c->log));
    c->dev->dump = c->dump;
    MD_TRY(md_api_open_store(c, o));
    md_api_set_rates(c, md_api_calibrates_later(c));
    MD_TRY(md_bd_create(&c->builder, c->dev));
    md_bd_use_store(c->builder, c->store);
    md_bd_use_bundles(c->builder, &c->bundles);
    md_bd_listen(c->builder, md_ds_upgrade_all, &c->runtime);
    MD_TRY(md_api_open_wisdom(c));
    c->policy.wisdom = c->wisdom;
    c->policy.stored = c->stored;
    c->runtime.dev = c->dev;
    c->runtime.builder = c->builder;
    c->runtime.log = &c->log;
    c->runtime.verifies = c->env.verify != 0;
    c->runtime.waits = c->env.sync != 0;
    c->runtime.samples = c->stats.path != NULL;
    c->runtime.n_indices = c->env.stats_indices;
    set_memory(c, o);
    md_api_calibrate(c);
    return md_api_watch_stats(c);
}

static void close_context(md_context *c)
{
    md_api_end_calibration(c);
    if (c->builder)
        md_bd_listen(c->builder, NULL, NULL);
    md_ds_runtime_finish(&c->runtime);
    md_bd_destroy(&c->builder);
    md_tn_wisdom_destroy(&c->wisdom);
    md_tn_stored_close(&c->stored);
    md_sr_close(&c->store);
    md_api_close_bundles(c);
    md_dev_close(&c->dev);
    md_pool_destroy(&c->pool);
    if (md_trace_close(&c->trace) != MD_OK)
        md_log_at(&c->log, MD_LOG_ERROR, "%s", md_last_error());
    md_dump_close(&c->dump);
    md_ss_rows_finish(&c->retired);
    md_mutex_finish(&c->lock_of_ops);
    free(c->variables);
    free(c->hints);
    free(c->pin);
    free(c->stats.path);
    free(c);
}

md_status md_context_create(md_context **out, const md_context_options *options)
{
    static const md_context_options none = {0};
    if (!out)
        return md_fail(MD_INVALID_ARGUMENT, "no place for the context: out is NULL");
    md_context *c = calloc(1, sizeof *c);
    if (!c)
        return md_fail_memory();
    md_mutex_init(&c->lock_of_ops);
    md_ds_runtime_init(&c->runtime);
    c->variables = md_env_copy();
    md_status s = c->variables ? open_context(c, options ? options : &none) : md_fail_memory();
    if (s != MD_OK) {
        close_context(c);
        return s;
    }
    *out = c;
    return MD_OK;
}

void md_context_destroy(md_context **context)
{
    if (!context || !*context)
        return;
    md_context *c = *context;
    md_api_close_sequences(c);
    md_api_close_combos(c);
    md_api_end_stats(c);
    close_context(c);
    *context = NULL;
}

/* ---- Memory of the device */

md_status md_alloc(void **out, md_context *context, size_t n_bytes)
{
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    return context->dev->ops->alloc(out, context->dev, n_bytes);
}

void md_free(md_context *context, void *p)
{
    if (context && p)
        context->dev->ops->free(context->dev, p);
}

md_status md_copy(md_context *context, void *to, const void *from, size_t n_bytes)
{
    if (!context || (n_bytes && (!to || !from)))
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", !context ? "context" : to ? "from" : "to");
    return context->dev->ops->copy(context->dev, to, from, n_bytes);
}

md_status md_sync(md_context *context, md_stream stream)
{
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    return context->dev->ops->sync(context->dev, stream);
}
