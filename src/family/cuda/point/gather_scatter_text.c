/* Prints the text of gathers and scatters on GPUs: md_expr.h of cuda/gather.cu and cuda/scatter.cu. Reading indices,
 * computing values and storing them are separate functions, so that a thread can do each step for several rows before
 * the next step. */
#include "family/emit.h"
#include "family/cuda/point/gather_scatter.h"

#include "base/status.h"
#include "codegen/row/scan_cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INDEX_LOADS = 8 };

typedef struct writer {
    const md_fa_target *target;
    const md_fa_cuda_gather_scatter *spec;
    const md_st_stage *stage;
    md_cg *cg;
    int32_t n_loads;
    const md_fx_node *load[MAX_INDEX_LOADS]; /* read once for a row, for subscripts */
    md_strbuf text;
    const char *value[MD_ST_MAX_STORES];
    bool is_uniform[MD_ST_MAX_STORES];
    bool is_raw; /* values are stored as they were loaded, without conversion */
} writer;

/* ---- Loads that are made first */

static bool is_outer(const md_st_stage *st, const md_fx_node *n)
{
    for (int32_t i = 0; i < st->n_outer; i++)
        if (md_fx_is_index(n, st->outer[i]))
            return true;
    return false;
}

/* Notes a load whose subscripts are outer indices. Such a load is in bounds whatever a condition says. */
static void note_load(writer *w, const md_fx_node *n)
{
    for (int32_t i = 0; i < n->n_args; i++)
        if (!is_outer(w->stage, n->arg[i]))
            return;
    for (int32_t i = 0; i < w->n_loads; i++)
        if (md_fx_equal(w->target->program->formula, w->load[i], n))
            return;
    if (w->n_loads < MAX_INDEX_LOADS)
        w->load[w->n_loads++] = n;
}

static bool note_inner(void *user, const md_fx_node *n)
{
    if (n->kind == MD_FX_LOAD)
        note_load(user, n);
    return true;
}

static bool note_node(void *user, const md_fx_node *n)
{
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++)
        md_fx_visit(n->arg[i], note_inner, user);
    return true;
}

static void find_loads(writer *w)
{
    md_cg_visit(w->stage, note_node, w);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        for (int32_t a = 0; a < w->stage->store[i].n_subscripts; a++)
            md_fx_visit(w->stage->store[i].subscript[a], note_inner, w);
}

/* ---- Functions */

static void bind(writer *w, bool knows_loads, bool knows_values)
{
    char name[24];
    for (int32_t i = 0; knows_loads && i < w->n_loads; i++) {
        snprintf(name, sizeof name, "r.i%" PRId32, i);
        md_cg_bind(w->cg, w->load[i], name, true);
    }
    for (int32_t i = 0; knows_values && i < w->stage->n_stores; i++) {
        snprintf(name, sizeof name, "v.v%" PRId32, i);
        if (w->stage->store[i].value->kind != MD_FX_CONST)
            md_cg_bind(w->cg, w->stage->store[i].value, name, w->is_uniform[i]);
    }
}

static void begin(writer *w, md_strbuf *out, bool knows_loads, bool knows_values)
{
    for (int32_t i = 0; i < w->stage->n_outer; i++)
        md_strbuf_printf(out, "const int64_t x%" PRId32 " = o.x%" PRId32 "; (void)x%" PRId32 ";\n", w->stage->outer[i],
                         w->stage->outer[i], w->stage->outer[i]);
    md_cg_begin(w->cg, out);
    bind(w, knows_loads, knows_values);
}

static void print_lane(md_strbuf *out, const writer *w)
{
    if (w->stage->axis >= 0)
        md_strbuf_printf(out, "int64_t x%" PRId32, w->stage->axis);
    else
        md_strbuf_add(out, "int64_t");
}

static void print_read(writer *w)
{
    md_strbuf *out = &w->text, body = {0};
    md_strbuf_add(out, "struct md_index {");
    for (int32_t i = 0; i < w->n_loads; i++)
        md_strbuf_printf(out, " %s i%" PRId32 ";", md_cg_scalar_type(w->load[i]->type), i);
    md_strbuf_add(out, " };\nMD_INLINE void md_read(const md_params *p, const md_outer &o, md_index &r)\n{\n(void)p, "
                       "(void)o, (void)r;\n");
    begin(w, &body, false, false);
    for (int32_t i = 0; i < w->n_loads; i++) {
        const char *value = md_cg_value(w->cg, w->load[i], NULL);
        if (value)
            md_strbuf_printf(&body, "r.i%" PRId32 " = %s;\n", i, value);
    }
    md_strbuf_add(out, md_strbuf_text(&body));
    md_strbuf_add(out, "}\n");
    out->failed |= body.failed;
    md_strbuf_finish(&body);
}

