/* Combos: checks handles and takes the lock of each. All combos of a context are in its list, so that a context that is
 * destroyed first ends them. Those of md_combo_call are found there by their hash. */
#include "api/context.h"
#include "base/status.h"
#include "combo/stored.h"
#include "combo/tuning/tuning.h"
#include "dispatch/create.h"
#include "dispatch/registry.h"

#include <stdlib.h>

enum { MAX_CALLED = 64 }; /* most lists that md_combo_call remembers */
enum { DEFAULT_BUILDS = 12, DEFAULT_BUDGET_S = 10 }; /* of md_combo_tune: kernels built, seconds */

struct md_combo {
    md_context *context; /* NULL once it is gone */
    md_combo *next; /* newest first */
    md_cb *cb;
    int32_t n_ops;
    md_op *op; /* one reference each */
    bool is_called; /* made by md_combo_call, which alone knows it */
    uint64_t hash; /* of its ops, sizes and strides: md_combo_call finds it by that */
    int32_t users; /* calls under way; guarded by the context's lock, as the list */
};

/* ---- Life */

/* A list of the parts' ops, malloc'ed. */
static md_status list_ops(md_ds_op ***out, const md_context *context, const md_combo_part *parts, int32_t n)
{
    if (n < 0 || (n > 0 && !parts))
        return md_fail(MD_INVALID_ARGUMENT, n < 0 ? "the number of parts is negative" : "parts is NULL");
    for (int32_t i = 0; i < n; i++)
        if (!parts[i].op || parts[i].op->context != context)
            return md_fail(MD_INVALID_ARGUMENT, "part %d: the op is %s", (int)i,
                           parts[i].op ? "of another context" : "NULL");
    md_ds_op **op = malloc((size_t)MD_MAX(n, 1) * sizeof *op);
    if (!op)
        return md_fail_memory();
    for (int32_t i = 0; i < n; i++)
        op[i] = parts[i].op->ds;
    const md_status status = md_cb_check_counts(parts, op, n);
    if (status == MD_OK)
        *out = op;
    else
        free(op);
    return status;
}

static md_status hold_ops(md_combo *c, md_ds_op *const *op, int32_t n)
{
    c->op = calloc((size_t)MD_MAX(n, 1), sizeof *c->op);
    if (!c->op)
        return md_fail_memory();
    for (int32_t i = 0; i < n; i++) {
        md_ds_enter(op[i]);
        c->op[c->n_ops++] = (md_op){c->context, op[i]};
    }
    return MD_OK;
}

/* Frees all that needs the context. */
static void close_combo(md_combo *c)
{
    md_context *context = c->context;
    pthread_mutex_lock(&c->cb->lock);
    pthread_mutex_lock(&context->lock_of_ops);
    md_cb_stats(&context->retired.combos, c->cb);
    pthread_mutex_unlock(&context->lock_of_ops);
    md_cb_close(c->cb);
    while (c->n_ops > 0)
        md_api_leave(&c->op[--c->n_ops]);
    c->context = NULL;
    pthread_mutex_unlock(&c->cb->lock);
}

/* Frees a combo that is in no list. */
static void free_combo(md_combo *c)
{
    if (c->cb && c->context)
        close_combo(c);
    if (c->cb)
        md_cb_destroy(&c->cb);
    free(c->op);
    free(c);
}

static md_status make_combo(md_combo **out, md_context *context, const md_combo_part *parts, md_ds_op *const *op,
                            int32_t n)
{
    md_combo *c = calloc(1, sizeof *c);
    if (!c)
        return md_fail_memory();
    c->context = context;
    md_status status = md_cb_create(&c->cb, &context->runtime, parts, op, n);
    if (status == MD_OK)
        status = hold_ops(c, op, n);
    if (status == MD_OK && context->env.tune != MD_TUNE_OFF)
        md_cb_swaps_find(c->cb);
    if (status != MD_OK) {
        free_combo(c);
        return status;
    }
    *out = c;
    return MD_OK;
}

static void join_list(md_combo *c)
{
    md_context *context = c->context;
    c->next = context->combos;
    context->combos = c;
}

/* The combo that `at` points to leaves the list. */
static md_combo *take_out(md_combo **at)
{
    md_combo *c = *at;
    *at = c->next;
    c->context->n_called_combos -= c->is_called;
    return c;
}

