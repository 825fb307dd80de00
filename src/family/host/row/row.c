/* Row programs on the host: text, envelope and geometry. */
#include "family/emit.h"
#include "family/host/row/row.h"

#include "base/status.h"
#include "codegen/row/range.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"

#include <inttypes.h>

enum { MANY_POINTS = 16384 }; /* more do not matter for the grain */

md_cg_bytes md_fa_row_bytes(const md_fa_target *target, const md_fa_row *row)
{
    return row->is_column || row->is_strided ? MD_CG_NO_BYTES : md_cg_byte_lanes(target->program, target->stage);
}

static md_cg_row_options options_of(const md_fa_target *target, const md_fa_row *row)
{
    const md_st_row *program = &md_fa_stage(target)->row;
    md_cg_range range;
    md_cg_range_of(&range, target->program, target->stage, row->is_column);
    const md_cg_bytes bytes = md_fa_row_bytes(target, row);
    const bool keeps = row->keeps && range.n == 0 && bytes == MD_CG_NO_BYTES;
    return (md_cg_row_options){
        .program = target->program,
        .stage = target->stage,
        .dialect = MD_DEV_HOST,
        .access = row->is_strided ? MD_CG_STRIDED : MD_CG_UNIT,
        .streaming = row->is_streaming,
        .bytes = bytes,
        .is_column = row->is_column,
        .is_online = row->merges && program->is_online && program->n_levels > 1,
        .keep_points = keeps ? row->capacity : 0,
    };
}

/* The number of accumulators of a pass: four hide the latency of an addition. Two do where an exponential comes between
 * additions, and compile faster. */
static int32_t sums_of(const md_fa_target *target)
{
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    return work.transcendental > 0 ? 2 : 4;
}

static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_row *row)
{
    const struct {
        const char *name;
        int32_t value;
    } define[] = {{"VL", md_cg_width(target->facts)},
                  {"PREFETCH", row->prefetch},
                  {"CHUNK", row->chunk},
                  {"SUMS", sums_of(target)},
                  {"TILE", row->tile}};
    for (int32_t i = 0; i < MD_COUNT(define); i++)
        if (define[i].value > 0)
            md_strbuf_printf(out, "#define MD_%s %" PRId32 "\n", define[i].name, define[i].value);
}

md_status md_fa_row_emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_row *row = spec;
    const md_cg_row_options options = options_of(target, row);
    md_strbuf defines = {0};
    *out = (md_kn_source){.n_launches = 1};
    print_defines(&defines, target, row);
    md_status status = md_fa_emit_row(&out->launch[0], target, &options, row->source, &defines);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

void md_fa_row_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_row *row = spec;
    md_cg_row_options options = options_of(target, row);
    *out = (md_kn_envelope){0};
    if (!row->is_strided)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_cg_row_lane(&options));
    for (int32_t i = 0; i < md_fa_stage(target)->row.n_reductions; i++)
        if (md_cg_is_arg(md_fa_stage(target)->row.reduction[i].op)) { /* positions are 32-bit numbers */
            int32_t dim = target->program->index[md_fa_stage(target)->axis].dim;
            out->hi[dim] = INT32_MAX;
        }
    if (row->capacity > 0) {
        out->row_points_max = row->capacity;
        out->n_row_dims = 1;
        out->row_dim[0] = target->program->index[md_fa_stage(target)->axis].dim;
    }
}

double md_fa_row_length(const md_fa_target *target, const md_fa_row *row, const int64_t *size)
{
    md_cg_range range;
    md_cg_range_of(&range, target->program, target->stage, row->is_column);
    return md_cg_range_length(&range, target->program, target->stage, size);
}

/* The number of blocks, and of points of each (no more than matter for the grain). */
static void count_blocks(int64_t *blocks, int64_t *points, const md_fa_target *target, const md_fa_row *row,
                         const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t n_outer = st->n_outer - row->is_column;
    *blocks = md_st_points(target->program, n_outer, st->outer, size);
    *points = (int64_t)md_fa_row_length(target, row, size);
    if (row->is_column) {
        int64_t width = (row->tile > 0 ? row->tile : 16) * md_cg_width(target->facts);
        int64_t lanes = md_st_size(target->program, st->outer[n_outer], size);
        *blocks *= (lanes + width - 1) / width;
        *points = MD_MIN(*points, MANY_POINTS) * width;
    }
}

void md_fa_row_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_row *row, const int64_t *size)
{
    int64_t blocks = 0, points = 0;
    count_blocks(&blocks, &points, target, row, size);
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->blocks = blocks;
    launch->grain = md_fa_host_grain(blocks, points, target->facts);
    if (row->keeps) {
        md_cg_row_options options = options_of(target, row);
        md_cg_on_chip on_chip;
        md_cg_on_chip_make(&on_chip, &options);
        launch->scratch_bytes = md_cg_row_keep_bytes(&on_chip, row->capacity);
    }
}
