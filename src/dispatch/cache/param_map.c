/* Makes param maps, and the literals that a launch plan keeps for one. */
#include "dispatch/cache/param_map.h"

#include "base/status.h"

#include <stdlib.h>

/* The word of the key where a tensor's sizes begin; its strides follow. -1: a temporary. */
static int32_t key_of(const md_ds_op *op, int32_t tensor)
{
    int32_t at = 0;
    for (int32_t i = 0; i < op->layout.n_args; i++) {
        if (op->layout.arg[i].is_scalar)
            continue;
        if (op->formula->args[i].id == tensor)
            return at;
        at += 2 * op->layout.arg[i].rank;
    }
    return -1;
}

/* The word of the key of a size that is an argument, which stands behind all tensors. -1: the dim has none. */
static int32_t key_of_size(const md_ds_op *op, int32_t dim)
{
    const md_fx_formula *f = op->formula;
    int32_t at = op->layout.n_key - 1 - op->layout.n_sizes;
    for (int32_t i = 0; i < f->n_args; i++) {
        const md_fx_scalar *s = f->args[i].is_scalar ? &f->scalar[f->args[i].id] : NULL;
        if (s && s->is_size && s->dim == dim)
            return at;
        at += s && s->is_size;
    }
    return -1;
}

/* The word of the key that is the size of a dim. -1 if no argument has it. */
static int32_t key_of_dim(const md_ds_op *op, int32_t dim)
{
    const md_fx_formula *f = op->formula;
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            if (op->layout.number[t] >= 0 && f->tensor[t].dim[a] == dim && !f->tensor[t].at_least[a])
                return key_of(op, t) + a;
    return key_of_size(op, dim);
}

/* Where one parameter comes from: a word of the call, or a literal plus a word (is_fixed). */
typedef struct place {
    int32_t source; /* number of the word */
    int32_t plus; /* number of the word that is added to the literal */
    bool is_fixed;
    bool is_possible; /* false: only the slow call can set it */
} place;

static place plain(int32_t key)
{
    return key >= 0 ? (place){.source = key, .is_possible = true}
                    : (place){.plus = MD_DS_BASE, .is_fixed = true, .is_possible = true};
}

static place fixed(md_ds_base base)
{
    return (place){.plus = MD_DS_BASE + (int32_t)base, .is_fixed = true, .is_possible = true};
}

/* The word of a launch plan that has the address of packed operands. */
static int32_t packed_word(const md_ds_op *op)
{
    return op->layout.n_key + op->layout.n_tensors + op->layout.n_outputs +
           (int32_t)(offsetof(md_ds_launch_head, packed) / sizeof(md_ds_word));
}

static place place_of(const md_ds_op *op, const md_kn_param *param)
{
    int32_t at;
    switch ((md_kn_param_kind)param->kind) {
    case MD_KN_POINTER:
        if (op->kept_tensors >> param->a & 1)
            return (place){.source = packed_word(op), .is_possible = true};
        return op->layout.number[param->a] >= 0
                   ? (place){.source = MD_DS_DATA + op->layout.number[param->a], .is_possible = true}
                   : fixed(MD_DS_MEMORY);
    case MD_KN_SCALAR:
        return (place){.source = MD_DS_SCALAR + param->a, .is_possible = true};
    case MD_KN_STRIDE:
        at = key_of(op, param->a);
        return plain(at >= 0 ? at + op->formula->tensor[param->a].rank + param->b : -1);
    case MD_KN_EXTENT:
        at = key_of(op, param->a);
        return plain(at >= 0 ? at + param->b : -1);
    case MD_KN_SIZE:
        return plain(key_of_dim(op, param->a));
    case MD_KN_WORKSPACE:
        return fixed(MD_DS_MEMORY);
    case MD_KN_PACKED:
        return (place){.source = packed_word(op), .is_possible = true};
    case MD_KN_COUNTERS:
        return fixed(MD_DS_COUNTERS);
    case MD_KN_REPORT:
        return fixed(op->report.kernel ? MD_DS_NOTHING : MD_DS_REPORT);
    case MD_KN_STAGE:
        return (place){0};
    case MD_KN_MAP:
        return (place){.is_possible = true};
    case MD_KN_BLOCKS:
    case MD_KN_PAD:
        break;
    }
    return fixed(MD_DS_NOTHING);
}

