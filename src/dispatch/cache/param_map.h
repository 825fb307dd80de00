/* Where the parameters of a launch come from, call after call: made once for a launch of a variant, valid for every
 * shape. */
#ifndef MD_DISPATCH_CACHE_PARAM_MAP_H
#define MD_DISPATCH_CACHE_PARAM_MAP_H

#include "dispatch/types.h"

/* A plan with the data of a call in front of it: what recipes number, from the plan's first word on, data and
 * scalars below 0. */
typedef struct md_ds_plan_args {
    md_ds_word base[MD_DS_LAUNCH_PLAN_BASES]; /* md_ds_base */
    md_ds_word scalar[MD_DS_LAUNCH_PLAN_SCALARS];
    md_ds_word data[MD_DS_LAUNCH_PLAN_TENSORS];
    md_ds_word launch_plan[MD_DS_LAUNCH_PLAN_WORDS]; /* an even number of words */
} md_ds_plan_args;

enum {
    MD_DS_DATA = -MD_DS_LAUNCH_PLAN_TENSORS, /* of the first tensor */
    MD_DS_SCALAR = MD_DS_DATA - MD_DS_LAUNCH_PLAN_SCALARS,
    MD_DS_BASE = MD_DS_SCALAR - MD_DS_LAUNCH_PLAN_BASES
};
typedef enum md_ds_base { MD_DS_NOTHING, MD_DS_MEMORY, MD_DS_COUNTERS, MD_DS_REPORT } md_ds_base;

/* A parameter, or the address of a map, that is a word of the plan's own, plus another word. */
typedef struct md_ds_relocation {
    int16_t word; /* of the parameters */
    int16_t plus; /* number of what is added */
} md_ds_relocation;

_Static_assert(offsetof(md_ds_call_args, key) == offsetof(md_ds_plan_args, launch_plan) &&
                   offsetof(md_ds_call_args, data) == offsetof(md_ds_plan_args, data) &&
                   offsetof(md_ds_call_args, scalar) == offsetof(md_ds_plan_args, scalar),
               "recipes number both alike");

typedef struct md_ds_param_map {
    const md_dev_kernel *kernel;
    const char *variant; /* its name */
    int32_t n_params, n_maps, n_relocations;
    bool needs_report, needs_counters;
    const md_ds_relocation *relocation; /* one literal each, in order */
    int16_t source[]; /* of each parameter behind the maps; those that are fixed have 0 here */
} md_ds_param_map;

/** Of one launch of a variant that is ready: found, or made. Belongs to the variant. *out NULL where only the long
 * way can do it. */
md_status md_ds_param_map_of(const md_ds_param_map **out, const md_ds_op *op, md_bd_variant *variant, int32_t launch);

/** The literals of a launch; maps in front of them, which the device makes. `call` as for packing, without memory.
 * False where the device cannot. */
bool md_ds_literals(md_ds_word *out, md_dev_map *maps, const md_ds_op *op, const md_ds_param_map *param_map,
                    const md_bd_variant *variant, int32_t launch, const md_ds_plan *plan, size_t workspace_offset,
                    const md_kn_call *call);

/** The parameters of a call. `from`: the plan of a md_ds_plan_args, or the key of a md_ds_call_args; `literals` as
 * md_ds_literals made them. */
static inline void md_ds_fill_params(md_kn_word *params, const md_ds_param_map *param_map, const md_ds_word *from,
                                     const md_ds_word *literals)
{
    md_ds_word *to = (md_ds_word *)params;
    const int16_t *source = param_map->source, *end = source + param_map->n_params;
    int32_t at = param_map->n_maps * MD_KN_MAP_WORDS;
    to += at;
    for (source += at; source + 4 <= end; source += 4, to += 4) {
        to[0] = from[source[0]];
        to[1] = from[source[1]];
        to[2] = from[source[2]];
        to[3] = from[source[3]];
    }
    for (; source < end; source++)
        *to++ = from[*source];
    to = (md_ds_word *)params;
    for (int32_t i = 0; i < param_map->n_relocations; i++)
        to[param_map->relocation[i].word] = literals[i] + from[param_map->relocation[i].plus];
}

#endif
