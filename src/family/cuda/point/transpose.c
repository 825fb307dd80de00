/* Transposing sweeps on a GPU: the text of kernels/cuda/transpose.cu, and its geometry. */
#include "family/emit.h"
#include "family/cuda/point/point.h"

#include "base/status.h"
#include "family/cuda/cuda.h"

#include <inttypes.h>

/* The side of a tile. Its rows are 128 bytes of the narrowest type, and a thread has four vectors of it: many small
 * blocks, so that some read while others write. Measured on an H200: twice the side, or half the vectors, cost 15 to
 * 40%. */
static int32_t tile_of(const md_fa_target *target)
{
    return 8 * md_fa_cuda_width(target->program, target->stage);
}

static int32_t threads_of(const md_fa_target *target)
{
    return tile_of(target) * 2; /* a tile has tile * tile / width vectors; a thread has 4 of them */
}

/* True if elements are moved one by one. Unaligned tensors of wide elements are: a warp moves a line, and no vector is
 * split. Narrow elements would be too many loads; there, vectors begin where rows of the output are aligned, so that
 * stores are whole. */
static bool is_one_by_one(const md_fa_target *target, bool is_unaligned)
{
    return is_unaligned && md_fa_cuda_width(target->program, target->stage) <= 4;
}

typedef struct writer {
    const md_fa_target *target;
    const md_st_stage *stage;
    const md_st_program *program;
    md_fa_transpose transpose;
    md_fa_cuda_tiling tiling;
    int32_t other[MD_MAX_RANK * 2], n_other; /* indices along which neither the lanes nor the tiles run */
    md_cg *lanes, *transposed; /* printers with the lanes along the axis, and along the transposed index */
    md_strbuf expr;
    int32_t n_loads; /* loads along the lanes */
    const md_fx_node *load[MD_CG_MAX_FETCHED];
    bool is_uniform[MD_CG_MAX_FETCHED];
} writer;

/* True if the lanes or the lines run over the index together with their own. */
static bool is_merged(const writer *w, int32_t index)
{
    for (int32_t of = 0; of < 2; of++)
        for (int32_t i = 0; i < w->transpose.n_before[of]; i++)
            if (w->transpose.before[of][i] == index)
                return true;
    return false;
}

static writer writer_of(const md_fa_target *target, md_fa_cuda_tiling tiling)
{
    writer w = {.target = target, .stage = md_fa_stage(target), .program = target->program, .tiling = tiling};
    md_fa_transpose_find(&w.transpose, target);
    if (!tiling.is_merged)
        w.transpose.n_before[MD_FA_OF_LANES] = w.transpose.n_before[MD_FA_OF_LINES] = 0;
    for (int32_t i = 0; i < w.stage->n_outer; i++)
        if (w.stage->outer[i] != w.transpose.index && !is_merged(&w, w.stage->outer[i]))
            w.other[w.n_other++] = w.stage->outer[i];
    return w;
}

static const char *dtype_of(const writer *w, const md_fx_node *load)
{
    return md_dtype_name(w->program->formula->tensor[load->id].dtype);
}

void md_fa_cuda_transpose_geometry(md_kn_geometries *out, const md_fa_target *target, md_fa_cuda_tiling tiling,
                                   const int64_t *size)
{
    writer w = writer_of(target, tiling);
    const int64_t tile = tile_of(target), most = 65535;
    const int64_t rows =
        tile +
        (tiling.is_unaligned && !is_one_by_one(target, true) ? md_fa_cuda_width(target->program, target->stage) : 0);
    int64_t lines = md_fa_transpose_points(&w.transpose, target, MD_FA_OF_LINES, size),
            lanes = md_fa_transpose_points(&w.transpose, target, MD_FA_OF_LANES, size);
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->grain = 1;
    int64_t points = md_st_points(target->program, w.n_other, w.other, size), across = (lanes + tile - 1) / tile,
            down = (lines + tile - 1) / tile;
    bool has_room = down <= most && points <= most; /* otherwise the kernel computes its place by divisions */
    launch->blocks = points * across * down;
    launch->grid[0] = md_fa_cuda_grid(has_room ? across : launch->blocks);
    launch->grid[1] = (int32_t)(has_room ? down : 1);
    launch->grid[2] = (int32_t)(has_room ? points : 1);
    launch->block[1] = launch->block[2] = 1;
    launch->block[0] = threads_of(target);
    launch->overlaps = true;
    for (int32_t i = 0; i < w.transpose.n; i++) {
        int64_t bytes = (int64_t)md_dtype_size(target->program->formula->tensor[w.transpose.load[i]->id].dtype);
        launch->scratch_bytes += rows * (tile * bytes + 4);
    }
}

