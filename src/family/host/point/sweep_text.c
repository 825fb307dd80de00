/* Prints the text of a sweep on the host: md_expr.h of kernels/host/pointwise.c and scatter.c. */
#include "family/emit.h"
#include "family/host/point/places.h"
#include "family/host/point/sweep.h"

#include "base/status.h"

#include <inttypes.h>

typedef struct writer {
    const md_fa_target *target;
    const md_fa_sweep *sweep;
    const md_st_stage *stage;
    int32_t n_flat, n_outer; /* indices merged into the lane axis, itself included; indices of the outer loop */
    md_strbuf prologue, body, lead;
    md_strbuf group_prologue, group; /* the same for all results of a group */
    md_fa_placed placed;
    md_strbuf places; /* what fills it */
    md_cg *cg;
    const char *condition; /* points where it is false are skipped; NULL: none */
} writer;

/* The statements for one vector: first all values, then the stores. */
static md_status print_body(writer *w)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    md_cg_begin(w->cg, &w->body);
    md_cg_hoist(w->cg, &w->prologue);
    if (w->sweep->is_placed)
        md_fa_placed_bind(&w->body, w->cg, w->target, &w->placed);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        value[i] = md_cg_value(w->cg, w->stage->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_cg_store(w->cg, &w->stage->store[i], value[i], is_uniform[i]);
    if (w->sweep->is_owned)
        w->condition = md_cg_store_condition(w->cg);
    if (w->sweep->is_streaming && !w->sweep->is_placed)
        md_cg_print_lead(w->cg, &w->stage->store[0], &w->lead);
    return md_cg_status(w->cg);
}

/* The statements for one vector of each result of a group: all reductions, then result after result. */
static md_status print_group(writer *w)
{
    const md_st_store *store = &w->stage->store[0];
    bool is_uniform = false;
    md_cg_begin(w->cg, &w->group);
    md_cg_hoist(w->cg, &w->group_prologue);
    md_cg_begin_group(w->cg, store->value);
    const char *value = md_cg_value(w->cg, store->value, &is_uniform);
    md_cg_store(w->cg, store, value, is_uniform);
    md_cg_end_group(w->cg);
    return md_cg_status(w->cg);
}

/* What a sweep begins with: parameters that no store changes, and the lanes of a row's last, partial vector. */
#define LOCALS                                                                                                         \
    "const md_params local = *params, *const p = &local;\n"                                                            \
    "const int tail = (int)((lane_end - lane) % MD_VECTOR_LANES);\n(void)tail;\n"

static void print_whole(md_strbuf *out, const writer *w, const char *body, bool repeats)
{
    const int32_t x = w->stage->axis;
    md_strbuf_printf(out,
                     "for (; x%" PRId32 " + MD_VECTOR_LANES <= lane_end; x%" PRId32
                     " += MD_VECTOR_LANES) {\nenum { md_n = MD_VECTOR_LANES };\n%s%s}\n",
                     x, x, body, repeats ? "phase += step;\nphase -= phase >= period ? period : 0;\n" : "");
}

/* The loop over the lanes of one outer point. A first or last part of fewer than MD_VECTOR_LANES lanes runs the same
 * text with a variable count; where only the last may be one, `tail` is its count in all rows. */
static void print_lanes(md_strbuf *out, const writer *w, const char *body)
{
    int32_t x = w->stage->axis;
    if (x < 0) {
        md_strbuf_add(out, body);
        return;
    }
    char period[32];
    const bool repeats = w->sweep->is_cyclic;
    md_strbuf_printf(out, "int64_t x%" PRId32 " = lane;\n", x);
    if (repeats)
        md_strbuf_printf(out, "const int64_t period = %s, step = MD_VL %% period;\nint64_t phase = lane %% period;\n",
                         md_cg_size(period, w->target->program, x));
    if (!w->sweep->is_streaming || w->sweep->is_placed) { /* a plan's vectors begin with the row */
        print_whole(out, w, body, repeats);
        md_strbuf_printf(out, "if (tail > 0) {\nconst int md_n = tail;\n%s}\n", body);
        return;
    }
    md_strbuf_printf(out, "int64_t part = md_min_si(%s, lane_end - lane);\n", md_strbuf_text(&w->lead));
    md_strbuf_printf(out, "for (;;) {\nif (part > 0) {\nconst int md_n = (int)part;\n%sx%" PRId32 " += part;\n%s}\n",
                     body, x, repeats ? "phase = (phase + part) % period;\n" : "");
    print_whole(out, w, body, repeats);
    md_strbuf_printf(out, "if (x%" PRId32 " >= lane_end) break;\npart = lane_end - x%" PRId32 ";\n}\n", x, x);
}

/* Indices of the points: all of the outer loop, or those besides the index of groups. */
static int32_t n_points(const writer *w)
{
    return w->n_outer - (w->sweep->n_group > 0);
}

