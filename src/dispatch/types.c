#include "dispatch/types.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "dispatch/select/agreement.h"
#include "dispatch/select/verify_custom.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/pool/fill.h"
#include "dispatch/online/online.h"
#include "dispatch/call/index_sample.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/registry.h"
#include "dispatch/cache/plan_cache.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One part of "2:variant; 3:other": what stands before the ':' (NULL where there is none) and behind it, without
 * blanks. A variant's name has no ':'. */
typedef struct pin_part {
    const char *stage, *name;
    size_t n_stage, n_name;
} pin_part;

static size_t trim(const char **text, size_t n)
{
    for (; n && isspace((unsigned char)**text); n--)
        ++*text;
    while (n && isspace((unsigned char)(*text)[n - 1]))
        n--;
    return n;
}

/* Parts of blanks only are passed over; false at the end. */
static bool next_part(pin_part *out, const char **at)
{
    while (**at) {
        size_t n = strcspn(*at, ";");
        const char *name = *at, *colon = memchr(*at, ':', n);
        *out = (pin_part){0};
        if (colon) {
            out->stage = *at;
            out->n_stage = trim(&out->stage, (size_t)(colon - *at));
            name = colon + 1;
        }
        out->n_name = trim(&name, n - (size_t)(name - *at));
        out->name = name;
        *at += n;
        *at += **at == ';';
        if (colon || out->n_name)
            return true;
    }
    return false;
}

/* -1 where it is no number. */
static int32_t stage_of(const pin_part *p)
{
    int32_t stage = p->n_stage ? 0 : -1;
    for (size_t i = 0; i < p->n_stage && stage >= 0; i++)
        stage = isdigit((unsigned char)p->stage[i]) && stage < MD_ST_MAX_STAGES ? stage * 10 + p->stage[i] - '0' : -1;
    return stage;
}

static md_status check_pin(const md_ds_op *op, const char *pin)
{
    pin_part p;
    for (const char *at = pin; at && next_part(&p, &at);) {
        int32_t stage = p.stage ? stage_of(&p) : 0;
        if (stage < 0 || stage >= op->program->n_stages)
            return md_fail(MD_INVALID_ARGUMENT, "pin '%s': '%.*s' is no stage of op %s, which has %d, counted from 0",
                           pin, (int)p.n_stage, p.stage, op->name, op->program->n_stages);
        if (!p.n_name)
            return md_fail(MD_INVALID_ARGUMENT, "pin '%s': no variant behind '%.*s:'", pin, (int)p.n_stage, p.stage);
    }
    return MD_OK;
}

/* Part of "2:variant;3:other" or "variant" that is for a stage: a malloc'ed copy or NULL in *out. */
static md_status pin_of_stage(char **out, const char *pin, int32_t stage)
{
    pin_part p;
    *out = NULL;
    for (const char *at = pin; at && next_part(&p, &at);) {
        if (p.stage && stage_of(&p) != stage)
            continue;
        free(*out);
        *out = strndup(p.name, p.n_name);
        if (!*out)
            return md_fail_memory();
    }
    return MD_OK;
}

/* Names stand in lines of text: no control characters, and no half of a UTF-8 character where a long one is cut. */
static void set_name(md_ds_op *op, const md_ds_op_options *o)
{
    const char *name = o->name ? o->name : o->fallback_name;
    for (int32_t t = 0; !name && t < op->formula->n_tensors; t++)
        if (op->formula->tensor[t].role == MD_FX_OUTPUT)
            name = op->formula->tensor[t].name;
    if (!name || !name[0])
        name = "op";
    size_t n = strnlen(name, sizeof op->name);
    if (n == sizeof op->name)
        for (n--; n && ((unsigned char)name[n] & 0xc0) == 0x80;)
            n--;
    for (size_t i = 0; i < n; i++)
        op->name[i] = iscntrl((unsigned char)name[i]) ? '?' : name[i];
}

static md_status add_stage(md_ds_op *op, int32_t stage, const md_ds_op_options *options, bool only_first)
{
    const md_fa_target target = md_ds_target_of(op->compiled, stage);
    md_ds_policy policy = op->policy;
    char *pin = NULL;
    MD_TRY(pin_of_stage(&pin, options->pin, stage));
    policy.pin = pin;
    md_status s = md_ds_pool_init(&op->stage[stage], op->runtime->builder, &target, &op->space, &policy);
    if (s == MD_OK)
        s = md_ds_pool_fill(&op->stage[stage], only_first);
    op->stage[stage].policy.pin = NULL;
    op->n_stages = stage + 1;
    free(pin);
    return s;
}

/* The builder warns of every text that does not compile, once; here it matters whether anything is left. */
static void report_unbuilt(const md_ds_op *op, int32_t stage)
{
    const md_ds_pool *c = &op->stage[stage];
    const md_bd_variant *failed = NULL;
    int32_t n_ready = 0;
    for (int32_t i = 0; i < c->n_variants; i++) {
        const md_bd_variant *v = c->variant[i];
        if (v->state != MD_BD_FAILED) {
            n_ready++;
            continue;
        }
        failed = v;
        md_log_at(op->runtime->log, MD_LOG_INFO, "op %s, stage %d: %s: %s", op->name, stage, v->name, v->failure);
    }
    if (failed && n_ready == 0)
        md_log_at(op->runtime->log, MD_LOG_WARN,
                  "op %s, stage %d: no kernel could be built, so the reference evaluator serves, slowly: %s", op->name,
                  stage, failed->failure);
}

