/* Rows of any length: chunks merged in one pass over memory where the program can be, a pass a level elsewhere. */
#include "family/host/host.h"
#include "family/host/row/row.h"

enum { CHUNK, PREFETCH, STRIDED, NONTEMPORAL };
enum { ANY_CHUNK = 2048 };

static md_fa_row row_of(const md_fa_config *config)
{
    return (md_fa_row){.source = "host/row_looped.c",
                       .merges = true,
                       .chunk = config->value[CHUNK],
                       .prefetch = config->value[PREFETCH],
                       .is_strided = config->value[STRIDED],
                       .is_streaming = config->value[NONTEMPORAL]};
}

/* Configs that make the same text as another are not looked at. */
static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_row *row = &target->program->stage[target->stage].row;
    if (row->n_levels < 2 && (!config->value[PREFETCH] || config->value[CHUNK] != ANY_CHUNK))
        return false;
    if (!row->is_online && config->value[CHUNK] != ANY_CHUNK)
        return false;
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_row_can_stream(target, size));
}

MD_FA_FORWARD(md_fa_row, row_of, shape->size)

const md_fa_family md_fa_host_row_looped = {
    .name = "row_looped",
    .device = MD_DEV_HOST,
    .is_reduction = true,
    .n_fields = 4,
    .field = {{"chunk", ANY_CHUNK, 4, {ANY_CHUNK, 4096, 1024, 512}},
              {"prefetch", 1, 2, {1, 0}},
              {"strided", 0, 2, {0, 1}},
              {"nontemporal", 0, 2, {0, 1}}},
    .applies = md_fa_row_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