static void print_groups(md_strbuf *out, const writer *w)
{
    char size[32];
    md_strbuf_printf(out, "((%s + MD_GROUP - 1) / MD_GROUP) * ",
                     md_cg_size(size, w->target->program, w->stage->outer[w->n_outer - 1]));
}

static void print_counts(md_strbuf *out, const writer *w)
{
    const md_st_program *program = w->target->program;
    int32_t lanes[MD_MAX_RANK * 2], n = 0;
    for (int32_t i = w->n_outer; i < w->stage->n_outer; i++)
        lanes[n++] = w->stage->outer[i];
    if (w->stage->axis >= 0)
        lanes[n++] = w->stage->axis;
    md_strbuf_add(out, "MD_INLINE int64_t md_points(const md_params *p)\n{\n(void)p;\nreturn ");
    if (w->sweep->n_group > 0)
        print_groups(out, w);
    md_cg_print_points(out, program, n_points(w), w->stage->outer);
    md_strbuf_add(out, ";\n}\nMD_INLINE int64_t md_lanes(const md_params *p)\n{\n(void)p;\nreturn ");
    md_cg_print_points(out, program, n, lanes);
    md_strbuf_add(out, ";\n}\n");
}

/* The size of the index by which a scatter's target is divided among blocks. */
static void print_own(md_strbuf *out, const writer *w)
{
    const char *extent = md_cg_own_extent(w->cg, &w->stage->store[0]);
    md_strbuf_printf(out, "MD_INLINE int64_t md_own(const md_params *p)\n{\n(void)p;\nreturn %s;\n}\n",
                     extent ? extent : "1");
}

static void print_sweep(md_strbuf *out, const writer *w)
{
    const md_st_program *program = w->target->program;
    print_counts(out, w);
    if (w->sweep->is_owned)
        print_own(out, w);
    md_strbuf_add(
        out,
        "/* Outer points [point, end), lanes [lane, lane_end) of each; neither is empty. */\n"
        "static void md_sweep(const md_params *params, int64_t point, int64_t end, int64_t lane, int64_t lane_end");
    md_strbuf_add(out, w->sweep->is_owned ? ", int64_t own, int64_t n_own)\n{\n" : ")\n{\n");
    md_strbuf_add(out, "(void)lane, (void)lane_end;\n" LOCALS);
    md_strbuf_add(out, md_strbuf_text(&w->places));
    md_cg_print_decode(out, program, w->n_outer, w->stage->outer, "point");
    md_strbuf_add(out, "for (;;) {\n");
    md_strbuf_add(out, md_strbuf_text(&w->prologue));
    if (w->condition)
        md_strbuf_printf(out, "if (%s) {\n", w->condition);
    print_lanes(out, w, md_strbuf_text(&w->body));
    md_strbuf_add(out, w->condition ? "}\n" : "");
    md_strbuf_add(out, "if (++point >= end) break;\n");
    md_cg_print_advance(out, program, w->n_outer, w->stage->outer);
    md_strbuf_add(out, "}\n}\n");
}

/* Points are groups; the last one of a row of groups may have fewer results, which are computed one by one. */
static void print_grouped_sweep(md_strbuf *out, const writer *w)
{
    const md_st_program *program = w->target->program;
    const int32_t y = w->stage->outer[w->n_outer - 1];
    char size[32];
    md_cg_size(size, program, y);
    print_counts(out, w);
    md_strbuf_printf(out,
                     "/* Points [point, end), each a group; lanes [lane, lane_end) of each; neither is empty. */\n"
                     "static void md_sweep(const md_params *params, int64_t point, int64_t end, int64_t lane, "
                     "int64_t lane_end)\n"
                     "{\n%sconst int64_t "
                     "groups = (%s + MD_GROUP - 1) / MD_GROUP;\n"
                     "for (; point < end; point++) {\nconst int64_t at = point / groups, first = point %% groups * "
                     "MD_GROUP;\n(void)at;\n",
                     LOCALS, size);
    md_cg_print_decode(out, program, n_points(w), w->stage->outer, "at");
    md_strbuf_printf(out, "if (%s - first >= MD_GROUP) {\n%s", size, md_strbuf_text(&w->group_prologue));
    print_lanes(out, w, md_strbuf_text(&w->group));
    md_strbuf_printf(out, "continue;\n}\nfor (int64_t x%" PRId32 " = first; x%" PRId32 " < %s; x%" PRId32 "++) {\n%s",
                     y, y, size, y, md_strbuf_text(&w->prologue));
    print_lanes(out, w, md_strbuf_text(&w->body));
    md_strbuf_add(out, "}\n}\n}\n");
}

