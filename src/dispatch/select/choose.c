/* Chooses the variants of a plan. If the best one is still being built, a ready one stands in for it. */
#include "dispatch/select/select.h"

#include "base/status.h"
#include "dispatch/pool/fill.h"
#include "dispatch/space/points.h"
#include "dispatch/select/adopt.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/select/stored.h"
#include "dispatch/select/plan.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

static int32_t state_of(const md_bd_variant *v)
{
    return atomic_load_explicit(&v->state, memory_order_acquire);
}

/* What a choice waits for: a build, or a library's kernel for the shape. */
typedef enum readiness { READY, BUILDS, LOADS } readiness;

static readiness readiness_of(const md_bd_variant *v, const md_kn_shape *shape)
{
    if (state_of(v) != MD_BD_READY)
        return BUILDS;
    return md_bd_variant_load(v, shape, MD_BD_LOAD_LOOK) == MD_BD_LOADED ? READY : LOADS;
}

/* Begins to find out in the background whether the library's kernel is loaded, unless the op is frozen. True if it
 * began, or had begun. */
static bool start_to_find(const md_ds_op *op, const md_bd_variant *v, const md_kn_shape *shape)
{
    return atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_NOT_FROZEN &&
           md_bd_variant_load(v, shape, MD_BD_LOAD_FIND) == MD_BD_NOT_LOADED;
}

/* Waits until the library's kernel is loaded. True if it is, and the library had not answered for the shape before. */
static bool load_and_ask(const md_bd_variant *v, const md_kn_shape *shape)
{
    const bool is_asked = md_bd_variant_answer(v, shape).us > 0.0;
    return md_bd_variant_load(v, shape, MD_BD_LOAD_WAIT) == MD_BD_LOADED && !is_asked;
}

/* False for what was measured or named. */
static bool heeds_answers(md_ds_source source)
{
    return source == MD_DS_MODEL || source == MD_DS_NEAREST || source == MD_DS_NEAREST_ON_GRID;
}

/* The best ready variant; one of the wished variant's numeric class if there is one, since it gives the same bits. */
static bool stand_in(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query, int32_t wished)
{
    md_ds_query ready = *query;
    ready.with_unbuilt = false;
    ready.call = NULL;
    ready.numeric_class = op->stage[stage].variant[wished]->numeric_class;
    if (md_ds_select(out, op, stage, &ready) == MD_OK)
        return true;
    ready.numeric_class = 0;
    return md_ds_select(out, op, stage, &ready) == MD_OK;
}

