/* The launches of a step with their parameters, and the places in them that change with each run. */
#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/launch_plan.h"
#include "sequence/shape.h"

#include <stdlib.h>
#include <string.h>

/* The launch plan of a step. Making one costs microseconds, most of them for tensor maps; a model has many layers, and
 * its equal steps need only other addresses. */
typedef struct md_sq_memo {
    const md_ds_op *op;
    const md_ds_plan *plan;
    md_ds_word launch_plan[MD_DS_LAUNCH_PLAN_WORDS];
} md_sq_memo;

/* Where the words of a call come from: the step's argument for each tensor and each scalar of the op. */
typedef struct sources {
    md_sq *sq;
    md_sq_shape *shape;
    md_sq_part *part;
    const md_sq_step *step;
    md_ds_launch_args launch_args;
} sources;

md_status md_sq_add_patch(md_sq_shape *shape, const md_sq_patch *patch)
{
    if (!md_grow(&shape->patch, (size_t)shape->n_patches, sizeof *shape->patch))
        return md_fail_memory();
    shape->patch[shape->n_patches++] = *patch;
    return MD_OK;
}

/* The argument from which word `source` of a call comes; NULL if the word never changes. */
static const md_sq_arg *argument_at(const sources *s, int32_t source, const md_ds_arg_spec **spec)
{
    const md_ds_arg_layout *layout = &s->part->op->layout;
    const bool is_data = source >= MD_DS_DATA && source < MD_DS_DATA + MD_DS_LAUNCH_PLAN_TENSORS,
               is_scalar = source >= MD_DS_SCALAR && source < MD_DS_DATA;
    for (int32_t i = 0; i < layout->n_args && (is_data || is_scalar); i++) {
        const md_ds_arg_spec *a = &layout->arg[i];
        if (a->is_scalar != is_scalar || a->number != source - (is_data ? MD_DS_DATA : MD_DS_SCALAR))
            continue;
        *spec = is_scalar ? a : NULL;
        return &s->step->arg[i];
    }
    return NULL;
}

/* Notes that the parameter `to` is word `source` of the call plus a constant. */
static md_status patch_word(const sources *s, md_kn_word *to, int32_t source)
{
    const md_ds_arg_spec *spec = NULL;
    const md_sq_arg *arg = argument_at(s, source, &spec);
    const int32_t external = arg ? md_sq_external_of(s->sq, arg) : -1;
    if (external < 0)
        return MD_OK;
    uint64_t *word = (uint64_t *)(void *)to;
    return md_sq_add_patch(s->shape, &(md_sq_patch){.external = external,
                                                    .word = word,
                                                    .scalar = spec,
                                                    .plus = spec ? 0 : *word - s->sq->word[external]});
}

static md_status place_map(const sources *s, md_kn_word *to, const md_ds_param_map *param_map, md_dev_map *map)
{
    const md_ds_arg_spec *spec = NULL;
    const uint64_t address = s->launch_args.launch_plan[map->plus] + map->offset;
    MD_TRY(md_ds_map_move(map, s->sq->runtime->dev, param_map->kernel, address));
    memcpy(to, map->word, sizeof map->word);
    const md_sq_arg *arg = argument_at(s, map->plus, &spec);
    const int32_t external = arg ? md_sq_external_of(s->sq, arg) : -1;
    if (external < 0)
        return MD_OK;
    md_dev_map *own = md_ds_alloc_lines(sizeof *own, 64);
    if (!own)
        return md_fail_memory();
    *own = *map;
    md_status status = md_sq_add_patch(s->shape, &(md_sq_patch){.external = external,
                                                                .word = (uint64_t *)(void *)to,
                                                                .plus = address - s->sq->word[external],
                                                                .map_of = param_map->kernel,
                                                                .map = own});
    if (status != MD_OK)
        free(own);
    return status;
}