md_status md_combo_bind(md_combo **out, md_context *context, const md_combo_part *parts, int32_t n)
{
    md_ds_op **op = NULL;
    md_combo *c = NULL;
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    MD_TRY(list_ops(&op, context, parts, n));
    md_status status = make_combo(&c, context, parts, op, n);
    if (status == MD_OK && (status = md_cb_prepare(c->cb)) != MD_OK)
        free_combo(c);
    free(op);
    MD_TRY(status);
    pthread_mutex_lock(&context->lock_of_ops);
    join_list(c);
    pthread_mutex_unlock(&context->lock_of_ops);
    *out = c;
    return MD_OK;
}

void md_combo_destroy(md_combo **combo)
{
    if (!combo || !*combo)
        return;
    md_combo *c = *combo;
    if (c->context) {
        md_context *context = c->context;
        pthread_mutex_lock(&context->lock_of_ops);
        for (md_combo **at = &context->combos; *at; at = &(*at)->next)
            if (*at == c) {
                (void)take_out(at);
                break;
            }
        pthread_mutex_unlock(&context->lock_of_ops);
    }
    free_combo(c);
    *combo = NULL;
}

/* A combo that is running is not waited for: the caller may be a callback of that run. */
void md_api_add_combos(md_ss_combos *out, md_context *context)
{
    for (md_combo *c = context->combos; c; c = c->next) {
        if (pthread_mutex_trylock(&c->cb->lock) != 0) {
            out->n_busy++;
            continue;
        }
        md_cb_stats(out, c->cb);
        pthread_mutex_unlock(&c->cb->lock);
    }
}

void md_api_close_combos(md_context *context)
{
    while (context->combos) {
        md_combo *c = take_out(&context->combos);
        if (c->is_called)
            free_combo(c);
        else
            close_combo(c);
    }
}

void md_api_forget_combos(const md_op *op)
{
    md_combo *gone = NULL;
    pthread_mutex_lock(&op->context->lock_of_ops);
    for (md_combo **at = &op->context->combos; *at;) {
        md_combo *c = *at;
        bool has_op = false;
        for (int32_t i = 0; c->is_called && c->users == 0 && i < c->n_ops; i++)
            has_op |= c->op[i].ds == op->ds;
        if (!has_op) {
            at = &c->next;
            continue;
        }
        (void)take_out(at);
        c->next = gone;
        gone = c;
    }
    pthread_mutex_unlock(&op->context->lock_of_ops);
    while (gone) {
        md_combo *c = gone;
        gone = c->next;
        free_combo(c);
    }
}

/* ---- Bound combos */

/* Locks a combo whose context is there. */
static md_status enter(md_combo *c)
{
    if (!c)
        return md_fail(MD_INVALID_ARGUMENT, "combo is NULL");
    pthread_mutex_lock(&c->cb->lock);
    if (c->cb->runtime)
        return MD_OK;
    pthread_mutex_unlock(&c->cb->lock);
    return md_fail(MD_INVALID_ARGUMENT, "the combo's context was destroyed");
}

static md_status leave(md_combo *c, md_status status)
{
    pthread_mutex_unlock(&c->cb->lock);
    return status;
}

md_status md_combo_point(md_combo *combo, int32_t part, int32_t arg, void *const *data)
{
    MD_TRY(enter(combo));
    return leave(combo, md_cb_point(combo->cb, part, arg, data));
}

md_status md_combo_run(md_combo *combo, md_stream stream, const md_arg *scalars, int32_t n)
{
    MD_TRY(enter(combo));
    md_status status = md_cb_set_scalars(combo->cb, scalars, n);
    if (status == MD_OK)
        status = md_cb_run(combo->cb, stream);
    return leave(combo, status);
}

md_status md_combo_explain(md_combo *combo, int32_t json, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!write)
        return md_fail(MD_INVALID_ARGUMENT, "write is NULL");
    MD_TRY(enter(combo));
    md_status status = leave(combo, md_cb_explain(&text, combo->cb, json != 0));
    if (status == MD_OK)
        status = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return status;
}