static md_ds_param_map *make(const md_ds_op *op, const md_bd_variant *v, int32_t launch)
{
    const int32_t n = v->n_params[launch];
    md_ds_param_map *map = calloc(1, sizeof *map + (size_t)n * (sizeof *map->source + sizeof *map->relocation));
    if (!map)
        return NULL;
    md_ds_relocation *relocation = (md_ds_relocation *)(void *)(map->source + n);
    int32_t n_map_words = 0;
    *map = (md_ds_param_map){.kernel = v->kernel[launch], .variant = v->name, .n_params = n, .relocation = relocation};
    for (int32_t i = 0; i < n; i++) {
        const md_kn_param *param = &v->param[launch][i];
        place p = place_of(op, param);
        if (!p.is_possible) {
            map->kernel = NULL;
            return map;
        }
        n_map_words += param->kind == MD_KN_MAP;
        map->source[i] = (int16_t)p.source;
        if (p.is_fixed)
            relocation[map->n_relocations++] = (md_ds_relocation){(int16_t)i, (int16_t)p.plus};
        map->needs_counters |= param->kind == MD_KN_COUNTERS;
        map->needs_packed |= p.source == packed_word(op);
        map->needs_report |= p.is_fixed && p.plus == MD_DS_BASE + (int32_t)MD_DS_REPORT;
    }
    map->n_maps = n_map_words / MD_KN_MAP_WORDS;
    if (map->n_maps > MD_KN_MAX_MAPS || (map->n_maps > 0 && !op->runtime->dev->ops->map_make) || v->is_function[launch])
        map->kernel = NULL;
    return map;
}

md_status md_ds_param_map_of(const md_ds_param_map **out, const md_ds_op *op, md_bd_variant *variant, int32_t launch)
{
    void *known = atomic_load_explicit(&variant->attached[launch], memory_order_acquire);
    if (!known) {
        md_ds_param_map *made = make(op, variant, launch);
        if (!made)
            return md_fail_memory();
        if (atomic_compare_exchange_strong_explicit(&variant->attached[launch], &known, made, memory_order_acq_rel,
                                                    memory_order_acquire))
            known = made;
        else
            free(made);
    }
    const md_ds_param_map *map = known;
    *out = map->kernel ? map : NULL;
    return MD_OK;
}

/* The part of a parameter that does not come from the call. */
static uint64_t literal(const md_ds_op *op, const md_ds_stage_launch *from, const md_kn_param *param,
                        const md_kn_call *call)
{
    md_kn_word word;
    switch ((md_kn_param_kind)param->kind) {
    case MD_KN_POINTER:
        return from->plan->temp_offset[param->a];
    case MD_KN_WORKSPACE: /* products have the parameter even if they need no workspace */
        return from->plan->workspace_bytes > 0 ? from->workspace_offset + param->b : 0;
    case MD_KN_COUNTERS:
        return (uint64_t)param->b * MD_KN_COUNTER_UNIT;
    case MD_KN_REPORT:
        return (uint64_t)(uintptr_t)op->report.kernel;
    default:
        md_kn_pack(&word, param, 1, call);
        return (uint64_t)word.i;
    }
}

bool md_ds_literals(md_ds_word *out, md_dev_map *maps, const md_ds_op *op, const md_ds_param_map *param_map,
                    const md_ds_stage_launch *from, const md_kn_call *call)
{
    md_dev *dev = op->runtime->dev;
    for (int32_t i = 0; i < param_map->n_maps; i++) {
        if (dev->ops->map_make(&maps[i], dev, param_map->kernel, i, call) != MD_OK)
            return false;
        int32_t t = maps[i].tensor;
        if (t >= 0 && op->kept_tensors >> t & 1) {
            maps[i].plus = (int16_t)packed_word(op);
        } else if (t >= 0 && op->layout.number[t] >= 0) {
            maps[i].plus = (int16_t)(MD_DS_DATA + op->layout.number[t]);
        } else {
            maps[i].plus = (int16_t)(MD_DS_BASE + (int32_t)MD_DS_MEMORY);
            maps[i].offset += t >= 0 ? from->plan->temp_offset[t] : from->workspace_offset;
        }
    }
    const md_kn_param *param = from->variant->param[from->launch];
    for (int32_t i = 0; i < param_map->n_relocations; i++)
        out[i] = literal(op, from, &param[param_map->relocation[i].word], call);
    return true;
}
