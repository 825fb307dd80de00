/* Transposing sweeps on the host: which loads are transposed, the text of kernels/host/transpose.c, geometry and
 * cost. */
#include "family/emit.h"
#include "family/host/cycles_fit.h"
#include "family/host/point/sweep.h"

#include "base/status.h"
#include "codegen/codegen.h"
#include "family/cost.h"
#include "family/host/point/sweep_fit.h"

#include <inttypes.h>

enum { SIDE = 128 }; /* side of a block of tiles; host/transpose.c gets it as MD_SIDE */

/* Indices along which neither the lanes nor the tiles run. Returns their number. */
static int32_t others_of(int32_t out[MD_MAX_RANK * 2], const md_st_stage *st, int32_t index)
{
    int32_t n = 0;
    for (int32_t i = 0; i < st->n_outer; i++)
        if (st->outer[i] != index)
            out[n++] = st->outer[i];
    return n;
}

void md_fa_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, const int64_t *size)
{
    md_fa_transpose transpose;
    int32_t other[MD_MAX_RANK * 2];
    const md_st_stage *st = md_fa_stage(target);
    md_fa_transpose_find(&transpose, target);
    int32_t n = others_of(other, st, transpose.index);
    int64_t rows = md_st_size(target->program, transpose.index, size),
            lanes = md_st_size(target->program, st->axis, size);
    *out = (md_kn_geometries){0};
    out->launch[0].grain = 1;
    out->launch[0].blocks =
        md_st_points(target->program, n, other, size) * ((rows + SIDE - 1) / SIDE) * ((lanes + SIDE - 1) / SIDE);
}

static double points_of(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    return (double)md_st_points(target->program, st->n_outer, st->outer, size) *
           (double)md_st_size(target->program, st->axis, size);
}

/* A tile costs about a cycle for each value: reading, transposing in registers, reading again. Types other than f32 are
 * transposed in memory. */
void md_fa_transpose_features(md_fa_features *out, const md_fa_target *target, const int64_t *size)
{
    md_fa_transpose transpose;
    if (!md_fa_transpose_find(&transpose, target))
        return;
    md_kn_geometries geometry;
    md_fa_transpose_geometry(&geometry, target, size);
    for (int32_t i = 0; i < transpose.n; i++) {
        /* this takes the place of what the sweep counted for a load that is no vector */
        double cycles = transpose.load[i]->type == MD_F32 ? TILE_CYCLES : TILE_MEMORY_CYCLES;
        out->ops += (cycles - SCATTERED_CYCLES) * points_of(target, size) * md_fa_host_ops_per_cycle(target->facts);
    }
    out->parallel = md_fa_host_parallel((double)geometry.launch[0].blocks, target->facts);
}

/* Bytes between neighbouring lanes of a transposed load if the tensor is row-major. */
static int64_t lane_stride(const md_fa_target *target, const md_fx_node *load, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t stride = (int64_t)md_dtype_size(target->program->formula->tensor[load->id].dtype);
    for (int32_t i = load->n_args - 1; i >= 0 && !md_fx_is_index(load->arg[i], st->axis); i--)
        stride *= md_st_size(target->program, load->arg[i]->id, size);
    return stride;
}

/* Without tiles each lane reads a cache line of its own. Lines whose distance is a power of two share a few sets of the
 * caches, and are evicted before the next row uses them. */
void md_fa_transpose_penalty(md_fa_features *out, const md_fa_target *target, const int64_t *size)
{
    md_fa_transpose transpose;
    if (!md_fa_transpose_find(&transpose, target))
        return;
    for (int32_t i = 0; i < transpose.n; i++) {
        bool collides = lane_stride(target, transpose.load[i], size) % 1024 == 0 &&
                        md_st_size(target->program, md_fa_stage(target)->axis, size) > 64;
        out->ops += (collides ? COLLISION_CYCLES : LINE_CYCLES) * points_of(target, size) *
                    md_fa_host_ops_per_cycle(target->facts);
    }
}

/* ---- Text */

typedef struct writer {
    const md_fa_target *target;
    const md_st_stage *stage;
    md_fa_transpose transpose;
    int32_t other[MD_MAX_RANK * 2], n_other;
    md_cg *lanes, *transposed; /* printers with the lanes along the axis, and along the transposed index */
    md_strbuf text;
} writer;

