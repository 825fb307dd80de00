/* The kind of the GPU families of chains. */
#include "family/cuda/chain/chain_kind.h"

#include "base/status.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>

_Static_assert(sizeof(md_fa_chain_spec) <= sizeof(md_fa_spec), "there is room for it");

void md_fa_chain_define(md_fa_chain_spec *spec, const char *name, int64_t value)
{
    spec->define[spec->n_defines].name = name;
    spec->define[spec->n_defines++].value = value;
}

void md_fa_chain_print_defines(md_strbuf *out, const md_fa_chain_spec *spec)
{
    for (int32_t i = 0; i < spec->n_defines; i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId64 "\n", spec->define[i].name, spec->define[i].value);
    md_strbuf_add(out, spec->function);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_chain_spec *s = spec;
    md_fa_cuda_chain_envelope(out, target, s->depth, s->width, s->most_rows);
    for (int32_t d = 0; d < target->program->formula->n_dims; d++)
        out->lo[d] = MD_MAX(out->lo[d], s->least_size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_chain_spec *s = spec;
    md_strbuf defines = {0};
    *out = (md_kn_source){0};
    md_fa_chain_print_defines(&defines, s);
    return md_fa_cuda_chain_emit(out, target, &s->text, &defines);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_chain_spec *s = spec;
    md_fa_chain sized;
    if (!md_fa_chain_measure(&sized, target, shape->size) || sized.batches == 0 || sized.rows == 0)
        return;
    if (s->few.rows > 0) {
        md_fa_few_rows_geometry(out, target, &sized, &s->few);
        return;
    }
    const int64_t parts = md_fa_cuda_chain_tiles(&sized, s->rows) * s->split;
    out->launch[0] = md_fa_cuda_launch(s->most_blocks > 0 ? MD_MIN(parts, s->most_blocks) : parts, s->threads);
    out->launch[0].scratch_bytes = s->shared;
    out->launch[0].overlaps = true;
    if (s->split > 1)
        out->workspace_bytes = parts * s->part * 4;
}

const md_fa_kind md_fa_cuda_chain_kind = {
    .checks_config = true, .envelope = envelope, .emit = emit, .geometry = geometry};
