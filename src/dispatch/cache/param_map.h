/* A param map: where the parameters of a launch come from at each call. Made once per launch of a variant, and valid
 * for every shape. */
#ifndef MD_DISPATCH_CACHE_PARAM_MAP_H
#define MD_DISPATCH_CACHE_PARAM_MAP_H

#include "dispatch/op.h"

/* A launch plan, after the data of a call. Param maps number these words: 0 is the launch plan's first, those before it
 * are negative. */
typedef struct md_ds_launch_args {
    md_ds_word base[MD_DS_LAUNCH_PLAN_BASES]; /* md_ds_base */
    md_ds_word scalar[MD_DS_LAUNCH_PLAN_SCALARS];
    md_ds_word data[MD_DS_LAUNCH_PLAN_TENSORS];
    md_ds_word launch_plan[MD_DS_LAUNCH_PLAN_WORDS]; /* an even number of words */
} md_ds_launch_args;

enum {
    MD_DS_DATA = -MD_DS_LAUNCH_PLAN_TENSORS, /* of the first tensor */
    MD_DS_SCALAR = MD_DS_DATA - MD_DS_LAUNCH_PLAN_SCALARS,
    MD_DS_BASE = MD_DS_SCALAR - MD_DS_LAUNCH_PLAN_BASES
};
typedef enum md_ds_base { MD_DS_NOTHING, MD_DS_MEMORY, MD_DS_COUNTERS, MD_DS_REPORT } md_ds_base;

/* What a launch plan has of all its launches (launch_plan.h). */
typedef struct md_ds_launch_head {
    uint64_t memory_bytes; /* temporaries and workspace */
    uint16_t n_launches;
    uint16_t has_slow_samples; /* sampled calls take the slow path; else they are timed around the launch */
    uint8_t needs_report, needs_counters; /* report: of synchronous devices */
    uint16_t every; /* the sample rate: one call in so many is timed; a power of two, 0: none */
    /* how the operands are packed, and where they are in the call at hand (md_ds_launch_plan_fits); NULL: none is */
    const struct md_ds_packing *packing;
    void *packed;
} md_ds_launch_head;

/* A parameter that is a literal of the launch plan plus another word. */
typedef struct md_ds_relocation {
    int16_t word; /* number of the parameter */
    int16_t plus; /* number of the word that is added */
} md_ds_relocation;

_Static_assert(offsetof(md_ds_call_args, key) == offsetof(md_ds_launch_args, launch_plan) &&
                   offsetof(md_ds_call_args, data) == offsetof(md_ds_launch_args, data) &&
                   offsetof(md_ds_call_args, scalar) == offsetof(md_ds_launch_args, scalar),
               "param maps number the words of both alike");

typedef struct md_ds_param_map {
    const md_dev_kernel *kernel;
    const char *variant; /* the variant's name */
    int32_t n_params, n_maps, n_relocations;
    bool needs_report, needs_counters, needs_packed;
    const md_ds_relocation *relocation; /* one per literal, in order */
    int16_t
        source[]; /* by parameter: number of its word; 0 for relocated ones. Not used for the words of tensor maps */
} md_ds_param_map;

/** The param map of one launch of a ready variant: found, or made. The variant owns it. *out is NULL if only the slow
 * call can serve this launch. Thread-safe. */
md_status md_ds_param_map_of(const md_ds_param_map **out, const md_ds_op *op, md_bd_variant *variant, int32_t launch);

/* A launch of a plan. */
typedef struct md_ds_stage_launch {
    const md_ds_plan *plan;
    size_t workspace_offset; /* of its stage */
    md_bd_variant *variant;
    int32_t launch; /* of the variant */
} md_ds_stage_launch;

/** Computes the literals of a launch, and the tensor maps, which the device makes. `call`: as for packing, without
 * memory. False if the device cannot make a map. */
bool md_ds_literals(md_ds_word *out, md_dev_map *maps, const md_ds_op *op, const md_ds_param_map *param_map,
                    const md_ds_stage_launch *from, const md_kn_call *call);

/** Computes the parameters of a call but for tensor maps. `from`: launch_plan of md_ds_launch_args, or key of
 * md_ds_call_args; `literals`: from md_ds_literals. */
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
