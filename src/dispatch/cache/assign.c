/* Makes shape entries from the names of variants, and puts them in the place of what the op chose by itself. */
#include "dispatch/cache/table.h"

#include "base/status.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/space/points.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/select/select.h"
#include "dispatch/select/stored.h"
#include "dispatch/select/plan.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* Adds a variant that the pool lacks. */
static md_status add_variant(int32_t *number, const md_ds_op *op, md_ds_pool *pool, const char *name)
{
    md_ds_candidate candidate = {.limit = MD_DS_MAX_VARIANTS};
    MD_TRY(md_fa_parse_for(&candidate.family, &candidate.config, &pool->target, name));
    if (!md_fa_applies(candidate.family, &pool->target) ||
        !md_ds_family_allowed(candidate.family, &pool->target, &pool->policy))
        return md_fail(MD_UNSUPPORTED, "op %s: variant '%s' does not apply", op->name, name);
    if (atomic_load_explicit(&op->frozen, memory_order_relaxed) != MD_DS_NOT_FROZEN)
        return md_fail(MD_UNSUPPORTED, "op %s is frozen, and variant '%s' is not built", op->name, name);
    MD_TRY(md_ds_pool_add(number, pool, &candidate));
    return *number >= 0 ? MD_OK : md_fail(MD_UNSUPPORTED, "op %s: no place for variant '%s'", op->name, name);
}

/* Finds or adds the variant, and waits for its build and for what its library loads. */
static md_status find_variant(int32_t *out, const md_ds_op *op, int32_t stage, const md_kn_shape *shape,
                              const char *name)
{
    md_ds_pool *pool = &op->stage[stage];
    *out = md_ds_pool_find(pool, name);
    if (*out < 0)
        MD_TRY(add_variant(out, op, pool, name));
    (void)md_bd_variant_wait(pool->variant[*out]);
    const char *why =
        pool->pinned >= 0 && pool->pinned != *out ? "another one is pinned" : md_ds_misfit(pool, *out, shape);
    if (!why)
        (void)md_bd_variant_load(pool->variant[*out], shape, MD_BD_LOAD_WAIT);
    return why ? md_fail(MD_UNSUPPORTED, "op %s: variant '%s' cannot serve here: %s", op->name, name, why) : MD_OK;
}

static md_status make_plan(md_ds_plan *plan, const md_ds_op *op, const md_kn_shape *shape, const char *const *variant)
{
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_stage_choice *choice = &plan->stage[s];
        *choice = (md_ds_stage_choice){.pick = md_ds_empty_pick(MD_DS_GIVEN), .wished = -1, .unloaded = -1};
        if (!(md_ds_work(&op->stage[s].target, shape->size) <= MD_DS_MOST_WORK))
            return md_fail(MD_INVALID_ARGUMENT, "op %s: a shape of more than 10^18 operations and bytes", op->name);
        choice->is_idle = strcmp(variant[s], "idle") == 0;
        if (!choice->is_idle)
            MD_TRY(find_variant(&choice->pick.variant, op, s, shape, variant[s]));
    }
    if (!md_ds_runs_all_once(plan, op))
        return md_fail(MD_INVALID_ARGUMENT, "op %s: either a chain or all of its parts must be idle", op->name);
    return md_ds_plan_finish(plan, op, shape);
}

md_status md_ds_assign_make(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, const char *const *variant)
{
    md_kn_shape shape;
    md_ds_as as;
    if (!md_ds_shape_of_key(&shape, &as, op, key->word, key->n))
        return md_fail(MD_INVALID_ARGUMENT, "op %s: the key is that of no shape", op->name);
    md_ds_async_fill_wait(op);
    md_ds_plan *plan = md_ds_plan_create(op);
    if (!plan)
        return md_fail_memory();
    md_status s = make_plan(plan, op, &shape, variant);
    if (s != MD_OK) {
        free(plan);
        return s;
    }
    const md_ds_request request = {.shape = &shape, .as = &as};
    return md_ds_shape_entry_of_plan(out, op, &request, plan);
}

md_status md_ds_assign(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry)
{
    const md_digest128 shape = md_hash128(key->word, (size_t)key->n * sizeof *key->word);
    const md_ds_plan *plan = md_ds_plan_of(entry);
    md_ds_log_choice(op, entry->size, plan, "was given");
    for (int32_t s = 0; s < op->n_stages; s++) {
        if (plan->stage[s].is_idle)
            continue;
        const md_status status = md_ds_stored_give(op, s, shape, plan->stage[s].pick.variant);
        if (status != MD_OK) {
            md_ds_shape_entry_free(entry);
            return status;
        }
    }
    md_ds_table_replace(op, key, entry);
    return MD_OK;
}