/* True if rows of 16-bit elements are only copied. Then converting them to f32 and back is most of the work, and is
 * left out. */
static bool is_plain_copy(const writer *w)
{
    const md_st_store *store = &w->stage->store[0];
    const md_fx_tensor *tensor = w->target->program->formula->tensor;
    md_dtype to = tensor[store->tensor].dtype;
    return w->stage->n_stores == 1 && store->assign == MD_FX_SET && store->value->kind == MD_FX_LOAD &&
           tensor[store->value->id].dtype == to && (to == MD_F16 || to == MD_BF16);
}

/* Replaces `const md_f x = md_load_T_unit...` by its raw form, if the text has only this one lane value. */
static void make_raw(writer *w, md_strbuf *body)
{
    char load[64], raw[64];
    const char *t = md_dtype_name(w->target->program->formula->tensor[w->stage->store[0].tensor].dtype);
    const char *text = md_strbuf_text(body), *type = strstr(text, "const md_f "), *call = NULL;
    snprintf(load, sizeof load, " = md_load_%s_unit", t);
    snprintf(raw, sizeof raw, " = md_fetch_%s_unit", t);
    call = type ? strstr(type, load) : NULL;
    if (!call || strchr(type, '\n') < call || strstr(type + 1, "const md_") ||
        strncmp(call + strlen(load), "_m(", 3) == 0)
        return;
    md_strbuf out = {0};
    md_strbuf_printf(&out, "%.*sconst md_raw_%s %.*s%s%s", (int)(type - text), text, t,
                     (int)(call - type - strlen("const md_f ")), type + strlen("const md_f "), raw,
                     call + strlen(load));
    md_strbuf_finish(body);
    *body = out;
    w->is_raw = true;
    for (int i = 0; i < 2; i++)
        md_strbuf_printf(
            &w->text,
            "MD_N_DECL MD_INLINE void md_store_%s_unit%s(void *t, int64_t o, const md_raw_%s &r, md_n_t n)\n{\n"
            "md_store_raw<md_t_%s>(t, o, r, n, %d);\n}\n",
            t, i == 0 ? "" : "_any", t, t, i == 0);
}

static const char *value_type(const writer *w, int32_t i)
{
    const md_fx_node *n = w->stage->store[i].value;
    if (w->is_raw)
        return w->target->program->formula->tensor[n->id].dtype == MD_BF16 ? "md_raw_bf16" : "md_raw_f16";
    return w->is_uniform[i] ? md_cg_scalar_type(n->type) : md_cg_lane_type(n->type);
}

static void print_get(writer *w)
{
    md_strbuf *out = &w->text, body = {0};
    begin(w, &body, true, false);
    for (int32_t i = 0; i < w->stage->n_stores; i++) {
        w->value[i] = md_cg_value(w->cg, w->stage->store[i].value, &w->is_uniform[i]);
        if (w->value[i])
            md_strbuf_printf(&body, "v.v%" PRId32 " = %s;\n", i, w->value[i]);
    }
    if (is_plain_copy(w))
        make_raw(w, &body);
    md_strbuf_add(out, "struct md_values {");
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_strbuf_printf(out, " %s v%" PRId32 ";", value_type(w, i), i);
    md_strbuf_add(
        out, " };\nMD_N_DECL MD_INLINE void md_row_get(const md_params *p, const md_outer &o, const md_index &r, ");
    print_lane(out, w);
    md_strbuf_add(out, ", md_n_t md_n, md_values &v)\n{\n(void)p, (void)o, (void)r, (void)md_n;\n");
    md_strbuf_add(out, md_strbuf_text(&body));
    md_strbuf_add(out, "}\n");
    out->failed |= body.failed;
    md_strbuf_finish(&body);
}

static void print_stores(writer *w)
{
    for (int32_t i = 0; i < w->stage->n_stores && md_cg_status(w->cg) == MD_OK; i++) {
        bool is_uniform = true;
        const char *value = md_cg_value(w->cg, w->stage->store[i].value, &is_uniform);
        md_cg_store(w->cg, &w->stage->store[i], value, is_uniform);
    }
}

static void print_put(writer *w)
{
    md_strbuf *out = &w->text;
    const char *own = w->spec->is_owned ? ", int64_t own, int64_t n_own" : "";
    md_strbuf_add(out,
                  "MD_N_DECL MD_INLINE void md_row_put(const md_params *p, const md_outer &o, const md_index &r, ");
    print_lane(out, w);
    md_strbuf_printf(out, ", md_n_t md_n, const md_values &v%s)\n{\n(void)p, (void)o, (void)r, (void)md_n, (void)v;\n",
                     own);
    begin(w, out, true, true);
    print_stores(w);
    md_strbuf_add(out, "}\n");
}

