/* Op creation: compiles the formula, and shares an equal op of the context, or fills the pools and starts the
 * builds. */
#include "dispatch/create.h"

#include "base/status.h"
#include "base/task/fork.h"
#include "dispatch/cache/plan_cache.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/index_sample.h"
#include "dispatch/hybrid/hybrid.h"
#include "dispatch/merged.h"
#include "dispatch/packed_operand.h"
#include "dispatch/pin.h"
#include "dispatch/pool/fill.h"
#include "dispatch/space/points.h"
#include "dispatch/registry.h"
#include "dispatch/select/select.h"
#include "dispatch/select/adopt.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/select/stored.h"
#include "tune/tune.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Names are printed in lines of text: control characters are replaced, and a long name is not cut inside a UTF-8
 * character. */
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

/* Chooses the variants by the facts for which the bundles' kernels were chosen: only those kernels are there. All else
 * goes by the device's own facts. */
static md_status fill_planned(md_ds_pool *pool, const md_dev *dev, bool only_first)
{
    const md_dev_facts *own = pool->target.facts;
    if (dev->is_assumed)
        pool->target.facts = &dev->assumed;
    const md_status s = md_ds_pool_fill(pool, only_first);
    pool->target.facts = own;
    for (int32_t i = 0; i < pool->n_variants; i++)
        pool->variant[i]->target.facts = own;
    return s;
}

static md_status add_stage(md_ds_op *op, int32_t stage, const md_ds_op_options *options, bool only_first)
{
    md_fa_target target = md_ds_target_of(op->compiled, stage);
    target.op = op->name;
    md_ds_policy policy = op->policy;
    char *pin = NULL;
    MD_TRY(md_ds_pin_of_stage(&pin, options->pin, stage, md_st_moves_axes(op->program, stage)));
    policy.pin = pin;
    md_status s = md_ds_pool_init(&op->stage[stage], op->runtime->builder, &target, &op->space, &policy);
    if (s == MD_OK)
        s = fill_planned(&op->stage[stage], op->runtime->dev, only_first);
    op->stage[stage].policy.pin = NULL;
    op->n_stages = stage + 1;
    free(pin);
    return s;
}

/* The builder warns once of every text that does not compile. The op warns only if no variant is left. */
static void report_unbuilt(const md_ds_op *op, int32_t stage)
{
    const md_ds_pool *pool = &op->stage[stage];
    const md_bd_variant *failed = NULL;
    int32_t n_ready = 0;
    for (int32_t i = 0; i < pool->n_variants; i++) {
        const md_bd_variant *v = pool->variant[i];
        if (v->state != MD_BD_FAILED) {
            n_ready++;
            continue;
        }
        failed = v;
        md_log_at(op->runtime->log, MD_LOG_DEBUG, "op %s, stage %d: %s: %s", op->name, stage, v->name, v->failure);
    }
    if (failed && n_ready == 0)
        md_log_once(op->runtime->log, op->runtime->dev->facts.can_compile ? MD_LOG_BY_REFERENCE : MD_LOG_NO_COMPILER,
                    MD_LOG_WARN,
                    "op %s, stage %d: no kernel could be built, so the reference evaluator serves, slowly: %s",
                    op->name, stage, failed->failure);
}

/* Where calls return early, marks say when they are done. */
static bool wants_idle_tune(const md_ds_op *op)
{
    const md_dev *dev = op->runtime->dev;
    return op->policy.idle_tune && op->policy.select == MD_SELECT_MODEL &&
           (dev->ops->mark_create || !md_ds_is_async(op->runtime));
}

/* Sets all that the identity of an op depends on, and its tables. */
static md_status describe_op(md_ds_op *op, const char *formula, const md_ds_op_options *o)
{
    MD_TRY(md_ds_compile(&op->compiled, &op->runtime->dev->facts, formula, &o->compile));
    op->formula = op->compiled->formula;
    op->program = op->compiled->program;
    op->customs = op->compiled->customs;
    op->space = op->compiled->space;
    op->policy = op->compiled->policy;
    set_name(op, o);
    MD_TRY(md_ds_pin_check(o->pin, op->name, op->program->n_stages));
    op->stage = calloc((size_t)op->program->n_stages, sizeof *op->stage);
    if (!op->stage)
        return md_fail_memory();
    op->max_entries = MD_MAX(o->max_shapes, 1);
    md_ds_arg_layout_init(&op->layout, op->formula);
    op->has_fast_call = op->layout.is_possible && !op->runtime->verifies;
    op->runtime_id = op->runtime->id;
    if (op->policy.select == MD_SELECT_HYBRID || wants_idle_tune(op))
        MD_TRY(md_ds_hybrid_create(&op->hybrid, op));
    op->takes_times = !md_ds_is_async(op->runtime) || op->runtime->samples || op->policy.select == MD_SELECT_HYBRID;
    if (op->policy.constants)
        MD_TRY(md_ds_packed_create(&op->packed));
    md_ds_find_kept(op);
    MD_TRY(md_ds_indices_create(&op->indices, op->formula, op->runtime->n_indices));
    op->entries = md_table_create();
    return op->entries ? MD_OK : md_fail_memory();
}