/* Fills and transposes one tile: its row l is the vector at lane l. */
static md_status print_tile(writer *w, int32_t i)
{
    md_strbuf load = {0};
    const md_fx_node *node = w->transpose.load[i];
    const char *type = md_cg_lane_type(node->type);
    md_cg_begin(w->transposed, &load);
    const char *value = md_cg_lanes(w->transposed, node);
    md_strbuf_printf(&w->text, "%s tile%" PRId32 "[MD_VL] = {0};\nfor (int l = 0; l < n_lanes; l++) {\n", type, i);
    md_strbuf_printf(&w->text,
                     "const int64_t x%" PRId32 " = lane + l, x%" PRId32 " = line;\nconst int md_n = n_lines;\n",
                     w->stage->axis, w->transpose.index);
    md_strbuf_printf(&w->text, "%stile%" PRId32 "[l] = %s;\n}\nmd_transpose_tile_%s(tile%" PRId32 ");\n",
                     md_strbuf_text(&load), i, value ? value : "", md_cg_suffix(node->type, false), i);
    w->text.failed |= load.failed;
    md_strbuf_finish(&load);
    return md_cg_status(w->transposed);
}

/* The statements for one row of the transposed tiles. */
static md_status print_row(writer *w)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    char name[32];
    md_strbuf_printf(&w->text,
                     "for (int row = 0; row < n_lines; row++) {\nconst int64_t x%" PRId32 " = line + row, x%" PRId32
                     " = lane;\nconst int md_n = n_lanes;\n",
                     w->transpose.index, w->stage->axis);
    md_cg_begin(w->lanes, &w->text);
    for (int32_t i = 0; i < w->transpose.n; i++) {
        snprintf(name, sizeof name, "tile%" PRId32 "[row]", i);
        md_cg_bind(w->lanes, w->transpose.load[i], name, false);
    }
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        value[i] = md_cg_value(w->lanes, w->stage->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_cg_store(w->lanes, &w->stage->store[i], value[i], is_uniform[i]);
    md_strbuf_add(&w->text, "}\n");
    return md_cg_status(w->lanes);
}

static void print_sizes(writer *w)
{
    const md_st_program *program = w->target->program;
    char size[32];
    md_strbuf_printf(&w->text, "MD_INLINE int64_t md_lanes(const md_params *p)\n{\n(void)p;\nreturn %s;\n}\n",
                     md_cg_size(size, program, w->stage->axis));
    md_strbuf_printf(&w->text, "MD_INLINE int64_t md_transposed_size(const md_params *p)\n{\n(void)p;\nreturn %s;\n}\n",
                     md_cg_size(size, program, w->transpose.index));
}

static md_status print_all(writer *w)
{
    print_sizes(w);
    md_strbuf_add(&w->text, "/* n_lanes <= MD_VL lanes from `lane` on, for n_lines <= MD_VL positions of the other "
                            "index from `line` on. */\n"
                            "MD_INLINE void md_tile(const md_params *p, int64_t point, int64_t lane, int n_lanes, "
                            "int64_t line, int n_lines)\n{\n");
    md_cg_print_decode(&w->text, w->target->program, w->n_other, w->other, "point");
    for (int32_t i = 0; i < w->transpose.n; i++)
        MD_TRY(print_tile(w, i));
    MD_TRY(print_row(w));
    md_strbuf_add(&w->text, "}\n");
    return w->text.failed ? md_fail_memory() : MD_OK;
}

static md_status assemble(md_kn_launch_source *launch, writer *w, bool is_streaming)
{
    md_strbuf defines = {0}, params = {0};
    md_strbuf_printf(&defines, "#define MD_VL %" PRId32 "\n#define MD_SIDE %d\n", md_cg_width(w->target->facts),
                     (int)SIDE);
    if (is_streaming)
        md_strbuf_add(&defines, "#define MD_STREAMING 1\n");
    md_cg_print_params(&params, launch->param, launch->n_params);
    md_status status = print_all(w);
    md_cg_print_uses(w->lanes, &defines); /* after printing, when the functions in use are known */
    md_strbuf_add(&params, md_strbuf_text(&w->text));
    return md_fa_end_launch(status, launch, MD_DEV_HOST, "host/transpose.c", &defines, &params);
}

md_status md_fa_transpose_emit(md_kn_source *out, const md_fa_target *target, bool is_streaming)
{
    writer w = {.target = target, .stage = md_fa_stage(target)};
    md_fa_transpose_find(&w.transpose, target);
    w.n_other = others_of(w.other, w.stage, w.transpose.index);
    md_cg_options options = {.program = target->program,
                             .stage = target->stage,
                             .dialect = MD_DEV_HOST,
                             .lane = w.stage->axis,
                             .access = MD_CG_UNIT,
                             .streaming = is_streaming};
    w.lanes = md_cg_create(&options);
    options.lane = w.transpose.index;
    w.transposed = w.lanes ? md_cg_create(&options) : NULL;
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    md_status status = !w.transposed ? MD_OUT_OF_MEMORY : md_fa_begin_launch(launch, target);
    if (status == MD_OK)
        status = assemble(launch, &w, is_streaming);
    md_cg_destroy(&w.lanes);
    md_cg_destroy(&w.transposed);
    md_strbuf_finish(&w.text);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