static void print_owned(writer *w)
{
    md_strbuf *out = &w->text, body = {0}, prologue = {0};
    const char *extent = md_cg_own_extent(w->cg, &w->stage->store[0]);
    md_strbuf_printf(out, "#define MD_OWN(p) %s\n", extent ? extent : "INT64_C(1)");
    md_strbuf_add(out, "MD_INLINE int md_owned(const md_params *p, const md_outer &o, const md_index &r, int64_t own, "
                       "int64_t n_own)\n{\n(void)p, (void)r;\n");
    begin(w, &prologue, true, true);
    md_cg_begin(w->cg, &body);
    bind(w, true, true);
    md_cg_hoist(w->cg, &prologue);
    md_cg_store(w->cg, &w->stage->store[0], "v.v0", w->is_uniform[0]);
    const char *condition = md_cg_store_condition(w->cg);
    md_strbuf_printf(out, "%sreturn %s;\n}\n", md_strbuf_text(&prologue), condition ? condition : "1");
    out->failed |= body.failed || prologue.failed;
    md_strbuf_finish(&body);
    md_strbuf_finish(&prologue);
}

static void print_all(writer *w)
{
    const md_st_program *program = w->target->program;
    char size[32];
    md_cg_print_row_at(&w->text, program, w->stage->n_outer, w->stage->outer);
    md_strbuf_printf(&w->text, "#define MD_LANE_COUNT(p) %s\n",
                     w->stage->axis >= 0 ? md_cg_size(size, program, w->stage->axis) : "INT64_C(1)");
    print_read(w);
    print_get(w);
    if (w->spec->is_owned)
        print_owned(w);
    print_put(w);
}

static md_status assemble(md_kn_launch_source *launch, writer *w)
{
    const md_fa_cuda_gather_scatter *spec = w->spec;
    md_strbuf defines = {0}, expr = {0};
    bool has_lanes = w->stage->axis >= 0;
    md_strbuf_printf(&defines,
                     "#define MD_VL %d\n#define MD_ALIGNED %d\n#define MD_THREADS %d\n#define MD_GROUP %d\n#define "
                     "MD_FLIGHT %d\n#define MD_ITEMS %d\n",
                     (int)md_fa_cuda_width(w->target->program, w->target->stage), spec->is_aligned,
                     (int)MD_FA_GATHER_SCATTER_THREADS, (int)spec->lanes, (int)spec->rows, (int)spec->items);
    md_strbuf_printf(&defines, "#define MD_HAS_LANES %d\n#define MD_OWNED %d\n#define MD_UPDATE_PLAIN %d\n", has_lanes,
                     spec->is_owned, spec->is_owned);
    if (spec->is_strided)
        /* for the kernel that takes any strides: one must always build */
        md_strbuf_add(&defines, "#define MD_ALLOW_STACK 1\n");
    md_cg_print_uses(w->cg, &defines);
    md_cg_print_params(&expr, launch->param, launch->n_params);
    md_strbuf_add(&expr, md_strbuf_text(&w->text));
    return md_fa_end_launch(MD_OK, launch, MD_DEV_CUDA, spec->source, &defines, &expr);
}

md_status md_fa_cuda_gather_scatter_emit(md_kn_source *out, const md_fa_target *target, const void *known)
{
    const md_fa_cuda_gather_scatter *spec = known;
    writer w = {.target = target, .spec = spec, .stage = md_fa_stage(target)};
    md_cg_options options = {.program = target->program,
                             .stage = target->stage,
                             .dialect = MD_DEV_CUDA,
                             .lane = w.stage->axis,
                             .access = spec->is_strided ? MD_CG_STRIDED : MD_CG_UNIT,
                             .is_owned = spec->is_owned};
    w.cg = md_cg_create(&options);
    if (!w.cg)
        return md_fail_memory();
    *out = (md_kn_source){.n_launches = 1};
    find_loads(&w);
    print_all(&w);
    md_status status = md_cg_status(w.cg);
    if (status == MD_OK && w.text.failed)
        status = md_fail_memory();
    if (status == MD_OK)
        status = md_fa_begin_launch(&out->launch[0], target);
    if (status == MD_OK)
        status = assemble(&out->launch[0], &w);
    md_cg_destroy(&w.cg);
    md_strbuf_finish(&w.text);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_cuda_gather_scatter_geometry(out, target, spec, shape->size);
}

const md_fa_kind md_fa_cuda_gather_scatter_kind = {.envelope = md_fa_cuda_gather_scatter_envelope,
                                                   .features = md_fa_cuda_gather_scatter_features,
                                                   .emit = md_fa_cuda_gather_scatter_emit,
                                                   .geometry = geometry};