/* ---- Text */

static void print_at(writer *w)
{
    md_strbuf *out = &w->expr;
    md_strbuf_add(out, "struct md_at {\n");
    for (int32_t i = 0; i < w->n_other; i++)
        md_strbuf_printf(out, "int64_t x%" PRId32 ";\n", w->other[i]);
    md_strbuf_add(out, "};\nMD_INLINE md_at md_find(const md_params *p, int64_t point)\n{\nmd_at at;\n");
    md_fa_cuda_print_decode(out, w->program, w->n_other, w->other, "point");
    for (int32_t i = 0; i < w->n_other; i++)
        md_strbuf_printf(out, "at.x%" PRId32 " = x%" PRId32 ";\n", w->other[i], w->other[i]);
    md_strbuf_add(out, "return at;\n}\n");
}

/* Merged indices stay 0: the last of them runs on. */
static void print_merged(writer *w)
{
    for (int32_t of = 0; of < 2; of++)
        for (int32_t i = 0; i < w->transpose.n_before[of]; i++)
            md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = 0;\n", w->transpose.before[of][i]);
}

/* Prints the head of a function, and its indices. */
static void print_head(writer *w, const char *name, const char *rest)
{
    md_strbuf_printf(&w->expr,
                     "MD_N_DECL MD_INLINE void %s(const md_params *p, const md_at &at, int64_t lane, int64_t line, %s, "
                     "md_n_t md_n)\n{\n",
                     name, rest);
    for (int32_t i = 0; i < w->n_other; i++)
        md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = at.x%" PRId32 ";\n", w->other[i], w->other[i]);
    print_merged(w);
    md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = lane, x%" PRId32 " = line;\n", w->stage->axis,
                     w->transpose.index);
}

/* Prints md_lead: lanes from the beginning of an output row to its next aligned address. */
static void print_lead(writer *w)
{
    md_strbuf body = {0}, value = {0};
    md_cg_begin(w->lanes, &body);
    md_cg_print_lead(w->lanes, &w->stage->store[0], &value);
    md_strbuf_add(&w->expr, "MD_INLINE int64_t md_lead(const md_params *p, const md_at &at, int64_t line)\n{\n");
    for (int32_t i = 0; i < w->n_other; i++)
        md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = at.x%" PRId32 ";\n", w->other[i], w->other[i]);
    print_merged(w);
    md_strbuf_printf(&w->expr, "const int64_t x%" PRId32 " = 0, x%" PRId32 " = line;\n", w->stage->axis,
                     w->transpose.index);
    md_strbuf_printf(&w->expr, "%sreturn %s;\n}\n", md_strbuf_text(&body), md_strbuf_text(&value));
    w->expr.failed |= body.failed || value.failed;
    md_strbuf_finish(&body);
    md_strbuf_finish(&value);
}

/* The loads of one printed function, and the struct that they fill. */
typedef struct fetch {
    const char *type, *name; /* name of the struct; of the function */
    int32_t n;
    const md_fx_node *const *load;
} fetch;