static md_status fill(const sources *s, md_sq_launch *out, md_ds_launch_record *l)
{
    const md_ds_param_map *param_map = l->param_map;
    md_dev_map *maps = (md_dev_map *)(l + 1);
    md_ds_fill_params(out->params, param_map, s->launch_args.launch_plan,
                      (const md_ds_word *)(maps + param_map->n_maps));
    for (int32_t i = 0; i < param_map->n_maps; i++)
        MD_TRY(place_map(s, out->params + i * MD_KN_MAP_WORDS, param_map, &maps[i]));
    for (int32_t i = param_map->n_maps * MD_KN_MAP_WORDS; i < param_map->n_params; i++)
        MD_TRY(patch_word(s, &out->params[i], param_map->source[i]));
    for (int32_t i = 0; i < param_map->n_relocations; i++)
        MD_TRY(patch_word(s, &out->params[param_map->relocation[i].word], param_map->relocation[i].plus));
    return MD_OK;
}

static md_status add_launch(const sources *s, md_ds_launch_record *l)
{
    md_sq_shape *shape = s->shape;
    if (!md_grow(&shape->launch, (size_t)shape->n_launches, sizeof *shape->launch))
        return md_fail_memory();
    md_sq_launch *out = &shape->launch[shape->n_launches];
    *out = (md_sq_launch){l->param_map->kernel, l->geometry, NULL, l->param_map->n_params};
    out->params = md_ds_alloc_lines(((size_t)l->param_map->n_params + 1) * sizeof *out->params, 64);
    if (!out->params)
        return md_fail_memory();
    shape->n_launches++;
    s->part->n++;
    return fill(s, out, l);
}

static md_status counters_of(void **out, md_sq *sq)
{
    md_dev *dev = sq->runtime->dev;
    if (!sq->counters) {
        void *zeros = calloc(1, MD_KN_COUNTER_BYTES), *p = NULL;
        md_status s = zeros ? dev->ops->alloc(&p, dev, MD_KN_COUNTER_BYTES) : md_fail_memory();
        if (s == MD_OK)
            s = dev->ops->copy(dev, p, zeros, MD_KN_COUNTER_BYTES);
        free(zeros);
        if (s != MD_OK) {
            if (p)
                dev->ops->free(dev, p);
            return s;
        }
        sq->counters = p;
    }
    *out = sq->counters;
    return MD_OK;
}

/* Copies the extents of all tensors, since the message about an index out of range names them. */
static md_status keep_extents(md_sq_part *part, const md_ds_bound *bound)
{
    part->extent = malloc(sizeof bound->shape.extent);
    if (!part->extent)
        return md_fail_memory();
    memcpy(part->extent, bound->shape.extent, sizeof bound->shape.extent);
    return MD_OK;
}

static md_status set_bases(sources *s, const md_ds_launch_head *head, int32_t step, const md_ds_bound *bound)
{
    void *counters = NULL;
    s->part->needs_report = head->needs_report;
    if (head->needs_report)
        MD_TRY(keep_extents(s->part, bound));
    if (head->needs_counters)
        MD_TRY(counters_of(&counters, s->sq));
    s->launch_args.base[MD_DS_NOTHING] = 0;
    s->launch_args.base[MD_DS_MEMORY] = (uint64_t)(uintptr_t)s->sq->arena + s->part->memory;
    s->launch_args.base[MD_DS_COUNTERS] = (uint64_t)(uintptr_t)counters;
    s->launch_args.base[MD_DS_REPORT] = (uint64_t)(uintptr_t)&s->shape->report[step];
    return MD_OK;
}

static md_ds_launch_record *after(md_ds_launch_record *l)
{
    md_dev_map *maps = (md_dev_map *)(l + 1);
    return (md_ds_launch_record *)(uintptr_t)((md_ds_word *)(maps + l->param_map->n_maps) +
                                              l->param_map->n_relocations);
}

void md_sq_drop_memos(md_sq_shape *shape)
{
    free(shape->memo);
    shape->memo = NULL;
    shape->n_memos = 0;
}

