/* Family column: reductions along an axis whose elements are not neighbours in memory. Lanes run along the last outer
 * index. */
#include "base/dtype.h"
#include "family/host/row/row.h"

enum { TILE, STRIDED, NONTEMPORAL };
enum { NARROW = 16 }; /* vectors of a block, in any stage */

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_row *)spec = (md_fa_row){.source = "host/column.c",
                                     .is_column = true,
                                     .tile = config->value[TILE],
                                     .is_strided = config->value[STRIDED],
                                     .is_streaming = config->value[NONTEMPORAL]};
    return true;
}

static bool applies(const md_fa_target *target)
{
    return md_fa_row_applies(target) && md_fa_stage(target)->n_outer > 0;
}

/* Blocks of rows of narrow elements are short in bytes. Wider ones are for one pass over memory, as those of several
 * passes should stay in a cache, and for one sum, as results that wait are on the stack. */
static bool may_be_wide(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    const md_fx_node *n = row->reduction[0].body;
    while (n->kind == MD_FX_CAST)
        n = n->arg[0];
    return row->n_reductions == 1 && !row->has_elements && n->kind == MD_FX_LOAD &&
           md_dtype_bits(target->program->formula->tensor[n->id].dtype) <= 16;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    return (config->value[TILE] <= NARROW || may_be_wide(target)) &&
           md_fa_row_stores_pay(target, size, config->value[NONTEMPORAL], config->value[STRIDED]);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "column", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_column = {
    .name = "column",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_reduction = true,
    .n_fields = 3,
    .field = {{"tile", 16, 4, {64, 16, 4, 1}}, {"strided", 0, 2, {0, 1}}, {"nontemporal", 0, 2, {0, 1}}},
    .kind = &md_fa_host_row_kind,
    .spec_of = spec_of,
    .applies = applies,
    .legal = legal,
    .numeric = numeric,
};