/* Numeric policies and the tuner decide for all hints together, so their pools are filled at creation. */
static bool may_fill_later(const md_ds_op *op, const md_ds_op_options *o)
{
    return o->is_async && !op->runtime->waits && !o->pin && op->policy.numeric < MD_NUMERIC_DETERMINISTIC &&
           op->policy.tune < MD_TUNE_MEASURE && !md_bd_is_bundled(op->runtime->builder) &&
           !op->runtime->dev->is_assumed;
}

static void fill_pools(md_ds_op *op)
{
    for (int32_t s = 0; s < op->n_stages; s++)
        if (md_ds_pool_fill_rest(&op->stage[s]) != MD_OK)
            md_log_at(op->runtime->log, MD_LOG_WARN, "op %s, stage %d: no more variants are added to its pool: %s",
                      op->name, s, md_last_error());
    md_ds_stored_bring(op);
    md_ds_stored_teach(op);
}

/* Compares the results of all ready variants at every hint. */
static void check_at_hints(md_ds_op *op, int32_t stage)
{
    md_ds_pool *pool = &op->stage[stage];
    for (int32_t h = 0; h < op->space.n_hints; h++) {
        int64_t size[MD_FX_MAX_DIMS];
        int32_t variant[MD_DS_MAX_VARIANTS], n = 0;
        md_kn_shape shape;
        md_ds_hint_sizes(size, &op->space, h);
        md_ds_bring_into_reach(size, &pool->target);
        md_tn_shape(&shape, op->program, size);
        for (int32_t i = 0; i < atomic_load_explicit(&pool->n_variants, memory_order_acquire); i++)
            if (!md_ds_reject_reason(pool, i, &shape))
                variant[n++] = i;
        md_ds_agree(op, stage, variant, n, &shape);
    }
}

/* With bundles and without a compiler a stage without kernels is an error: the evaluator would be a slow surprise. So
 * it is where a bundle is made: it would be made without kernels. */
static md_status check_bundled(const md_ds_op *op, int32_t stage)
{
    const md_ds_pool *pool = &op->stage[stage];
    const char *failure = NULL;
    if (op->program->stage[stage].kind == MD_ST_CHAIN) /* a chain's parts serve without it */
        return MD_OK;
    for (int32_t i = 0; i < pool->n_variants; i++) {
        if (atomic_load_explicit(&pool->variant[i]->state, memory_order_acquire) != MD_BD_FAILED)
            return MD_OK;
        failure = pool->variant[i]->failure;
    }
    return failure ? md_fail(MD_COMPILE, "op %s, stage %d: no kernel: %s", op->name, (int)stage, failure) : MD_OK;
}

/* In a bundle every stage needs a variant for all sizes, strides and places of data, since nothing is built later. */
static void cover(md_ds_op *op)
{
    for (int32_t s = 0; s < op->n_stages; s++)
        if (op->program->stage[s].kind != MD_ST_CHAIN && md_ds_pool_cover(&op->stage[s]) != MD_OK)
            md_bd_record_gap(op->runtime->builder, op->name, s, md_last_error());
}

static bool has_chains(const md_st_program *program)
{
    for (int32_t s = 0; s < program->n_stages; s++)
        if (program->stage[s].kind == MD_ST_CHAIN)
            return true;
    return false;
}

static md_status build_op(md_ds_op *op, const md_ds_op_options *o)
{
    md_dev *dev = op->runtime->dev;
    if (dev->ops->report_create)
        MD_TRY(dev->ops->report_create(&op->report, dev));
    if (has_chains(op->program))
        MD_TRY(md_ds_adoption_create(&op->adoption, op, md_ds_upgrade_ready));
    const bool fills_later = may_fill_later(op, o) && !md_bd_is_recording(op->runtime->builder);
    for (int32_t s = 0; s < op->program->n_stages; s++)
        MD_TRY(add_stage(op, s, o, fills_later));
    MD_TRY(md_ds_custom_verify(op));
    if (md_bd_is_recording(op->runtime->builder))
        cover(op);
    MD_TRY(md_ds_stored_create(&op->stored, op));
    if (!fills_later)
        md_ds_stored_bring(op);
    md_ds_stored_teach(op);
    if (fills_later)
        MD_TRY(md_ds_async_fill_start(op, fill_pools, md_ds_upgrade_ready));
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_pool *pool = &op->stage[s];
        if (o->is_async && !op->runtime->waits && pool->n_variants > 0)
            md_bd_variant_wait_any(pool->variant, pool->n_variants);
        else
            md_ds_pool_wait(pool);
        if (md_bd_is_bundled(op->runtime->builder) || md_bd_is_recording(op->runtime->builder))
            MD_TRY(check_bundled(op, s));
        if (!o->is_async)
            report_unbuilt(op, s);
        if (op->policy.select == MD_SELECT_HYBRID && !o->is_async)
            check_at_hints(op, s); /* Before the first call, which this would delay. */
    }
    return MD_OK;
}

