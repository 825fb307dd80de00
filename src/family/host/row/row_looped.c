/* Family row_looped: rows of any length. Chunks are merged in one pass over memory if the program allows it; otherwise
 * each level is a pass. */
#include "family/host/row/row.h"
#include "family/numeric.h"

enum { CHUNK, PREFETCH, STRIDED, NONTEMPORAL };
enum { ANY_CHUNK = 2048 };

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_row *)spec = (md_fa_row){.source = "host/row_looped.c",
                                     .merges = true,
                                     .chunk = config->value[CHUNK],
                                     .prefetch = config->value[PREFETCH],
                                     .is_strided = config->value[STRIDED],
                                     .is_streaming = config->value[NONTEMPORAL]};
    return true;
}

/* Configs that print the same text as another one are not legal. */
static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    if (row->n_levels < 2 && (!config->value[PREFETCH] || config->value[CHUNK] != ANY_CHUNK))
        return false;
    if (!row->is_online && config->value[CHUNK] != ANY_CHUNK)
        return false;
    return md_fa_row_stores_pay(target, size, config->value[NONTEMPORAL], config->value[STRIDED]);
}

/* The same as row_persistent, but for merged chunks. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const bool has_chunks = md_fa_is_online(target);
    (void)config;
    return (md_fa_class){.group = has_chunks ? "row_chunks" : "row",
                         .field = {has_chunks ? "chunk" : NULL},
                         .is_repeatable = true,
                         .is_invariant = true};
}

const md_fa_family md_fa_host_row_looped = {
    .name = "row_looped",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_reduction = true,
    .n_fields = 4,
    .field = {{"chunk", ANY_CHUNK, 4, {ANY_CHUNK, 4096, 1024, 512}},
              {"prefetch", 1, 2, {1, 0}},
              {"strided", 0, 2, {0, 1}},
              {"nontemporal", 0, 2, {0, 1}}},
    .kind = &md_fa_host_row_kind,
    .spec_of = spec_of,
    .applies = md_fa_row_applies,
    .legal = legal,
    .numeric = numeric,
};