static void print_fetch(writer *w, md_cg *cg, const fetch *f, bool *is_uniform)
{
    char rest[48];
    md_strbuf fields = {0}, body = {0};
    md_cg_begin(cg, &body);
    for (int32_t i = 0; i < f->n; i++) {
        const char *field = NULL, *text = md_cg_fetch(cg, f->load[i], &field, &is_uniform[i]);
        if (!text)
            break;
        md_strbuf_printf(&fields, "%s l%" PRId32 ";\n", field, i);
        md_strbuf_printf(&body, "out->l%" PRId32 " = %s;\n", i, text);
    }
    md_strbuf_printf(&w->expr, "struct %s {\n%s};\n", f->type, md_strbuf_text(&fields));
    snprintf(rest, sizeof rest, "%s *out", f->type);
    print_head(w, f->name, rest);
    md_strbuf_printf(&w->expr, "%s}\n", md_strbuf_text(&body));
    w->expr.failed |= fields.failed || body.failed;
    md_strbuf_finish(&fields);
    md_strbuf_finish(&body);
}

static void bind(writer *w, const md_fx_node *load, const char *from, int32_t i, bool is_uniform)
{
    char name[24];
    snprintf(name, sizeof name, "%s_l%" PRId32, from, i);
    if (is_uniform)
        md_strbuf_printf(&w->expr, "const %s %s = %s->l%" PRId32 ";\n", md_cg_scalar_type(load->type), name, from, i);
    else
        md_strbuf_printf(&w->expr, "const %s %s = md_unpack_%s(%s->l%" PRId32 ");\n", md_cg_lane_type(load->type), name,
                         dtype_of(w, load), from, i);
    md_cg_bind(w->lanes, load, name, is_uniform);
}

static void print_out(writer *w)
{
    const char *value[MD_ST_MAX_STORES] = {NULL};
    bool is_uniform[MD_ST_MAX_STORES] = {false};
    print_head(w, "md_out", "const md_elem *elem, const md_transposed *transposed");
    md_cg_begin(w->lanes, &w->expr);
    for (int32_t i = 0; i < w->n_loads; i++)
        bind(w, w->load[i], "elem", i, w->is_uniform[i]);
    for (int32_t i = 0; i < w->transpose.n; i++)
        bind(w, w->transpose.load[i], "transposed", i, false);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        value[i] = md_cg_value(w->lanes, w->stage->store[i].value, &is_uniform[i]);
    for (int32_t i = 0; i < w->stage->n_stores; i++)
        md_cg_store(w->lanes, &w->stage->store[i], value[i], is_uniform[i]);
    md_strbuf_add(&w->expr, "}\n");
}

/* Points of an index with those before it. */
static void print_count(writer *w, const char *name, int32_t index, int32_t of)
{
    int32_t all[MD_MAX_RANK + 1] = {index};
    for (int32_t i = 0; i < w->transpose.n_before[of]; i++)
        all[i + 1] = w->transpose.before[of][i];
    md_fa_cuda_print_count(&w->expr, name, w->program, w->transpose.n_before[of] + 1, all);
}

/* As md_fa_cuda_print_aligned, but for the axes that merged indices run along: these stay 0. */
static void print_aligned_term(writer *w, int32_t tensor, int32_t rank, const md_fx_node *const *subscript)
{
    md_strbuf_printf(&w->expr, "any |= (uint64_t)p->t%" PRId32, tensor);
    for (int32_t a = 0; a + 1 < rank; a++)
        if (!is_merged(w, subscript[a]->id))
            md_strbuf_printf(&w->expr, " | (uint64_t)p->s%" PRId32 "_%" PRId32 " * %zu", tensor, a,
                             md_dtype_size(w->program->formula->tensor[tensor].dtype));
    md_strbuf_add(&w->expr, ";\n");
}

static void print_aligned(writer *w, uint32_t vectors)
{
    if (!w->tiling.is_merged) {
        md_fa_cuda_print_aligned(&w->expr, w->program, vectors, 1);
        return;
    }
    const md_fx_node *load = w->transpose.load[0];
    const md_st_store *store = &w->stage->store[0];
    md_strbuf_add(&w->expr, "MD_INLINE bool md_has_vectors(const md_params *p)\n{\nuint64_t any = 0;\n");
    print_aligned_term(w, load->id, load->n_args, load->arg);
    print_aligned_term(w, store->tensor, store->n_subscripts, store->subscript);
    md_strbuf_add(&w->expr, "return any % 16 == 0;\n}\n");
}

