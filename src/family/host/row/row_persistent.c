/* Family row_persistent: rows that stay in the cache. Each level is a pass, sums are exact two-pass sums, expensive
 * values are kept. */
#include "family/host/row/row.h"

enum { CAP, PREFETCH, STRIDED, NONTEMPORAL };

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_row *)spec = (md_fa_row){.source = "host/row_persistent.c",
                                     .keeps = true,
                                     .capacity = config->value[CAP],
                                     .prefetch = config->value[PREFETCH],
                                     .is_strided = config->value[STRIDED],
                                     .is_streaming = config->value[NONTEMPORAL]};
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    if (md_st_size(target->program, st->axis, size) > config->value[CAP])
        return false;
    return md_fa_row_stores_pay(target, size, config->value[NONTEMPORAL], config->value[STRIDED]);
}

/* Lane and accumulator of an element depend only on its distance from the row's first element. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "row", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_row_persistent = {
    .name = "row_persistent",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 4,
    .field = {{"cap", 16384, 4, {4096, 16384, 65536, 262144}},
              {"prefetch", 1, 2, {1, 0}},
              {"strided", 0, 2, {0, 1}},
              {"nontemporal", 0, 2, {0, 1}}},
    .kind = &md_fa_host_row_kind,
    .spec_of = spec_of,
    .applies = md_fa_row_applies,
    .legal = legal,
    .numeric = numeric,
};