/* The launch plan of a step in s->launch_args. False if there can be none. */
static bool plan_launches(sources *s, const md_ds_call_args *call, const md_ds_bound *bound)
{
    md_sq_shape *shape = s->shape;
    md_ds_op *op = s->part->op;
    md_ds_word *words = s->launch_args.launch_plan;
    for (int32_t i = 0; i < shape->n_memos; i++) {
        const md_sq_memo *m = &shape->memo[i];
        if (m->op == op && m->plan == s->part->plan &&
            !memcmp(m->launch_plan, call->key, (size_t)op->layout.n_key * sizeof *call->key)) {
            memcpy(words, m->launch_plan, sizeof m->launch_plan);
            return true;
        }
    }
    if (!md_ds_launch_plan_make(words, op, call, s->part->plan, bound))
        return false;
    if (md_grow(&shape->memo, (size_t)shape->n_memos, sizeof *shape->memo)) {
        md_sq_memo *m = &shape->memo[shape->n_memos++];
        m->op = op;
        m->plan = s->part->plan;
        memcpy(m->launch_plan, words, sizeof m->launch_plan);
    }
    return true;
}

md_status md_sq_make_launches(bool *is_made, md_sq_shape *shape, md_sq *sq, int32_t step, const md_ds_bound *bound)
{
    _Alignas(64) sources s = {sq, shape, &shape->part[step], &sq->step[step], {{0}}};
    md_ds_op *op = s.part->op;
    md_arg arg[MD_FX_MAX_ARGS];
    md_ds_merged_args room;
    md_ds_call_args call;
    *is_made = false;
    md_sq_args_of(arg, sq, s.step);
    const md_arg *args = md_sq_args_for(&room, op, s.step, arg);
    if (!args || !op->layout.is_possible || sq->runtime->verifies ||
        !md_ds_call_args_take(&call, &op->layout, args, s.step->n_args))
        return MD_OK;
    if (!plan_launches(&s, &call, bound))
        return MD_OK;
    memcpy(s.launch_args.data, call.data, sizeof call.data);
    memcpy(s.launch_args.scalar, call.scalar, sizeof call.scalar);
    md_ds_launch_head *head = md_ds_launch_head_of(op, s.launch_args.launch_plan);
    MD_TRY(set_bases(&s, head, step, bound));
    s.part->first = shape->n_launches;
    md_ds_launch_record *l = (md_ds_launch_record *)(head + 1);
    for (uint32_t i = 0; i < head->n_launches; i++, l = after(l))
        MD_TRY(add_launch(&s, l));
    *is_made = true;
    return MD_OK;
}

static md_status set_scalar(const md_sq_patch *p, const md_sq *sq)
{
    md_kn_word from = {.i = (int64_t)sq->word[p->external]};
    const md_arg arg = sq->external[p->external].is_real ? md_s(from.d) : md_i(from.i);
    return md_ds_take_scalar((md_ds_word *)p->word, p->scalar, &arg)
               ? MD_OK
               : md_fail(MD_INTERNAL, "a scalar of a sequence has the wrong type");
}

md_status md_sq_apply(md_sq_shape *shape, const md_sq *sq)
{
    for (int32_t i = 0; i < shape->n_patches; i++) {
        md_sq_patch *p = &shape->patch[i];
        const uint64_t word = sq->word[p->external];
        if (word == shape->word[p->external])
            continue;
        if (p->scalar) {
            MD_TRY(set_scalar(p, sq));
        } else if (p->map_of) {
            MD_TRY(md_ds_map_move(p->map, sq->runtime->dev, p->map_of, word + p->plus));
            memcpy(p->word, p->map->word, sizeof p->map->word);
        } else {
            *p->word = word + p->plus;
        }
    }
    memcpy(shape->word, sq->word, (size_t)sq->n_externals * sizeof *sq->word);
    return MD_OK;
}