/* Elements of contiguous tensors that are one axis are looked up in a table, unless lanes are bytes anyway. */
static void print_table(md_strbuf *out, const writer *w)
{
    int32_t from = 0;
    const int32_t bits = md_fa_sweep_table(&from, w->target, w->sweep, w->n_outer);
    if (bits > 0)
        md_strbuf_printf(out,
                         "#define MD_TABLE_BITS %" PRId32 "\n#define MD_TABLE_FROM t%" PRId32
                         "\n#define MD_TABLE_TO t%" PRId32 "\n",
                         bits, from, w->stage->store[0].tensor);
}

static md_status assemble(md_kn_launch_source *launch, const writer *w)
{
    md_strbuf defines = {0}, expr = {0};
    md_strbuf_printf(&defines, "#define MD_VL %" PRId32 "\n#define MD_BLOCK_POINTS %d\n", md_cg_width(w->target->facts),
                     (int)md_fa_sweep_block(w->sweep));
    if (w->sweep->is_streaming)
        md_strbuf_add(&defines, "#define MD_STREAMING 1\n");
    if (w->sweep->is_owned)
        md_strbuf_add(&defines, "#define MD_OWNED 1\n");
    if (w->sweep->n_group > 0)
        md_strbuf_printf(&defines, "#define MD_GROUP %" PRId32 "\n", w->sweep->n_group);
    if (w->sweep->is_cyclic)
        md_strbuf_printf(&defines, "#define MD_CYCLE %d\n", (int)MD_FA_CYCLE);
    if (w->sweep->is_placed)
        md_strbuf_printf(&defines, "#define MD_PLACED %d\n", (int)MD_FA_PLACED_LANES);
    print_table(&defines, w);
    md_cg_print_uses(w->cg, &defines);
    md_cg_print_params(&expr, launch->param, launch->n_params);
    if (w->sweep->is_placed)
        md_fa_placed_types(&expr, w->target, &w->placed);
    if (w->sweep->is_binned)
        w->sweep->print(&defines, &expr, w->target, w->sweep->is_split, 1);
    if (w->sweep->n_group > 0)
        print_grouped_sweep(&expr, w);
    else
        print_sweep(&expr, w);
    return md_fa_end_launch(MD_OK, launch, MD_DEV_HOST, w->sweep->source, &defines, &expr);
}

md_status md_fa_sweep_emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_sweep *sweep = spec;
    writer w = {.target = target, .sweep = sweep, .stage = md_fa_stage(target), .n_flat = 1};
    md_cg_options options = {.program = target->program,
                             .stage = target->stage,
                             .dialect = MD_DEV_HOST,
                             .lane = w.stage->axis,
                             .access = sweep->is_strided ? MD_CG_STRIDED : MD_CG_UNIT,
                             .streaming = sweep->is_streaming,
                             .is_cyclic = sweep->is_cyclic,
                             .is_owned = sweep->is_owned,
                             .is_binned = sweep->is_binned,
                             .fuses = sweep->fuses,
                             .n_grouped = sweep->n_group,
                             .grouped = sweep->n_group > 0 ? w.stage->outer[w.stage->n_outer - 1] : -1,
                             .bytes = md_fa_sweep_bytes(target, sweep)};
    uint32_t tensors = 0;
    if (sweep->is_cyclic)
        w.n_flat = options.n_flat = md_cg_cyclic(options.flat, &tensors, target->program, target->stage);
    else if (sweep->is_flat)
        w.n_flat = options.n_flat = md_cg_flat(options.flat, &tensors, target->program, target->stage);
    w.n_outer = w.stage->n_outer - (w.n_flat - 1);
    w.cg = md_cg_create(&options);
    if (!w.cg)
        return md_fail_memory();
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    md_status status = md_fa_begin_launch(launch, target);
    for (int32_t i = 0; status == MD_OK && i < sweep->n_extra; i++)
        launch->param[launch->n_params++] = sweep->extra[i];
    if (status == MD_OK && sweep->is_placed && md_fa_placed_find(&w.placed, target))
        status = md_fa_placed_make(&w.places, target, &w.placed, &options);
    if (status == MD_OK)
        status = print_body(&w);
    if (status == MD_OK && sweep->n_group > 0)
        status = print_group(&w);
    if (status == MD_OK && (w.body.failed || w.places.failed || w.prologue.failed || w.lead.failed || w.group.failed ||
                            w.group_prologue.failed))
        status = md_fail_memory();
    if (status == MD_OK)
        status = assemble(launch, &w);
    md_cg_destroy(&w.cg);
    md_strbuf_finish(&w.body);
    md_strbuf_finish(&w.prologue);
    md_strbuf_finish(&w.lead);
    md_strbuf_finish(&w.places);
    md_strbuf_finish(&w.group);
    md_strbuf_finish(&w.group_prologue);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_sweep_geometry(out, target, spec, shape->size);
}

const md_fa_kind md_fa_host_sweep_kind = {
    .envelope = md_fa_sweep_envelope, .features = md_fa_sweep_features, .emit = md_fa_sweep_emit, .geometry = geometry};