static void free_op(md_ds_op *o)
{
    md_ds_op *merged = md_ds_unmerge_op(o);
    md_ds_op_destroy(&merged);
    md_ds_adoption_destroy(&o->adoption);
    md_ds_async_fill_finish(o);
    md_ds_hybrid_destroy(&o->hybrid);
    md_ds_indices_destroy(&o->indices);
    md_ds_packed_destroy(&o->packed, o->runtime);
    md_ds_waiting_drop(o);
    md_ds_stored_destroy(&o->stored);
    for (int32_t s = 0; s < o->n_stages; s++)
        md_ds_pool_finish(&o->stage[s]);
    free(o->stage);
    md_ds_plan_cache_destroy(atomic_load_explicit(&o->plan_cache, memory_order_acquire));
    md_table_destroy(&o->entries, md_ds_shape_entry_free);
    free(o->ring);
    md_ds_compiled_destroy(&o->compiled);
    md_strbuf_finish(&o->identity);
    md_mutex_finish(&o->lock_of_entries);
    md_mutex_finish(&o->lock_of_upgrades);
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
    md_mutex_init(&op->lock_of_upgrades);
    md_status s = describe_op(op, formula, options);
    if (s == MD_OK)
        s = md_ds_identify(op, options->compile.bounds, options->pin);
    if (s != MD_OK) {
        free_op(op);
        return s;
    }
    *out = op;
    return MD_OK;
}

/* Pins and custom kernels name the stages of the formula as it is written. Numeric policies promise bits whatever the
 * strides are. */
static bool may_have_joined(const md_ds_op *op, const md_ds_op_options *o)
{
    return op->compiled->may_join && !o->pin && !op->customs && !o->compile.weights &&
           op->policy.numeric < MD_NUMERIC_DETERMINISTIC;
}

/* Without a compiler a merged op is kept only if it has kernels for all its calls; else the op itself serves them. */
static md_status check_served(const md_ds_op *merged)
{
    for (int32_t s = 0; s < merged->n_stages && md_bd_is_bundled(merged->runtime->builder); s++)
        if (merged->program->stage[s].kind != MD_ST_CHAIN)
            MD_TRY(md_ds_pool_cover(&merged->stage[s]));
    return MD_OK;
}

/* Makes the merged op, if it has fewer stages. A failure is no error: the op serves without it. */
static void add_joined(md_ds_op *op, const char *formula, const md_ds_op_options *options)
{
    md_ds_op_options o = *options;
    md_ds_op *merged = NULL;
    md_fx_merged_dims how;
    md_strbuf text = {0}, hints = {0};
    const md_fx_options fx = {.dtype = o.compile.dtype, .sizes = o.compile.sizes, .bounds = o.compile.bounds};
    if (!may_have_joined(op, options))
        return;
    md_status s = md_ds_merge_text(&text, &how, op->compiled, formula, &fx);
    if (s == MD_OK && text.size > 0) {
        o.name = op->name;
        o.compile.sizes = NULL;
        if (!op->policy.has_default_hints && op->space.n > 0) {
            md_ds_merge_hints(&hints, &how, &op->space);
            o.compile.hints = md_strbuf_text(&hints);
        }
        s = md_ds_op_create(&merged, op->runtime, md_strbuf_text(&text), &o);
        if (s == MD_OK)
            s = check_served(merged);
        if (merged && (s != MD_OK || !md_ds_merge_op(op, merged, &how)))
            md_ds_op_destroy(&merged);
    }
    if (s != MD_OK)
        md_log_at(op->runtime->log, MD_LOG_DEBUG, "op %s: its dims are not merged: %s", op->name, md_last_error());
    md_strbuf_finish(&text);
    md_strbuf_finish(&hints);
}

md_status md_ds_op_create(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options)
{
    md_ds_op *op = NULL, *known;
    MD_TRY(new_op(&op, runtime, formula, options));
    known = md_ds_share(op);
    if (known) {
        free_op(op);
        if (!options->is_async)
            md_ds_op_wait(known);
        *out = known;
        return MD_OK;
    }
    md_ds_warn(runtime->log, op->compiled);
    md_status s = build_op(op, options);
    if (s == MD_OK) {
        add_joined(op, formula, options);
        md_ds_tell_op(op);
    }
    md_ds_share_done(op, s == MD_OK);
    if (s != MD_OK) {
        free_op(op);
        return s;
    }
    *out = op;
    return MD_OK;
}

void md_ds_op_wait(md_ds_op *op)
{
    if (op->merged)
        md_ds_op_wait(md_ds_merged_of(op));
    md_ds_async_fill_wait(op);
    md_ds_adoption_wait(op);
    for (int32_t s = 0; s < op->n_stages; s++)
        md_ds_pool_wait(&op->stage[s]);
    md_bd_wait_loads(op->runtime->builder);
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