/* Adds a variant for a shape that none fits. Asks the pool again under its lock: another thread may have added one. */
static md_status add_fallback(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_pool *pool = &op->stage[stage];
    pthread_mutex_lock(&pool->lock_of_variants);
    md_status s = md_ds_select(out, op, stage, query);
    if (s == MD_NOT_FOUND) {
        *out = md_ds_empty_pick(MD_DS_DEFAULT);
        s = md_ds_pool_add_fallback(&out->variant, pool, query->shape);
        if (s == MD_OK)
            atomic_fetch_add_explicit(&op->count.adopted, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&pool->lock_of_variants);
    if (s == MD_OK)
        md_ds_stored_teach(op);
    return s;
}

/* A call of a new shape chooses by the model among own kernels and libraries that have answered: the model of libraries
 * takes as long as that of all own kernels. One of the others is asked in the background. */
static bool is_in_a_hurry(const md_ds_op *op, const md_ds_query *query, md_ds_effort effort)
{
    return effort == MD_DS_SOON && !query->call &&
           (op->policy.select == MD_SELECT_MODEL || op->policy.select == MD_SELECT_HYBRID);
}

/* Lets more variants take part, where none fits. False if there are no more. */
static bool widen(md_ds_query *query, md_ds_effort effort)
{
    if (query->without_unasked) {
        query->without_unasked = false;
        return true;
    }
    if (effort == MD_DS_ONLY_READY || query->may_load)
        return false;
    query->may_load = true; /* loading takes less time than building another variant */
    return true;
}

/* One stage of a plan to choose for. `is_spare`: other stages can do its work, so nothing is waited for. */
typedef struct chooser {
    md_ds_plan *plan;
    md_ds_op *op;
    int32_t stage;
    md_ds_query query;
    md_ds_effort effort;
    bool is_spare;
} chooser;

/* The best of all variants, built or not; where none fits, one that is added. */
static md_status select_best(chooser *c)
{
    md_ds_pick *pick = &c->plan->stage[c->stage].pick;
    const bool may_add = c->effort != MD_DS_ONLY_READY && !c->is_spare;
    for (;;) {
        const md_status s = md_ds_select(pick, c->op, c->stage, &c->query);
        if (s != MD_NOT_FOUND)
            return s;
        if (may_add && !c->query.without_unasked && md_ds_is_filling(c->op))
            md_ds_async_fill_wait(c->op);
        else if (!widen(&c->query, c->effort))
            return may_add ? add_fallback(pick, c->op, c->stage, &c->query) : MD_NOT_FOUND;
    }
}

static void wish(chooser *c, int32_t variant)
{
    c->plan->stage[c->stage].wished = variant;
    c->plan->is_stand_in = true;
}

/* The best is being built, or its library's kernel loads: a ready one stands in. False if none fits. */
static bool take_stand_in(chooser *c, int32_t wished, readiness state)
{
    md_bd_variant *v = c->op->stage[c->stage].variant[wished];
    const bool stands_in = stand_in(&c->plan->stage[c->stage].pick, c->op, c->stage, &c->query, wished);
    if (!stands_in && !c->is_spare)
        return false;
    md_bd_variant_hasten(v);
    if (state == BUILDS || start_to_find(c->op, v, c->query.shape))
        wish(c, wished);
    return stands_in;
}

/* Picks a variant that is ready. Each round of the loop either returns or waits for a build, which failed if the loop
 * goes on to another variant. NOT_FOUND for a spare stage where none is ready. */
static md_status choose_ready(chooser *c)
{
    const md_ds_pool *pool = &c->op->stage[c->stage];
    md_ds_stage_choice *stage_plan = &c->plan->stage[c->stage];
    const md_kn_shape *shape = c->query.shape;
    for (;;) {
        MD_TRY(select_best(c));
        const md_ds_pick best = stage_plan->pick;
        md_bd_variant *v = pool->variant[best.variant];
        const readiness state = readiness_of(v, shape);
        const int32_t unasked = state == READY ? md_ds_unasked_library(c->op, c->stage, &c->query, &best) : -1;
        if (unasked >= 0 && c->effort == MD_DS_BEST &&
            md_bd_variant_load(pool->variant[unasked], shape, MD_BD_LOAD_WAIT) == MD_BD_LOADED)
            continue;
        if (unasked >= 0 && start_to_find(c->op, pool->variant[unasked], shape)) {
            wish(c, unasked);
            return MD_OK;
        }
        if (state == READY) {
            md_ds_note_unloaded(c->plan, c->op, c->stage, &c->query);
            return MD_OK;
        }
        /* Who measures has loaded the library's kernel already. */
        const bool waits = !c->is_spare && (c->effort == MD_DS_BEST || (state == LOADS && c->query.call));
        if (!waits && take_stand_in(c, best.variant, state))
            return MD_OK;
        if (c->is_spare)
            return MD_NOT_FOUND;
        if (state == LOADS && waits && load_and_ask(v, shape) && heeds_answers(best.source))
            continue; /* its answer may make another variant the best */
        if (state == LOADS && md_ds_fits(pool, best.variant, &c->query)) {
            stage_plan->pick = best; /* its kernel is loaded now; or no other variant fits, and the call loads it */
            return MD_OK;
        }
        if (state == LOADS)
            continue;
        if (c->effort == MD_DS_ONLY_READY)
            return MD_NOT_FOUND;
        atomic_fetch_add_explicit(&c->op->count.waits, 1, memory_order_relaxed);
        (void)md_bd_variant_hurry(v);
    }
}

/* Where a library is asked in the background, and all is weighed again once it has answered, one of the own variants
 * that were picked lately serves meanwhile: with cold caches the whole pool takes 25 us. Not for long kernels. */
static bool choose_quickly(chooser *c)
{
    static const double MOST_US = 15.0;
    const md_ds_pool *pool = &c->op->stage[c->stage];
    md_ds_pick *pick = &c->plan->stage[c->stage].pick;
    md_ds_query recent = c->query;
    recent.only_recent = true;
    recent.with_unbuilt = false;
    if (!c->query.without_unasked || pool->pinned >= 0 || c->op->policy.numeric >= MD_NUMERIC_DETERMINISTIC ||
        atomic_load_explicit(&pool->recent, memory_order_relaxed) == 0)
        return false;
    const int32_t unasked = md_ds_unasked_library(c->op, c->stage, &c->query, pick);
    if (unasked < 0 || md_ds_select(pick, c->op, c->stage, &recent) != MD_OK || pick->us > MOST_US ||
        !start_to_find(c->op, pool->variant[unasked], c->query.shape))
        return false;
    wish(c, unasked);
    return true;
}

static md_status choose_stage(chooser *c)
{
    c->plan->stage[c->stage].wished = -1;
    c->query.with_unbuilt = true;
    c->query.may_load = c->effort == MD_DS_BEST || c->query.call;
    c->query.without_unasked = is_in_a_hurry(c->op, &c->query, c->effort);
    return choose_quickly(c) ? MD_OK : choose_ready(c);
}

/* ---- Stages with parts */

/* At the first sight of a length of heads, kernels for it are chosen and built. Who waits for the best, or measures,
 * waits for them. `is_missing`: no kernel fits. */
static void seek_kernels(chooser *c, bool is_missing)
{
    const md_kn_shape *shape = c->query.shape;
    if (!is_missing && !md_ds_has_free_lengths(&c->op->stage[c->stage].target))
        return;
    const bool begins = c->effort != MD_DS_ONLY_READY;
    const md_ds_sight seen = begins ? md_ds_adopt(c->op, c->stage, shape) : md_ds_adoption_of(c->op, c->stage, shape);
    c->plan->is_passing |=
        is_missing && seen == MD_DS_UNSEEN && atomic_load_explicit(&c->op->frozen, memory_order_relaxed) == 0;
    if (seen == MD_DS_ADOPTING && !c->is_spare && begins)
        md_ds_adoption_wait(c->op);
    else if (seen == MD_DS_ADOPTING && c->is_spare && c->plan->stage[c->stage].wished == -1)
        wish(c, MD_DS_SOUGHT);
}

/* Under a numeric policy bits must not change when a kernel is ready. */
static bool parts_may_serve(const chooser *c)
{
    return c->effort != MD_DS_BEST && c->op->policy.numeric < MD_NUMERIC_DETERMINISTIC &&
           c->op->policy.select != MD_SELECT_MEASURE;
}

/* A chain is spare while it is built; so are its parts once it is ready. A product serves while those that move its
 * axes are built. */
static md_status choose_whole(chooser *c, uint64_t *spare)
{
    const md_st_stage *whole = &c->op->program->stage[c->stage];
    const bool is_chain = whole->kind == MD_ST_CHAIN;
    c->is_spare = is_chain && parts_may_serve(c);
    if (is_chain && !c->is_spare)
        seek_kernels(c, false);
    const md_status s = choose_stage(c);
    if (c->is_spare && (s == MD_OK || s == MD_NOT_FOUND))
        seek_kernels(c, s == MD_NOT_FOUND);
    const bool parts_are_spare = is_chain ? !c->query.call : parts_may_serve(c);
    for (int32_t i = 0; s == MD_OK && parts_are_spare && i < whole->n_parts; i++)
        *spare |= UINT64_C(1) << whole->part[i];
    return s;
}

/* Measuring compares all variants of the pool. Until all are built the model chooses, and the plan is a stand-in. */
static bool may_measure(md_ds_plan *plan, md_ds_op *op, md_ds_effort effort)
{
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_pool *pool = &op->stage[s];
        int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
        if (effort == MD_DS_BEST)
            md_ds_pool_wait(pool);
        for (int32_t i = 0; i < n; i++)
            if (state_of(pool->variant[i]) == MD_BD_QUEUED)
                plan->is_stand_in = true;
    }
    return !plan->is_stand_in;
}

