/* Packing parameters, checking envelopes, freeing sources. */
#include "kernel/kernel.h"

#include <string.h>

static md_kn_word word_of(const md_kn_param *param, const md_kn_call *call)
{
    const md_kn_shape *shape = call->shape;
    switch ((md_kn_param_kind)param->kind) {
    case MD_KN_POINTER:
        return (md_kn_word){.p = call->data[param->a]};
    case MD_KN_STRIDE:
        return (md_kn_word){.i = shape->stride[param->a][param->b]};
    case MD_KN_EXTENT:
        return (md_kn_word){.i = shape->extent[param->a][param->b]};
    case MD_KN_SIZE:
        return (md_kn_word){.i = shape->size[param->a]};
    case MD_KN_SCALAR:
        return call->scalar[param->a];
    case MD_KN_WORKSPACE:
        return (md_kn_word){.p = call->workspace ? (char *)call->workspace + param->b : NULL};
    case MD_KN_PACKED:
        return (md_kn_word){.p = call->packed};
    case MD_KN_COUNTERS:
        return (md_kn_word){.p =
                                call->counters ? (char *)call->counters + (size_t)param->b * MD_KN_COUNTER_UNIT : NULL};
    case MD_KN_REPORT:
        return (md_kn_word){.p = call->report};
    case MD_KN_BLOCKS:
        return (md_kn_word){.i = call->blocks};
    case MD_KN_STAGE:
        return (md_kn_word){.p = (void *)(uintptr_t)call};
    case MD_KN_MAP:
    case MD_KN_PAD:
        break;
    }
    return (md_kn_word){.i = 0};
}

void md_kn_pack(md_kn_word *out, const md_kn_param *list, int32_t n, const md_kn_call *call)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = word_of(&list[i], call);
}

/* Whether the points of the row exceed the limit, without overflow. */
static bool is_row_longer(const md_kn_envelope *e, const md_kn_shape *shape)
{
    int64_t points = 1;
    for (int32_t i = 0; i < e->n_row_dims; i++) {
        int64_t size = shape->size[e->row_dim[i]];
        if (size == 0)
            return false;
        if (size > e->row_points_max / points)
            return true;
        points *= size;
    }
    return points > e->row_points_max;
}

const char *md_kn_envelope_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    return md_kn_envelope_miss_of(envelope, shape, MD_KN_MAX_DIMS);
}

const char *md_kn_envelope_miss_of(const md_kn_envelope *envelope, const md_kn_shape *shape, int32_t n_dims)
{
    if (envelope->unit & ~shape->unit)
        return "last axis is not contiguous";
    if (envelope->contiguous & ~shape->contiguous)
        return "strided tensor";
    if ((envelope->aligned & ~shape->aligned) | (envelope->aligned16 & ~shape->aligned16))
        return "unaligned tensor";
    if (envelope->row_points_max > 0 && is_row_longer(envelope, shape))
        return "longer than it was compiled for";
    for (int32_t d = 0; d < n_dims; d++) {
        if (envelope->hi[d] > 0 && shape->size[d] > envelope->hi[d])
            return "dim larger than compiled";
        if (shape->size[d] < envelope->lo[d])
            return "dim smaller than compiled";
    }
    return envelope->rule_miss ? envelope->rule_miss(envelope, shape) : NULL;
}

void md_kn_source_finish(md_kn_source *source)
{
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++)
        md_strbuf_finish(&source->launch[i].text);
    memset(source, 0, sizeof *source);
}