static void print_all(writer *w)
{
    bool unused[MD_FA_MAX_TRANSPOSED];
    uint32_t vectors = md_cg_unit_tensors(w->program, w->target->stage, w->stage->axis);
    md_strbuf_printf(&w->expr, "#define MD_EACH_TRANSPOSED(F)");
    for (int32_t i = 0; i < w->transpose.n; i++) {
        md_strbuf_printf(&w->expr, " F(%" PRId32 ", %s)", i, dtype_of(w, w->transpose.load[i]));
        vectors |= UINT32_C(1) << w->transpose.load[i]->id;
    }
    md_strbuf_add(&w->expr, "\n");
    print_count(w, "md_lanes", w->stage->axis, MD_FA_OF_LANES);
    print_count(w, "md_transposed_size", w->transpose.index, MD_FA_OF_LINES);
    print_aligned(w, vectors);
    print_at(w);
    if (w->tiling.is_unaligned)
        print_lead(w);
    print_fetch(w, w->transposed, &(fetch){"md_transposed", "md_fetch_transposed", w->transpose.n, w->transpose.load},
                unused);
    print_fetch(w, w->lanes, &(fetch){"md_elem", "md_fetch", w->n_loads, w->load}, w->is_uniform);
    print_out(w);
}

/* Finds the loads along the lanes: all that are not transposed. */
static void find_loads(writer *w)
{
    const md_fx_node *all[MD_CG_MAX_FETCHED];
    int32_t n = md_cg_fetchable(all, w->program, w->target->stage);
    for (int32_t i = 0; i < n; i++) {
        bool is_transposed = false;
        for (int32_t k = 0; k < w->transpose.n; k++)
            is_transposed |= md_fx_equal(w->program->formula, all[i], w->transpose.load[k]);
        if (!is_transposed)
            w->load[w->n_loads++] = all[i];
    }
}

static md_status assemble(md_kn_launch_source *launch, writer *w)
{
    md_strbuf defines = {0};
    bool is_single = is_one_by_one(w->target, w->tiling.is_unaligned);
    md_cg_print_params(&w->expr, launch->param, launch->n_params);
    print_all(w);
    if (w->tiling.is_unaligned && !is_single)
        md_strbuf_add(&defines, "#define MD_UNALIGNED 1\n");
    md_strbuf_printf(&defines,
                     "#define MD_VL %" PRId32 "\n#define MD_TILE %" PRId32 "\n#define MD_THREADS %" PRId32
                     "\n#define MD_UPDATE_PLAIN 1\n",
                     is_single ? 1 : md_fa_cuda_width(w->program, w->target->stage), tile_of(w->target),
                     threads_of(w->target));
    md_cg_print_uses(w->lanes, &defines);
    md_status status = md_cg_status(w->lanes);
    if (status == MD_OK)
        status = md_cg_status(w->transposed);
    return md_fa_end_launch(status, launch, MD_DEV_CUDA, "cuda/transpose.cu", &defines, &w->expr);
}

md_status md_fa_cuda_transpose_emit(md_kn_source *out, const md_fa_target *target, md_fa_cuda_tiling tiling)
{
    writer w = writer_of(target, tiling);
    md_cg_options options = {.program = target->program,
                             .stage = target->stage,
                             .dialect = MD_DEV_CUDA,
                             .lane = w.stage->axis,
                             .access = MD_CG_UNIT};
    find_loads(&w);
    w.lanes = md_cg_create(&options);
    options.lane = w.transpose.index;
    w.transposed = w.lanes ? md_cg_create(&options) : NULL;
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    md_status status = !w.transposed ? md_fail_memory() : md_fa_begin_launch(launch, target);
    if (status == MD_OK)
        status = assemble(launch, &w);
    md_cg_destroy(&w.lanes);
    md_cg_destroy(&w.transposed);
    md_strbuf_finish(&w.expr);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
