/* Describes shapes and choices in words, for traces and reports. */
#include "dispatch/select/describe.h"

#include <stdio.h>

void md_ds_shape_text(char *out, size_t n_bytes, const md_fx_formula *formula, const int64_t *size)
{
    size_t used = 0;
    out[0] = 0;
    for (int32_t d = 0; d < formula->n_dims && used < n_bytes; d++)
        if (formula->dim[d].size < 0)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%s=%lld", used ? " " : "", formula->dim[d].name,
                                     (long long)size[d]);
    if (used == 0)
        snprintf(out, n_bytes, "static");
}

const char *md_ds_variant_name(const md_ds_op *op, int32_t stage, int32_t variant)
{
    return variant >= 0 ? op->stage[stage].variant[variant]->name : "reference";
}

static void trace_stage(const md_ds_op *op, int32_t stage, const md_ds_pick *p, const char *shape)
{
    const md_trace_arg args[] = {
        {.name = "shape", .text = shape},
        {.name = "stage", .number = stage},
        {.name = "variant", .text = md_ds_variant_name(op, stage, p->variant)},
        {.name = "why", .text = md_ds_source_name(p->source)},
        {.name = "us", .number = p->us},
        {.name = "distance", .number = p->distance},
        {.name = "runner_up", .text = p->runner_up >= 0 ? md_ds_variant_name(op, stage, p->runner_up) : "none"},
        {.name = "margin", .number = p->margin},
        {0}};
    md_trace_mark(op->runtime->dev->trace, "choice", op->name, args);
}

void md_ds_trace_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan)
{
    char shape[160];
    if (!op->runtime->dev->trace)
        return;
    md_ds_shape_text(shape, sizeof shape, op->formula, size);
    for (int32_t s = 0; s < op->n_stages; s++)
        trace_stage(op, s, &plan->stage[s].pick, shape);
}