/* Formula, space and policy: all that says what op it is. */
static md_status describe_op(md_ds_op *op, const char *formula, const md_ds_op_options *o)
{
    MD_TRY(md_ds_compile(&op->compiled, &op->runtime->dev->facts, formula, &o->compile));
    op->formula = op->compiled->formula;
    op->program = op->compiled->program;
    op->customs = op->compiled->customs;
    op->space = op->compiled->space;
    op->policy = op->compiled->policy;
    set_name(op, o);
    MD_TRY(check_pin(op, o->pin));
    op->max_entries = MD_MAX(o->max_shapes, 1);
    md_ds_arg_layout_init(&op->layout, op->formula);
    op->has_fast_call = op->layout.is_possible && !op->runtime->verifies;
    op->runtime_id = op->runtime->id;
    if (op->policy.select == MD_SELECT_HYBRID)
        MD_TRY(md_ds_hybrid_create(&op->hybrid, op));
    op->takes_times = !md_ds_is_async(op->runtime) || op->runtime->samples || op->policy.select == MD_SELECT_HYBRID;
    MD_TRY(md_ds_indices_create(&op->indices, op->formula, op->runtime->n_indices));
    op->entries = md_table_create();
    return op->entries ? MD_OK : md_fail_memory();
}

/* What a numeric policy or the tuner decides is decided by all hints together. */
static bool may_grow(const md_ds_op *op, const md_ds_op_options *o)
{
    return o->is_async && !op->runtime->waits && !o->pin && op->policy.numeric < MD_NUMERIC_DETERMINISTIC &&
           op->policy.tune < MD_TUNE_MEASURE;
}

static md_status build_op(md_ds_op *op, const md_ds_op_options *o)
{
    md_dev *dev = op->runtime->dev;
    if (dev->ops->report_create)
        MD_TRY(dev->ops->report_create(&op->report, dev));
    const bool grows = may_grow(op, o);
    for (int32_t s = 0; s < op->program->n_stages; s++)
        MD_TRY(add_stage(op, s, o, grows));
    MD_TRY(md_ds_custom_verify(op));
    if (grows)
        MD_TRY(md_ds_async_fill_start(op));
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_pool *c = &op->stage[s];
        if (o->is_async && !op->runtime->waits && c->n_variants > 0)
            md_bd_variant_wait_any(c->variant, c->n_variants);
        else
            md_ds_pool_wait(c);
        if (!o->is_async)
            report_unbuilt(op, s);
        if (op->hybrid && !o->is_async)
            md_ds_agree_at_hints(op, s); /* before any call could feel it */
    }
    return MD_OK;
}

static void free_op(md_ds_op *o)
{
    md_ds_async_fill_finish(o);
    md_ds_hybrid_destroy(&o->hybrid);
    md_ds_indices_destroy(&o->indices);
    md_ds_upgrade_drop(o);
    for (int32_t s = 0; s < o->n_stages; s++)
        md_ds_pool_finish(&o->stage[s]);
    md_ds_plan_cache_destroy(atomic_load_explicit(&o->plan_cache, memory_order_acquire));
    md_table_destroy(&o->entries, md_ds_shape_entry_free);
    free(o->ring);
    md_ds_compiled_destroy(&o->compiled);
    md_strbuf_finish(&o->identity);
    md_mutex_finish(&o->lock_of_entries);
    md_mutex_finish(&o->lock_of_promotions);
    free(o);
}

static md_status new_op(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options)
{
    md_ds_op *op = calloc(1, sizeof *op);
    if (!op)
        return md_fail_memory();
    op->runtime = runtime;
    op->n_owners = 1;
    op->serial = atomic_fetch_add_explicit(&runtime->n_ops, 1, memory_order_relaxed) + 1;
    md_mutex_init(&op->lock_of_entries);
    md_mutex_init(&op->lock_of_promotions);
    md_status s = describe_op(op, formula, options);
    if (s == MD_OK)
        s = md_ds_identify(op, options);
    if (s != MD_OK) {
        free_op(op);
        return s;
    }
    *out = op;
    return MD_OK;
}

md_status md_ds_op_create(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options)
{
    md_ds_op *op = NULL, *known;
    MD_TRY(new_op(&op, runtime, formula, options));
    known = md_ds_join(op);
    if (known) {
        free_op(op);
        if (!options->is_async)
            md_ds_op_wait(known);
        *out = known;
        return MD_OK;
    }
    md_status s = build_op(op, options);
    md_ds_made(op, s == MD_OK);
    if (s != MD_OK) {
        free_op(op);
        return s;
    }
    *out = op;
    return MD_OK;
}

void md_ds_op_wait(md_ds_op *op)
{
    md_ds_async_fill_wait(op);
    for (int32_t s = 0; s < op->n_stages; s++)
        md_ds_pool_wait(&op->stage[s]);
    md_ds_upgrade_ready(op);
}

void md_ds_op_free(md_ds_op **op)
{
    free_op(*op);
    *op = NULL;
}

void md_ds_op_destroy(md_ds_op **op)
{
    if (!op || !*op)
        return;
    if (md_ds_leave(*op))
        free_op(*op);
    *op = NULL;
}