static md_status fail_too_large(const md_ds_op *op, const md_kn_shape *shape)
{
    char sizes[160];
    md_ds_shape_text(sizes, sizeof sizes, op->formula, shape->size);
    return md_fail(MD_INVALID_ARGUMENT, "op %s: more than 10^18 operations and bytes at %s", op->name, sizes);
}

/* Looks for stored picks where there may be some. True if none is missing. */
static bool find_stored(md_ds_query *query, md_digest128 *digest, md_ds_op *op, const md_ds_request *request)
{
    if (!request->key || (op->policy.select != MD_SELECT_MEASURE && !md_ds_stored_has_any(op)))
        return false;
    *digest = md_hash128(request->key, request->key_bytes);
    query->key = digest;
    return md_ds_has_stored_picks(op, query);
}

/* A pick for every stage, those with parts first. *missing: a bit for each that has none. */
static md_status choose_each(uint64_t *missing, md_ds_plan *plan, md_ds_op *op, const md_ds_query *query,
                             md_ds_effort effort)
{
    uint64_t spare = 0;
    for (int32_t i = 0; i < 2 * op->n_stages; i++) {
        chooser c = {plan, op, i % op->n_stages, *query, effort, false};
        const bool has_parts = op->program->stage[c.stage].n_parts > 0;
        if (has_parts != (i < op->n_stages))
            continue;
        if (!(md_ds_work(&op->stage[c.stage].target, query->shape->size) <= MD_DS_MOST_WORK))
            return fail_too_large(op, query->shape);
        c.is_spare = spare >> c.stage & 1;
        const md_status s = has_parts ? choose_whole(&c, &spare) : choose_stage(&c);
        if (s == MD_NOT_FOUND)
            *missing |= UINT64_C(1) << c.stage;
        else if (s != MD_OK)
            return s;
    }
    return MD_OK;
}