static md_status check_tune(const md_combo_tune_options *o)
{
    if (!(o->budget_s >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "option budget_s is negative or no number");
    return o->max_builds < 0 ? md_fail(MD_INVALID_ARGUMENT, "option max_builds: %d", (int)o->max_builds) : MD_OK;
}

static md_status tune(md_strbuf *report, md_combo *c, md_stream stream, const md_combo_tune_options *o)
{
    const md_env *env = &c->context->env;
    const md_cb_tune_job job = {
        .budget_s = o->budget_s > 0.0 ? o->budget_s : DEFAULT_BUDGET_S,
        .max_builds = o->max_builds > 0 ? o->max_builds : DEFAULT_BUILDS,
        .json = o->json != 0,
        .order = o->field_order ? (md_cb_said){o->field_order, "option field_order"}
                                : (md_cb_said){env->combo_field_order, "MD_COMBO_FIELD_ORDER"},
        .limits = o->field_limits ? (md_cb_said){o->field_limits, "option field_limits"}
                                  : (md_cb_said){env->combo_field_limits, "MD_COMBO_FIELD_LIMITS"},
    };
    if (md_ds_is_capturing(c->cb->runtime, stream))
        return md_fail(MD_UNSUPPORTED, "combos are not tuned while the stream is captured");
    for (int32_t i = 0; i < c->n_ops; i++)
        md_ds_op_wait(c->op[i].ds);
    return md_cb_tune(report, c->cb, stream, &job);
}

md_status md_combo_tune(md_combo *combo, md_stream stream, const md_combo_tune_options *options)
{
    const md_combo_tune_options none = {0}, *o = options ? options : &none;
    md_strbuf report = {0};
    MD_TRY(check_tune(o));
    MD_TRY(enter(combo));
    md_status status = leave(combo, tune(&report, combo, stream, o));
    if (status == MD_OK && o->write)
        status = md_api_write(&report, o->write, o->user);
    md_strbuf_finish(&report);
    return status;
}

/* ---- Calls */

/* The next combo with the hash, behind `after`, which gets a user. NULL: there is no more. */
static md_combo *find_called(md_context *context, const md_combo *after, uint64_t hash)
{
    pthread_mutex_lock(&context->lock_of_ops);
    md_combo *c = after ? after->next : context->combos;
    while (c && (!c->is_called || c->hash != hash))
        c = c->next;
    if (c)
        c->users++;
    pthread_mutex_unlock(&context->lock_of_ops);
    return c;
}

static void let_go(md_combo *c)
{
    pthread_mutex_lock(&c->context->lock_of_ops);
    c->users--;
    pthread_mutex_unlock(&c->context->lock_of_ops);
}

/* Remembers a new list, and forgets the oldest that nobody uses if there are too many. */
static void remember(md_combo *c, uint64_t hash)
{
    md_context *context = c->context;
    md_combo *gone = NULL;
    pthread_mutex_lock(&context->lock_of_ops);
    c->is_called = true;
    c->hash = hash;
    c->users = 1;
    context->n_called_combos++;
    join_list(c);
    if (context->n_called_combos > MAX_CALLED) {
        md_combo **oldest = NULL;
        for (md_combo **at = &context->combos; *at; at = &(*at)->next)
            if ((*at)->is_called && (*at)->users == 0)
                oldest = at;
        gone = oldest ? take_out(oldest) : NULL;
    }
    pthread_mutex_unlock(&context->lock_of_ops);
    if (gone)
        free_combo(gone);
}

/* Gives a combo the addresses of a caller's list, and runs it. NOT_FOUND: the list is another one. */
static md_status run_if_matches(md_combo *c, md_stream stream, const md_combo_part *parts, md_ds_op *const *op,
                                int32_t n)
{
    MD_TRY(enter(c));
    if (!md_cb_matches(c->cb, parts, op, n))
        return leave(c, MD_NOT_FOUND);
    md_cb_move(c->cb, parts);
    return leave(c, md_cb_run(c->cb, stream));
}

static md_status call(md_context *context, md_stream stream, const md_combo_part *parts, md_ds_op *const *op, int32_t n)
{
    const uint64_t hash = md_cb_hash(parts, op, n);
    md_combo *c = find_called(context, NULL, hash), *next;
    while (c) {
        const md_status status = run_if_matches(c, stream, parts, op, n);
        if (status == MD_NOT_FOUND)
            next = find_called(context, c, hash);
        let_go(c);
        if (status != MD_NOT_FOUND)
            return status;
        c = next;
    }
    MD_TRY(make_combo(&c, context, parts, op, n));
    remember(c, hash);
    MD_TRY(enter(c));
    const md_status status = leave(c, md_cb_run(c->cb, stream));
    let_go(c);
    return status;
}

md_status md_combo_call(md_context *context, md_stream stream, const md_combo_part *parts, int32_t n)
{
    md_ds_op **op = NULL;
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    MD_TRY(list_ops(&op, context, parts, n));
    const md_status status = call(context, stream, parts, op, n);
    free(op);
    return status;
}