static md_status choose_stages(md_ds_plan *plan, md_ds_op *op, const md_ds_request *request)
{
    md_digest128 digest;
    const md_kn_shape *shape = request->shape;
    const md_ds_effort effort = request->effort;
    int64_t sizes[MD_FX_MAX_DIMS] = {0};
    md_ds_query query = {.shape = shape, .select_sizes = sizes};
    md_ds_select_sizes(sizes, op, shape->size, request->as);
    if (effort == MD_DS_BEST)
        md_ds_async_fill_wait(op);
    else if (effort == MD_DS_SOON)
        md_ds_async_fill_inherit(op);
    plan->is_early = plan->is_stand_in = md_ds_is_filling(op);
    const bool is_known = find_stored(&query, &digest, op, request);
    if (op->policy.select == MD_SELECT_MEASURE && effort == MD_DS_ONLY_READY && !is_known)
        plan->is_stand_in = true;
    else if (request->call && !is_known && may_measure(plan, op, effort))
        query.call = request->call;
    plan->by_reference = effort == MD_DS_REFERENCE_ONLY;
    uint64_t missing = 0;
    if (!plan->by_reference) {
        MD_TRY(choose_each(&missing, plan, op, &query, effort));
        md_ds_choose_chains(plan, op, &query, &missing);
    }
    plan->by_reference |= missing != 0;
    for (int32_t s = 0; plan->by_reference && s < op->n_stages; s++)
        plan->stage[s] = (md_ds_stage_choice){.pick = md_ds_empty_pick(MD_DS_REFERENCE), .wished = -1};
    return MD_OK;
}

md_status md_ds_choose(md_ds_plan **out, md_ds_op *op, const md_ds_request *request)
{
    md_ds_plan *plan = md_ds_plan_create(op);
    if (!plan)
        return md_fail_memory();
    md_status s = choose_stages(plan, op, request);
    if (s == MD_OK && plan->by_reference && request->effort == MD_DS_ONLY_READY)
        s = MD_NOT_FOUND;
    if (s == MD_OK && !plan->by_reference)
        s = md_ds_plan_finish(plan, op, request->shape);
    if (s != MD_OK) {
        free(plan);
        return s;
    }
    *out = plan;
    return MD_OK;
}
